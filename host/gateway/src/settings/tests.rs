//! Which provider a request goes to, and what is refused at the door.

use super::*;

fn read(yaml: &str) -> Result<(Settings, Vec<String>), SettingsError> {
    let loaded = host_config::parse(yaml, "config.yaml");
    let is_serious = |one: &host_config::Diagnostic| one.severity > host_config::Severity::Notice;
    assert!(!loaded.diagnostics.iter().any(is_serious), "{yaml}: {:?}", loaded.diagnostics);
    Settings::read(&loaded.config, None, None, &|name| (name == "K").then(|| "k".repeat(40)))
}

#[test]
fn an_open_address_needs_a_long_key() {
    let refused = |yaml: &str| read(yaml).unwrap_err();
    let open = "gateway: {listen: '0.0.0.0:8484'}";
    assert!(matches!(refused(open), SettingsError::Open(_)));
    assert_eq!(refused("gateway: {key: short}"), SettingsError::ShortKey(5));
    assert!(matches!(refused("gateway: {listen: nowhere}"), SettingsError::Listen(_)));
    assert!(read("gateway: {listen: '0.0.0.0:8484', key: '${K}'}").is_ok());
    for loopback in ["127.0.0.1:0", "localhost:8484", "'[::1]:1'"] {
        assert!(read(&format!("gateway: {{listen: {loopback}}}")).is_ok(), "{loopback}");
    }
}

#[test]
fn a_request_goes_to_the_named_the_listing_or_the_first_provider() {
    let (settings, problems) = read(
        "providers:
           local: {base_url: 'http://127.0.0.1:1/v1', api: openai, models: {'qwen*': {context_length: 32768}, other: {}}}
           router: {base_url: 'https://router.example/api/v1/', api_key: '${K}', models: ['anthropic/*']}
           broken: {base_url: 'ftp://x'}
           odd: {base_url: 'http://x', api: grpc}",
    )
    .unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let to = |named, api, model| settings.provider(named, api, model).map(|provider| provider.name.as_str());
    assert_eq!(to(Some("router"), Some(Api::OpenAi), "x"), Ok("router"));
    assert!(to(Some("nobody"), None, "x").is_err());
    assert_eq!(to(None, Some(Api::OpenAi), "qwen3-coder"), Ok("local"));
    assert_eq!(to(None, Some(Api::Anthropic), "anthropic/claude"), Ok("router"));
    assert_eq!(to(None, Some(Api::OpenAi), "gpt-5"), Ok("openai"));
    assert_eq!(to(None, Some(Api::Anthropic), "claude-sonnet-5"), Ok("anthropic"));
    let local = settings.provider(Some("local"), None, "").unwrap();
    assert_eq!((local.window("qwen3"), local.window("other")), (Some(32_768), None));
    assert!(!format!("{settings:?}").contains("kkkk"));
}

#[test]
fn addresses_join_with_and_without_v1() {
    let at = |base: &str| Provider {
        name: "p".to_owned(),
        base: base.to_owned(),
        api: None,
        key: None,
        headers: Vec::new(),
        models: Vec::new(),
    };
    assert_eq!(at("http://h/v1").url("/v1/chat/completions", None), "http://h/v1/chat/completions");
    assert_eq!(at("http://h/v1").url("/chat/completions", None), "http://h/v1/chat/completions");
    assert_eq!(at("http://h").url("/v1/messages", Some("beta=true")), "http://h/v1/messages?beta=true");
    assert_eq!(at("http://h/v1").url("/v1beta/x", None), "http://h/v1/v1beta/x");
}

#[test]
fn patterns_take_stars_for_any_letters() {
    for (pattern, name, fits) in [
        ("a*", "abc", true),
        ("a*c", "abc", true),
        ("a*c", "abcd", false),
        ("a*c", "acbc", true),
        ("*", "", true),
        ("abc", "abcd", false),
        ("*b*", "abc", true),
        ("a*a", "a", false),
    ] {
        assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
    }
}
