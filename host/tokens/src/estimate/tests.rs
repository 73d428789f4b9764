//! How near the estimates come, and what they give for nothing at all.

use super::*;
use crate::Counter;

#[test]
fn nothing_has_no_tokens_and_anything_has_one() {
    assert_eq!(estimate(""), 0);
    assert_eq!(rough_text(""), 0);
    for text in [" ", "a", "\n", "é", "\u{0}"] {
        assert!(estimate(text) >= 1, "{text:?}");
    }
}

#[test]
fn the_rough_figure_counts_characters_not_bytes() {
    assert_eq!(rough_text("汉汉汉汉汉"), 2);
    assert_eq!(rough_text("abcd"), 1);
}

#[test]
fn bounds_hold_for_the_shortest_and_the_longest_tokens() {
    assert_eq!(bounds(0), 0..=0);
    assert_eq!(bounds(1), 1..=1);
    assert_eq!(bounds(129), 2..=129);
    assert_eq!(bounds(usize::MAX), u32::MAX..=u32::MAX);
}

#[test]
fn mixed_text_is_estimated_within_a_quarter() {
    for text in [PROSE, CODE, JSON, LISTING, CHINESE] {
        let (exact, guess) = (f64::from(Counter::for_model("gpt-4o").count(text)), f64::from(estimate(text)));
        assert!((guess / exact - 1.0).abs() <= 0.25, "{guess} for {exact}: {text:.40}");
    }
}

#[test]
fn repeating_a_text_repeats_its_estimate() {
    let (one, many) = (u64::from(estimate(CODE)), u64::from(estimate(&CODE.repeat(1000))));
    // The constant of a text and its rounding up are paid once instead of a thousand times.
    assert!((one - 2) * 1000 <= many && many <= one * 1000, "{one} and {many}");
}

const PROSE: &str = "The failing test expects the parser to keep the comment above the first key. I looked at how the \
    writer joins lines, and it drops every line that starts before the document marker. The fix is small: remember the \
    leading lines, then write them back before anything else.";
const CODE: &str = "impl Parser {\n    pub fn next_token(&mut self) -> Option<Token> {\n        while let Some(c) = self.chars.peek() {\n            if c.is_whitespace() { self.chars.next(); continue; }\n            return self.read_identifier(MAX_LEN);\n        }\n        None\n    }\n}\n";
const JSON: &str = r#"{"results":[{"path":"src/main.rs","line":42,"column":7,"text":"let totalCount = items.len();"},{"path":"src/lib_extra.rs","line":1180,"column":13,"text":"fn load_config(path: &Path)"}],"truncated":false}"#;
const LISTING: &str = "-rw-r--r--  1 root root   579 Nov 30 21:46 Cargo.toml\ndrwxr-xr-x  2 root root  4096 Nov 30 21:46 src\n-rw-r--r--  1 root root 33354 Nov 30 21:46 Cargo.lock\n";
const CHINESE: &str = "请先运行测试，然后告诉我哪些文件需要修改。如果构建失败，请把完整的错误信息贴出来。";
