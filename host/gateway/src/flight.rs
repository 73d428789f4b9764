//! A request on its way: sent, made smaller where the provider says that it is too long, and its answer begun.

use crate::body::Answer;
use crate::conversation::{Outgoing, Rewritten};
use crate::dress;
use crate::exchange::{Exchange, Trouble};
use crate::sessions::Slot;
use crate::settings::Provider;
use crate::setup::Setup;
use crate::turn::{Turn, account, is_stream, trouble_of};
use crate::upstream::{self, Begun, ERROR_BYTES_MAX, UpstreamError};
use bytes::Bytes;
use host_llm::{Failure, Kind, of_status};
use host_wire::RefusalKind;
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A request on its way.
pub(crate) struct Flight {
    pub(crate) exchange: Exchange,
    pub(crate) setup: Arc<Setup>,
    pub(crate) provider: Provider,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) turn: Arc<Turn>,
    pub(crate) slot: Arc<Slot>,
    /// The messages that leave, where they are not the client's own.
    pub(crate) rewritten: Option<Rewritten>,
    pub(crate) host_tools: HashSet<String>,
    pub(crate) engine: String,
    pub(crate) bytes: u64,
    /// A request that may be too long for the provider: the beginning of its answer is looked at before it is passed on.
    pub(crate) may_overflow: bool,
}

impl Flight {
    /// Sends the request, makes it smaller where the provider says that it is too long, and begins the answer.
    pub(crate) async fn fly(mut self, own_body: Bytes, arrived: Instant) -> Response<Answer> {
        let mut overflows = 0;
        loop {
            let dressed = dress::dress(&self.setup, &self.provider, &self.turn, self.rewritten.as_ref());
            self.host_tools = dressed.host_tools;
            let body = match dressed.body {
                Some(text) => {
                    self.headers.remove(hyper::header::CONTENT_ENCODING);
                    Bytes::from(text)
                }
                None => own_body.clone(),
            };
            self.bytes = body.len() as u64;
            self.exchange.line.sent_bytes = self.bytes;
            if overflows == 0 {
                self.exchange.left_after(arrived.elapsed());
            }
            let begun = match self.send(body).await {
                Ok(begun) => begun,
                Err(error) => return self.exchange.refuse(&trouble_of(&error)),
            };
            let failure = match self.look(begun).await {
                Look::Good(begun, first) => return self.answer(begun, first),
                Look::Bad(failed) => failed,
            };
            let text = String::from_utf8_lossy(&failure.body);
            let may_ask = &self.turn.may_ask_native;
            if dress::refuses_native(failure.status.as_u16(), &text) && may_ask.swap(false, Ordering::Relaxed) {
                self.slot.refuses_native();
                continue;
            }
            let is_overflow = failure.failure.kind == Kind::Overflow || failure.status == StatusCode::PAYLOAD_TOO_LARGE;
            if !is_overflow {
                return self.forward_error(failure);
            }
            self.exchange.app.metrics.overflows.inc();
            overflows += 1;
            match self.shrink(&failure).await {
                Some(smaller) if overflows <= host_core::pressure::OVERFLOWS_MAX => {
                    account(&mut self.exchange, &self.setup, &self.slot, &smaller);
                    (self.rewritten, self.engine) = (smaller.body, smaller.engine);
                }
                _ => {
                    let (tokens, window) = self.sizes(&failure).await;
                    let message = failure.failure.detail.clone();
                    return self.exchange.refuse(&Trouble::new(RefusalKind::Overflow { tokens, window }, message));
                }
            }
        }
    }

    async fn send(&self, body: Bytes) -> Result<Begun, UpstreamError> {
        let app = &self.exchange.app;
        let begun = app.upstream.send(&Method::POST, &self.url, &self.headers, body, &self.setup.settings).await?;
        app.metrics.retries.inc_by(u64::from(begun.retries));
        Ok(begun)
    }

    /// Looks at how an answer begins: an error may stand in its status or in the first of its events.
    async fn look(&self, mut begun: Begun) -> Look {
        let status = begun.response.status();
        if !status.is_success() {
            let headers = begun.response.headers().clone();
            let body = read_error(&mut begun.response, self.setup.settings.stall_time).await;
            let wait = host_llm::net::retry_after(&headers);
            let failure = of_status(status.as_u16(), wait, &String::from_utf8_lossy(&body));
            return Look::Bad(Failed { status, headers, body, failure });
        }
        if !self.may_overflow || !is_stream(begun.response.headers()) {
            return Look::Good(begun, Vec::new());
        }
        let mut held: Vec<Bytes> = Vec::new();
        let mut reader = host_wire::Opening::new(self.turn.envelope.dialect());
        loop {
            let piece = tokio::time::timeout(self.setup.settings.stall_time, begun.response.chunk()).await;
            let Ok(Ok(Some(piece))) = piece else { return Look::Good(begun, held) };
            let seen = reader.feed(&piece);
            held.push(piece);
            match seen {
                host_wire::Begins::NotYet => {}
                host_wire::Begins::Well => return Look::Good(begun, held),
                host_wire::Begins::Failed { code, message } => {
                    let error = serde_json::json!({ "error": { "code": code, "message": message } }).to_string();
                    let failure = of_status(400, None, &error);
                    if failure.kind != Kind::Overflow {
                        return Look::Good(begun, held);
                    }
                    let headers = begun.response.headers().clone();
                    return Look::Bad(Failed {
                        status: StatusCode::BAD_REQUEST,
                        headers,
                        body: Bytes::from(error),
                        failure,
                    });
                }
            }
        }
    }

    /// Has the conversation compacted further; none if nothing smaller was found.
    async fn shrink(&self, failed: &Failed) -> Option<Outgoing> {
        let app = Arc::clone(&self.exchange.app);
        let window = failed.failure.window;
        if let Some(window) = window {
            app.windows.learn(&self.provider, &self.turn.model, window);
        }
        let mut guard = Arc::clone(&self.slot.conversation).lock_owned().await;
        let (setup, turn, slot) = (Arc::clone(&self.setup), Arc::clone(&self.turn), Arc::clone(&self.slot));
        let work = move || {
            let smaller = guard.overflowed(&app.store, &setup, &turn, window);
            slot.is_light_as(guard.is_light());
            smaller
        };
        tokio::task::spawn_blocking(work).await.ok()?.ok()?
    }

    /// Returns how large the request is and what the provider takes, for an error that the client understands.
    async fn sizes(&self, failed: &Failed) -> (u64, u64) {
        let guard = self.slot.conversation.lock().await;
        let tokens = guard.live().map_or(self.bytes / 3, |live| live.prompt_tokens().count);
        (tokens, failed.failure.window.unwrap_or(self.turn.window))
    }

    fn forward_error(mut self, failed: Failed) -> Response<Answer> {
        self.exchange.line.problem = failed.failure.outcome();
        let mut response = Response::new(Answer::whole(failed.body));
        *response.status_mut() = failed.status;
        *response.headers_mut() = upstream::answer_headers(&failed.headers, true);
        self.exchange.sign(&mut response);
        response
    }

    /// Begins the answer to the client, and has its pieces follow.
    fn answer(mut self, begun: Begun, first: Vec<Bytes>) -> Response<Answer> {
        let is_changed = !self.host_tools.is_empty();
        let (sink, body) = Answer::streamed();
        let mut response = Response::new(body);
        *response.status_mut() = begun.response.status();
        *response.headers_mut() = upstream::answer_headers(begun.response.headers(), is_changed);
        self.exchange.sign(&mut response);
        tokio::spawn(crate::reply::pass_on(self.into_reply(), begun.response, first, sink));
        response
    }

    fn into_reply(self) -> crate::reply::Reply {
        crate::reply::Reply {
            exchange: self.exchange,
            setup: self.setup,
            provider: self.provider,
            url: self.url,
            headers: self.headers,
            turn: self.turn,
            slot: self.slot,
            rewritten: self.rewritten,
            host_tools: self.host_tools,
            bytes: self.bytes,
        }
    }
}

/// What was seen of an answer's beginning.
enum Look {
    /// It can be passed on: with what was read of it.
    Good(Begun, Vec<Bytes>),
    Bad(Failed),
}

/// An answer that is an error.
struct Failed {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    failure: Failure,
}

/// Reads what there is of an error within bounds of size and time.
async fn read_error(response: &mut reqwest::Response, time: Duration) -> Bytes {
    let mut bytes = Vec::new();
    while let Ok(Ok(Some(piece))) = tokio::time::timeout(time, response.chunk()).await {
        let room = ERROR_BYTES_MAX.saturating_sub(bytes.len()).min(piece.len());
        bytes.extend_from_slice(piece.get(..room).unwrap_or_default());
        if room < piece.len() {
            break;
        }
    }
    Bytes::from(bytes)
}
