//! `tokens`: how many tokens a conversation or a text has: counted, in the provider's measure, and roughly as Hermes does.

use crate::args::{Global, History, TokensArgs};
use crate::commands::Status;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::place::Place;
use crate::safe;
use crate::ui::{Ui, bold};
use crate::words::{change, grouped, table};
use engine_api::{Message, Role};
use host_import::ImportError;
use host_tokens::{Basis, Calibration, Counter, Heard, rough};
use serde::Serialize;
use std::io::Read as _;

/// Largest plain text that is counted.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// Roles in the order they are shown.
const ROLES: [Role; 6] = [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool, Role::Other];

/// Tokens of some messages, counted in several ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Count {
    messages: u64,
    /// In the model's vocabulary, or in the one that stands in for it.
    counted: u64,
    /// By classes of bytes.
    estimated: u64,
    /// In the provider's measure, where it reported usage.
    calibrated: Option<u64>,
    /// As Hermes estimates before a request.
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

/// The ways that need no usage.
struct Counters {
    counted: Counter,
    estimated: Counter,
}

impl Counters {
    fn of(model: &str) -> Counters {
        Counters { counted: Counter::for_model(model), estimated: Counter::estimating() }
    }

    fn text(&self, text: &str) -> Count {
        // A definition of a tool is measured by its parts, as Hermes does.
        let tool = serde_json::from_str(text).ok().filter(serde_json::Value::is_object);
        Count {
            counted: u64::from(self.counted.count(text)),
            estimated: u64::from(self.estimated.count(text)),
            rough: tool.map_or_else(|| rough::text(text), |tool| rough::tools(&[tool])),
            ..Count::default()
        }
    }

    /// Counts all but the rough figure, which is rounded once for many messages.
    fn message(&self, message: &Message) -> Count {
        Count {
            messages: 1,
            counted: u64::from(self.counted.count_message(message)),
            estimated: u64::from(self.estimated.count_message(message)),
            ..Count::default()
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    #[serde(flatten)]
    count: Count,
}

/// What the provider's last report says about the counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Usage {
    /// Prompt tokens that were reported for the last call.
    reported: u64,
    /// What the messages of that call count here.
    counted: u64,
    /// Tokens of the call that are in none of its messages: instructions and tools that the file does not hold.
    overhead: u64,
    /// Tokens of the provider that one counted token is worth.
    factor: f64,
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
    usage: Option<Usage>,
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
    let mut rows: Vec<Row> = Vec::new();
    let mut overhead = Count::default();
    document.overhead_texts().iter().for_each(|text| overhead.add(counters.text(text)));
    if overhead != Count::default() {
        rows.push(Row { what: "instructions and tools".to_owned(), count: overhead });
    }
    let mut by_role = [(Count::default(), rough::Tally::default()); ROLES.len()];
    let mut tally = rough::Tally::default();
    // What the last call was asked with: all before the answer to it.
    let answer_from = document.messages.iter().rposition(|message| message.role == Role::Assistant).map(|last| {
        let before = document.messages.get(..last).unwrap_or_default();
        before.iter().rposition(|message| message.role != Role::Assistant).map_or(0, |asked| asked + 1)
    });
    let mut asked = overhead.counted;
    for (index, message) in document.messages.iter().enumerate() {
        let at = ROLES.iter().position(|role| *role == message.role).unwrap_or(ROLES.len() - 1);
        let count = counters.message(message);
        if answer_from.is_none_or(|from| index < from) {
            asked += count.counted;
        }
        tally.add_json(&message.raw);
        if let Some((role, of_role)) = by_role.get_mut(at) {
            role.add(count);
            of_role.add_json(&message.raw);
        }
    }
    for (role, (count, tally)) in ROLES.iter().zip(by_role).filter(|(_, (count, _))| count.messages > 0) {
        rows.push(Row { what: role.to_string(), count: Count { rough: tally.tokens(), ..count } });
    }
    let mut report = finish(name, format.to_string(), model, &counters, rows);
    report.total.rough = overhead.rough + tally.tokens();
    report.reported_tokens = conversation.reported_tokens;
    // The report is about what the model was sent, and that is not all that was ever said.
    if let Some(reported) = conversation.reported_tokens.filter(|_| args.input.history == History::Live) {
        calibrate(&mut report, counters.counted.basis(), asked, reported);
    }
    report
}

fn plain(args: &TokensArgs, place: &Place, name: &str, text: &str) -> Report {
    let model = args.model.clone().unwrap_or_else(|| place.config.model.default.clone());
    let counters = Counters::of(&model);
    let count = Count { rough: rough::text(text), ..counters.text(text) };
    finish(name.to_owned(), "plain text".to_owned(), model, &counters, vec![Row { what: "text".to_owned(), count }])
}

fn finish(file: String, format: String, model: String, counters: &Counters, rows: Vec<Row>) -> Report {
    let mut total = Count::default();
    rows.iter().for_each(|row| total.add(row.count));
    let (encoding, basis) = (counters.counted.encoding(), counters.counted.basis().as_str());
    Report { file, format, model, encoding, basis, rows, total, reported_tokens: None, usage: None }
}

/// Adds the figures in the provider's measure, unless what it reported cannot be the usage of these messages.
fn calibrate(report: &mut Report, basis: Basis, counted: u64, reported: u64) {
    let mut calibration = Calibration::new(basis);
    if calibration.observe(counted, reported) != Heard::Taken {
        return;
    }
    let overhead = calibration.overhead();
    // One report less than the factor's due leaves no overhead; then all of it is the messages' own.
    let factor = if overhead > 0 { calibration.factor() } else { reported as f64 / counted.max(1) as f64 };
    let worth = |count: u64| (count as f64 * factor).round() as u64;
    for row in &mut report.rows {
        row.count.calibrated = Some(worth(row.count.counted));
    }
    if overhead > 0 {
        let count = Count { calibrated: Some(overhead), ..Count::default() };
        report.rows.push(Row { what: "not in the file".to_owned(), count });
    }
    report.total.calibrated = Some(overhead + worth(report.total.counted));
    report.usage = Some(Usage { reported, counted, overhead, factor });
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
    // What is not in the file has no count, and no figure to compare with one.
    let shown = |count: u64, figure: u64| if count == 0 && figure == 0 { "-".to_owned() } else { grouped(figure) };
    let line = |what: &str, count: &Count| {
        let messages = if count.messages == 0 { "-".to_owned() } else { grouped(count.messages) };
        let second = count.calibrated.filter(|_| report.usage.is_some()).unwrap_or(count.estimated);
        vec![
            what.to_owned(),
            messages,
            shown(count.counted, count.counted),
            grouped(second),
            change(count.counted, second),
            shown(count.counted, count.rough),
            change(count.counted, count.rough),
        ]
    };
    let mut rows: Vec<Vec<String>> = report.rows.iter().map(|row| line(&row.what, &row.count)).collect();
    rows.push(line("total", &report.total));
    let counted = if report.basis == Basis::Exact.as_str() { "EXACT" } else { "PROXY" };
    let second = if report.usage.is_some() { "CALIBRATED" } else { "ESTIMATE" };
    let header = ["", "MESSAGES", counted, second, "OFF BY", "HERMES", "OFF BY"];
    out.push_str(&table(&header, rows, &[1, 2, 3, 4, 5, 6], 2));
    match (report.usage, report.reported_tokens) {
        (Some(usage), _) => out.push_str(&format!(
            "  the provider reported {} prompt tokens for the last call, whose messages count {} here\n",
            grouped(usage.reported),
            grouped(usage.counted)
        )),
        (None, Some(reported)) => out.push_str(&format!(
            "  the provider reported {} prompt tokens for the last call, which was about other messages than these\n",
            grouped(reported)
        )),
        (None, None) => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn made(rows: &[(&str, u64, u64, u64, u64)]) -> Report {
        let row = |(what, messages, counted, estimated, rough): &(&str, u64, u64, u64, u64)| Row {
            what: (*what).to_owned(),
            count: Count {
                messages: *messages,
                counted: *counted,
                estimated: *estimated,
                rough: *rough,
                calibrated: None,
            },
        };
        let rows = rows.iter().map(row).collect();
        finish("a\u{7}.json".into(), "openai".into(), "gpt-4o".into(), &Counters::of("gpt-4o"), rows)
    }

    fn check(report: &Report, expected: &Expect) {
        expected.assert_eq(&anstream::adapter::strip_str(&text(report)).to_string());
    }

    const ROWS: [(&str, u64, u64, u64, u64); 2] =
        [("instructions and tools", 0, 100, 90, 80), ("user", 1_200, 40_000, 41_000, 30_000)];

    #[test]
    fn without_usage_the_estimate_stands_beside_the_count() {
        check(
            &made(&ROWS),
            &expect![[r#"
            a\u{7}.json (openai)
            gpt-4o: counted with o200k_base, its own vocabulary
                                      MESSAGES   EXACT  ESTIMATE   OFF BY  HERMES   OFF BY
              instructions and tools         -     100        90  -10.0 %      80  -20.0 %
              user                       1,200  40,000    41,000   +2.5 %  30,000  -25.0 %
              total                      1,200  40,100    41,090   +2.5 %  30,080  -25.0 %
        "#]],
        );
    }

    #[test]
    fn with_usage_the_rows_are_in_the_providers_measure_and_add_up() {
        let mut report = made(&ROWS);
        report.reported_tokens = Some(50_000);
        calibrate(&mut report, Basis::Exact, 40_100, 50_000);
        let sum: u64 = report.rows.iter().filter_map(|row| row.count.calibrated).sum();
        assert_eq!((sum, report.total.calibrated), (50_000, Some(50_000)));
        check(
            &report,
            &expect![[r#"
            a\u{7}.json (openai)
            gpt-4o: counted with o200k_base, its own vocabulary
                                      MESSAGES   EXACT  CALIBRATED   OFF BY  HERMES   OFF BY
              instructions and tools         -     100         100   +0.0 %      80  -20.0 %
              user                       1,200  40,000      40,000   +0.0 %  30,000  -25.0 %
              not in the file                -       -       9,900        -       -        -
              total                      1,200  40,100      50,000  +24.7 %  30,080  -25.0 %
              the provider reported 50,000 prompt tokens for the last call, whose messages count 40,100 here
        "#]],
        );
    }

    #[test]
    fn fewer_tokens_than_the_factor_asks_leave_no_overhead() {
        let mut report = made(&ROWS);
        calibrate(&mut report, Basis::Proxy, 40_100, 36_090);
        assert_eq!(report.total.calibrated, Some(36_090));
        assert_eq!(report.rows.len(), 2);
        assert_eq!(report.usage.map(|usage| (usage.overhead, usage.factor)), Some((0, 0.9)));
    }

    #[test]
    fn usage_of_other_messages_is_named_and_not_used() {
        let mut report = made(&ROWS);
        report.reported_tokens = Some(12);
        calibrate(&mut report, Basis::Exact, 40_100, 12);
        assert_eq!((report.usage, report.total.calibrated), (None, None));
        check(
            &report,
            &expect![[r#"
            a\u{7}.json (openai)
            gpt-4o: counted with o200k_base, its own vocabulary
                                      MESSAGES   EXACT  ESTIMATE   OFF BY  HERMES   OFF BY
              instructions and tools         -     100        90  -10.0 %      80  -20.0 %
              user                       1,200  40,000    41,000   +2.5 %  30,000  -25.0 %
              total                      1,200  40,100    41,090   +2.5 %  30,080  -25.0 %
              the provider reported 12 prompt tokens for the last call, which was about other messages than these
        "#]],
        );
    }

    #[test]
    fn json_names_every_figure() {
        let mut report = made(&ROWS);
        calibrate(&mut report, Basis::Exact, 40_100, 50_000);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["total"]["counted"], 40_100);
        assert_eq!(json["total"]["calibrated"], 50_000);
        assert_eq!(json["total"]["rough"], 30_080);
        assert_eq!(json["rows"][2]["what"], "not in the file");
        assert_eq!(json["usage"]["overhead"], 9_900);
    }
}
