//! Reads the conversation that a command works on.

use crate::args::{History, InputArgs};
use crate::error::CliError;
use crate::ui::Ui;
use crate::words::counted;
use host_import::{Conversation, Format, ImportError, Imported, Problem};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::path::Path;

/// Files from this size on take long enough to show how far the reading is.
const PROGRESS_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Conversations that an error lists.
const LISTED_MAX: usize = 20;

/// A conversation and what was found beside it.
#[derive(Debug)]
pub(crate) struct Input {
    /// The file as a person names it.
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) conversation: Conversation,
    /// Its place among the file's conversations, from 1.
    pub(crate) place: usize,
    pub(crate) conversation_count: usize,
    pub(crate) problems: Vec<Problem>,
    pub(crate) problems_suppressed: u64,
}

/// Reads a file or standard input and picks a conversation.
pub(crate) fn read(args: &InputArgs, ui: &Ui) -> Result<Input, CliError> {
    let name = if is_stdin(&args.file) { "standard input".to_owned() } else { args.file.display().to_string() };
    let imported = import(args, ui).map_err(|error| import_error(&name, &error))?;
    choose(name, imported, args.session.as_deref())
}

/// Tells whether standard input is meant.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Imports what the arguments name.
pub(crate) fn import(args: &InputArgs, ui: &Ui) -> Result<Imported, ImportError> {
    let options = options(args);
    if is_stdin(&args.file) {
        if ui.can_ask() {
            ui.note("reading standard input; end it with Ctrl-D");
        }
        return host_import::import(&mut std::io::stdin().lock(), &options, &mut |_| {});
    }
    let bar = progress_bar(&args.file, ui);
    let imported = host_import::import_path(&args.file, &options, &mut |bytes| {
        if let Some(bar) = &bar {
            bar.set_position(bytes);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    imported
}

/// Returns how the arguments want a file to be read.
pub(crate) fn options(args: &InputArgs) -> host_import::Options {
    let history = match args.history {
        History::Live => host_import::History::Live,
        History::Full => host_import::History::Full,
    };
    host_import::Options { format: args.from, history, ..host_import::Options::default() }
}

fn progress_bar(file: &Path, ui: &Ui) -> Option<ProgressBar> {
    let size = std::fs::metadata(file).ok()?.len();
    if size < PROGRESS_BYTES_MIN || ui.is_quiet() || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(Some(size), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("reading {bar:30} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    Some(bar)
}

/// Says why nothing could be read.
pub(crate) fn import_error(name: &str, error: &ImportError) -> CliError {
    let message = match error {
        ImportError::NotFound { .. } | ImportError::Directory { .. } => return CliError::user(error.to_string()),
        ImportError::Open { path, source } => return CliError::io("open", path, source),
        _ => format!("could not read a conversation from {name}"),
    };
    let hint = match error {
        ImportError::Empty => "name a session file that was saved, or a request body",
        ImportError::NothingRecognised { .. } => {
            "name the format with --from; `palimpsest compact --help` lists the formats"
        }
        ImportError::NoMessages { .. } => "if it is another format than that, name it with --from",
        _ => "",
    };
    CliError::user(message).because(error).hint(hint)
}

/// Picks the conversation that is wanted, or the main one.
pub(crate) fn choose(name: String, imported: Imported, wanted: Option<&str>) -> Result<Input, CliError> {
    let Imported { format, conversations, problems, problems_suppressed, .. } = imported;
    let conversation_count = conversations.len();
    let at = match wanted {
        None => Some(0),
        Some(wanted) => find(&conversations, wanted),
    };
    let Some(at) = at else { return Err(not_found(&name, wanted.unwrap_or_default(), &conversations)) };
    let Some(conversation) = conversations.into_iter().nth(at) else {
        return Err(CliError::user(format!("{name} holds no conversation")));
    };
    Ok(Input { name, format, conversation, place: at + 1, conversation_count, problems, problems_suppressed })
}

/// Finds a conversation by its id, or else by its place.
fn find(conversations: &[Conversation], wanted: &str) -> Option<usize> {
    let by_id = conversations.iter().position(|one| !one.id.is_empty() && one.id == wanted);
    by_id.or_else(|| wanted.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < conversations.len()))
}

fn not_found(name: &str, wanted: &str, conversations: &[Conversation]) -> CliError {
    let mut error = CliError::user(format!("{name} has no conversation {wanted:?}"))
        .hint("name one by its place, from 1, or by its id");
    error.causes.push(format!("it holds {}", counted(conversations.len() as u64, "conversation")));
    for (at, one) in conversations.iter().enumerate().take(LISTED_MAX) {
        let messages = counted(one.document.messages.len() as u64, "message");
        error.causes.push(format!("{}: {} ({messages}) {}", at + 1, one.id, one.title));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_import::Kind;
    use host_wire::Document;

    fn conversation(id: &str) -> Conversation {
        let document = Document::read(r#"[{"role":"user","content":"hi"}]"#, None).unwrap();
        Conversation {
            id: id.to_owned(),
            title: format!("about {id}"),
            kind: Kind::Main,
            document,
            reported_tokens: None,
            stored: None,
        }
    }

    fn imported(ids: &[&str]) -> Imported {
        Imported {
            format: Format::ALL[0],
            conversations: ids.iter().map(|id| conversation(id)).collect(),
            problems: Vec::new(),
            problems_suppressed: 0,
            bytes_read: 0,
        }
    }

    #[test]
    fn a_conversation_is_chosen_by_place_or_id() {
        let chosen = |wanted| choose("f".into(), imported(&["a", "b", "1"]), wanted).map(|input| input.place);
        assert_eq!(chosen(None).unwrap(), 1);
        assert_eq!(chosen(Some("2")).unwrap(), 2);
        assert_eq!(chosen(Some("b")).unwrap(), 2);
        assert_eq!(chosen(Some("1")).unwrap(), 3, "an id comes before a place");
        for wanted in ["0", "4", "", "c", "-1", "99999999999999999999"] {
            let error = chosen(Some(wanted)).unwrap_err();
            assert_eq!(error.causes.len(), 4, "{wanted}");
        }
    }
}
