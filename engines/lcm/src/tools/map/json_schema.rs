//! Checks a value against a JSON Schema and says in words what is wrong, so that a model can mend it.
//!
//! The keywords of drafts 7 to 2020-12 that speak of values; references within the schema. A keyword that would be
//! passed over silently is refused when the schema is read.

use engine_api::json::Value;
use engine_kit::text::clip;
use regex::{Regex, RegexBuilder};
use std::collections::{HashMap, HashSet};

/// A schema's size, the depth of schemas and values, and the steps of one check: references can multiply work.
const SCHEMA_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 48;
const STEPS_MAX: u64 = 200_000;
/// Memory of a compiled pattern.
const PATTERN_MEMORY_MAX: usize = 1 << 20;

/// Keywords that say nothing of a value, or that are hints only.
const REMARKS: [&str; 16] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "$anchor",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentEncoding",
    "contentMediaType",
];
const KEYWORDS: [&str; 32] = [
    "$ref",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "items",
    "prefixItems",
    "contains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "nullable",
];
/// These belong to `if`.
const BRANCHES: [&str; 2] = ["then", "else"];

/// A schema that was read.
pub(super) struct Schema<'s> {
    root: &'s Value,
    patterns: HashMap<&'s str, Regex>,
}

impl<'s> Schema<'s> {
    /// Reads a schema.
    pub(super) fn new(root: &'s Value) -> Result<Schema<'s>, String> {
        if root.to_string().len() > SCHEMA_BYTES_MAX {
            return Err(format!("it is over {SCHEMA_BYTES_MAX} bytes"));
        }
        let mut schema = Schema { root, patterns: HashMap::new() };
        schema.read(root, 0)?;
        Ok(schema)
    }

    fn read(&mut self, schema: &'s Value, depth: usize) -> Result<(), String> {
        let members = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(members) => members,
            _ => return Err("a schema is an object, true or false".to_string()),
        };
        if depth > DEPTH_MAX {
            return Err(format!("it is over {DEPTH_MAX} levels deep"));
        }
        for (key, value) in members {
            let name = key.as_str();
            if !(REMARKS.contains(&name) || KEYWORDS.contains(&name) || BRANCHES.contains(&name)) {
                return Err(format!("the keyword \"{}\" is not supported", clip(name, 60)));
            }
            match name {
                "properties" | "patternProperties" | "$defs" | "definitions" => {
                    let members = value.as_object().ok_or_else(|| format!("{name} must be an object"))?;
                    for (key, value) in members {
                        if name == "patternProperties" {
                            self.compile(key)?;
                        }
                        self.read(value, depth + 1)?;
                    }
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    let list = value.as_array().ok_or_else(|| format!("{name} must be a list"))?;
                    list.iter().try_for_each(|value| self.read(value, depth + 1))?;
                }
                "items" if value.is_array() => return Err("items must be a schema; use prefixItems".to_string()),
                "items" | "additionalProperties" | "propertyNames" | "contains" | "not" | "if" | "then" | "else" => {
                    self.read(value, depth + 1)?;
                }
                "pattern" => self.compile(value.as_str().ok_or("pattern must be a string")?)?,
                "$ref" => {
                    let path = value.as_str().ok_or("$ref must be a string")?;
                    self.target(path).ok_or_else(|| format!("$ref {} is not in the schema", clip(path, 80)))?;
                }
                "type" => {
                    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
                    let is_known = |value: &Value| value.as_str().is_some_and(|word| TYPES.contains(&word));
                    let is_right = is_known(value) || value.as_array().is_some_and(|list| list.iter().all(is_known));
                    if !is_right {
                        return Err(format!("type must be of {}", TYPES.join(", ")));
                    }
                }
                "required" | "enum" if !value.is_array() => return Err(format!("{name} must be a list")),
                _ => {}
            }
        }
        Ok(())
    }

    fn compile(&mut self, pattern: &'s str) -> Result<(), String> {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_MEMORY_MAX).build();
        let regex = built.map_err(|_| format!("the pattern \"{}\" is not usable", clip(pattern, 60)))?;
        self.patterns.insert(pattern, regex);
        Ok(())
    }

    fn target(&self, path: &str) -> Option<&'s Value> {
        match path.strip_prefix('#')? {
            "" => Some(self.root),
            pointer => self.root.pointer(pointer),
        }
    }

    /// Checks a value; the error says where and what.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        let mut check = Check { schema: self, steps: 0 };
        check.value(self.root, value, "$", 0)
    }
}

struct Check<'c, 's> {
    schema: &'c Schema<'s>,
    steps: u64,
}

impl<'s> Check<'_, 's> {
    fn value(&mut self, schema: &'s Value, value: &Value, at: &str, depth: usize) -> Result<(), String> {
        self.steps += 1;
        if depth > DEPTH_MAX || self.steps > STEPS_MAX {
            return Err(format!("{at}: too deep or too much to check"));
        }
        let members = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(members) => members,
            _ => return Err(format!("{at}: nothing is allowed here")),
        };
        let get = |key: &str| members.get(key);
        if let Some(target) = get("$ref").and_then(Value::as_str).and_then(|path| self.schema.target(path)) {
            self.value(target, value, at, depth + 1)?;
        }
        let is_nullable = get("nullable").and_then(Value::as_bool) == Some(true);
        if value.is_null() && is_nullable {
            return Ok(());
        }
        if let Some(wanted) = get("type") {
            let is_right = |word: &Value| word.as_str().is_some_and(|word| is_of(value, word));
            if !(is_right(wanted) || wanted.as_array().is_some_and(|list| list.iter().any(is_right))) {
                return Err(format!("{at}: must be of type {wanted}, not {}", type_of(value)));
            }
        }
        if let Some(list) = get("enum").and_then(Value::as_array)
            && !list.iter().any(|allowed| is_equal(allowed, value))
        {
            let allowed = clip(&Value::Array(list.clone()).to_string(), 200);
            return Err(format!("{at}: must be one of {allowed}"));
        }
        if let Some(wanted) = get("const").filter(|wanted| !is_equal(wanted, value)) {
            return Err(format!("{at}: must be {}", clip(&wanted.to_string(), 100)));
        }
        match value {
            Value::Object(object) => self.object(members, object, at, depth)?,
            Value::Array(list) => self.list(members, list, at, depth)?,
            Value::String(text) => self.text(members, text, at)?,
            Value::Number(number) => check_number(members, number.as_f64().unwrap_or(0.0), at)?,
            _ => {}
        }
        self.combined(members, value, at, depth)
    }

    fn combined(
        &mut self,
        members: &'s engine_api::json::Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let list = |key: &str| members.get(key).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            self.value(part, value, at, depth + 1)?;
        }
        if let Some(parts) = list("anyOf") {
            let mut first = String::new();
            let is_any = parts.iter().any(|part| match self.value(part, value, at, depth + 1) {
                Ok(()) => true,
                Err(why) => {
                    if first.is_empty() {
                        first = why;
                    }
                    false
                }
            });
            if !is_any {
                return Err(format!("{at}: fits none of anyOf; the first says {}", clip(&first, 200)));
            }
        }
        if let Some(parts) = list("oneOf") {
            let fitting = parts.iter().filter(|part| self.value(part, value, at, depth + 1).is_ok()).count();
            if fitting != 1 {
                return Err(format!("{at}: must fit exactly one of oneOf, fits {fitting}"));
            }
        }
        if let Some(part) = members.get("not")
            && self.value(part, value, at, depth + 1).is_ok()
        {
            return Err(format!("{at}: is what \"not\" excludes"));
        }
        if let Some(part) = members.get("if") {
            let branch = if self.value(part, value, at, depth + 1).is_ok() { "then" } else { "else" };
            if let Some(part) = members.get(branch) {
                self.value(part, value, at, depth + 1)?;
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        members: &'s engine_api::json::Map<String, Value>,
        object: &engine_api::json::Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        for name in members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                return Err(format!("{at}: \"{}\" is missing", clip(name, 80)));
            }
        }
        for (name, others) in members.get("dependentRequired").and_then(Value::as_object).into_iter().flatten() {
            let others = others.as_array().into_iter().flatten().filter_map(Value::as_str);
            if let (true, Some(missing)) =
                (object.contains_key(name), others.into_iter().find(|other| !object.contains_key(*other)))
            {
                return Err(format!("{at}: \"{}\" is missing beside \"{}\"", clip(missing, 80), clip(name, 80)));
            }
        }
        check_count(members, "minProperties", "maxProperties", object.len(), at, "members")?;
        let properties = members.get("properties").and_then(Value::as_object);
        let by_pattern = members.get("patternProperties").and_then(Value::as_object);
        for (name, value) in object {
            let place = format!("{at}.{}", clip(name, 60));
            let mut is_known = false;
            if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                is_known = true;
                self.value(schema, value, &place, depth + 1)?;
            }
            for (pattern, schema) in by_pattern.into_iter().flatten() {
                if self.schema.patterns.get(pattern.as_str()).is_some_and(|regex| regex.is_match(name)) {
                    is_known = true;
                    self.value(schema, value, &place, depth + 1)?;
                }
            }
            match members.get("additionalProperties") {
                Some(Value::Bool(false)) if !is_known => {
                    return Err(format!("{at}: \"{}\" is not allowed", clip(name, 80)));
                }
                Some(schema) if !is_known => self.value(schema, value, &place, depth + 1)?,
                _ => {}
            }
            if let Some(schema) = members.get("propertyNames") {
                self.value(schema, &Value::String(name.clone()), &place, depth + 1)?;
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        members: &'s engine_api::json::Map<String, Value>,
        list: &[Value],
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        check_count(members, "minItems", "maxItems", list.len(), at, "entries")?;
        let first = members.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, value) in list.iter().enumerate() {
            let schema = first.get(index).or(members.get("items"));
            if let Some(schema) = schema {
                self.value(schema, value, &format!("{at}[{index}]"), depth + 1)?;
            }
        }
        if let Some(schema) = members.get("contains")
            && !list.iter().any(|value| self.value(schema, value, at, depth + 1).is_ok())
        {
            return Err(format!("{at}: no entry is what \"contains\" asks for"));
        }
        if members.get("uniqueItems").and_then(Value::as_bool) == Some(true) {
            let mut seen = HashSet::new();
            if let Some(index) = list.iter().position(|value| !seen.insert(value.to_string())) {
                return Err(format!("{at}: entry {index} stands there twice"));
            }
        }
        Ok(())
    }

    fn text(&self, members: &engine_api::json::Map<String, Value>, text: &str, at: &str) -> Result<(), String> {
        check_count(members, "minLength", "maxLength", text.chars().count(), at, "characters")?;
        let pattern = members.get("pattern").and_then(Value::as_str);
        if let Some(regex) = pattern.and_then(|pattern| self.schema.patterns.get(pattern))
            && !regex.is_match(text)
        {
            return Err(format!("{at}: does not match {}", clip(regex.as_str(), 100)));
        }
        Ok(())
    }
}

fn check_count(
    members: &engine_api::json::Map<String, Value>,
    least: &str,
    most: &str,
    count: usize,
    at: &str,
    what: &str,
) -> Result<(), String> {
    let bound = |key: &str| members.get(key).and_then(Value::as_u64);
    if let Some(least) = bound(least).filter(|least| (count as u64) < *least) {
        return Err(format!("{at}: has {count} {what}, at least {least} are needed"));
    }
    if let Some(most) = bound(most).filter(|most| count as u64 > *most) {
        return Err(format!("{at}: has {count} {what}, at most {most} are allowed"));
    }
    Ok(())
}

fn check_number(members: &engine_api::json::Map<String, Value>, number: f64, at: &str) -> Result<(), String> {
    let bound = |key: &str| members.get(key).and_then(Value::as_f64);
    for (key, is_wrong) in [
        ("minimum", bound("minimum").is_some_and(|least| number < least)),
        ("maximum", bound("maximum").is_some_and(|most| number > most)),
        ("exclusiveMinimum", bound("exclusiveMinimum").is_some_and(|least| number <= least)),
        ("exclusiveMaximum", bound("exclusiveMaximum").is_some_and(|most| number >= most)),
        (
            "multipleOf",
            bound("multipleOf").is_some_and(|step| {
                step > 0.0 && {
                    let times = number / step;
                    (times - times.round()).abs() > 1e-9 * times.abs().max(1.0)
                }
            }),
        ),
    ] {
        if is_wrong {
            return Err(format!("{at}: {number} breaks {key} {}", bound(key).unwrap_or_default()));
        }
    }
    Ok(())
}

fn is_of(value: &Value, word: &str) -> bool {
    match word {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        other => type_of(value) == other,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `1` and `1.0` are the same number.
fn is_equal(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::json::json;

    #[test]
    fn values_are_checked_and_faults_named() {
        for (schema, value, want) in [
            (json!({ "type": "string" }), json!("x"), ""),
            (json!({ "type": "string" }), json!(1), "$: must be of type \"string\", not number"),
            (json!({ "type": ["string", "null"] }), json!(null), ""),
            (json!({ "type": "integer" }), json!(1.0), ""),
            (json!({ "type": "integer" }), json!(1.5), "must be of type"),
            (json!({ "enum": ["a", 1] }), json!(1.0), ""),
            (json!({ "enum": ["a", "b"] }), json!("c"), "must be one of [\"a\",\"b\"]"),
            (json!({ "required": ["a"] }), json!({}), "\"a\" is missing"),
            (json!({ "properties": { "a": { "minimum": 3 } } }), json!({ "a": 2 }), "$.a: 2 breaks minimum 3"),
            (json!({ "additionalProperties": false }), json!({ "z": 1 }), "\"z\" is not allowed"),
            (json!({ "items": { "maxLength": 2 } }), json!(["ab", "abc"]), "$[1]: has 3 characters"),
            (json!({ "prefixItems": [{ "const": 1 }], "items": false }), json!([1, 2]), "$[1]: nothing is allowed"),
            (json!({ "uniqueItems": true }), json!([1, 1]), "entry 1 stands there twice"),
            (json!({ "pattern": "^a+$" }), json!("b"), "does not match"),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!(1), "fits none of anyOf"),
            (json!({ "oneOf": [{ "minimum": 1 }, { "minimum": 2 }] }), json!(3), "fits 2"),
            (json!({ "not": { "const": 1 } }), json!(1), "excludes"),
            (json!({ "if": { "const": 1 }, "then": false }), json!(1), "nothing is allowed"),
            (json!({ "$ref": "#/$defs/n", "$defs": { "n": { "type": "number" } } }), json!("x"), "must be of type"),
            (json!({ "multipleOf": 0.1 }), json!(0.3), ""),
            (json!({ "contains": { "const": 2 } }), json!([1]), "contains"),
            (json!({ "dependentRequired": { "a": ["b"] } }), json!({ "a": 1 }), "\"b\" is missing beside \"a\""),
        ] {
            let got = Schema::new(&schema).unwrap().check(&value);
            match want {
                "" => assert_eq!(got, Ok(()), "{schema} {value}"),
                want => assert!(got.as_ref().is_err_and(|why| why.contains(want)), "{schema} {value}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_schema_that_would_not_be_followed_is_refused() {
        for schema in [
            json!(1),
            json!({ "type": "strng" }),
            json!({ "unevaluatedProperties": false }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "$ref": "https://example.com/x.json" }),
            json!({ "pattern": "(?=x)" }),
            json!({ "items": [{}] }),
            json!({ "required": "a" }),
        ] {
            assert!(Schema::new(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let circle = json!({ "$ref": "#" });
        assert!(Schema::new(&circle).unwrap().check(&json!(1)).unwrap_err().contains("too deep"));
        let tree = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        let mut value = json!({});
        for _ in 0..10 {
            value = json!({ "next": value });
        }
        assert_eq!(Schema::new(&tree).unwrap().check(&value), Ok(()));
        let wide = json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] });
        assert!(Schema::new(&wide).unwrap().check(&json!(1)).is_err());
    }
}
