//! Counts of whole messages: framing, pictures, and parts known by their bytes only.

use super::*;
use engine_api::Role;

fn message(raw: &str, parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, raw, parts)
}

fn measured(raw: &str, parts: Vec<Part>) -> (u32, Vec<u32>) {
    let counter = Counter::for_model("gpt-4o");
    let mut messages = vec![message(raw, parts)];
    let without_touching = counter.count_message(&messages[0]);
    counter.measure(&mut messages);
    assert_eq!(messages[0].tokens, without_touching);
    (messages[0].tokens, messages[0].parts.iter().map(|part| part.tokens).collect())
}

#[test]
fn a_message_is_its_parts_and_its_framing() {
    let parts = vec![Part::new(PartKind::Text, "hello world"), Part::call("call_1", "hello", "hello world")];
    assert_eq!(measured("{}", parts), (MESSAGE_TOKENS + 2 + 3, vec![2, 3]));
    assert_eq!(measured("{}", vec![]), (MESSAGE_TOKENS, vec![]));
}

#[test]
fn a_picture_has_one_price_and_its_data_is_not_counted() {
    let data = "iVBORw0KGgo".repeat(20_000);
    let raw = format!(
        r#"{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","data":"{data}"}}}},{{"type":"new_block"}}]}}"#
    );
    let parts = vec![Part::new(PartKind::Image, ""), Part::new(PartKind::Opaque, "")];
    let (total, each) = measured(&raw, parts);
    assert_eq!(each[0], IMAGE_TOKENS);
    assert!(each[1] < 40, "the unknown block took {} tokens", each[1]);
    assert!(total < IMAGE_TOKENS + 60);

    let mut result = Part::result("c1", "hello world");
    result.flags = Flags::HAS_IMAGE;
    assert_eq!(measured("{}", vec![result]).1, vec![IMAGE_TOKENS + 2]);
}

#[test]
fn opaque_bytes_are_a_quarter_of_a_token_each() {
    let blob = "gAAAAABo".repeat(500);
    let raw = format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{blob}"}}"#);
    let (_, each) = measured(&raw, vec![Part::new(PartKind::Reasoning, "")]);
    assert!(each[0].abs_diff(1000) < 20, "{}", each[0]);
}

#[test]
fn decoded_text_is_not_counted_again_as_opaque_bytes() {
    // Every newline and every escaped character is longer in the JSON than in the text.
    let text = "línea\n".repeat(400);
    let escaped = "l\\u00ednea\\n".repeat(400);
    let raw =
        format!(r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"{escaped}","signature":""}}]}}"#);
    let (_, each) = measured(&raw, vec![Part::new(PartKind::Reasoning, text.clone())]);
    let plain = Counter::for_model("gpt-4o").count(&text);
    assert!(each[0] - plain < 30, "{} over {plain}", each[0] - plain);
}

#[test]
fn two_opaque_parts_share_what_is_left() {
    let raw = "x".repeat(8_064);
    let parts = || vec![Part::new(PartKind::Opaque, ""), Part::new(PartKind::Opaque, "")];
    assert_eq!(measured(&raw, parts()).1, vec![1_000, 1_000]);
    assert_eq!(measured("", parts()).1, vec![0, 0]);
    assert_eq!(measured("\"\\", parts()).1, vec![0, 0]);
}
