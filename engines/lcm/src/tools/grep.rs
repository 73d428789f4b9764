//! `lcm_grep`: finds messages and summaries by words, phrases, regular expressions or characters.

use super::args::{self, Number, Scope, add, add_clamped};
use super::ids::{self, Bare, Id};
use super::{Desk, Found, time};
use engine_api::json::{Value, json};
use engine_api::{
    NodeId, RecallHit, RecallReply, RecallRequest, RecallSearch, Role, SearchKind, SearchMode, SearchSort,
};
use engine_kit::text::{clip, one_line};
use std::collections::{BTreeMap, HashMap};

pub(super) const LIMIT_DEFAULT: u64 = 10;
/// lossless-claw gives 50 where hermes-lcm gives 10.
const LIMIT_DEFAULT_OPENCLAW: u64 = 50;
pub(super) const LIMIT_MAX: u64 = 200;
/// Characters of a snippet; hermes-lcm has the same for summaries, and 200 of them stay within its 64,000.
pub(super) const SNIPPET_CHARS: usize = 300;
/// A longer query is no query.
const QUERY_CHARS_MAX: usize = 1_000;
pub(super) const MODES: [&str; 9] =
    ["auto", "full_text", "words", "phrase", "regex", "substring", "verbatim", "semantic", "hybrid"];
pub(super) const SORTS: [&str; 5] = ["relevance", "recency", "newest", "oldest", "hybrid"];
pub(super) const ROLES: [&str; 5] = ["system", "user", "assistant", "tool", "unknown"];
const SCOPES: [&str; 4] = ["messages", "summaries", "both", "files"];
const CONTENT_SCOPES: [&str; 3] = ["history", "externalized", "both"];

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, arguments: &Value) -> Found {
    let call = Call::read(arguments)?;
    let mut reply = desk.recall(&RecallRequest::search(call.search.clone()))?;
    reply.hits.truncate(usize::try_from(call.limit.value).unwrap_or(usize::MAX));
    let mut depths = HashMap::new();
    let results: Vec<Value> = reply.hits.iter().map(|hit| result(desk, hit, &mut depths)).collect();
    let returned = results.len() as u64;
    let total = reply.total.max(call.search.offset + returned);
    let mut answer = json!({
        "query": one_line(&call.search.pattern, QUERY_CHARS_MAX),
        "mode": call.mode,
        "sort": call.sort,
        "session_scope": call.scope.as_word(),
        "limit": call.limit.value,
        "total_results": total,
        "total_matches": if reply.total_is_least { json!(format!(">={total}")) } else { json!(total) },
        "scanned": reply.scanned,
        "coverage": if reply.not_covered.is_empty() { "full" } else { "bounded" },
    });
    if !reply.not_covered.is_empty() {
        add(&mut answer, "not_covered", reply.not_covered.as_str());
    }
    match call.is_grouped {
        true => add(&mut answer, "groups", grouped(desk, &reply, results, &mut depths)),
        false => add(&mut answer, "results", results),
    }
    let next = call.search.offset + returned;
    if returned > 0 && (reply.has_more || next < total) {
        add(&mut answer, "next_cursor", format!("o{next}"));
    }
    add_clamped(&mut answer, "limit", call.limit);
    for note in &call.notes {
        add(&mut answer, "mode_note", *note);
    }
    let filtered = call.search.role.is_some() || call.search.since_ms.is_some() || call.search.before_ms.is_some();
    if filtered && !reply.hits.iter().any(|hit| hit.message.0 == 0) {
        add(&mut answer, "summary_results_omitted", true);
    }
    if returned == 0 {
        let place = match (call.scope.is_all, call.search.compacted_only) {
            (true, _) => "all sessions".to_string(),
            (_, true) => "the compacted part of this session".to_string(),
            _ if call.scope.session.is_empty() => "this session".to_string(),
            _ => format!("the session {}", clip(&call.scope.session, 80)),
        };
        let said =
            if call.search.offset == 0 { "nothing matches; try fewer or other words" } else { "no more matches" };
        add(&mut answer, "note", format!("searched {place}: {said}"));
        add(&mut answer, "nearest", reply.nearest.clone());
    }
    Ok(answer)
}

/// A call as it was understood.
struct Call {
    search: RecallSearch,
    mode: &'static str,
    sort: &'static str,
    scope: Scope,
    limit: Number,
    is_grouped: bool,
    notes: Vec<&'static str>,
}

impl Call {
    fn read(arguments: &Value) -> Result<Call, String> {
        // `pattern` is the name of the same argument in lossless-claw's dialect.
        let query = match args::first(arguments, &["query", "pattern"]) {
            Some((_, Value::String(query))) if !query.trim().is_empty() => query.as_str(),
            _ => return Err("No query provided".to_string()),
        };
        if query.chars().nth(QUERY_CHARS_MAX).is_some() {
            return Err(format!("query must have at most {QUERY_CHARS_MAX} characters"));
        }
        let default = if args::is_openclaw(arguments) { LIMIT_DEFAULT_OPENCLAW } else { LIMIT_DEFAULT };
        let limit = args::positive(arguments, &["limit", "max_results"], default, LIMIT_MAX)?;
        let scope = Scope::read(arguments)?;
        let mode = args::word(arguments, &["mode"], &MODES)?.unwrap_or("auto");
        let sort = args::word(arguments, &["sort"], &SORTS)?.unwrap_or("relevance");
        let mut notes = Vec::new();
        let mut search = RecallSearch::new(query);
        search.mode = Some(match mode {
            "full_text" | "words" => SearchMode::Words,
            "phrase" => SearchMode::Phrase,
            "regex" => SearchMode::Regex,
            "substring" | "verbatim" => SearchMode::Substring,
            "semantic" | "hybrid" => {
                notes.push("no index of meanings here: words were searched, ranked by how many and how rare they are");
                SearchMode::Words
            }
            _ => SearchMode::Auto,
        });
        search.regex = mode == "regex";
        search.sort = Some(match sort {
            "recency" | "newest" => SearchSort::Newest,
            "oldest" => SearchSort::Oldest,
            _ => SearchSort::Relevance,
        });
        search.kind = Some(match args::word(arguments, &["scope"], &SCOPES)? {
            Some("messages" | "files") => SearchKind::Messages,
            Some("summaries") => SearchKind::Summaries,
            _ => SearchKind::Both,
        });
        if args::word(arguments, &["content_scope"], &CONTENT_SCOPES)?.is_some_and(|scope| scope != "history")
            || args::first(arguments, &["externalized_refs", "fileIds"]).is_some()
        {
            notes.push("large results are kept with the other messages, so history holds them");
        }
        search.role = match args::word(arguments, &["role"], &ROLES)? {
            Some("system") => Some(Role::System),
            Some("user") => Some(Role::User),
            Some("assistant") => Some(Role::Assistant),
            Some("tool") => Some(Role::Tool),
            Some("unknown") => Some(Role::Other),
            _ => None,
        };
        let tool = args::text(arguments, &["tool", "tool_name"])?;
        search.tool = (!tool.is_empty()).then(|| tool.to_string());
        for (names, slot) in
            [(&["time_from", "since"], &mut search.since_ms), (&["time_to", "before"], &mut search.before_ms)]
        {
            if let Some((name, value)) = args::first(arguments, names) {
                *slot = Some(time::read(name, value)?);
            }
        }
        if let (Some(since), Some(before)) = (search.since_ms, search.before_ms)
            && since >= before
        {
            return Err("since must be earlier than before".to_string());
        }
        if let Some((name, value)) = args::first(arguments, &["summary_id", "node_id", "within"]) {
            match ids::read(name, value, Bare::Node)? {
                Id::Node(node) => search.node = Some(NodeId(node)),
                _ => return Err(format!("{name} must name a summary")),
            }
        }
        // Where another session is searched, nothing of it is in view.
        let is_here = scope.session.is_empty() && !scope.is_all;
        search.compacted_only = args::is_set(arguments, &["compacted_only"], false)? && is_here;
        search.session.clone_from(&scope.session);
        search.all_sessions = scope.is_all;
        search.limit = limit.value;
        search.offset = cursor(arguments)?;
        let is_grouped = match args::first(arguments, &["group_by", "groupBy"]) {
            None => false,
            Some((_, Value::String(word))) if word == "summary" || word == "node" => true,
            Some((_, Value::String(word))) if word == "none" => false,
            Some((name, _)) => return Err(format!("{name} must be one of: summary, none")),
        };
        Ok(Call { search, mode, sort, scope, limit, is_grouped, notes })
    }
}

/// Reads how many hits to pass over: `o20`, as a cursor says, or a number.
pub(super) fn cursor(arguments: &Value) -> Result<u64, String> {
    match args::first(arguments, &["cursor", "offset"]) {
        None => Ok(0),
        Some((name, value)) => {
            let digits = value.as_str().and_then(|text| text.trim().trim_start_matches('o').parse::<u64>().ok());
            let number = value.as_u64().or(digits).filter(|number| *number < 1 << 40);
            number.ok_or_else(|| format!("{name} must be what next_cursor gave"))
        }
    }
}

pub(super) fn role_word(role: Option<Role>) -> &'static str {
    match role {
        None | Some(Role::Other) => "unknown",
        Some(role) => role.as_str(),
    }
}

/// A hit in hermes-lcm's shape.
pub(super) fn result(desk: &Desk<'_>, hit: &RecallHit, depths: &mut HashMap<u64, String>) -> Value {
    let snippet = clip(hit.text.trim(), SNIPPET_CHARS);
    let is_here = hit.session.is_empty() || hit.session == desk.session_id;
    let session = if hit.session.is_empty() { desk.session_id } else { &hit.session };
    let mut result = if hit.message.0 == 0 {
        let depth = depth_of(desk, hit, depths);
        json!({
            "type": "summary",
            "depth": depth,
            "node_id": hit.node.0,
            "session_id": session,
            "snippet": snippet,
            "token_count": hit.tokens,
            "expand_hint": expand_hint("node_id", hit.node.0, session, is_here),
            "from_current_session": is_here,
        })
    } else {
        let mut result = json!({
            "type": "message",
            "depth": "raw",
            "store_id": hit.message.0,
            "session_id": session,
            "role": role_word(hit.role),
            "timestamp": time::written(hit.at_ms),
            "snippet": snippet,
            "token_count": hit.tokens,
            "expand_hint": expand_hint("store_id", hit.message.0, session, is_here),
            "from_current_session": is_here,
        });
        if !hit.tool.is_empty() {
            add(&mut result, "tool_name", hit.tool.as_str());
        }
        if hit.node.0 != 0 {
            add(&mut result, "covered_by", hit.node.0);
        }
        if hit.live {
            add(&mut result, "in_view", true);
        }
        result
    };
    if !hit.why.is_empty() {
        add(&mut result, "score", (hit.score * 1_000.0).round() / 1_000.0);
        add(&mut result, "why", clip(&hit.why, 120));
    }
    result
}

/// The call that returns the whole.
pub(super) fn expand_hint(key: &str, id: u64, session: &str, is_here: bool) -> String {
    if is_here {
        format!("lcm_expand({key}={id})")
    } else {
        format!("lcm_expand({key}={id}, session_id={})", json!(clip(session, 200)))
    }
}

fn depth_of(desk: &Desk<'_>, hit: &RecallHit, depths: &mut HashMap<u64, String>) -> String {
    if hit.depth > 0 {
        return format!("d{}", hit.depth);
    }
    if !hit.session.is_empty() && hit.session != desk.session_id {
        return "d0".to_string();
    }
    depths.entry(hit.node.0).or_insert_with(|| node_depth(desk, hit.node)).clone()
}

fn node_depth(desk: &Desk<'_>, node: NodeId) -> String {
    let reply = desk.services.recall(&RecallRequest::describe(node)).ok();
    let depth = reply.and_then(|reply| reply.node.get("depth").and_then(Value::as_u64));
    depth.map_or_else(|| "summary".to_string(), |depth| format!("d{depth}"))
}

/// Hits by the summary that covers them; those in view stand last.
fn grouped(desk: &Desk<'_>, reply: &RecallReply, results: Vec<Value>, depths: &mut HashMap<u64, String>) -> Vec<Value> {
    let mut groups: BTreeMap<(bool, usize), (String, u64, Vec<Value>)> = BTreeMap::new();
    let mut order: HashMap<(String, u64), usize> = HashMap::new();
    for (hit, result) in reply.hits.iter().zip(results) {
        let key = (hit.session.clone(), hit.node.0);
        let next = order.len();
        let at = *order.entry(key).or_insert(next);
        let group =
            groups.entry((hit.node.0 == 0, at)).or_insert_with(|| (hit.session.clone(), hit.node.0, Vec::new()));
        group.2.push(result);
    }
    groups
        .into_values()
        .map(|(session, node, results)| {
            if node == 0 {
                return json!({ "node_id": null, "covered_by": "no summary: in view", "results": results });
            }
            let is_here = session.is_empty() || session == desk.session_id;
            let depth = if is_here {
                depths.entry(node).or_insert_with(|| node_depth(desk, NodeId(node))).clone()
            } else {
                "summary".to_string()
            };
            json!({
                "node_id": node, "depth": depth, "expand_hint": expand_hint("node_id", node, &session, is_here),
                "results": results
            })
        })
        .collect()
}
