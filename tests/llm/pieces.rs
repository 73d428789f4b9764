//! Prompts larger than the model's window.

use crate::world::{KEY, World, outcomes, question};
use support::provider::{Provider, Reply};

/// A prompt of this many messages, framed as engines frame theirs.
fn prompt(messages: usize) -> String {
    let blocks: Vec<String> =
        (0..messages).map(|n| format!("[USER]: message number {n} {}", "word ".repeat(100))).collect();
    format!("Summarise this.\nTURNS TO SUMMARIZE:\n\n{}\n\nFOCUS TOPIC: \"tests\"", blocks.join("\n\n"))
}

#[test]
fn a_prompt_larger_than_the_window_is_read_in_pieces_and_counts_once() {
    let auxiliary = Provider::with(KEY, |seen| {
        let prompt = seen.prompt();
        let is_part = prompt.starts_with("What follows is part ");
        Some(Reply::Counted(if is_part { "notes".to_owned() } else { "whole".to_owned() }, 100, 10))
    });
    let mut world = World::new(&auxiliary);
    world.config.auxiliary.compression.context_length = Some(8_000);
    let prompt = prompt(100);
    let got = world.ask(&world.client(), &question(&prompt));
    assert_eq!(outcomes(&got), ["aux: answered"]);
    let seen = auxiliary.seen();
    let call = &got.calls[0];
    assert_eq!((call.pieces as usize, call.prompt_tokens), (seen.len(), 100 * seen.len() as u64));
    assert_eq!(got.completion.unwrap().text, "whole");
    assert!(seen.len() > 3 && seen.iter().all(|seen| seen.prompt().len() / 3 <= 8_000), "{}", seen.len());
    let (last, parts) = seen.split_last().unwrap();
    let last = last.prompt();
    assert!(last.starts_with("Summarise this.") && last.ends_with("FOCUS TOPIC: \"tests\""), "{last}");
    assert_eq!(last.matches("]: notes").count(), parts.len());
    let read: String = parts.iter().map(|part| part.prompt()).collect();
    assert!((0..100).all(|n| read.contains(&format!("message number {n} "))), "every message was read");
    assert!(auxiliary.under_way_max() <= 4);
}

#[test]
fn a_window_that_an_error_states_is_kept_to() {
    let mut requests = 0;
    let auxiliary = Provider::with(KEY, move |_| {
        requests += 1;
        Some(if requests == 1 { Reply::Overflow(8_000) } else { Reply::Answer("fits".to_owned()) })
    });
    let world = World::new(&auxiliary);
    let client = world.client();
    let got = world.ask(&client, &question(&prompt(60)));
    assert_eq!(outcomes(&got), ["aux: 400 prompt too long for the model", "aux: answered"]);
    assert!(got.calls[1].pieces > 1);
    assert_eq!(outcomes(&world.ask(&client, &question(&prompt(60)))), ["aux: answered"]);
}

#[test]
fn a_failed_piece_fails_the_whole() {
    let auxiliary = Provider::with(KEY, |_| Some(Reply::Status(401, String::new(), Vec::new())));
    let mut world = World::new(&auxiliary);
    world.config.auxiliary.compression.context_length = Some(8_000);
    assert_eq!(outcomes(&world.ask(&world.client(), &question(&prompt(60)))), ["aux: 401 key refused"]);
}

#[test]
fn what_no_number_of_pieces_holds_is_not_asked() {
    let auxiliary = Provider::start(KEY, []);
    let mut world = World::new(&auxiliary);
    world.config.auxiliary.compression.context_length = Some(1_000);
    let got = world.ask(&world.client(), &question(&prompt(2_000)));
    assert!(got.calls.is_empty());
    assert!(got.completion.unwrap_err().message.contains("too large even in pieces"));
}
