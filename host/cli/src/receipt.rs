//! The receipt of a compaction as text: what was decided and why, in numbers, and what became of every message.

use crate::safe;
use crate::ui::{bold, dim, green, yellow};
use crate::words::{change, counted, grouped, table};
use engine_api::Basis;
use host_core::receipt::{Fate, Receipt, What};
use host_core::summariser::Call;
use host_core::survival::{Kept, Survival};
use host_import::{Problem, Severity};
use host_llm::Prices;

/// Runs of messages that the text shows; the JSON document has them all.
const RUNS_SHOWN_MAX: usize = 40;
/// Lines shown of each list: repairs, notes, summaries.
const LINES_SHOWN_MAX: usize = 12;
/// Import problems shown.
const PROBLEMS_SHOWN_MAX: usize = 5;
/// Encoding of counts that are estimates from classes of bytes.
const BYTE_CLASSES: &str = "byte_classes";

/// What the receipt's text says beside the receipt.
#[derive(Debug, Default)]
pub(crate) struct Beside<'a> {
    /// Where the conversation was read from.
    pub(crate) source: String,
    /// Prompt tokens that the provider reported, where the decision rests on them.
    pub(crate) reported_tokens: Option<u64>,
    /// Whether nobody stated the context window.
    pub(crate) is_window_assumed: bool,
    /// What to do about the engine that could not be had.
    pub(crate) fallback_hint: &'a str,
    /// What was lost in another dialect.
    pub(crate) conversion: Option<(&'a str, &'a [String])>,
    /// What the engine logged.
    pub(crate) log: &'a [String],
    /// What was wrong with the file.
    pub(crate) problems: &'a [Problem],
    /// Problems beyond those.
    pub(crate) problems_suppressed: u64,
    /// Where the conversation went.
    pub(crate) written_to: String,
    /// Prices by which calls are costed.
    pub(crate) prices: Option<&'a Prices>,
}

/// Renders the receipt.
pub(crate) fn text(receipt: &Receipt, beside: &Beside<'_>) -> String {
    let mut page = Page::default();
    page.out.push_str(&headline(receipt));
    page.fact("source", &beside.source);
    let trigger = receipt.trigger.map_or("none due", |trigger| trigger.as_str());
    page.fact("decision", &format!("{trigger}: {}", receipt.reason));
    if receipt.action == "unchanged" && receipt.trigger.is_none() {
        page.hint("--force compacts whatever the count says");
    }
    page.fact("engine", &engine(receipt));
    page.fact("model", &model(receipt, beside.is_window_assumed));
    page.fact("tokens", &tokens(receipt));
    page.fact("counted by", &counted_by(receipt, beside.reported_tokens));
    page.fact("messages", &messages(receipt));
    if receipt.user_messages_not_quoted > 0 {
        let count = counted(receipt.user_messages_not_quoted as u64, "user message");
        page.fact(
            "user's words",
            &format!("{count} neither kept nor quoted within the budget; only the input has them"),
        );
    }
    if !receipt.summariser.is_empty() {
        page.fact("summaries by", &safe::line(&receipt.summariser));
    }
    for call in &receipt.calls {
        page.fact("model call", &model_call(call, beside.prices));
    }
    if let Some(cost) = beside.prices.and_then(|prices| cost(receipt, prices)).filter(|_| receipt.calls.len() > 1) {
        page.fact("cost", &dollars(cost));
    }
    if let Some(survival) = &receipt.survival {
        page.fact("survival", &survived(survival));
    }
    if !beside.written_to.is_empty() {
        page.fact("written to", &beside.written_to);
    }
    page.runs(&receipt.fates);
    page.summaries(receipt);
    page.list("Repairs", &receipt.repairs, "");
    page.list("Fallbacks", &receipt.fallbacks, beside.fallback_hint);
    if let Some(floor) = &receipt.floor {
        page.list(
            "Floor",
            std::slice::from_ref(floor),
            "a larger window, fewer pinned messages or shorter instructions lower it",
        );
    }
    page.list("Engine's notes", &receipt.notes, "");
    page.list("Engine's log", beside.log, "");
    if let Some((dialect, notes)) = beside.conversion {
        page.list(&format!("Converted to {dialect}"), notes, "");
    }
    page.problems(beside.problems, beside.problems_suppressed);
    page.out
}

fn headline(receipt: &Receipt) -> String {
    let seconds = receipt.elapsed_ms as f64 / 1000.0;
    if receipt.action == "unchanged" {
        let count = counted(receipt.messages_before as u64, "message");
        return format!("{}\n", bold(&format!("Unchanged: {count}, {} tokens", grouped(receipt.tokens_before))));
    }
    let text = format!(
        "Compacted {} → {} messages, {} → {} tokens",
        grouped(receipt.messages_before as u64),
        grouped(receipt.messages_after as u64),
        grouped(receipt.tokens_before),
        grouped(receipt.tokens_after)
    );
    format!("{} {}\n", bold(&green(&text)), dim(&format!("in {seconds:.2} s")))
}

fn engine(receipt: &Receipt) -> String {
    let Receipt { engine_wanted, engine_used, engine_source, .. } = receipt;
    let wanted = if engine_wanted.is_empty() { host_registry::BUILTIN_NAME } else { engine_wanted };
    match engine_used.as_str() {
        "" => format!("{wanted} asked for ({engine_source})"),
        "host" => format!("none: the host's own last steps; {wanted} asked for ({engine_source})"),
        used if used == wanted => format!("{used} ({engine_source})"),
        used => format!("{used}; {wanted} asked for"),
    }
}

fn model(receipt: &Receipt, is_assumed: bool) -> String {
    let name = if receipt.model.is_empty() { "not stated" } else { &receipt.model };
    let assumed = if is_assumed { " (assumed; --context-length states it)" } else { "" };
    let (window, threshold) = (grouped(receipt.context_length), grouped(receipt.threshold_tokens));
    format!("{name}, window {window}{assumed}, threshold {threshold}")
}

fn tokens(receipt: &Receipt) -> String {
    let Receipt { tokens_before, tokens_after, target_tokens, .. } = receipt;
    if receipt.action == "unchanged" {
        let share = share(*tokens_before, receipt.threshold_tokens);
        return format!("{}, {share} of the threshold", grouped(*tokens_before));
    }
    format!(
        "{} → {} ({}), target {}, {} of it",
        grouped(*tokens_before),
        grouped(*tokens_after),
        change(*tokens_before, *tokens_after),
        grouped(*target_tokens),
        share(*tokens_after, *target_tokens)
    )
}

/// Returns what a request to a model cost in US dollars, where the model's price and its tokens are known.
fn cost_of(call: &Call, prices: &Prices) -> Option<f64> {
    if call.prompt_tokens == 0 && call.completion_tokens == 0 {
        return None;
    }
    let price = prices.find(&call.model)?.at(call.prompt_tokens);
    let millions = |tokens: u64| tokens as f64 / 1_000_000.0;
    Some(millions(call.prompt_tokens) * price.input + millions(call.completion_tokens) * price.output)
}

/// Returns what a compaction's requests cost in US dollars; none if one is not known or there were none.
pub(crate) fn cost(receipt: &Receipt, prices: &Prices) -> Option<f64> {
    let answered = receipt.calls.iter().filter(|call| call.prompt_tokens > 0 || call.completion_tokens > 0);
    let costs: Option<Vec<f64>> = answered.map(|call| cost_of(call, prices)).collect();
    costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum())
}

/// Returns an amount as people read it; cached tokens cost less, so it is an upper bound.
pub(crate) fn dollars(amount: f64) -> String {
    format!("at most ${amount:.4}")
}

/// Says how many of the names that went out of sight still stand in the context.
fn survived(survival: &Survival) -> String {
    let Survival { paths, commands, numbers, identifiers } = survival;
    let shown = [("paths", paths), ("commands", commands), ("numbers", numbers), ("identifiers", identifiers)];
    let shown: Vec<String> = shown
        .into_iter()
        .filter(|(_, Kept { of, .. })| *of > 0)
        .map(|(name, Kept { kept, of })| format!("{name} {} of {}", grouped(*kept), grouped(*of)))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!("{} that went out of sight stand in the context word for word", shown.join(", "))
}

fn model_call(call: &Call, prices: Option<&Prices>) -> String {
    let seconds = call.elapsed_ms as f64 / 1000.0;
    let tokens = match (call.prompt_tokens, call.completion_tokens) {
        (0, 0) => String::new(),
        (read, written) => format!(", {} tokens read and {} written", grouped(read), grouped(written)),
    };
    let cost = prices.and_then(|prices| cost_of(call, prices)).map(|cost| format!(", {}", dollars(cost)));
    let cost = cost.unwrap_or_default();
    format!(
        "{} at {}: {} in {seconds:.1} s{tokens}{cost}",
        safe::line(&call.model),
        safe::line(&call.endpoint),
        safe::line(&call.outcome)
    )
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}

fn counted_by(receipt: &Receipt, reported: Option<u64>) -> String {
    let encoding = receipt.encoding.as_str();
    let how = match receipt.basis {
        _ if encoding == BYTE_CLASSES => "estimated from classes of bytes".to_owned(),
        Basis::Counted => format!("counted with {encoding}, the model's own"),
        Basis::Reported => format!("counted with {encoding}"),
        _ => format!("estimated: {encoding} stands in for the model's own vocabulary"),
    };
    match reported {
        Some(count) => format!("{how}; decided on {} tokens that the provider reported", grouped(count)),
        None => how,
    }
}

fn messages(receipt: &Receipt) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for fate in &receipt.fates {
        let word = fate.what.as_str();
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += fate.messages,
            None => counts.push((word, fate.messages)),
        }
    }
    let counts: Vec<String> = counts.into_iter().map(|(word, count)| format!("{word} {}", grouped(count))).collect();
    let (before, after) = (receipt.messages_before as u64, receipt.messages_after as u64);
    if receipt.action == "unchanged" {
        return grouped(before);
    }
    format!("{} → {}: {}", grouped(before), grouped(after), counts.join(", "))
}

#[derive(Default)]
struct Page {
    out: String,
}

impl Page {
    fn fact(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.out.push_str(&format!("  {name:<13}{}\n", safe::line(value)));
    }

    fn hint(&mut self, hint: &str) {
        self.out.push_str(&format!("  {:<13}{}\n", "", dim(&format!("hint: {}", safe::line(hint)))));
    }

    fn title(&mut self, title: &str) {
        self.out.push_str(&format!("{}\n", bold(title)));
    }

    fn runs(&mut self, fates: &[Fate]) {
        if fates.iter().all(|fate| fate.what == What::Kept) {
            return;
        }
        let shown = fates.iter().take(RUNS_SHOWN_MAX).map(|fate| {
            let (first, last) = (fate.first.0, fate.last.0);
            let range = if first == last { first.to_string() } else { format!("{first}–{last}") };
            let what = match &fate.what {
                What::Kept | What::Rewritten | What::Moved => fate.what.as_str().to_owned(),
                What::Summarised { node } => format!("summarised into node {}", node.0),
                What::Dropped { reason } => format!("dropped: {}", safe::line(reason)),
            };
            vec![range, grouped(fate.messages), what]
        });
        let text = table(&["MESSAGES", "COUNT", "WHAT BECAME OF THEM"], shown.collect(), &[1], 2);
        self.out.push_str(&text);
        self.more(fates.len(), RUNS_SHOWN_MAX, "run");
    }

    fn summaries(&mut self, receipt: &Receipt) {
        if receipt.summaries.is_empty() {
            return;
        }
        let shown = receipt.summaries.iter().take(LINES_SHOWN_MAX).map(|one| {
            vec![one.node.0.to_string(), one.depth.to_string(), grouped(one.messages as u64), grouped(one.tokens)]
        });
        let header = ["SUMMARY NODE", "DEPTH", "MESSAGES", "TOKENS"];
        self.out.push_str(&table(&header, shown.collect(), &[1, 2, 3], 2));
        self.more(receipt.summaries.len(), LINES_SHOWN_MAX, "summary node");
    }

    fn list(&mut self, title: &str, lines: &[String], hint: &str) {
        if lines.is_empty() {
            return;
        }
        self.title(title);
        for line in lines.iter().take(LINES_SHOWN_MAX) {
            self.out.push_str(&format!("  {} {}\n", yellow("!"), safe::line(line)));
        }
        self.more(lines.len(), LINES_SHOWN_MAX, "line");
        if !hint.is_empty() {
            self.out.push_str(&format!("    {}\n", dim(&format!("hint: {}", safe::line(hint)))));
        }
    }

    fn problems(&mut self, problems: &[Problem], suppressed: u64) {
        if problems.is_empty() {
            return;
        }
        let count = (problems.len() as u64).saturating_add(suppressed);
        let lost = problems.iter().filter(|problem| problem.severity == Severity::Lost).count();
        let lost =
            if lost == 0 { "nothing lost".to_owned() } else { format!("{} with content lost", grouped(lost as u64)) };
        self.title(&format!("{} in the file, {lost}", counted(count, "problem")));
        for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
            let severity = match problem.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Lost => "lost",
            };
            let place = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            self.out.push_str(&format!("  {place}{severity}: {}\n", safe::line(&problem.what)));
        }
        let rest = count.saturating_sub(PROBLEMS_SHOWN_MAX as u64);
        if rest > 0 {
            self.out.push_str(&format!("  … and {} more; --json has them\n", grouped(rest)));
        }
    }

    fn more(&mut self, count: usize, shown_max: usize, noun: &str) {
        if let Some(rest) = count.checked_sub(shown_max).filter(|rest| *rest > 0) {
            self.out.push_str(&format!("  … and {}; --json has them\n", counted(rest as u64, &format!("more {noun}"))));
        }
    }
}

#[cfg(test)]
mod tests;
