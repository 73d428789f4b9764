//! Recognises a format by the beginning of a file's content.

mod sketch;

use crate::ImportError;
use sketch::Sketch;

macro_rules! formats {
    ($($(#[$meta:meta])* $variant:ident = $name:literal, $seen:literal;)+) => {
        /// The formats that are read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format { $($(#[$meta])* $variant),+ }

        impl Format {
            /// Every format.
            pub const ALL: &[Format] = &[$(Format::$variant),+];

            /// Returns the format's name, as it is given on a command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Format::$variant => $name),+ }
            }
            /// Returns what a file of this format is known by.
            pub const fn known_by(self) -> &'static str {
                match self { $(Format::$variant => $seen),+ }
            }
        }
    };
}

formats! {
    /// Claude Code session files.
    ClaudeCode = "claude-code", "lines with type, sessionId and message";
    /// Codex rollout files.
    CodexRollout = "codex-rollout", "lines with type and payload";
    /// Request bodies and message lists of OpenAI Chat Completions.
    OpenAi = "openai", "messages with role and content";
    /// Request bodies and message lists of Anthropic Messages.
    Anthropic = "anthropic", "messages with content blocks";
    /// Request bodies and item lists of OpenAI Responses.
    Responses = "responses", "input items";
    /// `opencode export` documents.
    OpenCodeExport = "opencode-export", "info and messages with parts";
    /// OpenCode server events.
    OpenCodeEvents = "opencode-events", "lines with event.type and event.properties";
    /// Cline's message store.
    Cline = "cline", "messages with ts and modelInfo";
    /// Hermes session export, a session a line.
    HermesExport = "hermes-export", "source, parent_session_id and messages";
    /// Hermes trace export: lines like those of Claude Code.
    HermesTrace = "hermes-trace", "lines of version hermes-agent";
    /// ShareGPT trajectories with tool calls in the text.
    ShareGpt = "sharegpt", "conversations with from and value";
    /// Agent Trajectory Interchange Format.
    Atif = "atif", "schema_version ATIF and steps";
    /// Archival session exports with actions and results by id.
    HermesArchive = "hermes-archive", "messages with message_id and state";
    /// Session documents of exporters: messages with timestamp and metadata.
    HermesSession = "hermes-session", "messages with timestamp and metadata";
    /// SWE-agent trajectories.
    SweAgent = "swe-agent", "trajectory and history";
    /// mini-swe-agent trajectories.
    MiniSwe = "mini-swe-agent", "info and messages with extra";
    /// OpenHands event lists.
    OpenHands = "openhands", "events with action or observation";
    /// OpenHands SDK events.
    OpenHandsSdk = "openhands-sdk", "lines with kind and source";
    /// GitHub Copilot CLI events.
    CopilotCli = "copilot-cli", "lines with type, data and parentId";
    /// Gemini CLI session documents.
    GeminiCli = "gemini-cli", "projectHash and messages of type user or gemini";
    /// pi session files.
    Pi = "pi", "a session line, then message lines";
    /// aider chat history in Markdown.
    Aider = "aider", "\"# aider chat started at\" or \"#### \" lines";
    /// LangChain messages as `dumpd`, message dicts, or in a graph state.
    LangChain = "langchain", "lc constructors or type and data";
    /// Hermes' session database, `state.db`.
    HermesState = "hermes-state", "SQLite tables sessions and messages";
    /// Databases of hermes-lcm and of its fork LCM-X.
    HermesLcm = "hermes-lcm", "SQLite tables messages with store_id and summary_nodes";
    /// Databases of lossless-claw.
    LosslessClaw = "lossless-claw", "SQLite tables conversations, messages and summaries";
    /// ToolBench answer files.
    ToolBench = "toolbench", "tree and answer_generation";
    /// LongMemEval questions with their haystack.
    LongMemEval = "longmemeval", "haystack_sessions";
    /// LoCoMo conversations.
    LoCoMo = "locomo", "speaker_a and session_1";
    /// BEAM chats.
    Beam = "beam", "batches of turns";
}

impl Format {
    /// Tells whether it is a database, which is read through SQLite and not as a stream of bytes.
    pub const fn is_database(self) -> bool {
        matches!(self, Format::HermesState | Format::HermesLcm | Format::LosslessClaw)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no format's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {name:?}; known are {}", names())]
pub struct UnknownFormat {
    /// The name as given.
    pub name: String,
}

impl std::str::FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let alias = match name {
            "codex" => "codex-rollout",
            "opencode" => "opencode-export",
            "hermes" => "hermes-export",
            "copilot" => "copilot-cli",
            "gemini" => "gemini-cli",
            "mini-swe" => "mini-swe-agent",
            "lcm-x" | "lcm" => "hermes-lcm",
            other => other,
        };
        let found = Format::ALL.iter().copied().find(|format| format.as_str() == alias);
        found.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

fn names() -> String {
    Format::ALL.iter().map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
}

/// What every SQLite database begins with.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// What was recognised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recognised {
    pub(crate) format: Format,
    /// Whether the file is a sequence of values, a record a line.
    pub(crate) is_lines: bool,
}

/// Recognises the format by the first bytes of the content, or takes the one that is given.
pub(crate) fn recognise(prefix: &[u8], given: Option<Format>) -> Result<Recognised, ImportError> {
    if prefix.starts_with(SQLITE_MAGIC) {
        return Err(ImportError::Binary {
            hint: "it is a SQLite database, which is read by its file name and not as a stream",
        });
    }
    if given.is_some_and(Format::is_database) {
        return Err(ImportError::Binary { hint: "the format that was named is a SQLite database, and this is none" });
    }
    if prefix.starts_with(b"\xff\xfe") || prefix.starts_with(b"\xfe\xff") {
        return Err(ImportError::Binary { hint: "it is UTF-16 text; convert it to UTF-8" });
    }
    let Some(start) = prefix.iter().position(|b| !b.is_ascii_whitespace() && *b != 0) else {
        return Err(if prefix.contains(&0) {
            ImportError::Binary { hint: "it begins with NUL bytes" }
        } else {
            ImportError::Empty
        });
    };
    let content = prefix.get(start..).unwrap_or_default();
    let sketch = Sketch::of(content);
    if let Some(format) = given {
        return Ok(Recognised { format, is_lines: sketch.is_sequence });
    }
    let format = match content.first() {
        Some(b'{' | b'[') => by_facts(&sketch),
        _ => None,
    };
    if let Some(format) = format.or_else(|| by_markdown(content)) {
        return Ok(Recognised { format, is_lines: sketch.is_sequence });
    }
    if content.contains(&0) || content.iter().filter(|b| **b < 9).count() > content.len() / 100 {
        return Err(ImportError::Binary { hint: "it holds control bytes" });
    }
    Err(ImportError::NothingRecognised { looked_for: names() })
}

fn by_markdown(content: &[u8]) -> Option<Format> {
    let is_aider = |line: &[u8]| line.starts_with(b"# aider chat started at") || line.starts_with(b"#### ");
    content.split(|b| *b == b'\n').any(is_aider).then_some(Format::Aider)
}

// The order matters: what is said by one format alone comes before what several say.
fn by_facts(sketch: &Sketch) -> Option<Format> {
    let has = |path: &str| sketch.has(path);
    let all = |paths: &[&str]| paths.iter().all(|path| has(path));
    let is = |fact: &str| sketch.is(fact);
    let rules: &[(bool, Format)] = &[
        (has("projectHash"), Format::GeminiCli),
        (is("version=hermes-agent"), Format::HermesTrace),
        (all(&["event.type", "event.properties"]), Format::OpenCodeEvents),
        (has("payload") && has("type"), Format::CodexRollout),
        (is("record_type=state"), Format::CodexRollout),
        (is("type=session.start") || all(&["type", "data", "parentId"]), Format::CopilotCli),
        (all(&["kind", "source"]) && has("timestamp"), Format::OpenHandsSdk),
        (has("isSidechain") || is("type=queue-operation"), Format::ClaudeCode),
        (has("type") && (has("sessionId") || has("uuid") || has("leafUuid") || has("snapshot")), Format::ClaudeCode),
        (is("type=session") || all(&["type", "message.role"]), Format::Pi),
        (
            has("messages[].info") || all(&["info.id", "info.projectID"]) || all(&["info.id", "info.slug"]),
            Format::OpenCodeExport,
        ),
        (
            has("trajectory[].action")
                || has("trajectory[].observation")
                || all(&["history[].agent", "history[].role"]),
            Format::SweAgent,
        ),
        (has("info.model_stats") || has("trajectory_format") || has("messages[].extra"), Format::MiniSwe),
        (has("history[].action") || has("history[].observation") || has("history[][].action"), Format::OpenHands),
        (has("test_result.git_patch") && has("instance_id"), Format::OpenHands),
        ((has("[].action") || has("[].observation")) && has("[].source"), Format::OpenHands),
        (all(&["source", "parent_session_id", "started_at"]), Format::HermesExport),
        (has("conversations[].from"), Format::ShareGpt),
        (has("steps[].step_id") || sketch.begins("schema_version=ATIF"), Format::Atif),
        (has("messages[].message_id") || has("session_revision_hash"), Format::HermesArchive),
        (has("messages[].modelInfo") || (has("messages[].ts") && has("messages[].role")), Format::Cline),
        (all(&["sessionId", "agent", "updated_at"]), Format::Cline),
        (has("lc") || has("[].lc") || has("messages[].lc") || has("values.messages"), Format::LangChain),
        (has("[].data.content") || has("messages[].data.content") || all(&["type", "data.content"]), Format::LangChain),
        (all(&["messages[].metadata", "messages[].timestamp"]), Format::HermesSession),
        (
            has("haystack_sessions") || has("[].haystack_sessions") || all(&["question_id", "haystack_dates"]),
            Format::LongMemEval,
        ),
        (has("speaker_a") || has("conversation.speaker_a") || has("[].conversation"), Format::LoCoMo),
        (all(&["[].batch_number", "[].turns"]), Format::Beam),
        (has("answer_generation") || all(&["win", "tree"]), Format::ToolBench),
        // Lists and bodies of the wire dialects; which one is the wire reader's to say.
        (has("input") && !has("messages"), Format::Responses),
        (has("instructions") && !has("messages"), Format::Responses),
        (has("[].type") && !has("[].role"), Format::Responses),
        (
            has("messages") || has("traj") || has("request.messages") || has("[].role") || all(&["role", "content"]),
            Format::OpenAi,
        ),
        (has("[].messages") || has("[].traj") || has("tools"), Format::OpenAi),
        (has("system") && has("model"), Format::Anthropic),
    ];
    rules.iter().find(|(holds, _)| *holds).map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_read_back_from_its_name() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse::<Format>(), Ok(*format));
        }
        assert_eq!("codex".parse(), Ok(Format::CodexRollout));
        assert!("nonsense".parse::<Format>().unwrap_err().to_string().contains("claude-code"));
    }

    #[test]
    fn content_tells_the_format() {
        let cases: &[(&str, Format, bool)] = &[
            (
                "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"u\"}\n{\"type\":\"user\"",
                Format::ClaudeCode,
                true,
            ),
            ("{\"timestamp\":\"t\",\"type\":\"session_meta\",\"payload\":{\"id\":\"", Format::CodexRollout, false),
            ("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", Format::OpenAi, false),
            ("{\"model\":\"m\",\"input\":\"hi\"}", Format::Responses, false),
            ("{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"b\"}\n", Format::OpenAi, true),
            ("\n# aider chat started at 2025-01-01 00:00:00\n", Format::Aider, false),
            ("[{\"batch_number\":1,\"turns\":[[", Format::Beam, false),
        ];
        for (text, format, is_lines) in cases {
            let got = recognise(text.as_bytes(), None).unwrap();
            assert_eq!((got.format, got.is_lines), (*format, *is_lines), "{text}");
        }
    }

    #[test]
    fn what_is_no_transcript_says_why() {
        assert!(matches!(recognise(b"  \n", None), Err(ImportError::Empty)));
        assert!(matches!(recognise(b"\x7fELF\0\0\0\x01", None), Err(ImportError::Binary { .. })));
        assert!(matches!(recognise(b"\xff\xfe{\0", None), Err(ImportError::Binary { .. })));
        let error = recognise(b"{\"a\":1}", None).unwrap_err().to_string();
        assert!(error.contains("claude-code") && error.contains("aider"));
    }
}
