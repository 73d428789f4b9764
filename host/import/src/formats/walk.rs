//! Shared steps of the readers of JSON documents and event lines.

use crate::build::Piece;
use crate::input::Input;
use crate::json;
use crate::lines::records;
use crate::problems::Problems;
use crate::scan::{Scanner, Stop, Walk, settle};
use crate::{Context, ImportError};
use serde_json::Value;

/// Where a walk through the top of a file stands. Behind a member or an element its value must be read or skipped.
pub(super) enum Place<'k> {
    /// Another top-level value begins.
    Begin,
    /// A member of a top-level object.
    Member(&'k str),
    /// An element of a top-level list.
    Element,
}

/// Walks the top-level values of a file, which may be one document or a document a line.
pub(super) fn top(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
    each: &mut dyn FnMut(Place<'_>, &mut Scanner<'_, '_>, &mut Problems) -> Walk<()>,
) -> Result<(), ImportError> {
    let problems = &mut context.problems;
    let mut scanner = Scanner::new(input, context.options.line_bytes_max);
    let mut walk = || -> Walk<()> {
        while let Some(byte) = scanner.peek()? {
            match byte {
                b'{' => {
                    each(Place::Begin, &mut scanner, problems)?;
                    scanner.object(&mut |key, scanner| each(Place::Member(key), scanner, problems))?;
                }
                b'[' => {
                    each(Place::Begin, &mut scanner, problems)?;
                    scanner.array(&mut |scanner| each(Place::Element, scanner, problems))?;
                }
                b'"' => scanner.skip()?,
                _ => return Err(Stop::Syntax("an object or a list")),
            }
        }
        Ok(())
    };
    let walked = walk();
    let line = scanner.line();
    settle(walked, line, problems)
}

/// Reads every element of a list as a value.
pub(super) fn each_value(
    scanner: &mut Scanner<'_, '_>,
    problems: &mut Problems,
    each: &mut dyn FnMut(u64, Value, &mut Problems),
) -> Walk<()> {
    scanner
        .array(&mut |scanner| {
            let line = scanner.line();
            if let Some(value) = take_value(scanner, problems)? {
                each(line, value, problems);
            }
            Ok(())
        })
        .map(|_| ())
}

/// Reads one value; one that is no valid JSON is left out with a problem.
pub(super) fn take_value(scanner: &mut Scanner<'_, '_>, problems: &mut Problems) -> Walk<Option<Value>> {
    let line = scanner.line();
    let Some(text) = scanner.take(problems)? else { return Ok(None) };
    match json::value(&text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            problems.lost(Some(line), || {
                format!("a record that is no valid JSON ({} bytes); left out: {error}", text.len())
            });
            Ok(None)
        }
    }
}

/// Reads a string member; anything else gives nothing.
pub(super) fn take_string(scanner: &mut Scanner<'_, '_>, problems: &mut Problems) -> Walk<Option<String>> {
    let text = scanner.take(problems)?;
    Ok(text.as_deref().and_then(json::string).map(|text| text.into_owned()))
}

/// Reads the records of a JSON lines file as values.
pub(super) fn value_lines(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
    each: &mut dyn FnMut(u64, Value, &mut Problems),
) -> Result<(), ImportError> {
    records(input, context.options.line_bytes_max, &mut context.problems, &mut |line, record, problems| {
        let value = json::value(record)?;
        if value.is_object() {
            each(line, value, problems);
        } else {
            problems.warn(Some(line), || "not a JSON object; left out".to_owned());
        }
        Ok(())
    })
}

/// Reads content of any of the known shapes as texts and pictures; what is neither is kept as its JSON text.
pub(crate) fn pieces(content: &Value) -> Vec<Piece> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![Piece::Text(text.clone())],
        Value::Array(parts) => parts.iter().flat_map(piece).collect(),
        other => piece(other).into_iter().collect(),
    }
}

fn piece(part: &Value) -> Option<Piece> {
    if let Some(text) = part.as_str().or_else(|| json::get_str(part, "text")) {
        return Some(Piece::Text(text.to_owned()));
    }
    let data_url = |holder: &Value, mime_key: &str| {
        let data = json::get_str(holder, "data")?;
        Some(format!("data:{};base64,{data}", json::get_str(holder, mime_key)?))
    };
    let image = part
        .get("image_url")
        .and_then(|image| image.as_str().or_else(|| json::get_str(image, "url")))
        .map(str::to_owned);
    let image = image.or_else(|| {
        let source = part.get("source")?;
        data_url(source, "media_type").or_else(|| json::get_str(source, "url").map(str::to_owned))
    });
    let image = image.or_else(|| data_url(part, "mimeType")).or_else(|| data_url(part.get("inlineData")?, "mimeType"));
    match image {
        Some(url) => Some(Piece::Image(url)),
        None if part.is_null() => None,
        None => Some(Piece::Text(part.to_string())),
    }
}

/// Joins the texts of content; pictures are left out.
pub(super) fn text_of(content: &Value) -> String {
    let texts: Vec<String> = pieces(content)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Image(_) => None,
        })
        .collect();
    texts.join("\n")
}

/// Arguments of a call as JSON text. A text that is none (a patch, code) becomes the one member of an object.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => text.clone(),
        Some(Value::String(text)) => format!("{{\"input\":{}}}", json::quote(text)),
        Some(other) => other.to_string(),
    }
}

/// Writes the kept members of a wire message as they are; members that are null are left out.
pub(super) fn splice(record: &str, keep: impl Fn(&str) -> bool) -> Option<String> {
    let all = json::members(record)?;
    let mut out = String::with_capacity(record.len());
    out.push('{');
    for (key, raw) in all.iter().filter(|(key, raw)| keep(key) && (*raw != "null" || key == "content")) {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&json::quote(key));
        out.push(':');
        out.push_str(raw);
    }
    out.push('}');
    Some(out)
}
