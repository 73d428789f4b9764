//! Cache marks: which parts of a prompt a provider is asked to keep, for providers that want to be told.
//!
//! The rule is Hermes' "system and three": the system text and the newest three messages, or the newest four where there is
//! no system text. A client that sets marks of its own keeps them, and none is added.

use crate::identity::identity;
use crate::json::{self, Kind, Object};
use engine_api::Dialect;

/// Marks in one request: Anthropic takes no more.
const MARKS_MAX: usize = 4;
/// The member that is a mark.
const MARK: &str = "cache_control";
/// Blocks that never carry a mark: the provider refuses it.
const UNMARKABLE: [&str; 2] = ["thinking", "redacted_thinking"];
/// Hosts at which Claude and Kimi take marks through Chat Completions.
const OPENROUTER: &str = "openrouter.ai";
const NOUS: &str = "nousresearch.com";
/// Hosts at which Qwen takes marks likewise.
const QWEN_HOSTS: [&str; 3] = ["opencode.ai", "dashscope", "aliyuncs.com"];

/// How marks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLayout {
    /// On blocks of Anthropic's Messages.
    Native,
    /// On text parts of Chat Completions.
    Envelope,
}

/// How long the provider is asked to keep a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkTtl {
    /// The provider's default.
    FiveMinutes,
    /// Twelve times as long, and dearer to write.
    OneHour,
}

/// A prompt with its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The system member, if it got a mark.
    pub system: Option<String>,
    /// Each message, if it got a mark.
    pub messages: Vec<Option<String>>,
    /// The client set marks itself, so nothing was added.
    pub is_by_client: bool,
}

/// Returns how marks are written for a model at an address, if any are wanted there.
pub fn cache_layout(base_url: &str, dialect: Dialect, model: &str) -> Option<CacheLayout> {
    let (host, model) = (base_url.to_ascii_lowercase(), model.to_ascii_lowercase());
    let is = |name: &str| model.contains(name);
    match dialect {
        Dialect::Anthropic => {
            let is_native = host.contains("api.anthropic.com");
            (is_native || is("claude") || is("minimax")).then_some(CacheLayout::Native)
        }
        Dialect::OpenAiChat => {
            let takes = (host.contains(OPENROUTER) && (is("claude") || is("kimi")))
                || (host.contains(NOUS) && (is("claude") || is("kimi") || is("qwen")))
                || (QWEN_HOSTS.iter().any(|known| host.contains(known)) && is("qwen"));
            takes.then_some(CacheLayout::Envelope)
        }
        _ => None,
    }
}

/// Returns the line that tells at the start that prompts are cached.
pub fn caching_line(layout: CacheLayout, base_url: &str, ttl: MarkTtl) -> String {
    let whose = match layout {
        CacheLayout::Native if base_url.contains("api.anthropic.com") => "native Anthropic",
        CacheLayout::Native => "Anthropic-compatible endpoint",
        CacheLayout::Envelope if base_url.contains(OPENROUTER) => "Claude via OpenRouter",
        CacheLayout::Envelope => "Claude via an OpenAI-compatible endpoint",
    };
    let ttl = match ttl {
        MarkTtl::FiveMinutes => "5m",
        MarkTtl::OneHour => "1h",
    };
    format!("💾 Prompt caching: ENABLED ({whose}, {ttl} TTL)")
}

/// Places marks on a prompt; `system` and `tools` are members beside the message list.
pub fn place_marks(
    system: Option<&str>,
    tools: Option<&str>,
    messages: &[&str],
    layout: CacheLayout,
    ttl: MarkTtl,
) -> Marked {
    let mut marked = Marked { system: None, messages: vec![None; messages.len()], is_by_client: false };
    if system.into_iter().chain(tools).chain(messages.iter().copied()).any(has_mark) {
        marked.is_by_client = true;
        return marked;
    }
    let mark = match ttl {
        MarkTtl::FiveMinutes => "{\"type\":\"ephemeral\"}",
        MarkTtl::OneHour => "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}",
    };
    let mut left = MARKS_MAX;
    let mut rest = 0;
    match layout {
        CacheLayout::Native => {
            marked.system = system.and_then(|raw| content(raw, mark));
            left -= usize::from(marked.system.is_some());
        }
        CacheLayout::Envelope => {
            let is_system = |raw: &&&str| {
                Object::parse(raw).and_then(|message| message.text("role")).is_some_and(|role| role == "system")
            };
            if let Some(raw) = messages.first().filter(is_system) {
                rest = 1;
                if let (Some(slot), Some(raw)) = (marked.messages.first_mut(), message(raw, mark)) {
                    *slot = Some(raw);
                    left -= 1;
                }
            }
        }
    }
    for (slot, raw) in marked.messages.iter_mut().zip(messages).skip(rest).rev() {
        if left == 0 {
            break;
        }
        if let Some(raw) = message(raw, mark) {
            *slot = Some(raw);
            left -= 1;
        }
    }
    marked
}

/// Tells whether a value has a mark, in whatever block.
fn has_mark(raw: &str) -> bool {
    raw.contains(MARK) && {
        let compact = json::compact(raw);
        // Definitions of tools nest deeper than messages do, but their marks stand at the top of each.
        identity(raw) != compact
            || json::elements(&compact).unwrap_or_default().iter().any(|one| identity(one) != **one)
    }
}

/// Marks a message on its last part; none if it has none that can carry a mark.
fn message(raw: &str, mark: &str) -> Option<String> {
    let object = Object::parse(raw)?;
    Some(object.with_value("content", content(object.get("content")?, mark)?))
}

/// Marks a content: a text becomes a list of one part, of a list the last part gets the mark.
fn content(raw: &str, mark: &str) -> Option<String> {
    match json::kind(raw) {
        Kind::String => {
            let is_blank = json::decode(raw)?.trim().is_empty();
            (!is_blank).then(|| format!("[{{\"type\":\"text\",\"text\":{raw},\"{MARK}\":{mark}}}]"))
        }
        Kind::Array => {
            let spans = json::element_spans(raw)?;
            let last = spans.last()?.clone();
            let object = Object::parse(raw.get(last.clone())?)?;
            let kind = object.text("type").unwrap_or_default();
            let is_blank = kind == "text" && object.text("text").is_none_or(|text| text.trim().is_empty());
            if is_blank || UNMARKABLE.contains(&kind.as_ref()) {
                return None;
            }
            let part = object.with_value(MARK, mark.to_owned());
            Some([raw.get(..last.start)?, &part, raw.get(last.end..)?].concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: &[&str]) -> Vec<usize> {
        let marked = place_marks(None, None, messages, CacheLayout::Envelope, MarkTtl::FiveMinutes);
        marked.messages.iter().enumerate().filter(|(_, raw)| raw.is_some()).map(|(at, _)| at).collect()
    }

    #[test]
    fn system_and_the_newest_three_are_marked() {
        let said = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}");
        let messages: Vec<String> =
            ["system", "user", "assistant", "user", "assistant", "user"].iter().map(|role| said(role, "t")).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        assert_eq!(chat(&messages), [0, 3, 4, 5]);
        assert_eq!(chat(&messages[1..]), [1, 2, 3, 4]);
        assert_eq!(chat(&[]), [0; 0]);
        let empty = "{\"role\":\"tool\",\"content\":\"\"}";
        assert_eq!(chat(&[messages[1], empty, "{\"role\":\"assistant\",\"content\":null}", messages[2]]), [0, 3]);
        assert_eq!(chat(&["{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},\"str\"]}"]), [0; 0]);
    }

    #[test]
    fn native_marks_stand_on_the_last_block_and_all_else_stays() {
        let user =
            "{\"role\": \"user\", \"content\": [ {\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"\"} ]}";
        let thinking =
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"x\",\"signature\":\"s\"}]}";
        let marked = place_marks(Some("\"rules\""), None, &[thinking, user], CacheLayout::Native, MarkTtl::OneHour);
        assert_eq!(
            marked.system.unwrap(),
            "[{\"type\":\"text\",\"text\":\"rules\",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]"
        );
        assert_eq!(marked.messages[0], None);
        let changed = marked.messages[1].as_ref().unwrap();
        assert_eq!(changed.replace(",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}", ""), user);
    }

    #[test]
    fn a_client_that_sets_marks_keeps_them_and_gets_no_more() {
        let own = "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}}]}";
        let tools = "[{\"name\":\"t\",\"input_schema\":{},\"cache_control\":{\"type\":\"ephemeral\"}}]";
        let place =
            |tools, messages: &[&str]| place_marks(None, tools, messages, CacheLayout::Native, MarkTtl::FiveMinutes);
        assert!(place(None, &[own]).is_by_client);
        assert!(place(Some(tools), &["{\"role\":\"user\",\"content\":\"x\"}"]).is_by_client);
        let speaks = "{\"role\":\"user\",\"content\":\"what is cache_control?\"}";
        assert!(!place(None, &[speaks]).is_by_client);
    }

    #[test]
    fn marks_are_wanted_where_hermes_wants_them() {
        use CacheLayout::{Envelope, Native};
        use Dialect::{Anthropic, OpenAiChat, Responses};
        for (base, dialect, model, layout) in [
            ("https://api.anthropic.com", Anthropic, "claude-sonnet-4-6", Some(Native)),
            ("https://api.anthropic.com", Anthropic, "other-model", Some(Native)),
            ("https://api.minimax.io/anthropic", Anthropic, "MiniMax-M2.7", Some(Native)),
            ("http://localhost:4000", Anthropic, "other-model", None),
            ("https://openrouter.ai/api/v1", OpenAiChat, "openai/gpt-5.5", None),
            ("https://openrouter.ai/api/v1", OpenAiChat, "moonshotai/kimi-k2.6", Some(Envelope)),
            ("https://openrouter.ai/api/v1", OpenAiChat, "anthropic/claude-opus-4", Some(Envelope)),
            ("http://localhost:4000", OpenAiChat, "claude-opus-4", None),
            ("https://inference-api.nousresearch.com/v1", OpenAiChat, "qwen3.6-plus", Some(Envelope)),
            ("https://api.openai.com/v1", Responses, "gpt-5", None),
        ] {
            assert_eq!(cache_layout(base, dialect, model), layout, "{base} {model}");
        }
        assert!(
            caching_line(Native, "https://api.anthropic.com", MarkTtl::OneHour).ends_with("(native Anthropic, 1h TTL)")
        );
    }
}
