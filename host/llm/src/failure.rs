//! Why a model gave no usable answer, and what follows from it.

use serde_json::Value;
use std::time::Duration;

/// Longest part of a provider's own words that is passed on, in characters.
const DETAIL_CHARS_MAX: usize = 240;
/// Numbers below this in an error are no windows; the smallest local models have 512.
const WINDOW_TOKENS_MIN: u64 = 256;
/// Numbers above this in an error are no windows either.
const WINDOW_TOKENS_MAX: u64 = 100_000_000;
/// How far behind a phrase such as "context length" its number stands, in bytes.
const WINDOW_NUMBER_REACH: usize = 64;

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No endpoint, key or model is known to ask.
    NoProvider,
    /// The key was refused.
    Auth,
    /// Nothing is left to pay with.
    Quota,
    /// The request was refused for what it is: 400, 404 and their like.
    BadRequest,
    /// The prompt does not fit the model's window, or the body the server's limit.
    Overflow,
    /// Too many requests.
    RateLimited,
    /// The provider failed: 5xx.
    Server,
    /// No connection, or one that broke.
    Connection,
    /// No answer in time.
    TimedOut,
    /// Other requests took all the time there was.
    Busy,
    /// The caller ended the call.
    Cancelled,
    /// The answer is not the JSON that the endpoint promises.
    NotJson,
    /// A web page, an event stream or an answer without end came in place of JSON.
    Garbage,
    /// An answer without text.
    Empty,
    /// The model or a filter refused.
    Refusal,
    /// Only tool calls were answered.
    ToolOnly,
    /// The answer was cut off at a limit.
    Truncated,
    /// The answer is longer than what it stands for.
    TooLong,
    /// Even in pieces the prompt does not fit.
    TooLarge,
    /// The live request cannot carry an instruction.
    NoPrefix,
}

impl Kind {
    /// Returns the failure in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::NoProvider => "no provider",
            Kind::Auth => "key refused",
            Kind::Quota => "quota used up",
            Kind::BadRequest => "request refused",
            Kind::Overflow => "prompt too long for the model",
            Kind::RateLimited => "rate limited",
            Kind::Server => "provider error",
            Kind::Connection => "no connection",
            Kind::TimedOut => "timed out",
            Kind::Busy => "too many summaries at once",
            Kind::Cancelled => "cancelled",
            Kind::NotJson => "answer is not JSON",
            Kind::Garbage => "answer is no answer of this API",
            Kind::Empty => "empty answer",
            Kind::Refusal => "refused",
            Kind::ToolOnly => "only tool calls",
            Kind::Truncated => "answer cut off",
            Kind::TooLong => "answer longer than its source",
            Kind::TooLarge => "prompt too large even in pieces",
            Kind::NoPrefix => "live request cannot be used",
        }
    }

    /// Tells whether the same request may succeed a moment later.
    pub fn is_retryable(self) -> bool {
        match self {
            Kind::RateLimited | Kind::Server | Kind::Connection | Kind::TimedOut => true,
            Kind::NotJson
            | Kind::Garbage
            | Kind::Empty
            | Kind::Busy
            | Kind::NoProvider
            | Kind::Auth
            | Kind::Quota
            | Kind::BadRequest
            | Kind::Overflow
            | Kind::Cancelled
            | Kind::Refusal
            | Kind::ToolOnly
            | Kind::Truncated
            | Kind::TooLong
            | Kind::TooLarge
            | Kind::NoPrefix => false,
        }
    }

    /// Returns how long the endpoint is left alone; the times are Hermes'. `timeouts` counts those in a row, this one
    /// included.
    ///
    /// Without a provider nothing was asked, so there is nothing to spare: a key that is set works at once.
    pub fn cooldown(self, timeouts: u32) -> Option<Duration> {
        let seconds = match self {
            Kind::NoProvider | Kind::Busy | Kind::Cancelled | Kind::TooLarge | Kind::NoPrefix => return None,
            Kind::Connection | Kind::NotJson | Kind::Garbage => 30,
            Kind::TimedOut => match timeouts {
                0 | 1 => 60,
                2 => 300,
                _ => 900,
            },
            Kind::Auth
            | Kind::Quota
            | Kind::BadRequest
            | Kind::Overflow
            | Kind::RateLimited
            | Kind::Server
            | Kind::Empty
            | Kind::Refusal
            | Kind::ToolOnly
            | Kind::Truncated
            | Kind::TooLong => 60,
        };
        Some(Duration::from_secs(seconds))
    }

    /// Returns what a person can do, if anything.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Kind::NoProvider => {
                "set a key such as OPENROUTER_API_KEY, ANTHROPIC_API_KEY or OPENAI_API_KEY, or auxiliary.compression.base_url"
            }
            Kind::Auth => "check the key of the endpoint that auxiliary.compression names",
            Kind::Quota => "top up the account, or name another provider in auxiliary.compression",
            Kind::BadRequest => "check auxiliary.compression.model and extra_body",
            Kind::Overflow | Kind::TooLarge => {
                "name a model with a larger window in auxiliary.compression.model, or its window in context_length"
            }
            Kind::TimedOut => "raise auxiliary.compression.timeout, or name a faster model",
            _ => "",
        }
    }
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Decides what follows.
    pub kind: Kind,
    /// The HTTP status, if one came.
    pub status: Option<u16>,
    /// The provider's words or ours, without secrets, cut.
    pub detail: String,
    /// When the provider wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The model's window, where the error stated it.
    pub window: Option<u64>,
}

impl Failure {
    /// Makes a failure of a kind; the detail is redacted and cut.
    pub fn new(kind: Kind, detail: &str) -> Self {
        // Cut first, far beyond what is kept, so that a long page costs little.
        let head = detail.char_indices().nth(DETAIL_CHARS_MAX * 8).map_or(detail, |(at, _)| &detail[..at]);
        let redacted = host_redact::redact(head);
        let mut detail: String = redacted.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((at, _)) = detail.char_indices().nth(DETAIL_CHARS_MAX) {
            detail.truncate(at);
            detail.push('…');
        }
        Failure { kind, status: None, detail, retry_after: None, window: None }
    }

    /// Takes every copy of a key out of the detail: a key of an unknown form is not recognised without knowing it.
    pub(crate) fn without(mut self, key: Option<&str>) -> Self {
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            self.detail = self.detail.replace(key, host_config::MASK);
        }
        self
    }

    /// Returns the failure in one line without any text of the conversation.
    pub fn outcome(&self) -> String {
        match self.status {
            Some(status) => format!("{status} {}", self.kind.words()),
            None => self.kind.words().to_owned(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.outcome())?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for Failure {}

/// Classifies an answer whose status is no success.
pub fn of_status(status: u16, retry_after: Option<Duration>, body: &str) -> Failure {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let (code, message) = match &parsed {
        Some(value) => error_of(value),
        // A page of a proxy says nothing that its status does not.
        None if is_markup(body) => (String::new(), String::new()),
        None => (String::new(), body.to_owned()),
    };
    let window = window_in(&message);
    let kind = kind_of(status, &code.to_ascii_lowercase(), &message.to_ascii_lowercase(), window.is_some());
    let mut failure = Failure::new(kind, &message);
    failure.status = Some(status);
    failure.retry_after = retry_after;
    failure.window = window.filter(|_| kind == Kind::Overflow);
    failure
}

fn kind_of(status: u16, code: &str, message: &str, states_window: bool) -> Kind {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    let is_client_error = (400..500).contains(&status);
    if code.contains("insufficient_quota")
        || (is_client_error && says(&["credit balance", "insufficient_quota", "exceeded your current quota"]))
    {
        return Kind::Quota;
    }
    let is_overflow = code.contains("context_length")
        || code.contains("request_too_large")
        || code.contains("exceed_context_size")
        || says(&[
            "prompt is too long",
            "context length",
            "context window",
            "context limit",
            "context size",
            "too many tokens",
            "input is too long",
        ]);
    match status {
        413 => Kind::Overflow,
        400 | 422 if is_overflow || states_window => Kind::Overflow,
        // Some local servers answer an overflow with 500.
        500 if is_overflow => Kind::Overflow,
        402 => Kind::Quota,
        403 if says(&["moderation", "flagged", "content policy"]) => Kind::Refusal,
        400 if code.contains("content_filter") => Kind::Refusal,
        401 | 403 => Kind::Auth,
        408 | 504 => Kind::TimedOut,
        429 => Kind::RateLimited,
        500..=599 => Kind::Server,
        300..=399 => Kind::BadRequest,
        400..=499 => Kind::BadRequest,
        _ => Kind::Garbage,
    }
}

/// Returns code (or type) and message of the error shapes in use: `{"error": {...}}`, `{"error": "…"}`, `{"message": "…"}`.
pub(crate) fn error_of(value: &Value) -> (String, String) {
    let error = value.get("error").unwrap_or(value);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let code = format!("{} {}", text("code"), text("type"));
    let message = error.as_str().or_else(|| error.get("message")?.as_str()).or_else(|| value.get("detail")?.as_str());
    (code, message.unwrap_or_default().to_owned())
}

/// Tells whether a body is a web page.
pub(crate) fn is_markup(body: &str) -> bool {
    body.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').starts_with('<')
}

/// Reads the model's window from the words of an overflow error.
///
/// Known forms: "maximum context length is 8192 tokens", "213462 tokens > 200000 maximum",
/// "188240 + 21333 > 200000", "the available context size (4096 tokens)", "context window of 128,000 tokens".
pub(crate) fn window_in(message: &str) -> Option<u64> {
    let message = message.to_ascii_lowercase();
    let is_window = |number: &u64| (WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX).contains(number);
    for phrase in
        ["maximum context length", "context length", "context size", "context window", "n_ctx", "context limit"]
    {
        let Some(at) = message.find(phrase) else { continue };
        let rest = message.get(at + phrase.len()..).unwrap_or_default();
        // After a greater-than sign stands the limit; before it, what was too much.
        let rest = match rest.split_once(" > ") {
            Some((before, after)) if before.len() < WINDOW_NUMBER_REACH => after,
            _ => rest,
        };
        if let Some(number) = first_number(rest).filter(is_window) {
            return Some(number);
        }
    }
    let (before, after) = message.split_once(" > ")?;
    let speaks_of_tokens = before.contains("token") || before.contains("too long");
    first_number(after).filter(is_window).filter(|_| speaks_of_tokens)
}

/// Reads the first number within reach; `128,000` and `128_000` are one number.
fn first_number(text: &str) -> Option<u64> {
    let start = text.bytes().take(WINDOW_NUMBER_REACH).position(|byte| byte.is_ascii_digit())?;
    let digits: String = text
        .get(start..)?
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_words_become_kinds() {
        let openai = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
        let anthropic = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#;
        let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#;
        let cases = [
            (400, openai, Kind::Overflow, Some(8_192)),
            (400, anthropic, Kind::Overflow, Some(200_000)),
            (400, llama, Kind::Overflow, Some(4_096)),
            (413, "<html>too large</html>", Kind::Overflow, None),
            (400, r#"{"error":{"message":"Unknown parameter: 'x'"}}"#, Kind::BadRequest, None),
            (404, r#"{"error":{"message":"model not found"}}"#, Kind::BadRequest, None),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                Kind::Quota,
                None,
            ),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#,
                Kind::Quota,
                None,
            ),
            (429, r#"{"error":{"message":"slow down"}}"#, Kind::RateLimited, None),
            (401, "", Kind::Auth, None),
            (403, r#"{"error":{"message":"Your input was flagged"}}"#, Kind::Refusal, None),
            (403, "{}", Kind::Auth, None),
            (402, "{}", Kind::Quota, None),
            (408, "", Kind::TimedOut, None),
            (504, "<html>", Kind::TimedOut, None),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, Kind::Server, None),
            (302, "", Kind::BadRequest, None),
        ];
        for (status, body, kind, window) in cases {
            let failure = of_status(status, None, body);
            assert_eq!((failure.kind, failure.window), (kind, window), "{status} {body}");
        }
    }

    #[test]
    fn windows_are_read_from_the_words_of_errors() {
        let cases = [
            ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease", Some(200_000)),
            ("context window of 128,000 tokens", Some(128_000)),
            ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
            ("context length", None),
            ("99999999999999999999999 tokens > 99999999999999999999999 maximum", None),
            ("a claimed maximum: 12 tokens > 0 maximum", None),
            ("日本語 context length 日本語", None),
            ("x > y", None),
        ];
        for (message, window) in cases {
            assert_eq!(window_in(message), window, "{message}");
        }
    }

    #[test]
    fn details_are_one_short_line_without_secrets() {
        let key = format!("sk-{}", "a1".repeat(20));
        let failure = Failure::new(Kind::Auth, &format!("Incorrect API key\nprovided: {key}. {}", "x".repeat(5_000)));
        assert!(failure.detail.starts_with("Incorrect API key provided: [redacted:model-key]"), "{}", failure.detail);
        assert!(failure.detail.chars().count() <= DETAIL_CHARS_MAX + 1 && !failure.detail.contains('\n'));
        let odd = Failure::new(Kind::Auth, "the key hunter2 is unknown").without(Some("hunter2"));
        assert_eq!(odd.to_string(), "key refused: the key *** is unknown");
    }

    #[test]
    fn timeouts_climb_a_ladder() {
        let seconds = |n| Kind::TimedOut.cooldown(n).unwrap().as_secs();
        assert_eq!([1, 2, 3, 9].map(seconds), [60, 300, 900, 900]);
    }
}
