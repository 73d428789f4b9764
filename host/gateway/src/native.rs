//! The client's own compaction, answered by the engine: a handle for Codex, a summary for the others.

use crate::app::App;
use crate::body::Answer;
use crate::conversation::{Conversation, STATE_OWNER};
use crate::exchange::{Exchange, Trouble, plain};
use crate::history::History;
use crate::metrics::KindLabels;
use crate::sessions::Slot;
use crate::setup::Setup;
use crate::turn::{Turn, find};
use engine_api::{Dialect, Flags, Message, Usage};
use host_core::Receipt;
use host_store::Store;
use host_wire::{ClientCall, ClientCompaction, Envelope, OwnReply, RefusalKind};
use hyper::Response;
use std::sync::Arc;

/// Begins a handle: what Codex keeps in place of a compacted conversation and sends back with each later request.
const HANDLE: &str = "palimpsest1";
/// Characters of the user's words in a summary that a client keeps as its own.
const WORDS_CHARS_MAX: usize = 40_000;
/// Begins the names of entries that hold what a handle stands for.
const STATE_HANDLE: &str = "handle:";

/// Answers a client's compaction call with what the engine makes of the conversation.
pub(crate) async fn answer(
    mut exchange: Exchange,
    setup: Arc<Setup>,
    turn: Turn,
    call: ClientCall,
    id: Option<String>,
) -> Response<Answer> {
    let dialect = turn.envelope.dialect();
    let is_stream = turn.envelope.member("stream") == Some("true");
    let slot = match conversation_of(&exchange.app, &turn, &call, id).await {
        Ok(slot) => slot,
        Err(why) => return exchange.refuse(&Trouble::new(RefusalKind::Internal, why)),
    };
    exchange.line.session.clone_from(&slot.0.name);
    let (slot, covered) = slot;
    let guard = Arc::clone(&slot.conversation).lock_owned().await;
    let (app, setup_for_work) = (Arc::clone(&exchange.app), Arc::clone(&setup));
    let focus = call.focus.clone();
    let kind = call.kind;
    let held = Arc::clone(&slot);
    let work = move || {
        let mut guard = guard;
        let made = compacted(&mut guard, &app.store, &setup_for_work, covered.as_ref(), &focus, kind);
        held.is_light_as(guard.is_light());
        made
    };
    let made = match tokio::task::spawn_blocking(work).await {
        Ok(Ok(made)) => made,
        Ok(Err(why)) => return exchange.refuse(&Trouble::new(RefusalKind::Internal, why)),
        Err(error) => return exchange.refuse(&Trouble::new(RefusalKind::Internal, error.to_string())),
    };
    if let Some(turn) = &made.history {
        slot.note(turn);
    }
    "native".clone_into(&mut exchange.line.action);
    exchange.app.metrics.native.get_or_create(&KindLabels { kind: name(kind) }).inc();
    let receipt = &made.receipt;
    let saved = receipt.tokens_before.saturating_sub(receipt.tokens_after);
    if setup.config.gateway.response_header {
        exchange.says(format!("engine={}; action=native; saved={saved}; session={}", receipt.engine_used, slot.name));
    }
    let mut usage = Usage::default();
    usage.prompt_tokens = receipt.tokens_before;
    usage.completion_tokens = made.tokens;
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    let created = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
    let reply = OwnReply { model: turn.model.clone(), text: made.text, usage, created, item: made.item };
    let mut response = match (kind, is_stream) {
        (ClientCompaction::CodexEndpoint, _) => {
            let body = host_wire::compact_body(&made.items, &reply.usage, reply.created);
            plain(200, "application/json", body)
        }
        (_, true) => plain(200, "text/event-stream", host_wire::own_stream(dialect, &reply)),
        (_, false) => plain(200, "application/json", host_wire::own_json(dialect, &reply)),
    };
    exchange.sign(&mut response);
    response
}

/// Tells whether only OpenAI itself understands such a call.
pub(crate) fn is_of_openai_only(kind: ClientCompaction) -> bool {
    matches!(kind, ClientCompaction::CodexTrigger | ClientCompaction::CodexEndpoint)
}

fn name(kind: ClientCompaction) -> &'static str {
    match kind {
        ClientCompaction::CodexTrigger | ClientCompaction::CodexLocal | ClientCompaction::CodexEndpoint => "codex",
        ClientCompaction::Claude => "claude",
        ClientCompaction::OpenCode => "opencode",
        ClientCompaction::Hermes => "hermes",
    }
}

/// What the engine made of a conversation, in the form that its client wants.
struct Made {
    receipt: Receipt,
    text: String,
    tokens: u64,
    item: Option<String>,
    /// The whole new window, for `responses/compact`.
    items: Vec<String>,
    history: Option<History>,
}

/// Finds the conversation that is to be compacted, and the request that ends where it does.
async fn conversation_of(
    app: &Arc<App>,
    turn: &Turn,
    call: &ClientCall,
    id: Option<String>,
) -> Result<(Arc<Slot>, Option<Turn>), String> {
    if call.conversation.is_empty() {
        // The conversation is written into one text; which one it is, only its id tells.
        let name = id.ok_or("the request carries no session id, so what it summarises is not known here")?;
        let (app, wanted) = (Arc::clone(app), name.clone());
        let found = tokio::task::spawn_blocking(move || app.sessions.by_name(&app.store, &wanted)).await;
        let found = found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        return found.map(|slot| (slot, None)).ok_or_else(|| format!("there is no session {name:?}"));
    }
    let text = turn.envelope.write(call.conversation.iter().map(String::as_str));
    let envelope = Envelope::read(text, Some(turn.envelope.dialect())).map_err(|error| error.to_string())?;
    let envelope = Arc::new(envelope);
    let envelope = expand(app, &envelope).await?.map_or(envelope, Arc::new);
    let covered = Arc::new(Turn {
        history: History::of(&envelope),
        envelope,
        model: turn.model.clone(),
        window: turn.window,
        client: turn.client.clone(),
        place: turn.place.clone(),
        is_native: true,
        may_ask_native: Arc::clone(&turn.may_ask_native),
        manual: None,
    });
    let slot = find(app, &covered, id).await?;
    let covered = Arc::try_unwrap(covered).map_err(|_| "the request is in use".to_owned())?;
    Ok((slot, Some(covered)))
}

/// Compacts a conversation and writes the result for its client. Waits for the store and for engines.
fn compacted(
    conversation: &mut Conversation,
    store: &Store,
    setup: &Setup,
    turn: Option<&Turn>,
    focus: &str,
    kind: ClientCompaction,
) -> Result<Made, String> {
    let receipt = conversation.compact_now(store, setup, turn, focus, 0).map_err(|error| error.to_string())?;
    let items = conversation.seen().map_err(|error| error.to_string())?;
    let live = conversation.live().ok_or("the session is not open")?;
    let written = live.session().view.iter().filter(|message| message.flags.has(Flags::SYNTHETIC));
    let text = written.map(|message| message.text()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
    let is_codex = is_of_openai_only(kind);
    if text.is_empty() && !is_codex {
        return Err(format!("nothing could be summarised: {}", receipt.reason));
    }
    let text = if is_codex { text } else { [text, words(&live.session().view)].concat() };
    let item =
        is_codex.then(|| handle(store, live.store().map(|(_, key)| key), &live.session().id, &items)).transpose()?;
    let written = live.session().view.iter().filter(|message| message.flags.has(Flags::SYNTHETIC));
    let tokens = written.map(|message| u64::from(message.tokens)).sum();
    let items = item.iter().cloned().collect();
    Ok(Made { receipt, text, tokens, item, items, history: turn.map(|turn| turn.history.clone()) })
}

/// Returns what the user said and the client is about to forget, word for word, the newest that fit.
fn words(view: &[Arc<Message>]) -> String {
    let is_said = |message: &&Arc<Message>| message.flags.has(Flags::REAL_USER) && !message.flags.has(Flags::SYNTHETIC);
    let (mut said, mut room) = (Vec::new(), WORDS_CHARS_MAX);
    for message in view.iter().rev().filter(is_said) {
        let text = message.text();
        let length = text.chars().count();
        if length > room {
            break;
        }
        room -= length;
        said.push(format!("- {}", text.trim()));
    }
    if said.is_empty() {
        return String::new();
    }
    said.reverse();
    format!("\n\n## The user's messages, word for word\n{}", said.join("\n"))
}

/// Keeps what a handle stands for, and returns the item that carries the handle.
fn handle(store: &Store, key: Option<i64>, session: &str, items: &[String]) -> Result<String, String> {
    let key = key.ok_or("the session is in no store")?;
    let (_, view) = store.live_view(key).map_err(|error| error.to_string())?;
    let number = view.unwrap_or(0);
    let value = serde_json::to_vec(items).map_err(|error| error.to_string())?;
    let entry = format!("{STATE_HANDLE}{number}");
    store.put_engine_state(key, STATE_OWNER, vec![(entry, value)]).map_err(|error| error.to_string())?;
    let content = format!("{HANDLE}:{number}:{session}");
    Ok(serde_json::json!({ "type": "compaction", "id": format!("cmp_{number}_{key}"), "encrypted_content": content })
        .to_string())
}

/// Puts what a handle of ours stands for in its place; none if the request has no such handle.
///
/// What stands before the handle is in it already, but for what the client has put there anew: instructions and rules.
pub(crate) async fn expand(app: &Arc<App>, envelope: &Arc<Envelope>) -> Result<Option<Envelope>, String> {
    if envelope.dialect() != Dialect::Responses || !envelope.text().contains(HANDLE) {
        return Ok(None);
    }
    let (app, envelope) = (Arc::clone(app), Arc::clone(envelope));
    let work = move || expanded(&app.store, &envelope);
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn expanded(store: &Store, envelope: &Envelope) -> Result<Option<Envelope>, String> {
    let raws = envelope.raws();
    let found = raws.iter().enumerate().rev().find_map(|(at, raw)| Some((at, host_wire::compaction_handle(raw)?)));
    let Some((at, content)) = found else { return Ok(None) };
    let mut pieces = content.splitn(3, ':');
    let (Some(HANDLE), Some(number), Some(session)) = (pieces.next(), pieces.next(), pieces.next()) else {
        return Ok(None);
    };
    let missing =
        || format!("the store has no compacted view {number} of session {session:?}, which the request continues");
    let row = store.find_session(session).map_err(|error| error.to_string())?.ok_or_else(missing)?;
    let state = store.engine_state(row.key, STATE_OWNER).map_err(|error| error.to_string())?;
    let entry = format!("{STATE_HANDLE}{number}");
    let (_, value) = state.into_iter().find(|(key, _)| *key == entry).ok_or_else(missing)?;
    let seen: Vec<String> = serde_json::from_slice(&value).map_err(|error| error.to_string())?;
    let is_new = |raw: &&str| host_wire::is_instruction(raw) && !seen.iter().any(|other| other == *raw);
    let before: Vec<&str> = raws.iter().take(at).map(|raw| raw.as_ref()).filter(is_new).collect();
    let (instructions, rest): (Vec<&str>, Vec<&str>) =
        seen.iter().map(String::as_str).partition(|raw| host_wire::is_instruction(raw));
    // Instructions that the client sends anew stand in for the ones that were there.
    let instructions = if before.is_empty() { instructions } else { Vec::new() };
    let after = raws.iter().skip(at + 1).map(|raw| raw.as_ref());
    let text = envelope.write(before.into_iter().chain(instructions).chain(rest).chain(after));
    Envelope::read(text, Some(Dialect::Responses)).map(Some).map_err(|error| error.to_string())
}
