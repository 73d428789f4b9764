//! The index as its caller sees it: create, add, fill, search, check.

use crate::api::{Doc, Page, Query, SearchError, Source};
use crate::segment::Tables;
use crate::tail::Row;
use crate::{auto, build, check};
use rusqlite::{Connection, params};

/// An index in the caller's database; it holds nothing but the prefix of its tables' names.
///
/// All calls are meant for the writer's connection, but for `search`, `unfilled` and `verify`, which only read.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    prefix: &'static str,
}

impl Index {
    /// Makes an index whose tables are called `<prefix>_tail`, `<prefix>_segment`, `<prefix>_post` and `<prefix>_word`.
    pub const fn new(prefix: &'static str) -> Index {
        Index { prefix }
    }

    fn tables<'a>(&self, conn: &'a Connection) -> Tables<'a> {
        Tables { conn, prefix: self.prefix }
    }

    /// Makes the tables, if they are absent.
    pub fn create(&self, conn: &Connection) -> Result<(), SearchError> {
        self.tables(conn).create()
    }

    /// Adds documents within the caller's transaction: each has a greater id than all before it. They are found at once.
    pub fn add(&self, conn: &Connection, docs: &[Doc<'_>]) -> Result<(), SearchError> {
        if docs.is_empty() {
            return Ok(());
        }
        let mut last = self.last_id(conn)?;
        let mut insert = conn.prepare_cached(&format!("INSERT INTO {}_tail VALUES (?, ?)", self.prefix))?;
        for doc in docs {
            if let Some(last) = last.filter(|&last| doc.id <= last) {
                return Err(SearchError::Order { id: doc.id, last });
            }
            insert.execute(params![doc.id, Row::new(doc).to_bytes()])?;
            last = Some(doc.id);
        }
        Ok(())
    }

    /// Returns the greatest id in the index; none if it is empty.
    pub fn last_id(&self, conn: &Connection) -> Result<Option<i64>, SearchError> {
        let p = self.prefix;
        let tail: Option<i64> =
            conn.prepare_cached(&format!("SELECT max(id) FROM {p}_tail"))?.query_row([], |row| row.get(0))?;
        if tail.is_some() {
            return Ok(tail);
        }
        Ok(conn.prepare_cached(&format!("SELECT max(last) FROM {p}_segment"))?.query_row([], |row| row.get(0))?)
    }

    /// Returns how many documents are in no segment yet. From [`FILL_FROM`](crate::FILL_FROM) on, `fill` is due.
    pub fn unfilled(&self, conn: &Connection) -> Result<u64, SearchError> {
        let count: i64 = conn
            .prepare_cached(&format!("SELECT count(*) FROM {}_tail", self.prefix))?
            .query_row([], |row| row.get(0))?;
        Ok(count.max(0) as u64)
    }

    /// Moves the oldest documents of the tail into segments, within the caller's transaction: `docs_max` at most, in
    /// groups of 16. Returns how many were moved.
    pub fn fill(&self, conn: &Connection, source: &dyn Source, docs_max: usize) -> Result<usize, SearchError> {
        build::fill(self.tables(conn), source, docs_max)
    }

    /// Searches. If the connection is in no transaction, one is begun for reading, so that a search sees one state.
    pub fn search(&self, conn: &Connection, source: &dyn Source, query: &Query<'_>) -> Result<Page, SearchError> {
        if !conn.is_autocommit() {
            return auto::search(self.tables(conn), source, query);
        }
        let transaction = conn.unchecked_transaction()?;
        let page = auto::search(self.tables(&transaction), source, query);
        drop(transaction);
        page
    }

    /// Returns what is wrong with the index, if anything: it reads the lists of segments and a sample of the texts.
    pub fn verify(&self, conn: &Connection, source: &dyn Source) -> Result<Vec<String>, SearchError> {
        check::verify(self.tables(conn), source, check::SAMPLE)
    }

    /// Returns what is wrong with the index, if anything, comparing every text.
    pub fn verify_deep(&self, conn: &Connection, source: &dyn Source) -> Result<Vec<String>, SearchError> {
        check::verify(self.tables(conn), source, u64::MAX)
    }

    /// Empties the index and makes it anew from the source, within the caller's transaction. Returns how many documents it holds.
    pub fn rebuild(&self, conn: &Connection, source: &dyn Source) -> Result<u64, SearchError> {
        self.tables(conn).drop()?;
        self.create(conn)?;
        check::rebuild(self, conn, source)
    }
}
