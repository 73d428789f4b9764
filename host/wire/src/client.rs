//! What clients tell of themselves: their sessions, their side calls, and their own compactions.

use crate::document::Envelope;
use crate::edit::{PartEdit, edit_message};
use crate::json::{self, Object};
use crate::split::parse_message;
use engine_api::{Dialect, Flags, Message, PartKind, Role};
use std::borrow::Cow;

/// Letters of a session's id at most; what is longer is none.
const ID_CHARS_MAX: usize = 200;
/// Messages from the start that are looked through for a client's summary.
const BEGINNING: usize = 8;
/// Instructions by which clients ask for a summary, as they begin.
const CODEX_ASKS: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION";
const CLAUDE_ASKS: &str = "CRITICAL: Respond with TEXT ONLY";
const OPENCODE_ASKS: &str = "You are a context summarization agent";
const HERMES_ASKS: &str = "You are a summarization agent creating a context checkpoint";
/// What stands before a person's own wish in Claude Code's instruction, and after it.
const CLAUDE_FOCUS: &str = "Additional Instructions:";
const CLAUDE_FOCUS_END: &str = "REMINDER:";
/// How OpenCode begins the call for a title.
const OPENCODE_TITLE: &str = "You are a title generator";
/// The lead-ins of the clients' own summaries.
const LEAD_INS: [&str; 4] = [
    "Another language model started to solve this problem",
    "This session is being continued from a previous conversation",
    "What did we do so far?",
    "[CONTEXT COMPACTION",
];

/// Looks up a request header by its name in lower case.
pub type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Which conversation a request says that it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionHint {
    /// The client's own id for it.
    pub id: Option<String>,
    /// The client, where it can be told: `codex`, `claude`, `opencode`, `hermes`.
    pub client: Option<&'static str>,
}

/// A client's own compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCompaction {
    /// Codex: the last item asks the provider for one compaction item.
    CodexTrigger,
    /// Codex: a summary is asked for as a text.
    CodexLocal,
    /// `POST /responses/compact`.
    CodexEndpoint,
    /// Claude Code.
    Claude,
    /// OpenCode.
    OpenCode,
    /// Hermes.
    Hermes,
}

/// A request by which a client has its conversation summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCall {
    /// Whose it is.
    pub kind: ClientCompaction,
    /// What the summary should dwell on, in a person's words.
    pub focus: String,
    /// The messages of the conversation without the instruction; empty where the client has written it into one text.
    pub conversation: Vec<String>,
}

/// Reads a request's session and client.
pub fn session_hint(envelope: &Envelope, headers: Headers<'_>) -> SessionHint {
    let ours = headers("x-palimpsest-session");
    let member = |key: &str| envelope.member(key).and_then(json::decode).map(Cow::into_owned);
    let codex = headers("thread-id").or_else(|| headers("session-id"));
    let is_codex = codex.is_some() || headers("x-codex-turn-metadata").is_some();
    let claude = headers("x-claude-code-session-id").or_else(|| claude_session(envelope));
    let opencode = headers("x-session-id").or_else(|| headers("x-session-affinity"));
    let agent = headers("user-agent").unwrap_or_default().to_ascii_lowercase();
    let (client, own) = if is_codex {
        (Some("codex"), codex.or_else(|| member("prompt_cache_key")))
    } else if claude.is_some() {
        (Some("claude"), claude)
    } else if opencode.is_some() {
        (Some("opencode"), opencode)
    } else if agent.contains("hermes") {
        (Some("hermes"), None)
    } else {
        (None, None)
    };
    SessionHint { id: ours.or(own).filter(|id| is_sound(id)), client }
}

fn is_sound(id: &str) -> bool {
    !id.is_empty() && id.chars().count() <= ID_CHARS_MAX && id.chars().all(|letter| letter.is_ascii_graphic())
}

/// Reads the session's id from the `metadata` that Claude Code sends: JSON within JSON.
fn claude_session(envelope: &Envelope) -> Option<String> {
    let user = Object::parse(envelope.member("metadata")?)?.text("user_id")?.into_owned();
    Object::parse(&user)?.text("session_id").map(Cow::into_owned)
}

/// Tells whether a request is a client's side call, which belongs to no conversation: for a title, a probe, a warm-up, or a
/// text that was written for one answer.
pub fn is_side_call(envelope: &Envelope, headers: Headers<'_>) -> bool {
    if request_kind(headers).as_deref() == Some("prewarm") || envelope.member("max_tokens") == Some("1") {
        return true;
    }
    let client = session_hint(envelope, headers).client;
    let is_bare = !has_tools(envelope);
    if is_bare && client == Some("claude") {
        return true;
    }
    let first = first_text(envelope).unwrap_or_default();
    is_bare && [OPENCODE_TITLE, OPENCODE_ASKS, HERMES_ASKS].iter().any(|asks| first.starts_with(asks))
}

/// Recognises a client's own compaction by its form; a person who quotes an instruction is not taken for one.
pub fn recognise(envelope: &Envelope, headers: Headers<'_>, path: &str) -> Option<ClientCall> {
    let raws = envelope.raws();
    let owned = |raws: &[Cow<'_, str>]| raws.iter().map(|raw| raw.to_string()).collect::<Vec<_>>();
    let call = |kind, conversation| Some(ClientCall { kind, focus: String::new(), conversation });
    let (last, before) = raws.split_last()?;
    if envelope.dialect() == Dialect::Responses {
        if path.ends_with("/responses/compact") {
            return call(ClientCompaction::CodexEndpoint, owned(&raws));
        }
        let item = Object::parse(last)?;
        if item.text("type").is_some_and(|kind| kind == "compaction_trigger") {
            return call(ClientCompaction::CodexTrigger, owned(before));
        }
        let asks = understood(envelope, last)?;
        let is_asked = request_kind(headers).as_deref() == Some("compaction") || asks.text().starts_with(CODEX_ASKS);
        let is_local = is_asked && asks.role == Role::User && !has_tools(envelope) && !before.is_empty();
        return is_local.then(|| ClientCall {
            kind: ClientCompaction::CodexLocal,
            focus: String::new(),
            conversation: owned(before),
        });
    }
    if envelope.dialect() == Dialect::Anthropic {
        return claude(envelope, last, before);
    }
    if has_tools(envelope) {
        return None;
    }
    let first = first_text(envelope)?;
    if first.starts_with(OPENCODE_ASKS) && raws.len() == 2 {
        return call(ClientCompaction::OpenCode, Vec::new());
    }
    let is_whole = envelope.member("stream") != Some("true");
    (first.starts_with(HERMES_ASKS) && raws.len() == 1 && is_whole).then(|| ClientCall {
        kind: ClientCompaction::Hermes,
        focus: String::new(),
        conversation: Vec::new(),
    })
}

/// Claude Code appends its instruction as the last block of the last message, and leaves all else as in any turn.
fn claude(envelope: &Envelope, last: &str, before: &[Cow<'_, str>]) -> Option<ClientCall> {
    let message = understood(envelope, last)?;
    let (at, part) = message.parts.iter().enumerate().next_back()?;
    let is_asked = message.role == Role::User
        && part.kind == PartKind::Text
        && part.text.trim_start().starts_with(CLAUDE_ASKS)
        && part.text.contains("<summary>");
    if !is_asked || before.is_empty() {
        return None;
    }
    let focus = part
        .text
        .rsplit_once(CLAUDE_FOCUS)
        .map_or("", |(_, rest)| rest.split_once(CLAUDE_FOCUS_END).map_or(rest, |(focus, _)| focus));
    let rest = edit_message(Dialect::Anthropic, last, &[(at, PartEdit::Remove)]).ok()?;
    let conversation = before.iter().map(|raw| raw.to_string()).chain(rest).collect();
    Some(ClientCall { kind: ClientCompaction::Claude, focus: focus.trim().to_owned(), conversation })
}

/// Tells whether a request begins with a summary that its client made itself.
pub fn begins_with_client_summary(envelope: &Envelope) -> bool {
    let raws = envelope.raws();
    let is_summary = |raw: &Cow<'_, str>| {
        let Some(message) = understood(envelope, raw) else { return false };
        let mut texts = message.parts.iter().filter(|part| part.kind == PartKind::Text);
        texts.any(|part| LEAD_INS.iter().any(|lead_in| part.text.trim_start().starts_with(lead_in)))
    };
    match envelope.dialect() {
        // Codex puts its summary last of what it keeps.
        Dialect::Responses => {
            raws.iter().any(|raw| LEAD_INS.iter().any(|known| raw.contains(known)) && is_summary(raw))
        }
        _ => raws.iter().take(BEGINNING).any(is_summary),
    }
}

/// Returns what a compaction item of the Responses API carries; none if the item is another.
pub fn compaction_handle(raw: &str) -> Option<String> {
    let item = Object::parse(raw)?;
    let is_compaction = item.text("type").is_some_and(|kind| kind == "compaction" || kind == "compaction_summary");
    is_compaction.then(|| item.text("encrypted_content").map(Cow::into_owned)).flatten()
}

/// Tells whether an item of the Responses API is an instruction, or something that the client itself puts before the user's
/// words: rules, the environment.
pub fn is_instruction(raw: &str) -> bool {
    parse_message(Dialect::Responses, raw).is_ok_and(|message| match message.role {
        Role::System | Role::Developer => true,
        Role::User => message.flags.has(Flags::INJECTED),
        _ => false,
    })
}

/// Reads what a request of Codex says that it is for.
fn request_kind(headers: Headers<'_>) -> Option<String> {
    let metadata = headers("x-codex-turn-metadata")?;
    Object::parse(&metadata)?.text("request_kind").map(Cow::into_owned)
}

fn has_tools(envelope: &Envelope) -> bool {
    let is_some =
        |raw: &str| !matches!(raw.trim(), "null") && !json::elements(raw).is_some_and(|tools| tools.is_empty());
    envelope.member("tools").is_some_and(is_some)
}

/// Returns how a request begins: its system member, or its first message.
fn first_text(envelope: &Envelope) -> Option<String> {
    if let Some(system) = envelope.member("system") {
        return crate::document::instruction_texts(system).into_iter().next();
    }
    let raws = envelope.raws();
    understood(envelope, raws.first()?).map(|message| message.text().trim_start().to_owned())
}

fn understood(envelope: &Envelope, raw: &str) -> Option<Message> {
    parse_message(envelope.dialect(), raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn envelope(dialect: Dialect, body: Value) -> Envelope {
        Envelope::read(body.to_string(), Some(dialect)).unwrap()
    }

    fn with(headers: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn each_client_names_its_session_in_its_own_way() {
        let chat = envelope(Dialect::OpenAiChat, json!({"messages": []}));
        let hint = |headers| session_hint(&chat, &with(headers));
        let is = |id: &str, client| SessionHint { id: Some(id.to_owned()), client };
        assert_eq!(hint(&[("session-id", "s"), ("thread-id", "t")]), is("t", Some("codex")));
        assert_eq!(hint(&[("x-claude-code-session-id", "c")]), is("c", Some("claude")));
        assert_eq!(hint(&[("x-session-id", "o")]), is("o", Some("opencode")));
        assert_eq!(hint(&[("x-session-id", "o"), ("x-palimpsest-session", "mine")]), is("mine", Some("opencode")));
        assert_eq!(hint(&[]), SessionHint::default());
        assert_eq!(hint(&[("x-session-id", "two words")]).id, None);
        let user = json!({"device_id": "d", "session_id": "meta"}).to_string();
        let claude = envelope(Dialect::Anthropic, json!({"metadata": {"user_id": user}, "messages": []}));
        assert_eq!(session_hint(&claude, &with(&[])), is("meta", Some("claude")));
    }

    #[test]
    fn codex_asks_in_three_ways() {
        let user =
            |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
        let of = |input: Value, tools: Value, headers, path: &str| {
            let body = json!({"input": input, "tools": tools});
            recognise(&envelope(Dialect::Responses, body), &with(headers), path)
                .map(|call| (call.kind, call.conversation.len()))
        };
        let tools = json!([{"type": "function", "name": "shell"}]);
        let trigger = json!([user("do it"), {"type": "compaction_trigger"}]);
        assert_eq!(of(trigger, tools.clone(), &[], "/v1/responses"), Some((ClientCompaction::CodexTrigger, 1)));
        assert_eq!(
            of(json!([user("a")]), tools.clone(), &[], "/v1/responses/compact"),
            Some((ClientCompaction::CodexEndpoint, 1))
        );
        const KIND: &[(&str, &str)] = &[("x-codex-turn-metadata", "{\"request_kind\":\"compaction\"}")];
        let local = json!([user("do it"), user("a prompt of one's own")]);
        assert_eq!(of(local.clone(), json!([]), KIND, "/v1/responses"), Some((ClientCompaction::CodexLocal, 1)));
        assert_eq!(of(local, tools, KIND, "/v1/responses"), None, "a turn with tools is a turn");
        let quoted = json!([user("what does \"You are performing a CONTEXT CHECKPOINT COMPACTION\" mean?")]);
        assert_eq!(of(quoted, json!([]), &[], "/v1/responses"), None);
    }

    #[test]
    fn claude_asks_with_a_block_behind_the_last_message() {
        let asks = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. … <summary> …\n\nAdditional Instructions:\nkeep the port\n\nREMINDER: text only";
        let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
        let body = json!({"tools": [{"name": "Read"}], "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]},
            {"role": "user", "content": [result, {"type": "text", "text": asks}]}]});
        let call = recognise(&envelope(Dialect::Anthropic, body), &with(&[]), "/v1/messages").unwrap();
        assert_eq!(
            (call.kind, call.focus.as_str(), call.conversation.len()),
            (ClientCompaction::Claude, "keep the port", 3)
        );
        assert!(!call.conversation[2].contains("CRITICAL"), "{}", call.conversation[2]);
        let quoted = json!({"messages": [{"role": "user", "content": format!("why does it say {asks}?")}]});
        assert_eq!(recognise(&envelope(Dialect::Anthropic, quoted), &with(&[]), "/v1/messages"), None);
    }

    #[test]
    fn opencode_and_hermes_write_the_conversation_into_one_text() {
        let of = |messages: Value, stream: bool| {
            let body = json!({"messages": messages, "stream": stream});
            recognise(&envelope(Dialect::OpenAiChat, body), &with(&[]), "/v1/chat/completions").map(|call| call.kind)
        };
        let system = json!({"role": "system", "content": "You are a context summarization agent. You are given …"});
        let user = json!({"role": "user", "content": "<conversation>…</conversation>"});
        assert_eq!(of(json!([system, user]), true), Some(ClientCompaction::OpenCode));
        let hermes =
            json!({"role": "user", "content": "You are a summarization agent creating a context checkpoint. …"});
        assert_eq!(of(json!([hermes]), false), Some(ClientCompaction::Hermes));
        assert_eq!(of(json!([hermes, user]), false), None);
    }

    #[test]
    fn side_calls_belong_to_no_conversation() {
        let side = |body: Value, headers| is_side_call(&envelope(Dialect::OpenAiChat, body), &with(headers));
        let title = json!({"messages": [{"role": "system", "content": "You are a title generator. …"}, {"role": "user", "content": "x"}]});
        assert!(side(title, &[("x-session-id", "o")]));
        let turn = json!({"messages": [{"role": "user", "content": "x"}]});
        assert!(!side(turn.clone(), &[]), "a chat without tools is a conversation");
        assert!(side(turn.clone(), &[("x-codex-turn-metadata", "{\"request_kind\":\"prewarm\"}")]));
        assert!(side(json!({"messages": [{"role": "user", "content": "quota"}], "max_tokens": 1}), &[]));
        assert!(side(turn, &[("x-claude-code-session-id", "c")]));
    }

    #[test]
    fn a_clients_own_summary_is_known_by_how_it_begins() {
        let begins = |text: &str| {
            let body = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": text}]}]});
            begins_with_client_summary(&envelope(Dialect::Anthropic, body))
        };
        assert!(begins("This session is being continued from a previous conversation that ran out of context."));
        assert!(!begins("Why was this session continued from a previous conversation?"));
        assert_eq!(compaction_handle("{\"type\":\"compaction\",\"encrypted_content\":\"h\"}").as_deref(), Some("h"));
        assert_eq!(compaction_handle("{\"type\":\"message\",\"encrypted_content\":\"h\"}"), None);
        assert!(is_instruction("{\"type\":\"message\",\"role\":\"developer\",\"content\":\"x\"}"));
        assert!(!is_instruction("{\"type\":\"message\",\"role\":\"user\",\"content\":\"fix it\"}"));
    }
}
