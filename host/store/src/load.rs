//! Reading conversations: what a model is to see now, and everything that was ever said.

use crate::error::{StoreError, while_doing};
use crate::nodes::{self, NodeRow};
use crate::sessions::{self, SessionRow, count};
use crate::store::{MESSAGES, Store, searching};
use crate::{branches, views};
use engine_api::{Flags, MessageId, NodeId, Role};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// One message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: MessageId,
    /// Its JSON, byte for byte.
    pub raw: String,
    /// Who speaks.
    pub role: Role,
    /// Marks on the message as they were when it was stored.
    pub flags: Flags,
    /// When it was said, in milliseconds since 1970.
    pub at_ms: i64,
    /// Names of the tools that it calls or answers for.
    pub tools: Vec<String>,
    /// For what the host wrote: the summary behind it.
    pub node: NodeId,
    /// For what the host wrote: the message that it was made from.
    pub stands_for: Option<MessageId>,
    /// For what the host wrote: the parts that are shortened.
    pub demoted: Vec<u64>,
    /// Whether the host wrote it.
    pub is_written: bool,
}

/// What a session is opened with.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The session.
    pub session: SessionRow,
    /// The request body around the messages.
    pub shell: Option<String>,
    /// The live branch.
    pub branch: i64,
    /// The live view, if anything was compacted.
    pub view: Option<i64>,
    /// The newest message that is in it.
    pub upto: MessageId,
    /// What the model is to see, oldest first.
    pub messages: Vec<Row>,
    /// Real user messages that it does not see, oldest first: they are quoted.
    pub words: Vec<Row>,
    /// The session's summaries.
    pub nodes: Vec<NodeRow>,
    /// The first free number of a summary.
    pub next_node: NodeId,
}

/// Where a message stands, in Hermes' terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RowState {
    /// The model sees it.
    pub active: bool,
    /// A compaction took it out of the model's sight; it is found by searching.
    pub compacted: bool,
}

impl Store {
    /// Reads what a session is to go on with. Of the real user messages that are out of sight, the newest are read up to
    /// `words_bytes_max` bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn load(&self, session: i64, words_bytes_max: usize) -> Result<Loaded, StoreError> {
        let doing = "reading a session";
        self.read(doing, |conn| {
            let row = sessions::by_key(conn, session)?;
            let live = views::live(conn, session)?;
            let messages = self.rows_of(conn, &live.items)?;
            let shell: Option<i64> = conn
                .query_row("SELECT shell FROM sessions WHERE id = ?1", [session], |row| row.get(0))
                .map_err(while_doing(doing))?;
            let shell = match shell {
                Some(body) => Some(text(self.inner.bodies.get(conn, body)?)),
                None => None,
            };
            let next_node: i64 = conn
                .query_row("SELECT next_node FROM sessions WHERE id = ?1", [session], |row| row.get(0))
                .map_err(while_doing(doing))?;
            Ok(Loaded {
                words: if live.view.is_some() {
                    self.words_out_of_sight(conn, session, &live, words_bytes_max)?
                } else {
                    Vec::new()
                },
                nodes: nodes::all(conn, &self.inner.bodies, session)?,
                session: row,
                shell,
                branch: live.branch,
                view: live.view,
                upto: MessageId(live.upto),
                messages,
                next_node: NodeId(next_node.max(1).unsigned_abs()),
            })
        })
    }

    fn words_out_of_sight(
        &self,
        conn: &Connection,
        session: i64,
        live: &views::LiveView,
        bytes_max: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let seen: HashSet<u64> = live.items.iter().copied().collect();
        let mut found = Vec::new();
        let mut bytes = 0usize;
        for id in branches::path(conn, session, live.branch)?.into_iter().rev().filter(|id| !seen.contains(id)) {
            let flags: Option<u32> = conn
                .prepare_cached("SELECT flags FROM messages WHERE id = ?1 AND role = ?2")
                .and_then(|mut select| {
                    select.query_row([count(id), i64::from(Role::User.code())], |row| row.get(0)).optional()
                })
                .map_err(while_doing("reading messages"))?;
            if !flags.is_some_and(|flags| Flags(flags).has(Flags::REAL_USER)) {
                continue;
            }
            for row in self.rows_of(conn, &[id])? {
                bytes = bytes.saturating_add(row.raw.len());
                found.push(row);
            }
            if bytes > bytes_max {
                break;
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Reads messages by their ids, in the order of the ids; one that is missing is an error.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for an id that is not there, and those of reading.
    pub fn messages(&self, ids: &[MessageId]) -> Result<Vec<Row>, StoreError> {
        let ids: Vec<u64> = ids.iter().map(|id| id.0).collect();
        self.read("reading messages", |conn| self.rows_of(conn, &ids))
    }

    pub(crate) fn rows_of(&self, conn: &Connection, ids: &[u64]) -> Result<Vec<Row>, StoreError> {
        ids.iter()
            .map(|&id| self.row(conn, id)?.ok_or_else(|| StoreError::Invalid(format!("the store has no message {id}"))))
            .collect()
    }

    pub(crate) fn row(&self, conn: &Connection, id: u64) -> Result<Option<Row>, StoreError> {
        let doing = while_doing("reading messages");
        let mut select = conn
            .prepare_cached("SELECT body, role, flags, at_ms, tools FROM messages WHERE id = ?1")
            .map_err(&doing)?;
        let said = select
            .query_row([count(id)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get::<_, Option<String>>(4)?))
            })
            .optional()
            .map_err(&doing)?;
        if let Some((body, role, flags, at_ms, tools)) = said {
            return Ok(Some(Row {
                id: MessageId(id),
                raw: text(self.inner.bodies.get(conn, body)?),
                role: Role::from_code(role),
                flags: Flags(flags),
                at_ms,
                tools: tools.map(|tools| tools.lines().map(str::to_owned).collect()).unwrap_or_default(),
                node: NodeId(0),
                stands_for: None,
                demoted: Vec::new(),
                is_written: false,
            }));
        }
        let mut select = conn
            .prepare_cached("SELECT body, role, flags, node, stands_for, demoted FROM written WHERE id = ?1")
            .map_err(&doing)?;
        let written = select
            .query_row([count(id)], |row| {
                let (node, stands_for): (i64, Option<i64>) = (row.get(3)?, row.get(4)?);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, node, stands_for, row.get::<_, Option<Vec<u8>>>(5)?))
            })
            .optional()
            .map_err(&doing)?;
        let Some((body, role, flags, node, stands_for, demoted)) = written else { return Ok(None) };
        Ok(Some(Row {
            id: MessageId(id),
            raw: text(self.inner.bodies.get(conn, body)?),
            role: Role::from_code(role),
            flags: Flags(flags),
            at_ms: 0,
            tools: Vec::new(),
            node: NodeId(node.max(0).unsigned_abs()),
            stands_for: stands_for.map(|id| MessageId(id.max(0).unsigned_abs())),
            demoted: demoted.map(|list| crate::runs::decode(&list)).transpose()?.unwrap_or_default(),
            is_written: true,
        }))
    }

    /// Reads a page of all messages that were stored under a session, oldest first, with what became of each.
    ///
    /// # Errors
    /// Those of reading.
    pub fn rows(&self, session: i64, after: MessageId, limit: u64) -> Result<Vec<(Row, RowState)>, StoreError> {
        let doing = while_doing("reading messages");
        self.read("reading messages", |conn| {
            let states = self.states(conn, session)?;
            let mut select = conn
                .prepare_cached("SELECT id FROM messages WHERE session = ?1 AND id > ?2 ORDER BY id LIMIT ?3")
                .map_err(&doing)?;
            let ids = select
                .query_map([session, count(after.0), count(limit)], |row| row.get::<_, i64>(0))
                .map_err(&doing)?
                .collect::<Result<Vec<_>, _>>()
                .map_err(&doing)?;
            ids.into_iter()
                .map(|id| {
                    let id = id.max(0).unsigned_abs();
                    let row = self.row(conn, id)?;
                    let row = row.ok_or_else(|| StoreError::Invalid(format!("the store has no message {id}")))?;
                    Ok((row, states.of(id)))
                })
                .collect()
        })
    }

    pub(crate) fn states(&self, conn: &Connection, session: i64) -> Result<States, StoreError> {
        let live = views::live(conn, session)?;
        let path = branches::path(conn, session, live.branch)?;
        Ok(States { live: live.items.into_iter().collect(), path: path.into_iter().collect() })
    }

    /// Returns a session's summaries.
    ///
    /// # Errors
    /// Those of reading.
    pub fn nodes(&self, session: i64) -> Result<Vec<NodeRow>, StoreError> {
        self.read("reading summaries", |conn| nodes::all(conn, &self.inner.bodies, session))
    }

    /// Returns how many messages the search index has outside of its segments; from [`UNFILLED_MAX`](crate::UNFILLED_MAX) on,
    /// the writer makes a segment of them when it is idle.
    ///
    /// # Errors
    /// Those of reading.
    pub fn unfilled(&self) -> Result<u64, StoreError> {
        self.read("reading the search index", |conn| MESSAGES.unfilled(conn).map_err(searching))
    }

    /// Returns how many rows each kind has, for tests and `doctor`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn counts(&self) -> Result<HashMap<&'static str, u64>, StoreError> {
        let doing = while_doing("counting");
        self.read("counting", |conn| {
            let mut out = HashMap::new();
            for table in ["sessions", "messages", "written", "bodies", "views", "nodes", "receipts", "branches"] {
                let rows: i64 =
                    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).map_err(&doing)?;
                out.insert(table, rows.max(0).unsigned_abs());
            }
            Ok(out)
        })
    }
}

/// Which messages of a session are in sight, and which are on its live branch.
pub(crate) struct States {
    pub(crate) live: HashSet<u64>,
    pub(crate) path: HashSet<u64>,
}

impl States {
    /// Tells in Hermes' terms what became of a message: one that was rewound is neither active nor compacted.
    pub(crate) fn of(&self, id: u64) -> RowState {
        let active = self.live.contains(&id);
        RowState { active, compacted: !active && self.path.contains(&id) }
    }
}

fn text(bytes: Vec<u8>) -> String {
    // Messages are stored as texts, so the bytes are one unless the file was changed by others.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
