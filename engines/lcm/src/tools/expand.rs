//! `lcm_expand`: what a summary stands for, a message whole, a range of messages, or the rows of a map.
//!
//! Texts come with the arguments of tool calls. An answer is bounded; what is left comes with the offsets it gives.

use super::args::{self, Scope, add};
use super::ids::{self, Bare, Id};
use super::{Desk, Found, describe, grep, map, time};
use engine_api::json::{Value, json};
use engine_api::{MessageId, NodeId, RecallHit, RecallReply, RecallRequest};

/// Tokens of an answer where none are asked for, and at most; hermes-lcm has the same default.
const TOKENS_DEFAULT: u64 = 4_000;
const TOKENS_MAX: u64 = 16_000;
/// Bytes that stand for a token when an answer is filled.
const BYTES_PER_TOKEN: u64 = 4;
/// Bytes of an answer's texts at most: with the JSON around them they stay under 64,000 characters.
const BYTES_MAX: u64 = 48_000;
/// Sources of one answer at most.
const SOURCES_MAX: u64 = 200;
/// Summaries of one call; what each gives shares the answer.
const NODES_MAX: usize = 16;

/// Names of the argument that says what to expand.
const NODES: [&str; 6] = ["node_id", "summary_id", "summaryIds", "node_ids", "nodeId", "summaryId"];
const MESSAGES: [&str; 4] = ["store_id", "store_ids", "message_id", "externalized_ref"];
const ANY: [&str; 3] = ["id", "job", "handle"];

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, arguments: &Value) -> Found {
    let scope = Scope::read(arguments)?;
    let sources = [
        args::first(arguments, &NODES).map(|found| (found, Bare::Node)),
        args::first(arguments, &MESSAGES).map(|found| (found, Bare::Message)),
        args::first(arguments, &ANY).map(|found| (found, Bare::Node)),
    ];
    let given: Vec<_> = sources.into_iter().flatten().collect();
    let ((name, value), bare) = match given.as_slice() {
        [one] => *one,
        [] => {
            if args::first(arguments, &["query"]).is_some() {
                return super::query::evidence_only(desk, arguments);
            }
            return Err("node_id, externalized_ref, or store_id is required".to_string());
        }
        several => {
            let names: Vec<&str> = several.iter().map(|((name, _), _)| *name).collect();
            return Err(format!(
                "Provide only one of node_id, externalized_ref, or store_id (got {})",
                names.join(", ")
            ));
        }
    };
    let page = Page::read(arguments)?;
    let mut found = ids::list(name, value, bare)?;
    if found.len() == 1 {
        return match found.remove(0) {
            Id::Node(node) => expand_node(desk, node, &scope.session, &page),
            Id::Message(message, range) => expand_message(desk, message, range, &scope.session, &page),
            Id::Messages(from, to) => expand_list(desk, &[(from, to)], &scope.session, &page),
            Id::Job(job) => map::rows(desk, &job, page.source_offset, page.source_limit),
        };
    }
    if found.iter().all(|id| matches!(id, Id::Node(_))) {
        let nodes: Vec<u64> =
            found.iter().filter_map(|id| if let Id::Node(node) = id { Some(*node) } else { None }).collect();
        return expand_nodes(desk, &nodes, &scope.session, &page);
    }
    let mut ranges = Vec::with_capacity(found.len());
    for id in found {
        match id {
            Id::Message(message, _) => ranges.push((message, message)),
            Id::Messages(from, to) => ranges.push((from, to)),
            _ => return Err(format!("{name} must name messages only, or summaries only")),
        }
    }
    expand_list(desk, &ranges, &scope.session, &page)
}

/// Which part of the sources is wanted, and how much of it.
#[derive(Debug, Clone, Copy)]
struct Page {
    bytes_max: u64,
    source_offset: u64,
    source_limit: u64,
    content_offset: u64,
    is_raw: bool,
    is_direct: bool,
    has_refs: bool,
    tokens: args::Number,
}

impl Page {
    fn read(arguments: &Value) -> Result<Page, String> {
        let tokens = args::positive(arguments, &["max_tokens", "tokenCap", "maxTokens"], TOKENS_DEFAULT, TOKENS_MAX)?;
        let limit = args::positive(arguments, &["source_limit", "limit"], SOURCES_MAX, SOURCES_MAX)?;
        let cursor = grep::cursor(arguments)?;
        let direct = args::is_set(arguments, &["direct"], false)?;
        // lossless-claw leaves messages out unless they are asked for.
        let direct =
            direct || args::first(arguments, &["includeMessages"]).is_some_and(|(_, is)| *is == Value::Bool(false));
        Ok(Page {
            bytes_max: (tokens.value * BYTES_PER_TOKEN).min(BYTES_MAX),
            source_offset: args::whole(arguments, &["source_offset"], cursor)?,
            source_limit: limit.value,
            content_offset: args::whole(arguments, &["content_offset"], 0)?,
            is_raw: args::is_set(arguments, &["raw"], false)?,
            is_direct: direct,
            has_refs: args::is_set(arguments, &["include_exact_ref"], false)?,
            tokens,
        })
    }
}

/// Sources put into an answer until it is full.
struct Filling {
    entries: Vec<Value>,
    bytes_left: u64,
    /// Where the next answer begins: the source, and the place in its text.
    next: Option<(u64, u64)>,
}

impl Filling {
    fn new(page: &Page) -> Filling {
        Filling { entries: Vec::new(), bytes_left: page.bytes_max, next: None }
    }
    /// Puts a source in; returns whether there is room for another.
    fn push(&mut self, hit: &RecallHit, index: u64, from: u64, has_ref: bool) -> bool {
        let text = &hit.text;
        let skip = usize::try_from(from.saturating_sub(hit.offset)).unwrap_or(usize::MAX);
        let skip = text.floor_char_boundary(skip);
        let rest = text.get(skip..).unwrap_or_default();
        let end = rest.floor_char_boundary(usize::try_from(self.bytes_left).unwrap_or(usize::MAX));
        let shown = rest.get(..end).unwrap_or_default();
        let whole = hit.text_bytes.max(hit.offset + text.len() as u64);
        let at = hit.offset + skip as u64;
        let next = at + shown.len() as u64;
        let mut entry = if hit.message.0 == 0 {
            json!({ "node_id": hit.node.0, "source_index": index, "depth": format!("d{}", hit.depth), "summary": shown })
        } else {
            json!({
                "store_id": hit.message.0, "source_index": index, "role": grep::role_word(hit.role), "content": shown,
                "timestamp": time::written(hit.at_ms)
            })
        };
        if !hit.tool.is_empty() {
            add(&mut entry, "tool_name", hit.tool.as_str());
        }
        add(&mut entry, "content_chars", whole);
        add(&mut entry, "content_offset", at);
        add(&mut entry, "content_returned_chars", shown.len());
        add(&mut entry, "content_truncated", next < whole);
        if next < whole {
            add(&mut entry, "next_content_offset", next);
            self.next = Some((index, next));
        }
        if has_ref && hit.message.0 != 0 {
            add(&mut entry, "exact_ref", format!("lcm:{}:{at}-{next}", hit.message.0));
        }
        self.bytes_left = self.bytes_left.saturating_sub(shown.len() as u64 + 160);
        self.entries.push(entry);
        self.next.is_none() && self.bytes_left > 160
    }
}

fn pagination(filling: &Filling, page: &Page, total: u64) -> Value {
    let returned = filling.entries.len() as u64;
    let after = page.source_offset + returned;
    let (next_source, next_content) = match filling.next {
        Some((index, offset)) => (Some(index), Some(offset)),
        None if after < total => (Some(after), None),
        None => (None, None),
    };
    json!({
        "source_offset": page.source_offset,
        "content_offset": page.content_offset,
        "source_limit": page.source_limit,
        "returned_sources": returned,
        "total_sources": total,
        "next_source_offset": next_source,
        "next_content_offset": next_content,
        "has_more": next_source.is_some(),
        "remaining_sources": next_source.map_or(0, |next| total.saturating_sub(next)),
    })
}

fn fetch_node(desk: &Desk<'_>, node: u64, session: &str, page: &Page, offset: u64) -> Result<RecallReply, String> {
    desk.recall(&RecallRequest::Expand {
        node: NodeId(node),
        session: session.to_string(),
        direct: page.is_direct,
        offset,
        limit: page.source_limit,
    })
    .map_err(|why| format!("Node {node} not found in {}: {why}", describe::place(session)))
}

fn expand_node(desk: &Desk<'_>, node: u64, session: &str, page: &Page) -> Found {
    let reply = fetch_node(desk, node, session, page, page.source_offset)?;
    let described = desk.recall(&RecallRequest::Describe { node: NodeId(node), session: session.to_string() }).ok();
    let depth = described.and_then(|reply| reply.node.get("depth").cloned()).unwrap_or(Value::Null);
    let mut filling = Filling::new(page);
    let mut from = page.content_offset;
    for (index, hit) in (page.source_offset..).zip(&reply.hits) {
        let has_room = filling.push(hit, index, from, page.has_refs);
        from = 0;
        if !has_room {
            break;
        }
    }
    let total = reply.total.max(page.source_offset + reply.hits.len() as u64);
    let mut answer = json!({
        "node_id": node,
        "depth": depth,
        "source_type": if page.is_direct && reply.hits.iter().any(|hit| hit.message.0 == 0) { "nodes" } else { "messages" },
        "expanded": filling.entries,
        "pagination": pagination(&filling, page, total),
    });
    args::add_clamped(&mut answer, "max_tokens", page.tokens);
    Ok(answer)
}

/// Several summaries, each with its share of the answer.
fn expand_nodes(desk: &Desk<'_>, nodes: &[u64], session: &str, page: &Page) -> Found {
    if nodes.len() > NODES_MAX {
        return Err(format!("at most {NODES_MAX} summaries can be expanded in one call"));
    }
    let share = Page { bytes_max: page.bytes_max / nodes.len().max(1) as u64, ..*page };
    let mut expansions = Vec::new();
    for node in nodes {
        expansions.push(
            expand_node(desk, *node, session, &share).unwrap_or_else(|why| json!({ "node_id": node, "error": why })),
        );
    }
    Ok(json!({ "node_ids": nodes, "expansions": expansions }))
}

fn fetch(
    desk: &Desk<'_>,
    message: u64,
    session: &str,
    is_raw: bool,
    offset: u64,
    limit: u64,
) -> Result<RecallHit, String> {
    let request =
        RecallRequest::Get { message: MessageId(message), session: session.to_string(), raw: is_raw, offset, limit };
    let reply = desk.recall(&request).map_err(|why| format!("Message store_id {message} not found: {why}"))?;
    reply.hits.into_iter().next().ok_or_else(|| format!("Message store_id {message} not found"))
}

fn expand_message(desk: &Desk<'_>, message: u64, range: Option<(u64, u64)>, session: &str, page: &Page) -> Found {
    // An exact reference names the bytes it wants.
    let (from, bytes) = match range {
        Some((start, end)) if page.content_offset == 0 => (start, (end - start).clamp(1, page.bytes_max)),
        _ => (page.content_offset, page.bytes_max),
    };
    let hit = fetch(desk, message, session, page.is_raw, from, bytes)?;
    let mut filling = Filling { bytes_left: bytes, ..Filling::new(page) };
    filling.push(&hit, 0, from, page.has_refs);
    let mut answer = filling.entries.into_iter().next().unwrap_or_default();
    add(&mut answer, "session_id", if session.is_empty() { desk.session_id } else { session });
    add(&mut answer, "has_more", filling.next.is_some());
    if hit.node.0 != 0 {
        add(&mut answer, "covered_by", hit.node.0);
    }
    args::add_clamped(&mut answer, "max_tokens", page.tokens);
    Ok(answer)
}

/// Messages by their numbers; those of a range that are not there are passed over.
fn expand_list(desk: &Desk<'_>, ranges: &[(u64, u64)], session: &str, page: &Page) -> Found {
    let total = ranges.iter().fold(0u64, |sum, (from, to)| sum.saturating_add((to - from).saturating_add(1)));
    let mut filling = Filling::new(page);
    let mut index = 0u64;
    let mut asked = 0u64;
    let mut missing = 0u64;
    let mut from = page.content_offset;
    let mut next = None;
    'all: for &(first, last) in ranges {
        let length = (last - first).saturating_add(1);
        let skip = page.source_offset.saturating_sub(index).min(length);
        index = index.saturating_add(skip);
        for message in first.saturating_add(skip)..=last {
            if skip == length {
                break;
            }
            if asked >= page.source_limit {
                next = Some(index);
                break 'all;
            }
            asked += 1;
            match fetch(desk, message, session, page.is_raw, from, page.bytes_max) {
                Err(_) => missing += 1,
                Ok(hit) => {
                    let has_room = filling.push(&hit, index, from, page.has_refs);
                    if !has_room {
                        next = filling.next.map(|(at, _)| at).or((index + 1 < total).then_some(index + 1));
                        break 'all;
                    }
                }
            }
            from = 0;
            index += 1;
        }
    }
    if filling.entries.is_empty() && next.is_none() {
        let (first, last) = ranges.first().copied().unwrap_or_default();
        return Err(format!("no message from {first} to {last} found in {}", describe::place(session)));
    }
    let returned = filling.entries.len();
    let mut answer = json!({ "expanded": filling.entries });
    add(
        &mut answer,
        "pagination",
        json!({
            "source_offset": page.source_offset, "total_sources": total,
            "returned_sources": returned,
            "next_source_offset": next, "next_content_offset": filling.next.map(|(_, offset)| offset),
            "has_more": next.is_some(),
        }),
    );
    if missing > 0 {
        add(&mut answer, "not_found", missing);
    }
    Ok(answer)
}
