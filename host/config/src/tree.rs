//! Turns YAML text into a tree that keeps duplicate keys, so that one slip does not cost the whole file.
//!
//! The parser refuses a mapping with a key twice. Hermes takes the last one, and so does this reader, with a remark.

use crate::lines;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Most values a file may hold once its aliases are expanded; far above any real configuration.
const NODES_MAX: usize = 100_000;

/// A text read as YAML.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The first document, with merge keys applied; `Null` for an empty file.
    pub(crate) value: Value,
    /// Paths that stood more than once.
    pub(crate) duplicates: Vec<Vec<String>>,
    pub(crate) has_more_documents: bool,
}

/// Why a text is no YAML.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

/// Reads the first document of a text that passed `lines::check_shape`.
pub(crate) fn read(text: &str) -> Result<Read, Broken> {
    let mut documents = serde_yaml::Deserializer::from_str(text);
    let Some(first) = documents.next() else { return Ok(Read::default()) };
    let budget = Budget { left: Cell::new(NODES_MAX) };
    let node = NodeSeed { budget: &budget, depth: 0 }.deserialize(first).map_err(|error| broken(&error))?;
    let has_more_documents = match documents.next() {
        // An empty rest after `...` or a closing `---` says nothing and is not worth a remark.
        Some(second) => !matches!(NodeSeed { budget: &budget, depth: 0 }.deserialize(second), Ok(Node::Null)),
        None => false,
    };
    let mut duplicates = Vec::new();
    let value = settle(node, &mut Vec::new(), &mut duplicates);
    Ok(Read { value, duplicates, has_more_documents })
}

fn broken(error: &serde_yaml::Error) -> Broken {
    Broken { line: error.location().map(|at| at.line()), message: lines::one_line(&error.to_string()) }
}

struct Budget {
    left: Cell<usize>,
}

/// A value as written. Mappings are lists of pairs, so that a duplicate is seen.
enum Node {
    Null,
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Applies merge keys and takes the last of duplicate keys.
fn settle(node: Node, path: &mut Vec<String>, duplicates: &mut Vec<Vec<String>>) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Scalar(value) => value,
        Node::List(items) => Value::Array(
            items
                .into_iter()
                .enumerate()
                .map(|(at, item)| {
                    path.push(at.to_string());
                    let value = settle(item, path, duplicates);
                    path.pop();
                    value
                })
                .collect(),
        ),
        Node::Map(pairs) => {
            let mut merged: Map<String, Value> = Map::new();
            let mut own: Map<String, Value> = Map::new();
            for (key, node) in pairs {
                path.push(key.clone());
                let is_merge = key == MERGE && matches!(node, Node::Map(_) | Node::List(_));
                let value = settle(node, path, duplicates);
                if is_merge {
                    merge(value, &mut merged);
                } else if own.insert(key, value).is_some() {
                    duplicates.push(path.clone());
                }
                path.pop();
            }
            // What stands in the mapping itself wins over what is merged into it.
            for (key, value) in merged {
                own.entry(key).or_insert(value);
            }
            Value::Object(own)
        }
    }
}

const MERGE: &str = "<<";

fn merge(value: Value, into: &mut Map<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                into.entry(key).or_insert(value);
            }
        }
        // Of several merged mappings the earlier one wins.
        Value::Array(items) => {
            for map in items.into_iter().filter(Value::is_object) {
                merge(map, into);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[derive(Clone, Copy)]
struct NodeSeed<'a> {
    budget: &'a Budget,
    depth: usize,
}

impl NodeSeed<'_> {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let left = self.budget.left.get();
        let Some(left) = left.checked_sub(1) else {
            return Err(D::Error::custom(format!("more than {NODES_MAX} values, counting what aliases repeat")));
        };
        if self.depth > lines::DEPTH_MAX {
            return Err(D::Error::custom(format!("nested deeper than {} levels", lines::DEPTH_MAX)));
        }
        self.budget.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        self.visit_wide(value as f64)
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        self.visit_wide(value as f64)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        self.visit_wide(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(value)))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(Value::from(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper())? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut pairs = Vec::new();
        while let Some(key) = entries.next_key_seed(self.deeper())? {
            let key = key_text(key).ok_or_else(|| A::Error::custom("a mapping or a list stands as a key"))?;
            pairs.push((key, entries.next_value_seed(self.deeper())?));
        }
        Ok(Node::Map(pairs))
    }

    /// A value with a tag of its own (`!name value`) is read as the value.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Node, A::Error> {
        let (_tag, contents) = data.variant_seed(TagSeed)?;
        contents.newtype_variant_seed(self.deeper())
    }
}

impl NodeSeed<'_> {
    /// Numbers JSON cannot hold (`.inf`, `.nan`) become the text of their YAML form, which no numeric setting accepts.
    fn visit_wide<E>(self, value: f64) -> Result<Node, E> {
        let text = if value.is_nan() {
            ".nan"
        } else if value > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        Ok(Node::Scalar(Number::from_f64(value).map_or_else(|| text.into(), Value::Number)))
    }
}

struct TagSeed;

impl<'de> DeserializeSeed<'de> for TagSeed {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        String::deserialize(deserializer).map(|_| ())
    }
}

fn key_text(key: Node) -> Option<String> {
    match key {
        Node::Null => Some("null".to_owned()),
        Node::Scalar(Value::String(text)) => Some(text),
        Node::Scalar(value) => Some(value.to_string()),
        Node::List(_) | Node::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_of_two_equal_keys_is_used_and_named() {
        let read = read("a:\n  b: 1\n  b: 2\na:\n  c: 3\n").unwrap();
        assert_eq!(read.value, json!({"a": {"c": 3}}));
        assert_eq!(read.duplicates, [vec!["a".to_owned(), "b".to_owned()], vec!["a".to_owned()]]);
    }

    #[test]
    fn merge_keys_fill_what_the_mapping_leaves_out() {
        let text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], a: 9}\nw:\n  <<: *y\n";
        let read = read(text).unwrap();
        assert_eq!(read.value["z"], json!({"a": 9, "b": 1, "c": 2}));
        assert_eq!(read.value["w"], json!({"b": 2, "c": 2}));
    }

    #[test]
    fn unusual_values_are_read() {
        let read = read("1: !tag x\ntrue: .inf\n~: !m {a: 1}\nbig: 123456789012345678901234567890\n").unwrap();
        assert_eq!(
            read.value,
            json!({"1": "x", "true": ".inf", "null": {"a": 1}, "big": 123456789012345678901234567890_f64})
        );
        assert_eq!(super::read("").unwrap().value, Value::Null);
        assert!(super::read("? [a]\n: 1\n").is_err());
    }

    #[test]
    fn only_the_first_document_counts() {
        assert!(read("a: 1\n---\nb: 2\n").unwrap().has_more_documents);
        assert!(read("a: 1\n---\n- [\n").unwrap().has_more_documents);
        assert!(!read("---\na: 1\n...\n").unwrap().has_more_documents);
    }

    #[test]
    fn aliases_that_repeat_themselves_are_refused_quickly() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let inner = vec![format!("*a{}", level - 1); 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
        }
        assert!(read(&text).is_err());
        assert!(read("a: &a [*a]\n").is_err());
    }
}
