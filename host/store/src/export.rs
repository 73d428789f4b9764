//! The store as lines of JSON, and back: everything it holds, byte for byte, also what is left of a damaged file.

use crate::bodies::{self, Bodies};
use crate::commit::{NewNode, StoredNode};
use crate::error::{StoreError, while_doing};
use crate::sessions::{self, NewSession, count};
use crate::store::Store;
use crate::{append, commit, runs};
use engine_api::{Dialect, Flags, MessageId, NodeId, SummaryKind};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// The form of the lines; a reader refuses a greater one.
const FORM: u64 = 1;
/// Bytes of one line at most.
const LINE_BYTES_MAX: usize = 2 * bodies::BODY_BYTES_MAX;

/// One line. Ids are those of the store that wrote them; reading moves all of them by the same distance.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    PalimpsestStore {
        form: u64,
    },
    Session {
        name: String,
        parent: Option<String>,
        kinship: String,
        dialect: u32,
        platform: String,
        model: String,
        title: String,
        shell: Option<String>,
        created_ms: i64,
        updated_ms: i64,
        ended_ms: Option<i64>,
        end_reason: String,
        branch: i64,
        next_node: i64,
    },
    Message {
        id: u64,
        session: String,
        branch: i64,
        at_ms: i64,
        flags: u32,
        sha256: String,
        raw: String,
    },
    Written {
        id: u64,
        session: String,
        role: u32,
        flags: u32,
        node: u64,
        stands_for: Option<u64>,
        demoted: Vec<u64>,
        raw: String,
    },
    Node {
        session: String,
        node: u64,
        depth: u32,
        kind: SummaryKind,
        tokens: u64,
        source_tokens: u64,
        messages: Vec<u64>,
        nodes: Vec<u64>,
        first_ms: i64,
        last_ms: i64,
        model: String,
        made_ms: i64,
        text: String,
    },
    View {
        id: i64,
        session: String,
        branch: i64,
        previous: Option<i64>,
        items: Vec<u64>,
        dropped: Vec<u64>,
        upto: u64,
        cause: String,
        made_ms: i64,
    },
    Branch {
        session: String,
        branch: i64,
        path: Vec<u64>,
        upto: u64,
        view: Option<i64>,
        forked_from: Option<i64>,
        made_ms: i64,
    },
    Receipt {
        session: String,
        view: Option<i64>,
        action: String,
        at_ms: i64,
        json: String,
    },
    State {
        session: String,
        engine: String,
        key: String,
        value: String,
    },
    Pin {
        session: String,
        pin: u64,
        rule: String,
        made_ms: i64,
    },
    /// What could not be read of a damaged file.
    Unreadable {
        what: String,
        why: String,
    },
}

/// What was written or read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Sessions.
    pub sessions: u64,
    /// Messages.
    pub messages: u64,
    /// Summaries.
    pub nodes: u64,
    /// Rows that a damaged file did not give.
    pub unreadable: u64,
}

impl Store {
    /// Writes sessions, or all of them, as lines of JSON. What a damaged file does not give is a line of its own.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if nothing can be written to `out`, and those of reading the list of sessions.
    pub fn export(&self, session: Option<i64>, out: &mut dyn Write) -> Result<Carried, StoreError> {
        self.read("exporting", |conn| {
            let mut done = Carried::default();
            put(out, &Line::PalimpsestStore { form: FORM })?;
            // Parents have lower keys than their children, so they are read back first.
            let keys =
                ids(conn, "SELECT id FROM sessions WHERE ?1 IS NULL OR id = ?1 ORDER BY id", session, out, &mut done)?;
            for key in &keys {
                let line = self.session_line(conn, *key);
                done.sessions += u64::from(emit(out, &mut done, "a session", line)?);
            }
            let sql = "SELECT id FROM messages WHERE ?1 IS NULL OR session = ?1 ORDER BY id";
            for id in self.ids_or_all(conn, sql, "messages", session, out, &mut done)? {
                let line = self.message_line(conn, id);
                done.messages += u64::from(emit(out, &mut done, &format!("message {id}"), line)?);
            }
            let sql = "SELECT id FROM written WHERE ?1 IS NULL OR session = ?1 ORDER BY id";
            for id in self.ids_or_all(conn, sql, "written", session, out, &mut done)? {
                let line = self.written_line(conn, id);
                emit(out, &mut done, &format!("row {id}"), line)?;
            }
            for key in &keys {
                for line in self.beside(conn, *key, out, &mut done)? {
                    done.nodes += u64::from(matches!(line, Line::Node { .. }));
                    put(out, &line)?;
                }
            }
            Ok(done)
        })
    }

    /// Returns ids by an index, or, where that is damaged, by trying all.
    fn ids_or_all(
        &self,
        conn: &Connection,
        sql: &str,
        table: &str,
        session: Option<i64>,
        out: &mut dyn Write,
        done: &mut Carried,
    ) -> Result<Vec<i64>, StoreError> {
        let before = done.unreadable;
        let found = ids(conn, sql, session, out, done)?;
        if done.unreadable == before {
            return Ok(found);
        }
        let next: i64 = conn
            .query_row("SELECT next FROM counters WHERE name = 'message'", [], |row| row.get(0))
            .unwrap_or_else(|_| found.last().copied().unwrap_or(0).saturating_mul(2).saturating_add(1_000));
        let mut select = conn
            .prepare(&format!("SELECT 1 FROM {table} WHERE id = ?1 AND (?2 IS NULL OR session = ?2)"))
            .map_err(while_doing("exporting"))?;
        Ok((1..next).filter(|id| select.exists(params![id, session]).unwrap_or(false)).collect())
    }

    fn session_line(&self, conn: &Connection, key: i64) -> Result<Line, StoreError> {
        let row = sessions::by_key(conn, key)?;
        let sql = "SELECT shell, next_node FROM sessions WHERE id = ?1";
        let (shell, next_node): (Option<i64>, i64) =
            conn.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?))).map_err(while_doing("exporting"))?;
        Ok(Line::Session {
            name: row.name,
            parent: row.parent,
            kinship: row.kinship,
            dialect: row.dialect.code(),
            platform: row.platform,
            model: row.model,
            title: row.title,
            shell: shell.map(|body| self.text(conn, body)).transpose()?,
            created_ms: row.created_ms,
            updated_ms: row.updated_ms,
            ended_ms: row.ended_ms,
            end_reason: row.end_reason,
            branch: row.branch,
            next_node,
        })
    }

    fn message_line(&self, conn: &Connection, id: i64) -> Result<Line, StoreError> {
        let sql = "SELECT s.name, m.branch, m.at_ms, m.flags, m.body FROM messages m JOIN sessions s ON s.id = m.session WHERE m.id = ?1";
        let (session, branch, at_ms, flags, body): (String, i64, i64, u32, i64) = conn
            .prepare_cached(sql)
            .and_then(|mut select| {
                select.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
            })
            .map_err(while_doing("exporting"))?;
        let raw = self.text(conn, body)?;
        let sha256 = hex(&bodies::hash(raw.as_bytes()));
        Ok(Line::Message { id: id.max(0).unsigned_abs(), session, branch, at_ms, flags, sha256, raw })
    }

    fn written_line(&self, conn: &Connection, id: i64) -> Result<Line, StoreError> {
        let name: String = conn
            .query_row(
                "SELECT s.name FROM written w JOIN sessions s ON s.id = w.session WHERE w.id = ?1",
                [id],
                |row| row.get(0),
            )
            .map_err(while_doing("exporting"))?;
        let id = id.max(0).unsigned_abs();
        let row = self.row(conn, id)?.ok_or_else(|| StoreError::Invalid(format!("row {id} is missing")))?;
        Ok(Line::Written {
            id,
            session: name,
            role: row.role.code(),
            flags: row.flags.0,
            node: row.node.0,
            stands_for: row.stands_for.map(|id| id.0),
            demoted: row.demoted,
            raw: row.raw,
        })
    }

    /// Returns what a session has beside messages.
    fn beside(
        &self,
        conn: &Connection,
        key: i64,
        out: &mut dyn Write,
        done: &mut Carried,
    ) -> Result<Vec<Line>, StoreError> {
        let doing = while_doing("exporting");
        let session = sessions::by_key(conn, key)?.name;
        let mut lines = Vec::new();
        for node in ids(conn, "SELECT node FROM nodes WHERE session = ?1 ORDER BY node", Some(key), out, done)? {
            match crate::nodes::one(conn, &self.inner.bodies, key, NodeId(node.max(0).unsigned_abs())) {
                Ok(Some(row)) => lines.push(Line::Node {
                    session: session.clone(),
                    node: row.id.0,
                    depth: row.depth,
                    kind: row.kind,
                    tokens: row.tokens,
                    source_tokens: row.source_tokens,
                    messages: row.messages.iter().map(|id| id.0).collect(),
                    nodes: row.nodes.iter().map(|id| id.0).collect(),
                    first_ms: row.first_ms,
                    last_ms: row.last_ms,
                    model: row.model,
                    made_ms: row.made_ms,
                    text: row.text,
                }),
                Ok(None) => {}
                Err(error) => unreadable(out, done, &format!("summary {node}"), &error)?,
            }
        }
        for view in ids(conn, "SELECT id FROM views WHERE session = ?1 ORDER BY id", Some(key), out, done)? {
            let read = crate::views::read(conn, view).and_then(|row| {
                let sql = "SELECT cause, made_ms FROM views WHERE id = ?1";
                let (cause, made_ms) =
                    conn.query_row(sql, [view], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
                let (session, branch, upto) = (session.clone(), row.branch, row.upto);
                Ok(Line::View {
                    id: view,
                    session,
                    branch,
                    previous: row.previous,
                    items: row.items,
                    dropped: row.dropped,
                    upto,
                    cause,
                    made_ms,
                })
            });
            match read {
                Ok(line) => lines.push(line),
                Err(error) => unreadable(out, done, &format!("view {view}"), &error)?,
            }
        }
        for branch in ids(conn, "SELECT branch FROM branches WHERE session = ?1 ORDER BY branch", Some(key), out, done)?
        {
            let read = crate::branches::read(conn, key, branch).and_then(|row| {
                let sql = "SELECT forked_from, made_ms FROM branches WHERE session = ?1 AND branch = ?2";
                let (forked_from, made_ms) =
                    conn.query_row(sql, [key, branch], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
                let session = session.clone();
                Ok(Line::Branch {
                    session,
                    branch,
                    path: row.path,
                    upto: row.upto,
                    view: row.view,
                    forked_from,
                    made_ms,
                })
            });
            match read {
                Ok(line) => lines.push(line),
                Err(error) => unreadable(out, done, &format!("branch {branch}"), &error)?,
            }
        }
        let mut select = conn
            .prepare("SELECT view, action, body, at_ms FROM receipts WHERE session = ?1 ORDER BY id")
            .map_err(&doing)?;
        let rows: Vec<(Option<i64>, String, i64, i64)> = select
            .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .map_err(&doing)?
            .filter_map(Result::ok)
            .collect();
        for (view, action, body, at_ms) in rows {
            match self.text(conn, body) {
                Ok(json) => lines.push(Line::Receipt { session: session.clone(), view, action, at_ms, json }),
                Err(error) => unreadable(out, done, "a receipt", &error)?,
            }
        }
        let sql = "SELECT engine, key, hex(value) FROM engine_state WHERE session = ?1 ORDER BY engine, key";
        let mut select = conn.prepare(sql).map_err(&doing)?;
        let rows = select.query_map([key], |row| {
            Ok(Line::State { session: session.clone(), engine: row.get(0)?, key: row.get(1)?, value: row.get(2)? })
        });
        lines.extend(rows.map_err(&doing)?.filter_map(Result::ok));
        let mut select =
            conn.prepare("SELECT pin, rule, made_ms FROM pins WHERE session = ?1 ORDER BY pin").map_err(&doing)?;
        let rows = select.query_map([key], |row| {
            let pin: i64 = row.get(0)?;
            Ok(Line::Pin {
                session: session.clone(),
                pin: pin.max(0).unsigned_abs(),
                rule: row.get(1)?,
                made_ms: row.get(2)?,
            })
        });
        lines.extend(rows.map_err(&doing)?.filter_map(Result::ok));
        Ok(lines)
    }

    fn text(&self, conn: &Connection, body: i64) -> Result<String, StoreError> {
        String::from_utf8(self.inner.bodies.get(conn, body)?)
            .map_err(|_| StoreError::Damaged { doing: "exporting", why: format!("payload {body} is no text") })
    }

    /// Reads lines that [`Store::export`] wrote, all or none. Sessions must not be there yet.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] with the line's number for what is no such line or does not fit, [`StoreError::SessionExists`].
    pub fn import(&self, input: &mut dyn BufRead) -> Result<Carried, StoreError> {
        let mut lines = Vec::new();
        let mut number = 0usize;
        loop {
            let mut text = String::new();
            number += 1;
            let read = std::io::Read::take(&mut *input, LINE_BYTES_MAX as u64).read_line(&mut text);
            let bad = |why: String| StoreError::Invalid(format!("line {number}: {why}"));
            if read.map_err(|error| bad(error.to_string()))? == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
            lines.push((number, line));
        }
        match lines.first() {
            Some((_, Line::PalimpsestStore { form })) if *form <= FORM => {}
            Some((_, Line::PalimpsestStore { form })) => {
                return Err(StoreError::Invalid(format!("the lines have form {form}, this version reads {FORM}")));
            }
            _ => return Err(StoreError::Invalid("line 1: these are no lines of a store".to_owned())),
        }
        // The reader's work is done before the writer is held.
        let prepared: Vec<(usize, Line, Option<append::Incoming>)> = lines
            .into_iter()
            .scan(std::collections::HashMap::new(), |dialects, (number, line)| {
                if let Line::Session { name, dialect, .. } = &line {
                    dialects.insert(name.clone(), Dialect::from_code(*dialect));
                }
                let incoming = match &line {
                    Line::Message { session, raw, at_ms, flags, .. } => {
                        let dialect = dialects.get(session).copied().unwrap_or(Dialect::OpenAiChat);
                        self.inner.reader.message(dialect, raw).map(|mut message| {
                            message.flags = Flags(*flags);
                            self.incoming(&message, *at_ms)
                        })
                    }
                    _ => None,
                };
                Some((number, line, incoming))
            })
            .collect();
        let bodies = self.inner.bodies.clone();
        self.write("importing", move |conn| take_in(conn, &bodies, prepared))
    }
}

fn take_in(
    conn: &Connection,
    bodies: &Bodies,
    lines: Vec<(usize, Line, Option<append::Incoming>)>,
) -> Result<Carried, StoreError> {
    let doing = while_doing("importing");
    let mut done = Carried::default();
    let most = lines
        .iter()
        .map(|(_, line, _)| match line {
            Line::Message { id, .. } | Line::Written { id, .. } => *id,
            _ => 0,
        })
        .max()
        .unwrap_or(0);
    // All ids move by one distance, so what follows another still does.
    let shift = append::reserve(conn, most.saturating_add(1))?.saturating_sub(1);
    let view_shift: i64 =
        conn.query_row("SELECT coalesce(max(id), 0) FROM views", [], |row| row.get(0)).map_err(&doing)?;
    let moved = |list: &[u64]| list.iter().map(|id| id.saturating_add(shift)).collect::<Vec<u64>>();
    let key_of = |name: &str| -> Result<i64, StoreError> {
        let found: Option<i64> = conn
            .prepare_cached("SELECT id FROM sessions WHERE name = ?1")
            .and_then(|mut select| select.query_row([name], |row| row.get(0)).optional())
            .map_err(while_doing("importing"))?;
        found.ok_or_else(|| StoreError::NoSession(name.to_owned()))
    };
    for (number, line, incoming) in lines {
        let bad = |why: String| StoreError::Invalid(format!("line {number}: {why}"));
        match line {
            Line::PalimpsestStore { .. } => {}
            Line::Unreadable { .. } => done.unreadable += 1,
            Line::Session {
                name,
                parent,
                kinship,
                dialect,
                platform,
                model,
                title,
                shell,
                created_ms,
                updated_ms,
                ended_ms,
                end_reason,
                branch,
                next_node,
            } => {
                let created_ms = Some(created_ms);
                let dialect = Some(Dialect::from_code(dialect));
                let new = NewSession { name, dialect, platform, model, title, shell, created_ms };
                sessions::check_name(&new.name)?;
                // A parent that is not among these stays unknown.
                let parent = parent.and_then(|parent| key_of(&parent).ok());
                let key = sessions::insert(conn, bodies, &new, parent.map(|parent| (parent, kinship.as_str())))?;
                conn.execute("DELETE FROM branches WHERE session = ?1", [key]).map_err(&doing)?;
                conn.execute(
                    "UPDATE sessions SET updated_ms = ?2, ended_ms = ?3, end_reason = ?4, branch = ?5, next_node = ?6 WHERE id = ?1",
                    params![key, updated_ms, ended_ms, end_reason, branch, next_node],
                )
                .map_err(&doing)?;
                done.sessions += 1;
            }
            Line::Message { id, session, branch, sha256, raw, .. } => {
                if hex(&bodies::hash(raw.as_bytes())) != sha256 {
                    return Err(bad(format!("message {id} is not what its hash says")));
                }
                let incoming = incoming.ok_or_else(|| bad(format!("message {id} is no message of its dialect")))?;
                append::insert_at(conn, bodies, key_of(&session)?, branch, id.saturating_add(shift), &[incoming])?;
                done.messages += 1;
            }
            Line::Written { id, session, role, flags, node, stands_for, demoted, raw } => {
                let body = bodies.put(conn, raw.as_bytes())?;
                conn.execute(
                    "INSERT INTO written (id, session, body, role, flags, node, stands_for, demoted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        count(id.saturating_add(shift)),
                        key_of(&session)?,
                        body,
                        role,
                        flags,
                        count(node),
                        stands_for.map(|id| count(id.saturating_add(shift))),
                        (!demoted.is_empty()).then(|| runs::encode(&demoted))
                    ],
                )
                .map_err(&doing)?;
            }
            Line::Node {
                session,
                node,
                depth,
                kind,
                tokens,
                source_tokens,
                messages,
                nodes,
                first_ms,
                last_ms,
                model,
                made_ms,
                text,
            } => {
                let (messages, children) = (moved(&messages), nodes);
                let node = NewNode {
                    id: NodeId(node),
                    depth,
                    kind,
                    text,
                    messages: messages.iter().map(|id| MessageId(*id)).collect(),
                    nodes: children.iter().map(|id| NodeId(*id)).collect(),
                    tokens,
                    source_tokens,
                    model,
                };
                let stored = StoredNode {
                    node: &node,
                    messages: &messages,
                    children: &children,
                    first: first_ms,
                    last: last_ms,
                    made_ms,
                };
                commit::put_node(conn, bodies, key_of(&session)?, &stored)?;
                done.nodes += 1;
            }
            Line::View { id, session, branch, previous, items, dropped, upto, cause, made_ms } => {
                conn.execute(
                    "INSERT INTO views (id, session, branch, previous, items, dropped, upto, cause, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![
                        id.saturating_add(view_shift),
                        key_of(&session)?,
                        branch,
                        previous.map(|view| view.saturating_add(view_shift)),
                        runs::encode(&moved(&items)),
                        runs::encode(&moved(&dropped)),
                        count(upto.saturating_add(shift)),
                        cause,
                        made_ms
                    ],
                )
                .map_err(&doing)?;
            }
            Line::Branch { session, branch, path, upto, view, forked_from, made_ms } => {
                conn.execute(
                    "INSERT INTO branches (session, branch, path, upto, view, forked_from, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![
                        key_of(&session)?,
                        branch,
                        runs::encode(&moved(&path)),
                        count(upto.saturating_add(shift)),
                        view.map(|view| view.saturating_add(view_shift)),
                        forked_from,
                        made_ms
                    ],
                )
                .map_err(&doing)?;
            }
            Line::Receipt { session, view, action, at_ms, json } => {
                let body = bodies.put(conn, json.as_bytes())?;
                conn.execute(
                    "INSERT INTO receipts (session, view, action, body, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![key_of(&session)?, view.map(|view| view.saturating_add(view_shift)), action, body, at_ms],
                )
                .map_err(&doing)?;
            }
            Line::State { session, engine, key, value } => {
                let value = unhex(&value).ok_or_else(|| bad("a value that is no hexadecimal".to_owned()))?;
                crate::state::put(conn, key_of(&session)?, &engine, &key, &value)?;
            }
            Line::Pin { session, pin, rule, made_ms } => {
                conn.execute(
                    "INSERT INTO pins (session, pin, rule, made_ms) VALUES (?1, ?2, ?3, ?4)",
                    params![key_of(&session)?, count(pin), rule, made_ms],
                )
                .map_err(&doing)?;
            }
        }
    }
    Ok(done)
}

fn put(out: &mut dyn Write, line: &Line) -> Result<(), StoreError> {
    let text = serde_json::to_string(line).map_err(|error| StoreError::Invalid(error.to_string()))?;
    writeln!(out, "{text}").map_err(|error| StoreError::Invalid(format!("the export could not be written: {error}")))
}

/// Writes a line, or what could not be read; returns whether it could.
fn emit(
    out: &mut dyn Write,
    done: &mut Carried,
    what: &str,
    line: Result<Line, StoreError>,
) -> Result<bool, StoreError> {
    match line {
        Ok(line) => put(out, &line).map(|()| true),
        Err(error) => unreadable(out, done, what, &error).map(|()| false),
    }
}

fn unreadable(out: &mut dyn Write, done: &mut Carried, what: &str, error: &StoreError) -> Result<(), StoreError> {
    done.unreadable += 1;
    put(out, &Line::Unreadable { what: what.to_owned(), why: error.to_string() })
}

/// Reads ids as far as the file gives them.
fn ids(
    conn: &Connection,
    sql: &str,
    key: Option<i64>,
    out: &mut dyn Write,
    done: &mut Carried,
) -> Result<Vec<i64>, StoreError> {
    let doing = while_doing("exporting");
    let mut select = conn.prepare_cached(sql).map_err(&doing)?;
    let mut rows = select.query([key]).map_err(&doing)?;
    let mut found = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => found.push(row.get(0).map_err(&doing)?),
            Ok(None) => return Ok(found),
            Err(error) => {
                unreadable(out, done, "a list of rows", &doing(error))?;
                return Ok(found);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(high * 16 + low).ok(),
            _ => None,
        })
        .collect()
}
