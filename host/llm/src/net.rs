//! The way out of this machine, as everything here makes it: which connections there are, and what of an error is said.

use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::sync::Once;
use std::time::Duration;

/// Causes of an error that are told. They are few; a ring of them is not possible, a long chain is.
const CAUSES_MAX: usize = 8;

/// Begins a client that follows no redirects and tries nothing again by itself.
///
/// A proxy of the environment reaches its own loopback, not ours, so what is on this machine is asked directly. For plain
/// HTTP no certificate is read, so that a system without any can still ask a local model.
pub fn client(is_loopback: bool, is_plain: bool) -> reqwest::ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only where the program has chosen another provider, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).retry(reqwest::retry::never());
    let builder = if is_loopback { builder.no_proxy() } else { builder };
    if is_plain { builder.tls_certs_only([]) } else { builder }
}

/// Tells whether an address is on this machine.
pub fn is_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns what an error says with its causes, without the address: it may carry a key.
pub fn words(error: &reqwest::Error) -> String {
    let mut out = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        let said = error.to_string();
        if !out.contains(&said) {
            out = if out.is_empty() { said } else { format!("{out}: {said}") };
        }
        cause = error.source();
    }
    out
}

/// Reads how long a provider wants to be left alone; a date is not worth reading for a pause of seconds.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}
