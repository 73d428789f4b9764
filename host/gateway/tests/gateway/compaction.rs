//! A conversation that outgrows its window: it is compacted on the way, once, and goes on.

use crate::world::{Chat, World};
use support::provider::{Provider, Reply, Seen};

const CHAT: &str = "/v1/chat/completions";
/// A window of 20,000 tokens: compacted at 15,000.
const SMALL: &str = "model: {context_length: 20000}";

/// A provider that answers everything and reports a third of the bytes as tokens.
fn counting() -> Provider {
    Provider::with("", |seen| Some(Reply::Counted("ok".into(), seen.body.len() as u64 / 4, 5)))
}

/// Tells a turn of the conversation from a request for a summary, which ends with a question.
fn is_turn(seen: &Seen) -> bool {
    let messages = seen.json["messages"].as_array().unwrap();
    seen.json.get("tools").is_some() && (messages.len() <= 2 || messages.last().unwrap()["role"] == "tool")
}

/// Takes a conversation through so many steps, each of about so many characters.
fn grow(world: &World, chat: &mut Chat, steps: std::ops::Range<usize>, chars: usize) {
    for nth in steps {
        let got = world.post(CHAT, &[], chat.body());
        assert_eq!(got.status, 200, "step {nth}: {}", got.body);
        chat.step(nth, chars);
    }
}

/// Returns how many compactions the gateway has counted.
fn compactions(world: &World) -> usize {
    let metrics = world.get("/metrics").body;
    let lines = metrics.lines().filter(|line| line.starts_with("palimpsest_compactions_total"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn a_conversation_goes_on_far_beyond_its_window() {
    let world = World::with(SMALL, counting());
    let mut chat = Chat::new("Read all parts and remember that the port is 48713.");
    grow(&world, &mut chat, 0..60, 4_000);
    let seen = world.provider.seen();
    let largest = seen.iter().map(|seen| seen.body.len()).max().unwrap();
    assert!(largest < 20_000 * 4, "no request is larger than the window: {largest} bytes");
    assert!(chat.body().len() > 200_000);
    let last = &seen.last().unwrap().body;
    assert!(last.contains("the port is 48713"), "the user's words stay");
    let metrics = world.get("/metrics").body;
    assert!(metrics.contains("palimpsest_compactions_total{engine=\"compressor\""), "{metrics}");
}

#[test]
fn the_prefix_stays_the_same_between_compactions() {
    let world = World::with(SMALL, counting());
    let mut chat = Chat::new("Read all parts.");
    grow(&world, &mut chat, 0..60, 4_000);
    let seen: Vec<_> = world.provider.seen().into_iter().filter(is_turn).collect();
    let mut breaks = 0;
    for pair in seen.windows(2) {
        let messages = |at: usize| pair[at].json["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(0), messages(1));
        if after.get(..before.len()) != Some(before.as_slice()) {
            breaks += 1;
        }
    }
    assert_eq!(breaks, compactions(&world), "the prefix changes with a compaction and never else");
    assert!(breaks > 0);
}

#[test]
fn a_restart_changes_nothing_that_leaves() {
    let settings = SMALL;
    let world = World::with(settings, counting());
    let mut chat = Chat::new("Read all parts.");
    grow(&world, &mut chat, 0..30, 4_000);
    let before = world.post(CHAT, &[], chat.body());
    assert_eq!(before.status, 200);
    let last = world.provider.seen().last().unwrap().body.clone();
    let (_, home, provider) = world.end();
    let world = World::at(settings, provider, home);
    let after = world.post(CHAT, &[], chat.body());
    assert_eq!(after.status, 200);
    assert_eq!(world.provider.seen().last().unwrap().body, last, "the same request maps to the same bytes");
    chat.step(30, 4_000);
    grow(&world, &mut chat, 31..40, 4_000);
}

#[test]
fn a_provider_whose_window_is_smaller_than_thought_is_believed() {
    let limit = 8_000;
    let provider = Provider::with("", move |seen| {
        let tokens = seen.body.len() as u64 / 4;
        Some(if tokens > limit { Reply::Overflow(limit) } else { Reply::Counted("ok".into(), tokens, 5) })
    });
    let world = World::with("model: {context_length: 100000}", provider);
    let mut chat = Chat::new("Read all parts.");
    grow(&world, &mut chat, 0..40, 3_000);
    let refused = world
        .get("/metrics")
        .body
        .lines()
        .find(|line| line.starts_with("palimpsest_overflows_total"))
        .unwrap()
        .to_owned();
    let refused: usize = refused.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..=6).contains(&refused), "the window is learned from the first refusal: {refused} refusals");
}

#[test]
fn a_request_that_fits_in_no_form_is_refused_in_words_that_clients_know() {
    let provider = Provider::with("", |_| Some(Reply::Overflow(100)));
    let world = World::with("model: {context_length: 100000}", provider);
    let mut chat = Chat::new("Read all parts.");
    for nth in 0..4 {
        chat.step(nth, 3_000);
    }
    let got = world.post(CHAT, &[], chat.body());
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["code"], "context_length_exceeded", "{}", got.body);
    let turns = world.provider.seen().into_iter().filter(is_turn).count();
    assert!(turns <= 4, "{turns} requests for one");
}

#[test]
fn compaction_can_be_switched_off_and_asked_for() {
    let world = World::with("compression: {enabled: false}\nmodel: {context_length: 20000}", counting());
    let mut chat = Chat::new("Read all parts.");
    grow(&world, &mut chat, 0..30, 4_000);
    assert_eq!(world.provider.seen().last().unwrap().json["messages"].as_array().unwrap().len(), 2 + 2 * 29);
    let got = world.post(CHAT, &[("x-palimpsest-compact", "the parts")], chat.body());
    assert_eq!(got.status, 200);
    assert!(got.header("x-palimpsest").contains("action=compacted"), "{}", got.header("x-palimpsest"));
    assert!(world.provider.seen().last().unwrap().body.len() < 100_000);
}

#[test]
fn a_small_window_with_large_tools_is_not_compacted_with_every_turn() {
    let world = World::with("model: {context_length: 64000}", counting());
    let mut chat = Chat::new("Read all parts.");
    chat.messages[0]["content"] = serde_json::Value::from("A rule of the house, in a few plain words. ".repeat(3_500));
    grow(&world, &mut chat, 0..40, 7_000);
    let list = world.get("/palimpsest/sessions").json();
    let name = list["sessions"][0]["name"].as_str().unwrap().to_owned();
    let session = world.get(&format!("/palimpsest/sessions/{name}")).json();
    for receipt in session["receipts"].as_array().unwrap() {
        println!(
            "{} -> {} target {} {} | {} {}",
            receipt["tokens_before"],
            receipt["tokens_after"],
            receipt["target_tokens"],
            receipt["rung"],
            receipt["reason"],
            receipt["fallbacks"]
        );
    }
    assert!(compactions(&world) <= 12, "{} compactions in 40 turns", compactions(&world));
}
