//! `lcm_doctor`: checks what recall can tell of this session. It changes nothing.

use super::{Desk, Found};
use crate::settings::Settings;
use crate::write::is_pending;
use engine_api::json::{Value, json};
use engine_api::{NodeId, RecallRequest, RecallSearch};
use std::collections::HashSet;

/// Messages of a summary asked for at once, and in all: a longer session is checked in part, and the check says so.
const PAGE: u64 = 200;
const MESSAGES_MAX: u64 = 20_000;
/// Nodes that are looked at.
const NODES_MAX: usize = 512;
/// Of the messages in view, the part that summaries may take before it is remarked on.
const SUMMARIES_PART: u64 = 2;
/// Numbers that are listed in a check.
const LISTED_MAX: usize = 10;

struct Checks(Vec<Value>);

impl Checks {
    fn add(&mut self, check: &str, status: &str, detail: impl Into<String>) {
        self.0.push(json!({ "check": check, "status": status, "detail": detail.into() }));
    }
}

/// Answers a call.
pub(super) fn answer(desk: &Desk<'_>, _arguments: &Value) -> Found {
    let mut checks = Checks(Vec::new());
    let given = desk.services.settings();
    let remarks = Settings::read(&given).1;
    match remarks.as_slice() {
        [] => checks.add("settings", "ok", "all settings are understood"),
        some => {
            let lines: Vec<String> = some.iter().map(|remark| format!("{} {}", remark.key, remark.message)).collect();
            checks.add("settings", "warn", lines.join("; "));
        }
    }
    match desk.services.recall(&RecallRequest::search(RecallSearch::new("the"))) {
        Ok(reply) if reply.not_covered.is_empty() => checks.add("search", "ok", "search answers"),
        Ok(reply) => checks.add("search", "warn", format!("search answers in part: {}", reply.not_covered)),
        Err(error) => checks.add("search", "fail", error.message),
    }
    let folder = desk.services.data_dir();
    match &folder {
        Ok(_) => checks.add("data_folder", "ok", "maps can keep their rows"),
        Err(error) => checks.add("data_folder", "warn", format!("maps keep nothing over a restart: {}", error.message)),
    }
    coverage(desk, &mut checks);
    share(desk, &mut checks);
    let pending: Vec<u64> =
        desk.conversation.iter().filter(is_pending).filter_map(|message| message.node()).map(|node| node.0).collect();
    match pending.len() {
        0 => checks.add("written_by_model", "ok", "no summary awaits a model"),
        count => checks.add(
            "written_by_model",
            "warn",
            format!("{count} summaries were made without a model and will be written again: {}", listed(&pending)),
        ),
    }
    let worst = |status: &str| checks.0.iter().any(|check| check.get("status").and_then(Value::as_str) == Some(status));
    let overall = if worst("fail") {
        "fail"
    } else if worst("warn") {
        "warn"
    } else {
        "ok"
    };
    let guidance = match overall {
        "ok" => "nothing to do",
        "warn" => "the session works; see the checks with status warn",
        _ => "messages stay stored; see the checks with status fail",
    };
    Ok(json!({ "overall": overall, "session_id": desk.session_id, "checks": checks.0, "guidance": guidance }))
}

/// Every message under exactly one summary in view, and every summary in view known to the host.
fn coverage(desk: &Desk<'_>, checks: &mut Checks) {
    let nodes: Vec<NodeId> = desk.conversation.iter().filter_map(|message| message.node()).collect();
    let mut seen: HashSet<u64> = HashSet::new();
    let (mut twice, mut unknown, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = MESSAGES_MAX;
    for node in nodes.iter().take(NODES_MAX) {
        let mut offset = 0;
        loop {
            let reply = match desk.services.recall(&RecallRequest::expand(*node, offset, PAGE.min(left.max(1)))) {
                Ok(reply) => reply,
                Err(_) => {
                    unknown.push(node.0);
                    break;
                }
            };
            if reply.hits.is_empty() {
                if offset == 0 {
                    empty.push(node.0);
                }
                break;
            }
            twice.extend(reply.hits.iter().map(|hit| hit.message.0).filter(|id| *id != 0 && !seen.insert(*id)));
            offset += reply.hits.len() as u64;
            left = left.saturating_sub(reply.hits.len() as u64);
            if offset >= reply.total || left == 0 {
                break;
            }
        }
    }
    let is_partial = left == 0 || nodes.len() > NODES_MAX;
    if unknown.is_empty() && empty.is_empty() {
        checks.add("summaries_known", "ok", format!("{} summaries in view, all known to the host", nodes.len()));
    } else {
        let detail = format!("unknown: {}; standing for nothing: {}", listed(&unknown), listed(&empty));
        checks.add("summaries_known", "fail", detail);
    }
    let in_view: HashSet<u64> =
        desk.conversation.iter().filter(|message| message.node().is_none()).map(|message| message.id().0).collect();
    twice.extend(in_view.intersection(&seen).filter(|id| **id != 0));
    twice.sort_unstable();
    match (twice.is_empty(), is_partial) {
        (true, false) => {
            checks.add("coverage_overlap", "ok", format!("{} messages under summaries, each once", seen.len()))
        }
        (true, true) => checks.add("coverage_overlap", "ok", format!("the first {} messages, each once", seen.len())),
        (false, _) => checks.add("coverage_overlap", "fail", format!("covered twice: {}", listed(&twice))),
    }
    let overview = desk.services.recall(&RecallRequest::Overview { session: String::new() }).ok();
    let stored = overview.and_then(|reply| reply.node.get("messages").and_then(Value::as_u64));
    let known = seen.union(&in_view).filter(|id| **id != 0).count() as u64;
    match stored {
        None => checks.add("coverage_holes", "skipped", "the host does not say how many messages it has"),
        Some(_) if is_partial => checks.add("coverage_holes", "skipped", "too many messages to count them all here"),
        Some(stored) if known < stored => {
            let detail = format!(
                "{} of {stored} messages are neither in view nor under a summary; search finds them",
                stored - known
            );
            checks.add("coverage_holes", "warn", detail);
        }
        Some(stored) => {
            checks.add("coverage_holes", "ok", format!("all {stored} messages are in view or under a summary"))
        }
    }
}

fn share(desk: &Desk<'_>, checks: &mut Checks) {
    let all = desk.conversation.tokens();
    let summaries: u64 =
        desk.conversation.iter().filter(|message| message.is_summary()).map(|message| message.tokens()).sum();
    let detail = format!("{summaries} of {all} tokens in view are summaries");
    let is_much = all > 0 && summaries > all / SUMMARIES_PART;
    checks.add("summary_share", if is_much { "warn" } else { "ok" }, detail);
}

fn listed(numbers: &[u64]) -> String {
    if numbers.is_empty() {
        return "none".to_string();
    }
    let shown: Vec<String> = numbers.iter().take(LISTED_MAX).map(u64::to_string).collect();
    let rest = numbers.len() - shown.len();
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}
