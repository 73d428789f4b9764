//! What the gateway is set up with: the `gateway` and `providers` sections, checked and resolved once.

use engine_api::Dialect;
use host_config::{Config, GatewayMode, Secret};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes that a key must have where anybody but this machine can connect.
pub const KEY_BYTES_MIN: usize = 32;
/// Providers that are looked at.
const PROVIDERS_MAX: usize = 64;
/// Where requests of each API go if nothing else is said.
const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// Why the gateway cannot start with its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The address cannot be read.
    #[error("gateway.listen is {0:?}, which is no address and port such as 127.0.0.1:8484")]
    Listen(String),
    /// It would be open to others without a key.
    #[error(
        "{0} can be reached from other machines, and gateway.key is not set: set one of at least {KEY_BYTES_MIN} bytes, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The key can be guessed.
    #[error("gateway.key has {0} bytes; {KEY_BYTES_MIN} are the least")]
    ShortKey(usize),
    /// The key names a variable that is not there.
    #[error("gateway.key cannot be read: {0}")]
    Key(String),
    /// An address cannot be used.
    #[error("{place}: {why}")]
    Address {
        /// The setting.
        place: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Which API a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Anthropic,
}

impl Api {
    pub(crate) fn of(dialect: Dialect) -> Api {
        if dialect == Dialect::Anthropic { Api::Anthropic } else { Api::OpenAi }
    }
}

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hidden(String);

impl Hidden {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(host_config::MASK)
    }
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    /// Its name in the settings, or that of its API.
    pub(crate) name: String,
    /// Scheme, host, port and path, without a slash at the end.
    pub(crate) base: String,
    pub(crate) api: Option<Api>,
    /// In place of the client's own.
    pub(crate) key: Option<Hidden>,
    pub(crate) headers: Vec<(String, Hidden)>,
    /// Names with `*`, each with the window that the settings state.
    pub(crate) models: Vec<(String, Option<u64>)>,
}

/// Everything that the gateway goes by, but for what belongs to engines.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) key: Option<Hidden>,
    pub(crate) mode: GatewayMode,
    pub(crate) client_modes: BTreeMap<String, GatewayMode>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) body_bytes_max: usize,
    pub(crate) body_time: Duration,
    pub(crate) first_byte_time: Duration,
    pub(crate) stall_time: Duration,
    pub(crate) retries: u32,
}

impl Settings {
    /// Reads the settings; what is not usable but not needed is left out, with a line that says so.
    ///
    /// `upstream` stands in for `gateway.upstream`.
    pub(crate) fn read(
        config: &Config,
        listen: Option<&str>,
        upstream: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Settings, Vec<String>), SettingsError> {
        let section = &config.gateway;
        let listen = listen.unwrap_or(&section.listen).trim();
        let address: SocketAddr = listen
            .strip_prefix("localhost")
            .map_or_else(|| listen.to_owned(), |port| format!("127.0.0.1{port}"))
            .parse()
            .map_err(|_| SettingsError::Listen(listen.to_owned()))?;
        let key = section.key.reveal(env).map_err(|error| SettingsError::Key(error.to_string()))?;
        let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        match &key {
            Some(key) if key.len() < KEY_BYTES_MIN => return Err(SettingsError::ShortKey(key.len())),
            None if !address.ip().is_loopback() => return Err(SettingsError::Open(address)),
            _ => {}
        }
        let mut problems = Vec::new();
        let mut providers = Vec::new();
        for (name, value) in config.providers.iter().take(PROVIDERS_MAX) {
            match provider(name, value, env, &mut problems) {
                Ok(provider) => providers.push(provider),
                Err(why) => problems.push(format!("providers.{name} is passed over: {why}")),
            }
        }
        if config.providers.len() > PROVIDERS_MAX {
            problems.push(format!("providers: only the first {PROVIDERS_MAX} are used"));
        }
        let upstream = upstream.unwrap_or(&section.upstream).trim();
        let at = |name: &str, base: &str, api| Provider {
            name: name.to_owned(),
            base: base.to_owned(),
            api,
            key: None,
            headers: Vec::new(),
            models: Vec::new(),
        };
        if upstream.is_empty() {
            providers.push(at("openai", OPENAI, Some(Api::OpenAi)));
            providers.push(at("anthropic", ANTHROPIC, Some(Api::Anthropic)));
        } else {
            let base =
                base(upstream).map_err(|why| SettingsError::Address { place: "gateway.upstream".to_owned(), why })?;
            providers.push(at("upstream", &base, None));
        }
        let client_modes = client_modes(&section.client_modes, &mut problems);
        let seconds = Duration::from_secs;
        let settings = Settings {
            listen: address,
            key: key.map(Hidden),
            mode: section.mode,
            client_modes,
            providers,
            body_bytes_max: usize::try_from(section.body_bytes_max).unwrap_or(usize::MAX),
            body_time: seconds(section.body_seconds),
            first_byte_time: seconds(section.first_byte_seconds),
            stall_time: seconds(section.stall_seconds),
            retries: u32::try_from(section.retries).unwrap_or(0),
        };
        Ok((settings, problems))
    }

    /// Returns the mode that holds for a client.
    pub(crate) fn mode_of(&self, client: Option<&str>) -> GatewayMode {
        client.and_then(|client| self.client_modes.get(client)).copied().unwrap_or(self.mode)
    }

    /// Returns where a request goes: to the provider that its path names, else to the first that lists its model, else to
    /// the first of its API; the error names a provider that there is not.
    pub(crate) fn provider(&self, named: Option<&str>, api: Option<Api>, model: &str) -> Result<&Provider, String> {
        if let Some(name) = named {
            return self
                .providers
                .iter()
                .find(|provider| provider.name == name)
                .ok_or_else(|| format!("there is no provider {name:?} in the settings"));
        }
        let speaks = |provider: &&Provider| api.is_none() || provider.api.is_none() || provider.api == api;
        let lists = |provider: &&Provider| provider.models.iter().any(|(pattern, _)| matches(pattern, model));
        let by_model = self.providers.iter().filter(speaks).find(lists);
        let open = |provider: &&Provider| provider.models.is_empty();
        by_model
            .or_else(|| self.providers.iter().filter(speaks).find(open))
            .or_else(|| self.providers.iter().find(speaks))
            .ok_or_else(|| "no provider of the settings speaks this API".to_owned())
    }
}

impl Provider {
    /// Returns the window that the settings state for a model.
    pub(crate) fn window(&self, model: &str) -> Option<u64> {
        self.models.iter().find(|(pattern, _)| matches(pattern, model)).and_then(|(_, window)| *window)
    }

    /// Returns the whole address of a path as clients ask for it, `/v1/…` or without it.
    pub(crate) fn url(&self, path: &str, query: Option<&str>) -> String {
        let path = match path.strip_prefix("/v1") {
            Some(rest) if self.base.ends_with("/v1") && (rest.is_empty() || rest.starts_with('/')) => rest,
            _ => path,
        };
        match query {
            Some(query) => format!("{}{path}?{query}", self.base),
            None => format!("{}{path}", self.base),
        }
    }
}

fn client_modes(map: &Map<String, Value>, problems: &mut Vec<String>) -> BTreeMap<String, GatewayMode> {
    let mut modes = BTreeMap::new();
    for (client, mode) in map {
        match serde_json::from_value(mode.clone()) {
            Ok(mode) => drop(modes.insert(client.clone(), mode)),
            Err(_) => {
                problems.push(format!("gateway.client_modes.{client} is passed over: transparent and native are modes"))
            }
        }
    }
    modes
}

fn provider(
    name: &str,
    value: &Value,
    env: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<String>,
) -> Result<Provider, String> {
    let members = value.as_object().ok_or("it is no mapping")?;
    let text = |key: &str| members.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let stated = text("base_url").or_else(|| text("api_base")).ok_or("it has no base_url")?;
    let api = match text("api").map(str::to_ascii_lowercase).as_deref() {
        Some("openai" | "chat_completions" | "responses" | "codex_responses") => Some(Api::OpenAi),
        Some("anthropic" | "anthropic_messages") => Some(Api::Anthropic),
        Some(other) => return Err(format!("api is {other:?}; openai and anthropic are known")),
        None => None,
    };
    let reveal = |text: &str| Secret::new(text.to_owned()).reveal(env).map_err(|error| error.to_string());
    let key = text("api_key").map(reveal).transpose()?.flatten().filter(|key| !key.is_empty()).map(Hidden);
    let mut headers = Vec::new();
    for (header, value) in members.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map(reveal).transpose()?.flatten();
        let is_valid = reqwest::header::HeaderName::try_from(header.as_str()).is_ok();
        match value.filter(|value| is_valid && reqwest::header::HeaderValue::from_str(value).is_ok()) {
            Some(value) => headers.push((header.to_ascii_lowercase(), Hidden(value))),
            None => problems.push(format!("providers.{name}.headers: {header:?} cannot be sent, and is left out")),
        }
    }
    let models = match members.get("models") {
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), None)).collect()
        }
        Some(Value::Object(models)) => models
            .iter()
            .map(|(model, about)| {
                let window = about.as_u64().or_else(|| about.get("context_length").and_then(Value::as_u64));
                (model.clone(), window.filter(|window| *window > 0))
            })
            .collect(),
        _ => Vec::new(),
    };
    Ok(Provider { name: name.to_owned(), base: base(stated)?, api, key, headers, models })
}

/// Checks an address; the error never shows it, since it may carry a key.
fn base(stated: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(stated).map_err(|error| format!("the address cannot be used: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("the address must begin with http:// or https:// and name a host".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the address has a query or a fragment; it is what comes before /chat/completions".to_owned());
    }
    Ok(stated.trim_end_matches('/').to_owned())
}

/// Tells whether a name fits a pattern, in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut is_open = false;
    for piece in pieces {
        is_open = piece.is_empty();
        match rest.find(piece) {
            Some(at) => rest = rest.get(at + piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    is_open
        || rest.is_empty()
        || pattern.rsplit('*').next().is_some_and(|last| pattern.contains('*') && name.ends_with(last))
}

#[cfg(test)]
mod tests;
