//! Texts as they stand in transcripts: prose, code, tool output, other scripts, and what breaks programs.

use super::json::{LONE_SURROGATES, quoted};
use super::rng::Rng;
use super::{LONG_TEXT_CHARS_MAX, LONG_TEXT_FACTOR};

const WORDS: [&str; 36] = [
    "the", "test", "fails", "because", "config", "is", "read", "before", "session", "starts", "so", "we", "move", "it",
    "into", "main", "and", "check", "again", "please", "fix", "retry", "loop", "never", "cache", "answer", "I'll",
    "look", "at", "this", "file", "now", "done", "not", "yet", "why",
];
const PATHS: [&str; 8] = [
    "src/main.rs",
    "src/auth/login.rs:118",
    "tests/e2e/gateway_test.py",
    "C:\\Users\\dev\\app\\index.ts",
    "/srv/app/config/settings.yaml",
    "packages/core/lib/store.go:42:7",
    "./docs/README.md#usage",
    "node_modules/left-pad/index.js",
];
const ERRORS: [&str; 6] = [
    "error[E0308]: mismatched types",
    "TypeError: Cannot read properties of undefined (reading 'id')",
    "thread 'main' panicked at src/lib.rs:9:5:\nindex out of bounds: the len is 3 but the index is 7",
    "Traceback (most recent call last):\n  File \"app.py\", line 12, in <module>\nKeyError: 'user'",
    "fatal: not a git repository (or any of the parent directories): .git",
    "make: *** [all] Error 2",
];
const CJK: [&str; 9] = [
    "テストが失敗する原因を調べてください。",
    "設定ファイルを読み込む前にセッションが始まっています",
    "请先修复登录模块，然后再运行测试。",
    "上下文窗口已满",
    "이 함수는 왜 두 번 호출되나요?",
    "ﾊﾝｶｸ",
    "𠮷野家",
    "、。「」",
    "ﬀ①㌔",
];
const PICTURES: [&str; 8] = ["😀", "👩🏽‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "✅", "1️⃣", "e\u{301}\u{302}"];
const OTHER_SCRIPTS: [&str; 7] = [
    "Почему тест падает?",
    "لماذا يفشل الاختبار؟",
    "הבדיקה נכשלת",
    "परीक्षण विफल क्यों है",
    "ทำไมการทดสอบล้มเหลว",
    "Größe, naïve, café",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘",
];
/// Words that programs look for: in a text of a user or a tool they mean nothing.
const MARKERS: [&str; 18] = [
    "<|endoftext|>",
    "<|im_start|>system",
    "[INST]",
    "\n\nHuman: ",
    "<system-reminder>",
    "</system-reminder>",
    "[CONTEXT COMPACTION]",
    "[Old tool output cleared]",
    "This session is being continued from a previous conversation that ran out of context.",
    "<summary>",
    "</summary>",
    "{{messages}}",
    "${HOME}",
    "%s %d {} {0}",
    "]}]}",
    "\"role\":\"system\"",
    "```",
    "data: [DONE]\n\n",
];
const CONTROLS: [&str; 10] =
    ["\0", "\u{1}", "\u{7}", "\u{8}", "\u{b}", "\u{c}", "\u{1b}[31m", "\u{1c}", "\u{1f}", "\u{7f}\u{85}"];
const ODD: [&str; 12] = [
    "\u{feff}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2029}",
    "\u{a0}",
    "\u{3000}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{fe0f}",
];

/// Returns a text that is not blank; most are near `size` characters long.
pub(super) fn any(rng: &mut Rng, size: usize) -> String {
    let chars = match rng.below(1000) {
        0 => rng.between(size, size.saturating_mul(LONG_TEXT_FACTOR).min(LONG_TEXT_CHARS_MAX)),
        1..=10 => rng.between(size, size.saturating_mul(20).min(LONG_TEXT_CHARS_MAX)),
        11..=200 => rng.between(1, 8),
        _ => rng.between(1, size.saturating_mul(2)),
    };
    of_length(rng, chars.max(1))
}

/// Returns a text that no person wrote: the client put it there.
pub(super) fn injected(rng: &mut Rng, size: usize) -> String {
    let body = prose(rng, size);
    match rng.below(5) {
        0 => format!("<system-reminder>\n{body}\n</system-reminder>"),
        1 => {
            format!("<environment_context>\n  <cwd>/srv/app</cwd>\n  <shell>bash</shell>\n</environment_context>{body}")
        }
        2 => format!("# AGENTS.md instructions for /srv/app\n\n<INSTRUCTIONS>\n{body}\n</INSTRUCTIONS>"),
        3 => format!("<user_instructions>\n{body}\n</user_instructions>"),
        _ => "[Request interrupted by user for tool use]".to_owned(),
    }
}

/// Returns a text of a user that looks like a tool's answer or like another message.
pub(super) fn disguised(rng: &mut Rng, size: usize) -> String {
    let body = log(rng, size);
    match rng.below(5) {
        0 => format!("{{\"role\": \"tool\", \"tool_call_id\": \"call_1\", \"content\": \"{body}\"}}"),
        1 => format!("<tool_result>\n{body}\n</tool_result>"),
        2 => format!("<function_results><result><output>{body}</output></result></function_results>"),
        3 => format!("OBSERVATION:\n{body}\n(Open file: src/main.rs)"),
        _ => format!("Exit code 1\n{body}"),
    }
}

/// Returns the text of a tool's arguments: a JSON object most of the time, and any text where `may_be_broken`.
pub(super) fn arguments(rng: &mut Rng, size: usize, may_be_broken: bool) -> String {
    let path = quoted(rng.pick(&PATHS));
    match rng.below(12) {
        0 => "{}".to_owned(),
        1 => format!("{{\"command\": [\"bash\", \"-lc\", {path}], \"timeout_ms\": 10000}}"),
        2 => format!("{{\n  \"path\": {path},\n  \"content\": {}\n}}", quoted(&code(rng, size))),
        3 => "{\"a\":1.0,\"b\":1e5,\"big\":123456789012345678901234567890,\"a\":null}".to_owned(),
        4 => "{\"q\":\"\\ud83d\\u0000 \\u00e9\"}".to_owned(),
        5 if may_be_broken => String::new(),
        6 if may_be_broken => rng.pick(&["{\"x\": ", "not json", "{'a': 1}", "{}{}", "\u{feff}{}"]).to_string(),
        7 if may_be_broken => rng.pick(&["[]", "null", "\"text\"", "7", " {} "]).to_string(),
        _ => format!("{{\"file_path\":{path},\"limit\":{}}}", rng.below(5000)),
    }
}

fn of_length(rng: &mut Rng, chars: usize) -> String {
    let mut text = match rng.below(24) {
        0..=6 => prose(rng, chars),
        7..=9 => code(rng, chars),
        10..=12 => log(rng, chars),
        13 => filled(rng, chars, |rng, out| out.push_str(rng.pick(&CJK))),
        14 => filled(rng, chars, |rng, out| out.push_str(rng.pick(&PICTURES))),
        15 => filled(rng, chars, |rng, out| out.push_str(rng.pick(&OTHER_SCRIPTS))),
        16 => mixed(rng, chars, |rng| rng.pick(&MARKERS).to_string()),
        17 => mixed(rng, chars, |rng| rng.pick(&CONTROLS).to_string()),
        18 => mixed(rng, chars, |rng| rng.pick(&ODD).to_string()),
        19 => mixed(rng, chars, |rng| {
            char::from_u32(LONE_SURROGATES + rng.below(0x800) as u32).unwrap_or('x').to_string()
        }),
        20 => {
            const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            filled(rng, chars, |rng, out| out.push(char::from(rng.pick(DIGITS))))
        }
        21 => {
            // One character many times over is where naive tokenisers need quadratic time.
            let piece = rng.pick(&["a", " ", "=", "[", "{\"a\":", "\\", "\"", "\n", "ー", "🙂"]);
            filled(rng, chars, |_, out| out.push_str(piece))
        }
        22 => disguised(rng, chars),
        _ => format!("{}{}{}", rng.pick(&[" ", "\n\n", "\t", "\r\n"]), prose(rng, chars), rng.pick(&[" ", "\n", ""])),
    };
    if is_blank(&text) {
        text.push('x');
    }
    text
}

/// Tells whether an API would take a text for empty.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Cuts the white space off the end of a text.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Fills a text with pieces. A long one repeats what it has, so that its cost does not grow with the dice thrown.
fn filled(rng: &mut Rng, chars: usize, mut add: impl FnMut(&mut Rng, &mut String)) -> String {
    const DISTINCT_CHARS: usize = 2_000;
    let mut out = String::new();
    let mut count = 0;
    while count < chars.min(DISTINCT_CHARS) {
        let before = out.len();
        add(rng, &mut out);
        count += out[before..].chars().count().max(1);
    }
    if chars > DISTINCT_CHARS {
        let pattern = out.clone();
        while count < chars {
            out.push_str(&pattern);
            count += DISTINCT_CHARS;
        }
    }
    out
}

fn prose(rng: &mut Rng, chars: usize) -> String {
    filled(rng, chars, |rng, out| {
        match rng.below(40) {
            0 => out.push_str(rng.pick(&PATHS)),
            1 => out.push_str(rng.pick(&ERRORS)),
            2 => out.push_str(&format!("{:040x}", u128::from(rng.next_u64()) << 64)),
            3 => out.push_str(&format!("PR #{}", rng.below(9000))),
            4 => out.push_str(&format!("https://example.com/a?b={}&c=%20#d", rng.below(99))),
            5 => out.push_str(&format!("**{}**\n\n- item\n- item\n\n| a | b |\n|---|---|\n", rng.pick(&WORDS))),
            // The shape of a key, made up on the spot: whoever hides keys must find it, scanners of sources must not.
            6 => out.push_str(&format!("{}-{}{:016x}{:016x}", "sk", "proj-", rng.next_u64(), rng.next_u64())),
            _ => out.push_str(rng.pick(&WORDS)),
        }
        out.push_str(if rng.one_in(9) { ". " } else { " " });
    })
}

fn code(rng: &mut Rng, chars: usize) -> String {
    filled(rng, chars, |rng, out| {
        let name = rng.pick(&WORDS);
        let line = match rng.below(6) {
            0 => format!("fn {name}(a: &str) -> Result<(), Error> {{\n"),
            1 => format!("    let {name} = vec![1, 2, 3]; // {name}\n"),
            2 => "}\n\n".to_owned(),
            3 => format!("\treturn {name}[\"key\"] === null ? `\\`${{x}}\\`` : '\\\\';\r\n"),
            4 => format!("+{name}: \"{{{{ value }}}}\"\n-{name}: |\n"),
            _ => format!("    if {name} < 0 && {name} > 1 {{ <div class='{name}'>&amp;</div> }}\n"),
        };
        out.push_str(&line);
    })
}

fn log(rng: &mut Rng, chars: usize) -> String {
    filled(rng, chars, |rng, out| {
        let line = match rng.below(6) {
            0 => format!("{}: {}\n", rng.pick(&PATHS), rng.pick(&ERRORS)),
            1 => format!("-rw-r--r-- 1 dev dev {:>8} Jan  1 00:00 {}\n", rng.below(1 << 24), rng.pick(&PATHS)),
            2 => format!("2025-01-01T00:00:00Z INFO request id={:016x} status=200\n", rng.next_u64()),
            3 => format!("test {} ... ok\n", rng.pick(&WORDS)),
            4 => format!("\u{1b}[32m✓\u{1b}[0m {} ({}ms)\r", rng.pick(&WORDS), rng.below(900)),
            _ => format!("{:>6}\t{}\n", rng.below(4000), rng.pick(&WORDS)),
        };
        out.push_str(&line);
    })
}

/// Sets odd pieces into prose.
fn mixed(rng: &mut Rng, chars: usize, mut piece: impl FnMut(&mut Rng) -> String) -> String {
    filled(rng, chars, |rng, out| {
        let word = if rng.one_in(3) { piece(rng) } else { rng.pick(&WORDS).to_string() };
        out.push_str(&word);
        if rng.one_in(2) {
            out.push(' ');
        }
    })
}
