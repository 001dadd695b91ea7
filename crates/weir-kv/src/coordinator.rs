//! One read or write of a key on all of its replicas. Pure: what happens goes in, what to do comes out.
//!
//! ```text
//! get   ask all ── ack cells in ──► same version? ── yes ──────────────────────────► answer
//!                                        └─ no ─► write the newest to the others ─► ack have it ─► answer
//! put   write to all ── ack have it ──► answer            what failed is kept as a hint
//!                └─ one has a newer cell ─► choose a version behind that, write it to all ─► ack have it ─► answer
//! put, reading first     ask all for versions ── ack in ──► write with a version behind them ──► as above
//! put, with a condition  ask all ── ack in ──► does it hold of the newest? ── no ──► answer as a get
//!                                   └─ yes ─► write over it, with a version behind it ──► ack have it ──► answer
//! ```
//!
//! A write whose clock was behind finds a newer cell where an earlier write was answered, if both had a quorum. It takes a newer
//! version then, once: so a write always wins over those that were answered before it began, however clocks differ.
//!
//! A read that saw replicas differ answers only when enough of them have what it answers (read repair), and looks again where one has
//! something newer. So with quorums, a later read never answers with something older. Cells that come after the answer are compared
//! too, and whoever is behind gets the newest.
//!
//! While nodes come or go, `ack` is for each of two groups of replicas ([`Replicas`]).
//!
//! A write without enough replicas may have reached some of them: it is not undone, and a later read may find it.
//!
//! A write with a condition is one over a version: a replica that has a newer cell refuses it, whatever the versions are. So of two
//! writes over the same version, at most one gets more than half of the replicas. The one that does not may be on some of them
//! all the same, and may win later: a condition holds against all other writes as long as one node at a time makes those of a key.

mod next;
mod operation;

pub use self::operation::{Answer, Operation, Quorum, Replicas, Step};

use self::next::Next;
use self::operation::Groups;
use crate::cell::Cell;
use crate::condition::Condition;
use crate::version::Version;

/// What is known of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It was asked for its cell.
    Asked,
    /// It has this version, or nothing.
    Has(Option<Version>),
    /// It was sent a cell of this version.
    Sent(Version),
    /// It has another cell, over which it does not write.
    Refused,
    /// It did not answer, or could not be asked.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Cells are awaited: for a read, or for the version of a write.
    Reading,
    /// A version is awaited.
    Choosing,
    /// Replicas are awaited that have `newest`.
    Writing,
    /// The answer was given; what comes later is compared all the same.
    Answered,
}

/// An operation that is under way.
#[derive(Debug)]
pub struct Coordinator {
    replicas: Vec<(u16, Known)>,
    groups: Groups,
    phase: Phase,
    is_write: bool,
    /// The newest cell that is known, or the one that is written.
    newest: Option<Cell>,
    /// Whether a write that finds a newer cell is made again with another version.
    may_advance: bool,
    /// For a write with a condition.
    only: Option<Only>,
}

/// A write that is made over what there is, if that is as it must be.
#[derive(Debug)]
struct Only {
    condition: Condition,
    unix_ms: u64,
    found: Option<Cell>,
    step: OnlyStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnlyStep {
    Reading,
    /// It is written over this version.
    Over(Version),
    /// The condition does not hold: what was found is answered, as a read does.
    Unmet,
}

impl Coordinator {
    /// Begins `operation` on `replicas`, of which enough have to answer. Those that are down are not asked: `is_up` says so.
    pub fn begin(
        operation: Operation,
        replicas: Replicas,
        is_up: impl Fn(u16) -> bool,
        steps: &mut Vec<Step>,
    ) -> Self {
        let may_advance = matches!(operation, Operation::Put(_));
        let only = match &operation {
            Operation::PutIf(_, condition, unix_ms) => Some(Only {
                condition: condition.clone(),
                unix_ms: *unix_ms,
                found: None,
                step: OnlyStep::Reading,
            }),
            _ => None,
        };
        let (phase, is_write, newest) = match operation {
            Operation::Get => (Phase::Reading, false, None),
            Operation::Put(cell) => (Phase::Writing, true, Some(cell)),
            Operation::PutBehind(cell) | Operation::PutIf(cell, ..) => {
                (Phase::Reading, true, Some(cell))
            }
        };
        let may_do = replicas.are_enough(|place| is_up(replicas.nodes[place]));
        let (nodes, groups) = replicas.into_parts();
        let mut this = Self {
            groups,
            phase,
            is_write,
            newest,
            may_advance,
            only,
            replicas: Vec::with_capacity(nodes.len()),
        };
        for node in nodes {
            // Where it is known that too few would take it, none does: a write that fails at once has left nothing behind.
            let known = match (may_do && is_up(node), &this.newest, phase) {
                (false, ..) => Known::Failed,
                (true, Some(cell), Phase::Writing) => {
                    steps.push(Step::Write(node, cell.clone()));
                    Known::Sent(cell.version)
                }
                (true, ..) => {
                    steps.push(Step::Read(node));
                    Known::Asked
                }
            };
            this.replicas.push((node, known));
        }
        if may_do && phase == Phase::Writing {
            this.hint_failed(steps);
        }
        this.go_on(steps);
        this
    }

    /// A replica has answered with its cell.
    pub fn read(&mut self, node: u16, cell: Option<Cell>, steps: &mut Vec<Step>) {
        let version = cell.as_ref().map(|cell| cell.version);
        match self.known(node) {
            Some(known) if *known == Known::Asked => *known = Known::Has(version),
            _ => return,
        }
        let newest = self.newest.as_ref().map(|cell| cell.version);
        match self.phase {
            Phase::Reading if self.is_write => {
                // Only versions are of interest for a write without a condition.
                if let Some(only) = &mut self.only
                    && version > only.found.as_ref().map(|found| found.version)
                {
                    only.found = cell;
                }
            }
            Phase::Reading if version > newest => self.newest = cell,
            Phase::Writing | Phase::Answered if version < newest => self.send_newest(node, steps),
            Phase::Answered if version > newest => {
                // It is newer than what was answered. Whoever is known to be behind it gets it.
                self.newest = cell;
                self.send_newest_to_those_behind(steps);
            }
            Phase::Writing if !self.is_write && version > newest => {
                self.newest = cell;
                self.phase = Phase::Reading;
            }
            _ => {}
        }
        self.go_on(steps);
    }

    /// A replica has taken the cell of this version that it was sent, or has a `newer` one.
    pub fn written(
        &mut self,
        node: u16,
        version: Version,
        newer: Option<Version>,
        steps: &mut Vec<Step>,
    ) {
        let is_over = self.over().is_some();
        match self.known(node) {
            Some(known) if *known == Known::Sent(version) => {
                *known = match newer {
                    Some(_) if is_over => Known::Refused,
                    newer => Known::Has(newer.max(Some(version))),
                };
            }
            _ => return,
        }
        let newest = self.newest.as_ref().map(|cell| cell.version);
        let is_reading = !self.is_write && self.phase != Phase::Answered;
        if is_reading && newer > newest {
            self.look_again(node, steps);
        } else if self.phase != Phase::Reading
            && (is_reading || self.phase == Phase::Answered)
            && newer.is_none()
            && Some(version) < newest
        {
            self.send_newest(node, steps);
        }
        self.go_on(steps);
    }

    /// A replica cannot be asked, or does not answer in time.
    pub fn failed(&mut self, node: u16, steps: &mut Vec<Step>) {
        let Some(known) = self.known(node) else {
            return;
        };
        if matches!(*known, Known::Asked | Known::Sent(_)) {
            let was_sent = matches!(*known, Known::Sent(_));
            *known = Known::Failed;
            // What may not be written is kept for nobody, until it is known.
            let is_decided = self.over().is_none() || self.phase == Phase::Answered;
            if was_sent
                && is_decided
                && let Some(cell) = self.newest.clone()
            {
                steps.push(Step::Hint(node, cell));
            }
            self.go_on(steps);
        }
    }

    /// The deadline: whoever has not answered has failed, also for what a failure has begun.
    pub fn give_up(&mut self, steps: &mut Vec<Step>) {
        if self.phase == Phase::Choosing {
            self.answer(Answer::TooFew, steps);
        }
        let is_awaited =
            |(_, known): &&(u16, Known)| matches!(known, Known::Asked | Known::Sent(_));
        // A replica that has failed is never awaited again, so this ends.
        while let Some(&(node, _)) = self.replicas.iter().find(is_awaited) {
            self.failed(node, steps);
        }
        if self.phase != Phase::Answered {
            self.answer(Answer::TooFew, steps);
        }
    }

    /// The version that [`Step::Behind`] asked for.
    pub fn behind(&mut self, version: Version, steps: &mut Vec<Step>) {
        let Some(cell) = self
            .newest
            .as_mut()
            .filter(|_| self.phase == Phase::Choosing)
        else {
            return;
        };
        cell.version = version;
        self.phase = Phase::Writing;
        self.send_newest_to_those_behind(steps);
        if self.over().is_none() {
            self.hint_failed(steps);
        }
        self.go_on(steps);
    }

    /// The version over which this writes, if it does.
    fn over(&self) -> Option<Version> {
        match self.only.as_ref()?.step {
            OnlyStep::Over(version) => Some(version),
            _ => None,
        }
    }

    /// Whether nothing is awaited any more.
    pub fn is_over(&self) -> bool {
        let is_awaited = |known: &Known| matches!(known, Known::Asked | Known::Sent(_));
        self.phase == Phase::Answered && !self.replicas.iter().any(|(_, known)| is_awaited(known))
    }

    /// Whether it only reads; also where it was to write and its condition does not hold.
    pub fn is_read(&self) -> bool {
        !self.is_write
    }

    /// Whether it is a write with a condition.
    pub fn has_condition(&self) -> bool {
        self.only.is_some()
    }

    /// Looks whether the phase is over.
    fn go_on(&mut self, steps: &mut Vec<Step>) {
        loop {
            let next = self.next();
            match next {
                Next::Wait => return,
                Next::Answer(answer) => return self.answer(answer, steps),
                Next::Choose(version) => {
                    self.phase = Phase::Choosing;
                    self.may_advance = false;
                    let highest = self.highest();
                    if let Some(only) = &mut self.only {
                        only.step = OnlyStep::Over(highest);
                    }
                    steps.push(Step::Behind(version));
                    return;
                }
                Next::Unmet => {
                    self.is_write = false;
                    if let Some(only) = &mut self.only {
                        only.step = OnlyStep::Unmet;
                        self.newest = only.found.take();
                    }
                }
                Next::Repair => {
                    self.phase = Phase::Writing;
                    self.send_newest_to_those_behind(steps);
                }
            }
        }
    }

    fn answer(&mut self, answer: Answer, steps: &mut Vec<Step>) {
        let is_unsent = self.phase == Phase::Reading && self.is_write;
        let is_refused = matches!(answer, Answer::TooFew | Answer::Conflict);
        if is_unsent || (self.over().is_some() && is_refused) {
            // It is to reach nobody any more.
            self.newest = None;
        }
        self.phase = Phase::Answered;
        steps.push(Step::Answer(answer));
        if self.over().is_some() {
            self.hint_failed(steps);
        }
        // A read has compared enough cells; those of the others are still to be, as they are.
        self.send_newest_to_those_behind(steps);
    }

    /// Sends the newest cell to all that are known to have an older one. For a write that is all that were asked.
    fn send_newest_to_those_behind(&mut self, steps: &mut Vec<Step>) {
        let Some(newest) = &self.newest else {
            return;
        };
        let (is_writing, over) = (self.is_write && self.phase == Phase::Writing, self.over());
        for (node, known) in &mut self.replicas {
            let is_behind = match known {
                Known::Has(version) => *version < Some(newest.version),
                Known::Asked => is_writing,
                Known::Sent(version) => is_writing && *version < newest.version,
                Known::Failed | Known::Refused => false,
            };
            if is_behind {
                *known = Known::Sent(newest.version);
                steps.push(match over {
                    Some(over) if is_writing => Step::WriteOver(*node, newest.clone(), over),
                    _ => Step::Write(*node, newest.clone()),
                });
            }
        }
    }

    fn send_newest(&mut self, node: u16, steps: &mut Vec<Step>) {
        if let Some(newest) = self.newest.clone() {
            let _ = self
                .known(node)
                .map(|known| *known = Known::Sent(newest.version));
            steps.push(Step::Write(node, newest));
        }
    }

    /// Keeps what is written for those that failed before.
    fn hint_failed(&self, steps: &mut Vec<Step>) {
        let failed = self.replicas.iter();
        let failed = failed.filter(|(_, known)| *known == Known::Failed);
        if let Some(cell) = &self.newest {
            steps.extend(failed.map(|(node, _)| Step::Hint(*node, cell.clone())));
        }
    }

    fn known(&mut self, node: u16) -> Option<&mut Known> {
        let mut replicas = self.replicas.iter_mut();
        replicas
            .find(|(other, _)| *other == node)
            .map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests;
