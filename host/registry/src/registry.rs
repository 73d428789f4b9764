//! Which engines there are, and the one that the settings name.
//!
//! Order: the folder `context_engine/<name>/`; an engine of a general plugin, linked in or in an enabled library; the
//! built-in compressor. Nothing is ever chosen because it is there.

use crate::candidate::{Candidate, EngineFault};
use crate::discover::Discovery;
use crate::dylib::Library;
use crate::linked::{built_in, linked};
use crate::manifest::Kind;
use crate::name::{BUILTIN_NAME, EngineName};
use crate::probe::{ProbeReport, probe};
use crate::state::State;
use crate::store::verified_copy;
use crate::trust::TrustFile;
use crate::version::ApiVersion;
use engine_api::json::Value;
use engine_api::{ContextEngine, EngineError, ToolSchema};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a registry looks and what the settings say.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Plugins folders, in search order.
    pub roots: Vec<PathBuf>,
    /// The program's home folder: approvals and verified copies.
    pub home: PathBuf,
    /// General plugins that may register engines (`plugins.enabled`).
    pub enabled: Vec<String>,
    /// Plugins that are switched off (`plugins.disabled`).
    pub disabled: Vec<String>,
    /// The program that tries a library before it is opened here; `None` opens without a try.
    pub runner: Option<PathBuf>,
}

/// Where an engine comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Part of the host.
    BuiltIn,
    /// Linked into the program by a general plugin.
    Linked,
    /// A folder of its own.
    Folder(PathBuf),
    /// A general plugin's library.
    General(PathBuf),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::BuiltIn => f.write_str("built-in"),
            Source::Linked => f.write_str("linked in"),
            Source::Folder(path) => write!(f, "{}", path.display()),
            Source::General(path) => write!(f, "general plugin {}", path.display()),
        }
    }
}

/// The engine that will be used.
pub struct Resolved {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// The engine.
    pub engine: Arc<dyn ContextEngine>,
    /// Why it is not the one that was asked for; `None` if it is.
    pub fallback: Option<EngineFault>,
}

/// One line of a listing.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The engine's name.
    pub name: String,
    /// Its version, where known.
    pub version: String,
    /// The contract version it was built for, where known.
    pub api: String,
    /// How it stands.
    pub state: State,
    /// Where it comes from.
    pub source: String,
    /// One line about it.
    pub description: String,
    /// Its tools; from a try where there was one, from the manifest otherwise.
    pub tools: Vec<ToolSchema>,
    /// Why it is not usable; empty if it is.
    pub why: String,
    /// What to do about it.
    pub hint: String,
    /// Oddities.
    pub warnings: Vec<String>,
}

/// The engines of this host.
pub struct Registry {
    setup: Setup,
    trust: TrustFile,
    discovery: Discovery,
}

impl Registry {
    /// Looks around. Never fails and runs no plugin's code.
    pub fn open(setup: Setup) -> Registry {
        let trust = TrustFile::load(setup.home.join(crate::trust::TRUST_FILE));
        let discovery = Discovery::scan(&setup.roots, &trust, ApiVersion::host());
        Registry { setup, trust, discovery }
    }

    /// Returns what was found in the plugins folders.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Returns the approvals, to add to them.
    pub fn trust_mut(&mut self) -> &mut TrustFile {
        &mut self.trust
    }

    /// Returns the engine that the settings name, or the built-in compressor with the reason why not.
    ///
    /// # Errors
    /// Only if the built-in compressor itself cannot be made.
    pub fn resolve(&self, wanted: &str, settings_of: &dyn Fn(&str) -> Value) -> Result<Resolved, EngineError> {
        let name = if wanted.trim().is_empty() { BUILTIN_NAME } else { wanted };
        let fallback = if name == BUILTIN_NAME {
            None
        } else {
            match self.find(name, &settings_of(name)) {
                Ok((engine, source)) => {
                    return Ok(Resolved { name: name.to_owned(), source, engine: engine.into(), fallback: None });
                }
                Err(fault) => Some(fault),
            }
        };
        Ok(Resolved {
            name: BUILTIN_NAME.to_owned(),
            source: Source::BuiltIn,
            engine: self.built_in(&settings_of(BUILTIN_NAME))?.into(),
            fallback,
        })
    }

    /// Makes the built-in compressor.
    pub fn built_in(&self, settings: &Value) -> Result<Box<dyn ContextEngine>, EngineError> {
        built_in(settings)
    }

    fn find(&self, name: &str, settings: &Value) -> Result<(Box<dyn ContextEngine>, Source), EngineFault> {
        EngineName::parse(name).map_err(|error| {
            EngineFault::new(
                State::Invalid,
                format!("context.engine is {name:?}: {error}"),
                "see `palimpsest engines list`",
            )
        })?;
        if self.is_disabled(name) {
            let why = format!("{name} is listed in plugins.disabled");
            return Err(EngineFault::new(State::Disabled, why, "take it off the list in config.yaml"));
        }
        if let Some(candidate) = self.in_folder(name) {
            let engine = self.load(candidate, name, settings)?;
            return Ok((engine, Source::Folder(candidate.dir.clone())));
        }
        // A folder of that name which cannot be used is the reason to give, but a general plugin may still have it.
        let fault =
            self.discovery.why_not(name).map(|skipped| EngineFault::new(skipped.state, &skipped.why, &skipped.hint));
        if let Some(found) = linked().into_iter().find(|engine| engine.name == name) {
            let engine = (found.make)(settings).map_err(|error| made_fault(name, &error))?;
            return Ok((engine, Source::Linked));
        }
        if let Some(candidate) = self.in_general(name) {
            if !self.is_enabled(candidate.plugin.as_str()) {
                let why = format!("{name} belongs to the general plugin {}, which is not enabled", candidate.plugin);
                let hint = format!("add {} to plugins.enabled in config.yaml", candidate.plugin);
                return Err(EngineFault::new(State::Disabled, why, hint));
            }
            let engine = self.load(candidate, name, settings)?;
            return Ok((engine, Source::General(candidate.dir.clone())));
        }
        Err(fault.unwrap_or_else(|| {
            let places: Vec<String> = self
                .setup
                .roots
                .iter()
                .map(|root| root.join("context_engine").join(name).display().to_string())
                .collect();
            let why = if places.is_empty() {
                format!("there is no engine {name}, and no plugins folder")
            } else {
                format!("there is no engine {name}; looked for {}", places.join(", "))
            };
            EngineFault::new(
                State::Missing,
                why,
                "see `palimpsest engines list`, or install it with `palimpsest engines install`",
            )
        }))
    }

    fn in_folder(&self, name: &str) -> Option<&Candidate> {
        self.discovery.found.iter().find(|one| one.kind == Kind::ContextEngine && one.plugin == *name)
    }

    fn in_general(&self, name: &str) -> Option<&Candidate> {
        let has =
            |one: &&Candidate| one.kind == Kind::General && one.manifest.engines.iter().any(|engine| *engine == *name);
        self.discovery.found.iter().find(has)
    }

    fn is_disabled(&self, name: &str) -> bool {
        self.setup.disabled.iter().any(|other| other == name)
    }

    fn is_enabled(&self, plugin: &str) -> bool {
        self.setup.enabled.iter().any(|other| other == plugin) && !self.is_disabled(plugin)
    }

    /// Copies a library's approved bytes to a private place, tries them in another process, and opens them.
    fn load(&self, candidate: &Candidate, name: &str, settings: &Value) -> Result<Box<dyn ContextEngine>, EngineFault> {
        let path = self.private_copy(candidate)?;
        if let Some(runner) = &self.setup.runner {
            let report = probe(runner, &path)?;
            check_names(candidate, &report)?;
        }
        let library = Library::open(&path).map_err(|error| {
            EngineFault::new(State::NotAnEngine, error.to_string(), "rebuild it against this host's engine-api")
        })?;
        let engine = library.engine(name, settings).map_err(|error| made_fault(name, &error))?;
        if engine.info().name != name {
            let why = format!("the engine registered as {name} calls itself {}", engine.info().name);
            return Err(EngineFault::new(State::Invalid, why, "give the engine one name"));
        }
        Ok(engine)
    }

    fn private_copy(&self, candidate: &Candidate) -> Result<PathBuf, EngineFault> {
        let unreadable = |error: crate::store::StoreError| {
            EngineFault::new(State::Unreadable, error.to_string(), "see `palimpsest doctor`")
        };
        let bytes = candidate.read_library().map_err(unreadable)?;
        verified_copy(&bytes, &candidate.library_sha256, &self.setup.home, &candidate.library_file_name())
            .map_err(unreadable)
    }

    /// Tries a candidate's library in another process and returns what it told.
    pub fn probe(&self, candidate: &Candidate) -> Result<ProbeReport, EngineFault> {
        let path = self.private_copy(candidate)?;
        let Some(runner) = &self.setup.runner else {
            return Err(EngineFault::new(State::Unreadable, "there is no program to try it with", ""));
        };
        let report = probe(runner, &path)?;
        check_names(candidate, &report)?;
        Ok(report)
    }

    /// Lists every engine, usable or not; the one that `selected` names is marked.
    pub fn list(&self, selected: &str) -> Vec<Listing> {
        let selected = if selected.trim().is_empty() { BUILTIN_NAME } else { selected };
        let mut lines = vec![self.built_in_line(selected)];
        for engine in linked() {
            lines.push(self.linked_line(engine, selected));
        }
        for candidate in &self.discovery.found {
            for name in &candidate.manifest.engines {
                lines.push(self.candidate_line(candidate, name.as_str(), selected));
            }
        }
        for skipped in &self.discovery.skipped {
            let about = skipped.candidate.as_deref();
            lines.push(Listing {
                name: skipped.name.clone(),
                version: about.map(|one| one.manifest.version.clone()).unwrap_or_default(),
                api: about.map(|one| one.precheck.note.engine_api.to_string()).unwrap_or_default(),
                state: skipped.state,
                source: skipped.path.display().to_string(),
                description: about.map(|one| one.manifest.description.clone()).unwrap_or_default(),
                tools: Vec::new(),
                why: skipped.why.clone(),
                hint: skipped.hint.clone(),
                warnings: Vec::new(),
            });
        }
        if !lines.iter().any(|line| line.name == selected) {
            let fault = self.find(selected, &Value::Null).err();
            lines.push(Listing {
                name: selected.to_owned(),
                version: String::new(),
                api: String::new(),
                state: State::Missing,
                source: "config.yaml".to_owned(),
                description: String::new(),
                tools: Vec::new(),
                why: fault.as_ref().map(|fault| fault.why.clone()).unwrap_or_default(),
                hint: fault.map(|fault| fault.hint).unwrap_or_default(),
                warnings: Vec::new(),
            });
        }
        lines.sort_by(|a, b| (a.state != State::Selected, &a.name).cmp(&(b.state != State::Selected, &b.name)));
        lines
    }

    fn built_in_line(&self, selected: &str) -> Listing {
        let state = if selected == BUILTIN_NAME { State::Selected } else { State::Ready };
        let made = built_in(&Value::Null);
        Self::line(BUILTIN_NAME, state, "built-in".to_owned(), made.as_deref().ok())
    }

    fn linked_line(&self, engine: &crate::linked::LinkedEngine, selected: &str) -> Listing {
        let in_folder = self.in_folder(engine.name).is_some();
        let state = match () {
            () if self.is_disabled(engine.name) => State::Disabled,
            () if in_folder => State::Shadowed,
            () if selected == engine.name => State::Selected,
            () => State::Ready,
        };
        let made = (engine.make)(&Value::Null);
        Self::line(engine.name, state, Source::Linked.to_string(), made.as_deref().ok())
    }

    fn line(name: &str, state: State, source: String, engine: Option<&dyn ContextEngine>) -> Listing {
        let info = engine.map(ContextEngine::info);
        Listing {
            name: name.to_owned(),
            version: info.as_ref().map(|info| info.version.clone()).unwrap_or_default(),
            api: ApiVersion::host().to_string(),
            state,
            source,
            description: info.map(|info| info.description).unwrap_or_default(),
            tools: engine.map(ContextEngine::tool_schemas).unwrap_or_default(),
            why: String::new(),
            hint: String::new(),
            warnings: Vec::new(),
        }
    }

    fn candidate_line(&self, candidate: &Candidate, name: &str, selected: &str) -> Listing {
        let general_off = candidate.kind == Kind::General && !self.is_enabled(candidate.plugin.as_str());
        let taken = candidate.kind == Kind::General
            && (self.in_folder(name).is_some() || linked().iter().any(|engine| engine.name == name));
        let mut line = Listing {
            name: name.to_owned(),
            version: candidate.manifest.version.clone(),
            api: candidate.precheck.note.engine_api.to_string(),
            state: State::Ready,
            source: candidate.dir.display().to_string(),
            description: candidate.manifest.description.clone(),
            tools: Vec::new(),
            why: String::new(),
            hint: String::new(),
            warnings: candidate.warnings.clone(),
        };
        if self.is_disabled(name) || general_off {
            line.state = State::Disabled;
            line.why = if general_off {
                format!("the general plugin {} is not enabled", candidate.plugin)
            } else {
                "plugins.disabled lists it".to_owned()
            };
            line.hint = format!("palimpsest config set plugins.enabled '[{}]'", candidate.plugin);
            return line;
        }
        if taken {
            line.state = State::Shadowed;
            line.why = format!("another engine {name} comes earlier");
            return line;
        }
        match self.probe(candidate) {
            Ok(report) => {
                line.tools =
                    report.engines.into_iter().find(|one| one.name == name).map(|one| one.tools).unwrap_or_default();
                line.state = if selected == name { State::Selected } else { State::Ready };
            }
            Err(fault) => {
                line.state = fault.state;
                line.why = fault.why;
                line.hint = fault.hint;
            }
        }
        line
    }
}

fn made_fault(name: &str, error: &EngineError) -> EngineFault {
    EngineFault::new(State::Invalid, format!("engine {name} could not be made: {error}"), error.hint.clone())
}

/// What a library registers must be what its manifest says.
fn check_names(candidate: &Candidate, report: &ProbeReport) -> Result<(), EngineFault> {
    for name in &candidate.manifest.engines {
        if !report.engines.iter().any(|engine| engine.name == name.as_str()) {
            let has: Vec<&str> = report.engines.iter().map(|engine| engine.name.as_str()).collect();
            let why = format!("plugin.yaml names engine {name}, the library registers {}", has.join(", "));
            return Err(EngineFault::new(State::Invalid, why, "list under `engines` what the library registers"));
        }
    }
    Ok(())
}
