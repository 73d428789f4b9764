//! `sessions compact`: compacts a session of the store, whose result and receipt stay there.

use crate::args::CompactSessionArgs;
use crate::commands::Status;
use crate::commands::compact::{Reply, answer, memory, print_reply};
use crate::error::CliError;
use crate::place::Place;
use crate::receipt::{self, Beside};
use crate::shelf;
use crate::ui::Ui;
use engine_api::MessageId;
use host_core::Receipt;
use host_runtime::{LiveSession, Options, PinRule};
use host_store::{SessionRow, Store};
use host_wire::Document;
use serde_json::json;

pub(crate) fn run(args: &CompactSessionArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let manual = host_core::manual::read(&args.words.join(" "));
    for refused in &manual.refused {
        ui.warn(refused);
    }
    let is_dry = args.dry_run || manual.is_preview;
    let store = shelf::open_existing(place)?;
    let session = shelf::find(&store, &args.session)?;
    if session.ended_ms.is_some() {
        return Err(CliError::user(format!("session {:?} has ended ({})", session.name, session.end_reason)).hint(
            "`palimpsest sessions list` shows the session that goes on; `sessions fork` begins another way from here",
        ));
    }
    let how = &args.how;
    let options = Options {
        session_id: session.name.clone(),
        engine: how.engine.clone(),
        model: how.model.clone(),
        context_length: how.context_length,
        force: how.force || !args.words.is_empty(),
        focus: how.focus.clone().unwrap_or(manual.focus),
        keep_exchanges: how.keep.or(manual.keep_exchanges).unwrap_or(0),
        memory_context: how.memory.as_deref().map(memory).transpose()?.unwrap_or_default(),
        idle_seconds: how.idle,
        estimate: how.estimate,
        platform: session.platform.clone(),
        ..Options::default()
    };
    let (mut live, ids) =
        if is_dry { try_out(&store, &session, place, options)? } else { (resume(&store, place, options)?, Vec::new()) };
    if !how.offline {
        let env = |name: &str| std::env::var(name).ok();
        let client = host_llm::Client::new(&place.config, &place.home, &env);
        if let Some(problem) = &client.prices().problem {
            ui.warn(problem);
        }
        live = live.with_summariser(std::sync::Arc::new(client));
    }
    let hooks = if is_dry { None } else { crate::told::hooks(place, ui) };
    if let Some(hooks) = &hooks {
        live = live.with_subscriber(hooks.subscriber());
    }
    let fallback_hint = live.resolved().fallback.as_ref().map(|fault| fault.hint.clone()).unwrap_or_default();
    let mut receipt = live.compact();
    number_as_stored(&mut receipt, &ids);
    let replies: Vec<Reply> = args.call.iter().map(|call| answer(&mut live, call)).collect();
    let log = live.log();
    let view = match live.store() {
        Some((store, key)) => store.views(key).map_err(shelf::failed)?.into_iter().find(|view| view.is_live),
        None => None,
    };
    drop(live);
    if let Some(hooks) = hooks {
        crate::told::drain(hooks, ui);
    }
    let status = Status::failed_if(replies.iter().any(|reply| reply.error.is_some()));
    let view = view.map(|view| view.id).filter(|_| receipt.action == "compacted");
    if ui.is_json() {
        ui.json(&json!({
            "receipt": receipt, "session": receipt.session_after.as_ref().unwrap_or(&session.name), "view": view,
            "dry_run": is_dry, "fallback_hint": fallback_hint, "tool_replies": replies, "engine_log": log,
        }))?;
        return Ok(status);
    }
    let written_to = match (&receipt.session_after, view) {
        _ if is_dry => "nothing: a dry run".to_owned(),
        (Some(next), _) => format!("session {next}, which goes on in its place"),
        (None, Some(view)) => format!("view {view} of session {}", session.name),
        (None, None) => String::new(),
    };
    let is_window_assumed = how.context_length.or(place.config.model.context_length).is_none();
    let source = format!("session {}", session.name);
    let prices = host_llm::Prices::load(&place.home);
    let beside = Beside {
        source,
        is_window_assumed,
        fallback_hint: &fallback_hint,
        log: &log,
        written_to,
        prices: Some(&prices),
        ..Beside::default()
    };
    ui.out(&receipt::text(&receipt, &beside))?;
    for reply in &replies {
        print_reply(reply, false, ui)?;
    }
    Ok(status)
}

fn resume(store: &Store, place: &Place, options: Options) -> Result<LiveSession, CliError> {
    let name = options.session_id.clone();
    LiveSession::resume(store, place.config.clone(), &place.registry(), &place.home, options)
        .map_err(|error| CliError::user(format!("session {name:?} could not be opened")).because(&error))
}

/// Opens a copy of what the model sees, apart from the store, with the ids that its messages have there.
fn try_out(
    store: &Store,
    session: &SessionRow,
    place: &Place,
    options: Options,
) -> Result<(LiveSession, Vec<MessageId>), CliError> {
    let failed = |error: host_runtime::RuntimeError| {
        CliError::user(format!("session {:?} could not be opened", session.name)).because(&error)
    };
    let stored = resume(store, place, options.clone())?;
    let ids: Vec<MessageId> = stored.session().view.iter().map(|message| message.id).collect();
    let raws: Vec<&str> = stored.session().view.iter().map(|message| message.raw.as_str()).collect();
    let shell =
        store.load(session.key, 0).map_err(shelf::failed)?.shell.unwrap_or_else(|| "{\"messages\":[]}".to_owned());
    let document = Document::read(&shell, Some(session.dialect))
        .and_then(|shell| Document::read(&shell.write(raws.iter().copied()), Some(session.dialect)))
        .map_err(|error| CliError::user(format!("session {:?} is not readable", session.name)).because(&error))?;
    let mut live =
        LiveSession::open(document, place.config.clone(), &place.registry(), &place.home, options).map_err(failed)?;
    // A pin of one message knows the store's id; it is put on the copy's.
    for pin in store.pins(session.key).map_err(shelf::failed)? {
        let Ok(mut rule) = serde_json::from_str::<PinRule>(&pin.rule) else { continue };
        if let Some(id) = rule.message {
            let Some(at) = ids.iter().position(|one| *one == id) else { continue };
            rule.message = live.session().view.get(at).map(|message| message.id);
        }
        // What is wrong with a stored pin is told where pins are read.
        let _ = live.set_pin(rule);
    }
    Ok((live, ids))
}

/// Gives the messages of a dry run the ids that they have in the store.
fn number_as_stored(receipt: &mut Receipt, ids: &[MessageId]) {
    let stored = |id: MessageId| {
        let at = usize::try_from(id.0).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| ids.get(at)).copied().unwrap_or(id)
    };
    for fate in &mut receipt.fates {
        (fate.first, fate.last) = (stored(fate.first), stored(fate.last));
    }
}
