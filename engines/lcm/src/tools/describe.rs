//! `lcm_describe`: the particulars of a session, a summary, a message or a job, without their whole texts.

use super::args::{self, Scope, add};
use super::ids::{self, Bare, Id};
use super::{Desk, Found, grep, map};
use crate::carry::nodes_of;
use engine_api::json::{Value, json};
use engine_api::{MessageId, NodeId, RecallRequest};
use engine_kit::text::clip;
use std::collections::BTreeMap;

/// Summaries listed per depth; hermes-lcm has the same.
const LISTED_MAX: usize = 20;
/// Characters of a summary's text that a description shows.
const TEXT_CHARS: usize = 12_000;
/// Children listed.
const CHILDREN_MAX: usize = 50;

/// Names of the argument that says what to describe.
pub(super) const NAMES: [&str; 8] =
    ["node_id", "id", "externalized_ref", "store_id", "nodeId", "summary_id", "job", "handle"];

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, arguments: &Value) -> Found {
    let scope = Scope::read(arguments)?;
    let Some((name, value)) = args::first(arguments, &NAMES) else { return overview(desk, &scope.session) };
    let bare = if matches!(name, "store_id" | "externalized_ref") { Bare::Message } else { Bare::Node };
    match ids::read(name, value, bare)? {
        Id::Node(node) => describe_node(desk, node, &scope.session),
        Id::Message(message, _) | Id::Messages(message, _) => describe_message(desk, message, &scope.session),
        Id::Job(job) => map::describe(desk, &job),
    }
}

/// The session as a whole.
pub(super) fn overview(desk: &Desk<'_>, session: &str) -> Found {
    let id = if session.is_empty() { desk.session_id } else { session };
    let reply = desk.services.recall(&RecallRequest::Overview { session: session.to_string() });
    let known = match reply {
        Ok(reply) => reply.node,
        Err(_) if session.is_empty() => json!({ "nodes": in_view(desk) }),
        Err(error) => return Err(error.message),
    };
    let mut by_depth: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (node, depth) in nodes_of(&known, 0) {
        by_depth.entry(depth).or_default().push(node);
    }
    let mut depths = json!({});
    for (depth, nodes) in by_depth {
        let is_here = session.is_empty() || session == desk.session_id;
        let listed: Vec<Value> = nodes
            .iter()
            .rev()
            .take(LISTED_MAX)
            .map(|node| json!({ "node_id": node, "expand_hint": grep::expand_hint("node_id", *node, id, is_here) }))
            .collect();
        let mut entry = json!({ "count": nodes.len(), "nodes": listed });
        if nodes.len() > LISTED_MAX {
            add(&mut entry, "not_listed", nodes.len() - LISTED_MAX);
        }
        add(&mut depths, &format!("d{depth}"), entry);
    }
    let messages = ["messages", "message_count", "store_message_count"]
        .iter()
        .find_map(|key| known.get(key).and_then(Value::as_u64));
    let mut answer = json!({
        "session_id": id,
        "store_message_count": messages,
        "messages_in_view": if session.is_empty() { json!(desk.conversation.len()) } else { Value::Null },
        "depths": depths,
    });
    // What a host says beyond that, such as tokens and times, goes along as it is.
    for (key, value) in known.as_object().into_iter().flatten() {
        let is_new = answer.get(key).is_none() && !value.is_array() && !value.is_object();
        if is_new {
            add(&mut answer, key, value.clone());
        }
    }
    Ok(answer)
}

/// The summaries of the conversation, for a host that gives no overview.
fn in_view(desk: &Desk<'_>) -> Vec<Value> {
    let nodes = desk.conversation.iter().filter_map(|message| message.node());
    nodes
        .map(|node| {
            let reply = desk.services.recall(&RecallRequest::describe(node)).ok();
            let depth = reply.and_then(|reply| reply.node.get("depth").and_then(Value::as_u64)).unwrap_or(0);
            json!({ "node": node.0, "depth": depth })
        })
        .collect()
}

fn describe_node(desk: &Desk<'_>, node: u64, session: &str) -> Found {
    let request = RecallRequest::Describe { node: NodeId(node), session: session.to_string() };
    let known =
        desk.recall(&request).map_err(|why| format!("Node {node} not found in {}: {why}", place(session)))?.node;
    if !known.is_object() {
        return Err(format!("Node {node} not found in {}", place(session)));
    }
    let is_here = session.is_empty() || session == desk.session_id;
    let text = known.get("text").and_then(Value::as_str).unwrap_or_default();
    let children: Vec<u64> =
        known.get("nodes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64).collect();
    let messages = known.get("messages").cloned().unwrap_or(Value::Null);
    let tokens = known.get("tokens").and_then(Value::as_u64).unwrap_or_else(|| desk.services.count_tokens(text));
    let is_condensed =
        !children.is_empty() || known.get("depth").and_then(Value::as_u64).is_some_and(|depth| depth > 0);
    let mut answer = json!({
        "node_id": node,
        "session_id": if session.is_empty() { desk.session_id } else { session },
        "depth": known.get("depth"),
        "kind": known.get("kind"),
        "token_count": tokens,
        "source_type": if is_condensed { "nodes" } else { "messages" },
        "num_sources": if is_condensed { json!(children.len()) } else { messages.clone() },
        "messages": messages,
        "first_message": known.get("first_message"),
        "last_message": known.get("last_message"),
        "expand_hint": grep::expand_hint("node_id", node, session, is_here),
        "children": children.iter().take(CHILDREN_MAX).collect::<Vec<_>>(),
        "needs_rewriting": text.contains(crate::write::PENDING),
        "content": clip(text, TEXT_CHARS),
    });
    if children.len() > CHILDREN_MAX {
        add(&mut answer, "children_not_listed", children.len() - CHILDREN_MAX);
    }
    for key in ["source_tokens", "earliest_at", "latest_at", "parents", "model", "live"] {
        if let Some(value) = known.get(key) {
            add(&mut answer, key, value.clone());
        }
    }
    Ok(answer)
}

fn describe_message(desk: &Desk<'_>, message: u64, session: &str) -> Found {
    let request = RecallRequest::Get {
        message: MessageId(message),
        session: session.to_string(),
        raw: false,
        offset: 0,
        limit: grep::SNIPPET_CHARS as u64 * 4,
    };
    let reply = desk.recall(&request).map_err(|why| format!("Message store_id {message} not found: {why}"))?;
    let hit = reply.hits.first().ok_or_else(|| format!("Message store_id {message} not found"))?;
    let is_here = session.is_empty() || session == desk.session_id;
    Ok(json!({
        "store_id": message,
        "role": grep::role_word(hit.role),
        "tool_name": hit.tool,
        "token_count": hit.tokens,
        "content_bytes": hit.text_bytes.max(hit.text.len() as u64),
        "covered_by": if hit.node.0 == 0 { Value::Null } else { json!(hit.node.0) },
        "timestamp": super::time::written(hit.at_ms),
        "preview": clip(hit.text.trim(), grep::SNIPPET_CHARS),
        "expand_hint": grep::expand_hint("store_id", message, session, is_here),
    }))
}

pub(super) fn place(session: &str) -> String {
    if session.is_empty() { "current session".to_string() } else { format!("session {}", clip(session, 80)) }
}
