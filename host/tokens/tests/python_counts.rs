//! Counts are those of Python tiktoken, on texts of all scripts and kinds, and those of tiktoken-rs on the same texts.

use host_tokens::Counter;
use serde::Deserialize;

/// Tokens by which a cut may change the count of a long run, for each 16 KiB of it: a cut falls once in so many bytes.
const CUT_TOKENS_MAX: u32 = 1;
const CUT_BYTES: usize = 16 * 1024;

/// Characters from..to of a snippet, repeated.
type Piece = (usize, usize, usize, usize);

#[derive(Deserialize)]
struct Stored {
    made_with: String,
    snippets: Vec<(String, String)>,
    cases: Vec<(u32, u32, Vec<Piece>)>,
    long: Vec<(u32, u32, usize, usize)>,
}

/// How the values are made stands in `counts/generate.py`.
fn stored() -> Stored {
    serde_json::from_str(include_str!("counts/counts.json")).expect("the stored counts are read")
}

impl Stored {
    fn text(&self, parts: &[Piece]) -> String {
        let part = |(snippet, from, to, times): &Piece| {
            let chars: String = self.snippets[*snippet].1.chars().skip(*from).take(to - from).collect();
            chars.repeat(*times)
        };
        parts.iter().map(part).collect()
    }
}

#[test]
fn counts_equal_those_of_python_tiktoken() {
    let stored = stored();
    assert_eq!(stored.made_with, "tiktoken 0.14.0");
    assert!(stored.snippets.len() >= 50 && stored.cases.len() >= 3_000);
    let (o200k, cl100k) = (Counter::for_model("gpt-4o"), Counter::for_model("gpt-4"));
    let wrong: Vec<String> = stored
        .cases
        .iter()
        .map(|(new, old, parts)| (new, old, stored.text(parts)))
        .filter(|(new, old, text)| o200k.count(text) != **new || cl100k.count(text) != **old)
        .map(|(new, old, text)| format!("{new} {old} but {} {}: {text:?}", o200k.count(&text), cl100k.count(&text)))
        .collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_cut_of_a_long_run_changes_a_count_by_a_token_at_most() {
    let stored = stored();
    let (o200k, cl100k) = (Counter::for_model("gpt-4o"), Counter::for_model("gpt-4"));
    let units: Vec<char> = stored.snippets.last().expect("the units are the last snippet").1.chars().collect();
    let mut wrong = Vec::new();
    let mut exact = 0;
    for (new, old, at, times) in &stored.long {
        let text = units[*at].to_string().repeat(*times);
        let tolerance = CUT_TOKENS_MAX * u32::try_from(text.len() / CUT_BYTES).expect("a short text");
        for (counted, right) in [(o200k.count(&text), *new), (cl100k.count(&text), *old)] {
            exact += u32::from(counted == right);
            if counted.abs_diff(right) > tolerance {
                wrong.push(format!("{counted} for {right}: {times} x {:?}", units[*at]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} ({exact} exact):\n{}", wrong.len(), 2 * stored.long.len(), wrong.join("\n"));
}

#[test]
fn the_second_library_counts_alike() {
    let stored = stored();
    for (_, _, parts) in &stored.cases {
        let text = stored.text(parts);
        for (model, peer) in
            [("gpt-4o", tiktoken_rs::o200k_base_singleton()), ("gpt-4", tiktoken_rs::cl100k_base_singleton())]
        {
            assert_eq!(
                Counter::for_model(model).count(&text) as usize,
                peer.count_ordinary(&text),
                "{model}: {text:?}"
            );
        }
    }
}
