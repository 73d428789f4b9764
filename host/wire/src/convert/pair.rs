//! Pairs calls and results anew: each result moves to the turn of its call, with an id that the target accepts.

use std::collections::{HashMap, HashSet, VecDeque};

use engine_api::{Dialect, Role};

use super::Losses;
use super::lift::{Piece, Turn};

/// Longest call id that Chat Completions accepts.
const OPENAI_ID_MAX: usize = 40;
/// Longest call id that Responses accepts; Anthropic states no limit and takes the same.
const ID_MAX: usize = 64;

/// Calls of one id that wait for an answer.
#[derive(Default)]
struct Open {
    turn: usize,
    waiting: VecDeque<(String, bool)>,
    /// The answer that was given last, as its position among the turn's answers.
    answered: Option<usize>,
}

/// Moves each result behind the turn that holds its call. A result without a call stays where it is.
///
/// Clients use ids again in later turns, and recorders write the same word over several; so a call waits only as long as
/// no later turn uses its id, and calls of one turn that share an id are answered in their order.
pub(super) fn pair(turns: Vec<Turn>, to: Dialect, losses: &mut Losses) -> Vec<Turn> {
    let mut ids = Ids::new(if to == Dialect::OpenAiChat { OPENAI_ID_MAX } else { ID_MAX });
    let mut open: HashMap<(u32, String), Open> = HashMap::new();
    let mut paired: Vec<Turn> = Vec::with_capacity(turns.len());
    for mut turn in turns {
        let at = paired.len();
        let mut kept = Vec::with_capacity(turn.pieces.len());
        for mut piece in std::mem::take(&mut turn.pieces) {
            match &mut piece {
                Piece::Call(call) => {
                    let id = ids.unique(&call.id);
                    losses.changed_ids += usize::from(id != call.id);
                    let calls = open.entry((call.family, std::mem::replace(&mut call.id, id.clone()))).or_default();
                    if calls.turn != at {
                        *calls = Open { turn: at, ..Open::default() };
                    }
                    calls.waiting.push_back((id, call.is_free_text));
                    kept.push(piece);
                }
                Piece::Answer(answer) => match open.get_mut(&(answer.family, answer.id.clone())) {
                    Some(calls) => {
                        // Not yet listed: the answer stands in the very message of its call.
                        let answers = match paired.get_mut(calls.turn) {
                            Some(turn) => &mut turn.answers,
                            None => &mut turn.answers,
                        };
                        if let Some((id, is_free_text)) = calls.waiting.pop_front() {
                            answer.id = id;
                            answer.is_free_text = is_free_text;
                            calls.answered = Some(answers.len());
                            answers.push(answer.clone());
                        } else if let Some(first) = calls.answered.and_then(|at| answers.get_mut(at)) {
                            losses.repeated_answers += 1;
                            if first.content != answer.content {
                                first.content.append(&mut answer.content);
                            }
                        }
                    }
                    None => {
                        answer.id = ids.clean(&answer.id);
                        kept.push(piece);
                    }
                },
                Piece::Text(_) | Piece::Picture(_) => kept.push(piece),
            }
        }
        turn.pieces = kept;
        if !turn.pieces.is_empty() || !turn.answers.is_empty() {
            if turn.role == Role::Tool && turn.pieces.iter().all(|piece| !matches!(piece, Piece::Answer(_))) {
                turn.role = Role::User;
            }
            paired.push(turn);
        }
    }
    paired
}

/// Makes ids of letters, digits, `_` and `-`, each one once.
struct Ids {
    length_max: usize,
    used: HashSet<String>,
    /// Where counting goes on for an id that was asked for again, so that many of the same stay linear.
    counts: HashMap<String, usize>,
}

impl Ids {
    fn new(length_max: usize) -> Ids {
        Ids { length_max, used: HashSet::new(), counts: HashMap::new() }
    }

    /// Returns an id without the characters and the length that APIs refuse; the same for the same text.
    fn clean(&self, id: &str) -> String {
        if id.is_empty() {
            return "call".to_owned();
        }
        let clean: String = id.chars().map(|c| if is_id_char(c) { c } else { '_' }).collect();
        if clean.len() <= self.length_max {
            return clean;
        }
        // The end of a long id often holds what tells it apart, so a digest of the whole stands for it.
        let digest = format!("_{:016x}", fnv1a(id));
        clean.chars().take(self.length_max.saturating_sub(digest.len())).chain(digest.chars()).collect()
    }

    fn unique(&mut self, id: &str) -> String {
        let base = self.clean(id);
        if !id.is_empty() && self.used.insert(base.clone()) {
            return base;
        }
        let mut count = self.counts.get(&base).copied().unwrap_or(usize::from(!id.is_empty()));
        loop {
            count = count.saturating_add(1);
            let suffix = format!("_{count}");
            let room = self.length_max.saturating_sub(suffix.len());
            let candidate: String = base.chars().take(room).chain(suffix.chars()).collect();
            if self.used.insert(candidate.clone()) {
                self.counts.insert(base, count);
                return candidate;
            }
        }
    }
}

/// Characters that the strictest of the APIs takes in ids and tool names.
pub(super) fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A digest that is the same on every machine and in every version.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
