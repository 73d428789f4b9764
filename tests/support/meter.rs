//! What a series of requests costs where a provider caches prefixes: the measure by which compressing is compared with doing
//! nothing.
//!
//! A request's hit is its longest common prefix with the request before it; the cache is perfect, and only input counts.

/// What a provider takes for input: reads and writes of its cache, as multiples of uncached input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// A byte that the cache holds.
    pub read: f64,
    /// A byte that is new.
    pub write: f64,
}

/// The price rules of 2026, from no caching to the cheapest reads.
pub const RULES: [Rule; 6] = [
    Rule { read: 1.0, write: 1.0 },
    Rule { read: 0.5, write: 1.0 },
    Rule { read: 0.1, write: 1.0 },
    Rule { read: 0.1, write: 1.25 },
    Rule { read: 0.05, write: 1.25 },
    Rule { read: 0.02, write: 1.0 },
];

/// Returns what requests cost, in uncached bytes.
pub fn cost(bodies: &[Vec<u8>], rule: Rule) -> f64 {
    let mut before: &[u8] = &[];
    let mut sum = 0.0;
    for body in bodies {
        let hit = body.iter().zip(before).take_while(|(ours, theirs)| ours == theirs).count();
        sum += hit as f64 * rule.read + (body.len() - hit) as f64 * rule.write;
        before = body;
    }
    sum
}

/// Returns the share of all bytes that a cache could hold.
pub fn cacheable(bodies: &[Vec<u8>]) -> f64 {
    let total: usize = bodies.iter().map(Vec::len).sum();
    let missed = cost(bodies, Rule { read: 0.0, write: 1.0 });
    1.0 - missed / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_stays_is_read_and_what_changes_is_written() {
        let bodies: Vec<Vec<u8>> = ["aaaa", "aaaabb", "aaxabb"].iter().map(|text| text.as_bytes().to_vec()).collect();
        let rule = Rule { read: 0.5, write: 2.0 };
        // 4 new; 4 read and 2 new; 2 read and 4 new.
        assert_eq!(cost(&bodies, rule), 8.0 + (2.0 + 4.0) + (1.0 + 8.0));
        assert_eq!(cost(&bodies, RULES[0]), 16.0);
        assert!((cacheable(&bodies) - 6.0 / 16.0).abs() < 1e-9);
    }
}
