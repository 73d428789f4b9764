//! aider's chat history: Markdown where `#### ` lines are the user's, `> ` lines the program's, the rest the model's.
//!
//! A `# aider chat started at` line opens a session. Live is the last session in which something was said; Full is the whole
//! file as one conversation, which is what the program itself restores.

use crate::build::{Builder, Mark};
use crate::input::Input;
use crate::lines::Lines;
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;

const SESSION_START: &str = "# aider chat started at ";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Program,
    Model,
}

struct History {
    builder: Builder,
    speaker: Speaker,
    text: String,
    line: u64,
    is_live: bool,
    id: String,
    /// The start of the session being read.
    next_id: String,
    sessions_left_out: u64,
    starts_anew: bool,
}

pub(super) fn read(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut history = History {
        builder: Builder::new(Dialect::OpenAiChat),
        speaker: Speaker::Program,
        text: String::new(),
        line: 1,
        is_live: context.is_live(),
        id: String::new(),
        next_id: String::new(),
        sessions_left_out: 0,
        starts_anew: false,
    };
    let mut lines = Lines::new(input, context.options.line_bytes_max);
    while let Some(line) = lines.next(&mut context.problems)? {
        history.line(line.number, line.text);
    }
    history.flush();
    if history.sessions_left_out > 0 {
        let count = history.sessions_left_out;
        context
            .problems
            .note(None, || format!("{count} earlier sessions of the file left out; the full history has them"));
    }
    let messages = history.builder.finish(&mut context.problems);
    Ok(vec![conversation(history.id, "", Kind::Main, Dialect::OpenAiChat, Vec::new(), messages)])
}

impl History {
    fn line(&mut self, number: u64, line: &str) {
        if let Some(start) = line.strip_prefix(SESSION_START) {
            self.flush();
            self.next_id = start.trim().to_owned();
            self.starts_anew = true;
            self.speaker = Speaker::Program;
            return;
        }
        let (speaker, text) = if let Some(text) = line.strip_prefix("#### ") {
            (Speaker::User, text.trim_end())
        } else if line == "####" {
            (Speaker::User, "")
        } else if line.starts_with("> ") || line == ">" {
            (Speaker::Program, "")
        } else if line.trim().is_empty() && self.speaker != Speaker::Model {
            // A blank line ends nothing and begins nothing.
            return;
        } else {
            (Speaker::Model, line)
        };
        if speaker != self.speaker {
            self.flush();
            self.speaker = speaker;
            self.line = number;
        }
        if speaker != Speaker::Program {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(text);
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if self.starts_anew {
            self.starts_anew = false;
            if self.is_live && !self.builder.is_empty() {
                self.builder = Builder::new(Dialect::OpenAiChat);
                self.sessions_left_out += 1;
            }
            if self.is_live || self.id.is_empty() {
                self.id.clone_from(&self.next_id);
            }
        }
        match self.speaker {
            Speaker::User => self.builder.user_text(text, Mark::AsRead, Some(self.line)),
            Speaker::Model => self.builder.assistant(text, "", Vec::new(), Some(self.line)),
            Speaker::Program => {}
        }
    }
}
