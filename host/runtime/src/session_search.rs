//! `session_search`: the host's own tool over everything that was ever said, with Hermes' shapes. It works within the same
//! session too, and offers a message whole.

use crate::live::LiveSession;
use engine_api::json::{Map, Value, json};
use engine_api::{
    EngineError, MessageId, RecallHit, RecallReply, RecallRequest, RecallSearch, Role, SearchKind, SearchSort,
    ToolSchema,
};
use host_store::Store;

/// The tool's name, which is Hermes'.
pub const TOOL: &str = "session_search";

/// Hits of a search: Hermes' default and bound.
const LIMIT: (u64, u64) = (3, 10);
/// Messages on each side in a scroll: Hermes' default and bound.
const WINDOW: (u64, u64) = (5, 20);
/// A session of at most this many messages is read whole; of a longer one, the first and the last. Hermes' figures.
const WHOLE: usize = 30;
const READ_FIRST: usize = 20;
const READ_LAST: usize = 10;
/// Messages around a hit, on each side.
const AROUND: u64 = 2;
/// Sessions in a list.
const BROWSED: u64 = 10;
/// Characters of a message within a list of several; `message_id` gives it whole.
const TEXT_CHARS: usize = 1_000;
/// Bytes of one answer's text of a message that is asked for whole; the next page begins at `next_offset`.
const PAGE_BYTES: u64 = 32_000;

/// Returns the tool as a model sees it.
pub fn schema() -> ToolSchema {
    ToolSchema::new(
        TOOL,
        "Finds what was said earlier, in this session (also what a summary now stands for) and in others. \
         `query` searches; `message_id` returns a message whole; `session_id` reads a session, with `around_message_id` the \
         messages around one; without arguments it lists the newest sessions.",
        json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words, a \"phrase\" in quotes, or a regular expression. Any words: those that matter are weighed." },
                "limit": { "type": "integer", "minimum": 1, "maximum": LIMIT.1, "description": "Hits, 3 unless given." },
                "offset": { "type": "integer", "minimum": 0, "description": "Hits to pass over; with message_id, bytes to pass over." },
                "sort": { "type": "string", "enum": ["relevance", "newest", "oldest"] },
                "role_filter": { "type": "string", "description": "Roles, with commas between: user, assistant, tool, system. All unless given." },
                "session_id": { "type": "string", "description": "The session to read or to search; all are searched unless given." },
                "around_message_id": { "type": "integer", "description": "With session_id: the messages around this one." },
                "window": { "type": "integer", "minimum": 1, "maximum": WINDOW.1, "description": "Messages on each side, 5 unless given." },
                "message_id": { "type": "integer", "description": "Returns this message whole, in pages." }
            }
        }),
    )
}

impl LiveSession {
    /// Returns the host's own tools, which are there for every engine: none for a session that is in no store.
    pub fn host_tools(&self) -> Vec<ToolSchema> {
        if self.stored.is_some() { vec![schema()] } else { Vec::new() }
    }

    /// Answers a call of [`TOOL`].
    pub(crate) fn search_sessions(&self, arguments: &Value) -> Result<String, EngineError> {
        let Some(stored) = &self.stored else {
            return Err(EngineError::unsupported("session_search: this session is in no store"));
        };
        Ok(answer(&stored.store, stored.key, &self.options.session_id, arguments))
    }
}

/// Answers a call; what is wrong with it is in the answer, so that a model can mend it.
pub fn answer(store: &Store, session: i64, name: &str, arguments: &Value) -> String {
    let asked = Asked { store, session, name, arguments };
    let answered = asked.answer().unwrap_or_else(|error| json!({ "success": false, "error": error }));
    answered.to_string()
}

struct Asked<'a> {
    store: &'a Store,
    session: i64,
    name: &'a str,
    arguments: &'a Value,
}

impl Asked<'_> {
    fn answer(&self) -> Result<Value, String> {
        if !self.arguments.is_object() && !self.arguments.is_null() {
            return Err("the arguments must be an object".to_owned());
        }
        if let Some(id) = self.number("message_id")? {
            return self.whole(id);
        }
        let session = self.text("session_id")?;
        if let Some(around) = self.number("around_message_id")? {
            return self.scroll(session, around);
        }
        match (self.text("query")?.filter(|query| !query.trim().is_empty()), session) {
            (Some(query), session) => self.discover(query, session),
            (None, Some(session)) => self.read(session),
            (None, None) => self.browse(),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&str>, String> {
        match self.arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{key} must be a text, not {other}")),
        }
    }

    /// Reads a whole number, also one that a model wrote as a text.
    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        match self.arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let read = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
                read.map(Some).ok_or_else(|| format!("{key} must be a whole number, not {value}"))
            }
        }
    }

    fn bounded(&self, key: &str, (default, most): (u64, u64)) -> Result<u64, String> {
        Ok(self.number(key)?.unwrap_or(default).clamp(1, most))
    }

    fn ask(&self, request: &RecallRequest) -> Result<RecallReply, String> {
        self.store.recall(self.session, request).map_err(|error| error.message)
    }

    fn whole(&self, id: u64) -> Result<Value, String> {
        let offset = self.number("offset")?.unwrap_or(0);
        let request = RecallRequest::Get {
            message: MessageId(id),
            session: String::new(),
            raw: false,
            offset,
            limit: PAGE_BYTES,
        };
        let reply = self.ask(&request)?;
        let hit = reply.hits.first().ok_or_else(|| format!("there is no message {id}"))?;
        let mut shown = self.shown(hit, usize::MAX);
        shown.insert("offset".into(), json!(hit.offset));
        shown.insert("bytes".into(), json!(hit.text_bytes));
        if reply.has_more {
            shown.insert("next_offset".into(), json!(hit.offset + hit.text.len() as u64));
        }
        Ok(json!({ "success": true, "mode": "message", "message": shown }))
    }

    fn scroll(&self, session: Option<&str>, around: u64) -> Result<Value, String> {
        let window = self.bounded("window", WINDOW)?;
        let name = session.unwrap_or(self.name);
        let messages = self.around(name, MessageId(around), window)?;
        if messages.is_empty() {
            return Err(format!("session \"{name}\" has no message {around}"));
        }
        let shown: Vec<_> = messages.iter().map(|hit| self.shown(hit, TEXT_CHARS)).collect();
        Ok(
            json!({ "success": true, "mode": "scroll", "session_id": name, "around_message_id": around, "window": window,
            "count": shown.len(), "messages": shown }),
        )
    }

    fn key(&self, name: &str) -> Result<i64, String> {
        if name == self.name {
            return Ok(self.session);
        }
        self.store.session(name).map(|row| row.key).map_err(|error| error.to_string())
    }

    fn around(&self, name: &str, id: MessageId, each_side: u64) -> Result<Vec<RecallHit>, String> {
        let each_side = usize::try_from(each_side).unwrap_or(usize::MAX);
        self.store.around(self.key(name)?, id, each_side).map_err(|error| error.message)
    }

    fn read(&self, name: &str) -> Result<Value, String> {
        let (first, last) = (READ_FIRST, READ_LAST.max(WHOLE - READ_FIRST));
        let (all, total) = self.store.ends(self.key(name)?, first, last).map_err(|error| error.message)?;
        let shown: Vec<_> = all.iter().map(|hit| self.shown(hit, TEXT_CHARS)).collect();
        let left_out = total.saturating_sub(shown.len());
        let mut out =
            json!({ "success": true, "mode": "read", "session_id": name, "message_count": total, "messages": shown });
        if let (true, Some(out), Some(last)) = (left_out > 0, out.as_object_mut(), all.get(READ_FIRST - 1)) {
            out.insert("left_out".into(), json!(left_out));
            let call = format!("session_search(session_id=\"{name}\", around_message_id={}) goes on", last.message.0);
            out.insert("note".into(), json!(format!("{left_out} messages between are left out; {call}")));
        }
        Ok(out)
    }

    fn browse(&self) -> Result<Value, String> {
        let reply =
            self.ask(&RecallRequest::Sessions { offset: self.number("offset")?.unwrap_or(0), limit: BROWSED })?;
        Ok(json!({ "success": true, "mode": "browse", "count": reply.node.as_array().map_or(0, Vec::len),
            "total": reply.total, "current_session_id": self.name, "sessions": reply.node }))
    }

    fn discover(&self, query: &str, session: Option<&str>) -> Result<Value, String> {
        let limit = self.bounded("limit", LIMIT)?;
        let mut search = RecallSearch::new(query);
        search.kind = Some(SearchKind::Messages);
        search.all_sessions = session.is_none();
        search.session = session.unwrap_or_default().to_owned();
        search.sort = Some(match self.text("sort")? {
            None | Some("relevance") => SearchSort::Relevance,
            Some("newest") => SearchSort::Newest,
            Some("oldest") => SearchSort::Oldest,
            Some(other) => return Err(format!("sort must be relevance, newest or oldest, not {other}")),
        });
        let roles = self.roles()?;
        search.limit = limit;
        search.offset = self.number("offset")?.unwrap_or(0);
        let reply = if let [role] = roles.as_slice() {
            search.role = Some(*role);
            self.ask(&RecallRequest::search(search.clone()))?
        } else {
            // Several roles: more is fetched, and what is of none of them left out.
            search.limit = if roles.is_empty() { limit } else { limit * 10 };
            self.ask(&RecallRequest::search(search.clone()))?
        };
        let is_wanted = |hit: &RecallHit| roles.is_empty() || hit.role.is_some_and(|role| roles.contains(&role));
        let words = words_of(query);
        let mut hits = Vec::new();
        for hit in reply.hits.iter().filter(|hit| is_wanted(hit)).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            let name = if hit.session.is_empty() { self.name } else { &hit.session };
            let mut shown = self.shown(hit, TEXT_CHARS);
            shown.remove("text");
            shown.insert("session_id".into(), json!(name));
            shown.insert("is_current_session".into(), json!(hit.session.is_empty()));
            shown.insert("snippet".into(), json!(marked(&hit.text, &words)));
            shown.insert("score".into(), json!(hit.score));
            shown.insert("why".into(), json!(hit.why));
            let around = self.around(name, hit.message, AROUND)?;
            let around: Vec<_> = around
                .iter()
                .filter(|other| other.message != hit.message)
                .map(|other| self.shown(other, TEXT_CHARS / 4))
                .collect();
            shown.insert("around".into(), json!(around));
            hits.push(shown);
        }
        let mut out = json!({ "success": true, "mode": "discover", "query": query, "count": hits.len(),
            "total": reply.total, "total_is_least": reply.total_is_least, "hits": hits });
        if let Some(out) = out.as_object_mut() {
            if reply.total == 0 {
                out.insert(
                    "note".into(),
                    json!(format!("all messages were searched and nothing fits {query:?}; other words may")),
                );
                out.insert("nearest".into(), json!(reply.nearest));
            }
            if !reply.not_covered.is_empty() {
                out.insert("not_covered".into(), json!(reply.not_covered));
            }
            if search.offset + limit < reply.total {
                out.insert("next_offset".into(), json!(search.offset + limit));
            }
        }
        Ok(out)
    }

    fn roles(&self) -> Result<Vec<Role>, String> {
        let Some(text) = self.text("role_filter")? else { return Ok(Vec::new()) };
        text.split(',')
            .map(str::trim)
            .filter(|role| !role.is_empty())
            .map(|role| match role {
                "user" => Ok(Role::User),
                "assistant" => Ok(Role::Assistant),
                "tool" => Ok(Role::Tool),
                "system" => Ok(Role::System),
                other => Err(format!("role_filter knows user, assistant, tool and system, not {other}")),
            })
            .collect()
    }

    fn shown(&self, hit: &RecallHit, chars_max: usize) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("message_id".into(), json!(hit.message));
        out.insert("role".into(), json!(hit.role));
        if !hit.tool.is_empty() {
            out.insert("tool".into(), json!(hit.tool));
        }
        out.insert("timestamp_ms".into(), json!(hit.at_ms));
        out.insert("active".into(), json!(hit.live));
        if hit.node.0 > 0 {
            out.insert("summarised_in".into(), json!(hit.node));
        }
        let mut text: String = hit.text.chars().take(chars_max).collect();
        if text.len() < hit.text.len() {
            text.push_str(&format!(
                "… [{} bytes; session_search(message_id={}) returns all]",
                hit.text_bytes, hit.message.0
            ));
        }
        out.insert("text".into(), json!(text));
        out
    }
}

/// Returns the words of a query that a snippet can show, in lower case.
fn words_of(query: &str) -> Vec<String> {
    query
        .split(|c: char| c.is_whitespace() || c == '"')
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 1 || !word.is_ascii())
        .collect()
}

/// Marks the words in a snippet as Hermes does.
fn marked(snippet: &str, words: &[String]) -> String {
    let lower = snippet.to_lowercase();
    // Lower case of some letters has another length; then places cannot be carried over.
    if lower.len() != snippet.len() {
        return snippet.to_owned();
    }
    let mut places: Vec<(usize, usize)> = words
        .iter()
        .flat_map(|word| {
            lower.match_indices(word.as_str()).map(|(at, found)| (at, at + found.len())).collect::<Vec<_>>()
        })
        .collect();
    places.sort_unstable();
    let mut out = String::with_capacity(snippet.len() + places.len() * 6);
    let mut done = 0;
    for (from, to) in places {
        let (Some(before), Some(found)) =
            (snippet.get(done..from.max(done)), snippet.get(from.max(done)..to.max(done)))
        else {
            continue;
        };
        if found.is_empty() {
            continue;
        }
        out.push_str(before);
        out.push_str(">>>");
        out.push_str(found);
        out.push_str("<<<");
        done = to.max(done);
    }
    out.push_str(snippet.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_found_are_marked() {
        let words = words_of("Zebrafish \"port\"");
        assert_eq!(
            marked("deploy the zebrafish on PORT 9931", &words),
            "deploy the >>>zebrafish<<< on >>>PORT<<< 9931"
        );
        assert_eq!(marked("İ zebrafish", &words), "İ zebrafish");
    }
}
