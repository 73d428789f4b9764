//! What the model reads of the tools: names, purposes, parameters.

use super::grep;
use engine_api::ToolSchema;
use engine_api::json::{Value, json};

/// Returns the schemas of all tools.
pub(crate) fn schemas() -> Vec<ToolSchema> {
    let object = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
    let text = |description: &str| json!({ "type": "string", "description": description });
    let number = |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let id = |description: &str| json!({ "type": ["integer", "string"], "description": description });
    let ids = |description: &str| json!({ "type": ["array", "string", "integer"], "items": { "type": ["integer", "string"] }, "description": description });
    let session = || text("Another session's id; without it, this session.");
    let map = |extra: &[(&str, Value)]| {
        let mut properties = json!({
            "prompt": text("What to do with each item; {{item}} or {{member}} stands for it."),
            "items": { "type": "array", "description": "The items." },
            "items_jsonl": text("The items as lines of JSON."),
            "query": text("Takes as items the messages that this search finds."),
            "node_ids": ids("Takes as items all messages under these summaries."),
            "store_ids": ids("Takes these messages as items: numbers, or a range \"12-40\"."),
            "schema": { "type": "object", "description": "JSON Schema that each answer must fit." },
            "job": text("The job's id: with it alone, a job that was stopped goes on."),
            "retries": number("Tries beyond the first where an answer does not fit; 2."),
            "concurrency": number("Items asked about at once, up to 16."),
            "limit": number("Items that a query gives at most; 50."),
        });
        for (key, value) in extra {
            super::args::add(&mut properties, key, value.clone());
        }
        object(properties, json!([]))
    };
    vec![
        ToolSchema::new(
            "lcm_grep",
            "Searches this conversation, also the older part that summaries stand for: messages, tool calls with their \
             arguments, tool results, and the summaries. Give a few distinctive words, a \"phrase\", or a regular \
             expression with mode \"regex\". Use it before saying that something earlier is not known.",
            object(
                json!({
                    "query": text("Words to find, a phrase in double quotes, or a regular expression with mode \"regex\"."),
                    "mode": { "type": "string", "enum": grep::MODES, "default": "auto" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": grep::LIMIT_MAX, "default": grep::LIMIT_DEFAULT },
                    "sort": { "type": "string", "enum": grep::SORTS, "default": "relevance" },
                    "scope": { "type": "string", "enum": ["messages", "summaries", "both"], "default": "both" },
                    "role": { "type": "string", "enum": grep::ROLES, "description": "Only messages of this role." },
                    "tool": text("Only calls and results of this tool."),
                    "session_scope": { "type": "string", "enum": ["current", "all", "session"], "default": "current" },
                    "session_id": text("The session to search, with session_scope \"session\"."),
                    "time_from": { "type": ["number", "string"], "description": "Seconds since 1970, or ISO 8601 with a zone." },
                    "time_to": { "type": ["number", "string"], "description": "The same; what is found is older." },
                    "within": id("Only messages under this summary."),
                    "group_by": { "type": "string", "enum": ["none", "summary"], "description": "Groups hits by the summary that covers them." },
                    "compacted_only": { "type": "boolean", "default": false, "description": "Leaves out what is still in view." },
                    "cursor": text("next_cursor of the last answer.")
                }),
                json!(["query"]),
            ),
        ),
        ToolSchema::new(
            "lcm_describe",
            "Tells what a summary covers, what a message or a map job is, or with no arguments what this session holds: \
             its messages and its summaries by depth.",
            object(
                json!({
                    "node_id": id("A summary: its number, \"sum_12\", or its pasted line."),
                    "id": id("Any id: \"sum_12\", \"msg 12\", \"file_12\", \"job_…\"."),
                    "store_id": id("A message."),
                    "session_id": session()
                }),
                json!([]),
            ),
        ),
        ToolSchema::new(
            "lcm_expand",
            "Returns the original messages that a summary stands for, a message whole (a shortened tool result too), a \
             range of messages, or the rows of a map job. Long answers come in parts: go on with the offsets given.",
            object(
                json!({
                    "node_id": id("A summary."),
                    "store_id": id("A message."),
                    "store_ids": ids("Messages: numbers, or a range \"12-40\"."),
                    "id": id("Any id, or a pasted line that names one."),
                    "session_id": session(),
                    "max_tokens": { "type": "integer", "minimum": 1, "maximum": 16_000, "default": 4_000 },
                    "source_offset": number("Sources to pass over."),
                    "source_limit": number("Sources to return at most."),
                    "content_offset": number("Bytes of the first source's text to pass over."),
                    "direct": { "type": "boolean", "description": "Returns what the summary was made from, summaries too." },
                    "raw": { "type": "boolean", "description": "Returns a message's JSON as the client sent it." },
                    "include_exact_ref": { "type": "boolean", "default": false }
                }),
                json!([]),
            ),
        ),
        ToolSchema::new(
            "lcm_expand_query",
            "Answers a question about the earlier conversation from evidence that it finds there, with the ids of the \
             evidence.",
            object(
                json!({
                    "prompt": text("The question."),
                    "query": text("Words to find the evidence by."),
                    "node_ids": ids("Summaries to take the evidence from, in place of a query."),
                    "max_results": { "type": "integer", "minimum": 1, "maximum": 50, "default": 5 },
                    "max_tokens": { "type": "integer", "minimum": 1, "maximum": 8_000, "default": 2_000 },
                    "context_max_tokens": { "type": "integer", "minimum": 1, "maximum": 120_000, "default": 32_000 },
                    "session_id": session()
                }),
                json!(["prompt"]),
            ),
        ),
        ToolSchema::new(
            "lcm_status",
            "Tells what the context engine has done in this session, its thresholds and its settings.",
            object(json!({}), json!([])),
        ),
        ToolSchema::new(
            "lcm_doctor",
            "Checks that every message of this session is in view or under a summary, and that search answers. It \
             changes nothing.",
            object(json!({}), json!([])),
        ),
        ToolSchema::new(
            "lcm_load_session",
            "Returns a session's messages in order, page by page; with session_scope \"all\", the list of sessions.",
            object(
                json!({
                    "session_id": text("The session."),
                    "session_scope": { "type": "string", "enum": ["current", "all", "session"] },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 200, "default": 100 },
                    "max_content_chars": { "type": "integer", "minimum": 1, "maximum": 20_000, "default": 4_000 },
                    "after_store_id": number("The last message already seen: next_cursor."),
                    "roles": { "type": "array", "items": { "type": "string", "enum": grep::ROLES } },
                    "time_from": { "type": ["number", "string"] },
                    "time_to": { "type": ["number", "string"] }
                }),
                json!([]),
            ),
        ),
        ToolSchema::new(
            "llm_map",
            "Asks a model the same about each of many items, up to sixteen at once, checks each answer against a JSON \
             Schema and keeps the rows. For counting, classifying or extracting over more than fits one look.",
            map(&[]),
        ),
        ToolSchema::new(
            "agentic_map",
            "As llm_map, but for each item the model may first look things up in the earlier conversation.",
            map(&[
                ("max_steps", number("Replies of the model for one item at most; 6, up to 12.")),
                ("read_only", json!({ "type": "boolean", "default": true })),
            ]),
        ),
    ]
}
