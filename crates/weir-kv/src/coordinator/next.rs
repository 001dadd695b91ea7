//! Whether a phase is over, and what follows it.

use super::{Answer, Coordinator, Known, Phase, Step};
use crate::version::Version;

/// What follows.
pub(super) enum Next {
    Wait,
    Answer(Answer),
    Choose(Version),
    Unmet,
    Repair,
}

impl Coordinator {
    pub(super) fn next(&self) -> Next {
        let are_enough = |is: &dyn Fn(Known) -> bool| {
            let count = self.replicas.len();
            self.groups
                .are_enough(count, |place| is(self.replicas[place].1))
        };
        let has_cell = |known| matches!(known, Known::Has(_));
        let newest = self.newest.as_ref().map(|cell| cell.version);
        let has_newest = |known| matches!(known, Known::Has(version) if version >= newest);
        let may_answer = are_enough(&|known| !matches!(known, Known::Failed | Known::Refused));
        let mut refused = self.replicas.iter();
        let is_refused = refused.any(|(_, known)| *known == Known::Refused);
        match self.phase {
            Phase::Choosing | Phase::Answered => Next::Wait,
            _ if !may_answer && is_refused => Next::Answer(Answer::Conflict),
            _ if !may_answer => Next::Answer(Answer::TooFew),
            Phase::Reading if !are_enough(&has_cell) => Next::Wait,
            Phase::Reading if self.is_write && !self.holds() => Next::Unmet,
            Phase::Reading if self.is_write => {
                Next::Choose(self.highest().max(newest.unwrap_or_default()))
            }
            Phase::Reading if are_enough(&has_newest) => Next::Answer(self.found()),
            Phase::Reading => Next::Repair,
            Phase::Writing if !are_enough(&has_newest) => Next::Wait,
            // Only now: of those that are enough, one has each write that was answered before.
            Phase::Writing if self.may_advance && Some(self.highest()) > newest => {
                Next::Choose(self.highest())
            }
            Phase::Writing if self.is_write => {
                Next::Answer(Answer::Written(newest.unwrap_or_default()))
            }
            Phase::Writing => Next::Answer(self.found()),
        }
    }

    /// A read finds something newer where it gives what it was about to answer. A write with a condition may have gone over something
    /// older than that, as if it had never been: so the newer one is read, and answered.
    pub(super) fn look_again(&mut self, node: u16, steps: &mut Vec<Step>) {
        self.phase = Phase::Reading;
        if let Some(known) = self.known(node) {
            *known = Known::Asked;
            steps.push(Step::Read(node));
        }
    }

    /// Whether the condition holds of what was found, if there is one.
    fn holds(&self) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.condition.holds(only.found.as_ref(), only.unix_ms))
    }

    /// The answer of a read.
    fn found(&self) -> Answer {
        match self.only {
            None => Answer::Found(self.newest.clone()),
            Some(_) => Answer::Unmet(self.newest.clone()),
        }
    }

    /// The newest version that a replica is known to have.
    pub(super) fn highest(&self) -> Version {
        let versions = self.replicas.iter().filter_map(|(_, known)| match known {
            Known::Has(version) => *version,
            _ => None,
        });
        versions.max().unwrap_or_default()
    }
}
