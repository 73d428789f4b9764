//! The command line of the store: sessions, pins and recall.

use crate::args::{History, How, ToolCall, formats};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use engine_api::Role;
use host_import::Format;
use std::path::PathBuf;

/// Messages that `sessions show` prints of itself.
pub(crate) const SHOWN_DEFAULT: u64 = 200;
/// Sessions that `sessions list` prints of itself.
pub(crate) const LISTED_DEFAULT: u64 = 50;

/// Commands on sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Take conversations of files into the store; what it has already is not stored again
    Import(ImportArgs),
    /// List the sessions, the ones used last first
    List(ListArgs),
    /// Show what the model sees of a session, or all that was said
    Show(ShowArgs),
    /// Write a session as a request body, or sessions as lines that `sessions import` takes
    Export(ExportArgs),
    /// Prove that every message is there byte for byte and can be reached
    Verify {
        /// The session [default: all]
        #[arg(value_name = "S")]
        session: Option<String>,
        /// Check the whole file and the search index, too
        #[arg(long)]
        deep: bool,
    },
    /// Compact a session; the store has the result and every message
    Compact(CompactSessionArgs),
    /// Show what a compaction did
    Diff {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// The compaction, from 1 [default: the last]
        #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        compaction: Option<u64>,
    },
    /// Make the view before the last compaction live again
    Undo {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// Make this view live; `sessions receipts` names them
        #[arg(long, value_name = "VIEW", value_parser = clap::value_parser!(i64).range(1..))]
        to: Option<i64>,
    },
    /// Take back the last undo
    Redo {
        /// The session
        #[arg(value_name = "S")]
        session: String,
    },
    /// Show the receipts of a session's compactions
    Receipts {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// The compaction whose receipt is shown whole, from 1 [default: a line for each]
        #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        compaction: Option<u64>,
    },
    /// Sweep old views, and what only they show; messages and summaries stay
    Gc {
        /// Say what would be swept, and sweep nothing
        #[arg(long)]
        dry_run: bool,
        /// Keep so many views of each branch [default: store.keep_views]
        #[arg(long, value_name = "N")]
        keep: Option<u32>,
        /// Give the space back to the disk, which rewrites the file
        #[arg(long, conflicts_with = "dry_run")]
        shrink: bool,
    },
    /// Copy the whole store to a new file, while it is in use
    Backup {
        /// The new file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a session that goes another way from here
    Fork {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// The id of the new one
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// End a session and begin an empty one that follows it
    New {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// The id of the new one
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Keep messages word for word in every context of a session
    Pin(PinArgs),
    /// Take a pin away
    Unpin {
        /// The session
        #[arg(value_name = "S")]
        session: String,
        /// The pin's number
        #[arg(value_name = "N")]
        pin: u64,
    },
    /// List a session's pins
    Pins {
        /// The session
        #[arg(value_name = "S")]
        session: String,
    },
}

/// Options of `sessions import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Session files of agents, request bodies, message lists, or lines that `sessions export --jsonl` wrote
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Read the files as this format, in place of recognising it
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub(crate) from: Option<Format>,
    /// Take all that was ever said, or what the model would be sent next
    #[arg(long, value_name = "PART", value_enum, default_value_t = History::Full)]
    pub(crate) history: History,
    /// Call the session this; for a file with one conversation [default: its own id, or the file's name]
    #[arg(long, value_name = "ID")]
    pub(crate) name: Option<String>,
}

/// Options of `sessions list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only sessions whose id or title contains this
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// List so many at most
    #[arg(long, value_name = "N", default_value_t = LISTED_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) limit: u64,
    /// Pass over so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

/// Options of `sessions show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Show every message that was said, and what became of it
    #[arg(long)]
    pub(crate) all: bool,
    /// Print each message's JSON as it is stored, a line each
    #[arg(long)]
    pub(crate) raw: bool,
    /// Begin after this message
    #[arg(long, value_name = "ID", default_value_t = 0, hide_default_value = true)]
    pub(crate) after: u64,
    /// Show so many messages at most
    #[arg(long, value_name = "N", default_value_t = SHOWN_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) limit: u64,
}

/// Options of `sessions export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session
    #[arg(value_name = "S", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) session: Option<String>,
    /// Write every session, as lines
    #[arg(long)]
    pub(crate) all: bool,
    /// Write lines of JSON that hold everything: messages, views, summaries, receipts, pins; a damaged store gives what
    /// can be read
    #[arg(long, conflicts_with = "full")]
    pub(crate) jsonl: bool,
    /// Write all that was said in place of what the model sees
    #[arg(long)]
    pub(crate) full: bool,
    /// Write to this file, as a whole or not at all
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `sessions compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactSessionArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) how: How,
    /// Print the receipt only and store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Call a tool of the engine on the result, and print its reply; may be given several times
    #[arg(long, value_name = "TOOL=JSON", value_parser = ToolCall::parse)]
    pub(crate) call: Vec<ToolCall>,
    /// What a person wrote after Hermes' /compress: a focus, `here [N]`, `up to here [N]`, `--keep N`, `--preview`
    #[arg(last = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
}

/// Options of `sessions pin`: a message must fit all that is given.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["message", "regex", "role", "tool", "file"])))]
pub(crate) struct PinArgs {
    /// The session
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// This message
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) message: Option<u64>,
    /// Messages in whose text this regular expression is found
    #[arg(long, value_name = "R")]
    pub(crate) regex: Option<String>,
    /// Messages of this role
    #[arg(long, value_name = "ROLE", value_enum)]
    pub(crate) role: Option<RoleName>,
    /// Calls and results of this tool
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Messages that speak of a file whose path fits this glob
    #[arg(long, value_name = "GLOB")]
    pub(crate) file: Option<String>,
}

/// Options of `recall`.
#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// The session; what it comes from is searched, too
    #[arg(value_name = "S")]
    pub(crate) session: String,
    /// Words; "a phrase" in quotes
    #[arg(value_name = "QUERY", required_unless_present_any = ["message", "node"], conflicts_with_all = ["message", "node"])]
    pub(crate) query: Option<String>,
    /// Read the query as a regular expression
    #[arg(long, conflicts_with_all = ["phrase", "substring"])]
    pub(crate) regex: bool,
    /// Read the query as a phrase: these words, in this order
    #[arg(long, conflicts_with = "substring")]
    pub(crate) phrase: bool,
    /// Read the query letter by letter, also within words
    #[arg(long)]
    pub(crate) substring: bool,
    /// Only messages of this role
    #[arg(long, value_name = "ROLE", value_enum)]
    pub(crate) role: Option<RoleName>,
    /// Only calls and results of this tool
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Only from this time on: 2026-01-31, 2026-01-31T12:00, 3d, 12h
    #[arg(long, value_name = "T", value_parser = crate::time::parse)]
    pub(crate) since: Option<u64>,
    /// Only before this time
    #[arg(long, value_name = "T", value_parser = crate::time::parse)]
    pub(crate) before: Option<u64>,
    /// Search every session of the store
    #[arg(long)]
    pub(crate) all_sessions: bool,
    /// Only what is out of the model's sight
    #[arg(long)]
    pub(crate) compacted: bool,
    /// The order
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub(crate) sort: Sort,
    /// Search messages, summaries or both
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// Print so many hits at most
    #[arg(long, value_name = "N", default_value_t = host_store::HITS_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=host_store::HITS_MAX))]
    pub(crate) limit: u64,
    /// Pass over so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
    /// Print this message whole
    #[arg(long, value_name = "N", conflicts_with = "node")]
    pub(crate) message: Option<u64>,
    /// With --message: print its JSON as it is stored
    #[arg(long, requires = "message")]
    pub(crate) raw: bool,
    /// Print this summary and the messages that it stands for
    #[arg(long, value_name = "N")]
    pub(crate) node: Option<u64>,
}

/// The order of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Sort {
    /// The best first
    #[default]
    Relevance,
    /// The newest first
    Newest,
    /// The oldest first
    Oldest,
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Kind {
    /// What was said
    Messages,
    /// What was made of it
    Summaries,
    /// Messages first, then summaries
    #[default]
    Both,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Instructions of the client
    System,
    /// The person
    User,
    /// The model
    Assistant,
    /// Results of tools
    Tool,
}

impl RoleName {
    /// Returns the role.
    pub(crate) fn role(self) -> Role {
        match self {
            RoleName::System => Role::System,
            RoleName::User => Role::User,
            RoleName::Assistant => Role::Assistant,
            RoleName::Tool => Role::Tool,
        }
    }
}
