//! Reads, checks, explains and edits `config.yaml`.
//!
//! Reading never fails: a bad file or value is reported with file, line and key, and the default stands in for it.
//! Everything follows the one table in `keys`. Only `locate`, `load` and `write_atomically` touch the file system.

mod budget;
pub mod codex;
mod diagnostic;
mod edit;
mod error;
pub mod keys;
mod lines;
mod locate;
mod lookup;
mod parse;
mod read;
mod render;
mod secret;
mod suggest;
mod tree;
mod types;

pub use budget::{Budgets, Step, budgets, budgets_for, explain};
pub use diagnostic::{Diagnostic, Severity};
pub use edit::{set, set_text, set_value};
pub use error::ConfigError;
pub use locate::{
    CONFIG_VARIABLE, FILE_NAME, HOME_VARIABLE, Located, home_dir, load, load_file, locate, write_atomically,
};
pub use lookup::get;
pub use parse::{FILE_BYTES_MAX, Loaded, parse};
pub use render::{example_yaml, reference_markdown, schema};
pub use secret::{MASK, Secret, expand, masked};
pub use types::{
    AuxCompression, Auxiliary, CacheTtl, CodexAppServerAuto, Compression, Config, ContextSection, GatewayMode,
    GatewaySection, Mode, ModelSection, PluginsSection, PromptCaching, Provider, TailMode,
};
