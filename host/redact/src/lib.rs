//! Takes secrets out of a text, in linear time, before it leaves the host.

use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What stands in place of a secret.
const MASK: &str = "[redacted]";

/// Forms of secrets that are recognised without their surroundings, then those that a name gives away.
/// The regex crate runs in linear time whatever the text is.
static FORMS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let forms: [(&str, &'static str); 9] = [
        // OpenAI, Anthropic and OpenRouter keys.
        (r"\bsk-[A-Za-z0-9_-]{16,}", MASK),
        // GitHub and GitLab tokens.
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})", MASK),
        // AWS access key ids.
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", MASK),
        // Slack tokens.
        (r"\bxox[abprs]-[A-Za-z0-9-]{10,}", MASK),
        // Google API keys.
        (r"\bAIza[A-Za-z0-9_-]{30,}", MASK),
        // JSON web tokens.
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}", MASK),
        (r"(?s)-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?-----END [A-Z ]{0,32}PRIVATE KEY-----", MASK),
        (r"(?i)\b(authorization\s*:\s*(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", "${1}[redacted]"),
        (
            r#"(?i)\b((?:api[_-]?key|secret|password|passwd|access[_-]?token|auth[_-]?token)["']?\s*[:=]\s*["']?)[^\s"',;]{8,}"#,
            "${1}[redacted]",
        ),
    ];
    forms.into_iter().filter_map(|(form, mask)| Some((Regex::new(form).ok()?, mask))).collect()
});

/// Returns the text with its secrets masked.
pub fn redact(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for (form, mask) in FORMS.iter() {
        if let Cow::Owned(masked) = form.replace_all(&text, *mask) {
            text = Cow::Owned(masked);
        }
    }
    text.into_owned()
}

#[cfg(test)]
mod tests {
    //! Tests with made-up secrets.
    use super::*;

    #[test]
    fn every_form_compiles() {
        assert_eq!(FORMS.len(), 9);
    }

    #[test]
    fn known_forms_are_masked_and_the_rest_stays() {
        let key = format!("sk-{}", "a1".repeat(20));
        assert_eq!(redact(&format!("use {key} now")), "use [redacted] now");
        assert_eq!(redact("password = hunter2hunter2"), "password = [redacted]");
        assert_eq!(redact("Authorization: Bearer abcdefgh12345"), "Authorization: Bearer [redacted]");
        assert_eq!(redact("a plain sentence about a password"), "a plain sentence about a password");
        assert_eq!(redact("日本語のテキスト"), "日本語のテキスト");
    }
}
