//! Chooses the lines of an outline that fit its budget.

use super::HEADINGS;
use super::gather::{Gathered, Line, section};
use crate::text::one_line;

/// Each section's share of the budget, in thousandths; what one leaves over goes to the others.
const SHARES: [u64; 13] = [110, 180, 60, 200, 50, 50, 70, 80, 40, 30, 50, 30, 50];

/// The order in which sections get what is left over.
const LEFT_OVER: [usize; 13] = [
    section::SNAPSHOT,
    section::GOAL,
    section::BLOCKED,
    section::CONSTRAINTS,
    section::DECISIONS,
    section::ACTIONS,
    section::CONTEXT,
    section::FILES,
    section::REMAINING_SECTION,
    section::PENDING,
    section::IN_PROGRESS,
    section::ACTIVE,
    section::QUESTIONS,
];

/// Lines that do not fit before a section is given up; short ones may follow a long one.
const MISSES_MAX: usize = 4;

struct Choice<'a> {
    lines: &'a [Line],
    /// Indices of the lines, those that matter most first.
    order: Vec<usize>,
    /// The place in `order` that is looked at next.
    next: usize,
    is_chosen: Vec<bool>,
    has_heading: bool,
}

/// Returns the chosen lines by section, oldest first.
pub(super) fn select(gathered: &Gathered, budget_tokens: u64, count: &dyn Fn(&str) -> u64) -> Vec<Vec<String>> {
    // In a small outline no line may take all of its section's room.
    let chars_max = usize::try_from(budget_tokens / 2).unwrap_or(usize::MAX).clamp(60, 1_600);
    let mut choices: Vec<Choice<'_>> = gathered.sections.iter().map(|lines| Choice::new(lines)).collect();
    let mut left = budget_tokens;
    for ((choice, share), heading) in choices.iter_mut().zip(SHARES).zip(HEADINGS) {
        let room = (budget_tokens.saturating_mul(share) / 1_000).min(left);
        left -= choice.take(room, heading, chars_max, count);
    }
    for section in LEFT_OVER {
        let (Some(choice), Some(heading)) = (choices.get_mut(section), HEADINGS.get(section)) else { continue };
        left -= choice.take(left, heading, chars_max, count);
    }
    choices.iter().map(|choice| choice.chosen(chars_max)).collect()
}

impl<'a> Choice<'a> {
    fn new(lines: &'a [Line]) -> Self {
        let mut order: Vec<usize> = (0..lines.len()).rev().collect();
        order.sort_by_key(|&index| lines.get(index).map_or(u8::MAX, |line| line.rank));
        Choice { lines, order, next: 0, is_chosen: vec![false; lines.len()], has_heading: false }
    }

    /// Chooses lines within `room`; returns the tokens they take.
    fn take(&mut self, room: u64, heading: &str, chars_max: usize, count: &dyn Fn(&str) -> u64) -> u64 {
        let mut used = if self.has_heading { 0 } else { count(heading) + 3 };
        let mut taken = 0;
        let mut misses = 0;
        while let Some(&index) = self.order.get(self.next) {
            let Some(line) = self.lines.get(index) else { break };
            let tokens = count(&one_line(&line.text, chars_max)) + 2;
            if used + tokens > room {
                misses += 1;
                if misses >= MISSES_MAX {
                    break;
                }
                self.next += 1;
                continue;
            }
            used += tokens;
            taken = used;
            self.has_heading = true;
            if let Some(mark) = self.is_chosen.get_mut(index) {
                *mark = true;
            }
            self.next += 1;
        }
        // A line passed over for its length gets another chance with what is left over.
        self.next = self.next.saturating_sub(misses);
        taken
    }

    fn chosen(&self, chars_max: usize) -> Vec<String> {
        let chosen = self.lines.iter().zip(&self.is_chosen).filter(|(_, is_chosen)| **is_chosen);
        chosen.map(|(line, _)| one_line(&line.text, chars_max)).collect()
    }
}
