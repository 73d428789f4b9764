//! The receipt's text, as a person sees it.

use super::*;
use engine_api::CompletionModel;
use engine_api::{MessageId, NodeId, Trigger};
use expect_test::{Expect, expect};
use host_core::receipt::SummaryLine;

fn run(first: u64, last: u64, what: What) -> Fate {
    Fate { first: MessageId(first), last: MessageId(last), messages: last - first + 1, what }
}

fn receipt() -> Receipt {
    Receipt {
        session_after: None,
        session: "s1".to_owned(),
        action: "compacted",
        engine_wanted: "lcm".to_owned(),
        engine_used: "lcm".to_owned(),
        engine_source: "plugins/context_engine/lcm".to_owned(),
        trigger: Some(Trigger::Threshold),
        reason: "196,120 tokens reach the threshold of 150000".to_owned(),
        model: "claude-opus-4-6".to_owned(),
        context_length: 200_000,
        threshold_tokens: 150_000,
        target_tokens: 150_000,
        tokens_before: 196_120,
        tokens_after: 41_870,
        basis: Basis::Estimated,
        prompt_tokens: 196_120,
        prompt_basis: Basis::Estimated,
        encoding: "o200k_base".to_owned(),
        messages_before: 412,
        messages_after: 33,
        fates: vec![
            run(1, 2, What::Kept),
            run(3, 380, What::Summarised { node: NodeId(1) }),
            run(381, 381, What::Dropped { reason: "repeats message 12".to_owned() }),
            run(382, 383, What::Rewritten),
            run(384, 412, What::Kept),
        ],
        summaries: vec![SummaryLine { node: NodeId(1), depth: 0, messages: 378, tokens: 1_204 }],
        completions: 0,
        summariser: String::new(),
        calls: Vec::new(),
        attempts: Vec::new(),
        rung: None,
        fallbacks: Vec::new(),
        repairs: Vec::new(),
        notes: Vec::new(),
        floor: None,
        user_messages_not_quoted: 0,
        survival: None,
        elapsed_ms: 1_234,
    }
}

fn check(receipt: &Receipt, beside: &Beside<'_>, expected: Expect) {
    expected.assert_eq(&anstream::adapter::strip_str(&text(receipt, beside)).to_string());
}

#[test]
fn a_receipt_says_what_became_of_every_message() {
    let beside = Beside { source: "a.jsonl (claude-code)".to_owned(), ..Beside::default() };
    check(
        &receipt(),
        &beside,
        expect![[r#"
        Compacted 412 → 33 messages, 196,120 → 41,870 tokens in 1.23 s
          source       a.jsonl (claude-code)
          decision     threshold: 196,120 tokens reach the threshold of 150000
          engine       lcm (plugins/context_engine/lcm)
          model        claude-opus-4-6, window 200,000, threshold 150,000
          tokens       196,120 → 41,870 (-78.7 %), target 150,000, 27.9 % of it
          counted by   estimated: o200k_base stands in for the model's own vocabulary
          messages     412 → 33: kept 31, summarised 378, dropped 1, rewritten 2
          MESSAGES  COUNT  WHAT BECAME OF THEM
          1–2           2  kept
          3–380       378  summarised into node 1
          381           1  dropped: repeats message 12
          382–383       2  rewritten
          384–412      29  kept
          SUMMARY NODE  DEPTH  MESSAGES  TOKENS
          1                 0       378   1,204
    "#]],
    );
}

#[test]
fn what_went_otherwise_is_said_with_its_reason() {
    let mut receipt = receipt();
    receipt.engine_used = "host".to_owned();
    receipt.engine_source = "built-in".to_owned();
    receipt.fallbacks = vec!["engine lcm is untrusted: nobody approved it; compressor is used".to_owned()];
    receipt.repairs = vec!["answered 1 call".to_owned()];
    receipt.floor = Some("9000 tokens are left of a target of 8000".to_owned());
    receipt.notes = vec!["evil \u{1b}[2J\nnote".to_owned()];
    receipt.user_messages_not_quoted = 2;
    receipt.completions = 1;
    receipt.summariser = "gpt-5-mini: 61,000 tokens cost less there than 140,000 here".to_owned();
    receipt.calls = vec![Call {
        model: "gpt-5-mini".to_owned(),
        endpoint: "https://api.example:443".to_owned(),
        on: CompletionModel::Auxiliary,
        outcome: "answered".to_owned(),
        elapsed_ms: 2_140,
        prompt_tokens: 61_000,
        completion_tokens: 1_204,
        pieces: 1,
    }];
    receipt.fates.truncate(1);
    let problems: Vec<Problem> = (1..=7)
        .map(|line| Problem { line: Some(line), severity: Severity::Lost, what: "is not JSON".to_owned() })
        .collect();
    let notes = ["2 pictures replaced by the text [image]".to_owned()];
    let beside = Beside {
        source: "-".to_owned(),
        reported_tokens: Some(210_000),
        is_window_assumed: true,
        fallback_hint: "run `palimpsest engines install lcm --trust`",
        conversion: Some(("anthropic", &notes)),
        problems: &problems,
        problems_suppressed: 3,
        written_to: "out.json".to_owned(),
        ..Beside::default()
    };
    check(
        &receipt,
        &beside,
        expect![[r#"
            Compacted 412 → 33 messages, 196,120 → 41,870 tokens in 1.23 s
              source       -
              decision     threshold: 196,120 tokens reach the threshold of 150000
              engine       none: the host's own last steps; lcm asked for (built-in)
              model        claude-opus-4-6, window 200,000 (assumed; --context-length states it), threshold 150,000
              tokens       196,120 → 41,870 (-78.7 %), target 150,000, 27.9 % of it
              counted by   estimated: o200k_base stands in for the model's own vocabulary; decided on 210,000 tokens that the provider reported
              messages     412 → 33: kept 2
              user's words 2 user messages neither kept nor quoted within the budget; only the input has them
              summaries by gpt-5-mini: 61,000 tokens cost less there than 140,000 here
              model call   gpt-5-mini at https://api.example:443: answered in 2.1 s, 61,000 tokens read and 1,204 written
              written to   out.json
              SUMMARY NODE  DEPTH  MESSAGES  TOKENS
              1                 0       378   1,204
            Repairs
              ! answered 1 call
            Fallbacks
              ! engine lcm is untrusted: nobody approved it; compressor is used
                hint: run `palimpsest engines install lcm --trust`
            Floor
              ! 9000 tokens are left of a target of 8000
                hint: a larger window, fewer pinned messages or shorter instructions lower it
            Engine's notes
              ! evil \u{1b}[2J\nnote
            Converted to anthropic
              ! 2 pictures replaced by the text [image]
            10 problems in the file, 7 with content lost
              line 1: lost: is not JSON
              line 2: lost: is not JSON
              line 3: lost: is not JSON
              line 4: lost: is not JSON
              line 5: lost: is not JSON
              … and 5 more; --json has them
        "#]],
    );
}

#[test]
fn an_unchanged_conversation_says_why() {
    let mut receipt = receipt();
    receipt.action = "unchanged";
    receipt.trigger = None;
    receipt.reason = "1000 tokens are below the threshold of 150000".to_owned();
    receipt.engine_used = String::new();
    (receipt.tokens_before, receipt.tokens_after) = (1_000, 1_000);
    (receipt.messages_before, receipt.messages_after) = (1, 1);
    receipt.fates = vec![run(1, 1, What::Kept)];
    receipt.encoding = "byte_classes".to_owned();
    check(
        &receipt,
        &Beside::default(),
        expect![[r#"
            Unchanged: 1 message, 1,000 tokens
              decision     none due: 1000 tokens are below the threshold of 150000
                           hint: --force compacts whatever the count says
              engine       lcm asked for (plugins/context_engine/lcm)
              model        claude-opus-4-6, window 200,000, threshold 150,000
              tokens       1,000, 0.7 % of the threshold
              counted by   estimated from classes of bytes
              messages     1
              SUMMARY NODE  DEPTH  MESSAGES  TOKENS
              1                 0       378   1,204
        "#]],
    );
}

#[test]
fn a_long_receipt_stays_readable() {
    let mut receipt = receipt();
    receipt.fates = (1..=1_000)
        .map(|at| run(at, at, if at % 2 == 0 { What::Kept } else { What::Dropped { reason: "x".repeat(10_000) } }))
        .collect();
    receipt.notes = vec!["note".to_owned(); 10_000];
    let text = text(&receipt, &Beside::default());
    assert!(text.lines().count() < 80 && text.len() < 40_000, "{} bytes", text.len());
    assert!(text.contains("… and 960 more runs; --json has them"), "{text:.3000}");
}

#[test]
fn a_cost_is_that_of_all_calls_whose_tokens_are_known() {
    let call = |model: &str, prompt_tokens, completion_tokens| Call {
        model: model.to_owned(),
        endpoint: String::new(),
        on: CompletionModel::Auxiliary,
        outcome: "answered".to_owned(),
        elapsed_ms: 1,
        prompt_tokens,
        completion_tokens,
        pieces: 1,
    };
    let prices = Prices::embedded();
    let price = *prices.find("gpt-5-mini").unwrap();
    let mut receipt = receipt();
    receipt.calls = vec![call("gpt-5-mini", 1_000_000, 0), call("gpt-5-mini", 0, 0), call("gpt-5-mini", 0, 1_000_000)];
    assert_eq!(cost(&receipt, &prices), Some(price.input + price.output));
    receipt.calls.push(call("nobody-knows", 5, 5));
    assert_eq!(cost(&receipt, &prices), None, "a part of the cost would be taken for all of it");
    receipt.calls.clear();
    assert_eq!(cost(&receipt, &prices), None);
}

#[test]
fn survival_names_what_there_was_and_nothing_else() {
    let mut survival = Survival::default();
    assert_eq!(survived(&survival), "");
    survival.paths = Kept { kept: 3, of: 1_200 };
    survival.commands = Kept { kept: 0, of: 2 };
    assert_eq!(
        survived(&survival),
        "paths 3 of 1,200, commands 0 of 2 that went out of sight stand in the context word for word"
    );
}

#[test]
fn a_receipt_is_read_again_as_it_was_written() {
    let written = serde_json::to_value(receipt()).unwrap();
    let read: Receipt = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}
