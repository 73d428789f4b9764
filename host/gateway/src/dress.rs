//! The body as it leaves: the messages that the model sees, the tools it is offered, and last of all the cache marks.

use crate::conversation::Rewritten;
use crate::settings::Provider;
use crate::setup::Setup;
use crate::turn::Turn;
use engine_api::Dialect;
use host_config::CacheTtl;
use host_wire::{CacheLayout, Envelope, MarkTtl};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// The member by which the Responses API is asked to compact on its side.
const CONTEXT_MANAGEMENT: &str = "context_management";

/// A body ready to leave.
pub(crate) struct Dressed {
    /// None where the client's own leaves.
    pub(crate) body: Option<String>,
    /// Tools that the model can call and the client does not know.
    pub(crate) host_tools: HashSet<String>,
}

/// Writes a request's body. Without new messages, a name to translate and marks to place, the client's own bytes leave.
pub(crate) fn dress(setup: &Setup, provider: &Provider, turn: &Turn, rewritten: Option<&Rewritten>) -> Dressed {
    let envelope = &turn.envelope;
    let mut shell: Option<Envelope> = None;
    let mut host_tools = HashSet::new();
    if let Some(rewritten) = rewritten {
        let offered = offer(envelope, rewritten);
        if let Some((tools, names)) = offered {
            shell.get_or_insert_with(|| Envelope::clone(envelope)).set_member("tools", tools);
            host_tools = names;
        }
    }
    let known_as = host_config::codex::wire_model(&turn.model, &setup.config.model.provider);
    if known_as != turn.model {
        let name = serde_json::Value::from(known_as).to_string();
        shell.get_or_insert_with(|| Envelope::clone(envelope)).set_member("model", name);
    }
    if let Some(threshold) = native_threshold(setup, provider, turn) {
        let wish = format!("[{{\"type\":\"compaction\",\"compact_threshold\":{threshold}}}]");
        shell.get_or_insert_with(|| Envelope::clone(envelope)).set_member(CONTEXT_MANAGEMENT, wish);
    }
    let own = envelope.raws();
    let messages: Vec<Cow<'_, str>> = match rewritten {
        Some(rewritten) => rewritten.messages.iter().map(|raw| Cow::Borrowed(raw.as_str())).collect(),
        None => own,
    };
    let marked = mark(setup, provider, turn, &messages);
    let is_changed = rewritten.is_some() || shell.is_some() || marked.is_some();
    if !is_changed {
        return Dressed { body: None, host_tools };
    }
    let mut shell = shell.unwrap_or_else(|| Envelope::clone(envelope));
    let messages: Vec<Cow<'_, str>> = match marked {
        Some(marked) => {
            if let Some(system) = marked.system {
                shell.set_member("system", system);
            }
            messages.into_iter().zip(marked.messages).map(|(raw, marked)| marked.map_or(raw, Cow::Owned)).collect()
        }
        None => messages,
    };
    Dressed { body: Some(shell.write(messages.iter().map(|raw| raw.as_ref()))), host_tools }
}

/// Returns the threshold at which the provider is asked to compact on its side; none where it is not asked, or the client
/// has asked itself.
fn native_threshold(setup: &Setup, provider: &Provider, turn: &Turn) -> Option<u64> {
    let envelope = &turn.envelope;
    let is_asked = envelope.member(CONTEXT_MANAGEMENT).is_some();
    if envelope.dialect() != Dialect::Responses || is_asked || !turn.may_ask_native.load(Ordering::Relaxed) {
        return None;
    }
    let config = &setup.config;
    let budgets = host_config::budgets(config, &turn.model, turn.window, config.model.max_tokens);
    host_config::codex::native_compaction(config, &turn.model, &provider.base, budgets.threshold_tokens)
}

/// Tells whether a refusal is one of the provider's own compaction, which is then not asked for again in the session.
pub(crate) fn refuses_native(status: u16, body: &str) -> bool {
    status == 400 && body.contains(CONTEXT_MANAGEMENT)
}

/// Returns the tools with ours at their end, and the names of ours; none where the client offers no tools itself: then
/// no model expects to call any.
fn offer(envelope: &Envelope, rewritten: &Rewritten) -> Option<(String, HashSet<String>)> {
    let own = envelope.member("tools").filter(|raw| !matches!(raw.trim(), "[]" | "null"))?;
    if rewritten.tools.is_empty() {
        return None;
    }
    let (tools, names) = host_wire::offer_tools(Some(own), envelope.dialect(), &rewritten.tools);
    (!names.is_empty()).then(|| (tools, names.into_iter().collect()))
}

/// Places cache marks where the provider takes them and the client set none.
fn mark(setup: &Setup, provider: &Provider, turn: &Turn, messages: &[Cow<'_, str>]) -> Option<host_wire::Marked> {
    let caching = &setup.config.prompt_caching;
    let dialect = turn.envelope.dialect();
    let layout = layout(provider, dialect, &turn.model).filter(|_| caching.enabled)?;
    let messages: Vec<&str> = messages.iter().map(|raw| raw.as_ref()).collect();
    let system = turn.envelope.member("system");
    let ttl = match caching.cache_ttl {
        CacheTtl::FiveMinutes => MarkTtl::FiveMinutes,
        CacheTtl::OneHour => MarkTtl::OneHour,
    };
    let marked = host_wire::place_marks(system, turn.envelope.member("tools"), &messages, layout, ttl);
    (marked.system.is_some() || marked.messages.iter().any(Option::is_some)).then_some(marked)
}

/// Returns how cache marks are written for a model at a provider, if it takes any.
pub(crate) fn layout(provider: &Provider, dialect: Dialect, model: &str) -> Option<CacheLayout> {
    host_wire::cache_layout(&provider.base, dialect, model)
}
