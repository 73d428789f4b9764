//! One pass over a text: every place where a secret may begin, in order.

use crate::Finding;
use crate::kind::Kind;
use crate::named::{NAMES, Named};
use crate::pem::{self, Frames};
use crate::run::{Runs, begins_word, is_key_byte};
use crate::shape::MASK_START;
use crate::url;
use crate::vendor::{Bodies, VENDORS};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use std::sync::LazyLock;

const URL_SIGN: &str = "://";
const JWT_PREFIX: &str = "eyJ";
/// Telegram's bot tokens: `digits:AA...`.
const TELEGRAM_SIGN: &str = ":AA";
const TELEGRAM_KEY_BYTES: usize = 35;

/// What a pattern of the automaton is, by its number: the vendors, then the names, then these.
const SIGNS: [&str; 5] = [pem::BEGIN, URL_SIGN, JWT_PREFIX, TELEGRAM_SIGN, MASK_START];
/// Bytes of a mask behind its beginning, at most.
const MASK_REST_BYTES_MAX: usize = 40;

/// All patterns in one automaton. It does not tell upper from lower case; where that matters the place is looked at again.
static PLACES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let patterns = VENDORS.iter().map(|vendor| vendor.prefix).chain(NAMES.iter().map(|(name, _)| *name)).chain(SIGNS);
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns)
        .ok()
});

/// Finds the secrets of a text, in order and without overlap.
pub(crate) fn scan(text: &str) -> Vec<Finding> {
    let Some(places) = PLACES.as_ref() else { return Vec::new() };
    let bytes = text.as_bytes();
    let mut found: Vec<Finding> = Vec::new();
    let mut named = Named::new();
    let mut frames = Frames::default();
    let mut jwt = Jwt::new();
    let mut bodies = Bodies::new();
    // A secret's own text is not looked at again.
    let mut done = 0;
    for place in places.find_iter(text) {
        let (at, end) = (place.start(), place.end());
        if at < done {
            continue;
        }
        let number = place.pattern().as_usize();
        let masked = if let Some(vendor) = VENDORS.get(number) {
            let is_exact = text.get(at..end) == Some(vendor.prefix);
            let begins = begins_word(bytes, at) || vendor.prefix.contains('/');
            let end = if is_exact && begins { bodies.key_end(vendor, text, at) } else { None };
            if let Some(end) = end {
                found.push(Finding { kind: vendor.kind, range: at..end });
            }
            end
        } else if let Some((_, says)) = NAMES.get(number - VENDORS.len()) {
            let before = found.len();
            let end = named.look(text, at..end, *says, &mut found);
            refine(text, &mut bodies, &mut found, before);
            end
        } else {
            if text.get(at..end) == Some(MASK_START) {
                // What a mask says is not a name that gives a secret away.
                let rest = bytes.get(end..bytes.len().min(end + MASK_REST_BYTES_MAX)).unwrap_or_default();
                done = rest.iter().position(|byte| *byte == b']').map_or(end, |length| end + length + 1);
                continue;
            }
            let (kind, range) = match SIGNS.get(number - VENDORS.len() - NAMES.len()) {
                Some(&pem::BEGIN) => (Kind::PrivateKey, frames.key(text, at)),
                Some(&URL_SIGN) => (Kind::UrlPassword, url::password(text, at)),
                Some(&JWT_PREFIX) => (Kind::Jwt, jwt.end(bytes, at).map(|end| at..end)),
                _ => (Kind::Telegram, telegram(bytes, at)),
            };
            range.map(|range| {
                let end = range.end;
                // A token of Telegram begins before its sign.
                while found.last().is_some_and(|last| last.range.end > range.start) {
                    found.pop();
                }
                found.push(Finding { kind, range });
                end
            })
        };
        done = masked.unwrap_or(done).max(done);
    }
    found
}

/// A value that is a vendor's key is called by the vendor's name.
fn refine(text: &str, bodies: &mut Bodies, found: &mut [Finding], from: usize) {
    for finding in found.iter_mut().skip(from) {
        let Some(value) = text.get(finding.range.clone()) else { continue };
        if let Some(vendor) = VENDORS.iter().find(|vendor| value.starts_with(vendor.prefix))
            && bodies.key_end(vendor, text, finding.range.start).is_some()
        {
            finding.kind = vendor.kind;
        } else if value.starts_with(JWT_PREFIX) && value.bytes().filter(|byte| *byte == b'.').count() == 2 {
            finding.kind = Kind::Jwt;
        } else if is_discord(value) {
            finding.kind = Kind::Discord;
        }
    }
}

/// `MTA...` (the account's number), a time, a signature.
fn is_discord(value: &str) -> bool {
    let mut parts = value.split('.').map(str::len);
    value.starts_with(['M', 'N', 'O'])
        && matches!(
            (parts.next(), parts.next(), parts.next(), parts.next()),
            (Some(23..=28), Some(6), Some(27..=40), None)
        )
}

/// Finds JSON web tokens; each run of their characters is measured once.
struct Jwt {
    runs: [Runs; 3],
}

impl Jwt {
    fn new() -> Jwt {
        Jwt { runs: [Runs::of(is_key_byte), Runs::of(is_key_byte), Runs::of(is_key_byte)] }
    }

    fn end(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let is_start = !at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|byte| is_key_byte(*byte))
            || begins_word(bytes, at);
        if bytes.get(at..at + 3) != Some(JWT_PREFIX.as_bytes()) || !is_start {
            return None;
        }
        let [header, payload, signature] = &mut self.runs;
        let header_end = header.end(bytes, at);
        if header_end - at < 10 || bytes.get(header_end) != Some(&b'.') {
            return None;
        }
        let payload_end = payload.end(bytes, header_end + 1);
        if payload_end - header_end < 10 {
            return None;
        }
        if bytes.get(payload_end) != Some(&b'.') {
            // Cut off after the payload: the payload alone says who it is.
            return Some(payload_end);
        }
        Some(signature.end(bytes, payload_end + 1))
    }
}

fn telegram(bytes: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let digits = bytes.get(at.saturating_sub(11)..at)?.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let key = bytes.get(at + 1..at + 1 + TELEGRAM_KEY_BYTES)?;
    let ends = !bytes.get(at + 1 + TELEGRAM_KEY_BYTES).is_some_and(|byte| is_key_byte(*byte));
    let is_token =
        (8..=10).contains(&digits) && ends && key.starts_with(b"AA") && key.iter().all(|byte| is_key_byte(*byte));
    is_token.then(|| at - digits..at + 1 + TELEGRAM_KEY_BYTES)
}
