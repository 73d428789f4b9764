//! What a new session takes over from the one before: its deepest summaries, as a note that names where they come from.

use engine_api::{HostServices, NodeId, RecallRequest, json};
use engine_kit::text::fit;
use serde::{Deserialize, Serialize};

/// Summaries that are carried at most; the deepest first.
const CARRIED_MAX: usize = 16;
/// Tokens of a carried summary, and of all.
const EACH_TOKENS_MAX: u64 = 2_000;
const ALL_TOKENS_MAX: u64 = 8_000;
/// The note takes this part of the window at most.
pub(crate) const WINDOW_PART: u64 = 16;

/// A carried summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Carried {
    pub(crate) session: String,
    pub(crate) node: u64,
    pub(crate) depth: u32,
    pub(crate) text: String,
}

/// Takes summaries of at least this depth from a session. Nothing is deleted there.
pub(crate) fn take(services: &dyn HostServices, session: &str, depth_min: u32) -> Result<Vec<Carried>, String> {
    let request = RecallRequest::Overview { session: session.to_string() };
    let overview = services.recall(&request).map_err(|error| error.message)?;
    let mut nodes = nodes_of(&overview.node, depth_min);
    nodes.sort_by_key(|(node, depth)| (std::cmp::Reverse(*depth), std::cmp::Reverse(*node)));
    let mut carried: Vec<Carried> = Vec::new();
    let mut left = ALL_TOKENS_MAX;
    for (node, depth) in nodes.into_iter().take(CARRIED_MAX) {
        let request = RecallRequest::Describe { node: NodeId(node), session: session.to_string() };
        let Ok(reply) = services.recall(&request) else { continue };
        let text = reply.node.get("text").and_then(json::Value::as_str).unwrap_or_default();
        let text = fit(text, EACH_TOKENS_MAX.min(left), &|text| services.count_tokens(text));
        if text.is_empty() {
            continue;
        }
        left = left.saturating_sub(services.count_tokens(&text));
        carried.push(Carried { session: session.to_string(), node, depth, text });
    }
    // Oldest first reads as it happened.
    carried.sort_by_key(|carried| carried.node);
    Ok(carried)
}

/// Ids and depths of the live summaries that an overview lists, whichever of the usual shapes it has.
pub(crate) fn nodes_of(overview: &json::Value, depth_min: u32) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    let mut add = |entry: &json::Value, depth: Option<u64>| {
        let id = ["node", "node_id", "id"].iter().find_map(|key| entry.get(key).and_then(json::Value::as_u64));
        let id = id.or_else(|| entry.as_u64());
        let depth = entry.get("depth").and_then(json::Value::as_u64).or(depth).unwrap_or(0);
        let is_replaced = entry.get("live").and_then(json::Value::as_bool) == Some(false);
        if let (Some(id), Ok(depth), false) = (id, u32::try_from(depth), is_replaced)
            && depth >= depth_min
        {
            found.push((id, depth));
        }
    };
    for key in ["nodes", "summaries"] {
        overview.get(key).and_then(json::Value::as_array).into_iter().flatten().for_each(|entry| add(entry, None));
    }
    if let Some(depths) = overview.get("depths").and_then(json::Value::as_object) {
        for (name, of_depth) in depths {
            let depth = name.trim_start_matches('d').parse().ok();
            let list = of_depth.get("nodes").unwrap_or(of_depth).as_array();
            list.into_iter().flatten().for_each(|entry| add(entry, depth));
        }
    }
    if let Some(depths) = overview.get("depths").and_then(json::Value::as_array) {
        for of_depth in depths {
            let depth = of_depth.get("depth").and_then(json::Value::as_u64);
            let list = of_depth.get("nodes").and_then(json::Value::as_array);
            list.into_iter().flatten().for_each(|entry| add(entry, depth));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The note that stands in the new session, in at most so many tokens; empty where not one summary fits.
pub(crate) fn note(carried: &[Carried], tokens_max: u64, count: &dyn Fn(&str) -> u64) -> String {
    let mut out = "What earlier sessions left, for reference:".to_string();
    let mut is_empty = true;
    for entry in carried {
        let call = json::json!({ "node_id": entry.node, "session_id": entry.session });
        let left = tokens_max.saturating_sub(count(&out)).saturating_sub(40);
        let text = fit(&entry.text, left, count);
        if text.is_empty() {
            break;
        }
        out.push_str(&format!("\n\n(d{}, whole: lcm_expand {call})\n{text}", entry.depth));
        is_empty = false;
    }
    if is_empty { String::new() } else { out }
}
