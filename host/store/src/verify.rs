//! Proves a store: bytes by their hashes, and that every message can be reached from what is live.

use crate::bodies;
use crate::error::{StoreError, while_doing};
use crate::nodes::Coverage;
use crate::sessions::count;
use crate::store::{MESSAGES, SUMMARIES, Store, searching};
use crate::{branches, recall, views};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use std::collections::HashSet;

/// Problems that are listed; further ones are counted.
const PROBLEMS_LISTED: usize = 100;

/// What proving a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Sessions that were looked at.
    pub sessions: u64,
    /// Messages whose bytes were proved by their hash.
    pub messages: u64,
    /// Other payloads so proved.
    pub payloads: u64,
    /// Summaries that were followed to their messages.
    pub nodes: u64,
    /// What is wrong, one line each, at most a hundred.
    pub problems: Vec<String>,
    /// Problems in all.
    pub problem_count: u64,
}

impl Verified {
    fn add(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED {
            self.problems.push(problem);
        }
    }
}

impl Store {
    /// Proves one session, or all: each payload by its hash, each list of ids, and that every message of a live branch is
    /// in its view, below a summary that is in it, or noted as left out. With `deep`, SQLite's own check of the whole file
    /// and of the search index comes first.
    ///
    /// # Errors
    /// Those of reading, where the file is too damaged to go on; what is wrong otherwise is in the result.
    pub fn verify(&self, session: Option<i64>, deep: bool) -> Result<Verified, StoreError> {
        self.read("proving the store", |conn| {
            let mut found = Verified::default();
            if deep {
                check_file(conn, &mut found)?;
                for (index, which) in [(MESSAGES, recall::Which::Messages), (SUMMARIES, recall::Which::Summaries)] {
                    let source = recall::Texts::new(conn, self.inner.reader.as_ref(), &self.inner.bodies, which);
                    for problem in index.verify_deep(conn, &source).map_err(searching)? {
                        found.add(problem);
                    }
                }
            }
            match session {
                Some(session) => self.prove_payloads_of(conn, session, &mut found)?,
                None => self.prove_all_payloads(conn, &mut found)?,
            }
            let sessions: Vec<(i64, String)> = {
                let doing = while_doing("listing sessions");
                let mut select = conn
                    .prepare("SELECT id, name FROM sessions WHERE ?1 IS NULL OR id = ?1 ORDER BY id")
                    .map_err(&doing)?;
                let rows = select.query_map([session], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
                rows.collect::<Result<_, _>>().map_err(&doing)?
            };
            for (key, name) in sessions {
                found.sessions += 1;
                if let Err(error) = self.prove_session(conn, key, &name, &mut found) {
                    found.add(format!("session \"{name}\": {error}"));
                }
            }
            Ok(found)
        })
    }

    fn prove_all_payloads(&self, conn: &Connection, found: &mut Verified) -> Result<(), StoreError> {
        let doing = while_doing("proving the store");
        let messages: i64 = conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).map_err(&doing)?;
        let last: Option<i64> = conn.query_row("SELECT max(id) FROM bodies", [], |row| row.get(0)).map_err(&doing)?;
        let before = found.problem_count;
        let mut payloads = 0u64;
        for id in 1..=last.unwrap_or(0) {
            match self.prove(conn, id) {
                Ok(true) => payloads += 1,
                Ok(false) => {}
                Err(error) => found.add(error.to_string()),
            }
        }
        let missing: i64 = conn
            .query_row("SELECT count(*) FROM messages WHERE body NOT IN (SELECT id FROM bodies)", [], |row| row.get(0))
            .map_err(&doing)?;
        if missing > 0 {
            found.add(format!("{missing} messages have no payload"));
        }
        let damaged = found.problem_count - before;
        found.messages = messages.max(0).unsigned_abs().saturating_sub(damaged);
        found.payloads = payloads.saturating_sub(found.messages);
        Ok(())
    }

    fn prove_payloads_of(&self, conn: &Connection, session: i64, found: &mut Verified) -> Result<(), StoreError> {
        let doing = while_doing("proving the store");
        let path = branches::path(conn, session, branches::live(conn, session)?)?;
        let mut select = conn.prepare_cached("SELECT body FROM messages WHERE id = ?1").map_err(&doing)?;
        for id in path {
            let body: Option<i64> = select.query_row([count(id)], |row| row.get(0)).optional().map_err(&doing)?;
            match body.map(|body| self.prove(conn, body)) {
                Some(Ok(true)) => found.messages += 1,
                Some(Err(error)) => found.add(format!("message {id}: {error}")),
                Some(Ok(false)) | None => found.add(format!("message {id} is missing")),
            }
        }
        Ok(())
    }

    /// Tells whether there is a payload; an error if it is not what was stored.
    fn prove(&self, conn: &Connection, body: i64) -> Result<bool, StoreError> {
        let is_there: Option<i64> = conn
            .prepare_cached("SELECT 1 FROM bodies WHERE id = ?1")
            .and_then(|mut select| select.query_row([body], |row| row.get(0)).optional())
            .map_err(while_doing("proving the store"))?;
        if is_there.is_none() {
            return Ok(false);
        }
        let (payload, wanted) = self.inner.bodies.get_unproved(conn, body)?;
        if bodies::hash(&payload)[..] == wanted[..] {
            return Ok(true);
        }
        let why = format!("payload {body} is not what was stored: its hash differs");
        Err(StoreError::Damaged { doing: "proving the store", why })
    }

    fn prove_session(&self, conn: &Connection, key: i64, name: &str, found: &mut Verified) -> Result<(), StoreError> {
        let coverage = Coverage::read(conn, key)?;
        let mut add = |problem: String| found.add(format!("session \"{name}\": {problem}"));
        let mut nodes = 0u64;
        for (node, messages, children) in coverage.edges() {
            nodes += 1;
            for child in children.iter().filter(|child| !coverage.has(**child)) {
                add(format!("summary {node} stands for summary {child}, which is missing"));
            }
            // Numbers rise as summaries are made, so one that stands for itself or a later one cannot have been made.
            for child in children.iter().filter(|child| **child >= node) {
                add(format!("summary {node} stands for summary {child}, which is not older"));
            }
            for message in messages.iter().filter(|message| !has(conn, "messages", **message)) {
                add(format!("summary {node} stands for message {message}, which is missing"));
            }
        }
        let branch = branches::live(conn, key)?;
        let path = branches::path(conn, key, branch)?;
        let live = views::live(conn, key)?;
        let mut reached: HashSet<u64> = HashSet::new();
        let mut seen = HashSet::new();
        for &item in &live.items {
            if !seen.insert(item) {
                add(format!("the live view shows {item} twice"));
            }
            match self.row(conn, item) {
                Ok(Some(row)) if row.is_written => {
                    reached.extend(row.stands_for.map(|id| id.0));
                    for message in coverage.below(row.node.0) {
                        if !reached.insert(message) && live.items.contains(&message) {
                            add(format!("message {message} is in the live view and below summary {}", row.node.0));
                        }
                    }
                }
                Ok(Some(row)) => {
                    reached.insert(row.id.0);
                }
                Ok(None) => add(format!("the live view shows {item}, which is missing")),
                Err(error) => add(format!("message {item}: {error}")),
            }
        }
        if let Some(view) = live.view {
            reached.extend(views::read(conn, view)?.dropped);
        }
        // What the host wrote into a resent history is a summary again, and its messages are below it.
        for &message in path.iter().filter(|message| !reached.contains(message)) {
            let is_ours: bool = conn
                .prepare_cached("SELECT flags & 2 FROM messages WHERE id = ?1")
                .and_then(|mut select| select.query_row([count(message)], |row| row.get(0)).optional())
                .map_err(while_doing("proving the store"))?
                .unwrap_or(false);
            if !is_ours {
                add(format!("message {message} is neither in the live view nor below it"));
            }
        }
        for &message in path.iter().filter(|message| !has(conn, "messages", **message)) {
            add(format!("message {message} of the live branch is missing"));
        }
        found.nodes += nodes;
        Ok(())
    }
}

fn has(conn: &Connection, table: &str, id: u64) -> bool {
    conn.prepare_cached(&format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE id = ?1)"))
        .and_then(|mut select| select.query_row([count(id)], |row| row.get(0)))
        .unwrap_or(false)
}

fn check_file(conn: &Connection, found: &mut Verified) -> Result<(), StoreError> {
    let doing = while_doing("checking the file");
    let mut check = conn.prepare("PRAGMA integrity_check(100)").map_err(&doing)?;
    let lines = check.query_map([], |row| row.get::<_, String>(0)).map_err(&doing)?;
    for line in lines {
        let line = line.map_err(&doing)?;
        if line != "ok" {
            found.add(format!("SQLite: {line}"));
        }
    }
    let mut check = conn.prepare("PRAGMA foreign_key_check").map_err(&doing)?;
    let mut rows = check.query([]).map_err(&doing)?;
    while let Some(row) = rows.next().map_err(&doing)? {
        let (table, other): (String, String) = (row.get(0).map_err(&doing)?, row.get(2).map_err(&doing)?);
        found.add(format!("a row of {table} names a row of {other} that is missing"));
    }
    Ok(())
}
