//! Facts in a long history, in four languages, after many compactions: each is found again in two calls, and what was
//! pinned was never out of sight.

use crate::crash::number;
use crate::state::{self, append, hash};
use engine_api::json::json;
use engine_api::{MessageId, RecallRequest, RecallSearch, SearchKind};
use host_config::Config;
use host_registry::{Resolved, Source};
use host_runtime::{LiveSession, Options, PinRule};
use host_store::{NewSession, Store};
use host_wire::Document;
use std::collections::HashSet;
use std::sync::Arc;
use support::generate::Rng;

/// Tokens of the history; two million in the long run.
const TOKENS: &str = "PALIMPSEST_TOKENS";
const TOKENS_DEFAULT: u64 = 300_000;
/// Bytes of one token of such text, about.
const TOKEN_BYTES: u64 = 4;
const MESSAGE_BYTES: usize = 3_000;
const PORTIONS: usize = 6;
const FACTS: usize = 200;
const CONSTRAINTS: usize = 200;
/// Of a hundred facts, how many must be found.
const FOUND_PERCENT: usize = 99;
/// The window; what is pinned fits into it easily.
const WINDOW: u64 = 200_000;

/// What a language calls things: five qualities and ten things make fifty topics, and four kinds of facts.
struct Language {
    qualities: [&'static str; 5],
    things: [&'static str; 10],
    kinds: [&'static str; 4],
    join: &'static str,
    sentence: &'static str,
}

const LANGUAGES: [Language; 4] = [
    Language {
        qualities: ["amber", "quiet", "northern", "hollow", "crimson"],
        things: [
            "falcon", "harbour", "lantern", "orchard", "anvil", "glacier", "compass", "meadow", "turbine", "quarry",
        ],
        kinds: ["path", "command", "limit", "decision"],
        join: " ",
        sentence: "For the {topic} project the {kind} is {value}, and nothing else.",
    },
    Language {
        qualities: ["blaue", "stille", "alte", "schnelle", "kleine"],
        things: ["Brücke", "Mühle", "Werft", "Wolke", "Säge", "Glocke", "Küste", "Fähre", "Schmiede", "Wüste"],
        kinds: ["Pfad", "Befehl", "Grenzwert", "Beschluss"],
        join: " ",
        sentence: "Für das Vorhaben {topic} gilt als {kind} ab heute {value}, sonst nichts.",
    },
    Language {
        qualities: ["青色", "安静", "北方", "古老", "快速"],
        things: ["猎鹰", "港口", "灯笼", "果园", "铁砧", "冰川", "罗盘", "草地", "涡轮", "采石场"],
        kinds: ["路径", "命令", "上限", "决定"],
        join: "",
        sentence: "关于{topic}项目,{kind}是{value},没有别的。",
    },
    Language {
        qualities: ["青い", "静かな", "北の", "古い", "速い"],
        things: ["ハヤブサ", "港町", "提灯", "果樹園", "金床", "氷河", "羅針盤", "草原", "タービン", "石切場"],
        kinds: ["パス", "コマンド", "上限値", "決定事項"],
        join: "",
        sentence: "{topic}計画では、{kind}は{value}とします。",
    },
];

struct Fact {
    question: String,
    topic: String,
    sentence: String,
    value: String,
}

fn facts(rng: &mut Rng) -> Vec<Fact> {
    (0..FACTS)
        .map(|nth| {
            let language = &LANGUAGES[nth % 4];
            let topic_nth = nth / 4;
            let kind_nth = topic_nth % 4;
            let topic =
                format!("{}{}{}", language.qualities[topic_nth / 10], language.join, language.things[topic_nth % 10]);
            let drawn = rng.next_u64() >> 40;
            let value = match kind_nth {
                0 => format!("src/mod_{drawn:x}/part-{nth}.rs"),
                1 => format!("cargo run --bin tool-{drawn:x} -- --level {nth}"),
                2 => format!("{drawn}"),
                _ => format!("variant-{drawn:x}"),
            };
            let kind = language.kinds[kind_nth];
            let sentence =
                language.sentence.replace("{topic}", &topic).replace("{kind}", kind).replace("{value}", &value);
            Fact { question: format!("{topic} {kind}"), topic, sentence, value }
        })
        .collect()
}

/// Words among which the facts hide; some of them are words of the questions.
fn filler(rng: &mut Rng, bytes: usize) -> String {
    const WORDS: [&str; 24] = [
        "the", "build", "failed", "with", "error", "in", "module", "test", "passed", "after", "change", "of", "file",
        "function", "returns", "value", "warning", "unused", "line", "column", "compiled", "crate", "path", "limit",
    ];
    let mut out = String::new();
    while out.len() < bytes {
        if rng.one_in(40) {
            let language = rng.pick_ref(&LANGUAGES);
            out.push_str(if rng.one_in(2) { rng.pick(&language.qualities) } else { rng.pick(&language.things) });
        } else if rng.one_in(12) {
            out.push_str(&format!("{:x}", rng.next_u64() >> 32));
        } else {
            out.push_str(rng.pick(&WORDS));
        }
        out.push(' ');
    }
    out
}

fn lcm(store: &Store) -> LiveSession {
    let home = tempfile::tempdir().unwrap();
    let engine = Resolved {
        name: "lcm".to_owned(),
        source: Source::Linked,
        engine: Arc::new(engine_lcm::new(&json!({})).unwrap()),
        fallback: None,
    };
    let options = Options {
        session_id: "s".to_owned(),
        context_length: Some(WINDOW),
        estimate: true,
        force: true,
        ..Options::default()
    };
    let nothing_new = Document::read("{\"model\":\"some-model\",\"messages\":[]}", None).unwrap();
    LiveSession::open_stored_with(store, nothing_new, Config::default(), engine, home.path(), options).unwrap()
}

/// Looks a fact up as an agent would: by the words of the question, and where none of the places found is it, by the
/// topic as a phrase.
fn is_found(store: &Store, key: i64, fact: &Fact) -> bool {
    [fact.question.clone(), format!("\"{}\"", fact.topic)].into_iter().any(|pattern| {
        let mut search = RecallSearch::new(pattern);
        search.kind = Some(SearchKind::Messages);
        let reply = store.recall(key, &RecallRequest::search(search));
        reply.is_ok_and(|reply| reply.hits.iter().any(|hit| hit.text.contains(&fact.value)))
    })
}

#[test]
fn facts_are_found_in_two_calls_and_pinned_constraints_stay_in_sight() {
    let seed = number("PALIMPSEST_SEED", 0x4EED);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let store = state::open(&folder.path().join("s.db")).unwrap();
    let key = store.create_session(NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap().key;
    let rule = PinRule { regex: Some("^CONSTRAINT-[0-9]+:".to_owned()), ..PinRule::default() };
    store.put_pin(key, serde_json::to_string(&rule).unwrap()).unwrap();

    let facts = facts(&mut rng);
    let bytes = usize::try_from(number(TOKENS, TOKENS_DEFAULT) * TOKEN_BYTES).unwrap();
    let count = (bytes / MESSAGE_BYTES).max(FACTS * 2);
    let constraint = |nth: usize| format!("CONSTRAINT-{nth}: never touch folder-{:x} without asking", nth * 7_919);
    let mut hidden = 0;
    let mut pinned = 0;
    let mut constraints: Vec<String> = Vec::new();
    let mut made = Vec::new();
    for at in 0..count {
        let mut text = filler(&mut rng, bytes / count);
        // Spread evenly: the fact whose turn it is goes somewhere into the message.
        while hidden < FACTS * (at + 1) / count {
            let spaces: Vec<usize> = text.match_indices(' ').map(|(at, _)| at).collect();
            text.insert_str(rng.pick(&spaces) + 1, &format!("{} ", facts[hidden].sentence));
            hidden += 1;
        }
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        made.push(json!({ "role": role, "content": text }).to_string());
        while pinned < CONSTRAINTS * (at + 1) / count {
            let raw = json!({ "role": "user", "content": constraint(pinned) }).to_string();
            constraints.push(raw.clone());
            made.push(raw);
            pinned += 1;
        }
    }
    assert_eq!((hidden, pinned), (FACTS, CONSTRAINTS));

    let mut compacted = 0;
    for portion in made.chunks(made.len().div_ceil(PORTIONS)) {
        append(&store, key, portion).unwrap();
        let receipt = lcm(&store).compact();
        assert!(receipt.fallbacks.is_empty() && receipt.engine_used == "lcm", "seed {seed}: {:?}", receipt.fallbacks);
        compacted += usize::from(receipt.action == "compacted");
    }
    assert!(compacted >= PORTIONS - 1, "seed {seed}: {compacted} compactions");

    let shown: HashSet<u64> = store.load(key, 0).unwrap().messages.iter().map(|row| hash(&row.raw)).collect();
    let in_sight = constraints.iter().filter(|raw| shown.contains(&hash(raw))).count();
    assert_eq!(in_sight, CONSTRAINTS, "seed {seed}: constraints in sight");
    let missing: Vec<&str> =
        facts.iter().filter(|fact| !is_found(&store, key, fact)).map(|fact| fact.question.as_str()).collect();
    let line = format!("{compacted} compactions of {bytes} bytes; {} of {FACTS} facts not found\n", missing.len());
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    assert!(missing.len() * 100 <= FACTS * (100 - FOUND_PERCENT), "seed {seed}: not found: {missing:?}");
    assert_eq!(store.rows(key, MessageId(0), u64::MAX).unwrap().len(), made.len());
    assert_eq!(store.verify(None, false).unwrap().problems, Vec::<String>::new());
}
