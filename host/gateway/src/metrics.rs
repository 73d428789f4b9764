//! What the gateway counts, in the text format of Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The overhead histogram begins at 50 µs and doubles up to about 52 s, which is longer than any model is waited for.
const OVERHEAD_BUCKETS: (f64, f64, u16) = (0.000_05, 2.0, 21);

/// What a request was and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) api: &'static str,
    pub(crate) status: u16,
}

/// What was done to a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CompactionLabels {
    pub(crate) engine: String,
    pub(crate) trigger: String,
}

/// One kind of something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    pub(crate) kind: &'static str,
}

/// All metrics.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) under_way: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) resident_bytes: Gauge,
    pub(crate) overhead: Histogram,
    pub(crate) compactions: Family<CompactionLabels, Counter>,
    pub(crate) native: Family<KindLabels, Counter>,
    pub(crate) tokens: Family<KindLabels, Counter>,
    pub(crate) fallbacks: Counter,
    pub(crate) engine_tools: Counter,
    pub(crate) overflows: Counter,
    pub(crate) retries: Counter,
    pub(crate) refused: Family<KindLabels, Counter>,
    pub(crate) store_errors: Counter,
    pub(crate) aborted: Counter,
    pub(crate) log_lines_lost: Counter,
    pub(crate) reloads: Family<KindLabels, Counter>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("palimpsest");
        let (start, factor, length) = OVERHEAD_BUCKETS;
        let metrics = Metrics {
            registry: Registry::default(),
            requests: Family::default(),
            under_way: Gauge::default(),
            connections: Gauge::default(),
            sessions: Gauge::default(),
            resident_bytes: Gauge::default(),
            overhead: Histogram::new(exponential_buckets(start, factor, length)),
            compactions: Family::default(),
            native: Family::default(),
            tokens: Family::default(),
            fallbacks: Counter::default(),
            engine_tools: Counter::default(),
            overflows: Counter::default(),
            retries: Counter::default(),
            refused: Family::default(),
            store_errors: Counter::default(),
            aborted: Counter::default(),
            log_lines_lost: Counter::default(),
            reloads: Family::default(),
        };
        registry.register("requests", "Requests answered, by API and status", metrics.requests.clone());
        registry.register("requests_under_way", "Requests being answered", metrics.under_way.clone());
        registry.register("connections", "Connections of clients", metrics.connections.clone());
        registry.register("sessions", "Conversations kept track of in memory", metrics.sessions.clone());
        registry.register("resident_bytes", "Text of conversations held in memory", metrics.resident_bytes.clone());
        registry.register_with_unit(
            "overhead",
            "Time from a request to its way to the provider, without the reading of its body",
            Unit::Seconds,
            metrics.overhead.clone(),
        );
        registry.register("compactions", "Compactions, by engine and trigger", metrics.compactions.clone());
        registry.register("native_compactions", "Compactions of clients answered, by client", metrics.native.clone());
        registry.register(
            "tokens",
            "Tokens: prompt, completion, cache_read and cache_write as providers report them, saved as we count them",
            metrics.tokens.clone(),
        );
        registry.register(
            "fallbacks",
            "Compactions in which something stood in for the engine",
            metrics.fallbacks.clone(),
        );
        registry.register("engine_tool_calls", "Calls of recall tools answered", metrics.engine_tools.clone());
        registry.register("overflows", "Requests that a provider refused as too long", metrics.overflows.clone());
        registry.register("retries", "Requests sent again before the first byte of an answer", metrics.retries.clone());
        registry.register("refused", "Requests refused by the gateway, by kind", metrics.refused.clone());
        registry.register("store_errors", "Requests that could not be stored", metrics.store_errors.clone());
        registry.register("aborted", "Answers that the client did not wait for", metrics.aborted.clone());
        registry.register(
            "access_log_lines_lost",
            "Lines that the access log had no room for",
            metrics.log_lines_lost.clone(),
        );
        registry.register("reloads", "Reloads of the settings: done and refused", metrics.reloads.clone());
        Metrics { registry, ..metrics }
    }

    /// Notes how long a request took until it left for the provider.
    pub(crate) fn left_after(&self, overhead: Duration) {
        self.overhead.observe(overhead.as_secs_f64());
    }

    /// Writes all metrics.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a text does not fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

/// The media type of [`Metrics::text`].
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
