//! Makes what broke a promise small: fewer kinds of disaster, fewer steps.

use super::{Case, Kind, Outcome, Step, Storm, Violation};

/// Plays that one shrinking may take.
const PLAYS_MAX: usize = 400;

/// The smallest case that was found, and what it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shrunk {
    /// What is left.
    pub case: Case,
    /// What it breaks.
    pub violation: Violation,
    /// Plays that it took.
    pub plays: usize,
}

impl Storm {
    /// Leaves out kinds and steps for as long as the same promise is broken; `None` if this seed breaks none.
    pub fn shrink(&self, seed: u64) -> Option<Shrunk> {
        let case = self.case(seed);
        let violation = first(self.play(&case))?;
        let mut search = Search { storm: self, plays: 1, shrunk: Shrunk { case, violation, plays: 0 } };
        search.kinds();
        search.steps();
        search.kinds();
        search.shrunk.plays = search.plays;
        Some(search.shrunk)
    }
}

fn first(outcome: Outcome) -> Option<Violation> {
    outcome.violations.into_iter().next()
}

struct Search<'a> {
    storm: &'a Storm,
    plays: usize,
    shrunk: Shrunk,
}

impl Search<'_> {
    /// Takes the case if it breaks the same promise.
    fn is_smaller(&mut self, case: Case) -> bool {
        if self.plays >= PLAYS_MAX {
            return false;
        }
        self.plays += 1;
        let Some(violation) = first(self.storm.play(&case)) else { return false };
        let same = violation.promise == self.shrunk.violation.promise;
        if same {
            self.shrunk = Shrunk { case, violation, plays: 0 };
        }
        same
    }

    fn kinds(&mut self) {
        let kinds: Vec<Kind> = self.shrunk.case.kinds.iter().copied().collect();
        for kind in kinds {
            let mut case = self.shrunk.case.clone();
            case.kinds.remove(&kind);
            self.is_smaller(case);
        }
    }

    /// Leaves out halves, then quarters, down to single steps.
    fn steps(&mut self) {
        let mut size = self.shrunk.case.steps.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.shrunk.case.steps.len() {
                let mut case = self.shrunk.case.clone();
                let to = (from + size).min(case.steps.len());
                let _left_out: Vec<Step> = case.steps.drain(from..to).collect();
                if !self.is_smaller(case) {
                    from = to;
                }
            }
            size /= 2;
        }
    }
}
