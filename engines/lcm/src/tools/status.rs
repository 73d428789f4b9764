//! `lcm_status`: what the engine has done in this session, its thresholds, and what is stored.

use super::args::add;
use super::{Desk, Found, describe};
use engine_api::json::{Value, json};

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, _arguments: &Value) -> Found {
    let settings = desk.settings;
    let mut answer = json!({
        "engine": crate::NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "session_id": desk.session_id,
        "messages_in_view": desk.conversation.len(),
        "tokens_in_view": desk.conversation.tokens(),
        "summaries_in_view": desk.conversation.iter().filter(|message| message.is_summary()).count(),
        "session": desk.status,
        "settings": {
            "context_threshold": settings.context_threshold,
            "soft_threshold": settings.soft_threshold,
            "low_water": settings.low_water,
            "fresh_tail_tokens": settings.fresh_tail_tokens,
            "fresh_tail_messages_min": settings.fresh_tail_messages_min,
            "leaf_chunk_tokens": settings.leaf_chunk_tokens,
            "leaf_fan_in": settings.leaf_fan_in,
            "condensed_fan_in": settings.condensed_fan_in,
            "large_result_tokens": settings.large_result_tokens,
            "new_session_retain_depth": settings.retain_depth,
            "session_patterns": settings.ignored_sessions.len() + settings.read_only_sessions.len(),
        },
        "host": desk.services.host_info(),
    });
    // A host without a store gives no overview; the rest stands all the same.
    if let Ok(store) = describe::overview(desk, "") {
        add(&mut answer, "store", store);
    }
    Ok(answer)
}
