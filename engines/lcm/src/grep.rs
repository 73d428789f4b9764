//! The tool `lcm_grep`: finds messages that summaries stand for, and the summaries.
//!
//! Arguments and answer have the shape that agents know from hermes-lcm. Whatever is wrong with a call, the answer is
//! JSON with an `error` in it, so that the model can mend its call.

use engine_api::json::{Value, json};
use engine_api::{HostServices, NodeId, RecallHit, RecallRequest, RecallSearch, Role, ToolSchema};
use engine_kit::text::{clip, one_line};
use std::collections::HashMap;

/// The tool's name.
pub(crate) const TOOL: &str = "lcm_grep";
const LIMIT_DEFAULT: u64 = 10;
const LIMIT_MAX: u64 = 200;
/// Characters of a snippet; hermes-lcm has the same for summaries, and 200 of them stay within its 64,000.
const SNIPPET_CHARS: usize = 300;
/// A longer query is no query.
const QUERY_CHARS_MAX: usize = 1_000;
const MODES: [&str; 2] = ["full_text", "regex"];
const SORTS: [&str; 3] = ["recency", "relevance", "hybrid"];
const ROLES: [&str; 5] = ["system", "user", "assistant", "tool", "unknown"];
const SCOPES: [&str; 3] = ["current", "all", "session"];

/// What the model reads of the tool.
pub(crate) fn schema() -> ToolSchema {
    ToolSchema::new(
        TOOL,
        "Searches the older part of this conversation, which summaries stand for: messages, tool calls with their \
         arguments, tool results, and the summaries. Give a few distinctive words, or a regular expression with mode \
         \"regex\". Use it before saying that something earlier is not known.",
        json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words to find, or a regular expression with mode \"regex\"." },
                "mode": { "type": "string", "enum": MODES, "default": "full_text" },
                "limit": { "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT },
                "sort": { "type": "string", "enum": SORTS, "default": "recency" },
                "role": { "type": "string", "enum": ROLES, "description": "Only messages of this role." },
                "session_scope": {
                    "type": "string", "enum": SCOPES, "default": "current",
                    "description": "Only the current session can be searched."
                },
                "compacted_only": {
                    "type": "boolean", "default": true,
                    "description": "false searches the messages that are still in view too."
                }
            },
            "required": ["query"]
        }),
    )
}

/// Answers a call; always JSON.
pub(crate) fn answer(services: &dyn HostServices, arguments: &Value) -> String {
    let answer = Call::read(arguments).and_then(|call| call.run(services));
    answer.unwrap_or_else(|error| json!({ "error": error })).to_string()
}

struct Call {
    query: String,
    mode: &'static str,
    sort: &'static str,
    scope: &'static str,
    role: Option<Role>,
    limit: u64,
    limit_asked_for: Option<u64>,
    compacted_only: bool,
}

fn word(
    arguments: &Value,
    key: &str,
    allowed: &'static [&'static str],
    default: &'static str,
) -> Result<&'static str, String> {
    match arguments.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => {
            let found = value.as_str().and_then(|word| allowed.iter().find(|allowed| **allowed == word));
            found.copied().ok_or_else(|| format!("{key} must be one of: {}", allowed.join(", ")))
        }
    }
}

impl Call {
    fn read(arguments: &Value) -> Result<Call, String> {
        // `pattern` is the name of the same argument in OpenClaw's dialect.
        let query = arguments.get("query").or_else(|| arguments.get("pattern")).and_then(Value::as_str).unwrap_or("");
        if query.trim().is_empty() {
            return Err("No query provided".to_string());
        }
        if query.chars().nth(QUERY_CHARS_MAX).is_some() {
            return Err(format!("query must have at most {QUERY_CHARS_MAX} characters"));
        }
        let asked_for = match arguments.get("limit") {
            None | Some(Value::Null) => LIMIT_DEFAULT,
            Some(value) => {
                let limit = value.as_u64().filter(|limit| *limit > 0);
                limit.ok_or_else(|| "limit must be a positive integer".to_string())?
            }
        };
        let role = match word(arguments, "role", &ROLES, "")? {
            "system" => Some(Role::System),
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            "tool" => Some(Role::Tool),
            "unknown" => Some(Role::Other),
            _ => None,
        };
        let compacted_only = match arguments.get("compacted_only") {
            None | Some(Value::Null) => true,
            Some(value) => value.as_bool().ok_or_else(|| "compacted_only must be true or false".to_string())?,
        };
        Ok(Call {
            query: query.to_string(),
            mode: word(arguments, "mode", &MODES, "full_text")?,
            sort: word(arguments, "sort", &SORTS, "recency")?,
            scope: word(arguments, "session_scope", &SCOPES, "current")?,
            role,
            limit: asked_for.min(LIMIT_MAX),
            limit_asked_for: (asked_for > LIMIT_MAX).then_some(asked_for),
            compacted_only,
        })
    }

    fn run(self, services: &dyn HostServices) -> Result<Value, String> {
        let mut search = RecallSearch::new(self.query.as_str());
        search.regex = self.mode == "regex";
        search.role = self.role;
        search.compacted_only = self.compacted_only;
        search.limit = self.limit;
        let reply = services.recall(&RecallRequest::search(search)).map_err(|error| error.message)?;
        let mut hits = reply.hits;
        hits.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        if self.sort == "recency" {
            hits.sort_by_key(|hit| std::cmp::Reverse((hit.message, hit.node)));
        }
        let mut depths = HashMap::new();
        let results: Vec<Value> = hits.iter().map(|hit| self.result(services, hit, &mut depths)).collect();
        let mut answer = json!({
            "query": one_line(&self.query, QUERY_CHARS_MAX),
            "mode": self.mode,
            "sort": self.sort,
            "session_scope": "current",
            "limit": self.limit,
            "total_results": reply.total.max(results.len() as u64),
            "results": results,
        });
        let mut add = |key: &str, value: Value| {
            if let Some(members) = answer.as_object_mut() {
                members.insert(key.to_string(), value);
            }
        };
        if let Some(asked_for) = self.limit_asked_for {
            add("limit_clamped_from", json!(asked_for));
        }
        if self.scope != "current" {
            add("session_scope_note", json!("only the current session was searched"));
        }
        if hits.is_empty() {
            let place = if self.compacted_only { "the compacted part of this session" } else { "this session" };
            add("note", json!(format!("searched {place}, nothing matches; try fewer or other words")));
        }
        Ok(answer)
    }

    fn result(&self, services: &dyn HostServices, hit: &RecallHit, depths: &mut HashMap<u64, String>) -> Value {
        let snippet = clip(hit.text.trim(), SNIPPET_CHARS);
        if hit.message.0 == 0 {
            let depth = depths.entry(hit.node.0).or_insert_with(|| depth_of(services, hit.node));
            return json!({
                "type": "summary",
                "depth": depth,
                "node_id": hit.node.0,
                "snippet": snippet,
                "token_count": hit.tokens,
            });
        }
        let mut result = json!({
            "type": "message",
            "depth": "raw",
            "store_id": hit.message.0,
            "role": hit.role.map_or("unknown", role_word),
            "snippet": snippet,
            "token_count": hit.tokens,
            "from_current_session": true,
        });
        if let Some(members) = result.as_object_mut() {
            if !hit.tool.is_empty() {
                members.insert("tool_name".to_string(), json!(hit.tool));
            }
            if hit.node.0 != 0 {
                members.insert("node_id".to_string(), json!(hit.node.0));
                members.insert("covered_by".to_string(), json!(format!("node {}", hit.node.0)));
            }
        }
        result
    }
}

fn role_word(role: Role) -> &'static str {
    if role == Role::Other { "unknown" } else { role.as_str() }
}

fn depth_of(services: &dyn HostServices, node: NodeId) -> String {
    let depth = match services.recall(&RecallRequest::describe(node)) {
        Ok(reply) => reply.node.get("depth").and_then(Value::as_u64),
        Err(_) => None,
    };
    depth.map_or_else(|| "summary".to_string(), |depth| format!("d{depth}"))
}

#[cfg(test)]
mod tests;
