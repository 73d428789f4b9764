//! What a search finds, over the whole crate: every kind of word, every mode, filters, order, pages, bounds.

mod support;

use engine_api::{Role, SearchMode, SearchSort};
use host_search::{Doc, Index, Query, SearchError};
use proptest::prelude::*;
use regex::Regex;
use std::time::Instant;
use support::{Memory, Owned, Store};

const TEXTS: &[&str] = &[
    "The staging password rotation job is NEEDLE-7f3a9c and it failed with code E-4017-QX.",
    "Keep the write-ahead log because 数据库迁移 would block readers.",
    "Launch window moved 🚀 to Thursday; owner is Zuzanna Kowalczyk-Ødegård ⚠️",
    "see src/parser/my-app.config.ts and call getUserName(P2.2) in C++ or C#",
    "commit 0123456789abcdef0123456789abcdef01234567 fixes migrations",
    "{\"command\":\"cargo clippy --all-targets\",\"path\":\"/srv/x.rs\"}",
    "한국어 검색 테스트와 日本語のテスト",
    "Olá, a configuração foi alterada por João",
    "nothing of note here",
    "nothing again, only the end",
    "plain words about the database and its readers",
    "one more plain text",
    "alpha beta gamma",
    "gamma beta alpha",
    "foo_bar baz::qux 42",
    "x",
    "the tail begins with this quokka",
];

fn stores() -> Vec<Store> {
    vec![Store::new(Memory::of(TEXTS), 0, 16), Store::new(Memory::of(TEXTS), 16, 16)]
}

fn query(pattern: &str, mode: SearchMode) -> Query<'_> {
    Query { mode, ..Query::new(pattern) }
}

#[test]
fn every_kind_of_word_is_found_in_the_tail_and_in_segments() {
    for store in stores() {
        for (pattern, id) in [
            ("NEEDLE-7f3a9c", 1),
            ("E-4017-QX", 1),
            ("rotations", 1),
            ("数据", 2),
            ("库", 2),
            ("数据库迁移", 2),
            ("🚀", 3),
            ("⚠", 3),
            ("odegard", 3),
            ("my-app.config.ts", 4),
            ("parser", 4),
            ("userName", 4),
            ("P2.2", 4),
            ("C++", 4),
            ("0123456789abcdef0123456789abcdef01234567", 5),
            ("migration", 5),
            ("clippy", 6),
            ("/srv/x.rs", 6),
            ("검색", 7),
            ("日本", 7),
            ("configuracao", 8),
            ("foo_bar", 15),
            ("baz::qux", 15),
            ("quokka", 17),
            (r"E-\d{4}-QX", 1),
            ("commit [0-9a-f]{40}", 5),
            ("\"alpha beta\"", 13),
            ("\"beta alpha\"", 14),
        ] {
            let page = store.search(&Query::new(pattern));
            assert_eq!(page.hits.first().map(|hit| hit.id), Some(id), "{pattern}: {page:?}");
        }
    }
}

#[test]
fn snippets_stand_where_they_say_and_scores_are_explained() {
    for store in stores() {
        let page = store.search(&Query::new("database readers"));
        let hit = &page.hits[0];
        assert_eq!(hit.id, 11);
        assert!(hit.why.contains("2 of 2 words") && hit.why.contains("bm25"), "{}", hit.why);
        let text = &store.memory.docs[10].text;
        assert!(text[hit.snippet_offset as usize..].starts_with(&hit.snippet));
    }
}

#[test]
fn a_miss_names_near_words() {
    for store in stores() {
        let page = store.search(&Query::new("databse"));
        assert_eq!((page.total, page.nearest.first().map(String::as_str)), (0, Some("database")), "{page:?}");
        assert!(store.search(&Query::new("quoka")).nearest.contains(&"quokka".to_owned()));
    }
}

#[test]
fn odd_queries_are_no_errors_and_refused_patterns_are() {
    for store in stores() {
        for pattern in [
            "", " ", "\"", "\"\"", "AND", "OR NOT", "(", "((a)", "a AND", "-x", "*", "C++", "a\"b\"c", "\0", "^", "$",
            "[", "\\",
        ] {
            for mode in [SearchMode::Auto, SearchMode::Words, SearchMode::Phrase, SearchMode::Substring] {
                for sort in [SearchSort::Relevance, SearchSort::Newest, SearchSort::Oldest] {
                    store.search(&Query { sort, ..query(pattern, mode) });
                }
            }
        }
        let refused = store.index.search(&store.conn, &store.memory, &query("(?=a)b", SearchMode::Regex));
        assert!(matches!(refused, Err(SearchError::Pattern { .. })), "{refused:?}");
    }
}

#[test]
fn filters_hold_together() {
    let mut memory = Memory::default();
    for id in 1..=200_i64 {
        memory.docs.push(Owned {
            id,
            session: id % 3,
            role: if id % 2 == 0 { Role::User } else { Role::Tool },
            tool: (id % 2 == 1).then(|| if id % 5 == 0 { "Bash".into() } else { "read".into() }),
            depth: (id % 4) as u32,
            at_ms: id * 10,
            text: format!("common text {id}"),
        });
    }
    for filled in [0, 160, 192] {
        let store = Store::new(Memory { docs: memory.docs.clone() }, filled, 32);
        let within = |id: i64| id != 105;
        for mode in [SearchMode::Words, SearchMode::Regex, SearchMode::Phrase] {
            for sort in [SearchSort::Relevance, SearchSort::Newest, SearchSort::Oldest] {
                let query = Query {
                    mode,
                    sort,
                    sessions: Some(&[0, 2]),
                    role: Some(Role::Tool),
                    tool: Some("bash"),
                    depth: Some(1),
                    since_ms: Some(250),
                    before_ms: Some(1_900),
                    within: Some(&within),
                    limit: 1_000,
                    ..Query::new("common")
                };
                let mut expected: Vec<i64> = memory
                    .docs
                    .iter()
                    .filter(|doc| doc.session != 1 && doc.role == Role::Tool && doc.tool.as_deref() == Some("Bash"))
                    .filter(|doc| doc.depth == 1 && (250..1_900).contains(&doc.at_ms) && doc.id != 105)
                    .map(|doc| doc.id)
                    .collect();
                assert!(expected.len() > 3);
                let page = store.search(&query);
                let mut found: Vec<i64> = page.hits.iter().map(|hit| hit.id).collect();
                if sort == SearchSort::Newest {
                    expected.reverse();
                } else if sort == SearchSort::Relevance {
                    found.sort_unstable();
                }
                assert_eq!(found, expected, "{mode:?} {sort:?} filled {filled}");
                assert_eq!(page.total, expected.len() as u64);
            }
        }
    }
}

#[test]
fn pages_visit_each_hit_once() {
    let texts: Vec<String> = (0..900)
        .map(|n| format!("shared {} {}", if n % 7 == 0 { "rare" } else { "plain" }, ["one", "two", "three"][n % 3]))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let store = Store::new(Memory::of(&texts), 640, 64);
    for (pattern, mode) in [
        ("shared rare two", SearchMode::Words),
        ("shared", SearchMode::Words),
        ("sha.ed", SearchMode::Regex),
        ("shared", SearchMode::Phrase),
    ] {
        for sort in [SearchSort::Relevance, SearchSort::Newest, SearchSort::Oldest] {
            let mut seen = Vec::new();
            loop {
                let page = store.search(&Query { sort, offset: seen.len() as u64, limit: 37, ..query(pattern, mode) });
                seen.extend(page.hits.iter().map(|hit| hit.id));
                assert_eq!(page.has_more, (seen.len() as u64) < page.total, "{pattern} {sort:?}");
                if !page.has_more {
                    break;
                }
            }
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "{pattern} {mode:?} {sort:?}: a hit came twice");
            let expected = if pattern.contains(' ') && sort != SearchSort::Relevance {
                texts.iter().filter(|text| text.contains("rare") && text.contains("two")).count()
            } else {
                900
            };
            assert_eq!(count, expected, "{pattern} {mode:?} {sort:?}");
        }
    }
}

#[test]
fn what_is_around_a_message_counts() {
    let mut texts = vec!["filler of no interest"; 60];
    texts[10] = "what about the lighthouse";
    texts[30] = "what about the lighthouse";
    texts[31] = "the keeper of the lighthouse painted it";
    let store = Store::new(Memory::of(&texts), 48, 16);
    let page = store.search(&Query::new("lighthouse keeper painted"));
    assert_eq!(page.hits[0].id, 32);
    assert_eq!(page.hits[1].id, 31, "{page:?}");
    assert!(!page.hits[0].why.contains("neighbours +0.0"), "{}", page.hits[0].why);
}

#[test]
fn phrases_in_tool_arguments_are_found() {
    let words = ["amber", "basalt", "cobalt", "dorsal", "ember", "fjord", "garnet", "harbor", "indigo", "jasper"];
    let phrase = |n: usize| format!("{} {} {}", words[n % 10], words[n / 10], words[(n * 7 + 3) % 10]);
    let mut texts = Vec::new();
    for n in 0..100 {
        let (three, marked) = (phrase(n), format!("m{n}"));
        texts.push(format!("I will run it.\nbash {{\"command\":\"echo {three} {marked} > /tmp/x\"}}"));
        texts.push("the result of the command, with nothing of note".to_owned());
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let store = Store::new(Memory::of(&texts), 96, 48);
    for n in 0..100 {
        let three = phrase(n);
        let expected: Vec<i64> =
            (1..).zip(&texts).filter(|(_, text)| text.contains(&three)).map(|(id, _)| id).collect();
        for pattern in [format!("\"{three}\""), format!("\"{three} m{n}\"")] {
            let found = store.ids(&Query { sort: SearchSort::Oldest, ..Query::new(&pattern) });
            let expected = if pattern.contains(" m") { vec![2 * n as i64 + 1] } else { expected.clone() };
            assert_eq!(found, expected, "{pattern}");
        }
    }
}

#[test]
fn recent_messages_win_ties() {
    let mut memory = Memory::of(&["same words", "other", "other", "other", "same words"]);
    memory.docs[4].at_ms = 400 * 86_400_000;
    let store = Store::new(memory, 0, 16);
    let page = store.search(&Query { now_ms: 400 * 86_400_000, ..Query::new("same words") });
    assert_eq!(page.hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [5, 1]);
    assert!(page.hits[0].score > page.hits[1].score && page.hits[1].why.contains("recency 0.95"), "{page:?}");
}

#[test]
fn a_search_without_time_says_what_it_did_not_see() {
    let texts = vec!["some text 1-2"; 1_000];
    let store = Store::new(Memory::of(&texts), 960, 64);
    let page = store.search(&Query { deadline: Some(Instant::now()), ..query(r"[xyz]\d", SearchMode::Regex) });
    assert!(page.total_is_least && page.not_covered.contains("newest"), "{page:?}");
    assert!(page.scanned > 0 && page.scanned < 1_000);
}

#[test]
fn documents_out_of_order_are_refused() {
    let store = Store::new(Memory::of(TEXTS), 16, 16);
    for id in [3, 17] {
        let doc = Doc { id, session: 1, role: Role::User, tools: &[], depth: 0, at_ms: 0, text: "late" };
        assert!(matches!(store.index.add(&store.conn, &[doc]), Err(SearchError::Order { last: 17, .. })));
    }
}

#[test]
fn ids_may_have_gaps_of_any_size() {
    for gap in [3_i64, 1 << 40] {
        let mut memory = Memory::default();
        for n in 0..600_i64 {
            let text = format!("word{} shared text", n % 50);
            memory.docs.push(Owned { session: n % 2, ..Owned::new(n * gap + n % 2 - 70, &text) });
        }
        let expected: Vec<i64> =
            memory.docs.iter().filter(|doc| doc.text.contains("word7 ")).map(|doc| doc.id).collect();
        let store = Store::new(memory, 592, 32);
        for pattern in ["word7", "word7 [a-z]+ text"] {
            let query = Query { sort: SearchSort::Oldest, sessions: Some(&[1]), ..Query::new(pattern) };
            assert_eq!(store.ids(&query), expected, "{pattern}, gap {gap}");
            let mut ranked = store.ids(&Query { sort: SearchSort::Relevance, ..query });
            ranked.sort_unstable();
            assert_eq!(ranked, expected, "{pattern}, gap {gap}");
        }
        assert_eq!(store.index.verify_deep(&store.conn, &store.memory).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn merged_segments_answer_like_the_tail() {
    let texts: Vec<String> =
        (0..9_000_u64).map(|n| format!("w{} v{} 数{} shared", n % 97, n * n % 31, n % 5)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let tail = Store::new(Memory::of(&texts), 0, 16);
    let merged = Store::new(Memory::of(&texts), 8_992, 128);
    assert_eq!(merged.index.unfilled(&merged.conn).unwrap(), 8);
    let segments: i64 = merged.conn.query_row("SELECT count(*) FROM message_segment", [], |row| row.get(0)).unwrap();
    assert!(segments < 32, "{segments} segments are left");
    for pattern in ["w5 v4", "w13", "shared", "数3", "\"w5 v25\"", r"w5\d v(4|9)", "absent"] {
        for sort in [SearchSort::Relevance, SearchSort::Newest, SearchSort::Oldest] {
            let query = Query { sort, limit: 50, ..Query::new(pattern) };
            let (left, right) = (tail.search(&query), merged.search(&query));
            let ids = |page: &host_search::Page| page.hits.iter().map(|hit| hit.id).collect::<Vec<_>>();
            assert_eq!(ids(&left), ids(&right), "{pattern} {sort:?}");
            if !left.total_is_least && !right.total_is_least {
                assert_eq!(left.total, right.total, "{pattern} {sort:?}");
            }
        }
    }
    assert_eq!(merged.index.verify_deep(&merged.conn, &merged.memory).unwrap(), Vec::<String>::new());
}

#[test]
fn checks_find_what_is_wrong_and_rebuilding_mends_it() {
    let texts: Vec<String> = (0..600).map(|n| format!("text number {n} of the sample")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let store = Store::new(Memory::of(&texts), 512, 64);
    assert_eq!(store.index.verify(&store.conn, &store.memory).unwrap(), Vec::<String>::new());
    store.conn.execute("DELETE FROM message_tail WHERE id = 590", []).unwrap();
    assert_eq!(store.index.verify_deep(&store.conn, &store.memory).unwrap(), ["document 590 is not indexed"]);
    store.conn.execute("UPDATE message_post SET d = x'80' WHERE k = (SELECT min(k) FROM message_post)", []).unwrap();
    assert!(!store.index.verify(&store.conn, &store.memory).unwrap().is_empty());
    let damaged = store.index.search(&store.conn, &store.memory, &Query::new("text number sample"));
    assert!(damaged.is_ok() || matches!(damaged, Err(SearchError::Damaged(_))));
    assert_eq!(store.index.rebuild(&store.conn, &store.memory).unwrap(), 600);
    assert_eq!(store.index.verify_deep(&store.conn, &store.memory).unwrap(), Vec::<String>::new());
    assert_eq!(store.search(&Query::new("590")).hits[0].id, 591);
}

#[test]
fn two_indexes_share_a_database() {
    let store = Store::new(Memory::of(TEXTS), 16, 16);
    let other = Index::new("node");
    other.create(&store.conn).unwrap();
    other.create(&store.conn).unwrap();
    let page = other.search(&store.conn, &Memory::default(), &Query::new("quokka")).unwrap();
    assert_eq!(page.total, 0);
}

#[test]
fn an_unfinished_transaction_leaves_nothing() {
    let store = Store::new(Memory::of(TEXTS), 0, 16);
    store.conn.execute_batch("BEGIN").unwrap();
    assert_eq!(store.index.fill(&store.conn, &store.memory, 100).unwrap(), 16);
    store.conn.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.index.unfilled(&store.conn).unwrap(), 17);
    assert_eq!(store.ids(&Query::new("NEEDLE-7f3a9c")), [1]);
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-cA-C]{1,5}",
        "[ab]{1,2}[-_./][0-9]{1,3}",
        "[数据库迁移]{1,4}",
        Just("🚀".to_owned()),
        Just("Straße".to_owned()),
        "[éÉkKsſ]{1,3}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "))
}

fn pattern() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c]{1,4}",
        "[数据库]{1,3}",
        Just("🚀".to_owned()),
        Just("[ab]+".to_owned()),
        Just("(abc|数据)".to_owned()),
        Just("(ab)?".to_owned()),
        Just(r"\d{2}".to_owned()),
        Just("é".to_owned()),
        Just("ss?".to_owned()),
        Just(".{0,3}".to_owned()),
        Just("(bca){1,2}".to_owned()),
    ];
    (any::<bool>(), proptest::collection::vec(piece, 1..5))
        .prop_map(|(folded, pieces)| format!("{}{}", if folded { "(?i)" } else { "" }, pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn patterns_find_what_a_plain_scan_finds(texts in proptest::collection::vec(text(), 16..80), patterns in proptest::collection::vec(pattern(), 6)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let store = Store::new(Memory::of(&texts), texts.len() / 16 * 16, 16);
        for pattern in &patterns {
            let regex = Regex::new(pattern).unwrap();
            let expected: Vec<i64> = store.memory.docs.iter().filter(|doc| regex.is_match(&doc.text)).map(|doc| doc.id).collect();
            let query = Query { sort: SearchSort::Oldest, limit: 1_000, ..query(pattern, SearchMode::Regex) };
            prop_assert_eq!(store.ids(&query), expected, "{}", pattern);
        }
    }

    #[test]
    fn what_was_stored_is_found_by_each_of_its_pieces(texts in proptest::collection::vec(text(), 16..40), pick in any::<prop::sample::Index>(), from in any::<prop::sample::Index>()) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let store = Store::new(Memory::of(&texts), 16, 16);
        let at = pick.index(texts.len());
        let chars: Vec<char> = texts[at].chars().collect();
        prop_assume!(!chars.is_empty());
        let start = from.index(chars.len());
        let piece: String = chars[start..(start + 6).min(chars.len())].iter().collect();
        prop_assume!(!piece.trim().is_empty());
        let query = Query { limit: 1_000, ..query(&piece, SearchMode::Substring) };
        prop_assert!(store.ids(&query).contains(&(at as i64 + 1)), "{:?}", piece);
        for word in texts[at].split(char::is_whitespace).filter(|word| word.len() < 60 && word.chars().any(char::is_alphanumeric)) {
            let query = Query { limit: 1_000, mode: SearchMode::Words, ..Query::new(word) };
            prop_assert!(store.ids(&query).contains(&(at as i64 + 1)), "{:?} as words", word);
        }
    }

    #[test]
    fn no_query_panics(pattern in any::<String>(), offset in 0_u64..30) {
        let store = Store::new(Memory::of(TEXTS), 16, 16);
        for mode in [SearchMode::Auto, SearchMode::Words, SearchMode::Phrase, SearchMode::Substring] {
            let query = Query { offset, ..query(&pattern, mode) };
            let found = store.index.search(&store.conn, &store.memory, &query);
            prop_assert!(found.is_ok() || pattern.len() > 100, "{:?}: {:?}", pattern, found);
        }
        let _ = store.index.search(&store.conn, &store.memory, &query(&pattern, SearchMode::Regex));
    }
}
