//! The server: connections in, within bounds of number and time, and an orderly end.

use crate::access::AccessLog;
use crate::app::App;
use crate::body::{self, Answer};
use crate::exchange::{Exchange, Trouble};
use crate::route::{Operation, Own, Route, route};
use crate::settings::{Api, SettingsError};
use crate::setup::{Parts, Setup};
use crate::turn::{self, refusal_of, trouble_of};
use crate::upstream::{self, Upstream};
use crate::{keeper, reload};
use engine_api::Dialect;
use host_store::Store;
use host_wire::RefusalKind;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, UPGRADE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// The header that carries the gateway's own key.
const KEY_HEADER: &str = "x-palimpsest-key";
/// Pause after a connection could not be accepted, as where no more files can be opened.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of headers of one request; agents send some kilobytes.
const HEADER_BYTES_MAX: usize = 256 * 1024;
/// Headers of one request.
const HEADERS_MAX: usize = 256;
/// Bytes of the body of a request about the gateway itself.
const OWN_BODY_BYTES_MAX: usize = 64 * 1024;
/// Threads that wait for the store, for engines and for summaries.
pub(crate) const WAITING_THREADS_MAX: usize = 128;

/// Why the gateway could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// A setting it cannot do without is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The access log cannot be written.
    #[error("the access log {path:?} cannot be opened: {source}")]
    AccessLog {
        /// What `gateway.access_log` says.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The threads or the client cannot be made.
    #[error("the gateway cannot be made: {0}")]
    Make(String),
}

/// A gateway that listens.
pub struct Gateway {
    app: Arc<App>,
    listener: TcpListener,
    /// Remarks on settings that were passed over.
    pub problems: Vec<String>,
}

impl Gateway {
    /// Makes the threads that a gateway runs on.
    ///
    /// # Errors
    /// [`GatewayError::Make`].
    pub fn runtime() -> Result<tokio::runtime::Runtime, GatewayError> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().thread_name("gateway").max_blocking_threads(WAITING_THREADS_MAX);
        builder.build().map_err(|error| GatewayError::Make(error.to_string()))
    }

    /// Binds the address. Nothing is asked of the network.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn bind(parts: Parts, store: Store) -> Result<Gateway, GatewayError> {
        let (setup, problems) = Setup::new(parts)?;
        let address = setup.settings.listen;
        let log = &setup.config.gateway.access_log;
        let access = AccessLog::open(log).map_err(|source| GatewayError::AccessLog { path: log.clone(), source })?;
        let upstream = Upstream::new().map_err(GatewayError::Make)?;
        let listener = TcpListener::bind(address).await.map_err(|source| GatewayError::Listen { address, source })?;
        Ok(Gateway { app: Arc::new(App::new(setup, store, upstream, access)), listener, problems })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Returns the lines that tell for which providers prompts are cached by marks of ours.
    pub fn caching(&self) -> Vec<String> {
        self.app.setup().caching_lines()
    }

    /// Serves until `stop` says so; then no connection is accepted any more, and what runs gets
    /// `gateway.drain_seconds` to end. Returns whether all of it did.
    ///
    /// `reload` makes the parts anew when the settings have changed.
    pub async fn serve(
        self,
        settings_file: Option<PathBuf>,
        reload: Arc<dyn Fn() -> Result<Parts, String> + Send + Sync>,
        mut stop: watch::Receiver<bool>,
        say: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> bool {
        let Gateway { app, listener, .. } = self;
        let setup = app.setup();
        let watching = tokio::spawn(reload::watch(Arc::clone(&app), settings_file, reload, say));
        let keeping = tokio::spawn(keeper::run(Arc::clone(&app)));
        let connections = usize::try_from(setup.config.gateway.connections_max).unwrap_or(usize::MAX);
        let connections = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        let graceful = GracefulShutdown::new();
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(setup.settings.body_time)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEADER_BYTES_MAX);
        builder.http2().timer(TokioTimer::new()).max_header_list_size(HEADER_BYTES_MAX as u32);
        loop {
            // A place is taken before a connection is: those beyond wait in the system's queue.
            let place = tokio::select! {
                place = Arc::clone(&connections).acquire_owned() => place,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Ok(place) = place else { break };
            let stream = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Ok((stream, _)) = stream else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Without it, small events of a stream wait for the client's acknowledgements.
            let _ = stream.set_nodelay(true);
            let answering = Arc::clone(&app);
            let service = service_fn(move |request| {
                let app = Arc::clone(&answering);
                async move { Ok::<_, Infallible>(serve_one(app, request).await) }
            });
            let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
            app.metrics.connections.inc();
            let metrics = Arc::clone(&app.metrics);
            tokio::spawn(async move {
                // How a connection ends is the client's affair.
                let _ = connection.await;
                metrics.connections.dec();
                drop(place);
            });
        }
        app.stop();
        drop(listener);
        let drain = Duration::from_secs(app.setup().config.gateway.drain_seconds);
        let is_drained = tokio::time::timeout(drain, graceful.shutdown()).await.is_ok();
        watching.abort();
        keeping.abort();
        keeper::flush(&app).await;
        is_drained
    }
}

/// Answers one request; whatever happens, there is an answer.
async fn serve_one(app: Arc<App>, request: Request<Incoming>) -> Response<Answer> {
    let (head, body) = request.into_parts();
    let (method, uri, headers) = (head.method, head.uri, head.headers);
    let (path, query) = (uri.path().to_owned(), uri.query().map(str::to_owned));
    let mut exchange = Exchange::begin(Arc::clone(&app), &method, &path, &headers);
    let place = match route(&method, &path, headers.contains_key(UPGRADE)) {
        Ok(place) => place,
        Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::BadRequest, why)),
    };
    let Route { operation, provider, path } = place;
    let setup = app.setup();
    let (api, dialect) = name(&operation);
    exchange.is_of(api, dialect);
    if matches!(operation, Operation::Own(Own::Live | Own::Ready)) {
        return with_own(exchange, operation, body, &setup).await;
    }
    if let Some(key) = &setup.settings.key
        && !is_let_in(&headers, key.reveal())
    {
        let why = format!("the gateway wants its key in the header {KEY_HEADER}");
        return exchange.refuse(&Trouble::new(RefusalKind::Unauthorized, why));
    }
    if matches!(operation, Operation::Own(_)) {
        return with_own(exchange, operation, body, &setup).await;
    }
    // The permit is held until the answer begins; a stream beyond that costs little.
    let Ok(_permit) = Arc::clone(&app.requests).try_acquire_owned() else {
        let why = "more requests are under way than gateway.requests_max allows";
        return exchange.refuse(&Trouble::new(RefusalKind::Overloaded, why));
    };
    let place = (path.as_str(), query.as_deref());
    let named = provider.as_deref();
    match operation {
        Operation::Websocket => exchange
            .refuse(&Trouble::new(RefusalKind::UpgradeRequired, "the gateway speaks the Responses API over HTTP")),
        Operation::Generate(_) | Operation::Compact | Operation::CountTokens => {
            let body = match body::read(body, setup.settings.body_bytes_max, setup.settings.body_time).await {
                Ok(body) => body,
                Err(error) => return exchange.refuse(&Trouble::new(refusal_of(&error), error.to_string())),
            };
            exchange.line.request_bytes = body.len() as u64;
            match operation {
                Operation::CountTokens => turn::count_tokens(exchange, setup, named, place, headers, body).await,
                Operation::Generate(dialect) => {
                    turn::generate(exchange, setup, named, place, headers, body, dialect).await
                }
                _ => turn::generate(exchange, setup, named, place, headers, body, Dialect::Responses).await,
            }
        }
        Operation::Own(_) | Operation::Other => {
            let api = path.contains("/messages").then_some(Api::Anthropic);
            let provider = match setup.settings.provider(named, api, "") {
                Ok(provider) => provider.clone(),
                Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::NotFound, why)),
            };
            exchange.line.provider.clone_from(&provider.name);
            let own_key = setup.settings.key.as_ref().map(|key| key.reveal());
            let is_anthropic = headers.contains_key("anthropic-version");
            let provider = if is_anthropic && named.is_none() {
                setup.settings.provider(None, Some(Api::Anthropic), "").cloned().unwrap_or(provider)
            } else {
                provider
            };
            let out = upstream::request_headers(&headers, &provider, is_anthropic, own_key);
            let url = provider.url(place.0, place.1);
            let stall = setup.settings.stall_time;
            match app.upstream.stream(&method, &url, out, body::passing(body), &setup.settings).await {
                Ok(response) => crate::reply::through(exchange, response, stall),
                Err(error) => exchange.refuse(&trouble_of(&error)),
            }
        }
    }
}

async fn with_own(mut exchange: Exchange, operation: Operation, body: Incoming, setup: &Setup) -> Response<Answer> {
    let Operation::Own(own) = operation else {
        return exchange.refuse(&Trouble::new(RefusalKind::NotFound, "the gateway has nothing at this address"));
    };
    match body::read(body, OWN_BODY_BYTES_MAX, setup.settings.body_time).await {
        Ok(body) => crate::control::answer(exchange, own, body).await,
        Err(error) => exchange.refuse(&Trouble::new(refusal_of(&error), error.to_string())),
    }
}

/// Returns an operation's name in metrics, and the dialect in which it is refused.
fn name(operation: &Operation) -> (&'static str, Option<Dialect>) {
    match operation {
        Operation::Generate(Dialect::Anthropic) => ("messages", Some(Dialect::Anthropic)),
        Operation::Generate(Dialect::Responses) | Operation::Websocket => ("responses", Some(Dialect::Responses)),
        Operation::Generate(_) => ("chat_completions", Some(Dialect::OpenAiChat)),
        Operation::Compact => ("responses_compact", Some(Dialect::Responses)),
        Operation::CountTokens => ("count_tokens", Some(Dialect::Anthropic)),
        Operation::Own(_) => ("own", None),
        Operation::Other => ("other", None),
    }
}

/// Tells whether a client has the gateway's key: in the header of its own, or as its API key.
fn is_let_in(headers: &HeaderMap, key: &str) -> bool {
    let names = [KEY_HEADER, AUTHORIZATION.as_str(), "x-api-key", "api-key"];
    names.iter().filter_map(|name| headers.get(*name)).any(|value| upstream::carries(value, key))
}
