//! Splits a Rust source into what is code and what is comment, line by line, without parsing it.

/// One line of a source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, without what stands in strings.
    pub(crate) code: String,
    /// The comment, with its slashes.
    pub(crate) comment: String,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    /// How deep block comments are nested.
    BlockComment(usize),
    Text,
    /// How many signs end the raw string.
    RawText(usize),
}

/// Splits a source into lines.
pub(crate) fn lines(source: &str) -> Vec<Line> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut i = 0;
    while i < chars.len() {
        let c = at(i);
        let mut width = 1;
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            i += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is always a line");
        match state {
            State::Code => match (c, at(i + 1)) {
                ('/', '/') => {
                    state = State::LineComment;
                    line.comment.push(c);
                }
                ('/', '*') => {
                    state = State::BlockComment(1);
                    line.comment.push_str("/*");
                    width = 2;
                }
                ('"', _) => {
                    state = State::Text;
                    line.code.push('"');
                }
                ('r', '"' | '#') if !is_word(i.checked_sub(1).map_or(' ', &at)) || at(i - 1) == 'b' => {
                    let signs = (i + 1..).take_while(|&k| at(k) == '#').count();
                    if at(i + 1 + signs) == '"' {
                        state = State::RawText(signs);
                        line.code.push('"');
                        width = signs + 2;
                    } else {
                        line.code.push('r');
                    }
                }
                ('\'', '\\') => {
                    // An escaped character ends at the next quote that is not the escaped one.
                    let end = (i + 3..chars.len()).find(|&k| at(k) == '\'').unwrap_or(i);
                    line.code.push_str("' '");
                    width = end - i + 1;
                }
                ('\'', _) if at(i + 2) == '\'' => {
                    line.code.push_str("' '");
                    width = 3;
                }
                _ => line.code.push(c),
            },
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => {
                line.comment.push(c);
                match (c, at(i + 1)) {
                    ('*', '/') => {
                        line.comment.push('/');
                        width = 2;
                        state = if depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
                    }
                    ('/', '*') => {
                        line.comment.push('*');
                        width = 2;
                        state = State::BlockComment(depth + 1);
                    }
                    _ => {}
                }
            }
            State::Text => match c {
                // An escaped line end still begins a line.
                '\\' if at(i + 1) != '\n' => width = 2,
                '"' => {
                    line.code.push('"');
                    state = State::Code;
                }
                _ => {}
            },
            State::RawText(signs) => {
                if c == '"' && (1..=signs).all(|k| at(i + k) == '#') {
                    line.code.push('"');
                    width = signs + 1;
                    state = State::Code;
                }
            }
        }
        i += width;
    }
    lines
}

/// Tells whether a character may be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Finds a word that stands alone.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(start, found)| !text[..start].ends_with(is_word) && !text[start + found.len()..].starts_with(is_word))
}

#[test]
fn code_and_comments_are_told_apart() {
    let source = r##"let a = "unsafe // no"; // yes unsafe
/* one /* two */ unsafe */ let b = 'x';
let c = r#"unsafe " still"#; let d = b"\"unsafe";
let e: &'static str = "a\\"; unsafe {}
let f = '\''; let g = '"'; let h = "two
lines unsafe"; let r#type = br"unsafe";"##;
    let lines = lines(source);
    let with_word: Vec<usize> = (0..lines.len()).filter(|&i| has_word(&lines[i].code, "unsafe")).collect();
    assert_eq!(with_word, [3]);
    assert_eq!(lines[0].comment, "// yes unsafe");
    assert_eq!(lines[1].comment, "/* one /* two */ unsafe */");
    assert_eq!(lines[1].code, " let b = ' ';");
    assert_eq!(lines[5].code, "\"; let r#type = b\"\";");
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_word_is_found_only_whole() {
    assert!(has_word("x unsafe{", "unsafe"));
    assert!(!has_word("unsafe_code, not_unsafe", "unsafe"));
}
