//! Thresholds and windows of models that Hermes treats by name, most of them served by the Codex backend.

use crate::Config;
use serde::Serialize;
use std::path::Path;

/// The provider whose models have the small Codex window.
pub const CODEX_PROVIDER: &str = "openai-codex";
/// Suffix of the names that ask for the large Codex window; the backend knows only the name without it.
pub const LARGE_WINDOW_SUFFIX: &str = "-900k";
/// File in the home directory that remembers that the raised threshold was announced.
pub const AUTORAISE_MARKER_FILE: &str = ".codex_gpt55_autoraise_notice";

/// Window the Codex backend gives to its models.
const CODEX_WINDOW_TOKENS: u64 = 272_000;
/// Window of `gpt-5.3-codex-spark` there.
const SPARK_WINDOW_TOKENS: u64 = 128_000;
/// Window promised by the `-900k` names; the backend took about 911,000 tokens when its documentation was written.
const LARGE_WINDOW_TOKENS: u64 = 900_000;

const CODEX_THRESHOLD: f64 = 0.85;
const SPARK_THRESHOLD: f64 = 0.70;
const TRINITY_THRESHOLD: f64 = 0.75;
const CODEX_FAMILIES: [&str; 3] = ["gpt-5.4", "gpt-5.5", "gpt-5.6"];
const SPARK: &str = "gpt-5.3-codex-spark";
const TRINITY: &str = "trinity-large-thinking";

/// Server-side compaction must come first, so its threshold stays this far below the local one.
const NATIVE_MARGIN_TOKENS: u64 = 8_192;
/// Window of a model that neither the settings nor the command line know: small enough for every current one.
pub const WINDOW_TOKENS_ASSUMED: u64 = 128_000;
/// Lowest compaction threshold the Responses API accepts.
const NATIVE_TOKENS_MIN: u64 = 1_024;

/// A threshold that belongs to a model by its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelRule {
    pub threshold: f64,
    /// A Codex rule only raises; the others also lower.
    pub only_raises: bool,
    pub because: &'static str,
}

/// A threshold that was raised for a Codex model, to be announced once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Autoraise {
    pub model: String,
    pub from: f64,
    pub to: f64,
}

/// Returns the threshold that belongs to a model by its name, if any.
pub fn model_rule(model: &str, provider: &str, autoraise: bool) -> Option<ModelRule> {
    let name = bare(model);
    if name == TRINITY {
        let because = "reasoning of trinity-large-thinking is kept longer, on any provider";
        return Some(ModelRule { threshold: TRINITY_THRESHOLD, only_raises: false, because });
    }
    if !is_codex(provider) {
        return None;
    }
    if is_spark(&name) {
        let because = "gpt-5.3-codex-spark has a window of 128,000 tokens on the Codex backend";
        return Some(ModelRule { threshold: SPARK_THRESHOLD, only_raises: true, because });
    }
    // A large window is not wasted at the configured threshold, so its names are not raised.
    if !autoraise || name.ends_with(LARGE_WINDOW_SUFFIX) || !(is_codex_family(&name) || name.contains("astra")) {
        return None;
    }
    let because = "the Codex backend gives this model 272,000 tokens (compression.codex_gpt55_autoraise)";
    Some(ModelRule { threshold: CODEX_THRESHOLD, only_raises: true, because })
}

/// Tells whether a model asks for the large Codex window by its name.
pub fn is_large_window(model: &str, provider: &str) -> bool {
    is_codex(provider) && bare(model).ends_with(LARGE_WINDOW_SUFFIX)
}

/// Returns the name to send to the provider: the `-900k` names exist only on this side.
pub fn wire_model<'a>(model: &'a str, provider: &str) -> &'a str {
    let trimmed = model.trim();
    let stem_len = trimmed.len().saturating_sub(LARGE_WINDOW_SUFFIX.len());
    match (trimmed.get(..stem_len), trimmed.get(stem_len..)) {
        (Some(stem), Some(suffix))
            if is_codex(provider) && !stem.is_empty() && suffix.eq_ignore_ascii_case(LARGE_WINDOW_SUFFIX) =>
        {
            stem
        }
        _ => model,
    }
}

/// Returns the window of a Codex model where the backend does not tell.
pub fn codex_window(model: &str) -> u64 {
    let name = bare(model);
    match () {
        () if is_spark(&name) => SPARK_WINDOW_TOKENS,
        () if name.ends_with(LARGE_WINDOW_SUFFIX) => LARGE_WINDOW_TOKENS,
        () => CODEX_WINDOW_TOKENS,
    }
}

/// Returns the threshold to send for server-side compaction, given the local one.
pub fn native_compact_threshold(config: &Config, local_threshold_tokens: u64) -> u64 {
    // A local threshold smaller than the margin leaves no room for it, so a share is taken instead.
    let ceiling = match local_threshold_tokens.checked_sub(NATIVE_MARGIN_TOKENS) {
        Some(below) if below >= NATIVE_TOKENS_MIN => below,
        _ => local_threshold_tokens.saturating_mul(4) / 5,
    };
    config.compression.codex_responses_compact_threshold.unwrap_or(ceiling).min(ceiling).max(NATIVE_TOKENS_MIN)
}

/// Model family that the Responses API compacts on its side.
const NATIVE_FAMILY: &str = "gpt-5.6";
/// Where it does: OpenAI's own API and the backend of Codex.
const NATIVE_HOSTS: [&str; 2] = ["//api.openai.com", "//chatgpt.com/backend-api/codex"];

/// Returns the threshold to ask for where the provider may compact on its side: the settings allow it, the model and the
/// address are such. None where it is not asked.
pub fn native_compaction(config: &Config, model: &str, base_url: &str, local_threshold_tokens: u64) -> Option<u64> {
    let is_wanted = config.compression.enabled && config.compression.codex_responses_native;
    let is_there = NATIVE_HOSTS.iter().any(|host| base_url.contains(host)) && bare(model).contains(NATIVE_FAMILY);
    (is_wanted && is_there).then(|| native_compact_threshold(config, local_threshold_tokens))
}

impl Autoraise {
    /// What the marker file holds once this raise was announced; another text means it is announced again.
    pub fn marker(&self) -> String {
        format!("{}:{}:{}", self.model, percent(self.from), percent(self.to))
    }

    /// The two lines shown once, unless `compression.codex_gpt55_autoraise_notice` is off.
    pub fn notice(&self) -> String {
        let Self { model, from, to } = self;
        let window = if is_spark(&bare(model)) { "128K" } else { "272K" };
        format!(
            "Codex {model} has a window of {window}, so conversations are compacted at {}% of it instead of {}%.\n\
             To use the configured threshold: palimpsest config set compression.codex_gpt55_autoraise false",
            percent(*to),
            percent(*from)
        )
    }
}

/// Returns the notice of a raise that this home folder has not seen yet, and remembers that it has now.
///
/// A folder that cannot be written shows it each time: that a threshold was raised must not stay unsaid.
pub fn announce(config: &Config, raise: &Autoraise, home: &Path) -> Option<String> {
    if !config.compression.codex_gpt55_autoraise_notice {
        return None;
    }
    let path = home.join(AUTORAISE_MARKER_FILE);
    let marker = raise.marker();
    if std::fs::read_to_string(&path).is_ok_and(|seen| seen.trim() == marker) {
        return None;
    }
    let _ = std::fs::create_dir_all(home).and_then(|()| std::fs::write(&path, &marker));
    Some(raise.notice())
}

/// Returns the window to assume for a model that nobody stated one for.
pub fn assumed_window(model: &str, provider: &str) -> u64 {
    if is_codex(provider) { codex_window(model) } else { WINDOW_TOKENS_ASSUMED }
}

fn percent(fraction: f64) -> u64 {
    // The cast saturates, so a fraction that is no number prints as 0.
    (fraction * 100.0).round() as u64
}

/// The model name in lower case, without a vendor prefix.
fn bare(model: &str) -> String {
    let name = model.trim().to_ascii_lowercase();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_codex(provider: &str) -> bool {
    provider.trim().eq_ignore_ascii_case(CODEX_PROVIDER)
}

fn is_spark(name: &str) -> bool {
    name.strip_prefix(SPARK).is_some_and(ends_family)
}

fn is_codex_family(name: &str) -> bool {
    CODEX_FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(ends_family))
}

/// A family name ends at the end or before `-` or `.`, so `gpt-5.50` is not `gpt-5.5`.
fn ends_family(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_follows_the_model_and_the_provider() {
        // The first eight rows are what Hermes 0.19.0 answers, but for the `-900k` name: that version does not know
        // the suffix and raises it by its prefix, while its later documentation leaves it out, as here.
        let rows = [
            ("gpt-5.5", "openai-codex", true, Some(0.85)),
            ("gpt-5.5", "openai-codex", false, None),
            ("gpt-5.6-sol", "openai-codex", true, Some(0.85)),
            ("gpt-5.6-sol-900k", "openai-codex", true, None),
            ("gpt-5.5", "openai", true, None),
            ("gpt-5.3-codex-spark", "openai-codex", false, Some(0.70)),
            ("gpt-5.50", "openai-codex", true, None),
            ("arcee/trinity-large-thinking", "openrouter", true, Some(0.75)),
            ("trinity-large-preview", "openrouter", true, None),
            (" OpenAI/GPT-5.4.1 ", "OpenAI-Codex", true, Some(0.85)),
            ("gpt-6-astra", "openai-codex", true, Some(0.85)),
            ("", "openai-codex", true, None),
        ];
        for (model, provider, autoraise, expected) in rows {
            assert_eq!(model_rule(model, provider, autoraise).map(|r| r.threshold), expected, "{model} {provider}");
        }
    }

    #[test]
    fn the_large_window_suffix_never_reaches_the_provider() {
        assert_eq!(wire_model("gpt-5.6-sol-900k", "openai-codex"), "gpt-5.6-sol");
        assert_eq!(wire_model("gpt-5.6-sol-900K ", "openai-codex"), "gpt-5.6-sol");
        assert_eq!(wire_model("gpt-5.6-sol-900k", "openai"), "gpt-5.6-sol-900k");
        assert_eq!(wire_model("é-900k", "openai-codex"), "é");
        assert_eq!(wire_model("-900k", "openai-codex"), "-900k");
        assert_eq!(wire_model("€€", "openai-codex"), "€€");
    }

    #[test]
    fn a_codex_window_is_known_by_name() {
        assert_eq!(codex_window("gpt-5.3-codex-spark"), 128_000);
        assert_eq!(codex_window("gpt-5.6-luna"), 272_000);
        assert_eq!(codex_window("gpt-5.6-luna-900k"), 900_000);
    }

    #[test]
    fn a_raise_is_announced_with_both_percentages_and_the_way_back() {
        let raise = Autoraise { model: "gpt-5.5".into(), from: 0.5, to: 0.85 };
        assert_eq!(raise.marker(), "gpt-5.5:50:85");
        let notice = raise.notice();
        assert_eq!(notice.lines().count(), 2);
        for part in ["gpt-5.5", "272K", "85%", "50%", "config set compression.codex_gpt55_autoraise false"] {
            assert!(notice.contains(part), "{part} in {notice}");
        }
    }

    #[test]
    fn a_raise_is_announced_once_for_each_home_and_again_when_it_changes() {
        let home = std::env::temp_dir().join(format!("palimpsest-announce-{}", std::process::id()));
        let mut config = Config::default();
        let mut raise = Autoraise { model: "gpt-5.5".to_owned(), from: 0.5, to: 0.85 };
        assert!(announce(&config, &raise, &home).is_some());
        assert_eq!(announce(&config, &raise, &home), None);
        raise.from = 0.6;
        assert!(announce(&config, &raise, &home).is_some());
        config.compression.codex_gpt55_autoraise_notice = false;
        raise.from = 0.7;
        assert_eq!(announce(&config, &raise, &home), None);
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn server_side_compaction_comes_before_the_local_one() {
        let mut config = Config::default();
        assert_eq!(native_compact_threshold(&config, 150_000), 141_808);
        assert_eq!(native_compact_threshold(&config, 500_000), 200_000);
        assert_eq!(native_compact_threshold(&config, 5_000), 4_000);
        assert_eq!(native_compact_threshold(&config, 0), 1_024);
        let asks = |config: &Config, model, base| native_compaction(config, model, base, 150_000);
        assert_eq!(asks(&config, "gpt-5.6", "https://api.openai.com/v1"), None, "it is off unless it is asked for");
        let mut native = config.clone();
        native.compression.codex_responses_native = true;
        assert_eq!(asks(&native, "openai/gpt-5.6-codex", "https://api.openai.com/v1"), Some(141_808));
        assert_eq!(asks(&native, "gpt-5.5", "https://api.openai.com/v1"), None);
        assert_eq!(asks(&native, "gpt-5.6", "https://api.x.ai/v1"), None);
        config.compression.codex_responses_compact_threshold = None;
        assert_eq!(native_compact_threshold(&config, 765_000), 756_808);
        assert_eq!(native_compact_threshold(&config, u64::MAX), u64::MAX - 8_192);
    }
}
