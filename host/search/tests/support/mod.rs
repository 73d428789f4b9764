//! Documents in memory, and an index over them, for tests and benches.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "helpers of tests, of which each binary uses a part"
)]

use engine_api::Role;
use host_search::{Doc, Facts, Index, Page, Query, SearchError, Source};
use rusqlite::Connection;
use std::ops::{ControlFlow, RangeInclusive};

/// A document.
#[derive(Debug, Clone)]
pub struct Owned {
    pub id: i64,
    pub session: i64,
    pub role: Role,
    pub tool: Option<String>,
    pub depth: u32,
    pub at_ms: i64,
    pub text: String,
}

impl Owned {
    pub fn new(id: i64, text: &str) -> Owned {
        Owned { id, session: 1, role: Role::User, tool: None, depth: 0, at_ms: id * 1_000, text: text.to_owned() }
    }
}

/// Documents in rising order of their ids.
#[derive(Debug, Default)]
pub struct Memory {
    pub docs: Vec<Owned>,
}

impl Memory {
    pub fn of(texts: &[&str]) -> Memory {
        Memory { docs: (1..).zip(texts).map(|(id, text)| Owned::new(id, text)).collect() }
    }

    fn place(&self, id: i64) -> Option<usize> {
        self.docs.binary_search_by_key(&id, |doc| doc.id).ok()
    }
}

impl Source for Memory {
    fn text(&self, id: i64) -> Result<Option<String>, SearchError> {
        Ok(self.place(id).map(|at| self.docs[at].text.clone()))
    }

    fn facts(&self, id: i64) -> Result<Option<Facts>, SearchError> {
        Ok(self.place(id).map(|at| {
            let doc = &self.docs[at];
            Facts {
                session: doc.session,
                role: doc.role,
                tools: doc.tool.iter().cloned().collect(),
                depth: doc.depth,
                at_ms: doc.at_ms,
            }
        }))
    }

    fn neighbours(&self, id: i64, each_side: u32) -> Result<Vec<i64>, SearchError> {
        let Some(at) = self.place(id) else { return Ok(Vec::new()) };
        let same = |doc: &&Owned| doc.session == self.docs[at].session;
        let before = self.docs[..at].iter().rev().take(64).filter(same).take(each_side as usize);
        let after = self.docs[at + 1..].iter().take(64).filter(same).take(each_side as usize);
        Ok(before.chain(after).map(|doc| doc.id).collect())
    }

    fn scan(
        &self,
        range: RangeInclusive<i64>,
        newest_first: bool,
        each: &mut dyn FnMut(i64, &str) -> ControlFlow<()>,
    ) -> Result<(), SearchError> {
        let first = self.docs.partition_point(|doc| doc.id < *range.start());
        let last = self.docs.partition_point(|doc| doc.id <= *range.end());
        let docs = self.docs.get(first..last).unwrap_or_default();
        let mut visit = |doc: &Owned| each(doc.id, &doc.text);
        let _ = if newest_first {
            docs.iter().rev().try_for_each(&mut visit)
        } else {
            docs.iter().try_for_each(&mut visit)
        };
        Ok(())
    }

    fn id_range(&self) -> Result<Option<RangeInclusive<i64>>, SearchError> {
        Ok(self.docs.first().zip(self.docs.last()).map(|(first, last)| first.id..=last.id))
    }
}

/// An index over documents in memory.
pub struct Store {
    pub conn: Connection,
    pub index: Index,
    pub memory: Memory,
}

impl Store {
    /// Indexes documents, the oldest `filled` of them in segments of `step`.
    pub fn new(memory: Memory, filled: usize, step: usize) -> Store {
        let conn = Connection::open_in_memory().unwrap();
        let store = Store { conn, index: Index::new("message"), memory };
        store.index.create(&store.conn).unwrap();
        store.add(&store.memory.docs);
        let mut left = filled;
        while left > 0 {
            let done = store.index.fill(&store.conn, &store.memory, left.min(step)).unwrap();
            if done == 0 {
                break;
            }
            left -= done.min(left);
        }
        store
    }

    pub fn add(&self, docs: &[Owned]) {
        for doc in docs {
            let tools: Vec<&str> = doc.tool.iter().map(String::as_str).collect();
            let doc = Doc {
                id: doc.id,
                session: doc.session,
                role: doc.role,
                tools: &tools,
                depth: doc.depth,
                at_ms: doc.at_ms,
                text: &doc.text,
            };
            self.index.add(&self.conn, &[doc]).unwrap();
        }
    }

    pub fn search(&self, query: &Query<'_>) -> Page {
        self.index.search(&self.conn, &self.memory, query).unwrap()
    }

    pub fn ids(&self, query: &Query<'_>) -> Vec<i64> {
        self.search(query).hits.iter().map(|hit| hit.id).collect()
    }
}
