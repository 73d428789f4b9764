//! Data sets that ask what was said: LongMemEval haystacks, LoCoMo conversations, BEAM chats.
//!
//! Every session becomes part of one conversation, in the file's order.

use super::swe_agent::each_record;
use super::walk::{Place, splice, take_string, take_value, top};
use crate::build::{Builder, Mark};
use crate::input::Input;
use crate::json::{elements, get_str};
use crate::problems::Problems;
use crate::scan::{Scanner, Walk};
use crate::{Context, Conversation, ImportError, Kind, conversation};
use engine_api::Dialect;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most sessions of one conversation.
const SESSIONS_MAX: u64 = 100_000;

fn add(builder: &mut Builder, line: u64, record: &str, problems: &mut Problems) {
    match splice(record, |key| matches!(key, "role" | "content")).filter(|raw| raw != "{}") {
        Some(raw) => builder.message(raw, Mark::AsRead, Some(line)),
        None => problems.lost(Some(line), || "a turn that cannot be read; left out".to_owned()),
    }
}

/// Reads a LongMemEval item, or a list of them.
pub(super) fn read_longmemeval(
    input: &mut Input<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Conversation>, ImportError> {
    let mut made: Vec<(String, String, Builder)> = Vec::new();
    let new = || (String::new(), String::new(), Builder::new(Dialect::OpenAiChat));
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            made.push(new());
            Ok(())
        }
        Place::Member(key) => match made.last_mut() {
            Some(item) => haystack(key, item, scanner, problems),
            None => scanner.skip(),
        },
        Place::Element => {
            let mut item = new();
            scanner.object(&mut |key, scanner| haystack(key, &mut item, scanner, problems))?;
            made.push(item);
            Ok(())
        }
    })?;
    let problems = &mut context.problems;
    Ok(made
        .into_iter()
        .map(|(id, title, builder)| {
            conversation(id, title, Kind::Main, Dialect::OpenAiChat, Vec::new(), builder.finish(problems))
        })
        .collect())
}

fn haystack(
    key: &str,
    item: &mut (String, String, Builder),
    scanner: &mut Scanner<'_, '_>,
    problems: &mut Problems,
) -> Walk<()> {
    match key {
        "question_id" => item.0 = take_string(scanner, problems)?.unwrap_or_default(),
        "question" => item.1 = take_string(scanner, problems)?.unwrap_or_default(),
        "haystack_sessions" => {
            scanner.array(&mut |scanner| {
                each_record(scanner, problems, &mut |line, record, problems| add(&mut item.2, line, record, problems))
            })?;
        }
        _ => scanner.skip()?,
    }
    Ok(())
}

#[derive(Default)]
struct Dialogue {
    id: String,
    first_speaker: String,
    second_speaker: String,
    sessions: BTreeMap<u64, Vec<Value>>,
    dates: BTreeMap<u64, String>,
}

/// Reads a LoCoMo conversation, or a list of samples that each hold one.
pub(super) fn read_locomo(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut dialogues: Vec<Dialogue> = Vec::new();
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Begin => {
            dialogues.push(Dialogue::default());
            Ok(())
        }
        Place::Member(key) => match dialogues.last_mut() {
            Some(dialogue) => dialogue.member(key, scanner, problems),
            None => scanner.skip(),
        },
        Place::Element => {
            let mut dialogue = Dialogue::default();
            scanner.object(&mut |key, scanner| dialogue.member(key, scanner, problems))?;
            dialogues.push(dialogue);
            Ok(())
        }
    })?;
    let problems = &mut context.problems;
    Ok(dialogues.into_iter().map(|dialogue| dialogue.conversation(problems)).collect())
}

impl Dialogue {
    fn member(&mut self, key: &str, scanner: &mut Scanner<'_, '_>, problems: &mut Problems) -> Walk<()> {
        match key {
            "conversation" => {
                scanner.object(&mut |key, scanner| self.member(key, scanner, problems))?;
            }
            "sample_id" => self.id = take_string(scanner, problems)?.unwrap_or_default(),
            "speaker_a" => self.first_speaker = take_string(scanner, problems)?.unwrap_or_default(),
            "speaker_b" => self.second_speaker = take_string(scanner, problems)?.unwrap_or_default(),
            _ => {
                let rest = key.strip_prefix("session_").unwrap_or_default();
                let (number, is_date) = match rest.strip_suffix("_date_time") {
                    Some(number) => (number, true),
                    None => (rest, false),
                };
                let number = number.parse::<u64>().ok().filter(|number| *number < SESSIONS_MAX);
                match (number, is_date) {
                    (Some(number), true) => {
                        self.dates.insert(number, take_string(scanner, problems)?.unwrap_or_default());
                    }
                    (Some(number), false) => {
                        if let Some(Value::Array(turns)) = take_value(scanner, problems)? {
                            self.sessions.insert(number, turns);
                        }
                    }
                    (None, _) => scanner.skip()?,
                }
            }
        }
        Ok(())
    }

    // Two people talk; the first takes the user's role. Their names, the date and what a picture shows stand in the text.
    fn conversation(self, problems: &mut Problems) -> Conversation {
        let mut builder = Builder::new(Dialect::OpenAiChat);
        for (number, turns) in &self.sessions {
            let mut date = self.dates.get(number).map(String::as_str).filter(|date| !date.is_empty());
            for turn in turns {
                let speaker = get_str(turn, "speaker").unwrap_or_default();
                let mut text = String::new();
                if let Some(date) = date.take() {
                    text.push_str(&format!("[{date}]\n"));
                }
                text.push_str(&format!("{speaker}: {}", get_str(turn, "text").unwrap_or_default()));
                if let Some(caption) = get_str(turn, "blip_caption") {
                    text.push_str(&format!(" [shares {caption}]"));
                }
                if speaker == self.first_speaker {
                    builder.user_text(&text, Mark::AsRead, None);
                } else {
                    builder.assistant(&text, "", Vec::new(), None);
                }
            }
        }
        let title = format!("{} and {}", self.first_speaker, self.second_speaker);
        conversation(self.id, title, Kind::Main, Dialect::OpenAiChat, Vec::new(), builder.finish(problems))
    }
}

/// Reads a BEAM chat: batches of turns, a turn being a list of messages.
pub(super) fn read_beam(input: &mut Input<'_>, context: &mut Context<'_>) -> Result<Vec<Conversation>, ImportError> {
    let mut builder = Builder::new(Dialect::OpenAiChat);
    top(input, context, &mut |place, scanner, problems| match place {
        Place::Element => scanner
            .object(&mut |key, scanner| match key {
                "turns" => each_record(scanner, problems, &mut |line, turn, problems| {
                    if turn.starts_with('{') {
                        add(&mut builder, line, turn, problems);
                    }
                    elements(turn).into_iter().for_each(|record| add(&mut builder, line, record, problems));
                }),
                _ => scanner.skip(),
            })
            .map(|_| ()),
        Place::Begin => Ok(()),
        Place::Member(_) => scanner.skip(),
    })?;
    let messages = builder.finish(&mut context.problems);
    Ok(vec![conversation("", "", Kind::Main, Dialect::OpenAiChat, Vec::new(), messages)])
}
