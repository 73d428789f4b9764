//! One exchange with a client as it is accounted for: its id, its line in the access log, its refusals.

use crate::access::Line;
use crate::app::App;
use crate::body::Answer;
use crate::metrics::{KindLabels, RequestLabels};
use engine_api::Dialect;
use host_wire::RefusalKind;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The header that names a request; a client's own is kept.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header that says what was done.
const SAYS: HeaderName = HeaderName::from_static("x-palimpsest");
/// Characters of a client's request id that are kept.
const REQUEST_ID_CHARS_MAX: usize = 128;
/// Characters of a path that are logged.
const PATH_CHARS_MAX: usize = 256;

/// One exchange. When it is dropped, it is over: it is counted and logged.
pub(crate) struct Exchange {
    pub(crate) app: Arc<App>,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) line: Line,
    api: &'static str,
    started: Instant,
    says: String,
}

/// Why a client gets no answer of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: RefusalKind,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Trouble {
        Trouble { kind, message: message.into() }
    }
}

impl Exchange {
    pub(crate) fn begin(app: Arc<App>, method: &Method, path: &str, headers: &HeaderMap) -> Exchange {
        app.metrics.under_way.inc();
        let line = Line {
            time: if app.access.is_on() { jiff::Timestamp::now().to_string() } else { String::new() },
            request: request_id(headers),
            method: method.to_string(),
            path: path.chars().take(PATH_CHARS_MAX).collect(),
            status: 0,
            session: String::new(),
            client: String::new(),
            model: String::new(),
            provider: String::new(),
            action: String::new(),
            request_bytes: 0,
            sent_bytes: 0,
            overhead_ms: 0.0,
            elapsed_ms: 0.0,
            problem: String::new(),
        };
        Exchange { app, dialect: None, line, api: "other", started: Instant::now(), says: String::new() }
    }

    /// Says which API was asked, and in which dialect refusals are written.
    pub(crate) fn is_of(&mut self, api: &'static str, dialect: Option<Dialect>) {
        (self.api, self.dialect) = (api, dialect);
    }

    /// Notes how long it took from when the body was there until the request left.
    pub(crate) fn left_after(&mut self, overhead: Duration) {
        self.line.overhead_ms = millis(overhead);
        self.app.metrics.left_after(overhead);
    }

    /// Has the answer say what was done.
    pub(crate) fn says(&mut self, says: String) {
        self.says = says;
    }

    /// Adds our headers to an answer that is on its way.
    pub(crate) fn sign(&mut self, response: &mut Response<Answer>) {
        self.line.status = response.status().as_u16();
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.line.request)
            && !headers.contains_key(&REQUEST_ID)
        {
            headers.insert(REQUEST_ID, id);
        }
        if let Ok(says) = HeaderValue::from_str(&self.says)
            && !self.says.is_empty()
        {
            headers.insert(SAYS, says);
        }
    }

    /// Refuses in the caller's dialect.
    pub(crate) fn refuse(&mut self, trouble: &Trouble) -> Response<Answer> {
        self.app.metrics.refused.get_or_create(&KindLabels { kind: trouble.kind.name() }).inc();
        self.line.problem.clone_from(&trouble.message);
        let body = host_wire::refusal_body(self.dialect, &trouble.kind, &trouble.message);
        let mut response = plain(trouble.kind.status(), "application/json", body);
        if let Some(wait) = host_wire::refusal_retry_after(&trouble.kind) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        self.sign(&mut response);
        response
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let metrics = &self.app.metrics;
        metrics.under_way.dec();
        metrics.requests.get_or_create(&RequestLabels { api: self.api, status: self.line.status }).inc();
        self.line.elapsed_ms = millis(self.started.elapsed());
        self.app.access.write(&self.line, metrics);
    }
}

/// Makes a small answer of our own.
pub(crate) fn plain(status: u16, media_type: &'static str, body: impl Into<bytes::Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Returns the client's request id, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let own = headers.get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_sound = |id: &&str| !id.is_empty() && id.len() <= REQUEST_ID_CHARS_MAX;
    own.filter(is_sound).map_or_else(
        || {
            let nth = MADE.fetch_add(1, Ordering::Relaxed);
            format!("pal-{:x}-{nth:x}", std::process::id())
        },
        str::to_owned,
    )
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
