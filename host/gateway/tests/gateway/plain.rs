//! What passes when nothing is to be done, and what happens at the edges.

use crate::world::{Chat, World};
use support::provider::{Provider, Reply};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn a_small_request_leaves_as_it_came_and_its_reply_comes_back() {
    let provider = Provider::start("sk-client", vec![Reply::Answer("hello".into()), Reply::Stream("streamed".into())]);
    let world = World::with("", provider);
    let mut chat = Chat::new("Say hello.");
    let body = format!(" {} ", chat.body());
    let got = world.post(CHAT, &[("authorization", "Bearer sk-client"), ("x-odd", "kept")], body.clone());
    assert_eq!(got.status, 200, "{}", got.body);
    assert!(got.body.contains("hello"));
    assert!(got.header("x-palimpsest").starts_with("engine=compressor; action=none"), "{:?}", got.headers);
    let seen = world.provider.seen();
    assert_eq!(seen[0].body, body, "byte for byte");
    assert_eq!((seen[0].header("authorization"), seen[0].header("x-odd")), (Some("Bearer sk-client"), Some("kept")));
    chat.is_stream = true;
    let got = world.post(CHAT, &[("authorization", "Bearer sk-client")], chat.body());
    assert!(got.body.contains("data: [DONE]"), "{}", got.body);
    let (is_drained, ..) = world.end();
    assert!(is_drained);
}

#[test]
fn a_conversation_is_stored_once_however_often_it_is_resent() {
    let world = World::start("", (0..6).map(|_| Reply::Answer("ok".into())).collect());
    let mut chat = Chat::new("Read the parts.");
    for nth in 0..6 {
        let got = world.post(CHAT, &[], chat.body());
        assert_eq!(got.status, 200, "{}", got.body);
        chat.step(nth, 500);
    }
    let sent = chat.messages.len() - 2;
    let (_, home, _provider) = world.end();
    let store = host_store::Store::open_to_read(
        &home.path().join("sessions.db"),
        std::sync::Arc::new(host_runtime::WireReader),
    )
    .unwrap();
    let (rows, total) = store.sessions(&Default::default()).unwrap();
    assert_eq!((total, rows[0].messages), (1, sent as u64));
}
