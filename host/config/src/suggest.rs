//! Finds the setting that a mistyped name was meant to be.

use crate::keys::{self, KEYS};

/// Longer names are not compared: the comparison is quadratic in their length.
const NAME_CHARS_MAX: usize = 64;

/// Returns the path of the setting closest to an unknown one, or none when nothing is close.
pub(crate) fn closest(path: &str) -> Option<String> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let sections = keys::SECTIONS.iter().map(|section| section.path);
    KEYS.iter()
        .map(|key| key.path)
        .chain(sections)
        .filter_map(|candidate| {
            let (home, last) = candidate.rsplit_once('.').unwrap_or(("", candidate));
            let mut cost = distance(name, last)?;
            // A right name in the wrong place is a likely mistake too, but a sibling is likelier.
            if home != parent {
                cost = cost.checked_add(distance(parent, home).unwrap_or(2).min(2))?;
                if cost > 2 {
                    return None;
                }
            }
            Some((cost, candidate))
        })
        .min_by_key(|&(cost, _)| cost)
        .map(|(_, candidate)| candidate.to_owned())
}

/// Edits (insert, delete, replace, swap of neighbours) between two names; `None` when they have little in common.
fn distance(a: &str, b: &str) -> Option<usize> {
    let normal = |text: &str| -> Vec<char> {
        text.chars().take(NAME_CHARS_MAX + 1).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (normal(a), normal(b));
    if a.len() > NAME_CHARS_MAX || b.len() > NAME_CHARS_MAX {
        return None;
    }
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let (Some(&diagonal), Some(&above), Some(&left)) = (row.get(j), row.get(j + 1), next.get(j)) else { break };
            let mut cost = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped && let Some(&two_back) = before.get(j - 1) {
                cost = cost.min(two_back + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    let cost = row.last().copied()?;
    (cost <= (a.len().max(b.len()) / 3).clamp(1, 3)).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_setting_is_recognised() {
        let rows = [
            ("compression.treshold", "compression.threshold"),
            ("compression.protect_last", "compression.protect_last_n"),
            ("compression.tail-mode", "compression.tail_mode"),
            ("compresion.threshold", "compression.threshold"),
            ("compresion", "compression"),
            ("threshold", "compression.threshold"),
            ("context.engin", "context.engine"),
            ("prompt_caching.cache_tll", "prompt_caching.cache_ttl"),
            ("plugin", "plugins"),
        ];
        for (written, meant) in rows {
            assert_eq!(closest(written).as_deref(), Some(meant), "{written}");
        }
    }

    #[test]
    fn a_foreign_name_is_not_forced_onto_a_setting() {
        for name in ["", ".", "weather", "compression.banana", "a.b.c.d", &"x".repeat(100_000)] {
            assert_eq!(closest(name), None, "{name:.20}");
        }
    }
}
