//! Small operations on text that never split a character and never look at more than they return.

use std::borrow::Cow;

/// Returns at most `chars_max` characters of a text, with an ellipsis in place of what follows.
pub fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_string(),
        Some(_) => {
            let end = text.char_indices().nth(chars_max.saturating_sub(1)).map_or(0, |(at, _)| at);
            format!("{}…", text.get(..end).unwrap_or_default())
        }
    }
}

/// Returns a text on one line, every run of white space a single blank, clipped like [`clip`].
///
/// Control characters other than white space are left out: they would garble a summary and carry no meaning.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut is_gap = false;
    for character in text.chars() {
        if character.is_whitespace() {
            is_gap = !out.is_empty();
            continue;
        }
        if character.is_control() {
            continue;
        }
        let wanted = if is_gap { 2 } else { 1 };
        if count + wanted > chars_max {
            if count >= chars_max {
                out.pop();
            }
            out.push('…');
            return out;
        }
        if is_gap {
            out.push(' ');
            is_gap = false;
        }
        out.push(character);
        count += wanted;
    }
    out
}

/// Returns the first `bytes_max` bytes of a text at most, cut at a character.
pub fn prefix(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

/// Returns the last `bytes_max` bytes of a text at most, cut at a character.
pub fn suffix(text: &str, bytes_max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..).unwrap_or(text)
}

/// Room for the line between two ends; leaving out less than this would make the text longer.
const MARK_BYTES: usize = 64;

/// Returns the beginning and the end of a long text with a line between them that says how much is missing.
///
/// A text no longer than both together, or hardly longer, is returned as it is.
pub fn ends(text: &str, head_bytes: usize, tail_bytes: usize) -> String {
    let mut out = String::new();
    push_ends(&mut out, text, head_bytes, tail_bytes);
    out
}

/// Appends what [`ends`] returns.
pub fn push_ends(out: &mut String, text: &str, head_bytes: usize, tail_bytes: usize) {
    if text.len() <= head_bytes.saturating_add(tail_bytes).saturating_add(MARK_BYTES) {
        out.push_str(text);
        return;
    }
    let head = prefix(text, head_bytes);
    let tail = suffix(text, tail_bytes);
    let left_out = text.len() - head.len() - tail.len();
    out.push_str(head);
    out.push_str("\n[… ");
    out.push_str(&thousands(left_out as u64));
    out.push_str(" bytes left out …]\n");
    out.push_str(tail);
}

/// Returns the text without a model's visible reasoning. Reasoning without an end reaches to the end of the text.
pub fn without_reasoning(text: &str) -> Cow<'_, str> {
    const TAGS: [(&str, &str); 5] = [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<analysis>", "</analysis>"),
        ("<reasoning>", "</reasoning>"),
        ("<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"),
    ];
    let mut rest = text;
    let mut out = String::new();
    // One pass over the opening brackets: a search for each tag from each find on would be quadratic.
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|rest| rest.find('<')).map(|at| from + at) {
        let inside = rest.get(at..).unwrap_or_default();
        let Some((_, end)) = TAGS.iter().find(|(start, _)| inside.starts_with(start)) else {
            from = at + 1;
            continue;
        };
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = inside.find(end).and_then(|at| inside.get(at + end.len()..)).unwrap_or_default();
        from = 0;
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns a number with commas between groups of three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the longest beginning of a text that has at most `budget_tokens`, cut at a line where one is near.
pub fn fit(text: &str, budget_tokens: u64, count: &dyn Fn(&str) -> u64) -> String {
    if budget_tokens == 0 {
        return String::new();
    }
    // Prose and code have three to five bytes a token, long runs of blanks up to sixteen; so a text larger than this
    // does not fit, and a huge one is not worth counting whole.
    let text = prefix(text, usize::try_from(budget_tokens.saturating_mul(16)).unwrap_or(usize::MAX));
    let mut high = text.len();
    if count(text) <= budget_tokens {
        return text.to_string();
    }
    let mut low = 0;
    // Twelve halvings find the place to within a four-thousandth, and each costs a count.
    for _ in 0..12 {
        let middle = text.floor_char_boundary(low + (high - low) / 2);
        if middle <= low {
            break;
        }
        if count(text.get(..middle).unwrap_or_default()) <= budget_tokens {
            low = middle;
        } else {
            high = middle;
        }
    }
    let cut = text.get(..low).unwrap_or_default();
    // Half a line reads as a mistake; a lost third of the text would be one.
    match cut.rfind('\n') {
        Some(end) if end > cut.len() / 3 * 2 => cut.get(..end).unwrap_or(cut).to_string(),
        _ => cut.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_keeps_characters_whole() {
        assert_eq!(clip("grüße", 5), "grüße");
        assert_eq!(clip("grüße an alle", 5), "grüß…");
        assert_eq!(clip("日本語のテキスト", 3), "日本…");
        assert_eq!(clip("", 0), "");
        assert_eq!(clip("abc", 0), "…");
    }

    #[test]
    fn one_line_folds_white_space() {
        assert_eq!(one_line("  a\n\tb   c\u{7}d ", 40), "a b cd");
        assert_eq!(one_line("one two three", 7), "one tw…");
        assert_eq!(one_line("one two", 7), "one two");
        assert_eq!(one_line(&"x".repeat(100), 10).chars().count(), 10);
    }

    #[test]
    fn ends_of_a_long_text_say_what_is_missing() {
        let text = "é".repeat(1_000);
        let cut = ends(&text, 101, 101);
        assert!(cut.starts_with(&"é".repeat(50)) && cut.ends_with(&"é".repeat(50)), "{cut}");
        assert!(cut.contains("1,800 bytes"), "{cut}");
        assert_eq!(ends("short", 2, 2), "short");
    }

    #[test]
    fn visible_reasoning_is_taken_out() {
        for (text, want) in [
            ("<think>hm</think>\n## Goal\nx", "\n## Goal\nx"),
            ("a <analysis>b</analysis> c<think>d", "a  c"),
            ("a < b <i>c</i>", "a < b <i>c</i>"),
            ("<think>only", ""),
        ] {
            assert_eq!(without_reasoning(text), want);
        }
    }

    #[test]
    fn fitting_never_passes_the_budget() {
        let count = |text: &str| text.chars().count() as u64;
        for budget in [0, 1, 2, 7, 100, 5_000] {
            let text = "line of text\nwith ümläuts\n".repeat(50);
            let cut = fit(&text, budget, &count);
            assert!(count(&cut) <= budget, "{budget}: {}", count(&cut));
            assert!(text.starts_with(&cut));
        }
    }
}
