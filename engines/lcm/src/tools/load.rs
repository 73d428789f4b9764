//! `lcm_load_session`: a session's messages in their order, page by page; without a session, the list of sessions.

use super::args::{self, Scope, add, add_clamped};
use super::{Desk, Found, grep, time};
use engine_api::json::{Value, json};
use engine_api::{MessageId, RecallRequest, Role};

const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 200;
const CHARS_DEFAULT: u64 = 4_000;
const CHARS_MAX: u64 = 20_000;
/// Bytes of all texts of an answer.
const BYTES_MAX: usize = 44_000;

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, arguments: &Value) -> Found {
    let scope = Scope::read(arguments)?;
    let limit = args::positive(arguments, &["limit"], LIMIT_DEFAULT, LIMIT_MAX)?;
    let names_here =
        args::first(arguments, &["session_scope"]).is_some() || args::is_set(arguments, &["current"], false)?;
    if scope.is_all {
        return sessions(desk, arguments, limit);
    }
    if scope.session.is_empty() && !names_here {
        return Err("session_id is required".to_string());
    }
    let chars = args::positive(arguments, &["max_content_chars"], CHARS_DEFAULT, CHARS_MAX)?;
    let after = args::whole(arguments, &["after_store_id"], grep::cursor(arguments)?)?;
    let has_refs = args::is_set(arguments, &["include_exact_ref"], false)?;
    let request = RecallRequest::Load {
        session: scope.session.clone(),
        after: MessageId(after),
        limit: limit.value,
        roles: roles(arguments)?,
    };
    let reply = desk.recall(&request)?;
    let between =
        |names: &[&'static str]| args::first(arguments, names).map(|(name, value)| time::read(name, value)).transpose();
    let (since, before) = (between(&["time_from", "since"])?, between(&["time_to", "before"])?);
    let mut messages: Vec<Value> = Vec::new();
    let mut bytes = 0usize;
    let mut last = after;
    let mut is_full = false;
    for hit in &reply.hits {
        let is_wanted = since.is_none_or(|since| hit.at_ms >= since) && before.is_none_or(|before| hit.at_ms < before);
        if !is_wanted {
            last = hit.message.0;
            continue;
        }
        let most = usize::try_from(chars.value).unwrap_or(usize::MAX);
        let end = hit.text.char_indices().nth(most).map_or(hit.text.len(), |(at, _)| at);
        if bytes + end > BYTES_MAX && !messages.is_empty() {
            is_full = true;
            break;
        }
        let end = hit.text.floor_char_boundary(end.min(BYTES_MAX));
        bytes += end + 200;
        last = hit.message.0;
        let mut entry = json!({
            "store_id": hit.message.0,
            "role": grep::role_word(hit.role),
            "timestamp": time::written(hit.at_ms),
            "content": hit.text.get(..end),
            "content_truncated": (end as u64) < hit.text_bytes.max(hit.text.len() as u64),
        });
        if !hit.tool.is_empty() {
            add(&mut entry, "tool_name", hit.tool.as_str());
        }
        if hit.node.0 != 0 {
            add(&mut entry, "covered_by", hit.node.0);
        }
        if has_refs {
            add(&mut entry, "exact_ref", format!("lcm:{}:0-{end}", hit.message.0));
        }
        messages.push(entry);
    }
    let has_more = is_full || reply.has_more || reply.hits.len() as u64 >= limit.value;
    let mut answer = json!({
        "session_id": if scope.session.is_empty() { desk.session_id } else { &scope.session },
        "limit": limit.value,
        "max_content_chars": chars.value,
        "after_store_id": after,
        "total_messages": reply.total,
        "returned_messages": messages.len(),
        "messages": messages,
        "next_cursor": if has_more { json!(last) } else { Value::Null },
        "has_more": has_more,
    });
    add_clamped(&mut answer, "limit", limit);
    add_clamped(&mut answer, "max_content_chars", chars);
    Ok(answer)
}

fn sessions(desk: &Desk<'_>, arguments: &Value, limit: args::Number) -> Found {
    let offset = grep::cursor(arguments)?;
    let reply = desk.recall(&RecallRequest::Sessions { offset, limit: limit.value })?;
    let listed = reply.node.as_array().map_or(0, Vec::len) as u64;
    let mut answer = json!({ "sessions": reply.node, "total": reply.total.max(offset + listed) });
    if reply.has_more || offset + listed < reply.total {
        add(&mut answer, "next_cursor", format!("o{}", offset + listed));
    }
    Ok(answer)
}

fn roles(arguments: &Value) -> Result<Vec<Role>, String> {
    let Some((name, value)) = args::first(arguments, &["roles", "role"]) else { return Ok(Vec::new()) };
    let words: Vec<&str> = match value {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("{name} must be a list of roles")),
    };
    let role = |word: &str| match word {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        "unknown" => Ok(Role::Other),
        _ => Err(format!("role must be one of: {}", grep::ROLES.join(", "))),
    };
    words.into_iter().take(16).map(role).collect()
}
