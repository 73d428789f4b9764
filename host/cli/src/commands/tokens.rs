//! `tokens`: how many tokens a conversation or a text has, counted and estimated side by side.

use crate::args::{Global, TokensArgs};
use crate::commands::Status;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, bold};
use crate::words::{change, grouped, table};
use engine_api::Role;
use host_import::ImportError;
use host_tokens::{Basis, Counter};
use serde::Serialize;
use std::io::Read as _;

/// Largest plain text that is counted.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// Roles in the order they are shown.
const ROLES: [Role; 6] = [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool, Role::Other];

/// Tokens of some messages, counted in three ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Count {
    messages: u64,
    counted: u64,
    estimated: u64,
    rough: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.messages += other.messages;
        self.counted += other.counted;
        self.estimated += other.estimated;
        self.rough += other.rough;
    }
}

/// The three ways.
struct Counters {
    counted: Counter,
    estimated: Counter,
    rough: Counter,
}

impl Counters {
    fn of(model: &str) -> Counters {
        Counters { counted: Counter::for_model(model), estimated: Counter::estimating(), rough: Counter::rough() }
    }

    fn text(&self, text: &str) -> Count {
        Count {
            messages: 0,
            counted: u64::from(self.counted.count(text)),
            estimated: u64::from(self.estimated.count(text)),
            rough: u64::from(self.rough.count(text)),
        }
    }

    fn message(&self, message: &engine_api::Message) -> Count {
        Count {
            messages: 1,
            counted: u64::from(self.counted.count_message(message)),
            estimated: u64::from(self.estimated.count_message(message)),
            rough: u64::from(self.rough.count_message(message)),
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    #[serde(flatten)]
    count: Count,
}

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    format: String,
    model: String,
    encoding: &'static str,
    basis: &'static str,
    rows: Vec<Row>,
    total: Count,
    reported_tokens: Option<u64>,
}

pub(crate) fn run(args: &TokensArgs, global: &Global, ui: &Ui) -> Result<Status, CliError> {
    let place = Place::open(global, ui);
    let report = report(args, &place, ui)?;
    if ui.is_json() {
        ui.json(&report)?;
    } else {
        ui.out(&text(&report))?;
    }
    Ok(Status::Done)
}

fn report(args: &TokensArgs, place: &Place, ui: &Ui) -> Result<Report, CliError> {
    // What is no conversation is still text, unless a format was named or the text is gone with its stream.
    let is_text_allowed = args.input.from.is_none() && args.input.session.is_none();
    if is_text_allowed && input::is_stdin(&args.input.file) {
        let text = stdin_text()?;
        let imported = host_import::import(&mut text.as_bytes(), &input::options(&args.input), &mut |_| {});
        return match imported {
            Ok(imported) => Ok(conversation(args, place, input::choose("standard input".to_owned(), imported, None)?)),
            Err(ImportError::NothingRecognised { .. }) => Ok(plain(args, place, "standard input", &text)),
            Err(error) => Err(input::import_error("standard input", &error)),
        };
    }
    match input::import(&args.input, ui) {
        Ok(imported) => {
            let name = args.input.file.display().to_string();
            Ok(conversation(args, place, input::choose(name, imported, args.input.session.as_deref())?))
        }
        Err(ImportError::NothingRecognised { .. }) if is_text_allowed => {
            let text =
                std::fs::read(&args.input.file).map_err(|error| CliError::io("read", &args.input.file, &error))?;
            Ok(plain(args, place, &args.input.file.display().to_string(), &String::from_utf8_lossy(&text)))
        }
        Err(error) => Err(input::import_error(&args.input.file.display().to_string(), &error)),
    }
}

fn stdin_text() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(TEXT_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| CliError::user("could not read standard input").because(&error))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn conversation(args: &TokensArgs, place: &Place, input: Input) -> Report {
    let Input { name, format, conversation, .. } = input;
    let document = conversation.document;
    let model = args.model.clone().or_else(|| document.model()).unwrap_or_else(|| place.config.model.default.clone());
    let counters = Counters::of(&model);
    let mut by_role = [Count::default(); ROLES.len()];
    for message in &document.messages {
        let at = ROLES.iter().position(|role| *role == message.role).unwrap_or(ROLES.len() - 1);
        if let Some(count) = by_role.get_mut(at) {
            count.add(counters.message(message));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut overhead = Count::default();
    document.overhead_texts().iter().for_each(|text| overhead.add(counters.text(text)));
    if overhead != Count::default() {
        rows.push(Row { what: "instructions and tools".to_owned(), count: overhead });
    }
    for (role, count) in ROLES.iter().zip(by_role).filter(|(_, count)| count.messages > 0) {
        rows.push(Row { what: role.to_string(), count });
    }
    finish(name, format.to_string(), model, &counters, rows, conversation.reported_tokens)
}

fn plain(args: &TokensArgs, place: &Place, name: &str, text: &str) -> Report {
    let model = args.model.clone().unwrap_or_else(|| place.config.model.default.clone());
    let counters = Counters::of(&model);
    let rows = vec![Row { what: "text".to_owned(), count: counters.text(text) }];
    finish(name.to_owned(), "plain text".to_owned(), model, &counters, rows, None)
}

fn finish(
    file: String,
    format: String,
    model: String,
    counters: &Counters,
    rows: Vec<Row>,
    reported_tokens: Option<u64>,
) -> Report {
    let mut total = Count::default();
    rows.iter().for_each(|row| total.add(row.count));
    let (encoding, basis) = (counters.counted.encoding(), counters.counted.basis().as_str());
    Report { file, format, model, encoding, basis, rows, total, reported_tokens }
}

fn text(report: &Report) -> String {
    let (model, encoding) = (&report.model, report.encoding);
    let counted_by = match report.basis {
        _ if model.is_empty() => format!("counted with {encoding}: no model is named"),
        basis if basis == Basis::Exact.as_str() => format!("{model}: counted with {encoding}, its own vocabulary"),
        _ => format!("{model}: counted with {encoding}, as its own vocabulary is not published"),
    };
    let head = format!("{} ({})", report.file, report.format);
    let mut out = format!("{}\n{}\n", bold(&safe::line(&head)), safe::line(&counted_by));
    let line = |what: &str, count: &Count| {
        let messages = if count.messages == 0 { "-".to_owned() } else { grouped(count.messages) };
        vec![
            what.to_owned(),
            messages,
            grouped(count.counted),
            grouped(count.estimated),
            change(count.counted, count.estimated),
            grouped(count.rough),
            change(count.counted, count.rough),
        ]
    };
    let mut rows: Vec<Vec<String>> = report.rows.iter().map(|row| line(&row.what, &row.count)).collect();
    rows.push(line("total", &report.total));
    let counted = if report.basis == Basis::Exact.as_str() { "EXACT" } else { "COUNTED" };
    let header = ["", "MESSAGES", counted, "ESTIMATE", "OFF BY", "CHARS/4", "OFF BY"];
    out.push_str(&table(&header, rows, &[1, 2, 3, 4, 5, 6], 2));
    if let Some(reported) = report.reported_tokens {
        let change = change(reported, report.total.counted);
        out.push_str(&format!(
            "  the provider reported {} prompt tokens for the last call; the total above differs by {change}\n",
            grouped(reported)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn counts_stand_side_by_side() {
        let count = |messages, counted, estimated, rough| Count { messages, counted, estimated, rough };
        let rows = vec![
            Row { what: "instructions and tools".into(), count: count(0, 100, 90, 80) },
            Row { what: "user".into(), count: count(1_200, 40_000, 41_000, 30_000) },
        ];
        let counters = Counters::of("gpt-4o");
        let report = finish("a\u{7}.json".into(), "openai".into(), "gpt-4o".into(), &counters, rows, Some(50_000));
        assert_eq!(report.total, count(1_200, 40_100, 41_090, 30_080));
        expect![[r#"
            a\u{7}.json (openai)
            gpt-4o: counted with o200k_base, its own vocabulary
                                      MESSAGES   EXACT  ESTIMATE   OFF BY  CHARS/4   OFF BY
              instructions and tools         -     100        90  -10.0 %       80  -20.0 %
              user                       1,200  40,000    41,000   +2.5 %   30,000  -25.0 %
              total                      1,200  40,100    41,090   +2.5 %   30,080  -25.0 %
              the provider reported 50,000 prompt tokens for the last call; the total above differs by -19.8 %
        "#]]
        .assert_eq(&anstream::adapter::strip_str(&text(&report)).to_string());
    }
}
