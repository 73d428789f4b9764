//! Sends one request and reads its answer, within bounds of time and size.

use crate::answer;
use crate::endpoint::{Api, Target};
use crate::failure::{self, Failure, Kind};
use crate::net;
use engine_api::Completion;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Requests that are in flight at once, over all sessions.
pub(crate) const CONCURRENT_MAX: usize = 4;
/// An address that does not answer a connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer answer is no summary.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Of an error no more is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How often a cancelled call is noticed.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// Idle connections kept for each host, and how long: summaries are rare.
const IDLE_MAX: usize = 2;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The Messages API's version; the newest there is.
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// Headers of the client that change what its body means, and nothing else of it.
const CLIENT_HEADERS: [&str; 2] = ["anthropic-beta", "openai-beta"];

/// Sends requests; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    /// Made when first needed: for this machine and for others, without and with TLS.
    clients: Arc<[Mutex<Option<reqwest::Client>>; 4]>,
    in_flight: Arc<Semaphore>,
}

/// A body on its way to a target.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) target: Arc<Target>,
    pub(crate) body: String,
    /// Headers of the live request, for one on its prefix.
    pub(crate) headers: Vec<(String, String)>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Sender { clients: Arc::default(), in_flight: Arc::new(Semaphore::new(CONCURRENT_MAX)) }
    }

    /// Sends a request and reads the answer, which must be there by the deadline.
    pub(crate) async fn send(&self, parcel: Parcel, deadline: Instant) -> Result<Completion, Failure> {
        let (key, own) = (parcel.target.key.clone(), parcel.target.headers.clone());
        // Waiting for one's turn is no fault of the endpoint, so it must not count as its timeout.
        let turn = tokio::time::timeout_at(deadline.into(), self.in_flight.acquire()).await;
        let Ok(Ok(_permit)) = turn else {
            return Err(Failure::new(Kind::Busy, &format!("{CONCURRENT_MAX} requests are under way")));
        };
        let late = || Failure::new(Kind::TimedOut, "");
        let answer =
            tokio::time::timeout_at(deadline.into(), self.exchange(parcel)).await.unwrap_or_else(|_| Err(late()));
        let own = own.iter().map(|(_, key)| key.reveal());
        answer.map_err(|failure| {
            key.iter().map(|key| key.reveal()).chain(own).fold(failure, |failure, key| failure.without(Some(key)))
        })
    }

    async fn exchange(&self, parcel: Parcel) -> Result<Completion, Failure> {
        let target = &parcel.target;
        let client = self.client(target)?;
        let headers = headers(target, &parcel.headers)?;
        let request = client.post(&target.url).headers(headers).body(parcel.body);
        let response = request.send().await.map_err(broken)?;
        let status = response.status();
        let retry_after = net::retry_after(response.headers());
        if !status.is_success() {
            // What was read of an error before it broke off is still worth a look.
            let body = read(response, ERROR_BYTES_MAX).await.unwrap_or_else(|(_, start)| start);
            return Err(failure::of_status(status.as_u16(), retry_after, &body));
        }
        let body = read(response, BODY_BYTES_MAX).await.map_err(|(failure, _)| failure)?;
        answer::read(target.api, &body)
    }

    fn client(&self, target: &Target) -> Result<reqwest::Client, Failure> {
        let is_plain = target.url.starts_with("http://");
        let at = usize::from(target.is_loopback()) * 2 + usize::from(is_plain);
        let Some(slot) = self.clients.get(at) else { return Err(Failure::new(Kind::Connection, "no client")) };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let builder = net::client(target.is_loopback(), is_plain)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("palimpsest/", env!("CARGO_PKG_VERSION")));
        let client = builder.build().map_err(|error| Failure::new(Kind::Connection, &net::words(&error)))?;
        Ok(slot.insert(client).clone())
    }
}

/// Waits for a future, but not past the deadline and not when the caller has given up.
pub(crate) async fn guarded<T>(
    future: impl Future<Output = T>,
    deadline: Instant,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<T, Kind> {
    let mut future = std::pin::pin!(future);
    loop {
        if cancelled() {
            return Err(Kind::Cancelled);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(Kind::TimedOut);
        }
        let wake = deadline.min(now + CANCEL_POLL);
        if let Ok(output) = tokio::time::timeout_at(wake.into(), &mut future).await {
            return Ok(output);
        }
    }
}

fn headers(target: &Target, client: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let unusable = |_| Failure::new(Kind::Auth, "the key has characters that no header can carry");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if target.api == Api::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    for (name, value) in client {
        let name = name.to_ascii_lowercase();
        if CLIENT_HEADERS.contains(&name.as_str())
            && let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value))
        {
            headers.append(name, value);
        }
    }
    for (name, value) in &target.headers {
        let mut value = HeaderValue::from_str(value.reveal()).map_err(unusable)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| Failure::new(Kind::Auth, ""))?, value);
    }
    if let Some(key) = &target.key {
        let (name, text) = match target.api {
            Api::Messages => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
            Api::Chat | Api::Responses => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
        };
        let mut value = HeaderValue::from_str(&text).map_err(unusable)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads a body up to its limit; what came before a fault is returned with it.
async fn read(mut response: reqwest::Response, bytes_max: usize) -> Result<String, (Failure, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > bytes_max => {
                let failure = Failure::new(Kind::Garbage, &format!("the body has more than {bytes_max} bytes"));
                return Err((failure, text(&bytes)));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(text(&bytes)),
            Err(error) => return Err((broken(error), text(&bytes))),
        }
    }
}

fn broken(error: reqwest::Error) -> Failure {
    // A connection that takes too long to be made is one that is not there.
    let kind = if error.is_timeout() && !error.is_connect() { Kind::TimedOut } else { Kind::Connection };
    Failure::new(kind, &net::words(&error))
}
