//! Every format on small samples, through the public entry.
//!
//! [`shown`] writes conversations in short: role, `*` injected, `^` summary, then parts: `"text"`, `[id name arguments]`,
//! `(id result)`, `~reasoning~`, `<img>`, `<?>`.

mod claude_code;
mod codex;
mod data;
mod databases;
mod hostile;
mod programs;
mod sets;
mod stores;
mod wire;

use crate::{Format, History, ImportError, Imported, Kind, Options, import};
use engine_api::{Flags, Message, PartKind, Role};

fn options(history: History) -> Options {
    Options { history, ..Options::default() }
}

fn read(text: &str, history: History) -> Result<Imported, ImportError> {
    import(&mut text.as_bytes(), &options(history), &mut |_| {})
}

fn message(message: &Message) -> String {
    let role = match message.role {
        Role::System => "S",
        Role::Developer => "D",
        Role::User => "U",
        Role::Assistant => "A",
        Role::Tool => "T",
        _ => "?",
    };
    let injected = if message.flags.has(Flags::INJECTED) { "*" } else { "" };
    let summary = if message.flags.has(Flags::SUMMARY) { "^" } else { "" };
    let parts = message.parts.iter().map(|part| match part.kind {
        PartKind::Text => format!("{:?}", part.text),
        PartKind::ToolCall => format!("[{} {} {}]", part.call_id, part.tool_name, part.text),
        PartKind::ToolResult => format!("({} {})", part.call_id, part.text),
        PartKind::Reasoning => format!("~{}~", part.text),
        PartKind::Image => "<img>".to_owned(),
        _ => "<?>".to_owned(),
    });
    format!("{role}{injected}{summary}{}", parts.collect::<Vec<_>>().join(""))
}

fn shown(imported: &Imported) -> String {
    let lines = imported.conversations.iter().map(|conversation| {
        let kind = match conversation.kind {
            Kind::Main => "",
            Kind::Branch => "branch: ",
            Kind::Sidechain => "side: ",
        };
        let messages: Vec<String> = conversation.document.messages.iter().map(message).collect();
        format!("{kind}{}", messages.join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check_as(text: &str, history: History, format: Format, want: &str) -> Imported {
    let imported = read(text, history).unwrap();
    assert_eq!(imported.format, format);
    assert_eq!(shown(&imported), want);
    imported
}

/// Both histories alike.
#[track_caller]
fn check(text: &str, format: Format, want: &str) -> Imported {
    check_as(text, History::Full, format, want);
    check_as(text, History::Live, format, want)
}

/// Problems as "line: what", cut short.
fn problems(imported: &Imported) -> Vec<String> {
    let place = |line: Option<u64>| line.map(|line| line.to_string()).unwrap_or_default();
    imported
        .problems
        .iter()
        .map(|p| format!("{}: {}", place(p.line), p.what.chars().take(30).collect::<String>()))
        .collect()
}

fn lines(records: &[&str]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}
