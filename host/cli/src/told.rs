//! Who is told of compactions: the hooks of the settings, with a warning for what is wrong with them.

use crate::place::Place;
use crate::ui::Ui;
use host_hooks::{Hooks, TIMEOUT_MAX};

/// Starts the hooks of `session:compress`, if there are any.
pub(crate) fn hooks(place: &Place, ui: &Ui) -> Option<Hooks> {
    let (hooks, problems) = host_hooks::read(&place.config.hooks.session_compress);
    for problem in problems {
        ui.warn(&format!("hooks.session:compress: {problem}"));
    }
    Hooks::start(hooks).unwrap_or_else(|error| {
        ui.warn(&format!("no hook is told: {error}"));
        None
    })
}

/// Waits until the hooks were told, within the longest time that one may take.
pub(crate) fn drain(hooks: Hooks, ui: &Ui) {
    for warning in hooks.drain(TIMEOUT_MAX).warnings {
        ui.warn(&format!("hooks.session:compress: {warning}"));
    }
}
