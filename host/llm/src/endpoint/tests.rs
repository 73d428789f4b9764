//! Whom the settings and the environment name.

use super::*;

/// Settings as `provider model base_url`, environment as `NAME=value`, conversation as `model dialect provider`;
/// returns `api url model` and whether a key goes along.
fn resolve(settings: (Provider, &str, &str), env: &[&str], main: (&str, Dialect, &str)) -> Result<String, String> {
    let mut config = Config::default();
    config.auxiliary.compression.provider = settings.0;
    config.auxiliary.compression.model = settings.1.to_owned();
    config.auxiliary.compression.base_url = settings.2.to_owned();
    let env = |name: &str| env.iter().find_map(|pair| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    let main =
        MainModel { name: main.0.into(), provider: main.2.into(), dialect: Some(main.1), ..MainModel::default() };
    let target = Endpoints::new(&config, &env).auxiliary(&main, &Prices::embedded())?;
    let key = target.key.as_ref().map_or("no key", Key::reveal);
    Ok(format!("{:?} {} {} {key}", target.api, target.url, target.model))
}

/// Settings, environment, conversation, and what is found; `!` begins what is said if nothing is.
type Case = (
    (Provider, &'static str, &'static str),
    &'static [&'static str],
    (&'static str, Dialect, &'static str),
    &'static str,
);

#[test]
fn endpoints_are_found_as_people_expect() {
    use Dialect::{Anthropic as A, OpenAiChat as O, Responses as R};
    let gpt = ("gpt-5", O, "");
    let claude = ("claude-opus-5", A, "");
    const OPENAI: &str = "OPENAI_API_KEY=ko";
    const ANTHROPIC: &str = "ANTHROPIC_API_KEY=ka";
    const ROUTER: &str = "OPENROUTER_API_KEY=kr";
    let auto = (Provider::Auto, "", "");
    let cases: Vec<Case> = vec![
        (auto, &[OPENAI, ANTHROPIC], gpt, "Chat https://api.openai.com/v1/chat/completions gpt-5 ko"),
        (auto, &[OPENAI, ANTHROPIC], claude, "Messages https://api.anthropic.com/v1/messages claude-opus-5 ka"),
        (auto, &[OPENAI], ("gpt-5", R, ""), "Responses https://api.openai.com/v1/responses gpt-5 ko"),
        (auto, &[ROUTER], claude, "Chat https://openrouter.ai/api/v1/chat/completions anthropic/claude-opus-5 kr"),
        (auto, &[ROUTER, OPENAI], ("x/y", O, ""), "Chat https://openrouter.ai/api/v1/chat/completions x/y kr"),
        (
            auto,
            &["NOUS_API_KEY=kn"],
            ("x/y", O, ""),
            "Chat https://inference-api.nousresearch.com/v1/chat/completions x/y kn",
        ),
        (auto, &[ANTHROPIC], ("gpt-5", O, "anthropic"), "! no model"),
        (auto, &[OPENAI], claude, "! ANTHROPIC_API_KEY is not set"),
        (auto, &[], gpt, "! OPENAI_API_KEY is not set"),
        (auto, &[OPENAI], ("", O, ""), "! no model is named"),
        (
            auto,
            &["OPENAI_BASE_URL=http://localhost:1/v1"],
            ("llama", O, ""),
            "Chat http://localhost:1/v1/chat/completions llama no key",
        ),
        (
            auto,
            &[ANTHROPIC, "ANTHROPIC_BASE_URL=http://p:1"],
            claude,
            "Messages http://p:1/v1/messages claude-opus-5 ka",
        ),
        (
            (Provider::OpenAi, "gpt-5-mini", ""),
            &[OPENAI],
            claude,
            "Chat https://api.openai.com/v1/chat/completions gpt-5-mini ko",
        ),
        ((Provider::OpenAi, "", ""), &[OPENAI], claude, "! no model"),
        (
            (Provider::OpenRouter, "", ""),
            &[ROUTER],
            gpt,
            "Chat https://openrouter.ai/api/v1/chat/completions openai/gpt-5 kr",
        ),
        (
            (Provider::Anthropic, "claude-haiku-4-5", ""),
            &[ANTHROPIC],
            gpt,
            "Messages https://api.anthropic.com/v1/messages claude-haiku-4-5 ka",
        ),
        (
            (Provider::Main, "gpt-5-mini", ""),
            &[OPENAI],
            gpt,
            "Chat https://api.openai.com/v1/chat/completions gpt-5-mini ko",
        ),
        ((Provider::Custom, "m", ""), &[OPENAI], gpt, "! no base_url"),
        // No key of a vendor goes to an address that the vendor was not named for.
        (
            (Provider::Auto, "m", "http://h:1/v1/"),
            &[OPENAI, ANTHROPIC, ROUTER],
            gpt,
            "Chat http://h:1/v1/chat/completions m no key",
        ),
        ((Provider::OpenAi, "m", "http://h:1/v1"), &[OPENAI], gpt, "Chat http://h:1/v1/chat/completions m ko"),
        ((Provider::Auto, "m", "https://h/anthropic"), &[], gpt, "Messages https://h/anthropic/v1/messages m no key"),
        ((Provider::Anthropic, "m", "https://h/v1"), &[ANTHROPIC], gpt, "Messages https://h/v1/messages m ka"),
        ((Provider::Auto, "m", "http://h/v1/chat/completions"), &[], gpt, "Chat http://h/v1/chat/completions m no key"),
        ((Provider::Auto, "m", "ftp://h"), &[], gpt, "! must begin with http"),
        ((Provider::Auto, "m", "no address"), &[], gpt, "! cannot be used"),
    ];
    for (settings, env, main, want) in cases {
        match (resolve(settings, env, main), want.strip_prefix("! ")) {
            (Ok(found), None) => assert_eq!(found, want),
            (Err(why), Some(part)) => assert!(why.contains(part), "{settings:?} {main:?}: {why}"),
            (found, _) => panic!("{settings:?} {env:?} {main:?}: {found:?}, wanted {want}"),
        }
    }
}

#[test]
fn a_key_that_names_a_missing_variable_is_said_when_it_is_needed() {
    let mut config = Config::default();
    config.auxiliary.compression.base_url = "http://h/v1".to_owned();
    config.auxiliary.compression.model = "m".to_owned();
    config.auxiliary.compression.api_key = Secret::new("${NOPE}");
    let endpoints = Endpoints::new(&config, &|_| None);
    let why = endpoints.auxiliary(&MainModel::default(), &Prices::embedded()).unwrap_err();
    assert!(why.contains("NOPE"), "{why}");
}

#[test]
fn debug_shows_no_key() {
    let mut config = Config::default();
    config.auxiliary.compression.base_url = "http://h/v1".to_owned();
    config.auxiliary.compression.api_key = Secret::new("hunter2");
    let shown =
        format!("{:?}", Endpoints::new(&config, &|name| (name == "OPENAI_API_KEY").then(|| "hunter2".to_owned())));
    assert!(shown.contains("***") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn this_machine_is_known_by_its_names() {
    for (origin, want) in [
        ("http://127.0.0.1:1", true),
        ("http://localhost", true),
        ("http://[::1]:9", true),
        ("http://10.0.0.1", false),
        ("", false),
    ] {
        assert_eq!(crate::net::is_loopback(origin), want, "{origin}");
    }
}
