//! Reading settings, and the page and the manifest that list them.
use super::*;

#[test]
fn wrong_settings_take_their_defaults_with_a_remark() {
    let (settings, remarks) = Settings::read(&json::json!({
        "user_messages_tokens": 3, "user_messages_share": 2, "tail_tokens": "many", "prepare": 1, "prompt": ["x"],
        "tool_output_tokens": 0, "auto_compact_tokens": 60_000, "compact_prompt": "x"
    }));
    let wanted = Settings { tool_output_tokens: 0, auto_compact_tokens: 60_000, ..Settings::default() };
    assert_eq!(settings, wanted);
    let mut keys: Vec<&str> = remarks.iter().map(|remark| remark.key.as_str()).collect();
    keys.sort_unstable();
    let wanted = ["compact_prompt", "prepare", "prompt", "tail_tokens", "user_messages_share", "user_messages_tokens"];
    assert_eq!(keys, wanted);
    assert_eq!(Settings::read(&json::Value::Null), (Settings::default(), vec![]));
    assert_eq!(Settings::read(&json::json!([1])), (Settings::default(), vec![]));
}

#[test]
fn a_written_setting_wins_over_as_original_wherever_it_stands() {
    for text in [
        r#"{"as_original": true, "user_messages_tokens": 64000}"#,
        r#"{"user_messages_tokens": 64000, "as_original": true}"#,
    ] {
        let (settings, remarks) = Settings::read(&json::from_str(text).unwrap());
        assert_eq!(settings, Settings { user_messages_tokens: 64_000, ..Settings::original() });
        assert_eq!(remarks, vec![]);
    }
}

/// What a default that is written in the table reads as.
fn with_defaults(of: impl Fn(&Key) -> &'static str) -> Settings {
    let mut members = json::Map::new();
    for key in KEYS.iter().filter(|key| of(key) != "none") {
        members.insert(key.name.to_string(), json::from_str(of(key)).unwrap());
    }
    let (settings, remarks) = Settings::read(&json::Value::Object(members));
    assert_eq!(remarks, vec![]);
    settings
}

#[test]
fn the_table_states_the_defaults_that_are_used() {
    assert_eq!(with_defaults(|key| key.default), Settings::default());
    assert_eq!(with_defaults(|key| key.original), Settings::original());
}

#[test]
fn the_page_and_the_manifest_list_every_setting_with_its_defaults() {
    let page = include_str!("../../../../plugins/context_engine/codex/README.md");
    let manifest = include_str!("../../../../plugins/context_engine/codex/plugin.yaml");
    for key in KEYS {
        let start = format!("| `{}` | {} | {} |", key.name, key.default, key.original);
        assert!(page.lines().any(|line| line.starts_with(&start)), "no row {start}");
        let entry = format!("\n  {}:\n", key.name);
        let (_, rest) = manifest.split_once(&entry).unwrap_or_else(|| panic!("{} is not in the manifest", key.name));
        let rest = rest.split("\n  ").filter(|line| line.starts_with("  ")).take(5).collect::<Vec<_>>().join("\n");
        match key.kind {
            Kind::Count { least, most } => {
                assert!(rest.contains("minimum: 0") && rest.contains(&format!("maximum: {most}")), "{rest}");
                assert!(page.contains(&format!("{least} to {most}")), "{}", key.name);
            }
            Kind::Share { least, most } => assert!(page.contains(&format!("{least} to {most}")), "{}", key.name),
            Kind::Flag | Kind::Text => {}
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 6).count();
    assert_eq!(rows, KEYS.len(), "a row that no setting stands behind");
}
