//! Holds the layout of everything that crosses the plugin boundary to a written record of it.
//!
//! The layout checker compares names, types and order, so any difference here is a difference for engines that are
//! already built. No addresses, sizes or versions are in the record.
// Tests may unwrap: a failed expectation is how they speak.
#![allow(clippy::unwrap_used)]

use abi_stable::std_types::utypeid::UTypeId;
use abi_stable::type_layout::{TLData, TLField, TLFunction, TypeLayout};
use abi_stable::StableAbi;
use engine_api::ffi::EngineModRef;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Write;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/engine-api-layout.txt");

/// What a reader of the failure needs to decide whether the record or the code is wrong.
const ADVICE: &str = "\
A minor version may: add methods with a default body after the last of a trait; add fields after the last of the root
module; add types that only these reach. Anything else keeps engines that are already built from loading: renaming
(types, fields, reserved fields, parameters of the root module's functions), another type, another order, a moved
`last prefix field`, any change of a struct. For these a new major version is needed.
If the change is allowed, bump the minor and run this test with UPDATE_EXPECT=1.";

/// How deep types within types are named; what lies deeper has an entry of its own.
const NAME_DEPTH_MAX: usize = 6;

/// Names a type with its parameters, which the checker's own names leave out for most containers.
fn name(layout: &'static TypeLayout, depth: usize) -> String {
    let fields: Vec<TLField> = layout.get_fields().map(|fields| fields.iter().collect()).unwrap_or_default();
    let of = |field: &TLField| name(field.layout(), depth + 1);
    let parameters: Vec<String> = match layout.name() {
        _ if depth >= NAME_DEPTH_MAX => Vec::new(),
        "RResult" | "ROption" | "Option" | "ManuallyDrop" => fields.iter().map(of).collect(),
        "RVec" | "RSlice" | "NonNull" | "RRef" | "RMut" | "RBox" => {
            fields.iter().filter(|field| field.name() == "_marker" || field.name() == "0").map(of).collect()
        }
        "PhantomData" | "PrefixRef" => layout.phantom_fields().iter().map(|field| of(&field)).collect(),
        "RObject" => fields.iter().filter(|field| field.name() != "_marker").map(of).collect(),
        "VTable" => vec![layout.mod_path().to_string().rsplit("::").next().unwrap_or_default().to_string()],
        _ => return layout.full_type().to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if parameters.is_empty() {
        layout.name().to_string()
    } else {
        format!("{}<{}>", layout.name(), parameters.join(", "))
    }
}

struct Walk {
    seen: HashSet<UTypeId>,
    open: VecDeque<&'static TypeLayout>,
    /// Our own types in the order in which they are reached.
    own: Vec<String>,
    /// Those of others, by name.
    others: BTreeSet<String>,
}

impl Walk {
    fn reach(&mut self, layout: &'static TypeLayout) {
        if self.seen.insert(layout.get_utypeid()) {
            self.open.push_back(layout);
        }
    }

    fn function(&mut self, function: &TLFunction) -> String {
        let names = function.param_names.as_str().split([',', ';']).filter(|name| !name.is_empty());
        let mut names: Vec<&str> = names.collect();
        let mut parameters = Vec::new();
        for (at, parameter) in function.param_type_layouts.iter().enumerate() {
            if names.len() == at {
                names.push("_");
            }
            parameters.push(format!("{}: {}", names[at], name(parameter(), 0)));
            self.reach(parameter());
        }
        let returned = match function.return_type_layout() {
            Some(returned) => {
                self.reach(returned());
                name(returned(), 0)
            }
            None => "()".to_string(),
        };
        format!("fn({}) -> {}", parameters.join(", "), returned)
    }

    fn field(&mut self, text: &mut String, field: &TLField) {
        let functions: Vec<TLFunction> = field.function_range().iter().collect();
        if let (true, [only]) = (field.is_function(), functions.as_slice()) {
            let only = self.function(only);
            let _ = writeln!(text, "    {}: {}", field.name(), only);
            return;
        }
        let _ = writeln!(text, "    {}: {}", field.name(), name(field.layout(), 0));
        self.reach(field.layout());
        for function in &functions {
            let function = self.function(function);
            let _ = writeln!(text, "        where {}", function);
        }
    }

    fn describe(&mut self, layout: &'static TypeLayout) {
        let mut text = String::new();
        let kind = match layout.data() {
            TLData::Primitive(_) => {
                // What a reference or a pointer leads to.
                layout.shared_vars().type_layouts().iter().for_each(|nested| self.reach(nested()));
                return;
            }
            TLData::Opaque => "opaque",
            TLData::Struct { .. } => "struct",
            TLData::Union { .. } => "union",
            TLData::Enum(_) => "enum",
            TLData::PrefixType(_) => "prefix",
        };
        let _ = writeln!(text, "{} {} of {}", kind, name(layout, 0), layout.package());
        let mut optional_from = None;
        match layout.data() {
            TLData::Enum(of) => {
                let _ = writeln!(text, "    -- variants {}", of.variant_names);
            }
            TLData::PrefixType(prefix) => optional_from = Some(usize::from(prefix.first_suffix_field)),
            _ => {}
        }
        let fields = layout.get_fields().map(|fields| fields.iter().collect::<Vec<_>>()).unwrap_or_default();
        for (at, field) in fields.iter().enumerate() {
            if optional_from == Some(at) {
                text.push_str("    -- last prefix field above, optional ones below\n");
            }
            self.field(&mut text, field);
        }
        for field in layout.phantom_fields().iter() {
            let _ = writeln!(text, "    -- beside: {}", name(field.layout(), 0));
            self.reach(field.layout());
        }
        if layout.package() == "engine-api" {
            self.own.push(text);
        } else {
            self.others.insert(text);
        }
    }
}

fn layouts() -> String {
    let mut walk = Walk { seen: HashSet::new(), open: VecDeque::new(), own: Vec::new(), others: BTreeSet::new() };
    walk.reach(<EngineModRef as StableAbi>::LAYOUT);
    while let Some(layout) = walk.open.pop_front() {
        walk.describe(layout);
    }
    walk.own.into_iter().chain(walk.others).collect::<Vec<_>>().join("\n")
}

/// Names the first line in which two texts differ.
fn first_difference(recorded: &str, now: &str) -> String {
    let (mut recorded, mut now) = (recorded.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (recorded.next(), now.next()) {
            (None, None) => return "none".to_string(),
            (was, is) if was == is => {}
            (was, is) => {
                return format!(
                    "line {}\n  recorded: {}\n  now:      {}",
                    number,
                    was.unwrap_or("(the record ends)"),
                    is.unwrap_or("(the layout ends)")
                )
            }
        }
    }
}

#[test]
fn the_layout_of_the_boundary_is_the_recorded_one() {
    let now = layouts();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(RECORD, &now).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(RECORD)
        .unwrap_or_else(|error| panic!("could not read {}: {} (run with UPDATE_EXPECT=1 to write it)", RECORD, error))
        .replace("\r\n", "\n");
    assert!(
        recorded == now,
        "the layout of the plugin boundary has changed, first at {}\n{}",
        first_difference(&recorded, &now),
        ADVICE
    );
}

#[test]
fn the_record_reaches_every_type_of_the_boundary() {
    let text = layouts();
    for name in ["RawMessage", "RawPart", "RawConversation", "RawSpan", "RawStep", "RawPlan", "RawError", "EngineMod"] {
        let is_own = |line: &str| line.contains(name) && line.ends_with("of engine-api");
        assert!(text.lines().any(is_own), "{} is not in\n{}", name, text);
    }
    for method in ["compress", "metric", "self_test", "control", "host_info", "shutdown", "import_state"] {
        assert!(text.contains(&format!("    {}: ", method)), "{} is not in\n{}", method, text);
    }
    assert!(!text.contains("0x"), "an address is in the record");
}

#[test]
fn a_difference_is_named_by_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), "none");
    assert!(first_difference("a\nb\n", "a\nc\n").starts_with("line 2\n  recorded: b\n  now:      c"));
    assert!(first_difference("a\n", "a\nc\n").contains("(the record ends)"));
}
