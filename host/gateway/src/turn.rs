//! One request for a model's reply: its conversation is found, decided on, sent, answered, and what the provider reports
//! is heard.

use crate::app::App;
use crate::body::{self, Answer};
use crate::conversation::{Conversation, Outgoing};
use crate::exchange::{Exchange, Trouble};
use crate::flight::Flight;
use crate::history::History;
use crate::metrics::{CompactionLabels, KindLabels};
use crate::sessions::Slot;
use crate::settings::Api;
use crate::setup::Setup;
use crate::upstream::{self, UpstreamError};
use bytes::Bytes;
use engine_api::Dialect;
use host_config::GatewayMode;
use host_core::Receipt;
use host_core::summariser::Place;
use host_wire::{Envelope, RefusalKind};
use hyper::{HeaderMap, Method, Response};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::OwnedMutexGuard;

/// A client's own wish for this request: compact first, with what the summary should dwell on.
const COMPACT_HEADER: &str = "x-palimpsest-compact";
/// A client's own wish for the mode of its session.
const MODE_HEADER: &str = "x-palimpsest-mode";
/// Where Codex' own compaction is understood.
const OPENAI_HOST: &str = "openai.com";
/// Characters of a focus that a header gives.
const FOCUS_CHARS_MAX: usize = 2_000;
/// Credentials and choices of a client that its summaries need as well.
const PLACE_HEADERS: [&str; 8] = [
    "authorization",
    "x-api-key",
    "api-key",
    "openai-organization",
    "openai-project",
    "chatgpt-account-id",
    "anthropic-version",
    "x-goog-api-key",
];

/// What finding a conversation goes by.
pub(crate) struct Asked {
    /// The client's own id for it.
    pub(crate) id: Option<String>,
    pub(crate) history: History,
    pub(crate) envelope: Arc<Envelope>,
}

impl Asked {
    /// Tells whether the request begins with a summary that the client made itself.
    pub(crate) fn is_client_summary(&self) -> bool {
        host_wire::begins_with_client_summary(&self.envelope)
    }
}

/// A compaction that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manual {
    pub(crate) focus: String,
    pub(crate) keep_exchanges: u32,
}

/// A request, as far as a conversation needs to know it.
pub(crate) struct Turn {
    pub(crate) envelope: Arc<Envelope>,
    pub(crate) history: History,
    pub(crate) model: String,
    pub(crate) window: u64,
    pub(crate) client: Option<String>,
    pub(crate) place: Option<Place>,
    /// The client compacts by itself.
    pub(crate) is_native: bool,
    /// The provider may be asked to compact on its side: it has not refused to in this session.
    pub(crate) may_ask_native: Arc<AtomicBool>,
    pub(crate) manual: Option<Manual>,
}

impl Turn {
    /// Returns the credentials under which the client's own provider can be asked for summaries.
    fn place(url: &str, headers: &HeaderMap) -> Place {
        let known = PLACE_HEADERS.iter().filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        Place { url: url.to_owned(), headers: known.collect() }
    }
}

/// Answers a request for a model's reply.
pub(crate) async fn generate(
    mut exchange: Exchange,
    setup: Arc<Setup>,
    named: Option<&str>,
    place: (&str, Option<&str>),
    headers: HeaderMap,
    body: Bytes,
    dialect: Dialect,
) -> Response<Answer> {
    let arrived = Instant::now();
    exchange.line.request_bytes = body.len() as u64;
    let text = match body::text(&body, &headers, setup.settings.body_bytes_max) {
        Ok(text) => text,
        Err(error) => return exchange.refuse(&Trouble::new(refusal_of(&error), error.to_string())),
    };
    let is_object = text.trim_start().starts_with('{');
    let envelope = match Envelope::read(text, Some(dialect)) {
        Ok(envelope) => envelope,
        // A request whose history is at the provider, or that is not what it seems, is the provider's to judge.
        Err(host_wire::WireError::NoMessages { .. }) if is_object => {
            return pass(exchange, &setup, named, place, headers, body, Some(dialect)).await;
        }
        Err(error) => return exchange.refuse(&Trouble::new(RefusalKind::BadRequest, error.to_string())),
    };
    let model = envelope.model().unwrap_or_else(|| setup.config.model.default.clone());
    exchange.line.model.clone_from(&model);
    let provider = match setup.settings.provider(named, Some(Api::of(dialect)), &model) {
        Ok(provider) => provider.clone(),
        Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::NotFound, why)),
    };
    exchange.line.provider.clone_from(&provider.name);
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let hint = host_wire::session_hint(&envelope, &header);
    exchange.line.client = hint.client.unwrap_or_default().to_owned();
    let mode = match header(MODE_HEADER).as_deref() {
        Some("native") => GatewayMode::Native,
        Some("transparent") => GatewayMode::Transparent,
        _ => setup.settings.mode_of(hint.client),
    };
    // A provider that does not know the trigger would answer it as any message, and Codex could not go on; one that does
    // not know the endpoint would refuse it.
    let is_foreign = !provider.base.contains(OPENAI_HOST);
    let compaction = host_wire::recognise(&envelope, &header, place.0)
        .filter(|call| mode == GatewayMode::Native || (is_foreign && crate::native::is_of_openai_only(call.kind)));
    let is_aside = compaction.is_none() && host_wire::is_side_call(&envelope, &header);
    if at_the_provider(&envelope) || is_aside {
        return pass(exchange, &setup, named, place, headers, body, Some(dialect)).await;
    }
    let url = provider.url(place.0, place.1);
    let own_key = setup.settings.key.as_ref().map(|key| key.reveal());
    let out = upstream::request_headers(&headers, &provider, dialect == Dialect::Anthropic, own_key);
    let history = History::of(&envelope);
    let window = exchange.app.windows.of(&provider, &model, &setup.config, &setup.prices);
    let mut turn = Turn {
        place: Some(Turn::place(&url, &out)),
        client: hint.client.map(str::to_owned),
        is_native: mode == GatewayMode::Native,
        may_ask_native: Arc::new(AtomicBool::new(true)),
        manual: header(COMPACT_HEADER)
            .map(|focus| Manual { focus: focus.trim().chars().take(FOCUS_CHARS_MAX).collect(), keep_exchanges: 0 }),
        model,
        window,
        history,
        envelope: Arc::new(envelope),
    };
    if let Some(call) = compaction {
        return crate::native::answer(exchange, setup, turn, call, hint.id).await;
    }
    let (mut body, mut out) = (body, out);
    match crate::native::expand(&exchange.app, &turn.envelope).await {
        Ok(Some(expanded)) => {
            // What leaves is never the handle, which is nobody's but ours.
            body = Bytes::copy_from_slice(expanded.text().as_bytes());
            out.remove(hyper::header::CONTENT_ENCODING);
            (turn.history, turn.envelope) = (History::of(&expanded), Arc::new(expanded));
        }
        Ok(None) => {}
        Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::BadRequest, why)),
    }
    let turn = Arc::new(turn);
    let slot = match find(&exchange.app, &turn, hint.id).await {
        Ok(slot) => slot,
        Err(why) => {
            // Without a store there is no conversation, but there still is a request.
            exchange.app.metrics.store_errors.inc();
            exchange.line.problem = why;
            return pass(exchange, &setup, named, place, headers, body, Some(dialect)).await;
        }
    };
    exchange.line.session.clone_from(&slot.name);
    turn.may_ask_native.store(slot.may_ask_native(), Ordering::Relaxed);
    let outgoing = decide(&mut exchange, &setup, &turn, &slot).await;
    slot.note(&turn.history);
    let may_overflow = outgoing.receipt.is_some();
    account(&mut exchange, &setup, &slot, &outgoing);
    let flight = Flight {
        exchange,
        provider,
        url,
        headers: out,
        slot,
        engine: outgoing.engine,
        rewritten: outgoing.body,
        host_tools: HashSet::new(),
        bytes: 0,
        may_overflow,
        turn,
        setup,
    };
    flight.fly(body, arrived).await
}

/// Tells whether the history is at the provider, so that what is here is not all of it.
fn at_the_provider(envelope: &Envelope) -> bool {
    ["previous_response_id", "conversation"].iter().any(|key| envelope.member(key).is_some_and(|raw| raw != "null"))
}

/// Finds a request's conversation.
pub(crate) async fn find(app: &Arc<App>, turn: &Arc<Turn>, id: Option<String>) -> Result<Arc<Slot>, String> {
    let asked = Asked { id, history: turn.history.clone(), envelope: Arc::clone(&turn.envelope) };
    if let Some(slot) = app.sessions.find(&asked) {
        return Ok(slot);
    }
    let (app, dialect) = (Arc::clone(app), turn.envelope.dialect());
    let opened = tokio::task::spawn_blocking(move || app.sessions.open(&app.store, &asked, dialect)).await;
    opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Decides on a request, on a thread that may wait where a decision is near; a failure leaves the request as it came.
async fn decide(exchange: &mut Exchange, setup: &Arc<Setup>, turn: &Arc<Turn>, slot: &Arc<Slot>) -> Outgoing {
    let app = Arc::clone(&exchange.app);
    if slot.takes(setup, turn) {
        app.keeper.note(slot);
        return Outgoing::as_it_came();
    }
    let mut guard: OwnedMutexGuard<Conversation> = Arc::clone(&slot.conversation).lock_owned().await;
    let (setup, turn, slot) = (Arc::clone(setup), Arc::clone(turn), Arc::clone(slot));
    let prepared = tokio::task::spawn_blocking(move || {
        // What left at once comes first; what this request holds as well need not be stored twice.
        let waiting = slot.take_waiting();
        for earlier in waiting.turns.iter().filter(|earlier| !turn.history.goes_beyond(&earlier.history)) {
            if guard.keep(&app.store, earlier).is_err() {
                app.metrics.store_errors.inc();
            }
        }
        let (reported, answered) = slot.heard();
        guard.heard(reported, answered);
        let prepared = guard.prepare(&app.store, &setup, &turn);
        // A report for each of them is of no use for a decision; they are for the record.
        let _ = guard.keep_usages(&app.store, &waiting.usages);
        slot.is_light_as(guard.is_light());
        (prepared, app)
    });
    match prepared.await {
        Ok((Ok(outgoing), _)) => outgoing,
        Ok((Err(error), app)) => {
            app.metrics.store_errors.inc();
            exchange.line.problem = error.to_string();
            Outgoing::as_it_came()
        }
        Err(error) => {
            exchange.line.problem = error.to_string();
            Outgoing::as_it_came()
        }
    }
}

/// Notes what was done to a conversation: in the answer's header, the log and the metrics.
pub(crate) fn account(exchange: &mut Exchange, setup: &Setup, slot: &Slot, outgoing: &Outgoing) {
    let receipt = outgoing.receipt.as_ref();
    let is_compacted = receipt.is_some_and(|receipt| receipt.action == "compacted");
    let action = match receipt {
        Some(_) if is_compacted => "compacted",
        _ if outgoing.is_compacted => "view",
        _ => "none",
    };
    action.clone_into(&mut exchange.line.action);
    let saved = receipt.filter(|_| is_compacted).map_or(0, saved);
    if let Some(receipt) = receipt.filter(|_| is_compacted) {
        count(exchange, receipt);
    }
    if setup.config.gateway.response_header {
        let engine = if outgoing.engine.is_empty() { &setup.config.context.engine } else { &outgoing.engine };
        exchange.says(format!("engine={engine}; action={action}; saved={saved}; session={}", slot.name));
    }
}

fn saved(receipt: &Receipt) -> u64 {
    receipt.tokens_before.saturating_sub(receipt.tokens_after)
}

fn count(exchange: &Exchange, receipt: &Receipt) {
    let metrics = &exchange.app.metrics;
    let trigger = receipt.trigger.map_or_else(|| "none".to_owned(), |trigger| trigger.to_string());
    let labels = CompactionLabels { engine: receipt.engine_used.clone(), trigger };
    metrics.compactions.get_or_create(&labels).inc();
    metrics.tokens.get_or_create(&KindLabels { kind: "saved" }).inc_by(saved(receipt));
    if !receipt.fallbacks.is_empty() {
        metrics.fallbacks.inc();
    }
}

pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(hyper::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"))
}

pub(crate) fn trouble_of(error: &UpstreamError) -> Trouble {
    let kind = match error {
        UpstreamError::Unreachable(_) => RefusalKind::Upstream,
        UpstreamError::Late(_) => RefusalKind::Timeout,
        UpstreamError::Invalid(_) => RefusalKind::Internal,
    };
    Trouble::new(kind, error.to_string())
}

pub(crate) fn refusal_of(error: &body::BodyError) -> RefusalKind {
    match error {
        body::BodyError::TooLarge(_) => RefusalKind::TooLarge,
        body::BodyError::Late(_) => RefusalKind::Timeout,
        body::BodyError::Encoding(_) => RefusalKind::Unsupported,
        body::BodyError::Broken(_) | body::BodyError::Garbled(_) | body::BodyError::NoText(_) => {
            RefusalKind::BadRequest
        }
    }
}

/// Sends a request through as it is: one that belongs to no conversation.
pub(crate) async fn pass(
    mut exchange: Exchange,
    setup: &Arc<Setup>,
    named: Option<&str>,
    place: (&str, Option<&str>),
    headers: HeaderMap,
    body: Bytes,
    dialect: Option<Dialect>,
) -> Response<Answer> {
    let provider = match setup.settings.provider(named, dialect.map(Api::of), &exchange.line.model) {
        Ok(provider) => provider.clone(),
        Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::NotFound, why)),
    };
    exchange.line.provider.clone_from(&provider.name);
    exchange.line.sent_bytes = body.len() as u64;
    let own_key = setup.settings.key.as_ref().map(|key| key.reveal());
    let out = upstream::request_headers(&headers, &provider, dialect == Some(Dialect::Anthropic), own_key);
    let url = provider.url(place.0, place.1);
    let sent = exchange.app.upstream.send(&Method::POST, &url, &out, body, &setup.settings).await;
    match sent {
        Ok(begun) => crate::reply::through(exchange, begun.response, setup.settings.stall_time),
        Err(error) => exchange.refuse(&trouble_of(&error)),
    }
}

/// Answers how large a request is: of a compacted conversation, what would leave is counted.
pub(crate) async fn count_tokens(
    exchange: Exchange,
    setup: Arc<Setup>,
    named: Option<&str>,
    place: (&str, Option<&str>),
    headers: HeaderMap,
    body: Bytes,
) -> Response<Answer> {
    let dialect = Dialect::Anthropic;
    let text = body::text(&body, &headers, setup.settings.body_bytes_max).ok();
    let envelope = text.and_then(|text| Envelope::read(text, Some(dialect)).ok());
    let seen = match &envelope {
        Some(envelope) => seen(&exchange.app, &setup, envelope, &headers).await,
        None => None,
    };
    let mut headers = headers;
    let body = match seen {
        Some(text) => {
            headers.remove(hyper::header::CONTENT_ENCODING);
            Bytes::from(text)
        }
        None => body,
    };
    pass(exchange, &setup, named, place, headers, body, Some(dialect)).await
}

/// Returns a request as its compacted conversation leaves; none if it goes on with no conversation that is at hand and
/// compacted.
async fn seen(app: &Arc<App>, setup: &Setup, envelope: &Envelope, headers: &HeaderMap) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = host_wire::session_hint(envelope, &header).id;
    let asked = Asked { id, history: History::of(envelope), envelope: Arc::new(envelope.clone()) };
    let slot = app.sessions.find(&asked)?;
    let guard = slot.conversation.lock().await;
    let rewritten = guard.preview(setup, &asked.history, envelope)?;
    Some(envelope.write(rewritten.iter().map(String::as_str)))
}
