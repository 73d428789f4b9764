//! Pins held against messages outside of a session: what a list of pins would keep.

use crate::pins::{Pin, PinRule};
use engine_api::Message;

/// Pins, ready to be held against messages.
#[derive(Debug, Clone, Default)]
pub struct Pins(Vec<Pin>);

impl Pins {
    /// Reads pins; those that are not usable are left out.
    pub fn of(rules: impl IntoIterator<Item = PinRule>) -> Pins {
        Pins(rules.into_iter().filter_map(|rule| Pin::of(rule).ok()).collect())
    }

    /// Tells whether a message must stay word for word.
    pub fn keep(&self, message: &Message) -> bool {
        self.0.iter().any(|pin| pin.fits(message))
    }
}
