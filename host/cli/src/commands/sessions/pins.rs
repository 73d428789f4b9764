//! `sessions pin`, `unpin` and `pins`: what must stay word for word in every context of a session.

use crate::args::PinArgs;
use crate::commands::Status;
use crate::error::CliError;
use crate::place::Place;
use crate::safe;
use crate::shelf;
use crate::time;
use crate::ui::Ui;
use crate::words::{counted, table};
use engine_api::{Dialect, Message, MessageId};
use host_runtime::{PinRule, Pins};
use host_store::{PinRow, Row, SessionRow, Store};
use serde_json::json;

pub(crate) fn pin(args: &PinArgs, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let rule = PinRule {
        message: args.message.map(MessageId),
        regex: args.regex.clone(),
        role: args.role.map(|role| role.role()),
        tool: args.tool.clone(),
        file: args.file.clone(),
    };
    rule.check().map_err(|why| CliError::user("the pin is not usable").cause(why))?;
    let store = shelf::open_existing(place)?;
    let session = shelf::find(&store, &args.session)?;
    let view = store.load(session.key, 0).map_err(shelf::failed)?.messages;
    if let Some(id) = args.message
        && !view.iter().any(|row| row.id.0 == id)
    {
        return Err(not_in_sight(&store, &session, id)?);
    }
    let text = serde_json::to_string(&rule)
        .map_err(|error| CliError::internal("the pin could not be written").because(&error))?;
    let number = store.put_pin(session.key, text).map_err(shelf::failed)?;
    let pins = Pins::of([rule.clone()]);
    let fitting = view.iter().filter(|row| pins.keep(&message(session.dialect, row))).count() as u64;
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "pin": number, "rule": rule, "messages_in_sight": fitting }))?;
        return Ok(Status::Done);
    }
    let line = format!("pin {number}: {rule}; {} in sight of the model fit", counted(fitting, "message"));
    ui.out(&format!("{}\n", safe::line(&line)))?;
    Ok(Status::Done)
}

/// Says why a message cannot be pinned.
fn not_in_sight(store: &Store, session: &SessionRow, id: u64) -> Result<CliError, CliError> {
    let said = store.branch_messages(session.key).map_err(shelf::failed)?;
    if said.contains(&MessageId(id)) {
        return Ok(CliError::user(format!("message {id} is out of the model's sight, so nothing can keep it there"))
            .hint(format!("`palimpsest sessions undo {}` takes the last compaction back", session.name)));
    }
    Ok(CliError::user(format!("session {:?} has no message {id}", session.name))
        .hint("`palimpsest sessions show` lists the messages with their ids"))
}

pub(crate) fn unpin(name: &str, pin: u64, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_existing(place)?;
    let session = shelf::find(&store, name)?;
    if !store.remove_pin(session.key, pin).map_err(shelf::failed)? {
        let pins = store.pins(session.key).map_err(shelf::failed)?;
        let numbers: Vec<String> = pins.iter().map(|pin| pin.pin.to_string()).collect();
        let has = if numbers.is_empty() { "no pins".to_owned() } else { format!("pins {}", numbers.join(", ")) };
        return Err(
            CliError::user(format!("session {:?} has no pin {pin}", session.name)).hint(format!("it has {has}"))
        );
    }
    if ui.is_json() {
        ui.json(&json!({ "session": session.name, "removed": pin }))?;
        return Ok(Status::Done);
    }
    ui.out(&format!("pin {pin} of {} is taken away\n", safe::line(&session.name)))?;
    Ok(Status::Done)
}

pub(crate) fn list(name: &str, place: &Place, ui: &Ui) -> Result<Status, CliError> {
    let store = shelf::open_to_read(place)?;
    let session = shelf::find(&store, name)?;
    let pins = store.pins(session.key).map_err(shelf::failed)?;
    let view = store.load(session.key, 0).map_err(shelf::failed)?.messages;
    let view: Vec<Message> = view.iter().map(|row| message(session.dialect, row)).collect();
    let fitting = |pin: &PinRow| {
        let pins = Pins::of(serde_json::from_str::<PinRule>(&pin.rule));
        view.iter().filter(|message| pins.keep(message)).count()
    };
    let from_settings = place.config.pins.rules.len();
    if ui.is_json() {
        let pins: Vec<_> = pins
            .iter()
            .map(|pin| {
                let rule: serde_json::Value = serde_json::from_str(&pin.rule).unwrap_or_default();
                json!({ "pin": pin.pin, "rule": rule, "made_ms": pin.made_ms, "messages_in_sight": fitting(pin) })
            })
            .collect();
        ui.json(&json!({ "session": session.name, "pins": pins, "pins_of_settings": from_settings }))?;
        return Ok(Status::Done);
    }
    if pins.is_empty() {
        ui.note("no pins; `palimpsest sessions pin` sets one");
    } else {
        let lines = pins.iter().map(|pin| {
            let rule =
                serde_json::from_str::<PinRule>(&pin.rule).map_or_else(|_| pin.rule.clone(), |rule| rule.to_string());
            vec![pin.pin.to_string(), fitting(pin).to_string(), time::shown(pin.made_ms), safe::line(&rule)]
        });
        ui.out(&table(&["PIN", "IN SIGHT", "SET", "KEEPS"], lines.collect(), &[0, 1], 0))?;
    }
    if from_settings > 0 {
        ui.note(&format!("{} of the settings hold besides", counted(from_settings as u64, "pin")));
    }
    Ok(Status::Done)
}

/// Reads a stored message as pins see it.
pub(crate) fn message(dialect: Dialect, row: &Row) -> Message {
    let mut message = host_wire::parse_message(dialect, &row.raw)
        .unwrap_or_else(|_| Message::new(row.role, row.raw.clone(), Vec::new()));
    message.id = row.id;
    message.flags = row.flags;
    // A result names its call; the store has the tool's name.
    for part in message.parts.iter_mut().filter(|part| part.tool_name.is_empty()) {
        if let [tool] = row.tools.as_slice() {
            part.tool_name.clone_from(tool);
        }
    }
    message
}

/// Returns the pins that hold for a session: its own and those of the settings.
pub(crate) fn of_session(store: &Store, session: &SessionRow, place: &Place) -> Result<Pins, CliError> {
    let own = store.pins(session.key).map_err(shelf::failed)?;
    let own = own.into_iter().filter_map(|pin| serde_json::from_str::<PinRule>(&pin.rule).ok());
    let stated = place.config.pins.rules.iter().filter_map(|rule| serde_json::from_value::<PinRule>(rule.clone()).ok());
    Ok(Pins::of(own.chain(stated)))
}
