//! Measures the index over made-up messages: how fast it takes them in, how much it weighs, how soon it answers; each
//! answer is checked against a scan of the same texts, and timed beside it.
//!
//! `cargo bench -p host-search --bench search -- [MESSAGES]`; 50,000 if not said. Messages are short (about 260 bytes),
//! 1,000 to a session; the same number gives the same messages. Texts are kept in a SQLite file of their own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench speaks by printing, and ends where something fails"
)]

use engine_api::{Role, SearchMode, SearchSort};
use host_search::{Doc, FILL_FROM, Facts, Index, Query, SearchError, Source};
use regex::Regex;
use rusqlite::{Connection, OptionalExtension, params};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Instant;

/// Messages of one transaction.
const BATCH: usize = 20;
/// Messages of a session.
const SESSION: u64 = 1_000;
/// Runs of each query.
const RUNS: usize = 25;

/// A generator of numbers: xorshift, seeded by hand.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 32) as usize * bound) >> 32
    }
    fn chance(&mut self, percent: f64) -> bool {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 * 100.0 < percent
    }
}

const GLYPHS: &str =
    "数据库迁移配置错误恢复会话上下文压缩检索工具消息摘要索引测试部署网络缓存线程内存文件系统权限用户登录接口响应时间";
const EMOJI: &[&str] = &["🚀", "🔥", "✅", "🐛", "🎉", "📦"];

/// Makes messages.
struct Maker {
    numbers: Numbers,
    words: Vec<String>,
    sentences: Vec<String>,
    glyphs: Vec<char>,
}

impl Maker {
    fn new() -> Maker {
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
        let (consonants, vowels) = (b"bcdfghjklmnprtvwz", b"aeiou");
        let mut words = Vec::new();
        while words.len() < 6_000 {
            let mut word = String::new();
            for _ in 0..2 + numbers.below(3) {
                word.push(consonants[numbers.below(consonants.len())] as char);
                word.push(vowels[numbers.below(vowels.len())] as char);
                if numbers.chance(35.0) {
                    word.push(consonants[numbers.below(consonants.len())] as char);
                }
            }
            words.push(word);
        }
        let mut maker = Maker { numbers, words, sentences: Vec::new(), glyphs: GLYPHS.chars().collect() };
        maker.sentences = (0..60_000).map(|_| maker.sentence()).collect();
        maker
    }

    fn word(&mut self) -> String {
        let share = self.numbers.below(1 << 20) as f64 / (1 << 20) as f64;
        self.words[((self.words.len() as f64) * share.powi(3)) as usize].clone()
    }

    fn sentence(&mut self) -> String {
        let count = 6 + self.numbers.below(11);
        let mut words: Vec<String> = (0..count).map(|_| self.word()).collect();
        // Words in known shares of the messages.
        for (word, percent) in [("kernel", 34.0), ("window", 7.0), ("socket", 4.2)] {
            if self.numbers.chance(percent) {
                let at = self.numbers.below(words.len());
                words[at] = word.to_owned();
            }
        }
        format!("{}.", words.join(" "))
    }

    fn message(&mut self, number: u64, count: u64) -> String {
        let sentences = [1, 1, 2, 2, 3, 5, 8][self.numbers.below(7)];
        let mut text = String::new();
        for _ in 0..sentences {
            let at = self.numbers.below(self.sentences.len());
            text.push_str(&self.sentences[at]);
            text.push(' ');
        }
        if self.numbers.chance(2.0) {
            let glyphs = 8 + self.numbers.below(32);
            (0..glyphs).for_each(|_| text.push(self.glyphs[self.numbers.below(self.glyphs.len())]));
        } else if self.numbers.chance(1.0) {
            text.push_str(EMOJI[self.numbers.below(EMOJI.len())]);
        } else if self.numbers.chance(2.0) {
            let (folder, file) = (self.word(), self.word());
            text.push_str(&format!("see src/{folder}/{file}.rs line {}", self.numbers.below(900)));
        } else if self.numbers.chance(0.5) {
            text.push_str(&format!(
                "commit {:016x}{:016x}{:08x}",
                self.numbers.next(),
                self.numbers.next(),
                self.numbers.next() as u32
            ));
        }
        for (share, needle) in [
            (20, " The staging job is NEEDLE-7f3a9c and failed with code E-4017-QX."),
            (2, " Kept at NEEDLE-c0ffee because 数据库迁移 would block readers."),
            (7, " The quorum lighthouse vote was lost 🦀 on Thursday."),
        ] {
            if number == count / share {
                text.push_str(needle);
            }
        }
        text
    }
}

/// Texts in a SQLite file.
struct Texts {
    conn: Connection,
}

impl Source for Texts {
    fn text(&self, id: i64) -> Result<Option<String>, SearchError> {
        let mut select = self.conn.prepare_cached("SELECT text FROM message WHERE id = ?")?;
        Ok(select.query_row([id], |row| row.get(0)).optional()?)
    }
    fn facts(&self, id: i64) -> Result<Option<Facts>, SearchError> {
        let role = role_of(id as u64);
        Ok(Some(Facts { session: id / SESSION as i64, role, tools: Vec::new(), depth: 0, at_ms: id * 10_000 }))
    }
    fn neighbours(&self, id: i64, each_side: u32) -> Result<Vec<i64>, SearchError> {
        let mut out = Vec::new();
        for sql in [
            "SELECT id FROM message WHERE session = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
            "SELECT id FROM message WHERE session = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        ] {
            let mut select = self.conn.prepare_cached(sql)?;
            let rows = select.query_map(params![id / SESSION as i64, id, each_side], |row| row.get(0))?;
            for row in rows {
                out.push(row?);
            }
        }
        Ok(out)
    }
    fn scan(
        &self,
        range: RangeInclusive<i64>,
        newest_first: bool,
        each: &mut dyn FnMut(i64, &str) -> ControlFlow<()>,
    ) -> Result<(), SearchError> {
        let order = if newest_first { "DESC" } else { "ASC" };
        let sql = format!("SELECT id, text FROM message WHERE id BETWEEN ? AND ? ORDER BY id {order}");
        let mut select = self.conn.prepare_cached(&sql)?;
        let mut rows = select.query([range.start(), range.end()])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(1)?.as_str().map_err(|error| SearchError::Source(error.to_string()))?;
            if each(row.get(0)?, text).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn id_range(&self) -> Result<Option<RangeInclusive<i64>>, SearchError> {
        let range: (Option<i64>, Option<i64>) =
            self.conn.query_row("SELECT min(id), max(id) FROM message", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(range.0.zip(range.1).map(|(first, last)| first..=last))
    }
}

fn role_of(number: u64) -> Role {
    [Role::User, Role::Assistant, Role::Tool, Role::Assistant][(number % 4) as usize]
}

/// Returns the seconds of processor time of this thread; of the clock, where the system does not say.
fn cpu_seconds(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

fn open(path: &std::path::Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536; PRAGMA mmap_size=1073741824;",
    )
    .unwrap();
    conn.set_prepared_statement_cache_capacity(64);
    conn
}

/// What is asked, and which texts are right.
struct Probe {
    name: &'static str,
    pattern: &'static str,
    mode: SearchMode,
    sort: SearchSort,
    /// A regular expression that holds for the right texts; several must all hold, or any.
    right: &'static [&'static str],
    any: bool,
}

const fn probe(name: &'static str, pattern: &'static str, right: &'static [&'static str]) -> Probe {
    Probe { name, pattern, mode: SearchMode::Auto, sort: SearchSort::Relevance, right, any: false }
}

const PROBES: &[Probe] = &[
    probe("rare word", "lighthouse", &["lighthouse"]),
    probe("identifier", "NEEDLE-7f3a9c", &["NEEDLE-7f3a9c"]),
    Probe { mode: SearchMode::Words, ..probe("word in 3 of 4", "kernel", &["kernel"]) },
    Probe { mode: SearchMode::Words, sort: SearchSort::Newest, ..probe("same, newest first", "kernel", &["kernel"]) },
    Probe { any: true, ..probe("two frequent words", "window socket", &["window", "socket"]) },
    Probe { sort: SearchSort::Newest, ..probe("same, newest first", "window socket", &["window", "socket"]) },
    probe("phrase", "\"quorum lighthouse vote\"", &["quorum lighthouse vote"]),
    probe("phrase, frequent words", "\"kernel window\"", &["kernel[^a-z0-9]+window"]),
    Probe {
        any: true,
        ..probe(
            "question",
            "When did the quorum lose the lighthouse?",
            &[r"\bquorum\b", r"\blighthouse\b", r"\blose\b"],
        )
    },
    probe("glyphs, 2", "迁移", &["迁移"]),
    probe("glyphs, 5", "数据库迁移", &["数据库迁移"]),
    probe("emoji, rare", "🦀", &["🦀"]),
    probe("emoji, frequent", "🚀", &["🚀"]),
    Probe { mode: SearchMode::Substring, ..probe("literal", "dle-7F3A", &["(?i)dle-7f3a"]) },
    probe("regex, code", r"E-\d{4}-QX", &[r"E-\d{4}-QX"]),
    probe("regex, commit", "commit [0-9a-f]{40}", &["commit [0-9a-f]{40}"]),
    probe("regex, two literals", "src/[a-z]+/[a-z]+\\.rs line 77\\b", &["src/[a-z]+/[a-z]+\\.rs line 77\\b"]),
    probe("regex, no trigram", r"\b\d{3}\b", &[r"\b\d{3}\b"]),
    Probe { mode: SearchMode::Substring, ..probe("absent", "xyzzyplugh", &["xyzzyplugh"]) },
    Probe { mode: SearchMode::Words, ..probe("absent word", "xyzzyplugh", &["xyzzyplugh"]) },
];

fn main() {
    // `cargo bench` and `cargo test` pass flags of their own.
    let count = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(50_000);
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new();
    let texts: Vec<String> = (0..count).map(|number| maker.message(number, count)).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{count} messages, {:.1} MB of text, {} bytes on average", bytes as f64 / 1e6, bytes / texts.len().max(1));

    let source = Texts { conn: open(&folder.path().join("texts.db")) };
    source
        .conn
        .execute_batch("CREATE TABLE message (id INTEGER PRIMARY KEY, session INTEGER, text TEXT); CREATE INDEX by_session ON message(session, id);")
        .unwrap();
    let conn = open(&folder.path().join("index.db"));
    let index = Index::new("message");
    index.create(&conn).unwrap();

    let start = Instant::now();
    let (mut add_cpu, mut fill_cpu, mut longest_fill) = (0.0, 0.0, 0.0_f64);
    for (batch, chunk) in texts.chunks(BATCH).enumerate() {
        let docs: Vec<Doc<'_>> = (batch as u64 * BATCH as u64..)
            .zip(chunk)
            .map(|(number, text)| Doc {
                id: number as i64,
                session: (number / SESSION) as i64,
                role: role_of(number),
                tools: if number % 4 == 2 { &["terminal"] } else { &[] },
                depth: 0,
                at_ms: number as i64 * 10_000,
                text,
            })
            .collect();
        source.conn.execute_batch("BEGIN").unwrap();
        for doc in &docs {
            source
                .conn
                .prepare_cached("INSERT INTO message VALUES (?, ?, ?)")
                .unwrap()
                .execute(params![doc.id, doc.session, doc.text])
                .unwrap();
        }
        source.conn.execute_batch("COMMIT").unwrap();
        let before = cpu_seconds(start);
        conn.execute_batch("BEGIN").unwrap();
        index.add(&conn, &docs).unwrap();
        conn.execute_batch("COMMIT").unwrap();
        let added = cpu_seconds(start);
        add_cpu += added - before;
        if (batch * BATCH).is_multiple_of(1_000) && index.unfilled(&conn).unwrap() >= FILL_FROM {
            let filling = Instant::now();
            conn.execute_batch("BEGIN").unwrap();
            index.fill(&conn, &source, usize::MAX).unwrap();
            conn.execute_batch("COMMIT").unwrap();
            fill_cpu += cpu_seconds(start) - added;
            longest_fill = longest_fill.max(filling.elapsed().as_secs_f64());
        }
    }
    let both = add_cpu + fill_cpu;
    println!(
        "adding {:.1} CPU-s = {:.0} messages/CPU-s; with filling {both:.1} CPU-s = {:.0} messages/CPU-s; longest filling {longest_fill:.2} s",
        add_cpu,
        count as f64 / add_cpu,
        count as f64 / both
    );
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let size: i64 = conn.query_row("SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size", [], |row| row.get(0)).unwrap();
    let by_kind = |kind: i64| -> i64 {
        let sql = "SELECT coalesce(sum(length(d)), 0) FROM message_post WHERE k BETWEEN ? AND ?";
        conn.query_row(sql, [kind << 61, (kind << 61) + ((1 << 61) - 1)], |row| row.get(0)).unwrap()
    };
    let file = std::fs::metadata(folder.path().join("index.db")).map_or(0, |data| data.len());
    println!(
        "index {:.1} MB = {:.2} × text in use, file {:.1} MB; words {:.2}, pairs {:.2}, trigrams {:.2}, columns {:.2} × text; {} unfilled",
        size as f64 / 1e6,
        size as f64 / bytes as f64,
        file as f64 / 1e6,
        by_kind(0) as f64 / bytes as f64,
        by_kind(1) as f64 / bytes as f64,
        by_kind(2) as f64 / bytes as f64,
        by_kind(3) as f64 / bytes as f64,
        index.unfilled(&conn).unwrap(),
    );

    println!(
        "{:<24} {:>9} {:>9} {:>9} {:>9}  {:>10}  answer",
        "query", "p50 ms", "p95 ms", "CPU ms", "scan ms", "found"
    );
    let mut wrong = 0;
    for probe in PROBES {
        let query =
            Query { mode: probe.mode, sort: probe.sort, now_ms: count as i64 * 10_000, ..Query::new(probe.pattern) };
        let mut times = Vec::with_capacity(RUNS);
        let mut page = index.search(&conn, &source, &query).unwrap();
        let before = cpu_seconds(start);
        for _ in 0..RUNS {
            let started = Instant::now();
            page = index.search(&conn, &source, &query).unwrap();
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let cpu = cpu_seconds(start) - before;
        times.sort_by(f64::total_cmp);
        let rights: Vec<Regex> = probe.right.iter().map(|right| Regex::new(right).unwrap()).collect();
        let started = Instant::now();
        let is_right = |text: &str| match probe.any {
            true => rights.iter().any(|right| right.is_match(text)),
            false => rights.iter().all(|right| right.is_match(text)),
        };
        let right: Vec<bool> = texts.iter().map(|text| is_right(text)).collect();
        let scan = started.elapsed().as_secs_f64() * 1e3;
        let expected = right.iter().filter(|&&right| right).count() as u64;
        // A ranked question may show a neighbour without a word of its own; it never counts as a match of its text.
        let neighbours = page.hits.iter().filter(|hit| hit.why.contains("for 0 of")).count();
        let hits_right = page.hits.iter().filter(|hit| right[hit.id as usize]).count() + neighbours == page.hits.len();
        let total_right = match page.total_is_least {
            true => page.total <= expected,
            false => page.total == expected || (neighbours > 0 && page.total >= expected),
        };
        let full = page.hits.len() as u64 == expected.min(20) || neighbours > 0;
        let good = hits_right && total_right && full;
        wrong += usize::from(!good);
        println!(
            "{:<24} {:>9.2} {:>9.2} {:>9.2} {:>9.1}  {:>9}{}  {}{}",
            probe.name,
            times[times.len() / 2],
            times[times.len() * 95 / 100],
            cpu * 1e3 / RUNS as f64,
            scan,
            page.total,
            if page.total_is_least { "+" } else { " " },
            if good { "right".to_owned() } else { format!("WRONG, the scan finds {expected}") },
            if page.not_covered.is_empty() { String::new() } else { format!("; {}", page.not_covered) },
        );
    }
    assert_eq!(wrong, 0, "{wrong} answers are wrong");
}
