//! Exports, trajectories and serialised messages.

use super::{check, check_as, lines, problems, read};
use crate::{Format, History};

fn hermes(id: &str, parent: &str, end: &str, rows: &str) -> String {
    format!(
        r#"{{"id":"{id}","source":"cli","parent_session_id":{parent},"started_at":1,"end_reason":"{end}","system_prompt":"sys","title":null,"messages":[{rows}]}}"#
    )
}

#[test]
fn hermes_rows_lose_their_columns_and_inactive_ones_are_history() {
    let rows = r#"{"id":1,"role":"user","content":"old","active":0,"compacted":1,"tool_calls":null},
        {"id":2,"role":"user","content":"[CONTEXT COMPACTION — x] sum","active":1},
        {"id":3,"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"sh","arguments":"{}"}}],"reasoning_content":"hm","active":1},
        {"id":4,"role":"tool","content":"ok","tool_call_id":"c","tool_name":"sh","active":1},
        {"id":5,"role":"assistant","content":null,"active":1}"#;
    let file = hermes("s", "null", "user_exit", rows);
    let tail = r#"A[c sh {}]~hm~ T(c ok)"#;
    check_as(&file, History::Full, Format::HermesExport, &format!(r#"S"sys" U"old" {tail}"#));
    let got = check_as(
        &file,
        History::Live,
        Format::HermesExport,
        &format!(r#"S"sys" U^"[CONTEXT COMPACTION — x] sum" {tail}"#),
    );
    let raw = &got.conversations[0].document.messages[3].raw;
    assert_eq!(raw, r#"{"role":"tool","content":"ok","tool_call_id":"c"}"#);
}

#[test]
fn a_hermes_lineage_is_one_conversation_and_copies_count_once() {
    let parent = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}"#;
    let child = r#"{"role":"user","content":"a"},{"role":"user","content":"[CONTEXT COMPACTION] s"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}"#;
    let file = lines(&[&hermes("p", "null", "compression", parent), &hermes("q", "\"p\"", "", child)]);
    check_as(&file, History::Full, Format::HermesExport, r#"S"sys" U"a" A"b" U"c" A"d""#);
    let got =
        check_as(&file, History::Live, Format::HermesExport, r#"S"sys" U"a" U^"[CONTEXT COMPACTION] s" U"c" A"d""#);
    assert_eq!(problems(&got), [": 1 earlier sessions of the line"]);
    let cut = read(&file[..file.len() - 30], History::Live).unwrap();
    assert_eq!(cut.conversations[0].document.messages.len(), 4);
}

#[test]
fn sharegpt_tags_become_calls_and_results() {
    let file = r#"{"conversations":[{"from":"system","value":"s"},{"from":"human","value":"hi"},
        {"from":"gpt","value":"<think>\nhm\n</think>\nok\n<tool_call>\n{\"name\": \"sh\", \"arguments\": {\"a\":1}}\n</tool_call>\n<tool_call>\n{\"name\": \"sh\", \"arguments\": {}}\n</tool_call>"},
        {"from":"tool","value":"<tool_response>\n{\"content\":\"one\"}\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"},
        {"from":"gpt","value":"a <tool_call>not json</tool_call>"}],"model":"m"}"#;
    check(
        file,
        Format::ShareGpt,
        r#"S"s" U"hi" A~hm~"ok"[call_1 sh {"a":1}][call_2 sh {}] T(call_1 one) T(call_2 two) A"a <tool_call>not json</tool_call>""#,
    );
    let cut = read(&file[..file.len() - 40], History::Live).unwrap();
    assert_eq!((cut.conversations[0].document.messages.len(), cut.problems.len()), (5, 1));
}

#[test]
fn atif_steps_are_read_and_what_nobody_asked_for_is_injected() {
    let text = r#"{"schema_version":"ATIF-v1.7","session_id":"s","agent":{"model_name":"m"},"steps":[
        {"step_id":1,"source":"user","message":"hi"},
        {"step_id":2,"source":"agent","message":"ok","tool_calls":[{"tool_call_id":"c","function_name":"sh","arguments":{}}],
         "observation":{"results":[{"source_call_id":"c","content":"r"},{"content":"notice"}]},"metrics":{"prompt_tokens":6}}]}"#;
    let got = check(text, Format::Atif, r#"U"hi" A"ok"[c sh {}] T(c r) U*"notice""#);
    assert_eq!(got.conversations[0].reported_tokens, Some(6));
    assert_eq!(read(&text[..text.len() - 9], History::Live).unwrap().conversations[0].document.messages.len(), 1);
}

#[test]
fn archival_exports_say_which_messages_are_live() {
    let text = r#"{"schema_version":1,"session_id":"s","session_revision_hash":"h","messages":[
        {"message_id":"1","role":"assistant","state":"compacted","text":"old","tool_calls":[{"action_id":"a","tool_name":"f","arguments_json":"{}"}],"tool_results":[]},
        {"message_id":"2","role":"tool","state":"compacted","text":null,"tool_calls":[],"tool_results":[{"action_id":"a","output_preview":"r"}]},
        {"message_id":"3","role":"assistant","state":"rewound","text":"no"},
        {"message_id":"4","role":"user","state":"active","text":"hi"}]}"#;
    check_as(text, History::Live, Format::HermesArchive, r#"U"hi""#);
    check_as(text, History::Full, Format::HermesArchive, r#"A"old"[a f {}] T(a r) U"hi""#);
}

#[test]
fn exporter_documents_lose_what_no_api_knows() {
    let text = r#"{"title":"T","messages":[{"role":"user","content":"hi","timestamp":null,"name":null,"metadata":{}}],"metadata":{}}"#;
    let got = check(text, Format::HermesSession, r#"U"hi""#);
    assert_eq!(
        (got.conversations[0].title.as_str(), got.conversations[0].document.messages[0].raw.as_str()),
        ("T", r#"{"role":"user","content":"hi"}"#)
    );
}

#[test]
fn swe_agent_history_is_read_and_the_steps_only_without_it() {
    let steps = r#"{"trajectory":[{"action":"ls","observation":"files","response":"I look","query":[{"role":"user","content":"long"}]}]"#;
    let history = r#","history":[{"role":"user","content":"demo","agent":"main","is_demo":true},{"role":"assistant","content":"ok","thought":"ok","agent":"main","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":[{"type":"text","text":"r"}],"tool_call_ids":["c"],"agent":"main"}],"info":{}}"#;
    check(&format!("{steps}{history}"), Format::SweAgent, r#"U*"demo" A"ok"[c f {}] T(c r)"#);
    let got = check(&format!("{steps}}}"), Format::SweAgent, r#"A"I look" U"files""#);
    assert_eq!(got.problems.len(), 1);
}

#[test]
fn mini_swe_messages_lose_extra_and_the_exit() {
    let text = r#"{"info":{"model_stats":{},"config":{"model":{"model_name":"m"}}},"messages":[{"role":"user","content":"hi"},
        {"content":"ok","role":"assistant","function_call":null,"extra":{"response":{"usage":{"prompt_tokens":5}}}},{"role":"exit","content":"x","extra":{}}],"instance_id":"i"}"#;
    let got = check(text, Format::MiniSwe, r#"U"hi" A"ok""#);
    let first = &got.conversations[0];
    assert_eq!((first.id.as_str(), first.reported_tokens), ("i", Some(5)));
    assert_eq!(first.document.messages[1].raw, r#"{"content":"ok","role":"assistant"}"#);
    let cut = read(&text[..text.find("\"extra\":{\"resp").unwrap()], History::Live).unwrap();
    assert_eq!((cut.conversations[0].document.messages.len(), cut.problems.len()), (1, 1));
}

#[test]
fn openhands_responses_with_two_calls_stand_in_two_events() {
    let metadata = r#""tool_call_metadata":{"function_name":"sh","tool_call_id":"ID","model_response":{"id":"r1","model":"m","usage":{"prompt_tokens":9},"choices":[{"message":{"content":"look","tool_calls":[{"id":"a","function":{"name":"sh","arguments":"{}"}},{"id":"b","function":{"name":"sh","arguments":"{}"}}]}}]}}"#;
    let with = |id: &str| metadata.replace("ID", id);
    let text = format!(
        r#"[{{"id":0,"source":"user","action":"message","args":{{"content":"hi"}}}},{{"id":1,"source":"environment","observation":"agent_state_changed","content":""}},
        {{"id":2,"source":"agent","action":"run",{a},"args":{{}}}},{{"id":3,"source":"agent","action":"run",{b},"args":{{}}}},
        {{"id":4,"source":"agent","observation":"run","cause":2,{a},"content":"A"}},{{"id":5,"source":"agent","observation":"error","cause":3,"content":"B"}},
        {{"id":6,"source":"agent","action":"finish","args":{{"final_thought":"done"}}}}]"#,
        a = with("a"),
        b = with("b")
    );
    let got = check(&text, Format::OpenHands, r#"U"hi" A"look"[a sh {}][b sh {}] T(a A) T(b B) A"done""#);
    assert_eq!(got.conversations[0].reported_tokens, Some(9));
    let cut = read(&text[..text.len() - 30], History::Live).unwrap();
    assert_eq!((cut.conversations[0].document.messages.len(), cut.problems.len()), (4, 1));
}

#[test]
fn openhands_condensations_forget_in_the_live_history_alone() {
    let text = r#"[{"id":0,"source":"user","action":"message","args":{"content":"one"}},{"id":1,"source":"agent","action":"message","args":{"content":"two"}},
        {"id":2,"source":"agent","action":"condensation","args":{"forgotten_event_ids":[1],"summary":"sum","summary_offset":1}},
        {"id":3,"source":"user","action":"message","args":{"content":"three"}}]"#;
    check_as(text, History::Live, Format::OpenHands, r#"U"one" U^"sum" U"three""#);
    check_as(text, History::Full, Format::OpenHands, r#"U"one" A"two" U"three""#);
}

#[test]
fn openhands_sdk_actions_of_one_response_are_one_message() {
    let action = |id: &str| {
        format!(
            r#"{{"id":"e{id}","timestamp":"t","source":"agent","kind":"ActionEvent","thought":[{{"type":"text","text":"hm"}}],"tool_name":"sh","tool_call_id":"{id}","tool_call":{{"arguments":"{{}}"}},"llm_response_id":"r"}}"#
        )
    };
    let records = [
        r#"{"id":"0","timestamp":"t","source":"agent","kind":"SystemPromptEvent","system_prompt":{"type":"text","text":"s"},"tools":[{"title":"sh","description":"d"}]}"#.to_owned(),
        r#"{"id":"1","timestamp":"t","source":"user","kind":"MessageEvent","llm_message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#.to_owned(),
        action("a"),
        r#"{"id":"2","timestamp":"t","source":"environment","kind":"ObservationEvent","tool_call_id":"a","observation":{"content":[{"type":"text","text":"A"}]}}"#.to_owned(),
        action("b"),
        r#"{"id":"3","timestamp":"t","source":"agent","kind":"AgentErrorEvent","tool_call_id":"b","error":"B"}"#.to_owned(),
        "{\"id\":\"4\",\"ki".to_owned(),
    ];
    let file = lines(&records.iter().map(String::as_str).collect::<Vec<_>>());
    let got = check(&file, Format::OpenHandsSdk, r#"S"s" U"hi" A"hm"[a sh {}][b sh {}] T(a A) T(b B)"#);
    assert!(got.conversations[0].document.member("tools").unwrap().contains("\"name\":\"sh\""));
    assert_eq!(got.problems.len(), 1);
}

#[test]
fn langchain_messages_are_read_in_three_shapes() {
    let dumped = |class: &str, kwargs: &str| {
        format!(r#"{{"lc":1,"type":"constructor","id":["langchain","{class}"],"kwargs":{kwargs}}}"#)
    };
    let list = [
        dumped("SystemMessage", r#"{"content":"s"}"#),
        dumped(
            "HumanMessage",
            r#"{"content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}"#,
        ),
        dumped(
            "AIMessageChunk",
            r#"{"content":[{"type":"tool_use","id":"c"}],"tool_calls":[{"name":"f","args":{"a":1},"id":"c","type":"tool_call"}],"invalid_tool_calls":[{"name":"g","args":"{bad","id":"d"}],"usage_metadata":{"input_tokens":3}}"#,
        ),
        dumped("ToolMessage", r#"{"content":"r","tool_call_id":"c"}"#),
    ];
    let want = r#"S"s" U"hi"<img> A[c f {"a":1}][d g {bad] T(c r)"#;
    let array = format!("[{}]", list.join(","));
    assert_eq!(check(&array, Format::LangChain, want).conversations[0].reported_tokens, Some(3));
    let state = format!(r#"{{"values":{{"messages":{array}}},"config":{{"configurable":{{"thread_id":"t"}}}}}}"#);
    assert_eq!(check(&state, Format::LangChain, want).conversations[0].id, "t");
    check(&lines(&list.iter().map(String::as_str).collect::<Vec<_>>()), Format::LangChain, want);
    check(
        r#"[{"type":"human","data":{"content":"hi"}},{"type":"ai","data":{"content":"yo"}}]"#,
        Format::LangChain,
        r#"U"hi" A"yo""#,
    );
    let cut = read(&array[..array.len() - 20], History::Live).unwrap();
    assert_eq!((cut.conversations[0].document.messages.len(), cut.problems.len()), (3, 1));
}
