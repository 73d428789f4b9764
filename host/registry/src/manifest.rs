//! Reads `plugin.yaml`, which says what a plugin is before any of its code is touched.
//!
//! A wrong or missing field is an error that names file and line; a key that is not known is a warning, so that a manifest
//! of a later host still reads here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_yaml::{Mapping, Value};

use crate::name::EngineName;
use crate::version::{ApiRequirement, is_version_text};

/// Name of the file.
pub const MANIFEST_FILE: &str = "plugin.yaml";
/// Largest manifest that is read.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 * 1024;

const TEXT_BYTES_MAX: usize = 4096;
const LIST_MAX: usize = 256;
/// Deepest nesting; a parser that follows hostile nesting to its own limit takes seconds.
const DEPTH_MAX: usize = 32;

const KEYS: &[&str] = &[
    "manifest",
    "name",
    "version",
    "engine_api",
    "description",
    "license",
    "authors",
    "homepage",
    "kind",
    "engines",
    "library",
    "tools",
    "settings",
    "capabilities",
    "mode_hint",
];
const PLATFORMS: &[&str] = &["linux-x86_64", "linux-aarch64", "macos-x86_64", "macos-aarch64", "windows-x86_64"];

/// What a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A context engine, found in `plugins/context_engine/<name>/`.
    ContextEngine,
    /// A plugin that registers engines among other things, found in `plugins/<name>/`.
    General,
}

impl Kind {
    /// Returns the word of the manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::ContextEngine => "context_engine",
            Kind::General => "general",
        }
    }
}

/// Where an engine would rather run. The host decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeHint {
    /// In the host's own process.
    InProcess,
    /// In a process of its own.
    Process,
}

/// A tool as the manifest announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNotice {
    /// Name of the tool.
    pub name: String,
    /// What it does; may be empty.
    pub description: String,
}

/// A manifest that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Name of the plugin, and of the engine where the plugin is one.
    pub name: EngineName,
    /// Version of the plugin.
    pub version: String,
    /// Contract versions it works with.
    pub engine_api: ApiRequirement,
    /// One line for a listing.
    pub description: String,
    /// Licence, as an SPDX expression.
    pub license: String,
    /// Who made it.
    pub authors: Vec<String>,
    /// Where to read more.
    pub homepage: String,
    /// What it is.
    pub kind: Kind,
    /// Engines of a general plugin; for an engine, its own name.
    pub engines: Vec<EngineName>,
    /// File of the library, for each platform it names.
    pub library: BTreeMap<String, String>,
    /// Tools it may offer to the model.
    pub tools: Vec<ToolNotice>,
    /// Its settings, as JSON Schema writes properties.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// What it says it needs, such as `llm` or `storage`.
    pub capabilities: BTreeMap<String, bool>,
    /// Where it would rather run.
    pub mode_hint: Option<ModeHint>,
    /// What was odd but not wrong.
    pub warnings: Vec<Problem>,
}

/// One finding in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong or odd.
    pub text: String,
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and where.
    pub problem: Problem,
    /// What to write instead.
    pub hint: String,
    /// Tells that the file has no `manifest` key, so it was made for another program.
    pub is_foreign: bool,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.problem.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.problem.text)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads a manifest's text; `path` is for messages only.
    pub fn parse(text: &str, path: &Path) -> Result<Manifest, ManifestError> {
        let error = |(problem, hint): Fault| ManifestError { path: path.to_owned(), problem, hint, is_foreign: false };
        let root = parse_yaml(text).map_err(error)?;
        if !root.contains_key("manifest") {
            return Err(ManifestError {
                path: path.to_owned(),
                problem: Problem { line: None, text: "missing key `manifest`".to_owned() },
                hint: "add `manifest: 1`; without it the file belongs to another program".to_owned(),
                is_foreign: true,
            });
        }
        Reader { text, root: &root }.manifest().map_err(error)
    }

    /// Returns the file name of the library for a platform such as `linux-x86_64`, or nothing where the manifest names
    /// other platforms only.
    ///
    /// A manifest that names no library at all means the platform's own form of the engine's name with `-` as `_`:
    /// `libmy_engine.so`, `libmy_engine.dylib`, `my_engine.dll`.
    pub fn library_for(&self, platform: &str) -> Option<String> {
        if self.library.is_empty() {
            return Some(default_library(&self.name, platform));
        }
        self.library.get(platform).cloned()
    }
}

/// Returns this process's platform as manifests write it.
pub fn host_platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

fn default_library(name: &EngineName, platform: &str) -> String {
    let stem = name.as_str().replace('-', "_");
    match platform.split('-').next() {
        Some("windows") => format!("{stem}.dll"),
        Some("macos") => format!("lib{stem}.dylib"),
        _ => format!("lib{stem}.so"),
    }
}

/// Tells whether a text names a file in its own folder and nothing else, on every system.
pub(crate) fn is_plain_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+'))
}

type Fault = (Problem, String);

fn parse_yaml(text: &str) -> Result<Mapping, Fault> {
    if text.len() as u64 > MANIFEST_BYTES_MAX {
        let text = format!("it has {} bytes, at most {MANIFEST_BYTES_MAX} are read", text.len());
        return Err((Problem { line: None, text }, "move long texts to a README".to_owned()));
    }
    if let Some(line) = too_deep(text) {
        let problem = Problem { line: Some(line), text: format!("it is nested deeper than {DEPTH_MAX} levels") };
        return Err((problem, "a manifest needs a few levels only".to_owned()));
    }
    let hint = || "write `key: value` lines; see another engine's plugin.yaml".to_owned();
    let value: Value = serde_yaml::from_str(text).map_err(|error| {
        let line = error.location().map(|location| location.line());
        (Problem { line, text: format!("it is not valid YAML: {error}") }, hint())
    })?;
    match value {
        Value::Mapping(root) => Ok(root),
        Value::Null => Err((Problem { line: None, text: "it is empty".to_owned() }, hint())),
        _ => Err((Problem { line: Some(1), text: "it is not a map of keys and values".to_owned() }, hint())),
    }
}

/// Returns the line on which brackets, dashes or blanks nest deeper than any manifest does.
fn too_deep(text: &str) -> Option<usize> {
    let mut brackets = 0usize;
    for (index, line) in text.lines().enumerate() {
        let indent = line.bytes().take_while(|byte| matches!(byte, b' ' | b'-' | b'?' | b':')).count();
        for byte in line.bytes() {
            match byte {
                b'[' | b'{' => brackets += 1,
                b']' | b'}' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        if brackets > DEPTH_MAX || indent > 8 * DEPTH_MAX {
            return Some(index + 1);
        }
    }
    None
}

struct Reader<'a> {
    text: &'a str,
    root: &'a Mapping,
}

impl Reader<'_> {
    fn manifest(&self) -> Result<Manifest, Fault> {
        match self.root.get("manifest") {
            Some(Value::Number(form)) if form.as_u64() == Some(1) => {}
            _ => {
                return Err(self.fault(
                    "manifest",
                    "`manifest` is not 1, the form this host reads",
                    "write `manifest: 1`",
                ));
            }
        }
        let name = self.required("name", "name: my-engine")?;
        let name =
            EngineName::parse(&name).map_err(|error| self.fault("name", error, "the folder has the same name"))?;
        let version = self.required("version", "version: 0.1.0")?;
        if !is_version_text(&version) {
            return Err(self.fault("version", format!("`version` is {version:?}"), "write it as `version: 0.1.0`"));
        }
        let engine_api = self.required("engine_api", "engine_api: \">=1.0, <2\"")?;
        let engine_api = ApiRequirement::parse(&engine_api).ok_or_else(|| {
            self.fault(
                "engine_api",
                format!("`engine_api` is {engine_api:?}"),
                "write it as `engine_api: \">=1.0, <2\"`",
            )
        })?;
        let kind = match self.text_of("kind")?.as_deref() {
            None | Some("context_engine") => Kind::ContextEngine,
            Some("general") => Kind::General,
            Some(other) => {
                return Err(self.fault("kind", format!("`kind` is {other:?}"), "write `context_engine` or `general`"));
            }
        };
        let mode_hint = match self.text_of("mode_hint")?.as_deref() {
            None => None,
            Some("in_process" | "in-process") => Some(ModeHint::InProcess),
            Some("process") => Some(ModeHint::Process),
            Some(other) => {
                return Err(self.fault(
                    "mode_hint",
                    format!("`mode_hint` is {other:?}"),
                    "write `in_process` or `process`",
                ));
            }
        };
        let mut warnings = Vec::new();
        Ok(Manifest {
            engines: self.engines(kind, &name)?,
            description: self.text_of("description")?.unwrap_or_default(),
            license: self.text_of("license")?.unwrap_or_default(),
            authors: self.authors()?,
            homepage: self.text_of("homepage")?.unwrap_or_default(),
            library: self.library(&mut warnings)?,
            tools: self.tools()?,
            settings: self.settings()?,
            capabilities: self.capabilities()?,
            warnings: self.unknown_keys(warnings),
            name,
            version,
            engine_api,
            kind,
            mode_hint,
        })
    }

    fn fault(&self, key: &str, text: impl fmt::Display, hint: &str) -> Fault {
        (Problem { line: self.line_of(key), text: text.to_string() }, hint.to_owned())
    }

    /// Finds the line of a top-level key. The parser keeps no places, and a manifest's keys stand at the left margin.
    fn line_of(&self, key: &str) -> Option<usize> {
        let is_key = |line: &str| {
            let line = line.trim_start_matches(['"', '\'']);
            let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
            rest.is_some_and(|rest| rest.starts_with(':'))
        };
        self.text.lines().position(is_key).map(|index| index + 1)
    }

    fn required(&self, key: &str, example: &str) -> Result<String, Fault> {
        self.text_of(key)?.ok_or_else(|| self.fault(key, format!("missing field `{key}`"), &format!("add `{example}`")))
    }

    fn text_of(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.root.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self.plain(key, key, value).map(Some),
        }
    }

    fn plain(&self, key: &str, place: &str, value: &Value) -> Result<String, Fault> {
        let text = match value {
            Value::String(text) => text.clone(),
            // Unquoted, a version such as 1.10 reads as the number 1.1: taking it would be a silent change.
            Value::Number(number) => {
                let hint = "put the value in quotes";
                return Err(self.fault(key, format!("`{place}` is the number {number}, not a text"), hint));
            }
            _ => return Err(self.fault(key, format!("`{place}` is not a text"), "write one line of text")),
        };
        if text.len() > TEXT_BYTES_MAX {
            let text = format!("`{place}` has {} bytes, at most {TEXT_BYTES_MAX} are allowed", text.len());
            return Err(self.fault(key, text, "shorten it"));
        }
        if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(self.fault(key, format!("`{place}` has control characters"), "remove them"));
        }
        Ok(text)
    }

    fn list<'v>(&self, key: &str, value: &'v Value) -> Result<&'v [Value], Fault> {
        let Value::Sequence(items) = value else {
            return Err(self.fault(key, format!("`{key}` is not a list"), &format!("write `{key}: [a, b]`")));
        };
        if items.len() > LIST_MAX {
            let text = format!("`{key}` has {} entries, at most {LIST_MAX} are allowed", items.len());
            return Err(self.fault(key, text, "shorten the list"));
        }
        Ok(items)
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.root.get(key).filter(|value| !value.is_null())
    }

    fn engines(&self, kind: Kind, name: &EngineName) -> Result<Vec<EngineName>, Fault> {
        let mut engines = Vec::new();
        for item in self.get("engines").map(|value| self.list("engines", value)).transpose()?.unwrap_or_default() {
            let text = self.plain("engines", "engines", item)?;
            let engine = EngineName::parse(&text).map_err(|error| self.fault("engines", error, "name the engine"))?;
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
        match kind {
            Kind::General if engines.is_empty() => {
                Err(self.fault("engines", "a general plugin names no engine", "add `engines: [my-engine]`"))
            }
            Kind::General => Ok(engines),
            Kind::ContextEngine if engines.iter().all(|engine| engine == name) => Ok(vec![name.clone()]),
            Kind::ContextEngine => Err(self.fault(
                "engines",
                format!("a context engine is one engine, `{name}`"),
                "remove `engines`, or write `kind: general`",
            )),
        }
    }

    fn authors(&self) -> Result<Vec<String>, Fault> {
        match self.get("authors") {
            None => Ok(Vec::new()),
            Some(one @ Value::String(_)) => Ok(vec![self.plain("authors", "authors", one)?]),
            Some(value) => {
                self.list("authors", value)?.iter().map(|item| self.plain("authors", "authors", item)).collect()
            }
        }
    }

    fn library(&self, warnings: &mut Vec<Problem>) -> Result<BTreeMap<String, String>, Fault> {
        let mut files = BTreeMap::new();
        let entries = match self.get("library") {
            None => return Ok(files),
            Some(Value::Mapping(entries)) if entries.len() <= LIST_MAX => entries,
            Some(_) => {
                let hint = "write `library: {linux-x86_64: libmy_engine.so}`";
                return Err(self.fault("library", "`library` is not a map of platforms to files", hint));
            }
        };
        for (platform, file) in entries {
            let platform = self.plain("library", "a platform of `library`", platform)?;
            let file = self.plain("library", &format!("library.{platform}"), file)?;
            if !is_plain_file_name(&file) {
                let text = format!("`library.{platform}` is {file:?}, which is not a plain file name");
                return Err(self.fault("library", text, "the library lies beside plugin.yaml: name the file alone"));
            }
            if !PLATFORMS.contains(&platform.as_str()) {
                let known = PLATFORMS.join(", ");
                let text = format!("platform `{platform}` of `library` is not known; known are {known}");
                warnings.push(Problem { line: self.line_of("library"), text });
            }
            files.insert(platform, file);
        }
        Ok(files)
    }

    fn tools(&self) -> Result<Vec<ToolNotice>, Fault> {
        let mut tools: Vec<ToolNotice> = Vec::new();
        for item in self.get("tools").map(|value| self.list("tools", value)).transpose()?.unwrap_or_default() {
            let (name, description) = match item {
                Value::Mapping(fields) => {
                    let name = fields.get("name").unwrap_or(&Value::Null);
                    let description = fields.get("description").filter(|value| !value.is_null());
                    let description =
                        description.map(|text| self.plain("tools", "tools.description", text)).transpose()?;
                    (self.plain("tools", "tools.name", name)?, description.unwrap_or_default())
                }
                other => (self.plain("tools", "tools", other)?, String::new()),
            };
            // What both providers accept as the name of a tool.
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
                let hint = "use at most 64 letters, digits, `_` and `-`";
                return Err(self.fault("tools", format!("tool name {name:?} is not allowed"), hint));
            }
            if tools.iter().any(|tool| tool.name == name) {
                return Err(self.fault("tools", format!("tool `{name}` is listed twice"), "list every tool once"));
            }
            tools.push(ToolNotice { name, description });
        }
        Ok(tools)
    }

    fn settings(&self) -> Result<serde_json::Map<String, serde_json::Value>, Fault> {
        let Some(value) = self.get("settings") else {
            return Ok(serde_json::Map::new());
        };
        match serde_json::to_value(value) {
            Ok(serde_json::Value::Object(settings)) => Ok(settings),
            Ok(_) | Err(_) => Err(self.fault(
                "settings",
                "`settings` is not a map of setting names to their schemas",
                "write `settings: {depth: {type: integer, default: 3}}`",
            )),
        }
    }

    fn capabilities(&self) -> Result<BTreeMap<String, bool>, Fault> {
        let bad = || {
            let hint = "write `capabilities: {llm: true, storage: false}` or `[llm, storage]`";
            self.fault(
                "capabilities",
                "`capabilities` is neither a list of names nor a map of names to true or false",
                hint,
            )
        };
        let mut capabilities = BTreeMap::new();
        match self.get("capabilities") {
            None => {}
            Some(Value::Mapping(entries)) if entries.len() <= LIST_MAX => {
                for (name, wanted) in entries {
                    let name = self.plain("capabilities", "capabilities", name)?;
                    capabilities.insert(name, wanted.as_bool().ok_or_else(bad)?);
                }
            }
            Some(value @ Value::Sequence(_)) => {
                for item in self.list("capabilities", value)? {
                    capabilities.insert(self.plain("capabilities", "capabilities", item)?, true);
                }
            }
            Some(_) => return Err(bad()),
        }
        Ok(capabilities)
    }

    fn unknown_keys(&self, mut warnings: Vec<Problem>) -> Vec<Problem> {
        for key in self.root.keys() {
            let key = key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned);
            if KEYS.contains(&key.as_str()) {
                continue;
            }
            let line = self.line_of(&key);
            let shown: String = key.chars().take(64).collect();
            warnings.push(Problem { line, text: format!("unknown key {shown:?} is ignored") });
            if warnings.len() == LIST_MAX {
                break;
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
