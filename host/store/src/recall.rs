//! Looks things up: messages whole or in pages, what a summary stands for, and search over all of it.

use crate::append::searchable;
use crate::bodies::Bodies;
use crate::error::{StoreError, while_doing};
use crate::load::{Row, States};
use crate::nodes::{self, Coverage, NodeRow};
use crate::sessions::{self, SessionFilter, count};
use crate::store::{MESSAGES, Reader, SUMMARIES, Store, now_ms, searching};
use crate::views;
use engine_api::json::json;
use engine_api::{
    Dialect, EngineError, ErrorKind, MessageId, NodeId, RecallHit, RecallReply, RecallRequest, RecallSearch, Role,
    SearchKind, SearchMode, SearchSort,
};
use host_search::{Facts, Query, SearchError, Source};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::{Duration, Instant};

/// Hits of a question that does not say how many.
pub const HITS_DEFAULT: u64 = 20;
/// Hits of one answer at most.
pub const HITS_MAX: u64 = 200;
/// Summaries of one depth that an overview lists.
const LISTED_NODES_MAX: usize = 20;
/// How long one search may take; it then says what it has not looked at.
const SEARCH_TIME: Duration = Duration::from_secs(2);

impl Store {
    /// Answers a question of a session: about itself, the sessions it comes from, or another session that it names.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] for a message, summary, session or pattern that is not usable, with what to do instead;
    /// [`ErrorKind::Storage`] if the store fails.
    pub fn recall(&self, session: i64, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        let named = |name: &str| -> Result<i64, EngineError> {
            if name.is_empty() { Ok(session) } else { self.session(name).map(|row| row.key).map_err(told) }
        };
        let limit = |limit: u64| if limit == 0 { HITS_DEFAULT } else { limit.min(HITS_MAX) };
        match request {
            RecallRequest::Search(search) => self.find(session, search),
            RecallRequest::Get { message, session: name, raw, offset, limit } => {
                named(name)?;
                self.get(session, *message, *raw, *offset, *limit)
            }
            RecallRequest::Expand { node, session: name, direct, offset, limit: most } => {
                self.expand(named(name)?, *node, *direct, *offset, limit(*most))
            }
            RecallRequest::Describe { node, session: name } => self.describe(named(name)?, *node),
            RecallRequest::Overview { session: name } => self.overview(named(name)?),
            RecallRequest::Load { session: name, after, limit: most, roles } => {
                self.load_page(named(name)?, *after, limit(*most), roles)
            }
            RecallRequest::Sessions { offset, limit: most } => {
                let filter = SessionFilter { text: String::new(), offset: *offset, limit: limit(*most) };
                let (rows, total) = self.sessions(&filter).map_err(told)?;
                let mut reply = RecallReply::default();
                reply.total = total;
                reply.has_more = offset.saturating_add(rows.len() as u64) < total;
                reply.node = engine_api::json::to_value(rows).unwrap_or_default();
                Ok(reply)
            }
            other => Err(EngineError::unsupported(format!("the question {other:?}"))),
        }
    }

    fn get(&self, session: i64, id: MessageId, raw: bool, offset: u64, limit: u64) -> Result<RecallReply, EngineError> {
        let mut reply = RecallReply::default();
        let hit = self
            .read("reading a message", |conn| {
                let row = self.row(conn, id.0)?;
                let row = row.ok_or_else(|| StoreError::Invalid(format!("the store has no message {}", id.0)))?;
                let facts = Place::of(self, conn, session)?;
                let whole = if raw { row.raw.clone() } else { self.text_of(conn, &row)? };
                Ok(facts.hit(&row, cut(&whole, offset, limit)))
            })
            .map_err(told)?;
        reply.has_more = hit.offset.saturating_add(hit.text.len() as u64) < hit.text_bytes;
        reply.hits.push(hit);
        reply.total = 1;
        Ok(reply)
    }

    /// Returns the text of a message that can be searched; of what the host wrote, its text.
    fn text_of(&self, conn: &Connection, row: &Row) -> Result<String, StoreError> {
        let table = if row.is_written { "written" } else { "messages" };
        let sql = format!("SELECT s.dialect FROM {table} m JOIN sessions s ON s.id = m.session WHERE m.id = ?1");
        let dialect: u32 = conn
            .prepare_cached(&sql)
            .and_then(|mut select| select.query_row([count(row.id.0)], |row| row.get(0)))
            .map_err(while_doing("reading a message"))?;
        let message = self.inner.reader.message(Dialect::from_code(dialect), &row.raw);
        Ok(message.map_or_else(|| row.raw.clone(), |message| searchable(&message)))
    }

    fn expand(
        &self,
        session: i64,
        node: NodeId,
        direct: bool,
        offset: u64,
        limit: u64,
    ) -> Result<RecallReply, EngineError> {
        self.read("reading what a summary stands for", |conn| {
            let found = self.node(conn, session, node)?;
            let facts = Place::of(self, conn, session)?;
            let mut reply = RecallReply::default();
            let whole = |row: &Row| Ok::<_, StoreError>(facts.hit(row, cut(&self.text_of(conn, row)?, 0, 0)));
            if direct {
                let children = found.nodes.iter().map(|child| (Some(*child), MessageId(0)));
                let all: Vec<_> = children.chain(found.messages.iter().map(|message| (None, *message))).collect();
                reply.total = all.len() as u64;
                for (child, message) in all.into_iter().skip(index(offset)).take(index(limit)) {
                    reply.hits.push(match child {
                        Some(child) => summary_hit(&self.node(conn, session, child)?),
                        None => {
                            let rows = self.rows_of(conn, &[message.0])?;
                            rows.iter().map(whole).collect::<Result<Vec<_>, _>>()?.pop().unwrap_or_default()
                        }
                    });
                }
            } else {
                let all = Coverage::read(conn, session)?.below(node.0);
                reply.total = all.len() as u64;
                let page: Vec<u64> = all.into_iter().skip(index(offset)).take(index(limit)).collect();
                reply.hits = self.rows_of(conn, &page)?.iter().map(whole).collect::<Result<_, _>>()?;
            }
            reply.has_more = offset.saturating_add(reply.hits.len() as u64) < reply.total;
            Ok(reply)
        })
        .map_err(told)
    }

    fn node(&self, conn: &Connection, session: i64, node: NodeId) -> Result<NodeRow, StoreError> {
        nodes::one(conn, &self.inner.bodies, session, node)?.ok_or_else(|| {
            StoreError::Invalid(format!("this session has no summary {}; an overview lists those it has", node.0))
        })
    }

    fn describe(&self, session: i64, node: NodeId) -> Result<RecallReply, EngineError> {
        self.read("reading a summary", |conn| {
            let found = self.node(conn, session, node)?;
            let coverage = Coverage::read(conn, session)?;
            let covered = coverage.below(node.0);
            let parents: Vec<u64> = coverage
                .edges()
                .filter(|(_, _, children)| children.contains(&node.0))
                .map(|(parent, ..)| parent)
                .collect();
            let live = self.live_nodes(conn, session)?.contains(&node.0);
            let mut reply = RecallReply::default();
            reply.total = 1;
            reply.node = json!({
                "node": found.id, "depth": found.depth, "kind": found.kind, "text": found.text,
                "tokens": found.tokens, "source_tokens": found.source_tokens,
                "messages": covered.len(), "first_message": covered.first(), "last_message": covered.last(),
                "direct_messages": found.messages.len(), "nodes": found.nodes, "parents": parents, "live": live,
                "first_ms": found.first_ms, "last_ms": found.last_ms, "made_ms": found.made_ms, "model": found.model,
            });
            Ok(reply)
        })
        .map_err(told)
    }

    fn live_nodes(&self, conn: &Connection, session: i64) -> Result<HashSet<u64>, StoreError> {
        let live = views::live(conn, session)?;
        let mut select =
            conn.prepare_cached("SELECT node FROM written WHERE id = ?1").map_err(while_doing("reading a view"))?;
        let mut out = HashSet::new();
        for id in live.items {
            let node: Option<i64> =
                select.query_row([count(id)], |row| row.get(0)).optional().map_err(while_doing("reading a view"))?;
            out.extend(node.filter(|node| *node > 0).map(i64::unsigned_abs));
        }
        Ok(out)
    }

    fn overview(&self, session: i64) -> Result<RecallReply, EngineError> {
        self.read("reading a session", |conn| {
            let row = sessions::by_key(conn, session)?;
            let states = self.states(conn, session)?;
            let live_nodes = self.live_nodes(conn, session)?;
            let mut depths: BTreeMap<u32, Vec<NodeRow>> = BTreeMap::new();
            for node in nodes::all(conn, &self.inner.bodies, session)? {
                depths.entry(node.depth).or_default().push(node);
            }
            let depths: Vec<_> = depths
                .into_iter()
                .map(|(depth, nodes)| {
                    let listed: Vec<_> = nodes
                        .iter()
                        .rev()
                        .take(LISTED_NODES_MAX)
                        .map(|node| {
                            json!({ "node": node.id, "tokens": node.tokens, "source_tokens": node.source_tokens,
                                "messages": node.messages.len(), "nodes": node.nodes.len(), "live": live_nodes.contains(&node.id.0),
                                "first_ms": node.first_ms, "last_ms": node.last_ms, "model": node.model })
                        })
                        .collect();
                    json!({ "depth": depth, "count": nodes.len(), "tokens": nodes.iter().map(|node| node.tokens).sum::<u64>(),
                        "source_tokens": nodes.iter().map(|node| node.source_tokens).sum::<u64>(), "nodes": listed })
                })
                .collect();
            let active = states.path.iter().filter(|id| states.live.contains(id)).count();
            let mut reply = RecallReply::default();
            reply.total = states.path.len() as u64;
            reply.node = json!({
                "session": row.name, "title": row.title, "model": row.model, "parent": row.parent, "kinship": row.kinship,
                "messages": states.path.len(), "live_messages": active, "compacted_messages": states.path.len() - active,
                "first_message": states.path.iter().min(), "last_message": states.path.iter().max(),
                "created_ms": row.created_ms, "updated_ms": row.updated_ms, "depths": depths,
            });
            Ok(reply)
        })
        .map_err(told)
    }

    fn load_page(
        &self,
        session: i64,
        after: MessageId,
        limit: u64,
        roles: &[Role],
    ) -> Result<RecallReply, EngineError> {
        self.read("reading a session", |conn| {
            let facts = Place::of(self, conn, session)?;
            let mut ids = crate::branches::path(conn, session, crate::branches::live(conn, session)?)?;
            let mut reply = RecallReply::default();
            reply.total = ids.len() as u64;
            if after != MessageId(0)
                && let Some(at) = ids.iter().position(|id| *id == after.0)
            {
                ids.drain(..=at);
            }
            for id in ids {
                let row = self.rows_of(conn, &[id])?.pop();
                let Some(row) = row.filter(|row| roles.is_empty() || roles.contains(&row.role)) else { continue };
                if reply.hits.len() as u64 == limit {
                    reply.has_more = true;
                    break;
                }
                reply.hits.push(facts.hit(&row, cut(&self.text_of(conn, &row)?, 0, 0)));
            }
            Ok(reply)
        })
        .map_err(told)
    }

    /// Returns a message and at most `each_side` before and after it in a session, oldest first; none if the session's live
    /// branch does not have it.
    ///
    /// # Errors
    /// As [`Store::recall`].
    pub fn around(&self, session: i64, id: MessageId, each_side: usize) -> Result<Vec<RecallHit>, EngineError> {
        self.part(session, |path| {
            let at = path.iter().position(|other| *other == id.0)?;
            Some(path.get(at.saturating_sub(each_side)..path.len().min(at.saturating_add(each_side + 1)))?.to_vec())
        })
        .map(|(hits, _)| hits)
    }

    /// Returns the first and the last messages of a session's live branch, and how many it has; all if there are not more.
    ///
    /// # Errors
    /// As [`Store::recall`].
    pub fn ends(&self, session: i64, first: usize, last: usize) -> Result<(Vec<RecallHit>, usize), EngineError> {
        self.part(session, |path| {
            if path.len() <= first.saturating_add(last) {
                return Some(path.to_vec());
            }
            Some([path.get(..first)?, path.get(path.len() - last..)?].concat())
        })
    }

    /// Returns chosen messages of a session's live branch, and how many it has.
    fn part(
        &self,
        session: i64,
        choose: impl FnOnce(&[u64]) -> Option<Vec<u64>>,
    ) -> Result<(Vec<RecallHit>, usize), EngineError> {
        self.read("reading a session", |conn| {
            let path = crate::branches::path(conn, session, crate::branches::live(conn, session)?)?;
            let facts = Place::of(self, conn, session)?;
            let chosen = choose(&path).unwrap_or_default();
            let hits = self.rows_of(conn, &chosen)?;
            let hits = hits.iter().map(|row| Ok(facts.hit(row, cut(&self.text_of(conn, row)?, 0, 0))));
            Ok((hits.collect::<Result<_, StoreError>>()?, path.len()))
        })
        .map_err(told)
    }

    fn find(&self, session: i64, search: &RecallSearch) -> Result<RecallReply, EngineError> {
        let scope = match (search.all_sessions, search.session.as_str()) {
            (true, _) => None,
            (false, "") => Some(self.lineage(session).map_err(told)?),
            (false, name) => Some(vec![self.session(name).map_err(told)?.key]),
        };
        self.read("searching", |conn| {
            let facts = Place::of(self, conn, session)?;
            let inside: Option<HashSet<i64>> = match search.node {
                Some(node) => {
                    self.node(conn, session, node)?;
                    Some(facts.coverage.below(node.0).into_iter().map(count).collect())
                }
                None => None,
            };
            let rewound = self.rewound(conn, session, &facts)?;
            let within = |id: i64| {
                !rewound.contains(&id)
                    && inside.as_ref().is_none_or(|inside| inside.contains(&id))
                    && (!search.compacted_only || facts.is_compacted(id.max(0).unsigned_abs()))
            };
            let mode = if search.regex { SearchMode::Regex } else { search.mode.unwrap_or(SearchMode::Auto) };
            let mut query = Query::new(&search.pattern);
            query.mode = mode;
            query.sort = search.sort.unwrap_or(SearchSort::Relevance);
            query.sessions = scope.as_deref();
            query.since_ms = search.since_ms.map(count);
            query.before_ms = search.before_ms.map(count);
            query.offset = search.offset;
            query.limit = if search.limit == 0 { HITS_DEFAULT } else { search.limit.min(HITS_MAX) };
            query.now_ms = now_ms();
            query.deadline = Some(Instant::now() + SEARCH_TIME);
            let kind = search.kind.unwrap_or(SearchKind::Both);
            let mut reply = RecallReply::default();
            if kind != SearchKind::Summaries {
                query.role = search.role;
                query.tool = search.tool.as_deref();
                query.within = (inside.is_some() || search.compacted_only || !rewound.is_empty()).then_some(&within);
                let source = Texts::new(conn, self.inner.reader.as_ref(), &self.inner.bodies, Which::Messages);
                let page = MESSAGES.search(conn, &source, &query).map_err(searching)?;
                take_over(&mut reply, &page);
                for hit in page.hits {
                    let Some(row) = self.row(conn, hit.id.max(0).unsigned_abs())? else { continue };
                    let bytes = self.text_of(conn, &row)?.len() as u64;
                    let mut made = facts.hit(&row, (hit.snippet_offset, bytes, hit.snippet));
                    (made.score, made.why) = (hit.score, hit.why);
                    made.session = self.name_elsewhere(conn, session, row.id)?;
                    reply.hits.push(made);
                }
            }
            // Summaries come after the messages, so that they never crowd them out, and only where no filter is of messages.
            let is_of_messages =
                search.role.is_some() || search.tool.is_some() || search.node.is_some() || search.compacted_only;
            if kind != SearchKind::Messages && !is_of_messages {
                let messages = reply.total;
                query.role = None;
                query.tool = None;
                query.within = None;
                query.depth = search.depth;
                query.offset = search.offset.saturating_sub(messages);
                query.limit = query.limit.saturating_sub(reply.hits.len() as u64);
                let source = Texts::new(conn, self.inner.reader.as_ref(), &self.inner.bodies, Which::Summaries);
                let page = SUMMARIES.search(conn, &source, &query).map_err(searching)?;
                take_over(&mut reply, &page);
                for hit in page.hits.into_iter().take(index(query.limit)) {
                    let Some((owner, name, node)) = node_of(conn, hit.id)? else { continue };
                    let node = self.node(conn, owner, node)?;
                    let mut made = summary_hit(&node);
                    (made.text, made.offset) = (hit.snippet, hit.snippet_offset);
                    (made.score, made.why) = (hit.score, hit.why);
                    if owner != session {
                        made.session = name;
                    }
                    reply.hits.push(made);
                }
            }
            reply.has_more = search.offset.saturating_add(reply.hits.len() as u64) < reply.total;
            Ok(reply)
        })
        .map_err(told)
    }

    /// Returns what a session's user took back: messages of it, or of those it comes from, that its live branch does not
    /// have. They stay in the store, but are not found as if they had been said.
    fn rewound(&self, conn: &Connection, session: i64, facts: &Place) -> Result<HashSet<i64>, StoreError> {
        let doing = while_doing("searching");
        let mut out = HashSet::new();
        for key in crate::sessions::lineage(conn, session)? {
            let branches: i64 = conn
                .query_row("SELECT count(*) FROM branches WHERE session = ?1", [key], |row| row.get(0))
                .map_err(&doing)?;
            // With one branch nothing was ever taken back; most sessions have one.
            if branches < 2 {
                continue;
            }
            let mut select = conn.prepare_cached("SELECT id FROM messages WHERE session = ?1").map_err(&doing)?;
            let ids = select.query_map([key], |row| row.get::<_, i64>(0)).map_err(&doing)?;
            for id in ids {
                let id = id.map_err(&doing)?;
                if !facts.states.path.contains(&id.max(0).unsigned_abs()) {
                    out.insert(id);
                }
            }
        }
        Ok(out)
    }

    /// Returns the id of the session that a message is of, unless it is this one.
    fn name_elsewhere(&self, conn: &Connection, session: i64, message: MessageId) -> Result<String, StoreError> {
        let sql = "SELECT s.id, s.name FROM messages m JOIN sessions s ON s.id = m.session WHERE m.id = ?1";
        let found: Option<(i64, String)> = conn
            .prepare_cached(sql)
            .and_then(|mut select| {
                select.query_row([count(message.0)], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(while_doing("reading a message"))?;
        Ok(found.filter(|(owner, _)| *owner != session).map(|(_, name)| name).unwrap_or_default())
    }
}

/// Finds a summary by its number in the search index.
fn node_of(conn: &Connection, doc: i64) -> Result<Option<(i64, String, NodeId)>, StoreError> {
    let sql = "SELECT n.session, s.name, n.node FROM nodes n JOIN sessions s ON s.id = n.session WHERE n.doc = ?1";
    conn.prepare_cached(sql)
        .and_then(|mut select| {
            select
                .query_row([doc], |row| {
                    let node: i64 = row.get(2)?;
                    Ok((row.get(0)?, row.get(1)?, NodeId(node.max(0).unsigned_abs())))
                })
                .optional()
        })
        .map_err(while_doing("reading a summary"))
}

fn take_over(reply: &mut RecallReply, page: &host_search::Page) {
    reply.total = reply.total.saturating_add(page.total);
    reply.total_is_least |= page.total_is_least;
    reply.scanned = reply.scanned.saturating_add(page.scanned);
    if reply.not_covered.is_empty() {
        reply.not_covered.clone_from(&page.not_covered);
    }
    if reply.total == 0 && reply.nearest.is_empty() {
        reply.nearest.clone_from(&page.nearest);
    }
    if reply.total > 0 {
        reply.nearest.clear();
    }
}

/// Where the messages of a session stand.
struct Place {
    states: States,
    coverage: Coverage,
    /// The live summary that stands for each message.
    covered_by: HashMap<u64, u64>,
}

impl Place {
    fn of(store: &Store, conn: &Connection, session: i64) -> Result<Place, StoreError> {
        let coverage = Coverage::read(conn, session)?;
        let mut covered_by = HashMap::new();
        for node in store.live_nodes(conn, session)? {
            covered_by.extend(coverage.below(node).into_iter().map(|message| (message, node)));
        }
        Ok(Place { states: store.states(conn, session)?, coverage, covered_by })
    }

    fn is_compacted(&self, id: u64) -> bool {
        self.states.of(id).compacted
    }

    fn hit(&self, row: &Row, (offset, bytes, text): (u64, u64, String)) -> RecallHit {
        let node = self.covered_by.get(&row.id.0).copied().map(NodeId).unwrap_or(row.node);
        let mut hit = RecallHit::new(row.id, node, row.role, text);
        (hit.offset, hit.text_bytes) = (offset, bytes);
        hit.tool = row.tools.first().cloned().unwrap_or_default();
        hit.at_ms = row.at_ms.max(0).unsigned_abs();
        hit.live = self.states.live.contains(&row.id.0);
        hit
    }
}

fn summary_hit(node: &NodeRow) -> RecallHit {
    let mut hit = RecallHit::new(MessageId(0), node.id, Role::Other, node.text.clone());
    hit.role = None;
    hit.depth = node.depth;
    hit.tokens = node.tokens;
    hit.text_bytes = node.text.len() as u64;
    hit.at_ms = node.last_ms.max(0).unsigned_abs();
    hit
}

/// Cuts a page out of a text: where it begins, the bytes of the whole, and the page.
pub fn cut(text: &str, offset: u64, limit: u64) -> (u64, u64, String) {
    let mut from = index(offset).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let mut to = if limit == 0 { text.len() } else { from.saturating_add(index(limit)).min(text.len()) };
    while !text.is_char_boundary(to) {
        to += 1;
    }
    (from as u64, text.len() as u64, text.get(from..to).unwrap_or_default().to_owned())
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn told(error: StoreError) -> EngineError {
    let kind = match error {
        StoreError::Invalid(_) | StoreError::NoSession(_) => ErrorKind::Input,
        _ => ErrorKind::Storage,
    };
    EngineError::new(kind, error.to_string())
}

/// Which texts a search reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Messages,
    Summaries,
}

/// The store's texts, as the search reads them.
pub(crate) struct Texts<'a> {
    conn: &'a Connection,
    reader: &'a dyn Reader,
    bodies: &'a Bodies,
    which: Which,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(conn: &'a Connection, reader: &'a dyn Reader, bodies: &'a Bodies, which: Which) -> Texts<'a> {
        Texts { conn, reader, bodies, which }
    }

    fn text_from(&self, dialect: u32, payload: Vec<u8>) -> String {
        let raw = String::from_utf8_lossy(&payload);
        match self.which {
            Which::Summaries => raw.into_owned(),
            Which::Messages => match self.reader.message(Dialect::from_code(dialect), &raw) {
                Some(message) => searchable(&message),
                None => raw.into_owned(),
            },
        }
    }

    fn sql(&self, columns: &str, rest: &str) -> String {
        let (table, id) = match self.which {
            // What the host wrote (flag 2) is found among the summaries.
            Which::Messages => ("messages", "(t.flags & 2) = 0 AND t.id"),
            Which::Summaries => ("nodes", "t.doc"),
        };
        format!(
            "SELECT {columns} FROM {table} t JOIN sessions s ON s.id = t.session JOIN bodies b ON b.id = t.body WHERE {id} {rest}"
        )
    }
}

fn sql_error(error: rusqlite::Error) -> SearchError {
    SearchError::Sql(error)
}

fn store_error(error: StoreError) -> SearchError {
    SearchError::Source(error.to_string())
}

impl Source for Texts<'_> {
    fn text(&self, id: i64) -> Result<Option<String>, SearchError> {
        let mut select = self.conn.prepare_cached(&self.sql("s.dialect, t.body", "= ?1")).map_err(sql_error)?;
        let found: Option<(u32, i64)> =
            select.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(sql_error)?;
        let Some((dialect, body)) = found else { return Ok(None) };
        Ok(Some(self.text_from(dialect, self.bodies.get(self.conn, body).map_err(store_error)?)))
    }

    fn facts(&self, id: i64) -> Result<Option<Facts>, SearchError> {
        let columns = match self.which {
            Which::Messages => "t.session, t.role, t.tools, 0, t.at_ms",
            Which::Summaries => "t.session, 255, NULL, t.depth, t.last_ms",
        };
        let mut select = self.conn.prepare_cached(&self.sql(columns, "= ?1")).map_err(sql_error)?;
        let facts = select.query_row([id], |row| {
            let tools: Option<String> = row.get(2)?;
            Ok(Facts {
                session: row.get(0)?,
                role: Role::from_code(row.get(1)?),
                tools: tools.map(|tools| tools.lines().map(str::to_owned).collect()).unwrap_or_default(),
                depth: row.get(3)?,
                at_ms: row.get(4)?,
            })
        });
        facts.optional().map_err(sql_error)
    }

    fn neighbours(&self, id: i64, each_side: u32) -> Result<Vec<i64>, SearchError> {
        if self.which == Which::Summaries {
            return Ok(Vec::new());
        }
        let mut place =
            self.conn.prepare_cached("SELECT session, branch FROM messages WHERE id = ?1").map_err(sql_error)?;
        let found: Option<(i64, i64)> =
            place.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(sql_error)?;
        let Some((session, branch)) = found else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for (side, order) in [("<", "DESC"), (">", "ASC")] {
            let sql = format!(
                "SELECT id FROM messages WHERE session = ?1 AND branch = ?2 AND id {side} ?3 ORDER BY id {order} LIMIT ?4"
            );
            let mut select = self.conn.prepare_cached(&sql).map_err(sql_error)?;
            let rows =
                select.query_map(params![session, branch, id, each_side], |row| row.get(0)).map_err(sql_error)?;
            for row in rows {
                out.push(row.map_err(sql_error)?);
            }
        }
        Ok(out)
    }

    fn scan(
        &self,
        range: RangeInclusive<i64>,
        newest_first: bool,
        each: &mut dyn FnMut(i64, &str) -> ControlFlow<()>,
    ) -> Result<(), SearchError> {
        let id = if self.which == Which::Messages { "t.id" } else { "t.doc" };
        let order = if newest_first { "DESC" } else { "ASC" };
        let columns = format!("{id}, s.dialect, b.id, b.codec, b.bytes, b.data");
        let sql = self.sql(&columns, &format!("BETWEEN ?1 AND ?2 ORDER BY {id} {order}"));
        let mut select = self.conn.prepare_cached(&sql).map_err(sql_error)?;
        let mut rows = select.query([range.start(), range.end()]).map_err(sql_error)?;
        while let Some(row) = rows.next().map_err(sql_error)? {
            let (id, dialect): (i64, u32) = (row.get(0).map_err(sql_error)?, row.get(1).map_err(sql_error)?);
            let (body, codec, bytes) =
                (row.get(2).map_err(sql_error)?, row.get(3).map_err(sql_error)?, row.get(4).map_err(sql_error)?);
            let data: Vec<u8> = row.get(5).map_err(sql_error)?;
            let payload = self.bodies.unpack(self.conn, body, codec, bytes, data).map_err(store_error)?;
            if each(id, &self.text_from(dialect, payload)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn id_range(&self) -> Result<Option<RangeInclusive<i64>>, SearchError> {
        let sql = match self.which {
            Which::Messages => "SELECT min(id), max(id) FROM messages WHERE (flags & 2) = 0",
            Which::Summaries => "SELECT min(doc), max(doc) FROM nodes",
        };
        let (least, most): (Option<i64>, Option<i64>) =
            self.conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(sql_error)?;
        Ok(least.zip(most).map(|(least, most)| least..=most))
    }
}
