//! JSON as clients write it: every order of fields, every spacing, every way to escape.

use super::rng::Rng;

/// First of the characters that stand for halves of surrogate pairs in texts; written as the escape of the half.
pub(super) const LONE_SURROGATES: u32 = 0xF_0000;

/// A value that keeps doubled fields and texts which no Rust string could hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    /// A number, a literal, or a whole value that is written already.
    Raw(String),
    Text(String),
    List(Vec<Json>),
    Object(Fields),
}

/// Fields of an object, in the order in which they are written.
pub(super) type Fields = Vec<(String, Json)>;

/// Writes an object: `object! { "role": "user", "content": text }`.
macro_rules! object {
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::generate::json::Json::Object(vec![
            $(($key.to_owned(), $crate::generate::json::Json::from($value))),*
        ])
    };
}
pub(super) use object;

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::Text(text.to_owned())
    }
}
impl From<String> for Json {
    fn from(text: String) -> Self {
        Json::Text(text)
    }
}
impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Self {
        Json::List(items)
    }
}
impl From<bool> for Json {
    fn from(flag: bool) -> Self {
        Json::Raw(flag.to_string())
    }
}
impl From<usize> for Json {
    fn from(number: usize) -> Self {
        Json::Raw(number.to_string())
    }
}

/// How a client writes its JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    space: Space,
    escape: Escape,
    is_shuffled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    None,
    One,
    Lines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// Only what must be escaped.
    Least,
    /// Everything beyond ASCII, in small or capital digits.
    Ascii { is_upper: bool },
    /// The slash too, as PHP does.
    Slash,
}

impl Style {
    pub(super) fn of_client(rng: &mut Rng) -> Style {
        Style {
            space: rng.pick(&[Space::None, Space::None, Space::None, Space::One, Space::One, Space::Lines]),
            escape: rng.pick(&[
                Escape::Least,
                Escape::Least,
                Escape::Ascii { is_upper: false },
                Escape::Ascii { is_upper: true },
                Escape::Slash,
            ]),
            is_shuffled: rng.one_in(4),
        }
    }
}

impl Json {
    pub(super) fn null() -> Json {
        Json::Raw("null".to_owned())
    }

    /// Adds a field at the end.
    #[must_use]
    pub(super) fn with(mut self, key: &str, value: impl Into<Json>) -> Json {
        self.push(key, value);
        self
    }

    /// Adds a field at the end; does nothing to what is no object.
    pub(super) fn push(&mut self, key: &str, value: impl Into<Json>) {
        if let Json::Object(fields) = self {
            fields.push((key.to_owned(), value.into()));
        }
    }

    /// Sets a field where it stands, or adds it.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Json>) {
        match self.get_mut(key) {
            Some(old) => *old = value.into(),
            None => self.push(key, value),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        match self {
            Json::Object(fields) => fields.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn items_mut(&mut self, key: &str) -> Option<&mut Vec<Json>> {
        match self.get_mut(key) {
            Some(Json::List(items)) => Some(items),
            _ => None,
        }
    }

    /// Goes through this object and all within it. The trees that are made here are some levels deep, never many.
    pub(super) fn objects_mut(&mut self, visit: &mut dyn FnMut(&mut Fields)) {
        match self {
            Json::Object(fields) => {
                visit(fields);
                fields.iter_mut().for_each(|(_, value)| value.objects_mut(visit));
            }
            Json::List(items) => items.iter_mut().for_each(|item| item.objects_mut(visit)),
            Json::Raw(_) | Json::Text(_) => {}
        }
    }

    pub(super) fn render(&self, rng: &mut Rng, style: Style) -> String {
        let mut out = String::new();
        self.write(rng, style, 0, &mut out);
        out
    }

    fn write(&self, rng: &mut Rng, style: Style, depth: usize, out: &mut String) {
        match self {
            Json::Raw(raw) => out.push_str(raw),
            Json::Text(text) => write_text(text, style.escape, out),
            Json::List(items) if items.is_empty() => out.push_str("[]"),
            Json::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    write_gap(style.space, i, depth + 1, out);
                    item.write(rng, style, depth + 1, out);
                }
                write_end(style.space, depth, out);
                out.push(']');
            }
            Json::Object(fields) if fields.is_empty() => out.push_str("{}"),
            Json::Object(fields) => {
                let mut order: Vec<usize> = (0..fields.len()).collect();
                if style.is_shuffled {
                    rng.shuffle(&mut order);
                }
                out.push('{');
                for (i, (key, value)) in order.iter().map(|&k| &fields[k]).enumerate() {
                    write_gap(style.space, i, depth + 1, out);
                    write_text(key, style.escape, out);
                    out.push(':');
                    if style.space != Space::None {
                        out.push(' ');
                    }
                    value.write(rng, style, depth + 1, out);
                }
                write_end(style.space, depth, out);
                out.push('}');
            }
        }
    }
}

fn write_gap(space: Space, index: usize, depth: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
    match space {
        Space::None => {}
        Space::One if index == 0 => {}
        Space::One => out.push(' '),
        Space::Lines => write_line(depth, out),
    }
}

fn write_end(space: Space, depth: usize, out: &mut String) {
    if space == Space::Lines {
        write_line(depth, out);
    }
}

fn write_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_text(text, Escape::Least, &mut out);
    out
}

fn write_text(text: &str, escape: Escape, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' if escape == Escape::Slash => out.push_str("\\b"),
            '\u{c}' if escape == Escape::Slash => out.push_str("\\f"),
            '/' if escape == Escape::Slash => out.push_str("\\/"),
            '\0'..='\u{1f}' => write_unit(c as u16, false, out),
            '\u{f0000}'..='\u{f07ff}' => write_unit((0xD800 + c as u32 - LONE_SURROGATES) as u16, false, out),
            _ => match escape {
                Escape::Ascii { is_upper } if !c.is_ascii() => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().for_each(|unit| write_unit(*unit, is_upper, out));
                }
                _ => out.push(c),
            },
        }
    }
    out.push('"');
}

fn write_unit(unit: u16, is_upper: bool, out: &mut String) {
    let digits = if is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
    out.push_str(&digits);
}
