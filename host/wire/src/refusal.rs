//! Errors of our own in the caller's dialect: what a client gets where no answer of its provider can be had.

use crate::json::quote;
use engine_api::Dialect;
use std::time::Duration;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The request cannot be understood.
    BadRequest,
    /// It carries no key, or a wrong one.
    Unauthorized,
    /// There is nothing at its address.
    NotFound,
    /// Its address takes other methods.
    MethodNotAllowed,
    /// It did not come, or was not answered, in time.
    Timeout,
    /// Its body is larger than may be.
    TooLarge,
    /// It is written in a way that is not understood.
    Unsupported,
    /// It wants a protocol that is not spoken.
    UpgradeRequired,
    /// Too much is under way.
    Overloaded,
    /// The provider could not be reached, or failed.
    Upstream,
    /// Something of ours failed.
    Internal,
    /// The prompt is longer than the model's window, in tokens.
    Overflow {
        /// What the request comes to.
        tokens: u64,
        /// What the model takes.
        window: u64,
    },
}

impl RefusalKind {
    /// Returns its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            RefusalKind::BadRequest => "bad_request",
            RefusalKind::Unauthorized => "unauthorized",
            RefusalKind::NotFound => "not_found",
            RefusalKind::MethodNotAllowed => "method_not_allowed",
            RefusalKind::Timeout => "timeout",
            RefusalKind::TooLarge => "too_large",
            RefusalKind::Unsupported => "unsupported",
            RefusalKind::UpgradeRequired => "upgrade_required",
            RefusalKind::Overloaded => "overloaded",
            RefusalKind::Upstream => "upstream",
            RefusalKind::Internal => "internal",
            RefusalKind::Overflow { .. } => "overflow",
        }
    }

    /// Returns the HTTP status.
    ///
    /// A websocket is refused with 426: Codex then goes on over HTTP at once, and after a 404 only after seven tries.
    pub fn status(&self) -> u16 {
        match self {
            RefusalKind::BadRequest | RefusalKind::Overflow { .. } => 400,
            RefusalKind::Unauthorized => 401,
            RefusalKind::NotFound => 404,
            RefusalKind::MethodNotAllowed => 405,
            RefusalKind::Timeout => 504,
            RefusalKind::TooLarge => 413,
            RefusalKind::Unsupported => 415,
            RefusalKind::UpgradeRequired => 426,
            RefusalKind::Overloaded => 503,
            RefusalKind::Upstream => 502,
            RefusalKind::Internal => 500,
        }
    }

    /// Returns the error type of OpenAI's APIs and its code.
    fn openai(&self) -> (&'static str, &'static str) {
        match self {
            RefusalKind::Overflow { .. } => ("invalid_request_error", "context_length_exceeded"),
            RefusalKind::Unauthorized => ("invalid_request_error", "invalid_api_key"),
            RefusalKind::TooLarge => ("invalid_request_error", "request_too_large"),
            RefusalKind::NotFound => ("invalid_request_error", "not_found"),
            RefusalKind::Overloaded => ("server_error", "server_is_overloaded"),
            RefusalKind::Timeout => ("server_error", "timeout"),
            RefusalKind::Upstream | RefusalKind::Internal => ("server_error", "server_error"),
            _ => ("invalid_request_error", "invalid_request"),
        }
    }

    /// Returns the error type of Anthropic's API.
    fn anthropic(&self) -> &'static str {
        match self {
            RefusalKind::Unauthorized => "authentication_error",
            RefusalKind::NotFound => "not_found_error",
            RefusalKind::TooLarge => "request_too_large",
            RefusalKind::Overloaded => "overloaded_error",
            RefusalKind::Timeout => "timeout_error",
            RefusalKind::Upstream | RefusalKind::Internal => "api_error",
            _ => "invalid_request_error",
        }
    }
}

/// Returns the body of a refusal; without a dialect, the form that most clients can read.
pub fn refusal_body(dialect: Option<Dialect>, kind: &RefusalKind, message: &str) -> String {
    let message = quote(&words(dialect, kind, message));
    match dialect {
        Some(Dialect::Anthropic) => {
            format!("{{\"type\":\"error\",\"error\":{{\"type\":\"{}\",\"message\":{message}}}}}", kind.anthropic())
        }
        _ => {
            let (kind, code) = kind.openai();
            format!("{{\"error\":{{\"message\":{message},\"type\":\"{kind}\",\"param\":null,\"code\":\"{code}\"}}}}")
        }
    }
}

/// Returns the events that end a stream which has begun already.
pub fn refusal_event(dialect: Dialect, kind: &RefusalKind, message: &str) -> String {
    let body = refusal_body(Some(dialect), kind, message);
    match dialect {
        Dialect::Anthropic => format!("event: error\ndata: {body}\n\n"),
        Dialect::Responses => {
            let (_, code) = kind.openai();
            let error = format!("{{\"code\":\"{code}\",\"message\":{}}}", quote(&words(Some(dialect), kind, message)));
            let response = format!("{{\"object\":\"response\",\"status\":\"failed\",\"error\":{error},\"output\":[]}}");
            format!("event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{response}}}\n\n")
        }
        _ => format!("data: {body}\n\ndata: [DONE]\n\n"),
    }
}

/// Returns how long the client may be told to wait; none if the kind says nothing of it.
pub fn refusal_retry_after(kind: &RefusalKind) -> Option<Duration> {
    matches!(kind, RefusalKind::Overloaded).then_some(Duration::from_secs(1))
}

/// Returns the message; an overflow is told in the words that the clients of the dialect look for.
fn words(dialect: Option<Dialect>, kind: &RefusalKind, message: &str) -> String {
    let RefusalKind::Overflow { tokens, window } = kind else { return message.to_owned() };
    // Claude Code takes the difference for what it must leave out, so it must be one.
    let tokens = (*tokens).max(window.saturating_add(1));
    match dialect {
        Some(Dialect::Anthropic) => format!("prompt is too long: {tokens} tokens > {window} maximum"),
        _ => format!(
            "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. \
             Please reduce the length of the messages."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const OVERFLOW: RefusalKind = RefusalKind::Overflow { tokens: 10, window: 100 };

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_overflow_is_told_in_the_words_that_each_client_recovers_from() {
        let anthropic = json(&refusal_body(Some(Dialect::Anthropic), &OVERFLOW, ""));
        assert_eq!(anthropic["error"]["type"], "invalid_request_error");
        assert_eq!(anthropic["error"]["message"], "prompt is too long: 101 tokens > 100 maximum");
        for dialect in [Some(Dialect::OpenAiChat), Some(Dialect::Responses), None] {
            assert_eq!(json(&refusal_body(dialect, &OVERFLOW, ""))["error"]["code"], "context_length_exceeded");
        }
        let event = refusal_event(Dialect::Responses, &OVERFLOW, "");
        let data = json(event.lines().nth(1).unwrap().strip_prefix("data: ").unwrap());
        assert_eq!(data["response"]["error"]["code"], "context_length_exceeded");
    }

    #[test]
    fn any_message_is_valid_json_in_any_dialect() {
        let odd = "a \"quote\"\n\u{1}and \\ more";
        for dialect in [None, Some(Dialect::OpenAiChat), Some(Dialect::Anthropic), Some(Dialect::Responses)] {
            assert_eq!(json(&refusal_body(dialect, &RefusalKind::Internal, odd))["error"]["message"], odd);
        }
        for dialect in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Responses] {
            let event = refusal_event(dialect, &RefusalKind::Upstream, odd);
            let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            assert!(json(data).is_object());
            assert!(event.ends_with("\n\n"));
        }
    }
}
