//! What holds for all requests until the settings change: the settings themselves, the engine, the summariser.

use crate::settings::{Api, Settings, SettingsError};
use engine_api::Dialect;
use host_config::{CacheTtl, Config};
use host_core::summariser::Summariser;
use host_llm::{Client, Prices};
use host_registry::{Registry, Resolved};
use host_runtime::Subscriber;
use host_wire::MarkTtl;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What the program gives the gateway; a reload makes it anew.
pub struct Parts {
    /// The user's settings.
    pub config: Config,
    /// Where engines are found.
    pub registry: Registry,
    /// The home folder.
    pub home: PathBuf,
    /// In place of `gateway.listen`.
    pub listen: Option<String>,
    /// In place of `gateway.upstream`.
    pub upstream: Option<String>,
    /// The environment that keys are read from.
    pub env: fn(&str) -> Option<String>,
    /// Who is told of each compaction.
    pub subscribers: Vec<Subscriber>,
    /// Counts tokens for the cut of summary requests.
    pub counter: Option<fn(&str) -> u64>,
}

/// One state of the settings; requests under way keep the one they began with.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    pub(crate) home: PathBuf,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) summariser: Arc<dyn Summariser>,
    pub(crate) prices: Prices,
    registry: Registry,
    engine: OnceLock<Result<Arc<Found>, String>>,
}

/// The engine in use.
pub(crate) struct Found {
    resolved: Resolved,
    pub(crate) fallback: Option<String>,
}

impl Setup {
    /// Checks the parts; the second value are remarks on settings that were passed over.
    pub(crate) fn new(parts: Parts) -> Result<(Setup, Vec<String>), SettingsError> {
        let Parts { config, registry, home, listen, upstream, env, subscribers, counter } = parts;
        let (settings, mut problems) = Settings::read(&config, listen.as_deref(), upstream.as_deref(), &env)?;
        let mut client = Client::new(&config, &home, &env);
        if let Some(counter) = counter {
            client = client.with_counter(counter);
        }
        let prices = client.prices().clone();
        problems.extend(prices.problem.clone());
        let summariser: Arc<dyn Summariser> = Arc::new(client);
        let engine = OnceLock::new();
        Ok((Setup { config, settings, home, subscribers, summariser, prices, registry, engine }, problems))
    }

    /// Returns the engine for a session. It is looked for once, when the first session needs it: a library is tried in a
    /// process of its own, which takes longer than a start may.
    pub(crate) fn engine(&self) -> Result<Resolved, String> {
        let found = self.engine.get_or_init(|| {
            let wanted = &self.config.context.engine;
            let settings = |name: &str| host_runtime::settings_of(&self.config, name);
            let resolved = self.registry.resolve(wanted, &settings).map_err(|error| error.to_string())?;
            let fallback = resolved.fallback.as_ref().map(|fault| fault.to_string());
            Ok(Arc::new(Found { resolved, fallback }))
        });
        match found {
            Ok(found) => Ok(Resolved {
                name: found.resolved.name.clone(),
                source: found.resolved.source.clone(),
                engine: Arc::clone(&found.resolved.engine),
                fallback: found.resolved.fallback.clone(),
            }),
            Err(why) => Err(why.clone()),
        }
    }

    /// Returns the lines that tell for which providers prompts are cached by marks of ours.
    pub(crate) fn caching_lines(&self) -> Vec<String> {
        if !self.config.prompt_caching.enabled {
            return Vec::new();
        }
        let ttl = match self.config.prompt_caching.cache_ttl {
            CacheTtl::FiveMinutes => MarkTtl::FiveMinutes,
            CacheTtl::OneHour => MarkTtl::OneHour,
        };
        let mut lines: Vec<String> = Vec::new();
        for provider in &self.settings.providers {
            for dialect in [Dialect::Anthropic, Dialect::OpenAiChat] {
                let is_spoken = provider.api.is_none_or(|api| api == Api::of(dialect));
                // Any of Claude's names stands for all of them.
                let layout = host_wire::cache_layout(&provider.base, dialect, "claude").filter(|_| is_spoken);
                lines.extend(layout.map(|layout| host_wire::caching_line(layout, &provider.base, ttl)));
            }
        }
        lines.dedup();
        lines
    }

    /// Returns why the engine is another than the settings name, as far as it was looked for.
    pub(crate) fn fallback(&self) -> Option<String> {
        self.engine.get().and_then(|found| found.as_ref().ok()).and_then(|found| found.fallback.clone())
    }
}
