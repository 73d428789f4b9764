//! The agents: where each keeps its settings, and what in them says where its provider is.

use super::edit::{self, Edited, Format};
use crate::place::Place;
use clap::ValueEnum;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where the gateway is if the settings say nothing else.
const LISTEN: &str = "127.0.0.1:8484";

/// An agent whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Codex CLI: config.toml in $CODEX_HOME or ~/.codex
    Codex,
    /// Claude Code: settings.json in $CLAUDE_CONFIG_DIR or ~/.claude
    Claude,
    /// OpenCode: opencode.json in $XDG_CONFIG_HOME/opencode or ~/.config/opencode
    Opencode,
    /// Hermes: config.yaml in $HERMES_HOME or ~/.hermes
    Hermes,
}

/// All of them.
pub(crate) const ALL: [Client; 4] = [Client::Codex, Client::Claude, Client::Opencode, Client::Hermes];

impl Client {
    /// Returns its name on the command line, which is also its program's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Codex => "codex",
            Client::Claude => "claude",
            Client::Opencode => "opencode",
            Client::Hermes => "hermes",
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Client::Codex => Format::Toml,
            Client::Claude | Client::Opencode => Format::Json,
            Client::Hermes => Format::Yaml,
        }
    }

    /// The variable of the environment that overrides the settings, where there is one.
    fn variable(self) -> Option<&'static str> {
        match self {
            Client::Claude => Some("ANTHROPIC_BASE_URL"),
            // OPENAI_BASE_URL is not read by Codex 0.171.
            Client::Codex | Client::Opencode | Client::Hermes => None,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Client::Codex => "Codex",
            Client::Claude => "Claude Code",
            Client::Opencode => "OpenCode",
            Client::Hermes => "Hermes",
        })
    }
}

/// Looks up a variable of the environment.
type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where an agent's settings are.
#[derive(Debug)]
pub(crate) struct Settings {
    client: Client,
    pub(crate) path: PathBuf,
}

impl Settings {
    pub(crate) fn find(client: Client, env: Env<'_>) -> Settings {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || set("HOME").unwrap_or_default();
        let path = match client {
            Client::Codex => set("CODEX_HOME").unwrap_or_else(|| home().join(".codex")).join("config.toml"),
            Client::Claude => set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home().join(".claude")).join("settings.json"),
            Client::Opencode => {
                let folder = set("XDG_CONFIG_HOME").unwrap_or_else(|| home().join(".config")).join("opencode");
                let commented = folder.join("opencode.jsonc");
                if commented.exists() { commented } else { folder.join("opencode.json") }
            }
            Client::Hermes => set("HERMES_HOME").unwrap_or_else(|| home().join(".hermes")).join("config.yaml"),
        };
        Settings { client, path }
    }

    /// Returns the settings with the gateway's address in them.
    pub(super) fn edit(&self, text: &str, origin: &str) -> Result<Edited, String> {
        let openai = format!("{origin}/v1");
        match self.client {
            Client::Codex => edit::codex(text, &openai),
            Client::Claude => {
                edit::json(text, &[(vec!["env".to_owned(), "ANTHROPIC_BASE_URL".to_owned()], origin.to_owned())])
            }
            Client::Opencode => edit::opencode(text, origin),
            Client::Hermes => edit::hermes(text, &openai),
        }
    }

    /// Tells whether settings name the gateway's address.
    pub(crate) fn is_routed(&self, text: &str, origin: &str) -> bool {
        text.contains(&format!("\"{origin}")) || text.contains(&format!(" {origin}"))
    }

    /// Says what in the environment stands above the settings.
    pub(crate) fn overridden(&self, env: Env<'_>) -> Option<String> {
        let variable = self.client.variable()?;
        env(variable).map(|_| format!("{variable} is set in the environment, and stands above the file"))
    }

    /// Tells whether the agent's program is on the search path.
    pub(crate) fn is_installed(&self, env: Env<'_>) -> bool {
        let path = env("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder: PathBuf| is_program(&folder.join(self.client.name())))
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file() || path.with_extension("cmd").is_file()
}

/// Returns the gateway's origin as the settings have it.
pub(crate) fn gateway_of(place: &Place) -> String {
    let listen = place.config.gateway.listen.trim();
    let listen = if listen.is_empty() { LISTEN } else { listen };
    // An address for everybody is reached from here by the loopback.
    let listen = listen.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
    format!("http://{listen}")
}
