//! Going back, and going on under another id: undo, rotation, forks, new sessions.

use crate::commit::{self, Commit, Committed};
use crate::error::{StoreError, while_doing};
use crate::lease::{self, Lease};
use crate::sessions::{self, NewSession, SessionRow, count};
use crate::store::{Store, now_ms};
use crate::views::NewView;
use crate::{branches, views};
use rusqlite::{Connection, params};

/// How a session comes from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinship {
    /// It continues the other after a compaction; the other has ended.
    Rotation,
    /// It was begun anew; the other is where summaries may be taken over from.
    New,
    /// It went another way from what the other was at that moment.
    Fork,
}

impl Kinship {
    /// Returns the word that the store has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kinship::Rotation => "rotation",
            Kinship::New => "new",
            Kinship::Fork => "fork",
        }
    }
}

/// What a session is called that comes from another; the rest is as the other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its id.
    pub name: String,
    /// Its title; none for the other's with a number behind.
    pub title: Option<String>,
}

impl Store {
    /// Stores a compaction under a new session that continues this one, and ends this one, in one step.
    ///
    /// # Errors
    /// As [`Store::commit`], and [`StoreError::SessionExists`]. Then nothing has changed: there is no child, and this
    /// session goes on.
    pub fn rotate(&self, lease: &Lease, child: Child, commit: Commit) -> Result<(SessionRow, Committed), StoreError> {
        sessions::check_name(&child.name)?;
        let (session, token, bodies) = (lease.session, lease.token, self.inner.bodies.clone());
        self.write("rotating a session", move |conn| {
            lease::check(conn, session, token)?;
            let old = sessions::by_key(conn, session)?;
            // A second child of one parent would split the conversation.
            if old.ended_ms.is_some() {
                return Err(StoreError::Moved(old.name));
            }
            let to = descend(conn, &bodies, &old, &child, Kinship::Rotation)?;
            commit::copy_nodes(conn, session, to)?;
            let path = branches::path(conn, session, old.branch)?;
            // What was added while the compaction ran goes along: it is on the parent's branch, and must follow the view.
            let after = branches::beyond(conn, session, old.branch, commit.upto.0)?;
            let mut written = commit::write(conn, &bodies, session, to, &commit, "rotation")?;
            let upto = path.iter().copied().max().unwrap_or(0);
            conn.execute(
                "UPDATE branches SET path = ?2, upto = ?3, view = ?4 WHERE session = ?1 AND branch = 0",
                params![to, crate::runs::encode(&path), count(upto), written.view],
            )
            .map_err(while_doing("rotating a session"))?;
            if !after.is_empty() {
                let view = views::read(conn, written.view)?;
                let mut items = view.items;
                items.extend(after);
                let new = NewView {
                    session: to,
                    branch: 0,
                    previous: None,
                    items: &items,
                    dropped: &view.dropped,
                    upto,
                    cause: "rotation",
                };
                written.view = views::insert(conn, &new)?;
                branches::go_to(conn, to, 0, Some(written.view), "messages that came meanwhile")?;
            }
            move_along(conn, session, to)?;
            let sql = "UPDATE sessions SET ended_ms = ?2, end_reason = 'compression' WHERE id = ?1";
            conn.execute(sql, params![session, now_ms()]).map_err(while_doing("rotating a session"))?;
            Ok((sessions::by_key(conn, to)?, written))
        })
    }

    /// Makes a session that goes another way from what this one is now. Both share what was said so far.
    ///
    /// # Errors
    /// [`StoreError::SessionExists`], and those of writing.
    pub fn fork(&self, session: i64, child: Child) -> Result<SessionRow, StoreError> {
        sessions::check_name(&child.name)?;
        let bodies = self.inner.bodies.clone();
        self.write("forking a session", move |conn| {
            let old = sessions::by_key(conn, session)?;
            let to = descend(conn, &bodies, &old, &child, Kinship::Fork)?;
            commit::copy_nodes(conn, session, to)?;
            let (path, live) = (branches::path(conn, session, old.branch)?, views::live(conn, session)?);
            let upto = path.iter().copied().max().unwrap_or(0);
            let dropped = match live.view {
                Some(view) => views::read(conn, view)?.dropped,
                None => Vec::new(),
            };
            let new = NewView {
                session: to,
                branch: 0,
                previous: None,
                items: &live.items,
                dropped: &dropped,
                upto,
                cause: "fork",
            };
            let view = if live.view.is_some() { Some(views::insert(conn, &new)?) } else { None };
            conn.execute(
                "UPDATE branches SET path = ?2, upto = ?3, view = ?4 WHERE session = ?1 AND branch = 0",
                params![to, crate::runs::encode(&path), count(upto), view],
            )
            .map_err(while_doing("forking a session"))?;
            move_along(conn, session, to)?;
            sessions::by_key(conn, to)
        })
    }

    /// Makes a session that follows this one, which ends; nothing of it is lost. With `carry_depth`, the summaries of at
    /// least that depth which this session shows are shown in the new one, and their number is returned.
    ///
    /// # Errors
    /// [`StoreError::SessionExists`], and those of writing.
    pub fn begin_next(
        &self,
        session: i64,
        child: Child,
        carry_depth: Option<u32>,
    ) -> Result<(SessionRow, u64), StoreError> {
        sessions::check_name(&child.name)?;
        let bodies = self.inner.bodies.clone();
        self.write("beginning a session", move |conn| {
            let doing = while_doing("beginning a session");
            let old = sessions::by_key(conn, session)?;
            let to = descend(conn, &bodies, &old, &child, Kinship::New)?;
            let mut carried: Vec<u64> = Vec::new();
            if let Some(depth) = carry_depth {
                let mut is_deep = conn
                    .prepare(
                        "SELECT EXISTS (SELECT 1 FROM written w JOIN nodes n ON n.session = ?2 AND n.node = w.node
                           WHERE w.id = ?1 AND w.node > 0 AND n.depth >= ?3)",
                    )
                    .map_err(&doing)?;
                for item in views::live(conn, session)?.items {
                    if is_deep.query_row(params![count(item), session, depth], |row| row.get(0)).map_err(&doing)? {
                        carried.push(item);
                    }
                }
            }
            if !carried.is_empty() {
                commit::copy_nodes(conn, session, to)?;
                let new =
                    NewView { session: to, branch: 0, previous: None, items: &carried, dropped: &[], upto: 0, cause: "carried over" };
                let view = views::insert(conn, &new)?;
                branches::go_to(conn, to, 0, Some(view), "carried over")?;
            }
            let sql = "UPDATE sessions SET ended_ms = coalesce(ended_ms, ?2), end_reason = iif(end_reason = '', 'new', end_reason) WHERE id = ?1";
            conn.execute(sql, params![session, now_ms()]).map_err(&doing)?;
            Ok((sessions::by_key(conn, to)?, carried.len() as u64))
        })
    }

    /// Makes the view before the live one live again. What was said since then follows it, as it was said.
    ///
    /// # Errors
    /// [`StoreError::NothingToUndo`], and those of writing; then nothing has changed.
    pub fn undo(&self, session: i64) -> Result<Option<i64>, StoreError> {
        self.write("undoing a compaction", move |conn| {
            let branch = branches::live(conn, session)?;
            let Some(view) = branches::read(conn, session, branch)?.view else {
                return Err(StoreError::NothingToUndo(sessions::by_key(conn, session)?.name));
            };
            let before = views::read(conn, view)?.previous;
            branches::go_to(conn, session, branch, before, "undo")?;
            Ok(before)
        })
    }

    /// Makes a view of the live branch live: the way forward again after an undo.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a view that is not of the live branch, and those of writing.
    pub fn go_to_view(&self, session: i64, view: i64) -> Result<(), StoreError> {
        self.write("making a view live", move |conn| {
            let branch = branches::live(conn, session)?;
            let sql = "SELECT EXISTS (SELECT 1 FROM views WHERE id = ?1 AND session = ?2 AND branch = ?3)";
            let is_there: bool = conn
                .query_row(sql, params![view, session, branch], |row| row.get(0))
                .map_err(while_doing("making a view live"))?;
            if !is_there {
                let name = sessions::by_key(conn, session)?.name;
                return Err(StoreError::Invalid(format!("session \"{name}\" has no view {view} on its live branch")));
            }
            branches::go_to(conn, session, branch, Some(view), "redo")
        })
    }
}

fn descend(
    conn: &Connection,
    bodies: &crate::bodies::Bodies,
    old: &SessionRow,
    child: &Child,
    kinship: Kinship,
) -> Result<i64, StoreError> {
    let title = child
        .title
        .clone()
        .unwrap_or_else(|| if kinship == Kinship::New { String::new() } else { next_title(&old.title) });
    let new = NewSession {
        name: child.name.clone(),
        dialect: Some(old.dialect),
        platform: old.platform.clone(),
        model: old.model.clone(),
        title,
        ..NewSession::default()
    };
    let to = sessions::insert(conn, bodies, &new, Some((old.key, kinship.as_str())))?;
    let sql = "UPDATE sessions SET shell = (SELECT shell FROM sessions WHERE id = ?1) WHERE id = ?2";
    conn.execute(sql, params![old.key, to]).map_err(while_doing("making a session"))?;
    Ok(to)
}

/// What belongs to the conversation and not to its id goes along: the engine's state and the pins.
fn move_along(conn: &Connection, from: i64, to: i64) -> Result<(), StoreError> {
    let doing = while_doing("taking a session's state along");
    conn.execute(
        "INSERT OR IGNORE INTO engine_state (session, engine, key, value) SELECT ?2, engine, key, value FROM engine_state WHERE session = ?1",
        params![from, to],
    )
    .map_err(&doing)?;
    conn.execute(
        "INSERT OR IGNORE INTO pins (session, pin, rule, made_ms) SELECT ?2, pin, rule, made_ms FROM pins WHERE session = ?1",
        params![from, to],
    )
    .map_err(doing)?;
    Ok(())
}

/// Returns a title with the next number behind: `name`, `name #2`, `name #3`.
fn next_title(title: &str) -> String {
    if title.is_empty() {
        return String::new();
    }
    match title.rsplit_once(" #").and_then(|(name, number)| Some((name, number.parse::<u64>().ok()?))) {
        Some((name, number)) => format!("{name} #{}", number.saturating_add(1)),
        None => format!("{title} #2"),
    }
}

#[cfg(test)]
mod tests {
    use super::next_title;

    #[test]
    fn titles_are_counted_on() {
        assert_eq!(next_title("fix"), "fix #2");
        assert_eq!(next_title("fix #2"), "fix #3");
        assert_eq!(next_title("issue #x"), "issue #x #2");
        assert_eq!(next_title(""), "");
    }
}
