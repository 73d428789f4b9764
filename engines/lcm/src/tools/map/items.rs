//! Where a map's items come from: the call itself, lines of JSON, or messages and summaries of this session.

use super::super::args::{self, Scope};
use super::super::ids::{self, Bare, Id};
use super::super::{Desk, grep};
use engine_api::json::{Value, from_str, json};
use engine_api::{MessageId, NodeId, RecallHit, RecallRequest, RecallSearch};
use engine_kit::text::prefix;

/// Bounds of the items: how many, how large one, how large all.
pub(super) const ITEMS_MAX: usize = 5_000;
const ITEM_BYTES_MAX: usize = 200_000;
const ALL_BYTES_MAX: usize = 16 << 20;
/// Messages that a search gives as items.
const FOUND_DEFAULT: u64 = 50;
const FOUND_MAX: u64 = 1_000;
const PAGE: u64 = 200;

/// Reads the items of a call.
pub(super) fn read(desk: &Desk<'_>, arguments: &Value) -> Result<Vec<Value>, String> {
    let given: Vec<_> = super::spec::ITEMS.iter().filter_map(|name| args::first(arguments, &[name])).collect();
    let (name, value) = match given.as_slice() {
        [one] => *one,
        [] => return Err("give items, items_jsonl, query, node_ids or store_ids".to_string()),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "give one of items, items_jsonl, query, node_ids or store_ids (got {})",
                names.join(", ")
            ));
        }
    };
    let scope = Scope::read(arguments)?;
    let items = match (name, value) {
        ("query", _) => found(desk, arguments, &scope)?,
        ("node_ids" | "store_ids", value) => named(desk, name, value, &scope)?,
        (_, Value::Array(list)) => list.clone(),
        (_, Value::String(text)) => lines(text)?,
        _ => return Err(format!("{name} must be a list, or lines of JSON")),
    };
    if items.is_empty() {
        return Err("there are no items".to_string());
    }
    if items.len() > ITEMS_MAX {
        return Err(format!("{} items are given, at most {ITEMS_MAX} are taken", items.len()));
    }
    let mut bytes = 0usize;
    for (at, item) in items.iter().enumerate() {
        let size = item.to_string().len();
        bytes = bytes.saturating_add(size);
        if size > ITEM_BYTES_MAX {
            return Err(format!("item {at} has {size} bytes, at most {ITEM_BYTES_MAX} are taken"));
        }
    }
    if bytes > ALL_BYTES_MAX {
        return Err(format!("the items have {bytes} bytes, at most {ALL_BYTES_MAX} are taken"));
    }
    Ok(items)
}

/// JSON Lines; lines that are no JSON are an error, so that nothing is asked by mistake.
fn lines(text: &str) -> Result<Vec<Value>, String> {
    if text.len() > ALL_BYTES_MAX {
        return Err(format!("the lines have {} bytes, at most {ALL_BYTES_MAX} are taken", text.len()));
    }
    if let Ok(Value::Array(list)) = from_str(text) {
        return Ok(list);
    }
    let mut items = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        items.push(from_str(line).map_err(|error| format!("line {} is no JSON: {error}", at + 1))?);
    }
    Ok(items)
}

fn item_of(hit: &RecallHit) -> Value {
    let text = prefix(&hit.text, ITEM_BYTES_MAX / 2);
    match hit.message.0 {
        0 => json!({ "node_id": hit.node.0, "text": text }),
        message => json!({ "store_id": message, "role": grep::role_word(hit.role), "tool": hit.tool, "text": text }),
    }
}

/// Messages and summaries that a search finds, whole.
fn found(desk: &Desk<'_>, arguments: &Value, scope: &Scope) -> Result<Vec<Value>, String> {
    let query = args::text(arguments, &["query"])?;
    let limit = args::positive(arguments, &["limit", "max_items"], FOUND_DEFAULT, FOUND_MAX)?.value;
    let mut items = Vec::new();
    let mut offset = 0;
    while (items.len() as u64) < limit {
        let mut search = RecallSearch::new(query);
        search.session.clone_from(&scope.session);
        search.all_sessions = scope.is_all;
        search.offset = offset;
        search.limit = (limit - items.len() as u64).min(PAGE);
        let reply = desk.recall(&RecallRequest::search(search))?;
        if reply.hits.is_empty() {
            break;
        }
        offset += reply.hits.len() as u64;
        for hit in &reply.hits {
            let whole = if hit.message.0 == 0 {
                None
            } else {
                let request = RecallRequest::Get {
                    message: hit.message,
                    session: hit.session.clone(),
                    raw: false,
                    offset: 0,
                    limit: (ITEM_BYTES_MAX / 2) as u64,
                };
                desk.recall(&request).ok().and_then(|reply| reply.hits.into_iter().next())
            };
            items.push(item_of(whole.as_ref().unwrap_or(hit)));
        }
        if offset >= reply.total && !reply.has_more {
            break;
        }
    }
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(items)
}

/// Messages by their ids, or all messages under summaries.
fn named(desk: &Desk<'_>, name: &str, value: &Value, scope: &Scope) -> Result<Vec<Value>, String> {
    let bare = if name == "store_ids" { Bare::Message } else { Bare::Node };
    let mut items = Vec::new();
    let session = &scope.session;
    let get = |message: u64| RecallRequest::Get {
        message: MessageId(message),
        session: session.clone(),
        raw: false,
        offset: 0,
        limit: (ITEM_BYTES_MAX / 2) as u64,
    };
    for id in ids::list(name, value, bare)? {
        match id {
            Id::Node(node) => {
                let mut offset = 0;
                loop {
                    let request = RecallRequest::Expand {
                        node: NodeId(node),
                        session: session.clone(),
                        direct: false,
                        offset,
                        limit: PAGE,
                    };
                    let reply = desk.recall(&request)?;
                    offset += reply.hits.len() as u64;
                    items.extend(reply.hits.iter().map(item_of));
                    if reply.hits.is_empty() || offset >= reply.total || items.len() > ITEMS_MAX {
                        break;
                    }
                }
            }
            Id::Message(message, _) => items.extend(desk.recall(&get(message))?.hits.iter().map(item_of)),
            Id::Messages(from, to) => {
                if to - from >= ITEMS_MAX as u64 {
                    return Err(format!("at most {ITEMS_MAX} items are taken"));
                }
                // Numbers of summaries and notes lie between those of messages.
                let hits = (from..=to).filter_map(|message| desk.recall(&get(message)).ok());
                items.extend(hits.flat_map(|reply| reply.hits).map(|hit| item_of(&hit)));
            }
            Id::Job(_) => return Err(format!("{name} must name summaries or messages")),
        }
    }
    Ok(items)
}
