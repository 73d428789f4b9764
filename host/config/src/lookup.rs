//! Finds a setting of a configuration by its dotted path.

use crate::Config;
use serde_json::Value;

/// Most parts a path may have; deeper ones are found nowhere.
const SEGMENTS_MAX: usize = 32;

/// Returns the value at a path, `compression` and `compression.threshold` alike; credentials read `***`.
///
/// Names may hold dots (`compression.model_thresholds.glm-5.2`): the shortest name that leads somewhere is taken.
pub fn get(config: &Config, path: &str) -> Option<Value> {
    let tree = serde_json::to_value(config).ok()?;
    let segments: Vec<&str> = path.split('.').collect();
    if segments.len() > SEGMENTS_MAX {
        return None;
    }
    find(&tree, &segments).cloned()
}

fn find<'v>(value: &'v Value, segments: &[&str]) -> Option<&'v Value> {
    if segments.is_empty() {
        return Some(value);
    }
    let map = value.as_object()?;
    (1..=segments.len()).find_map(|count| {
        let (name, rest) = segments.split_at_checked(count)?;
        find(map.get(&name.join("."))?, rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use serde_json::json;

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "compression: {model_thresholds: {glm-5.2: 0.4, glm-5: 0.3}}\nengines: {lcm: {a.b: {c: 1}, token: t1}}\n\
                    auxiliary: {compression: {api_key: sk-1}}\n";
        let config = parse(text, "f").config;
        let rows = [
            ("compression.threshold", json!(0.5)),
            ("compression.model_thresholds.glm-5.2", json!(0.4)),
            ("compression.model_thresholds", json!({"glm-5": 0.3, "glm-5.2": 0.4})),
            ("engines.lcm.a.b.c", json!(1)),
            ("engines.lcm.token", json!("***")),
            ("auxiliary.compression.api_key", json!("***")),
            ("prompt_caching.cache_ttl", json!("5m")),
            ("model.context_length", Value::Null),
        ];
        for (path, value) in rows {
            assert_eq!(get(&config, path), Some(value), "{path}");
        }
        for path in ["", ".", "compression.", "compression.nothing", "compression.threshold.x", &".".repeat(100_000)] {
            assert_eq!(get(&config, path), None, "{path:.30}");
        }
        assert_eq!(get(&config, "auxiliary.compression").unwrap()["api_key"], json!("***"));
    }
}
