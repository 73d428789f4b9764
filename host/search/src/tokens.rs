//! Cuts a text into the words that are indexed; a query goes through the same function.
//!
//! A *run* is a stretch of letters and digits: `read_file` holds two. Runs joined by `_ - . / : @` without blanks also
//! give one token for the *whole*, so that an identifier, a path or a version is found as it is written. A run in
//! camel case gives its *parts* too. Scripts without blanks between words (Han, Kana, Hangul, Thai, ...) give each
//! character and each overlapping pair. Anything else that is not ASCII (emoji, arrows, box drawing) is a token of its own.

use rust_stemmers::{Algorithm, Stemmer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Bits of the key of a word, see [`key_of`]; two words of ten million share one with a chance of one in a million.
pub(crate) const KEY_BITS: u32 = 43;
/// Bytes of a whole at most; longer joins are data or deep paths, found by their runs or by the trigram index.
const WHOLE_BYTES_MAX: usize = 64;
/// Bytes of a run that count; what follows (base64, hex dumps) stays findable as a substring.
const RUN_BYTES_MAX: usize = 64;
/// Words whose stems are remembered by each thread.
const STEMS_MAX: usize = 32_768;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters and digits.
    Run,
    /// A part of a run in camel case.
    Part,
    /// Runs joined by punctuation.
    Whole,
    /// One character of a script without blanks.
    Glyph,
    /// Two neighbouring characters of such a script.
    GlyphPair,
    /// An emoji or another symbol.
    Symbol,
}

/// A token of a text.
#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    /// What it is.
    pub(crate) kind: Kind,
    /// In lower case, Latin letters without their marks.
    pub(crate) word: &'a str,
    /// Where it stands in the text, in bytes.
    pub(crate) range: Range<usize>,
    /// What stands for it in the index.
    pub(crate) key: u64,
}

/// Returns whether words of the character's script are written without blanks between them.
pub(crate) fn is_glyph(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1100..=0x11FF | 0x1780..=0x17FF | 0x3040..=0x318F | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0xFF66..=0xFFDC
        | 0x20000..=0x323AF)
}

/// Returns whether a character joins the runs around it into a whole.
fn joins(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '\\' | '+' | '#')
}

/// Returns whether a character only changes the look of the one before it.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x200B..=0x200D | 0x2060 | 0xFE00..=0xFE0F | 0xFEFF)
}

/// Returns a Latin letter without its mark, so that "São" is found by "sao".
fn without_mark(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' | 'ĉ' | 'ċ' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => 'i',
        'ľ' | 'ĺ' | 'ļ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ň' | 'ņ' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ř' | 'ŗ' => 'r',
        'ś' | 'š' | 'ş' | 'ŝ' | 'ș' => 's',
        'ť' | 'ţ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

/// Appends a text in lower case, Latin letters without their marks.
pub(crate) fn fold_into(text: &str, out: &mut String) {
    if text.is_ascii() {
        let start = out.len();
        out.push_str(text);
        if let Some(added) = out.get_mut(start..) {
            added.make_ascii_lowercase();
        }
        return;
    }
    out.extend(text.chars().flat_map(char::to_lowercase).filter(|&c| !is_mark(c)).map(without_mark));
}

/// Returns the key of a word, or of a fact if `space` is not that of words.
pub(crate) fn key_of(space: u8, bytes: &[u8]) -> u64 {
    // FNV-1a, then a finaliser: the keys are stored, so the function never changes.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(space);
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^= hash >> 32;
    hash & ((1 << KEY_BITS) - 1)
}

/// The space of words in [`key_of`].
const WORDS: u8 = 0;

/// Takes a key as its own hash: it is one.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = key_of(WORDS, bytes);
    }
    fn write_u64(&mut self, key: u64) {
        // The upper bits choose within a bucket, and keys have none that high.
        self.0 = key | key << (64 - KEY_BITS);
    }
}

type Stems = HashMap<u64, u64, BuildHasherDefault<KeyHasher>>;

thread_local! {
    static STEMS: RefCell<(Stemmer, Stems)> = RefCell::new((Stemmer::create(Algorithm::English), Stems::default()));
}

/// Returns the key of a word: that of its stem if it looks like an English word.
pub(crate) fn word_key(word: &str) -> u64 {
    let own = key_of(WORDS, word.as_bytes());
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return own;
    }
    STEMS.with(|stems| {
        // A token callback that itself asks for a key would find the cell taken; it then pays for its own stemmer.
        let Ok(mut stems) = stems.try_borrow_mut() else {
            return key_of(WORDS, Stemmer::create(Algorithm::English).stem(word).as_bytes());
        };
        let (stemmer, known) = &mut *stems;
        if let Some(&key) = known.get(&own) {
            return key;
        }
        let key = key_of(WORDS, stemmer.stem(word).as_bytes());
        if known.len() >= STEMS_MAX {
            known.clear();
        }
        known.insert(own, key);
        key
    })
}

/// Calls `each` with every token of a text.
pub(crate) fn tokens(text: &str, each: &mut dyn FnMut(&Token<'_>)) {
    let mut word = String::new();
    let mut whole = WholeSoFar::default();
    let mut glyph_before: Option<Range<usize>> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_glyph(c) {
            whole.end(text, &mut word, each);
            let range = at..at + c.len_utf8();
            emit(text, Kind::Glyph, range.clone(), &mut word, each);
            if let Some(before) = glyph_before.take() {
                emit(text, Kind::GlyphPair, before.start..range.end, &mut word, each);
            }
            glyph_before = Some(range);
            continue;
        }
        glyph_before = None;
        if c.is_alphanumeric() {
            let mut end = at + c.len_utf8();
            while let Some(&(next_at, next)) = chars.peek() {
                let goes_on = (next.is_alphanumeric() && !is_glyph(next)) || is_mark(next);
                if !goes_on {
                    break;
                }
                end = next_at + next.len_utf8();
                chars.next();
            }
            run(text, at..end, &mut word, each);
            whole.run(at..end);
        } else if joins(c) {
            whole.joint(at + c.len_utf8(), c);
        } else {
            whole.end(text, &mut word, each);
            if !c.is_ascii() && !c.is_whitespace() && !is_mark(c) && !c.is_control() {
                emit(text, Kind::Symbol, at..at + c.len_utf8(), &mut word, each);
            }
        }
    }
    whole.end(text, &mut word, each);
}

/// Emits a run and, if it is in camel case, its parts.
fn run(text: &str, range: Range<usize>, word: &mut String, each: &mut dyn FnMut(&Token<'_>)) {
    let Some(written) = text.get(range.clone()) else { return };
    emit(text, Kind::Run, range.clone(), word, each);
    let bytes = written.as_bytes();
    if !bytes.iter().skip(1).any(u8::is_ascii_uppercase) || !bytes.iter().any(u8::is_ascii_lowercase) {
        return;
    }
    let mut start = 0;
    for at in 1..bytes.len() {
        let (Some(before), Some(here)) = (bytes.get(at - 1), bytes.get(at)) else { break };
        let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let cuts = here.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && next_is_lower));
        if cuts {
            emit(text, Kind::Part, range.start + start..range.start + at, word, each);
            start = at;
        }
    }
    if start > 0 {
        emit(text, Kind::Part, range.start + start..range.end, word, each);
    }
}

/// Emits one token.
fn emit(text: &str, kind: Kind, range: Range<usize>, word: &mut String, each: &mut dyn FnMut(&Token<'_>)) {
    let Some(mut written) = text.get(range.clone()) else { return };
    if written.len() > RUN_BYTES_MAX {
        written = written.get(..written.floor_char_boundary(RUN_BYTES_MAX)).unwrap_or("");
    }
    word.clear();
    fold_into(written, word);
    if word.is_empty() {
        return;
    }
    let key = if kind == Kind::Whole { key_of(WORDS, word.as_bytes()) } else { word_key(word) };
    each(&Token { kind, word, range, key });
}

/// The runs and joints read since the last blank.
#[derive(Default)]
struct WholeSoFar {
    /// From the first run to the end of the last, and what follows it and belongs to it (`C++`, `C#`).
    range: Option<Range<usize>>,
    runs: u32,
    /// Whether only `+` and `#` followed the last run.
    suffix_only: bool,
}

impl WholeSoFar {
    fn run(&mut self, run: Range<usize>) {
        self.runs += 1;
        self.suffix_only = true;
        match &mut self.range {
            Some(range) => range.end = run.end,
            None => self.range = Some(run),
        }
    }

    fn joint(&mut self, end: usize, c: char) {
        let Some(range) = &mut self.range else { return };
        if matches!(c, '+' | '#') && self.suffix_only && self.runs == 1 {
            range.end = end;
        } else {
            self.suffix_only = false;
        }
    }

    fn end(&mut self, text: &str, word: &mut String, each: &mut dyn FnMut(&Token<'_>)) {
        let taken = std::mem::take(self);
        let Some(range) = taken.range else { return };
        let ends_in_joint = text.get(..range.end).is_some_and(|text| text.ends_with(joins));
        if (taken.runs > 1 || ends_in_joint) && range.len() <= WHOLE_BYTES_MAX {
            emit(text, Kind::Whole, range, word, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        tokens(text, &mut |token| out.push(format!("{:?}:{}", token.kind, token.word)));
        out
    }

    #[test]
    fn identifiers_are_kept_whole_and_split() {
        assert_eq!(words("my-app.config.ts"), ["Run:my", "Run:app", "Run:config", "Run:ts", "Whole:my-app.config.ts"]);
        assert_eq!(words("getUserName"), ["Run:getusername", "Part:get", "Part:user", "Part:name"]);
        assert_eq!(words("HTTPServer"), ["Run:httpserver", "Part:http", "Part:server"]);
        assert_eq!(words("C++ or C#."), ["Run:c", "Whole:c++", "Run:or", "Run:c", "Whole:c#"]);
        assert_eq!(words("the end."), ["Run:the", "Run:end"]);
    }

    #[test]
    fn scripts_without_blanks_give_characters_and_pairs() {
        assert_eq!(words("数据库"), ["Glyph:数", "Glyph:据", "GlyphPair:数据", "Glyph:库", "GlyphPair:据库"]);
        assert_eq!(words("a数b"), ["Run:a", "Glyph:数", "Run:b"]);
    }

    #[test]
    fn emoji_are_tokens_without_their_selectors() {
        assert_eq!(words("go 🚀⚠️"), ["Run:go", "Symbol:🚀", "Symbol:⚠"]);
    }

    #[test]
    fn inflected_words_share_a_key_and_marks_do_not_matter() {
        assert_eq!(word_key("migrations"), word_key("migration"));
        let mut word = String::new();
        fold_into("Configuração Ødegård", &mut word);
        assert_eq!(word, "configuracao odegard");
    }

    #[test]
    fn ranges_are_those_of_the_text() {
        let text = "Ünïcode read_file(数据) 🚀 ";
        tokens(text, &mut |token| assert!(text.get(token.range.clone()).is_some(), "{token:?}"));
    }
}
