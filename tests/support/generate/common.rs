//! What the writers of the three dialects share: the list so far, ids, names, odd fields, pictures.

use super::json::{Json, object};
use super::rng::Rng;
use super::{PARALLEL_CALLS_MAX, Shape, text};
use crate::judge::Dialect;

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The state of a history in the making.
pub(super) struct Maker<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) out: Vec<Json>,
    /// Cache marks that may still be set in the whole list.
    pub(super) cache_marks_left: usize,
    /// Items that were put off: answers which come later in the list.
    pub(super) later: Vec<Json>,
    size: usize,
    target: usize,
    dialect: Dialect,
    id_style: usize,
    id_count: usize,
    /// Whether the client names the calls of each turn afresh, so that ids come again.
    is_reusing_ids: bool,
}

impl<'a> Maker<'a> {
    pub(super) fn new(rng: &'a mut Rng, dialect: Dialect, shape: &Shape, target: usize) -> Self {
        let id_style = rng.below(8);
        let is_reusing_ids = dialect == Dialect::OpenAi && rng.one_in(6);
        Maker {
            rng,
            out: Vec::new(),
            cache_marks_left: 4,
            later: Vec::new(),
            size: shape.size.max(1),
            target,
            dialect,
            id_style,
            id_count: 0,
            is_reusing_ids,
        }
    }

    /// Returns how many messages are still wanted.
    pub(super) fn room(&self) -> usize {
        self.target.saturating_sub(self.out.len())
    }

    /// Returns how many calls a group may have that needs some messages of its own and some for each call.
    pub(super) fn group_size(&self, wanted: usize, own_messages: usize, messages_per_call: usize) -> usize {
        if wanted >= PARALLEL_CALLS_MAX || messages_per_call == 0 {
            return wanted;
        }
        wanted.min(self.room().saturating_sub(own_messages) / messages_per_call).max(1)
    }

    pub(super) fn text(&mut self) -> String {
        text::any(self.rng, self.size)
    }

    /// Returns what a user says; now and then it looks like something else.
    pub(super) fn user_text(&mut self) -> String {
        if self.rng.one_in(12) { text::disguised(self.rng, self.size) } else { self.text() }
    }

    pub(super) fn injected_text(&mut self) -> String {
        text::injected(self.rng, self.size)
    }

    pub(super) fn arguments(&mut self, may_be_broken: bool) -> String {
        text::arguments(self.rng, self.size, may_be_broken)
    }

    /// Starts a group of calls; a client that names calls by turn begins again.
    pub(super) fn begin_group(&mut self) {
        if self.is_reusing_ids {
            self.id_count = 0;
        }
    }

    /// Returns a call id, new but for clients that use them again.
    pub(super) fn call_id(&mut self) -> String {
        let n = self.id_count;
        self.id_count += 1;
        let is_free = self.dialect != Dialect::Anthropic;
        match self.id_style {
            0 => n.to_string(),
            1 => format!("call_{n}"),
            2 => format!("call_{:024x}", mix(n)),
            3 => format!("toolu_01{:020x}", mix(n)),
            4 if is_free => format!("call {n}|fc_{n} \"é\" 呼び出し\\"),
            5 => format!("{:-<70}{n}", "chatcmpl-tool"),
            6 if is_free => format!("functions.run:{n}"),
            // Ids that begin alike, where one is the beginning of another.
            _ => "a".repeat(n % 40 + 1) + &"b".repeat(n / 40),
        }
    }

    /// Returns an item id that no other item has.
    pub(super) fn item_id(&mut self, prefix: &str) -> String {
        format!("{prefix}_{:016x}", self.rng.next_u64())
    }

    pub(super) fn tool_name(&mut self) -> &'static str {
        self.rng.pick(&[
            "bash",
            "Read",
            "Edit",
            "shell",
            "apply_patch",
            "web_search",
            "mcp__github__list_issues",
            "grep-files",
            "a",
            "lcm_grep",
        ])
    }

    /// Adds what the dialect does not know, now and then: nothing may trip over it or lose it.
    pub(super) fn add_odd_fields(&mut self, message: &mut Json) {
        if !self.rng.one_in(6) {
            return;
        }
        for _ in 0..self.rng.between(1, 3) {
            match self.rng.below(9) {
                0 => message.push("x_timestamp", Json::Raw("1.7e9".to_owned())),
                1 => message.push("metadata", object! { "role": "system", "content": "not a message", "n": 1usize }),
                2 => message.push("x_big", Json::Raw("-123456789012345678901234567890".to_owned())),
                3 => message.push("ключ \"键\"\n", Json::null()),
                // A field twice, as some serialisers leave it.
                4 => {
                    message.push("x_twice", "first");
                    message.push("x_twice", "second");
                }
                5 => {
                    // Deep, yet below the depth at which JSON readers give up.
                    let depth = self.rng.between(10, 90);
                    message.push("x_deep", Json::Raw("[".repeat(depth) + &"]".repeat(depth)));
                }
                6 => message.push("usage", object! { "input_tokens": 812usize, "output_tokens": 20usize }),
                7 => message.push("", ""),
                _ => message.push("ts", Json::Raw("\"2025-01-01T00:00:00Z\"".to_owned())),
            }
        }
    }

    /// Marks a block as the end of a cached prefix, while the request may have such marks.
    pub(super) fn add_cache_mark(&mut self, block: &mut Json) {
        if self.cache_marks_left > 0 && self.rng.one_in(12) {
            self.cache_marks_left -= 1;
            block.push("cache_control", object! { "type": "ephemeral" });
        }
    }

    /// Returns the base64 text of a picture, small or of a screen.
    pub(super) fn picture(&mut self) -> String {
        let count = if self.rng.one_in(8) { self.size.min(400) } else { 1 };
        PIXEL.trim_end_matches('=').repeat(count) + "=="
    }

    pub(super) fn picture_url(&mut self) -> String {
        if self.rng.one_in(3) {
            "https://example.com/shot.png?width=1920".to_owned()
        } else {
            format!("data:image/png;base64,{}", self.picture())
        }
    }
}

/// Spreads a number over 64 bits; different numbers stay different.
fn mix(n: usize) -> u64 {
    (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
