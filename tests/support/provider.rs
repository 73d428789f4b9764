//! A model provider on the loopback that follows a script, checks every request and remembers it.
//!
//! It speaks Chat Completions, Messages and Responses, as JSON and as event streams. A request that a real provider
//! would refuse fails the test that sent it, when the provider is dropped.

mod bodies;
mod checks;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http_body_util::{BodyExt, Channel, Full, Limited, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
pub use tokio::sync::Barrier;

/// A larger request is a fault of the test.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Pause between two pieces of an answer that drips.
const DRIP_PAUSE: Duration = Duration::from_millis(5);

/// The API that a request came for, known by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `…/chat/completions`.
    Chat,
    /// `…/messages`.
    Messages,
    /// `…/responses`.
    Responses,
}

/// A call of a tool that the model makes.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments; a text where the tool is a custom one of the Responses API.
    pub input: Value,
}

/// What the provider does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers with a text and calls of tools, and reports this many prompt tokens.
    Use(String, Vec<ToolUse>, u64),
    /// Answers with these events or this body as they are.
    Raw(String),
    /// Answers with a text.
    Answer(String),
    /// Answers with a text and reports this many prompt and answer tokens.
    Counted(String, u64, u64),
    /// Answers with a status, a body and headers.
    Status(u16, String, Vec<(&'static str, String)>),
    /// Refuses the prompt as too long, in the API's own words; the model's window in tokens.
    Overflow(u64),
    /// Never answers.
    Hang,
    /// Closes the connection before an answer.
    CloseEarly,
    /// Closes it in the middle of the answer.
    CloseMidway,
    /// Answers with something that is cut JSON.
    InvalidJson,
    /// Answers without text.
    Empty,
    /// Refuses in the API's own form.
    Refusal,
    /// Answers with a tool call and nothing else.
    ToolOnly,
    /// Answers with a text that was cut off.
    Truncated(String),
    /// Answers with a text longer than the request.
    TooLong,
    /// Answers with a web page and a status of success.
    Html,
    /// Answers with an event stream whether or not one was asked for.
    Stream(String),
    /// Answers with a text once as many requests are under way as the barrier wants.
    Together(Arc<Barrier>, String),
    /// Answers with a text, a few bytes at a time, and never ends if told so.
    Drip(String, bool),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The API it was for.
    pub api: Api,
    /// Its path.
    pub path: String,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, byte for byte.
    pub body: String,
    /// The body read; null if it is no JSON.
    pub json: Value,
}

impl Seen {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
    /// Returns the model it names.
    pub fn model(&self) -> &str {
        self.json.get("model").and_then(Value::as_str).unwrap_or_default()
    }
    /// Returns the text of the newest message.
    pub fn prompt(&self) -> String {
        checks::newest_text(self)
    }
}

type Script = Box<dyn FnMut(&Seen) -> Option<Reply> + Send>;

struct State {
    /// Real clients ask for more than a model's reply, and bring keys of their own.
    is_for_clients: bool,
    key: Option<String>,
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    problems: Mutex<Vec<String>>,
    forbidden: Mutex<Vec<String>>,
    /// Requests under way now, and the most there ever were.
    under_way: Mutex<(usize, usize)>,
}

/// The provider; it ends when it is dropped.
pub struct Provider {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

impl Provider {
    /// Starts a provider that gives these replies in order; a request beyond them is a fault. It wants this key, or
    /// none if it is empty.
    pub fn start(key: &str, replies: impl IntoIterator<Item = Reply>) -> Provider {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        Provider::with(key, move |_| replies.pop_front())
    }

    /// Starts a provider that decides on each request; `None` is a fault.
    pub fn with(key: &str, script: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) -> Provider {
        Provider::make(key, false, script)
    }

    /// Starts a provider for real clients: it takes any key, lists its model, counts tokens, and does not mind what else is
    /// asked.
    pub fn for_clients(script: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) -> Provider {
        Provider::make("", true, script)
    }

    fn make(key: &str, is_for_clients: bool, script: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) -> Provider {
        let state = Arc::new(State {
            is_for_clients,
            key: Some(key.to_owned()).filter(|key| !key.is_empty()),
            script: Mutex::new(Box::new(script)),
            seen: Mutex::default(),
            problems: Mutex::default(),
            forbidden: Mutex::default(),
            under_way: Mutex::default(),
        });
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime can be made");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        runtime.spawn(accept(listener, state.clone()));
        Provider { address, state, runtime: Some(runtime) }
    }

    /// Returns scheme, host and port.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
    /// Returns the base of OpenAI's APIs.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.origin())
    }
    /// Returns the base of Anthropic's API.
    pub fn anthropic_url(&self) -> String {
        self.origin()
    }
    /// Makes the arrival of a text a fault.
    pub fn forbid(&self, text: &str) {
        lock(&self.state.forbidden).push(text.to_owned());
    }
    /// Returns the requests that came, in order.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.state.seen).clone()
    }
    /// Returns the most requests that were under way at once.
    pub fn under_way_max(&self) -> usize {
        lock(&self.state.under_way).1
    }
    /// Returns what was wrong with the requests so far, and forgets it.
    pub fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.state.problems))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let problems = self.take_problems();
        if !problems.is_empty() && !std::thread::panicking() {
            panic!("the provider got requests that it must not get:\n{}", problems.join("\n"));
        }
    }
}

type Body = BoxBody<Bytes, io::Error>;

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(request, state.clone()));
            // A broken connection is what some replies are for.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Counts a request for as long as it is under way.
struct UnderWay(Arc<State>);

impl UnderWay {
    fn enter(state: &Arc<State>) -> UnderWay {
        let mut count = lock(&state.under_way);
        count.0 += 1;
        count.1 = count.1.max(count.0);
        UnderWay(state.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.0.under_way).0 -= 1;
    }
}

async fn serve(request: Request<Incoming>, state: Arc<State>) -> io::Result<Response<Body>> {
    let under_way = UnderWay::enter(&state);
    let (head, body) = request.into_parts();
    let bytes = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(io::Error::other)?.to_bytes();
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let path = head.uri.path().to_owned();
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let Some(api) = checks::api(&path) else {
        if state.is_for_clients {
            return Ok(beside(&head.method, &path, &body));
        }
        lock(&state.problems).push(format!("{} {path} is no path of an API", head.method));
        return Ok(respond(404, Vec::new(), "{}".to_owned()));
    };
    let json = serde_json::from_str(&body).unwrap_or_default();
    let seen = Seen { api, path, headers: headers.collect(), body, json };
    let key = checks::Key { wanted: state.key.as_deref(), is_any: state.is_for_clients };
    let problems = checks::check(&seen, head.method.as_str(), &key, &lock(&state.forbidden));
    lock(&state.problems).extend(problems);
    lock(&state.seen).push(seen.clone());
    let reply = (lock(&state.script))(&seen);
    let Some(reply) = reply else {
        lock(&state.problems).push(format!("a request that the script does not foresee: {}", seen.body));
        return Ok(respond(500, Vec::new(), "{}".to_owned()));
    };
    let response = perform(reply, &seen).await;
    drop(under_way);
    response
}

async fn perform(reply: Reply, seen: &Seen) -> io::Result<Response<Body>> {
    let wants_stream = seen.json.get("stream") == Some(&Value::Bool(true));
    let said = |said: bodies::Said<'_>| {
        Ok(if wants_stream {
            events(bodies::stream(seen, &said))
        } else {
            respond(200, Vec::new(), bodies::whole(seen, &said))
        })
    };
    match reply {
        Reply::Answer(answer) => said(bodies::Said::text(&answer)),
        Reply::Use(text, calls, prompt_tokens) => {
            said(bodies::Said { end: bodies::End::Called, calls: &calls, prompt_tokens, ..bodies::Said::text(&text) })
        }
        Reply::Raw(text) if wants_stream => Ok(events(text)),
        Reply::Raw(text) => Ok(respond(200, Vec::new(), text)),
        Reply::Counted(answer, prompt_tokens, answer_tokens) => {
            said(bodies::Said { prompt_tokens, answer_tokens, ..bodies::Said::text(&answer) })
        }
        Reply::Together(barrier, answer) => {
            barrier.wait().await;
            said(bodies::Said::text(&answer))
        }
        Reply::Status(status, body, headers) => Ok(respond(status, headers, body)),
        Reply::Overflow(window) => Ok(respond(400, Vec::new(), bodies::overflow(seen.api, window))),
        Reply::Hang => std::future::pending().await,
        Reply::CloseEarly => Err(io::Error::other("closed by the script")),
        Reply::CloseMidway => {
            let (mut sender, body) = Channel::new(1);
            tokio::spawn(async move {
                let _ = sender.send_data(Bytes::from_static(b"{\"choices\":[{\"mess")).await;
                sender.abort(io::Error::other("closed by the script"));
            });
            Ok(Response::new(body.boxed()))
        }
        Reply::InvalidJson => Ok(respond(200, Vec::new(), "{\"choices\": [{\"message\": ".to_owned())),
        Reply::Empty => said(bodies::Said::text("")),
        Reply::Refusal => said(bodies::Said { end: bodies::End::Refused, ..bodies::Said::text("") }),
        Reply::ToolOnly => said(bodies::Said { end: bodies::End::Called, ..bodies::Said::text("") }),
        Reply::Truncated(answer) => said(bodies::Said { end: bodies::End::Cut, ..bodies::Said::text(&answer) }),
        Reply::TooLong => said(bodies::Said::text(&"and so on ".repeat(seen.body.len() / 10 + 2_000))),
        Reply::Html => {
            Ok(respond(200, vec![("content-type", "text/html".to_owned())], "<!doctype html><p>hello".to_owned()))
        }
        Reply::Stream(answer) => Ok(events(bodies::stream(seen, &bodies::Said::text(&answer)))),
        Reply::Drip(answer, is_endless) => {
            let whole = bodies::whole(seen, &bodies::Said::text(&answer));
            let (mut sender, body) = Channel::new(1);
            tokio::spawn(async move {
                for piece in whole.into_bytes().chunks(16) {
                    if sender.send_data(Bytes::copy_from_slice(piece)).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(DRIP_PAUSE).await;
                }
                // Blanks after the answer keep it from ending.
                while is_endless && sender.send_data(Bytes::from_static(b" ")).await.is_ok() {
                    tokio::time::sleep(DRIP_PAUSE).await;
                }
            });
            Ok(Response::new(body.boxed()))
        }
    }
}

/// Answers what a client asks beside its turns.
fn beside(method: &hyper::Method, path: &str, body: &str) -> Response<Body> {
    if path.ends_with("/count_tokens") {
        return respond(200, Vec::new(), format!("{{\"input_tokens\":{}}}", body.len() / 4));
    }
    if path.ends_with("/models") && method == hyper::Method::GET {
        let model = r#"{"id":"test-model","object":"model","created":1,"owned_by":"test","type":"model","display_name":"test-model"}"#;
        return respond(
            200,
            Vec::new(),
            format!("{{\"object\":\"list\",\"data\":[{model}],\"models\":[],\"has_more\":false}}"),
        );
    }
    respond(404, Vec::new(), "{\"error\":{\"message\":\"not found\",\"type\":\"not_found\"}}".to_owned())
}

fn respond(status: u16, headers: Vec<(&'static str, String)>, body: String) -> Response<Body> {
    let mut builder = Response::builder().status(status);
    if headers.iter().all(|(name, _)| *name != "content-type") {
        builder = builder.header("content-type", "application/json");
    }
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Full::from(body).map_err(|never| match never {}).boxed()).expect("the script's headers are valid")
}

fn events(body: String) -> Response<Body> {
    respond(200, vec![("content-type", "text/event-stream".to_owned())], body)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
