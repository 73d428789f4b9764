//! What is kept beside a conversation: engine state, usage, receipts, pins.

use crate::bodies::Bodies;
use crate::error::{StoreError, while_doing};
use crate::sessions::count;
use crate::store::{Store, now_ms};
use engine_api::Usage;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

/// A receipt in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// Its id.
    pub id: i64,
    /// The view that the compaction made; none if it changed nothing.
    pub view: Option<i64>,
    /// `compacted` or `unchanged`.
    pub action: String,
    /// The receipt, as JSON.
    pub json: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Usage of one answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What the provider reported.
    pub usage: Usage,
}

/// A pin in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinRow {
    /// Its number in the session.
    pub pin: u64,
    /// The rule, as JSON of the host's making.
    pub rule: String,
    /// When it was set, in milliseconds since 1970.
    pub made_ms: i64,
}

impl Store {
    /// Reads an engine's state of a session.
    ///
    /// # Errors
    /// Those of reading.
    pub fn engine_state(&self, session: i64, engine: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let doing = while_doing("reading an engine's state");
        self.read("reading an engine's state", |conn| {
            let sql = "SELECT key, value FROM engine_state WHERE session = ?1 AND engine = ?2 ORDER BY key";
            let mut select = conn.prepare_cached(sql).map_err(&doing)?;
            let rows =
                select.query_map(params![session, engine], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&doing)?;
            rows.collect::<Result<_, _>>().map_err(&doing)
        })
    }

    /// Writes an engine's state outside of a compaction.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_engine_state(
        &self,
        session: i64,
        engine: &str,
        state: Vec<(String, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        let engine = engine.to_owned();
        self.write("writing an engine's state", move |conn| {
            state.iter().try_for_each(|(key, value)| put(conn, session, &engine, key, value))
        })
    }

    /// Keeps the receipt of a compaction that changed nothing.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_receipt(&self, session: i64, action: &'static str, receipt: String) -> Result<i64, StoreError> {
        let bodies = self.inner.bodies.clone();
        self.write("storing a receipt", move |conn| insert_receipt(conn, &bodies, session, None, action, &receipt))
    }

    /// Reads a session's receipts, the newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn receipts(&self, session: i64, limit: u64) -> Result<Vec<ReceiptRow>, StoreError> {
        let doing = while_doing("reading receipts");
        self.read("reading receipts", |conn| {
            let sql = "SELECT id, view, action, body, at_ms FROM receipts WHERE session = ?1 ORDER BY id DESC LIMIT ?2";
            let mut select = conn.prepare_cached(sql).map_err(&doing)?;
            let rows = select
                .query_map(params![session, count(limit)], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                })
                .map_err(&doing)?
                .collect::<Result<Vec<(i64, Option<i64>, String, i64, i64)>, _>>()
                .map_err(&doing)?;
            rows.into_iter()
                .map(|(id, view, action, body, at_ms)| {
                    let json = String::from_utf8_lossy(&self.inner.bodies.get(conn, body)?).into_owned();
                    Ok(ReceiptRow { id, view, action, json, at_ms })
                })
                .collect()
        })
    }

    /// Keeps what a provider reported for an answered request.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_usage(&self, session: i64, usage: &Usage) -> Result<(), StoreError> {
        self.put_usages(session, std::slice::from_ref(usage))
    }

    /// Keeps what a provider reported for several requests, in their order.
    ///
    /// # Errors
    /// Those of writing; then none of them is kept.
    pub fn put_usages(&self, session: i64, usages: &[Usage]) -> Result<(), StoreError> {
        let usages = usages.to_vec();
        self.write("storing usage", move |conn| {
            let mut insert = conn.prepare_cached(
                "INSERT INTO usage (session, at_ms, prompt, completion, cache_read, cache_write, reasoning) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .map_err(while_doing("storing usage"))?;
            for usage in &usages {
                insert
                    .execute(params![
                        session,
                        now_ms(),
                        count(usage.prompt_tokens),
                        count(usage.completion_tokens),
                        count(usage.cache_read_tokens),
                        count(usage.cache_write_tokens),
                        count(usage.reasoning_tokens)
                    ])
                    .map_err(while_doing("storing usage"))?;
            }
            Ok(())
        })
    }

    /// Reads what providers reported for a session, the newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn usage(&self, session: i64, limit: u64) -> Result<Vec<UsageRow>, StoreError> {
        let doing = while_doing("reading usage");
        self.read("reading usage", |conn| {
            let sql = "SELECT at_ms, prompt, completion, cache_read, cache_write, reasoning FROM usage WHERE session = ?1 ORDER BY id DESC LIMIT ?2";
            let mut select = conn.prepare_cached(sql).map_err(&doing)?;
            let rows = select
                .query_map(params![session, count(limit)], |row| {
                    let number = |at: usize| row.get::<_, i64>(at).map(|number| number.max(0).unsigned_abs());
                    let mut usage = Usage::default();
                    usage.prompt_tokens = number(1)?;
                    usage.completion_tokens = number(2)?;
                    usage.total_tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
                    usage.cache_read_tokens = number(3)?;
                    usage.cache_write_tokens = number(4)?;
                    usage.reasoning_tokens = number(5)?;
                    Ok(UsageRow { at_ms: row.get(0)?, usage })
                })
                .map_err(&doing)?;
            rows.collect::<Result<_, _>>().map_err(&doing)
        })
    }

    /// Sets a pin of a session and returns its number; the same rule is set once.
    ///
    /// # Errors
    /// Those of writing.
    pub fn put_pin(&self, session: i64, rule: String) -> Result<u64, StoreError> {
        let doing = while_doing("setting a pin");
        self.write("setting a pin", move |conn| {
            let sql = "SELECT pin FROM pins WHERE session = ?1 AND rule = ?2";
            let same: Option<i64> =
                conn.query_row(sql, params![session, rule], |row| row.get(0)).optional().map_err(&doing)?;
            if let Some(pin) = same {
                return Ok(pin.max(0).unsigned_abs());
            }
            let sql = "INSERT INTO pins (session, pin, rule, made_ms)
                SELECT ?1, coalesce(max(pin), 0) + 1, ?2, ?3 FROM pins WHERE session = ?1 RETURNING pin";
            let pin: i64 = conn.query_row(sql, params![session, rule, now_ms()], |row| row.get(0)).map_err(&doing)?;
            Ok(pin.max(0).unsigned_abs())
        })
    }

    /// Reads a session's pins, in the order they were set.
    ///
    /// # Errors
    /// Those of reading.
    pub fn pins(&self, session: i64) -> Result<Vec<PinRow>, StoreError> {
        let doing = while_doing("reading pins");
        self.read("reading pins", |conn| {
            let mut select = conn
                .prepare_cached("SELECT pin, rule, made_ms FROM pins WHERE session = ?1 ORDER BY pin")
                .map_err(&doing)?;
            let rows = select
                .query_map([session], |row| {
                    let pin: i64 = row.get(0)?;
                    Ok(PinRow { pin: pin.max(0).unsigned_abs(), rule: row.get(1)?, made_ms: row.get(2)? })
                })
                .map_err(&doing)?;
            rows.collect::<Result<_, _>>().map_err(&doing)
        })
    }

    /// Takes a pin away; returns whether there was one of that number.
    ///
    /// # Errors
    /// Those of writing.
    pub fn remove_pin(&self, session: i64, pin: u64) -> Result<bool, StoreError> {
        self.write("removing a pin", move |conn| {
            let sql = "DELETE FROM pins WHERE session = ?1 AND pin = ?2";
            let removed = conn.execute(sql, params![session, count(pin)]).map_err(while_doing("removing a pin"))?;
            Ok(removed > 0)
        })
    }
}

pub(crate) fn put(conn: &Connection, session: i64, engine: &str, key: &str, value: &[u8]) -> Result<(), StoreError> {
    conn.prepare_cached("INSERT OR REPLACE INTO engine_state (session, engine, key, value) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut insert| insert.execute(params![session, engine, key, value]))
        .map_err(while_doing("writing an engine's state"))?;
    Ok(())
}

pub(crate) fn insert_receipt(
    conn: &Connection,
    bodies: &Bodies,
    session: i64,
    view: Option<i64>,
    action: &str,
    receipt: &str,
) -> Result<i64, StoreError> {
    let body = bodies.put(conn, receipt.as_bytes())?;
    let sql = "INSERT INTO receipts (session, view, action, body, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
    conn.execute(sql, params![session, view, action, body, now_ms()]).map_err(while_doing("storing a receipt"))?;
    Ok(conn.last_insert_rowid())
}
