//! Token counts: exact where a model's vocabulary is published, and a labelled estimate everywhere else.
//!
//! Nothing here panics, whatever the text, and every count says on what it rests: see [`Basis`].
mod cache;
mod calibration;
mod compare;
mod counter;
mod estimate;
mod guard;
mod measure;
pub mod rough;
mod vocabulary;

pub use calibration::{Calibration, Heard};
pub use compare::{Compared, Trust};
pub use counter::{Basis, Counter};
pub use estimate::{bounds, estimate, rough_text};
pub use measure::{IMAGE_TOKENS, MESSAGE_TOKENS};
