//! A gateway between a client and a provider that follows a script, with a home of its own.

use host_config::Config;
use host_gateway::{Gateway, Parts};
use host_registry::{Registry, Setup};
use host_runtime::WireReader;
use host_store::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use support::provider::{Provider, Reply};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A gateway that runs, and its provider.
pub(crate) struct World {
    pub(crate) provider: Provider,
    pub(crate) home: TempDir,
    pub(crate) origin: String,
    stop: watch::Sender<bool>,
    serving: Option<std::thread::JoinHandle<bool>>,
    http: reqwest::Client,
    client: Runtime,
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl World {
    /// Starts a gateway with these settings, in YAML; its upstream is a provider that gives these replies.
    pub(crate) fn start(settings: &str, replies: Vec<Reply>) -> World {
        World::with(settings, Provider::start("", replies))
    }

    pub(crate) fn with(settings: &str, provider: Provider) -> World {
        let home = tempfile::tempdir().unwrap();
        World::at(settings, provider, home)
    }

    /// Starts a gateway over a home that there is already.
    pub(crate) fn at(settings: &str, provider: Provider, home: TempDir) -> World {
        let parts = parts(settings, home.path(), &provider.origin());
        let store = Store::open(&home.path().join("sessions.db"), Arc::new(WireReader)).unwrap();
        let (stop, stopping) = watch::channel(false);
        let (told, address) = std::sync::mpsc::channel();
        let serving = std::thread::spawn(move || {
            let runtime = Gateway::runtime().unwrap();
            runtime.block_on(async move {
                let gateway = Gateway::bind(parts, store).await.unwrap();
                told.send(gateway.address().unwrap()).unwrap();
                let remake = || Err("the settings of a test do not change".to_owned());
                gateway.serve(None, Arc::new(remake), stopping, Arc::new(|_: &str| {})).await
            })
        });
        let origin = format!("http://{}", address.recv().unwrap());
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let client = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        World { provider, home, origin, stop, serving: Some(serving), http, client }
    }

    /// Sends a body as it is.
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Got {
        let mut request = self.http.post(format!("{}{path}", self.origin)).body(body);
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.run(async { got(request.send().await.unwrap()).await })
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        let request = self.http.get(format!("{}{path}", self.origin));
        self.run(async { got(request.send().await.unwrap()).await })
    }

    /// Runs what a client does at the same time as other things.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.client.block_on(work)
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Ends the gateway; returns whether all that ran could end, and its home.
    pub(crate) fn end(mut self) -> (bool, TempDir, Provider) {
        let _ = self.stop.send(true);
        let is_drained = self.serving.take().unwrap().join().unwrap();
        let World { home, provider, .. } = self;
        (is_drained, home, provider)
    }
}

async fn got(response: reqwest::Response) -> Got {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.bytes().await.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Got { status, headers, body: body.unwrap_or_else(|error| format!("BROKEN: {error}")) }
}

fn parts(settings: &str, home: &Path, upstream: &str) -> Parts {
    let loaded = host_config::parse(settings, "config.yaml");
    let is_serious = |one: &host_config::Diagnostic| one.severity > host_config::Severity::Notice;
    assert!(!loaded.diagnostics.iter().any(is_serious), "{:?}", loaded.diagnostics);
    let mut config: Config = loaded.config;
    "off".clone_into(&mut config.gateway.access_log);
    let registry = Registry::open(Setup {
        roots: Vec::new(),
        home: home.to_owned(),
        enabled: Vec::new(),
        disabled: Vec::new(),
        runner: None,
    });
    Parts {
        config,
        registry,
        home: home.to_owned(),
        listen: Some("127.0.0.1:0".to_owned()),
        upstream: Some(upstream.to_owned()),
        env: |_| None,
        subscribers: Vec::new(),
        counter: None,
    }
}

/// A conversation in Chat Completions that grows turn by turn.
pub(crate) struct Chat {
    pub(crate) messages: Vec<Value>,
    pub(crate) model: String,
    pub(crate) is_stream: bool,
}

impl Chat {
    pub(crate) fn new(task: &str) -> Chat {
        let messages = vec![
            json!({"role": "system", "content": "You are a careful agent."}),
            json!({"role": "user", "content": task}),
        ];
        Chat { messages, model: "test-model".to_owned(), is_stream: false }
    }

    /// Adds a call of a tool and its result of about so many characters.
    pub(crate) fn step(&mut self, nth: usize, chars: usize) {
        let id = format!("call_{nth}");
        let arguments = json!({ "path": format!("src/part_{nth}.rs") }).to_string();
        self.messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}]}));
        let line = format!("line of part {nth}: value_{nth} = {}; ", nth * 7919);
        let text = line.repeat(chars / line.len() + 1);
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }

    pub(crate) fn body(&self) -> String {
        json!({
            "model": self.model, "stream": self.is_stream, "messages": self.messages,
            "tools": [{"type": "function", "function": {"name": "read_file", "description": "Reads a file.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
        })
        .to_string()
    }
}
