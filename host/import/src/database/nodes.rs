//! Puts summary nodes in an order in which each stands behind those it was made of.

use super::row::At;
use crate::ImportedNode;
use crate::problems::Problems;
use std::collections::HashMap;
use std::ops::Range;

/// A node as its database states it.
#[derive(Debug, Default)]
pub(super) struct RawNode {
    pub(super) id: String,
    pub(super) depth: i64,
    pub(super) text: String,
    pub(super) created_ms: Option<i64>,
    /// Rows of the message table.
    pub(super) messages: Vec<i64>,
    /// Ids of other nodes.
    pub(super) nodes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Not,
    Open,
    Done,
}

/// Turns ids into positions; `rows` gives those of each row of the message table. What a node names and the session does not hold is counted and left out, and so is a link
/// that closes a circle.
pub(super) fn resolve(
    raw: Vec<RawNode>,
    rows: &HashMap<i64, Range<usize>>,
    table: &'static str,
    problems: &mut Problems,
) -> Vec<ImportedNode> {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(raw.len());
    for (index, node) in raw.iter().enumerate() {
        places.entry(&node.id).or_insert(index);
    }
    let children: Vec<Vec<usize>> =
        raw.iter().map(|node| node.nodes.iter().filter_map(|id| places.get(id.as_str()).copied()).collect()).collect();
    let mut visits = vec![Visit::Not; raw.len()];
    let mut order: Vec<usize> = Vec::with_capacity(raw.len());
    // Where each node stands in the result.
    let mut at: Vec<Option<usize>> = vec![None; raw.len()];
    for start in 0..raw.len() {
        // A walk with its own stack: chains may be as long as the table.
        let mut stack: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((node, next)) = stack.last_mut() {
            let node = *node;
            if *next == 0 {
                match visits.get(node) {
                    Some(Visit::Not) => {}
                    _ => {
                        stack.pop();
                        continue;
                    }
                }
                if let Some(visit) = visits.get_mut(node) {
                    *visit = Visit::Open;
                }
            }
            let child = children.get(node).and_then(|list| list.get(*next)).copied();
            *next += 1;
            match child {
                Some(child) if visits.get(child) == Some(&Visit::Not) => stack.push((child, 0)),
                Some(_) => {}
                None => {
                    if let (Some(visit), Some(place)) = (visits.get_mut(node), at.get_mut(node)) {
                        *visit = Visit::Done;
                        *place = Some(order.len());
                    }
                    order.push(node);
                    stack.pop();
                }
            }
        }
    }
    let mut missing = 0usize;
    let mut circles = 0usize;
    let mut made: Vec<Option<RawNode>> = raw.into_iter().map(Some).collect();
    let mut nodes = Vec::with_capacity(order.len());
    for (place, index) in order.into_iter().enumerate() {
        let Some(node) = made.get_mut(index).and_then(Option::take) else { continue };
        let found: Vec<&Range<usize>> = node.messages.iter().filter_map(|row| rows.get(row)).collect();
        let linked = children.get(index).map(Vec::as_slice).unwrap_or_default();
        missing += node.messages.len() - found.len() + (node.nodes.len() - linked.len());
        let below: Vec<usize> = linked
            .iter()
            .filter_map(|child| at.get(*child).copied().flatten())
            .filter(|child| *child < place)
            .collect();
        circles += linked.len() - below.len();
        let depth = u32::try_from(node.depth).unwrap_or_else(|_| {
            problems
                .warn(None, || format!("node {} of table {table} has the depth {}; read as 0", node.id, node.depth));
            0
        });
        nodes.push(ImportedNode {
            id: node.id,
            depth,
            text: node.text,
            messages: found.into_iter().cloned().flatten().collect(),
            nodes: below,
            created_ms: node.created_ms,
        });
    }
    if missing > 0 {
        problems.warn(None, || {
            format!(
                "{missing} sources of nodes in table {table} are not in their session; the nodes are kept without them"
            )
        });
    }
    if circles > 0 {
        problems
            .warn(None, || format!("{circles} links of nodes in table {table} lead back to the node itself; left out"));
    }
    nodes
}

/// Reads a list of numbers, as JSON states it; numbers in quotes count too.
pub(super) fn numbers(at: At, text: &str, problems: &mut Problems) -> Vec<i64> {
    let Some(list) = serde_json::from_str::<serde_json::Value>(text).ok().and_then(|value| match value {
        serde_json::Value::Array(list) => Some(list),
        _ => None,
    }) else {
        problems.lost(None, || format!("the sources of {at} are no JSON list; the node is kept without them"));
        return Vec::new();
    };
    let stated = list.len();
    let numbers: Vec<i64> = list.iter().filter_map(|one| one.as_i64().or_else(|| one.as_str()?.parse().ok())).collect();
    if numbers.len() < stated {
        problems.warn(None, || format!("{} sources of {at} are no numbers; left out", stated - numbers.len()));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(nodes: &[(&str, &[&str])]) -> (Vec<String>, Vec<String>) {
        let raw = nodes.iter().map(|(id, below)| RawNode {
            id: (*id).to_owned(),
            nodes: below.iter().map(|id| (*id).to_owned()).collect(),
            ..RawNode::default()
        });
        let mut problems = Problems::default();
        let nodes = resolve(raw.collect(), &HashMap::new(), "t", &mut problems);
        let shown = nodes.iter().map(|node| format!("{}{:?}", node.id, node.nodes)).collect();
        (shown, problems.list.into_iter().map(|problem| problem.what).collect())
    }

    #[test]
    fn a_node_stands_behind_those_it_was_made_of() {
        let (nodes, problems) = resolved(&[("d", &["b", "c"]), ("b", &["a"]), ("a", &[]), ("c", &["a"])]);
        assert_eq!(nodes, ["a[]", "b[0]", "c[0]", "d[1, 2]"]);
        assert!(problems.is_empty());
    }

    #[test]
    fn a_circle_is_cut_and_counted() {
        let (nodes, problems) = resolved(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("x", &["x", "gone"])]);
        assert_eq!(nodes, ["c[]", "b[0]", "a[1]", "x[]"]);
        assert!(problems[0].starts_with("1 sources") && problems[1].starts_with("2 links"), "{problems:?}");
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_nodes_is_walked() {
        let nodes = (0..100_000usize).map(|n| RawNode {
            id: n.to_string(),
            nodes: vec![(n + 1).to_string()],
            ..RawNode::default()
        });
        let mut problems = Problems::default();
        let made = resolve(nodes.collect(), &HashMap::new(), "t", &mut problems);
        assert_eq!((made.len(), made[0].id.as_str(), made[99_999].nodes.as_slice()), (100_000, "99999", &[99_998][..]));
    }
}
