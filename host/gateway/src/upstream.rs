//! The way to providers: one request out, tried again where no byte of an answer has come.

use crate::settings::{Provider, Settings};
use bytes::Bytes;
use host_llm::net;
use hyper::{HeaderMap, Method, StatusCode};
use reqwest::header::{self, HeaderName, HeaderValue};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Connections to one provider that are kept open between requests, and how long.
const IDLE_MAX: usize = 64;
const IDLE_TIME: Duration = Duration::from_secs(90);
/// Pause before a request is sent again: so long, doubled each time, and up to as long again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// A provider that wants to be left alone for longer is not waited for: the client can do that itself.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// Bytes of a provider's error that are read.
pub(crate) const ERROR_BYTES_MAX: usize = 1024 * 1024;

/// Headers that belong to one connection, and those that we set ourselves.
const NOT_PASSED: [HeaderName; 11] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    // Answers are read on their way, so they must come as they are.
    header::ACCEPT_ENCODING,
];
/// Headers of ours, which are nobody else's business.
const OWN_PREFIX: &str = "x-palimpsest";

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// No connection, or one that broke before an answer.
    #[error("the provider could not be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("the provider did not begin to answer within {0} s (gateway.first_byte_seconds)")]
    Late(u64),
    /// The request cannot be made.
    #[error("the request cannot be sent: {0}")]
    Invalid(String),
}

/// An answer that has begun, and how often it was asked for.
pub(crate) struct Begun {
    pub(crate) response: reqwest::Response,
    pub(crate) retries: u32,
}

/// Sends requests to providers.
pub(crate) struct Upstream {
    /// For this machine, and for others.
    local: reqwest::Client,
    remote: std::sync::OnceLock<Result<reqwest::Client, String>>,
}

impl Upstream {
    /// Makes the way to this machine; the way to others is made when it is needed, since it reads the certificates.
    pub(crate) fn new() -> Result<Upstream, String> {
        Ok(Upstream { local: build(true, true)?, remote: std::sync::OnceLock::new() })
    }

    fn client(&self, url: &str) -> Result<&reqwest::Client, UpstreamError> {
        if net::is_loopback(url) {
            return Ok(&self.local);
        }
        let made = self.remote.get_or_init(|| build(false, false));
        made.as_ref().map_err(|error| UpstreamError::Unreachable(error.clone()))
    }

    /// Sends a request and waits until an answer begins.
    pub(crate) async fn send(
        &self,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
        body: Bytes,
        settings: &Settings,
    ) -> Result<Begun, UpstreamError> {
        let client = self.client(url)?;
        let mut retries = 0;
        loop {
            let request = client.request(method.clone(), url).headers(headers.clone()).body(body.clone());
            let answer = tokio::time::timeout(settings.first_byte_time, request.send()).await;
            let (failed, wish) = match answer {
                Err(_) => return Err(UpstreamError::Late(settings.first_byte_time.as_secs())),
                Ok(Ok(response)) if !is_passing(response.status()) || retries >= settings.retries => {
                    return Ok(Begun { response, retries });
                }
                Ok(Ok(response)) => {
                    let wish = net::retry_after(response.headers());
                    if wish.is_some_and(|wish| wish > RETRY_AFTER_MAX) {
                        return Ok(Begun { response, retries });
                    }
                    (None, wish)
                }
                Ok(Err(error)) if error.is_builder() => return Err(UpstreamError::Invalid(words(&error))),
                // What was sent may have been worked on if the connection broke later than in its making; but no answer
                // had begun, and a model's answer changes nothing at the provider.
                Ok(Err(error)) => (Some(UpstreamError::Unreachable(words(&error))), None),
            };
            if let Some(error) = failed
                && retries >= settings.retries
            {
                return Err(error);
            }
            tokio::time::sleep(wish.unwrap_or_default().max(pause(retries))).await;
            retries += 1;
        }
    }

    /// Sends a request whose body is streamed; it cannot be sent twice.
    pub(crate) async fn stream(
        &self,
        method: &Method,
        url: &str,
        headers: HeaderMap,
        body: reqwest::Body,
        settings: &Settings,
    ) -> Result<reqwest::Response, UpstreamError> {
        let request = self.client(url)?.request(method.clone(), url).headers(headers).body(body);
        match tokio::time::timeout(settings.first_byte_time, request.send()).await {
            Err(_) => Err(UpstreamError::Late(settings.first_byte_time.as_secs())),
            Ok(Err(error)) => Err(UpstreamError::Unreachable(words(&error))),
            Ok(Ok(response)) => Ok(response),
        }
    }
}

/// Returns the headers of a request as they leave: the client's, with the provider's key where the settings have one.
pub(crate) fn request_headers(
    client: &HeaderMap,
    provider: &Provider,
    is_anthropic: bool,
    own_key: Option<&str>,
) -> HeaderMap {
    let named = named_by_connection(client);
    let mut out = HeaderMap::with_capacity(client.len());
    for (name, value) in client {
        let is_own = name.as_str().starts_with(OWN_PREFIX) || named.iter().any(|other| other == name.as_str());
        // A key that lets somebody into the gateway is not the provider's.
        let is_ours = own_key.is_some_and(|key| carries(value, key));
        if !is_own && !is_ours && !NOT_PASSED.contains(name) && name.as_str() != "keep-alive" {
            out.append(name.clone(), value.clone());
        }
    }
    if let Some(key) = &provider.key {
        out.remove(header::AUTHORIZATION);
        out.remove("x-api-key");
        let (name, text) = if is_anthropic {
            (HeaderName::from_static("x-api-key"), key.reveal().to_owned())
        } else {
            (header::AUTHORIZATION, format!("Bearer {}", key.reveal()))
        };
        if let Ok(mut value) = HeaderValue::from_str(&text) {
            value.set_sensitive(true);
            out.insert(name, value);
        }
    }
    for (name, value) in &provider.headers {
        if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value.reveal()))
        {
            value.set_sensitive(true);
            out.insert(name, value);
        }
    }
    out
}

/// Returns the headers of an answer as they reach the client.
pub(crate) fn answer_headers(upstream: &HeaderMap, is_changed: bool) -> HeaderMap {
    let named = named_by_connection(upstream);
    let mut out = HeaderMap::with_capacity(upstream.len() + 2);
    for (name, value) in upstream {
        let is_length = *name == header::CONTENT_LENGTH && !is_changed;
        let is_own = named.iter().any(|other| other == name.as_str()) || name.as_str() == "keep-alive";
        if is_length || (!is_own && !NOT_PASSED.contains(name)) {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

/// Tells whether a header's value is a key, alone or as a bearer's.
pub(crate) fn carries(value: &HeaderValue, key: &str) -> bool {
    let bytes = value.as_bytes();
    let bare = bytes.strip_prefix(b"Bearer ").or_else(|| bytes.strip_prefix(b"bearer ")).unwrap_or(bytes);
    is_same(bare, key.as_bytes())
}

/// Compares without telling by the time it takes how much was right.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn build(is_loopback: bool, is_plain: bool) -> Result<reqwest::Client, String> {
    let builder = net::client(is_loopback, is_plain)
        .connect_timeout(CONNECT_TIME)
        .pool_max_idle_per_host(IDLE_MAX)
        .pool_idle_timeout(IDLE_TIME)
        .tcp_nodelay(true);
    builder.build().map_err(|error| error.to_string())
}

/// Statuses of a provider that is overloaded or has just restarted. 429 is the client's to obey: it knows its limits.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502 | 503 | 504 | 529)
}

fn pause(retries: u32) -> Duration {
    let base = RETRY_PAUSE.saturating_mul(1 << retries.min(8));
    let share = RandomState::new().hash_one(retries) % 1_000;
    base + base.mul_f64(share as f64 / 1_000.0)
}

/// Returns what an error says, without the address: it may carry a key.
fn words(error: &reqwest::Error) -> String {
    let said = net::words(error);
    match (error.is_timeout(), said.is_empty()) {
        (true, _) => "it took too long".to_owned(),
        (false, true) => "the connection failed".to_owned(),
        (false, false) => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(key: Option<&str>) -> Provider {
        let yaml = match key {
            Some(key) => format!("providers: {{p: {{base_url: 'http://h/v1', api_key: {key}}}}}"),
            None => "providers: {p: {base_url: 'http://h/v1'}}".to_owned(),
        };
        let config = host_config::parse(&yaml, "config.yaml").config;
        let (settings, _) = Settings::read(&config, None, None, &|_| None).unwrap();
        settings.provider(Some("p"), None, "").unwrap().clone()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_stays_and_all_else_passes() {
        let client = headers(&[
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("host", "127.0.0.1"),
            ("accept-encoding", "gzip"),
            ("x-palimpsest-session", "a"),
            ("anthropic-beta", "some-new-beta"),
            ("x-unknown", "kept"),
            ("authorization", "Bearer client"),
        ]);
        let out = request_headers(&client, &provider(None), false, None);
        let mut names: Vec<&str> = out.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["anthropic-beta", "authorization", "x-unknown"]);
        assert_eq!(out["authorization"], "Bearer client");
    }

    #[test]
    fn a_key_of_the_settings_stands_in_for_the_clients_and_ours_never_leaves() {
        let client = headers(&[("authorization", "Bearer gateway-key"), ("x-api-key", "gateway-key")]);
        let out = request_headers(&client, &provider(None), true, Some("gateway-key"));
        assert!(out.is_empty(), "{out:?}");
        let out = request_headers(&client, &provider(Some("sk-provider")), true, Some("gateway-key"));
        assert_eq!((out.len(), out["x-api-key"].to_str().unwrap()), (1, "sk-provider"));
        assert!(!format!("{out:?}").contains("sk-provider"), "a key is never shown");
        let out = request_headers(&client, &provider(Some("sk-provider")), false, None);
        assert_eq!(out["authorization"], "Bearer sk-provider");
    }

    #[test]
    fn an_answer_keeps_its_length_only_as_it_came() {
        let upstream = headers(&[("content-length", "5"), ("transfer-encoding", "chunked"), ("x-request-id", "r")]);
        assert_eq!(answer_headers(&upstream, false).len(), 2);
        assert_eq!(answer_headers(&upstream, true).len(), 1);
    }
}
