//! Which three bytes a text must hold to match a pattern, and which bytes a text holds.
//!
//! Trigrams are taken over the bytes of a text with ASCII letters in lower case. The walk over a pattern's syntax tree
//! only ever leaves requirements out, so that a text that matches always passes.

use crate::api::SearchError;
use crate::candidates::Bits;
use crate::postings::each_block;
use crate::segment::{Segment, Store, Tables};
use regex_syntax::hir::{Class, Hir, HirKind};
use std::collections::BTreeSet;

/// Strings that a stretch of a pattern may stand for, followed at once.
const SET_MAX: usize = 24;
/// Bytes of one such string; longer ones are cut into overlapping pieces.
const STRING_MAX: usize = 24;
/// Members of a class that are followed; a greater class stands for anything.
const CLASS_MAX: u32 = 12;
/// Groups nested in a pattern that are followed; deeper ones stand for anything. The parser has a like bound.
const DEPTH_MAX: u32 = 64;
/// Trigrams of a requirement that are looked up; the rest only narrows further.
const LOOKUPS_MAX: usize = 96;

/// What a text must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing in particular.
    Nothing,
    /// A trigram.
    One(u32),
    /// All of these.
    All(Vec<Needs>),
    /// One of these.
    Any(Vec<Needs>),
}

/// Returns what a text must hold to match.
pub(crate) fn needs(hir: &Hir) -> Needs {
    let mut found = Vec::new();
    let set = walk(hir, &mut found, 0);
    found.extend(set.map(|set| needs_of_set(&set)));
    all(found)
}

type Set = BTreeSet<Vec<u8>>;

/// Returns the strings that a part of a pattern stands for, if they are few; what it needs besides goes to `found`.
fn walk(hir: &Hir, found: &mut Vec<Needs>, depth: u32) -> Option<Set> {
    if depth > DEPTH_MAX {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(Set::from([Vec::new()])),
        HirKind::Literal(literal) => {
            let mut bytes = literal.0.to_vec();
            bytes.make_ascii_lowercase();
            Some(Set::from([bytes]))
        }
        HirKind::Class(class) => class_set(class),
        HirKind::Capture(capture) => walk(&capture.sub, found, depth + 1),
        HirKind::Repetition(repetition) => {
            if repetition.min == 0 {
                // `x?` is nothing or x; what x needs is not needed.
                if repetition.max != Some(1) {
                    return None;
                }
                let mut set = walk(&repetition.sub, &mut Vec::new(), depth + 1)?;
                set.insert(Vec::new());
                return Some(set);
            }
            let set = walk(&repetition.sub, found, depth + 1)?;
            if repetition.max == Some(repetition.min) && repetition.min == 1 {
                return Some(set);
            }
            // The body twice in a row, when it is that often: trigrams over the seam.
            let mut repeated = set.clone();
            for _ in 1..repetition.min.min(3) {
                repeated = product(&repeated, &set)?;
            }
            if repetition.max == Some(repetition.min) && repetition.min <= 3 {
                return Some(repeated);
            }
            found.push(needs_of_set(&repeated));
            None
        }
        HirKind::Concat(parts) => concat(parts, found, depth),
        HirKind::Alternation(parts) => {
            let mut union = Some(Set::new());
            let mut choices = Vec::new();
            for part in parts {
                let mut of_part = Vec::new();
                let set = walk(part, &mut of_part, depth + 1);
                let clean = of_part.is_empty();
                if let Some(set) = &set {
                    of_part.push(needs_of_set(set));
                }
                choices.push(all(of_part));
                union = match (union, set) {
                    (Some(mut union), Some(set)) if clean => {
                        union.extend(set);
                        (union.len() <= SET_MAX).then_some(union)
                    }
                    _ => None,
                };
            }
            if union.is_none() {
                found.push(any(choices));
            }
            union
        }
    }
}

/// Follows parts that stand one after the other.
fn concat(parts: &[Hir], found: &mut Vec<Needs>, depth: u32) -> Option<Set> {
    let start = Set::from([Vec::new()]);
    let mut set = start.clone();
    // Whether `set` is all there was so far, so that the whole is still a few strings.
    let mut whole = true;
    for part in parts {
        let Some(next) = walk(part, found, depth + 1) else {
            found.push(needs_of_set(&set));
            set = start.clone();
            whole = false;
            continue;
        };
        if let Some(joined) = product(&set, &next) {
            set = joined;
            continue;
        }
        // Too many: what there is becomes a requirement, and its last two bytes stay for trigrams over the seam.
        found.push(needs_of_set(&set));
        whole = false;
        let ends: Set = set
            .iter()
            .map(|string| string.get(string.len().saturating_sub(2)..).unwrap_or_default().to_vec())
            .collect();
        set = product(&ends, &next).unwrap_or(next);
    }
    if whole {
        return Some(set);
    }
    found.push(needs_of_set(&set));
    None
}

/// Returns every string of `left` followed by every one of `right`, if they stay few and short.
fn product(left: &Set, right: &Set) -> Option<Set> {
    if left.len().saturating_mul(right.len()) > SET_MAX {
        return None;
    }
    let mut out = Set::new();
    for first in left {
        for second in right {
            if first.len() + second.len() > STRING_MAX
                && !first.is_empty()
                && !second.is_empty()
                && left.len() * right.len() > 1
            {
                return None;
            }
            out.insert([first.as_slice(), second.as_slice()].concat());
        }
    }
    Some(out)
}

/// Returns the members of a class, if they are few.
fn class_set(class: &Class) -> Option<Set> {
    let mut out = Set::new();
    match class {
        Class::Unicode(class) => {
            let mut members = 0_u32;
            for range in class.iter() {
                members = members.saturating_add(u32::from(range.end()) - u32::from(range.start()) + 1);
                if members > CLASS_MAX {
                    return None;
                }
                for c in range.start()..=range.end() {
                    let mut bytes = c.to_string().into_bytes();
                    bytes.make_ascii_lowercase();
                    out.insert(bytes);
                }
            }
        }
        Class::Bytes(class) => {
            for range in class.iter() {
                if out.len() > CLASS_MAX as usize || range.end() - range.start() > CLASS_MAX as u8 {
                    return None;
                }
                out.extend((range.start()..=range.end()).map(|byte| vec![byte.to_ascii_lowercase()]));
            }
        }
    }
    Some(out)
}

fn needs_of_set(set: &Set) -> Needs {
    any(set.iter().map(|string| all(trigrams_of(string).map(Needs::One).collect())).collect())
}

fn trigrams_of(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.windows(3).map(|three| three.iter().fold(0, |code, &byte| code << 8 | u32::from(byte.to_ascii_lowercase())))
}

fn all(mut parts: Vec<Needs>) -> Needs {
    parts.retain(|part| *part != Needs::Nothing);
    parts.dedup();
    match parts.len() {
        0 => Needs::Nothing,
        1 => parts.pop().unwrap_or(Needs::Nothing),
        _ => Needs::All(parts),
    }
}

fn any(mut parts: Vec<Needs>) -> Needs {
    if parts.is_empty() || parts.contains(&Needs::Nothing) {
        return Needs::Nothing;
    }
    parts.dedup();
    if parts.len() == 1 { parts.pop().unwrap_or(Needs::Nothing) } else { Needs::Any(parts) }
}

/// Returns the blocks of a segment whose texts hold what is needed; none if that is nothing in particular.
pub(crate) fn blocks(tables: Tables<'_>, segment: &Segment, needs: &Needs) -> Result<Option<Bits>, SearchError> {
    let mut lookups = 0;
    narrow(tables, segment, needs, &mut lookups)
}

fn narrow(
    tables: Tables<'_>,
    segment: &Segment,
    needs: &Needs,
    lookups: &mut usize,
) -> Result<Option<Bits>, SearchError> {
    match needs {
        Needs::Nothing => Ok(None),
        Needs::One(trigram) => {
            if *lookups >= LOOKUPS_MAX {
                return Ok(None);
            }
            *lookups += 1;
            let count = segment.blocks();
            let mut bits = Bits::none(count);
            tables.lookup(Store::Trigrams, segment.number, u64::from(*trigram), |entry| {
                each_block(&entry, count, |block| bits.set(block))
            })?;
            Ok(Some(bits))
        }
        Needs::All(parts) => {
            let mut out: Option<Bits> = None;
            for part in parts {
                let Some(bits) = narrow(tables, segment, part, lookups)? else { continue };
                match &mut out {
                    Some(out) => out.and(&bits),
                    None => out = Some(bits),
                }
                if out.as_ref().is_some_and(Bits::is_empty) {
                    break;
                }
            }
            Ok(out)
        }
        Needs::Any(parts) => {
            let mut out = Bits::none(segment.blocks());
            for part in parts {
                match narrow(tables, segment, part, lookups)? {
                    Some(bits) => out.or(&bits),
                    None => return Ok(None),
                }
            }
            Ok(Some(out))
        }
    }
}

/// Gathers the trigrams of texts, each once.
pub(crate) struct Gatherer {
    /// A bit for each of the 16 million trigrams.
    seen: Vec<u64>,
    found: Vec<u32>,
}

impl Gatherer {
    pub(crate) fn new() -> Gatherer {
        Gatherer { seen: vec![0; 1 << 18], found: Vec::new() }
    }

    /// Takes in a text.
    pub(crate) fn add(&mut self, text: &str) {
        let mut code = 0_u32;
        for (at, byte) in text.bytes().enumerate() {
            code = (code << 8 | u32::from(byte.to_ascii_lowercase())) & 0x00FF_FFFF;
            if at < 2 {
                continue;
            }
            if let Some(word) = self.seen.get_mut((code / 64) as usize) {
                let bit = 1 << (code % 64);
                if *word & bit == 0 {
                    *word |= bit;
                    self.found.push(code);
                }
            }
        }
    }

    /// Hands out the trigrams taken in since the last time, in no order, and forgets them.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u32)) {
        for code in self.found.drain(..) {
            if let Some(word) = self.seen.get_mut((code / 64) as usize) {
                *word = 0;
            }
            each(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn needed(pattern: &str) -> Needs {
        needs(&regex_syntax::Parser::new().parse(pattern).unwrap())
    }

    fn holds(needs: &Needs, text: &BTreeSet<u32>) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::One(trigram) => text.contains(trigram),
            Needs::All(parts) => parts.iter().all(|part| holds(part, text)),
            Needs::Any(parts) => parts.iter().any(|part| holds(part, text)),
        }
    }

    fn held(text: &str) -> BTreeSet<u32> {
        let mut gatherer = Gatherer::new();
        gatherer.add(text);
        let mut out = BTreeSet::new();
        gatherer.drain(|code| assert!(out.insert(code)));
        gatherer.drain(|_| panic!("drained twice"));
        out
    }

    #[test]
    fn literals_inside_patterns_are_needed() {
        assert!(!holds(&needed(r"E-\d{4}-QX"), &held("nothing here")));
        assert!(!holds(&needed(r"E-\d{4}-QX"), &held("e-4017-q x")));
        assert!(holds(&needed(r"E-\d{4}-QX"), &held("code E-4017-QX.")));
        assert!(!holds(&needed("(alpha|beta)x+gamma"), &held("alpha gamm")));
        assert!(!holds(&needed("(?i)straße"), &held("STRASE")));
        assert!(holds(&needed("(?i)straße"), &held("STRAßE")));
        assert_eq!(needed(r"\d{3}-\d{4}"), Needs::Nothing);
        assert_eq!(needed("a|bcd"), Needs::Nothing);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn what_matches_holds_what_is_needed(
            pattern in "(\\(\\?i\\))?([a-dA-D数据é🚀]|\\[a-c\\]|\\[\\^b\\]|a\\{2,3\\}|\\(ab\\|cd\\)|\\(a\\|数据\\)\\+|\\(bc\\)\\?|\\(bcd\\)\\*|\\.|\\\\w|abc|k|S){1,8}",
            text in "[a-dA-D数据é🚀ksſK ]{0,40}",
        ) {
            if let Ok(regex) = regex::Regex::new(&pattern)
                && regex.is_match(&text) {
                let needs = needed(&pattern);
                prop_assert!(holds(&needs, &held(&text)), "{pattern} in {text}: {needs:?}");
            }
        }
    }
}
