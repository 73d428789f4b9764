//! The command line: every command and option, as clap reads them and as the reference page shows them.

mod sessions;

pub(crate) use sessions::{
    CompactSessionArgs, ExportArgs, ImportArgs, Kind, ListArgs, PinArgs, RecallArgs, SessionsCommand, ShowArgs, Sort,
};

use crate::commands::Client;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use host_import::Format;
use std::path::PathBuf;

/// Compact the conversations of AI agents, losing nothing that was said
///
/// Palimpsest reads a conversation, lets a context engine propose what the model sees of it from now on, checks that
/// proposal, and writes a smaller conversation that the provider accepts.
#[derive(Debug, Parser)]
#[command(
    name = "palimpsest",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Read the settings from this file [default: $PALIMPSEST_CONFIG, ./config.yaml, config.yaml in the home folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Look for plugins here; may be given several times [default: $PALIMPSEST_PLUGINS, or ./plugins and plugins in the home folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) plugins: Vec<PathBuf>,
    /// Keep approvals, plugins and settings in this folder [default: $PALIMPSEST_HOME, or ~/.palimpsest]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print the same facts as one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print errors and results only, no receipts, notes and warnings
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Colour the output
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
}

/// How the gateway runs; the rest is in the `gateway` and `providers` sections of the settings.
#[derive(Debug, Clone, Args)]
pub(crate) struct GatewayArgs {
    /// Listen on this address and port [default: gateway.listen, 127.0.0.1:8484]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Send all requests that no provider of the settings takes to this address
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Compact on the way, or when the client asks for it
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// Use this engine in place of context.engine
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
}

/// Whose settings are changed.
#[derive(Debug, Clone, Args)]
pub(crate) struct WrapArgs {
    /// The agent
    #[arg(value_name = "CLIENT", value_enum)]
    pub(crate) client: Client,
    /// Where the gateway is [default: gateway.listen, http://127.0.0.1:8484]
    #[arg(long, value_name = "URL", value_parser = origin)]
    pub(crate) gateway: Option<String>,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Reads an origin: scheme, host and port.
fn origin(text: &str) -> Result<String, String> {
    let origin = text.trim().trim_end_matches('/');
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['/', ' ', '"', '\\']) => Ok(origin.to_owned()),
        _ => Err("it is scheme, host and port, as in http://127.0.0.1:8484".to_owned()),
    }
}

/// Who decides when a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// The gateway, on the way to the provider
    Transparent,
    /// The client; its own compaction is answered by the engine
    Native,
}

impl From<ModeName> for host_config::GatewayMode {
    fn from(mode: ModeName) -> Self {
        match mode {
            ModeName::Transparent => host_config::GatewayMode::Transparent,
            ModeName::Native => host_config::GatewayMode::Native,
        }
    }
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compact a conversation and say what became of every message
    Compact(CompactArgs),
    /// Keep sessions in the store: import, look, compact, undo, pin
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Search a session, what it comes from, or all sessions
    Recall(RecallArgs),
    /// List, check, install and choose context engines
    #[command(subcommand)]
    Engines(EnginesCommand),
    /// Read, change and explain the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Count the tokens of a conversation or a text
    Tokens(TokensArgs),
    /// Run the proxy that compacts the conversations of agents on their way to a provider
    ///
    /// Point a client's base URL at it: http://127.0.0.1:8484/v1 for OpenAI's, http://127.0.0.1:8484 for Anthropic's. It
    /// ends on SIGTERM or Ctrl-C, after running answers have ended, and reads its settings anew on SIGHUP or when the file
    /// changes.
    Gateway(GatewayArgs),
    /// Point an agent's own settings at the gateway; the original is kept
    Wrap(WrapArgs),
    /// Put an agent's settings back as they were before `wrap`
    Unwrap(WrapArgs),
    /// Check settings, engines, folders and tokenizer, and say what to do about faults
    Doctor,
    /// List the general plugins and the engines, and which engine is chosen
    Plugins,
    /// Print the completion script of a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL", value_enum)]
        shell: clap_complete::Shell,
    },
    /// Try a library in this process
    #[command(hide = true, subcommand)]
    EngineRunner(RunnerCommand),
}

/// Where a conversation is read from.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// A session file of an agent, a request body or a message list, gzip or not; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Read the file as this format, in place of recognising it
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub(crate) from: Option<Format>,
    /// Take what the model would be sent next, or all that was ever said
    #[arg(long, value_name = "PART", value_enum, default_value_t)]
    pub(crate) history: History,
    /// Take this conversation of the file: its place, from 1, or its id [default: the main one]
    #[arg(long, value_name = "N|ID")]
    pub(crate) session: Option<String>,
}

/// Which part of a history is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum History {
    /// What follows the last compaction, with its summary
    #[default]
    Live,
    /// Everything that was ever said, without summaries
    Full,
}

/// Options of `compact`.
#[derive(Debug, Args)]
#[command(after_long_help = format_list())]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) how: How,
    /// Print the receipt only and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the result in this wire dialect [default: the one it is read in]
    #[arg(long, value_name = "DIALECT", value_enum)]
    pub(crate) to: Option<DialectName>,
    /// Write the conversation to this file, as a whole or not at all
    #[arg(long, short, value_name = "OUT", conflicts_with_all = ["dry_run", "in_place"])]
    pub(crate) output: Option<PathBuf>,
    /// Write the conversation over FILE, whose original is kept as FILE.orig; refused unless FILE is one plain request
    /// body or message list
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) in_place: bool,
    /// Call a tool of the engine on the result, and print its reply; may be given several times
    #[arg(long, value_name = "TOOL=JSON", value_parser = ToolCall::parse)]
    pub(crate) call: Vec<ToolCall>,
    /// What a person wrote after Hermes' /compress: a focus, `here [N]`, `up to here [N]`, `--keep N`, `--preview`
    #[arg(last = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
}

/// How a conversation is compacted.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Use this engine [default: context.engine]
    #[arg(long, value_name = "E")]
    pub(crate) engine: Option<String>,
    /// The model the conversation is for [default: the conversation's own, or model.default]
    #[arg(long, value_name = "M")]
    pub(crate) model: Option<String>,
    /// The model's context window in tokens [default: model.context_length, or 128000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) context_length: Option<u64>,
    /// What summaries should dwell on
    #[arg(long, value_name = "T")]
    pub(crate) focus: Option<String>,
    /// Keep this many of the newest exchanges whole, each a request and what followed
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) keep: Option<u32>,
    /// Let the summariser see this file of the client's memory, without secrets and cut to 6,000 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,
    /// Ask no model: summaries are made from the conversation itself
    #[arg(long)]
    pub(crate) offline: bool,
    /// Seconds since the conversation's last message, for compression.idle_compact_after_seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub(crate) idle: u64,
    /// Compact whatever the token count says
    #[arg(long)]
    pub(crate) force: bool,
    /// Estimate tokens in place of counting them
    #[arg(long)]
    pub(crate) estimate: bool,
}

/// A wire dialect to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectName {
    /// OpenAI Chat Completions
    Openai,
    /// Anthropic Messages
    Anthropic,
    /// OpenAI Responses
    Responses,
}

/// A call of an engine's tool.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) tool: String,
    pub(crate) arguments: serde_json::Value,
}

impl ToolCall {
    pub(crate) fn parse(text: &str) -> Result<ToolCall, String> {
        let (tool, arguments) = text.split_once('=').unwrap_or((text, "{}"));
        if tool.is_empty() {
            return Err("name the tool, as in lcm_grep={\"query\":\"x\"}".to_owned());
        }
        let arguments = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments of {tool} are not JSON: {error}"))?;
        Ok(ToolCall { tool: tool.to_owned(), arguments })
    }
}

/// Commands on engines.
#[derive(Debug, Subcommand)]
pub(crate) enum EnginesCommand {
    /// List the engines, usable or not, and why not
    List {
        /// Exit with 1 if an engine has a problem
        #[arg(long)]
        strict: bool,
    },
    /// Show all that is known of an engine
    Info {
        /// The engine
        name: String,
    },
    /// Check a library or a plugin's folder without installing it
    Verify {
        /// The library, its plugin.yaml, or the folder that holds both
        path: PathBuf,
        /// Try the library in a process of its own even if it is not approved
        #[arg(long)]
        run: bool,
    },
    /// Copy a plugin or a library into the plugins folder
    Install {
        /// The plugin's folder, or a library alone
        path: PathBuf,
        /// Approve the library, so that it may run
        #[arg(long)]
        trust: bool,
    },
    /// Remove an engine's plugin and its approval
    Remove {
        /// The engine
        name: String,
    },
    /// Choose the engine: set context.engine
    Use {
        /// The engine
        name: String,
        /// Choose it even if it is not there
        #[arg(long)]
        force: bool,
    },
}

/// Commands on settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a setting, as compression.threshold
    Get {
        /// The setting's dotted path
        key: String,
    },
    /// Change a setting in the file, leaving everything else in it as it is
    Set {
        /// The setting's dotted path
        key: String,
        /// Its value: 0.6, 60%, off, [a, b]
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print every remark about the file
    Validate {
        /// Exit with 1 on warnings too
        #[arg(long)]
        strict: bool,
    },
    /// Print every token budget and how it came about
    Explain {
        /// The model [default: model.default]
        #[arg(long, value_name = "M")]
        model: Option<String>,
        /// Its context window in tokens [default: model.context_length, or 128000]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        context_length: Option<u64>,
    },
    /// Print where the file is, or where it was looked for
    Path,
    /// Print the JSON schema of the file
    Schema,
}

/// Options of `tokens`.
#[derive(Debug, Args)]
#[command(after_long_help = format_list())]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Count for this model [default: the conversation's own, or model.default]
    #[arg(long, value_name = "M")]
    pub(crate) model: Option<String>,
}

/// What the process that tries libraries is asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum RunnerCommand {
    /// Open a library and print who it is
    Probe {
        /// The library
        path: PathBuf,
    },
}

/// Short names of formats, beside their own.
const FORMAT_ALIASES: [(&str, &str); 6] = [
    ("codex", "codex-rollout"),
    ("opencode", "opencode-export"),
    ("hermes", "hermes-export"),
    ("copilot", "copilot-cli"),
    ("gemini", "gemini-cli"),
    ("mini-swe", "mini-swe-agent"),
];

pub(crate) fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.iter().map(|format| {
        let aliases = FORMAT_ALIASES.iter().filter(|(_, name)| *name == format.as_str()).map(|(alias, _)| *alias);
        PossibleValue::new(format.as_str()).help(format.known_by()).aliases(aliases)
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Format>())
}

fn format_list() -> String {
    let mut out = String::from("Formats:\n");
    for format in Format::ALL {
        out.push_str(&format!("  {:<17} {}\n", format.as_str(), format.known_by()));
    }
    out.truncate(out.trim_end().len());
    out
}
