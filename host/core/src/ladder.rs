//! From a proposal to a context, or to the reason why the conversation stays as it is.
//!
//! Rungs, in order: a plan that was prepared ahead of need; the engine's plan; the built-in compressor's; the best of these with its largest tool results
//! shortened; the smallest legal context. The first that ends under the target is taken. If none does, the smallest
//! is, and the receipt says what stopped it.

use crate::apply::{self, Rejection};
use crate::draft::{Draft, Entry, Origin, Written};
use crate::repair;
use crate::rules;
use crate::scribe::Scribe;
use crate::session::Session;
use crate::shrink;
use crate::validate::{self, Context};
use crate::words;
use engine_api::{CompactionPlan, Conversation, EngineError, Flags, PlanReport, Role};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A step of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// A plan that the configured engine made ahead of need.
    Prepared,
    /// The configured engine's plan.
    Engine,
    /// The built-in compressor's plan.
    BuiltIn,
    /// The best so far, with its largest tool results shortened.
    Demotion,
    /// Only what must stay.
    Smallest,
}

/// What came of a rung.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The rung.
    pub rung: Rung,
    /// Tokens of the whole request after it, if it gave a legal result.
    pub tokens: Option<u64>,
    /// Why it was not taken; empty for the one that was.
    pub problem: String,
}

/// Where plans come from.
pub trait Proposer {
    /// Returns a plan that was made ahead of need and fits the conversation as it now is.
    fn prepared(&mut self) -> Option<CompactionPlan> {
        None
    }
    /// Asks the configured engine; `None` if it is the built-in compressor itself or could not be loaded.
    fn engine(&mut self) -> Option<Result<CompactionPlan, EngineError>>;
    /// Asks the built-in compressor.
    fn built_in(&mut self) -> Result<CompactionPlan, EngineError>;
}

/// The ladder's end.
#[derive(Debug)]
pub struct Descent {
    /// The context to use; `None` if the conversation stays as it is.
    pub context: Option<Context>,
    /// The rung it came from.
    pub rung: Option<Rung>,
    /// What came of each rung that was tried.
    pub attempts: Vec<Attempt>,
    /// What the plan's author said of it.
    pub report: PlanReport,
    /// What stopped it above the target; `None` if it ended below.
    pub floor: Option<String>,
    /// User messages that could not be quoted within the budget.
    pub words_left_out: usize,
}

struct Candidate {
    rung: Rung,
    context: Context,
    report: PlanReport,
    words_left_out: usize,
}

/// What a compaction aims at, in tokens of the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The result has to end at or below this.
    pub target_tokens: u64,
    /// The settings ask for a compaction from here on.
    pub threshold_tokens: u64,
}

/// Goes down the ladder until a context ends under the target.
pub fn descend(
    session: &Session,
    conversation: &Conversation<'_>,
    goal: Goal,
    proposer: &mut dyn Proposer,
    scribe: &dyn Scribe,
) -> Descent {
    let mut walk = Walk { session, conversation, goal, scribe, attempts: Vec::new(), best: None };
    let done = walk.proposed(Rung::Prepared, proposer.prepared().map(Ok))
        || walk.proposed(Rung::Engine, proposer.engine())
        || walk.proposed_built_in(proposer)
        || walk.demoted()
        || walk.smallest();
    let Walk { attempts, best, .. } = walk;
    let Some(best) = best else {
        let floor = attempts.last().map(|attempt| attempt.problem.clone());
        return Descent {
            context: None,
            rung: None,
            attempts,
            report: PlanReport::default(),
            floor,
            words_left_out: 0,
        };
    };
    let floor = if done { None } else { Some(floor_of(session, &best.context, goal.target_tokens)) };
    Descent {
        rung: Some(best.rung),
        context: Some(best.context),
        attempts,
        report: best.report,
        floor,
        words_left_out: best.words_left_out,
    }
}

struct Walk<'a> {
    session: &'a Session,
    conversation: &'a Conversation<'a>,
    goal: Goal,
    scribe: &'a dyn Scribe,
    attempts: Vec<Attempt>,
    best: Option<Candidate>,
}

impl Walk<'_> {
    fn proposed_built_in(&mut self, proposer: &mut dyn Proposer) -> bool {
        self.proposed(Rung::BuiltIn, Some(proposer.built_in()))
    }

    /// Tries a plan; returns whether it ended under the target.
    fn proposed(&mut self, rung: Rung, plan: Option<Result<CompactionPlan, EngineError>>) -> bool {
        let plan = match plan {
            None => return false,
            Some(Ok(plan)) => plan,
            Some(Err(error)) => {
                self.attempts.push(Attempt { rung, tokens: None, problem: error.to_string() });
                return false;
            }
        };
        let report = plan.report.clone();
        let result = apply::apply(self.session, &plan, self.scribe).and_then(|draft| self.finish(draft));
        self.settle(rung, result, report)
    }

    /// Shortens the largest tool results of the best so far, or of the conversation as it is.
    fn demoted(&mut self) -> bool {
        let (draft, report) = match &self.best {
            Some(best) => (Ok(best.context.clone().into_draft()), best.report.clone()),
            None => (self.as_it_is(), PlanReport::default()),
        };
        let result = draft.and_then(|mut draft| {
            shrink::demote(self.session, &mut draft, self.messages_tokens(), self.scribe);
            self.finish(draft)
        });
        self.settle(Rung::Demotion, result, report)
    }

    fn smallest(&mut self) -> bool {
        let plan = shrink::smallest_plan(self.session, self.conversation, self.goal.target_tokens, self.scribe);
        let result = apply::apply(self.session, &plan, self.scribe).and_then(|draft| self.finish(draft));
        let result = match result {
            Ok((context, _)) if context.tokens() > self.goal.target_tokens => {
                let mut draft = context.into_draft();
                shrink::demote(self.session, &mut draft, self.messages_tokens(), self.scribe);
                self.finish(draft)
            }
            // A conversation of one unit cannot be cut, but its parts can be shortened.
            Err(Rejection::NotSmaller { .. }) => self.as_it_is().and_then(|mut draft| {
                shrink::demote(self.session, &mut draft, self.messages_tokens(), self.scribe);
                self.finish(draft)
            }),
            other => other,
        };
        self.settle(Rung::Smallest, result, PlanReport::default())
    }

    fn messages_tokens(&self) -> u64 {
        // The block of quoted words and the notes of a repair come on top, so a little is left to them.
        let room = self.goal.target_tokens.saturating_sub(self.session.overhead_tokens);
        room - room / 16
    }

    fn as_it_is(&self) -> Result<Draft, Rejection> {
        let mut plan = CompactionPlan::new(self.session.revision);
        plan.keep(0..self.session.view.len());
        apply::apply(self.session, &plan, self.scribe)
    }

    /// Repairs, quotes the user, chooses roles, judges.
    fn finish(&self, mut draft: Draft) -> Result<(Context, usize), Rejection> {
        repair::repair(&mut draft, self.scribe)?;
        let left_out =
            words::quote(self.session, &mut draft, &self.goal, self.scribe).map_err(Rejection::Unwritable)?;
        rules::restore(self.session, &mut draft, self.goal.target_tokens, self.scribe)
            .map_err(Rejection::Unwritable)?;
        choose_roles(&mut draft, self.scribe)?;
        Ok((validate::judge(self.session, draft)?, left_out))
    }

    /// Records what came of a rung and keeps the smallest; returns whether it ended under the target.
    fn settle(&mut self, rung: Rung, result: Result<(Context, usize), Rejection>, report: PlanReport) -> bool {
        let (context, words_left_out) = match result {
            Ok(done) => done,
            Err(rejection) => {
                self.attempts.push(Attempt { rung, tokens: None, problem: rejection.to_string() });
                return false;
            }
        };
        let tokens = context.tokens();
        let under = tokens <= self.goal.target_tokens;
        let problem = if under {
            String::new()
        } else {
            format!("{tokens} tokens are over the target of {}", self.goal.target_tokens)
        };
        self.attempts.push(Attempt { rung, tokens: Some(tokens), problem });
        if self.best.as_ref().is_none_or(|best| tokens < best.context.tokens()) {
            self.best = Some(Candidate { rung, context, report, words_left_out });
        }
        under
    }
}

/// Says what of a context is so large that it stays over the target.
fn floor_of(session: &Session, context: &Context, target_tokens: u64) -> String {
    let mut of_user = 0u64;
    let mut of_instructions = session.overhead_tokens;
    let mut of_pins = 0u64;
    let mut largest = (0u32, engine_api::MessageId(0));
    for entry in context.entries() {
        let message = &entry.message;
        if matches!(message.role, Role::System | Role::Developer) {
            of_instructions += u64::from(message.tokens);
        } else if message.flags.has(Flags::PINNED) {
            of_pins += u64::from(message.tokens);
        } else if message.is_real_user() {
            of_user += u64::from(message.tokens);
        }
        if message.tokens > largest.0 {
            largest = (message.tokens, message.id);
        }
    }
    format!(
        "{} tokens are left of a target of {target_tokens}: instructions and tools {of_instructions}, pinned messages \
         {of_pins}, the user's messages {of_user}; the largest message is {} with {}",
        context.tokens(),
        largest.1.0,
        largest.0
    )
}

/// Gives what the host and the engine wrote the role that keeps user and assistant in turns where that is possible.
fn choose_roles(draft: &mut Draft, scribe: &dyn Scribe) -> Result<(), Rejection> {
    let is_ours = |entry: &Entry| {
        matches!(entry.origin, Origin::Written(Written::Summary(_) | Written::Words | Written::Insert(_)))
    };
    let mut at = 0;
    while at < draft.entries.len() {
        let Some(start) = draft.entries.iter().skip(at).position(is_ours).map(|found| found + at) else { break };
        let length = draft.entries.iter().skip(start).take_while(|entry| is_ours(entry)).count();
        let end = start + length;
        let role_at =
            |index: Option<usize>| index.and_then(|index| draft.entries.get(index)).map(|one| one.message.role);
        let between_users = role_at(start.checked_sub(1)) == Some(Role::User) && role_at(Some(end)) == Some(Role::User);
        let role = if between_users { Role::Assistant } else { Role::User };
        for entry in draft.entries.iter_mut().skip(start).take(length).filter(|entry| entry.message.role != role) {
            let mut message = scribe.text(role, &entry.message.text()).map_err(Rejection::Unwritable)?;
            message.flags = entry.message.flags;
            message.node = entry.message.node;
            entry.message = Arc::new(message);
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
