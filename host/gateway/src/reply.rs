//! The provider's reply on its way to the client: passed on as it comes, read beside, and taken up again where the model
//! calls a recall tool.

use crate::body::{Answer, Broken, Sink};
use crate::conversation::Rewritten;
use crate::dress;
use crate::exchange::Exchange;
use crate::metrics::KindLabels;
use crate::sessions::Slot;
use crate::settings::Provider;
use crate::setup::Setup;
use crate::turn::{Turn, is_stream};
use crate::upstream;
use bytes::Bytes;
use engine_api::Usage;
use host_wire::{RefusalKind, Round, SseParser, ToolLoop, UsageReader};
use hyper::{HeaderMap, Method, Response};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a reply in one piece that are read for its usage; a longer one passes unread.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A reply on its way, and what it is the reply to.
pub(crate) struct Reply {
    pub(crate) exchange: Exchange,
    pub(crate) setup: Arc<Setup>,
    pub(crate) provider: Provider,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) turn: Arc<Turn>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) rewritten: Option<Rewritten>,
    pub(crate) host_tools: HashSet<String>,
    pub(crate) bytes: u64,
}

/// How the reading of a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The provider broke off or fell silent.
    Broken,
    /// The client no longer listens.
    Unheard,
}

/// Passes a reply on until its end, and hears its usage.
pub(crate) async fn pass_on(mut reply: Reply, response: reqwest::Response, first: Vec<Bytes>, sink: Sink) {
    let is_stream = is_stream(response.headers());
    let end = if reply.host_tools.is_empty() {
        reply.tee(response, first, &sink, is_stream).await
    } else {
        reply.with_tools(response, first, &sink, is_stream).await
    };
    reply.note(end);
    if end == End::Broken {
        // The connection breaks for the client as it broke for us, so that it tries again.
        let _ = sink.send(Err(Broken)).await;
    }
    reply.release().await;
}

/// Passes an answer on that nothing is read of.
pub(crate) fn through(mut exchange: Exchange, mut response: reqwest::Response, stall: Duration) -> Response<Answer> {
    let (sink, body) = Answer::streamed();
    let mut out = Response::new(body);
    *out.status_mut() = response.status();
    *out.headers_mut() = upstream::answer_headers(response.headers(), false);
    exchange.sign(&mut out);
    tokio::spawn(async move {
        let end = pieces(&mut response, stall, &sink, &mut |_| {}).await;
        if end == End::Broken {
            let _ = sink.send(Err(Broken)).await;
        }
        drop(exchange);
    });
    out
}

/// Passes pieces on as they come.
async fn pieces(
    response: &mut reqwest::Response,
    stall: Duration,
    sink: &Sink,
    each: &mut (dyn FnMut(&[u8]) + Send),
) -> End {
    loop {
        let piece = match next(response, stall, sink).await {
            Ok(Some(piece)) => piece,
            Ok(None) => return End::Whole,
            Err(end) => return end,
        };
        each(&piece);
        if sink.send(Ok(piece)).await.is_err() {
            return End::Unheard;
        }
    }
}

/// Waits for the next piece, as long as the client listens and the provider does not fall silent.
async fn next(response: &mut reqwest::Response, stall: Duration, sink: &Sink) -> Result<Option<Bytes>, End> {
    tokio::select! {
        piece = tokio::time::timeout(stall, response.chunk()) => match piece {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(_)) | Err(_) => Err(End::Broken),
        },
        () = sink.closed() => Err(End::Unheard),
    }
}

impl Reply {
    /// Passes the reply on byte for byte and reads its usage beside.
    async fn tee(&mut self, mut response: reqwest::Response, first: Vec<Bytes>, sink: &Sink, is_stream: bool) -> End {
        let dialect = self.turn.envelope.dialect();
        let mut ear = Ear::new(dialect, is_stream);
        for piece in first {
            ear.hear(&piece);
            if sink.send(Ok(piece)).await.is_err() {
                return End::Unheard;
            }
        }
        let end = pieces(&mut response, self.setup.settings.stall_time, sink, &mut |piece| ear.hear(piece)).await;
        if end == End::Whole
            && let Some(usage) = ear.usage()
        {
            self.hear(usage).await;
        }
        end
    }

    /// Passes the reply on without the calls of recall tools, answers those, and goes on with the model's next reply.
    async fn with_tools(
        &mut self,
        response: reqwest::Response,
        first: Vec<Bytes>,
        sink: &Sink,
        is_stream: bool,
    ) -> End {
        let dialect = self.turn.envelope.dialect();
        let mut tools = ToolLoop::new(dialect, self.host_tools.clone());
        let mut last = Round::default();
        let mut next = Some((response, first));
        let mut rounds = 0;
        while let Some((response, first)) = next.take() {
            let end = self.round(response, first, sink, is_stream, &mut tools).await;
            if end != End::Whole {
                return end;
            }
            rounds += 1;
            last = tools.end_round();
            if let Some(usage) = last.usage.clone() {
                self.hear(usage).await;
            }
            if last.host_calls.is_empty() {
                break;
            }
            self.exchange.app.metrics.engine_tools.inc_by(last.host_calls.len() as u64);
            let raws = self.answers(&last).await;
            let is_last = !last.client_calls.is_empty() || rounds >= self.setup.config.gateway.tool_rounds_max;
            if is_last {
                break;
            }
            if let Some(rewritten) = &mut self.rewritten {
                rewritten.messages.extend(raws);
            }
            match self.again().await {
                Ok(response) => next = Some((response, Vec::new())),
                Err(problem) => {
                    self.exchange.line.problem.clone_from(&problem);
                    let event = host_wire::refusal_event(dialect, &RefusalKind::Upstream, &problem);
                    let sent = if is_stream { sink.send(Ok(Bytes::from(event))).await.is_ok() } else { false };
                    return if sent { End::Whole } else { End::Broken };
                }
            }
        }
        let mut out = Vec::new();
        if is_stream {
            tools.finish(&last, &mut out);
        } else {
            out = tools.merged_body(&last).into_bytes();
        }
        if !out.is_empty() && sink.send(Ok(Bytes::from(out))).await.is_err() {
            return End::Unheard;
        }
        End::Whole
    }

    /// Reads one reply of the model into the loop, and passes on what the client may see.
    async fn round(
        &self,
        mut response: reqwest::Response,
        first: Vec<Bytes>,
        sink: &Sink,
        is_stream: bool,
        tools: &mut ToolLoop,
    ) -> End {
        let stall = self.setup.settings.stall_time;
        let mut parser = SseParser::default();
        let mut whole = Vec::new();
        let mut first = first.into_iter();
        loop {
            let piece = match first.next() {
                Some(piece) => Some(piece),
                None => match next(&mut response, stall, sink).await {
                    Ok(piece) => piece,
                    Err(end) => return end,
                },
            };
            let mut out = Vec::new();
            let Some(piece) = piece else {
                if is_stream {
                    parser.finish(&mut |event| tools.event(event, &mut out));
                } else if let Ok(body) = String::from_utf8(whole) {
                    tools.body(&body);
                }
                let is_heard = out.is_empty() || sink.send(Ok(Bytes::from(out))).await.is_ok();
                return if is_heard { End::Whole } else { End::Unheard };
            };
            if !is_stream {
                if whole.len() + piece.len() > REPLY_BYTES_MAX {
                    return End::Broken;
                }
                whole.extend_from_slice(&piece);
                continue;
            }
            if parser.feed(&piece, &mut |event| tools.event(event, &mut out)).is_err() {
                return End::Broken;
            }
            if !out.is_empty() && sink.send(Ok(Bytes::from(out))).await.is_err() {
                return End::Unheard;
            }
        }
    }

    /// Has the recall calls answered; returns them and their answers as messages, which later requests carry too.
    async fn answers(&self, round: &Round) -> Vec<String> {
        let dialect = self.turn.envelope.dialect();
        let (app, calls, items) = (Arc::clone(&self.exchange.app), round.host_calls.clone(), round.items.clone());
        let mut guard = Arc::clone(&self.slot.conversation).lock_owned().await;
        let work = move || {
            let results = guard.answer(&calls);
            let raws = host_wire::exchange(dialect, &items, &calls, &results);
            guard.insert(&app.store, raws.clone());
            raws
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }

    /// Asks the provider again, with the answers behind the request.
    async fn again(&mut self) -> Result<reqwest::Response, String> {
        let dressed = dress::dress(&self.setup, &self.provider, &self.turn, self.rewritten.as_ref());
        let body = Bytes::from(dressed.body.unwrap_or_default());
        self.bytes = body.len() as u64;
        let app = &self.exchange.app;
        let begun = app
            .upstream
            .send(&Method::POST, &self.url, &self.headers, body, &self.setup.settings)
            .await
            .map_err(|error| error.to_string())?;
        let status = begun.response.status();
        if !status.is_success() {
            return Err(format!("the provider answered {status} after a recall call"));
        }
        Ok(begun.response)
    }

    /// Hears what the provider says of the size of a request.
    async fn hear(&self, usage: Usage) {
        let app = Arc::clone(&self.exchange.app);
        for (kind, tokens) in [
            ("prompt", usage.prompt_tokens),
            ("completion", usage.completion_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ] {
            app.metrics.tokens.get_or_create(&KindLabels { kind }).inc_by(tokens);
        }
        let bytes = self.bytes;
        if self.slot.hears(&usage, bytes) {
            app.keeper.note(&self.slot);
            return;
        }
        let mut guard = Arc::clone(&self.slot.conversation).lock_owned().await;
        // The engine hears of it, and may begin to prepare a compaction; nobody waits for that.
        tokio::task::spawn_blocking(move || guard.record(&app.store, &usage, bytes));
    }

    fn note(&mut self, end: End) {
        match end {
            End::Whole => {}
            End::Unheard => {
                self.exchange.app.metrics.aborted.inc();
                "the client did not wait for the answer".clone_into(&mut self.exchange.line.problem);
            }
            End::Broken => "the provider's answer broke off".clone_into(&mut self.exchange.line.problem),
        }
    }

    /// Counts the text that the conversation holds in memory, and has others let go of theirs where it is too much.
    async fn release(&self) {
        let app = &self.exchange.app;
        if self.slot.is_at_rest() {
            return;
        }
        let bytes = {
            let guard = self.slot.conversation.lock().await;
            if guard.live().is_some() { self.turn.envelope.text().len() as u64 } else { 0 }
        };
        for other in app.sessions.resident(&self.slot, bytes) {
            // One that is busy is looked at again with its next request.
            if let Ok(mut guard) = Arc::clone(&other.conversation).try_lock_owned() {
                tokio::task::spawn_blocking(move || guard.let_go());
            }
        }
    }
}

/// Reads a reply beside its way.
struct Ear {
    parser: SseParser,
    reader: UsageReader,
    whole: Option<Vec<u8>>,
    is_deaf: bool,
}

impl Ear {
    fn new(dialect: engine_api::Dialect, is_stream: bool) -> Ear {
        Ear {
            parser: SseParser::default(),
            reader: UsageReader::new(dialect),
            whole: (!is_stream).then(Vec::new),
            is_deaf: false,
        }
    }

    fn hear(&mut self, piece: &[u8]) {
        if self.is_deaf {
            return;
        }
        match &mut self.whole {
            Some(whole) if whole.len() + piece.len() <= REPLY_BYTES_MAX => whole.extend_from_slice(piece),
            Some(_) => self.is_deaf = true,
            None => {
                let reader = &mut self.reader;
                self.is_deaf = self.parser.feed(piece, &mut |event| reader.event(event)).is_err();
            }
        }
    }

    fn usage(mut self) -> Option<Usage> {
        if self.is_deaf {
            return None;
        }
        match self.whole {
            Some(whole) => {
                self.reader.body(std::str::from_utf8(&whole).ok()?);
            }
            None => {
                let reader = &mut self.reader;
                self.parser.finish(&mut |event| reader.event(event));
            }
        }
        self.reader.usage()
    }
}
