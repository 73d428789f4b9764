//! Makes up conversation histories, realistic and nasty, each from a seed.
//!
//! The same seed, dialect and shape always give the same bytes, so a test that fails prints its seed and the failure
//! can be replayed. Without faults a list is one that the dialect's API accepts, however odd it looks (warnings of the
//! judge may be found in it, errors may not). With faults it went through the hands of broken clients.

mod anthropic;
mod common;
mod faults;
mod json;
mod openai;
mod responses;
mod rng;
#[cfg(test)]
mod tests;
mod text;

pub use rng::Rng;

use crate::judge::Dialect;
use common::Maker;
use json::{Json, Style};

/// What the histories of a test look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Whether broken lists are wanted: lost answers, used-again ids, wrong types, cut tails.
    pub faults: bool,
    /// Most messages of a list, but for a group of parallel calls, which is never cut: one history in a hundred has a
    /// group of [`PARALLEL_CALLS_MAX`].
    pub max_messages: usize,
    /// Characters of an ordinary text. One text in a hundred has some twenty times as many, and one in a thousand up
    /// to [`LONG_TEXT_FACTOR`] times, at most [`LONG_TEXT_CHARS_MAX`].
    pub size: usize,
}

/// Calls of the largest parallel group.
pub const PARALLEL_CALLS_MAX: usize = 200;
/// How much longer than an ordinary text the longest one is.
pub const LONG_TEXT_FACTOR: usize = 500;
/// Characters of the longest text of all.
pub const LONG_TEXT_CHARS_MAX: usize = 200_000;

impl Default for Shape {
    /// Lists that a property test can walk by the thousand.
    fn default() -> Self {
        Shape { faults: false, max_messages: 40, size: 100 }
    }
}

impl Shape {
    /// Lists of hundreds of messages, with texts as long as those of real sessions.
    pub fn long() -> Self {
        Shape { faults: false, max_messages: 400, size: 600 }
    }
    /// The same shape with broken lists.
    #[must_use]
    pub fn with_faults(self) -> Self {
        Shape { faults: true, ..self }
    }
}

/// Returns the raw JSON text of each message of a history.
pub fn history(seed: u64, dialect: Dialect, shape: &Shape) -> Vec<String> {
    let stream = match dialect {
        Dialect::OpenAi => 0x6f70,
        Dialect::Anthropic => 0x616e,
        Dialect::Responses => 0x7265,
    };
    let mut rng = Rng::new(seed ^ (stream << 48));
    let mut messages = make(&mut rng, dialect, shape);
    if shape.faults {
        faults::spoil(&mut rng, dialect, shape, &mut messages);
    }
    let habit = Style::of_client(&mut rng);
    messages
        .iter()
        .map(|message| {
            // A list that went through several clients mixes their ways of writing JSON.
            let style = if rng.one_in(12) { Style::of_client(&mut rng) } else { habit };
            message.render(&mut rng, style)
        })
        .collect()
}

/// Makes a list that the dialect's API accepts.
fn make(rng: &mut Rng, dialect: Dialect, shape: &Shape) -> Vec<Json> {
    let target = match rng.below(8) {
        0 => 1,
        1 => rng.between(1, 4),
        2 => shape.max_messages,
        _ => rng.between(1, shape.max_messages),
    }
    .clamp(1, shape.max_messages.max(1));
    let story = Story::pick(rng);
    let mut maker = Maker::new(rng, dialect, shape, target);
    let mut step_count = 0;
    while maker.room() > 0 {
        let step = story.step(step_count, &mut maker);
        step_count += 1;
        match dialect {
            Dialect::OpenAi => openai::write(&mut maker, step),
            Dialect::Anthropic => anthropic::write(&mut maker, step),
            Dialect::Responses => responses::write(&mut maker, step),
        }
    }
    match dialect {
        Dialect::OpenAi => {}
        Dialect::Anthropic => anthropic::finish(&mut maker),
        Dialect::Responses => responses::finish(&mut maker),
    }
    maker.out
}

/// One step of a conversation, before a dialect gives it its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The operator's or the application's instructions.
    Rules,
    /// A person says something.
    User,
    /// The client puts something into the user's role.
    Reminder,
    /// The model answers.
    Answer,
    /// The model calls this many tools, and they answer.
    Tools(usize),
    /// Something that the provider ran or stored: a search, a summary of its own, an item of tomorrow.
    Server,
}

/// What kind of conversation a history is.
#[derive(Debug, Clone, Copy)]
enum Story {
    /// Question and answer.
    Chat,
    /// One request and a long loop of tools.
    Agent,
    /// Turns, each with some tools.
    Turns,
    /// A group of parallel calls that is larger than anything else.
    Burst,
    /// Nothing but this.
    Only(Step),
    /// Steps in any order.
    Soup,
}

impl Story {
    fn pick(rng: &mut Rng) -> Story {
        if rng.one_in(100) {
            return Story::Burst;
        }
        match rng.below(16) {
            0 => Story::Only(rng.pick(&[Step::Rules, Step::User, Step::Answer, Step::Reminder, Step::Tools(1)])),
            1..=2 => Story::Chat,
            3..=6 => Story::Agent,
            7..=11 => Story::Turns,
            _ => Story::Soup,
        }
    }

    fn step(self, count: usize, maker: &mut Maker) -> Step {
        let rng = &mut maker.rng;
        let parallel = match rng.below(8) {
            0..=3 => 1,
            4..=5 => rng.between(2, 3),
            _ => rng.between(2, 12),
        };
        let opening = match count {
            0 if rng.one_in(8) => Step::User,
            0 => Step::Rules,
            1 if rng.one_in(3) => Step::Reminder,
            _ => Step::User,
        };
        match self {
            Story::Only(step) => step,
            Story::Chat if count == 0 => opening,
            Story::Chat if count % 2 == 1 => Step::User,
            Story::Chat => Step::Answer,
            Story::Agent | Story::Turns | Story::Burst if count < 2 => opening,
            Story::Burst if count == 3 => Step::Tools(PARALLEL_CALLS_MAX),
            Story::Agent => match rng.below(24) {
                0 => Step::Reminder,
                1 => Step::Server,
                2 => Step::User,
                _ => Step::Tools(parallel),
            },
            Story::Turns | Story::Burst => match rng.below(8) {
                0..=1 => Step::User,
                2..=3 => Step::Answer,
                4 if rng.one_in(4) => Step::Rules,
                4 => Step::Server,
                5 if rng.one_in(2) => Step::Reminder,
                _ => Step::Tools(parallel),
            },
            Story::Soup => match rng.below(6) {
                0 => Step::Rules,
                1 => Step::User,
                2 => Step::Reminder,
                3 => Step::Answer,
                4 => Step::Server,
                _ => Step::Tools(parallel),
            },
        }
    }
}
