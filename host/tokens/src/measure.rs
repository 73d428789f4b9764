//! Counts messages: their parts, what is only known by its bytes, and their framing.

use engine_api::{Flags, Message, Part, PartKind};

use crate::counter::Counter;

/// Framing of one message: role and delimiters, the figure of OpenAI's cookbook.
pub const MESSAGE_TOKENS: u32 = 4;

/// Tokens of one picture whatever its size, as Hermes takes it.
pub const IMAGE_TOKENS: u32 = 1_600;

/// Bytes of JSON around one part (braces, `"type":"..."`, the name of its field) that no model sees.
const PART_JSON_BYTES: usize = 32;

/// Bytes per token of what is not decoded: signatures, encrypted reasoning, unknown blocks.
const OPAQUE_BYTES_PER_TOKEN: usize = 4;

/// A string this long without a blank, beside a picture, is taken to be the picture's data.
const PICTURE_BYTES_MIN: usize = 256;

impl Counter {
    /// Counts a message with its framing, without touching it.
    pub fn count_message(&self, message: &Message) -> u32 {
        let share = opaque_share(message);
        message.parts.iter().fold(MESSAGE_TOKENS, |total, part| total.saturating_add(self.count_part(part, share)))
    }

    /// Fills in the tokens of every message and of every part.
    pub fn measure(&self, messages: &mut [Message]) {
        for message in messages {
            let share = opaque_share(message);
            let mut total = MESSAGE_TOKENS;
            for part in &mut message.parts {
                part.tokens = self.count_part(part, share);
                total = total.saturating_add(part.tokens);
            }
            message.tokens = total;
        }
    }

    fn count_part(&self, part: &Part, opaque_share: u32) -> u32 {
        let texts = texts_of(part).iter().fold(0u32, |total, text| total.saturating_add(self.count(text)));
        texts.saturating_add(beside_texts(part, opaque_share))
    }
}

/// Returns the texts of a part whose tokens are counted.
pub(crate) fn texts_of(part: &Part) -> [&str; 2] {
    match part.kind {
        PartKind::ToolCall => [&part.tool_name, &part.text],
        PartKind::Image => ["", ""],
        // A kind of a later contract is as unknown as an opaque one.
        _ => [&part.text, ""],
    }
}

/// Returns the tokens of a message that are in none of its texts: framing, pictures, and what is known by its bytes only.
pub(crate) fn framing(message: &Message) -> u32 {
    let share = opaque_share(message);
    message.parts.iter().fold(MESSAGE_TOKENS, |total, part| total.saturating_add(beside_texts(part, share)))
}

fn beside_texts(part: &Part, opaque_share: u32) -> u32 {
    match part.kind {
        PartKind::Text | PartKind::ToolCall => 0,
        PartKind::ToolResult if !part.flags.has(Flags::HAS_IMAGE) => 0,
        PartKind::ToolResult | PartKind::Image => IMAGE_TOKENS,
        _ => opaque_share,
    }
}

fn is_opaque(part: &Part) -> bool {
    !matches!(part.kind, PartKind::Text | PartKind::ToolCall | PartKind::ToolResult | PartKind::Image)
}

/// Returns the tokens of each part that is known by its bytes only: what is left of the message's JSON when the decoded
/// text, the pictures' data and the JSON around the parts are taken away, shared evenly.
fn opaque_share(message: &Message) -> u32 {
    let opaque_count = message.parts.iter().filter(|part| is_opaque(part)).count();
    if opaque_count == 0 {
        return 0;
    }
    let has_image = |part: &&Part| part.kind == PartKind::Image || part.flags.has(Flags::HAS_IMAGE);
    let image_count = message.parts.iter().filter(has_image).count();
    let scanned = scan(&message.raw, image_count);
    let known = message.parts.iter().fold(0usize, |total, part| {
        total
            .saturating_add(part.text.len())
            .saturating_add(part.call_id.len())
            .saturating_add(part.tool_name.len())
            .saturating_add(PART_JSON_BYTES)
    });
    let rest = scanned.decoded_bytes.saturating_sub(known).saturating_sub(scanned.picture_bytes);
    u32::try_from((rest / OPAQUE_BYTES_PER_TOKEN).div_ceil(opaque_count)).unwrap_or(u32::MAX)
}

struct Scanned {
    /// Length of the JSON text with the escapes of its strings undone.
    decoded_bytes: usize,
    /// Bytes of the longest strings that can be pictures' data, at most one a picture.
    picture_bytes: usize,
}

/// Reads a message's JSON once. It need not be valid: then the figures are merely rougher.
fn scan(raw: &str, image_count: usize) -> Scanned {
    let mut decoded_bytes = 0usize;
    let mut candidates: Vec<usize> = Vec::new();
    let mut in_string = false;
    let (mut string_bytes, mut is_data) = (0usize, true);
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'\\' if in_string => match bytes.next() {
                Some(b'u') => {
                    let code = bytes.by_ref().take(4).fold(0u32, |code, digit| {
                        code.wrapping_mul(16).wrapping_add(char::from(digit).to_digit(16).unwrap_or(0))
                    });
                    is_data = false;
                    // Halves of a surrogate pair are four bytes together.
                    match code {
                        0..0x80 => 1,
                        0x80..0x800 | 0xd800..0xe000 => 2,
                        _ => 3,
                    }
                }
                Some(b'/') => 1,
                Some(_) => {
                    is_data = false;
                    1
                }
                None => 0,
            },
            b'"' => {
                if in_string && is_data && string_bytes >= PICTURE_BYTES_MIN && image_count > 0 {
                    candidates.push(string_bytes);
                }
                in_string = !in_string;
                (string_bytes, is_data) = (0, true);
                decoded_bytes += 1;
                continue;
            }
            b' ' | b'\t' => {
                is_data = false;
                1
            }
            _ => 1,
        };
        decoded_bytes += decoded;
        string_bytes += decoded;
    }
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    let picture_bytes = candidates.iter().take(image_count).sum();
    Scanned { decoded_bytes, picture_bytes }
}

#[cfg(test)]
mod tests;
