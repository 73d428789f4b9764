//! What a query restricts besides its pattern, as keys of posting lists: session, role, tool, depth.

use crate::api::{Doc, Query};
use crate::tokens::key_of;

/// The spaces of facts in [`key_of`]; 0 is that of words.
const SESSION: u8 = 1;
const ROLE: u8 = 2;
const TOOL: u8 = 3;
const DEPTH: u8 = 4;

/// Calls `each` with the keys of a document's facts.
pub(crate) fn fact_keys(doc: &Doc<'_>, each: &mut dyn FnMut(u64)) {
    each(key_of(SESSION, &doc.session.to_le_bytes()));
    each(key_of(ROLE, &doc.role.code().to_le_bytes()));
    each(key_of(DEPTH, &doc.depth.to_le_bytes()));
    for tool in doc.tools {
        each(key_of(TOOL, tool.to_lowercase().as_bytes()));
    }
}

/// The restrictions of a query: a document needs one key of every group, and a time within the bounds.
pub(crate) struct Filter<'a> {
    pub(crate) groups: Vec<Vec<u64>>,
    pub(crate) since_ms: u64,
    pub(crate) before_ms: u64,
    pub(crate) within: Option<&'a dyn Fn(i64) -> bool>,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(query: &Query<'a>) -> Filter<'a> {
        let mut groups = Vec::new();
        if let Some(sessions) = query.sessions {
            let mut keys: Vec<u64> = sessions.iter().map(|session| key_of(SESSION, &session.to_le_bytes())).collect();
            keys.sort_unstable();
            keys.dedup();
            groups.push(keys);
        }
        groups.extend(query.role.map(|role| vec![key_of(ROLE, &role.code().to_le_bytes())]));
        groups.extend(query.tool.map(|tool| vec![key_of(TOOL, tool.to_lowercase().as_bytes())]));
        groups.extend(query.depth.map(|depth| vec![key_of(DEPTH, &depth.to_le_bytes())]));
        Filter {
            groups,
            since_ms: query.since_ms.unwrap_or(0).max(0).unsigned_abs(),
            before_ms: query.before_ms.map_or(u64::MAX, |before_ms| before_ms.max(0).unsigned_abs()),
            within: query.within,
        }
    }

    /// Returns whether times matter.
    pub(crate) fn is_timed(&self) -> bool {
        self.since_ms > 0 || self.before_ms < u64::MAX
    }

    /// Returns whether a time is within the bounds.
    pub(crate) fn time_allows(&self, at_ms: u64) -> bool {
        self.since_ms <= at_ms && at_ms < self.before_ms
    }

    /// Returns whether the caller's own condition holds.
    pub(crate) fn allows(&self, id: i64) -> bool {
        self.within.is_none_or(|within| within(id))
    }
}
