//! Which endpoints there are: addresses, keys and models, found from the settings and the environment.
//!
//! A key from the environment is sent to its own vendor, to the address that the same environment names for it, or to
//! one that the settings name together with the vendor; never to any other.

use crate::prices::Prices;
use engine_api::{CompletionModel, Dialect};
use host_config::{AuxCompression, Config, Provider, Secret};
use host_core::summariser::MainModel;
use serde_json::{Map, Value};
use std::time::Duration;

/// Entries of `fallback_chain` that are looked at.
const CHAIN_MAX: usize = 8;

/// The wire format of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI Chat Completions, and all that follow it.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
}

impl Api {
    pub(crate) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Anthropic => Api::Messages,
            Dialect::Responses => Api::Responses,
            // Chat Completions, which anything else is likeliest to be near to.
            _ => Api::Chat,
        }
    }
}

/// Whose API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenRouter,
    Anthropic,
    OpenAi,
    Nous,
    Custom,
}

impl Vendor {
    fn of(provider: Provider) -> Option<Vendor> {
        match provider {
            Provider::OpenRouter => Some(Vendor::OpenRouter),
            Provider::Anthropic => Some(Vendor::Anthropic),
            Provider::OpenAi => Some(Vendor::OpenAi),
            Provider::Nous => Some(Vendor::Nous),
            Provider::Custom => Some(Vendor::Custom),
            Provider::Auto | Provider::Main => None,
        }
    }

    /// Reads the provider's name as settings and clients write it.
    fn named(name: &str) -> Option<Vendor> {
        match name.trim().to_ascii_lowercase().as_str() {
            "openrouter" => Some(Vendor::OpenRouter),
            "anthropic" => Some(Vendor::Anthropic),
            "openai" | "openai-codex" => Some(Vendor::OpenAi),
            "nous" => Some(Vendor::Nous),
            "custom" => Some(Vendor::Custom),
            _ => None,
        }
    }

    /// Returns whose address it is.
    fn at(url: &str) -> Vendor {
        let known = [Vendor::OpenRouter, Vendor::Anthropic, Vendor::OpenAi, Vendor::Nous];
        known.into_iter().find(|vendor| url.starts_with(vendor.base_url())).unwrap_or(Vendor::Custom)
    }

    fn base_url(self) -> &'static str {
        match self {
            Vendor::OpenRouter => "https://openrouter.ai/api/v1",
            Vendor::Anthropic => "https://api.anthropic.com",
            Vendor::OpenAi => "https://api.openai.com/v1",
            Vendor::Nous => "https://inference-api.nousresearch.com/v1",
            Vendor::Custom => "",
        }
    }

    fn key_variable(self) -> &'static str {
        match self {
            Vendor::OpenRouter => "OPENROUTER_API_KEY",
            Vendor::Anthropic => "ANTHROPIC_API_KEY",
            Vendor::OpenAi => "OPENAI_API_KEY",
            Vendor::Nous => "NOUS_API_KEY",
            Vendor::Custom => "auxiliary.compression.api_key",
        }
    }
}

/// A key that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(host_config::MASK)
    }
}

/// A model at an endpoint: all that a request needs besides its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) api: Api,
    pub(crate) vendor: Vendor,
    pub(crate) url: String,
    /// Scheme, host and port.
    pub(crate) origin: String,
    pub(crate) key: Option<Key>,
    pub(crate) model: String,
    pub(crate) on: CompletionModel,
    /// 0 if it is not known.
    pub(crate) window: u64,
    /// The longest answer that the model can give; 0 if it is not known.
    pub(crate) output_max: u64,
    pub(crate) timeout: Duration,
    pub(crate) extra_body: Map<String, Value>,
    pub(crate) reasoning_effort: String,
    /// The client's own credentials, where its own provider is asked.
    pub(crate) headers: Vec<(String, Key)>,
}

impl Target {
    pub(crate) fn is_loopback(&self) -> bool {
        crate::net::is_loopback(&self.origin)
    }
    /// Tells whether two targets are the same model at the same place.
    pub(crate) fn is_same(&self, other: &Target) -> bool {
        self.url == other.url && self.model == other.model
    }
}

/// The keys and addresses that the environment gives.
#[derive(Debug, Default, Clone)]
struct Environment {
    keys: Vec<(Vendor, Key)>,
    openai_base_url: String,
    anthropic_base_url: String,
}

/// An entry of the settings: the auxiliary model, or a step of the fallback chain.
#[derive(Debug, Clone)]
struct Entry {
    provider: Provider,
    model: String,
    base_url: String,
    key: Result<Option<Key>, String>,
    window: u64,
    extra_body: Map<String, Value>,
    reasoning_effort: String,
}

/// All that the settings and the environment say about endpoints, read once.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    environment: Environment,
    auxiliary: Entry,
    chain: Vec<Entry>,
    timeout: Duration,
    /// The conversation's model where a request names none.
    default_model: String,
    default_provider: String,
    default_window: u64,
}

impl Endpoints {
    pub(crate) fn new(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let keys = [Vendor::OpenRouter, Vendor::Anthropic, Vendor::OpenAi, Vendor::Nous]
            .into_iter()
            .filter_map(|vendor| Some((vendor, Key(set(vendor.key_variable())?))))
            .collect();
        let environment = Environment {
            keys,
            openai_base_url: set("OPENAI_BASE_URL").unwrap_or_default(),
            anthropic_base_url: set("ANTHROPIC_BASE_URL").unwrap_or_default(),
        };
        let settings = &config.auxiliary.compression;
        Endpoints {
            environment,
            auxiliary: auxiliary(settings, env),
            chain: settings.fallback_chain.iter().take(CHAIN_MAX).map(|value| step(value, env)).collect(),
            timeout: Duration::from_secs(settings.timeout),
            default_model: config.model.default.clone(),
            default_provider: config.model.provider.clone(),
            default_window: config.model.context_length.unwrap_or(0),
        }
    }

    /// Returns the model of the conversation; the error says in one line what is missing.
    pub(crate) fn main(&self, main: &MainModel, prices: &Prices) -> Result<Target, String> {
        let model = if main.name.is_empty() { &self.default_model } else { &main.name };
        if model.is_empty() {
            return Err("the conversation's model is not known".to_owned());
        }
        let known = if main.context_length > 0 { main.context_length } else { self.default_window };
        let base = Base { model, on: CompletionModel::Main, window: known, timeout: self.timeout };
        let dialect = main.dialect.unwrap_or(Dialect::OpenAiChat);
        if let Some(place) = &main.place {
            let vendor = Vendor::at(&place.url);
            let mut target = base.target(prices, vendor, Api::of(dialect), &place.url, None)?;
            target.headers = place.headers.iter().map(|(name, value)| (name.clone(), Key(value.clone()))).collect();
            return Ok(target);
        }
        // With `provider: main` the address beside it is where the conversation's own provider is.
        if self.auxiliary.provider == Provider::Main && !self.auxiliary.base_url.is_empty() {
            let api = Api::of(dialect);
            let key = self.auxiliary.key.clone()?;
            let vendor = Vendor::named(&main.provider).unwrap_or(Vendor::Custom);
            let key = key.or_else(|| self.environment.key(vendor));
            return base.target(prices, vendor, api, &self.auxiliary.base_url, key);
        }
        let provider = if main.provider.is_empty() { &self.default_provider } else { &main.provider };
        let vendor = Vendor::named(provider)
            .filter(|vendor| *vendor != Vendor::Custom)
            .unwrap_or_else(|| self.environment.vendor_of(dialect, model));
        let api = match vendor {
            Vendor::Anthropic => Api::Messages,
            Vendor::OpenAi if dialect == Dialect::Responses => Api::Responses,
            _ => Api::Chat,
        };
        let is_named = self.environment.base_url(vendor).is_some();
        // What stands behind an address of one's own may have any model.
        let at = if is_named { Some(model.clone()) } else { name_at(vendor, model) };
        let model = at.ok_or_else(|| foreign(vendor, model))?;
        Base { model: &model, ..base }.at(prices, &self.environment, vendor, api)
    }

    /// Returns the model that the settings name for summaries.
    pub(crate) fn auxiliary(&self, main: &MainModel, prices: &Prices) -> Result<Target, String> {
        self.entry(&self.auxiliary, main, prices)
    }

    /// Returns the steps of the fallback chain that can be asked.
    pub(crate) fn chain(&self, main: &MainModel, prices: &Prices) -> Vec<Target> {
        self.chain.iter().filter_map(|entry| self.entry(entry, main, prices).ok()).collect()
    }

    fn entry(&self, entry: &Entry, main: &MainModel, prices: &Prices) -> Result<Target, String> {
        let own = if main.name.is_empty() { &self.default_model } else { &main.name };
        let model = if entry.model.is_empty() { own } else { &entry.model };
        let mut target = self.place(entry, model, main, prices)?;
        target.on = CompletionModel::Auxiliary;
        if entry.window > 0 {
            target.window = entry.window;
        }
        target.extra_body = entry.extra_body.clone();
        target.reasoning_effort = entry.reasoning_effort.clone();
        Ok(target)
    }

    fn place(&self, entry: &Entry, model: &str, main: &MainModel, prices: &Prices) -> Result<Target, String> {
        let named = (!entry.model.is_empty()).then_some(model);
        let base = Base { model, on: CompletionModel::Auxiliary, window: 0, timeout: self.timeout };
        if entry.provider == Provider::Main {
            let main = MainModel { name: model.to_owned(), ..main.clone() };
            let mut target = self.main(&main, prices)?;
            if named.is_some() {
                // The window that is known is that of the conversation's model, not of this one.
                target.window = prices.find(model).map_or(0, |price| price.window);
            }
            return Ok(target);
        }
        if model.is_empty() {
            return Err("no model is named for summaries, and the conversation's is not known".to_owned());
        }
        let key = entry.key.clone()?;
        if !entry.base_url.is_empty() {
            let vendor = Vendor::of(entry.provider).unwrap_or(Vendor::Custom);
            let is_messages = vendor == Vendor::Anthropic || speaks_messages(&entry.base_url);
            let api = if is_messages { Api::Messages } else { Api::Chat };
            let key = key.or_else(|| self.environment.key(vendor));
            return base.target(prices, vendor, api, &entry.base_url, key);
        }
        match Vendor::of(entry.provider) {
            Some(Vendor::Custom) => Err("the provider for summaries is custom, but no base_url is set".to_owned()),
            Some(vendor) => {
                // A model that was named for this provider is written as the provider writes it.
                let at = named.map(str::to_owned).or_else(|| name_at(vendor, model));
                let model = at.ok_or_else(|| foreign(vendor, model))?;
                let api = if vendor == Vendor::Anthropic { Api::Messages } else { Api::Chat };
                Base { model: &model, ..base }.keyed(prices, &self.environment, vendor, api, key)
            }
            None => self.any(&base, main, named, prices, key),
        }
    }

    /// Finds an endpoint for `auto`: the conversation's own, then whichever has a key and the model.
    fn any(
        &self,
        base: &Base<'_>,
        main: &MainModel,
        named: Option<&str>,
        prices: &Prices,
        key: Option<Key>,
    ) -> Result<Target, String> {
        let own = MainModel { name: base.model.to_owned(), ..main.clone() };
        let mut why = match self.main(&own, prices) {
            Ok(mut target) => {
                if named.is_some() {
                    target.window = prices.find(base.model).map_or(0, |price| price.window);
                }
                target.key = key.or(target.key);
                return Ok(target);
            }
            Err(why) => why,
        };
        for (vendor, _) in &self.environment.keys {
            let Some(model) = name_at(*vendor, base.model) else { continue };
            let api = if *vendor == Vendor::Anthropic { Api::Messages } else { Api::Chat };
            match (Base { model: &model, ..*base }).at(prices, &self.environment, *vendor, api) {
                Ok(target) => return Ok(target),
                Err(other) => why = other,
            }
        }
        Err(why)
    }
}

impl Environment {
    fn key(&self, vendor: Vendor) -> Option<Key> {
        self.keys.iter().find(|(known, _)| *known == vendor).map(|(_, key)| key.clone())
    }

    /// Returns the address that the environment names for a vendor, as the vendors' own clients read it.
    fn base_url(&self, vendor: Vendor) -> Option<&str> {
        let named = match vendor {
            Vendor::OpenAi => &self.openai_base_url,
            Vendor::Anthropic => &self.anthropic_base_url,
            Vendor::OpenRouter | Vendor::Nous | Vendor::Custom => return None,
        };
        Some(named.as_str()).filter(|url| !url.is_empty())
    }

    /// Guesses whose API a conversation speaks to, where nothing names it.
    fn vendor_of(&self, dialect: Dialect, model: &str) -> Vendor {
        match dialect {
            Dialect::Anthropic => Vendor::Anthropic,
            Dialect::Responses => Vendor::OpenAi,
            // An address in the environment is where such a client goes, whatever the model is called.
            _ if !self.openai_base_url.is_empty() => Vendor::OpenAi,
            _ if model.contains('/') => {
                let is_nous = self.key(Vendor::OpenRouter).is_none() && self.key(Vendor::Nous).is_some();
                if is_nous { Vendor::Nous } else { Vendor::OpenRouter }
            }
            _ if family(model) == Some(Vendor::Anthropic) => Vendor::Anthropic,
            _ => Vendor::OpenAi,
        }
    }
}

/// What a target is made of besides its place.
#[derive(Clone, Copy)]
struct Base<'a> {
    model: &'a str,
    on: CompletionModel,
    window: u64,
    timeout: Duration,
}

impl Base<'_> {
    /// Makes a target at a vendor with its key from the environment.
    fn at(&self, prices: &Prices, environment: &Environment, vendor: Vendor, api: Api) -> Result<Target, String> {
        self.keyed(prices, environment, vendor, api, None)
    }

    fn keyed(
        &self,
        prices: &Prices,
        environment: &Environment,
        vendor: Vendor,
        api: Api,
        key: Option<Key>,
    ) -> Result<Target, String> {
        let named = environment.base_url(vendor);
        let key = key.or_else(|| environment.key(vendor));
        // A server of one's own needs no key.
        if key.is_none() && named.is_none() {
            return Err(format!("{} is not set, so {} cannot be asked", vendor.key_variable(), vendor.base_url()));
        }
        self.target(prices, vendor, api, named.unwrap_or_else(|| vendor.base_url()), key)
    }

    fn target(
        &self,
        prices: &Prices,
        vendor: Vendor,
        api: Api,
        base_url: &str,
        key: Option<Key>,
    ) -> Result<Target, String> {
        let (url, origin) = address(base_url, api)?;
        let price = prices.find(self.model);
        Ok(Target {
            api,
            vendor,
            url,
            origin,
            key,
            model: self.model.to_owned(),
            on: self.on,
            window: if self.window > 0 { self.window } else { price.map_or(0, |price| price.window) },
            output_max: price.map_or(0, |price| price.output_max),
            timeout: self.timeout,
            extra_body: Map::new(),
            reasoning_effort: String::new(),
            headers: Vec::new(),
        })
    }
}

fn auxiliary(settings: &AuxCompression, env: &dyn Fn(&str) -> Option<String>) -> Entry {
    Entry {
        provider: settings.provider,
        model: settings.model.trim().to_owned(),
        base_url: settings.base_url.trim().to_owned(),
        key: reveal(&settings.api_key, env),
        window: settings.context_length.unwrap_or(0),
        extra_body: settings.extra_body.clone(),
        reasoning_effort: settings.reasoning_effort.trim().to_owned(),
    }
}

/// Reads a step of `fallback_chain`; what it does not say is empty.
fn step(value: &Value, env: &dyn Fn(&str) -> Option<String>) -> Entry {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let provider = value.get("provider").and_then(|name| serde_json::from_value(name.clone()).ok());
    Entry {
        provider: provider.unwrap_or(Provider::Auto),
        model: text("model"),
        base_url: text("base_url"),
        key: reveal(&Secret::new(text("api_key")), env),
        window: value.get("context_length").and_then(Value::as_u64).unwrap_or(0),
        extra_body: value.get("extra_body").and_then(Value::as_object).cloned().unwrap_or_default(),
        reasoning_effort: text("reasoning_effort"),
    }
}

fn reveal(secret: &Secret, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Key>, String> {
    let revealed = secret.reveal(env).map_err(|error| error.to_string())?;
    Ok(revealed.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).map(Key))
}

/// Returns whose model a name says it is.
fn family(model: &str) -> Option<Vendor> {
    let model = model.to_ascii_lowercase();
    let is_numbered =
        |letter: char| model.strip_prefix(letter).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if model.starts_with("claude") {
        return Some(Vendor::Anthropic);
    }
    if ["gpt-", "chatgpt", "codex"].iter().any(|start| model.starts_with(start)) || is_numbered('o') {
        return Some(Vendor::OpenAi);
    }
    None
}

/// Returns what a model is called at a vendor; none where the vendor cannot have it.
fn name_at(vendor: Vendor, model: &str) -> Option<String> {
    let owner = family(model);
    match vendor {
        Vendor::Custom => Some(model.to_owned()),
        Vendor::OpenRouter | Vendor::Nous if model.contains('/') => Some(model.to_owned()),
        Vendor::OpenRouter | Vendor::Nous => match owner {
            Some(Vendor::Anthropic) => Some(format!("anthropic/{model}")),
            Some(Vendor::OpenAi) => Some(format!("openai/{model}")),
            _ => Some(model.to_owned()),
        },
        Vendor::Anthropic => {
            let bare = model.strip_prefix("anthropic/").unwrap_or(model);
            (family(bare) != Some(Vendor::OpenAi) && !bare.contains('/')).then(|| bare.to_owned())
        }
        Vendor::OpenAi => {
            let bare = model.strip_prefix("openai/").unwrap_or(model);
            (family(bare) != Some(Vendor::Anthropic)).then(|| bare.to_owned())
        }
    }
}

fn foreign(vendor: Vendor, model: &str) -> String {
    format!("{} has no model {model:?}; name one in auxiliary.compression.model", vendor.base_url())
}

/// Tells from an address that the Messages API is spoken there.
fn speaks_messages(base_url: &str) -> bool {
    let trimmed = base_url.trim_end_matches('/');
    trimmed.ends_with("/anthropic") || trimmed.starts_with(Vendor::Anthropic.base_url())
}

/// Returns the address of an API under a base, and its origin.
fn address(base_url: &str, api: Api) -> Result<(String, String), String> {
    let path = match api {
        Api::Chat => "/chat/completions",
        Api::Messages => "/v1/messages",
        Api::Responses => "/responses",
    };
    // The whole value is not shown: an address may carry a key.
    let unusable = |why: &str| format!("the address of the summary endpoint cannot be used: {why}");
    let mut url = reqwest::Url::parse(base_url.trim()).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(unusable("it must begin with http:// or https:// and name a host"));
    }
    let base = url.path().trim_end_matches('/').to_owned();
    let is_whole = base.ends_with("/chat/completions") || base.ends_with("/messages") || base.ends_with("/responses");
    let path = match (api, base.ends_with("/v1")) {
        _ if is_whole => base,
        (Api::Messages, true) => format!("{base}/messages"),
        (Api::Chat | Api::Responses, _) | (Api::Messages, false) => format!("{base}{path}"),
    };
    url.set_path(&path);
    let origin = url.origin().ascii_serialization();
    Ok((url.to_string(), origin))
}

#[cfg(test)]
#[path = "endpoint/tests.rs"]
mod tests;
