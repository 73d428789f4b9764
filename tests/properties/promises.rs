//! The promises of the host, as a check of one history, one engine, two compactions.

use engine_api::{Flags, MessageId};
use host_config::Config;
use host_core::receipt::{Receipt, What};
use host_registry::Resolved;
use host_runtime::{LiveSession, Options};
use host_wire::Document;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use support::generate::{Rng, Shape};
use support::judge::{self, Dialect};

/// One history through one engine.
pub(crate) struct Case<'a> {
    pub(crate) seed: u64,
    pub(crate) dialect: Dialect,
    pub(crate) shape: Shape,
    pub(crate) engine: &'a str,
    pub(crate) raws: &'a [String],
    pub(crate) home: &'a Path,
}

/// Windows that the histories are compacted for, small ones among them: most histories have 500 to 5,000 tokens.
const WINDOWS: [u64; 5] = [400, 1_000, 4_000, 32_000, 200_000];

impl Case<'_> {
    fn fail(&self, what: &str) -> ! {
        panic!(
            "seed {} ({}, engine {}, faults {}): {what}; PALIMPSEST_SEED={} runs it alone",
            self.seed,
            self.dialect.name(),
            self.engine,
            self.shape.faults,
            self.seed
        )
    }

    fn hold(&self, promise: bool, what: impl FnOnce() -> String) {
        if !promise {
            self.fail(&what());
        }
    }

    /// Compacts the history twice, with the same history said again in between, and holds the host to its promises.
    /// Returns whether the first pass compacted.
    pub(crate) fn uphold(&self, resolved: Resolved, rng: &mut Rng) -> bool {
        let (open, close, wire) = match self.dialect {
            Dialect::OpenAi => ("{\"messages\":[", "]}", engine_api::Dialect::OpenAiChat),
            Dialect::Anthropic => ("{\"messages\":[", "]}", engine_api::Dialect::Anthropic),
            Dialect::Responses => ("{\"input\":[", "]}", engine_api::Dialect::Responses),
        };
        let body = format!("{open}{}{close}", self.raws.join(","));
        let document = match Document::read(&body, Some(wire)) {
            Ok(document) => document,
            Err(error) => self.fail(&format!("the history could not be read: {error}")),
        };
        self.hold(document.messages.len() == self.raws.len(), || "messages were lost in reading".to_owned());
        let options = Options {
            session_id: format!("seed-{}", self.seed),
            context_length: Some(WINDOWS[rng.below(WINDOWS.len())]),
            force: true,
            estimate: true,
            ..Options::default()
        };
        let mut live = match LiveSession::open_with(document, Config::default(), resolved, self.home, options) {
            Ok(live) => live,
            Err(error) => self.fail(&error.to_string()),
        };
        let pinned = self.pin_one(&mut live, rng);
        let compacted = self.pass(&mut live, self.raws, &pinned);
        // The conversation goes on: the same kinds of messages again, then a second compaction over the first.
        let again: Vec<_> = live.session().transcript.iter().take(self.raws.len()).cloned().collect();
        let before: Vec<String> = self.out(&live);
        let mut second = before;
        for message in again {
            let mut message = engine_api::Message::clone(&message);
            message.flags = message.flags.without(Flags::PINNED);
            second.push(message.raw.clone());
            live.session_mut().append(message);
        }
        self.pass(&mut live, &second, &pinned);
        compacted
    }

    fn pin_one(&self, live: &mut LiveSession, rng: &mut Rng) -> Vec<String> {
        if live.session().view.is_empty() || rng.below(4) != 0 {
            return Vec::new();
        }
        let at = rng.below(live.session().view.len());
        let (id, raw, has_results) = {
            let message = &live.session().view[at];
            let has = message.parts.iter().any(|part| part.kind == engine_api::PartKind::ToolResult)
                || message.parts.iter().any(|part| part.kind == engine_api::PartKind::ToolCall);
            (message.id, message.raw.clone(), has)
        };
        // A pinned call may lose its pin to the dialect's rules where the history is broken, so texts are pinned here.
        if has_results || live.session().view[at].parts.is_empty() || self.shape.faults {
            return Vec::new();
        }
        self.hold(live.pin(id), || "a message of the view could not be pinned".to_owned());
        vec![raw]
    }

    fn out(&self, live: &LiveSession) -> Vec<String> {
        let body = live.write().unwrap_or_else(|error| self.fail(&error.to_string()));
        let key = if self.dialect == Dialect::Responses { "input" } else { "messages" };
        let document = Document::read(&body, None).unwrap_or_else(|error| self.fail(&format!("{error}: {body}")));
        let raw = document.messages.into_iter().map(|message| message.raw).collect();
        let _ = key;
        raw
    }

    /// One compaction: what goes in is `raws`, in the order of the view.
    fn pass(&self, live: &mut LiveSession, raws: &[String], pinned: &[String]) -> bool {
        let view_before = live.session().view.clone();
        let transcript_before: Vec<(MessageId, String)> =
            live.session().transcript.iter().map(|message| (message.id, message.raw.clone())).collect();
        let newest_user = view_before.iter().rev().find(|message| message.is_real_user()).map(|one| one.raw.clone());
        let written_before = live.write().unwrap_or_else(|error| self.fail(&error.to_string()));
        let receipt = live.compact();
        let out = self.out(live);

        self.nothing_lost(live, &transcript_before, &receipt, view_before.len());
        if receipt.action == "unchanged" {
            let written = live.write().unwrap_or_else(|error| self.fail(&error.to_string()));
            self.hold(written == written_before, || "nothing was done, yet the bytes changed".to_owned());
            self.hold(!receipt.reason.is_empty(), || "nothing was done, and no reason is given".to_owned());
            return false;
        }
        self.bytes_are_kept(&receipt, &view_before, &out);
        self.is_legal(raws, &out);
        self.words_stay(live, &out, newest_user.as_deref(), pinned, &receipt);
        self.is_progress(&receipt, live);
        self.one_lineage(live);
        true
    }

    /// Promise 1: the transcript only grows, and the receipt speaks of every message once.
    fn nothing_lost(&self, live: &LiveSession, before: &[(MessageId, String)], receipt: &Receipt, messages: usize) {
        let now = &live.session().transcript;
        self.hold(now.len() >= before.len(), || "the transcript shrank".to_owned());
        for ((id, raw), message) in before.iter().zip(now) {
            self.hold(*id == message.id && *raw == message.raw, || {
                format!("message {} changed in the transcript", id.0)
            });
        }
        let told: usize = receipt
            .fates
            .iter()
            .filter(|fate| fate.first.0 != 0)
            .map(|fate| {
                let ids = live.session().transcript.iter().map(|message| message.id);
                ids.filter(|id| *id >= fate.first && *id <= fate.last).count()
            })
            .sum();
        self.hold(told >= messages.min(1), || "the receipt says nothing of the messages".to_owned());
        for fate in &receipt.fates {
            if let What::Dropped { reason } = &fate.what {
                self.hold(!reason.trim().is_empty(), || "a message was dropped without a reason".to_owned());
            }
        }
    }

    /// Promise 2: what the receipt calls kept is in the output, byte for byte.
    fn bytes_are_kept(&self, receipt: &Receipt, view: &[std::sync::Arc<engine_api::Message>], out: &[String]) {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for raw in out {
            *left.entry(raw.as_str()).or_default() += 1;
        }
        let mut index = 0;
        for fate in &receipt.fates {
            while let Some(message) = view.get(index) {
                let kept = fate.what == What::Kept && !message.flags.has(Flags::SYNTHETIC);
                if kept {
                    let count = left.entry(message.raw.as_str()).or_default();
                    self.hold(*count > 0, || {
                        format!("message {} is called kept and is not in the output", message.id.0)
                    });
                    *count -= 1;
                }
                index += 1;
                if message.id == fate.last {
                    break;
                }
            }
        }
        self.hold(index == view.len(), || format!("the receipt speaks of {index} of {} messages", view.len()));
    }

    /// Promise 3: the judge, who knows nothing of the host, finds no fault that the input had not.
    fn is_legal(&self, input: &[String], output: &[String]) {
        let count = |raws: &[String]| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for finding in judge::errors(raws, self.dialect) {
                *counts.entry(finding.code.to_string()).or_default() += 1;
            }
            counts
        };
        let before = count(input);
        for (code, errors) in count(output) {
            let had = before.get(&code).copied().unwrap_or(0);
            self.hold(errors <= had, || {
                let which: Vec<String> = judge::errors(output, self.dialect)
                    .into_iter()
                    .filter(|finding| finding.code == code)
                    .map(|finding| format!("{:?}", finding))
                    .collect();
                let list: Vec<String> = input
                    .iter()
                    .chain([&"---".to_owned()])
                    .chain(output)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|raw| raw.chars().take(160).collect())
                    .collect();
                format!("{errors} errors {code} where the input had {had}: {}\n{}", which.join("; "), list.join("\n"))
            });
        }
    }

    /// Promise 4: the newest message of the user and the pinned ones are there; the others are there or quoted.
    fn words_stay(
        &self,
        live: &LiveSession,
        out: &[String],
        newest: Option<&str>,
        pinned: &[String],
        receipt: &Receipt,
    ) {
        let there: HashSet<&str> = out.iter().map(String::as_str).collect();
        if let Some(newest) = newest {
            let rewritten = receipt.fates.iter().any(|fate| fate.what == What::Rewritten);
            self.hold(there.contains(newest) || rewritten, || "the user's newest message is gone".to_owned());
        }
        for raw in pinned {
            self.hold(there.contains(raw.as_str()), || format!("a pinned message is gone: {raw}"));
        }
        let text: String = live.session().view.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n");
        let present: HashSet<MessageId> = live.session().view.iter().map(|message| message.id).collect();
        let unquoted = live
            .session()
            .transcript
            .iter()
            .filter(|message| message.is_real_user() && !present.contains(&message.id))
            .filter(|message| {
                let words = message.text();
                let words = words.trim();
                let first: String = words.lines().next().unwrap_or_default().chars().take(200).collect();
                !words.is_empty() && !text.contains(first.trim())
            })
            .count();
        // Edited messages carry new ids only if the host wrote them, so an id that is gone was summarised or dropped.
        self.hold(unquoted <= receipt.user_messages_not_quoted, || {
            format!(
                "{unquoted} user messages are neither there nor quoted, the receipt says {}",
                receipt.user_messages_not_quoted
            )
        });
    }

    /// Promise 5: smaller than before, and under the target or with the reason why not.
    fn is_progress(&self, receipt: &Receipt, live: &LiveSession) {
        self.hold(receipt.tokens_after < receipt.tokens_before, || {
            format!("{} tokens became {}", receipt.tokens_before, receipt.tokens_after)
        });
        self.hold(receipt.tokens_after <= receipt.target_tokens || receipt.floor.is_some(), || {
            format!(
                "{} tokens are over the target of {} and no floor is named",
                receipt.tokens_after, receipt.target_tokens
            )
        });
        self.hold(live.session().tokens() == receipt.tokens_after, || {
            format!("the receipt says {} tokens, the session has {}", receipt.tokens_after, live.session().tokens())
        });
    }

    /// Promise 7: no summary is live beside one that covers it, none twice, and none counts as the user's words.
    fn one_lineage(&self, live: &LiveSession) {
        let session = live.session();
        let superseded: HashSet<_> = session.nodes.iter().flat_map(|node| node.nodes.iter().copied()).collect();
        let mut live_nodes = HashSet::new();
        let mut ids = HashSet::new();
        for message in &session.view {
            self.hold(ids.insert(message.id), || format!("message {} stands twice in the context", message.id.0));
            if message.flags.has(Flags::SYNTHETIC) {
                self.hold(!message.is_real_user(), || "text of the host counts as the user's".to_owned());
            }
            if message.node.0 != 0 {
                self.hold(!superseded.contains(&message.node), || "a superseded summary is live".to_owned());
                self.hold(live_nodes.insert(message.node), || "a summary stands twice".to_owned());
            }
        }
        let mut covered = HashSet::new();
        for node in live_nodes {
            for message in session.covered(node) {
                self.hold(covered.insert(message), || {
                    format!("message {} is covered by two live summaries", message.0)
                });
            }
        }
    }
}
