//! The right to compact a session: one holder at a time, in all processes, for a limited time.

use crate::error::{StoreError, while_doing};
use crate::store::{Store, now_ms};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

/// How long a lease lasts unless it is renewed or the store has another time set: longer than any summary should take. Hermes' figure.
pub const LEASE: Duration = Duration::from_secs(300);

/// The right to compact a session. Given back when dropped.
#[derive(Debug)]
pub struct Lease {
    store: Store,
    pub(crate) session: i64,
    pub(crate) token: i64,
    is_given_back: bool,
}

impl Store {
    /// Takes the right to compact a session.
    ///
    /// # Errors
    /// [`StoreError::Leased`] while another holder has it.
    pub fn lease(&self, session: i64, holder: &str) -> Result<Lease, StoreError> {
        let (name, store) = (holder.to_owned(), self.clone());
        let token = self.write("taking the lease", move |conn| take(conn, session, &name, store.lease_end_ms()))?;
        Ok(Lease { store: self.clone(), session, token, is_given_back: false })
    }
}

fn take(conn: &Connection, session: i64, holder: &str, ends_ms: i64) -> Result<i64, StoreError> {
    let doing = while_doing("taking the lease");
    let now = now_ms();
    let held: Option<(String, i64, i64)> = conn
        .query_row("SELECT holder, token, expires_ms FROM leases WHERE session = ?1", [session], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()
        .map_err(&doing)?;
    if let Some((holder, _, expires)) =
        held.as_ref().filter(|(holder, _, expires)| !holder.is_empty() && *expires > now)
    {
        return Err(StoreError::Leased {
            session: crate::sessions::by_key(conn, session)?.name,
            holder: holder.clone(),
            seconds: ((expires - now).max(0).unsigned_abs()).div_ceil(1_000),
        });
    }
    // The number rises with each holder: who held it before cannot write under it any more.
    let token = held.map_or(1, |(_, token, _)| token.saturating_add(1));
    conn.execute(
        "INSERT INTO leases (session, holder, token, expires_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session) DO UPDATE SET holder = excluded.holder, token = excluded.token, expires_ms = excluded.expires_ms",
        params![session, holder, token, ends_ms],
    )
    .map_err(doing)?;
    Ok(token)
}

/// Refuses what was begun under a lease that is not valid any more.
pub(crate) fn check(conn: &Connection, session: i64, token: i64) -> Result<(), StoreError> {
    let doing = while_doing("checking the lease");
    let held: Option<(i64, String)> = conn
        .query_row("SELECT token, holder FROM leases WHERE session = ?1", [session], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
        .map_err(doing)?;
    // One that ran out is still good as long as nobody else has taken it.
    if held.is_none_or(|(now, holder)| now != token || holder.is_empty()) {
        return Err(StoreError::LeaseLost(crate::sessions::by_key(conn, session)?.name));
    }
    Ok(())
}

impl Lease {
    /// Makes the lease last as long again from now as one that is taken now.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] if it ran out and another holder took it.
    pub fn renew(&self) -> Result<(), StoreError> {
        let (session, token, store) = (self.session, self.token, self.store.clone());
        self.store.write("renewing the lease", move |conn| {
            check(conn, session, token)?;
            let expires = store.lease_end_ms();
            conn.execute("UPDATE leases SET expires_ms = ?2 WHERE session = ?1", params![session, expires])
                .map_err(while_doing("renewing the lease"))?;
            Ok(())
        })
    }

    /// Gives the lease back.
    pub fn release(mut self) {
        self.give_back();
    }

    fn give_back(&mut self) {
        if std::mem::replace(&mut self.is_given_back, true) {
            return;
        }
        let (session, token) = (self.session, self.token);
        // What cannot be given back runs out.
        let _ = self.store.write("giving the lease back", move |conn| {
            let sql = "UPDATE leases SET holder = '' WHERE session = ?1 AND token = ?2";
            conn.execute(sql, params![session, token]).map_err(while_doing("giving the lease back"))
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back();
    }
}
