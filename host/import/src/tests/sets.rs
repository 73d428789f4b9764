//! Data sets about recall.

use super::{check, read};
use crate::{Format, History};

#[test]
fn a_haystack_is_one_conversation_of_all_its_sessions() {
    let text = r#"{"question_id":"q","question":"Who?","haystack_dates":["d"],"haystack_sessions":[[{"role":"user","content":"a","has_answer":true}],[{"role":"assistant","content":"b"}]]}"#;
    let got = check(text, Format::LongMemEval, r#"U"a" A"b""#);
    assert_eq!((got.conversations[0].id.as_str(), got.conversations[0].title.as_str()), ("q", "Who?"));
    assert_eq!(got.conversations[0].document.messages[0].raw, r#"{"role":"user","content":"a"}"#);
    check(&format!("[{text},{text}]"), Format::LongMemEval, "U\"a\" A\"b\"\nU\"a\" A\"b\"");
    assert_eq!(read(&text[..text.len() - 20], History::Live).unwrap().problems.len(), 1);
}

#[test]
fn locomo_sessions_come_in_the_order_of_their_numbers() {
    let text = r#"{"speaker_a":"Ann","speaker_b":"Bob","session_10":[{"speaker":"Bob","text":"late"}],"session_2_date_time":"May","session_2":[{"speaker":"Ann","text":"look","blip_caption":"a cat"}],"session_2_summary":"x","session_3_date_time":"June","qa":[]}"#;
    check(text, Format::LoCoMo, r#"U"[May]\nAnn: look [shares a cat]" A"Bob: late""#);
    check(
        &format!(r#"[{{"qa":[],"conversation":{text},"sample_id":"c1"}}]"#),
        Format::LoCoMo,
        r#"U"[May]\nAnn: look [shares a cat]" A"Bob: late""#,
    );
}

#[test]
fn beam_batches_are_put_together() {
    let text = r#"[{"batch_number":1,"turns":[[{"role":"user","id":0,"content":"a"},{"role":"assistant","id":1,"content":"b"}]]},{"batch_number":2,"turns":[[{"role":"user","content":"c"}]]}]"#;
    check(text, Format::Beam, r#"U"a" A"b" U"c""#);
    let cut = read(&text[..text.len() - 30], History::Live).unwrap();
    assert_eq!((cut.conversations[0].document.messages.len(), cut.problems.len()), (2, 1));
}
