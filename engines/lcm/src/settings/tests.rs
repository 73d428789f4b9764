//! Reading settings, and the page and the manifest that list them.
use super::*;

#[test]
fn wrong_settings_take_their_defaults_with_a_remark() {
    let (settings, remarks) = Settings::read(&json::json!({
        "fresh_tail_tokens": 0, "fresh_tail_messages_min": 0, "leaf_chunk_tokens": "many", "leaf_fan_in": 12, "fanin": 3,
        "context_threshold": 2, "tools": { "dialect": "klingon", "x": 1 }, "ignore_message_patterns": ["("],
        "new_session_retain_depth": "deep", "low_water": null
    }));
    assert_eq!(settings, Settings { leaf_fan_in: 12, ..Settings::default() });
    let keys: Vec<&str> = remarks.iter().map(|remark| remark.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "fresh_tail_messages_min",
            "leaf_chunk_tokens",
            "fanin",
            "context_threshold",
            "tools.dialect",
            "tools.x",
            "ignore_message_patterns",
            "new_session_retain_depth"
        ]
    );
    assert_eq!(Settings::read(&json::Value::Null), (Settings::default(), vec![]));
    assert_eq!(Settings::read(&json::json!([1])), (Settings::default(), vec![]));
}

#[test]
fn the_names_of_peers_mean_the_same() {
    let (settings, remarks) = Settings::read(&json::json!({
        "contextThreshold": 0.35, "freshTailCount": 32, "leafChunkTokens": 20000, "leafMinFanout": 6,
        "condensedMinFanout": 3, "ignoreSessionPatterns": ["cron:**"], "newSessionRetainDepth": -1,
        "stateless_session_patterns": "a,b", "tools": { "dialect": "both" }
    }));
    assert_eq!(remarks, vec![]);
    assert_eq!((settings.context_threshold, settings.fresh_tail_messages_min), (0.35, 32));
    assert_eq!((settings.leaf_fan_in, settings.condensed_fan_in, settings.retain_depth), (6, 3, None));
    assert_eq!((settings.ignored_sessions.len(), settings.read_only_sessions.len()), (1, 2));
    assert_eq!(settings.dialect, Dialect::Both);
    let (settings, _) = Settings::read(&json::json!({ "condensation_fanin": 5 }));
    assert_eq!((settings.leaf_fan_in, settings.condensed_fan_in), (5, 5));
}

#[test]
fn the_page_and_the_manifest_list_every_setting_with_its_default() {
    let page = include_str!("../../../../plugins/context_engine/lcm/README.md");
    let manifest = include_str!("../../../../plugins/context_engine/lcm/plugin.yaml");
    for key in KEYS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", key.name)));
        let row = row.unwrap_or_else(|| panic!("no row for {}", key.name));
        assert!(row.contains(&format!("| {} |", key.default)), "{row}");
        for alias in key.aliases {
            assert!(row.contains(&format!("`{alias}`")), "{row} lacks {alias}");
        }
        if !key.name.contains('.') {
            assert!(manifest.contains(&format!("\n  {}:\n", key.name)), "{} is not in the manifest", key.name);
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5).count();
    assert_eq!(rows, KEYS.len(), "a row that no setting stands behind");
}
