//! One read or write of a key on all of its replicas. Pure: what happens goes in, what to do comes out.
//!
//! ```text
//! get   ask all ── ack cells in ──► same version? ── yes ──────────────────────────► answer
//!                                        └─ no ─► write the newest to the others ─► ack have it ─► answer
//! put   write to all ── ack have it ──► answer            what failed is kept as a hint
//!                └─ one has a newer cell ─► choose a version behind that, write it to all ─► ack have it ─► answer
//! put, reading first     ask all for versions ── ack in ──► write with a version behind them ──► as above
//! ```
//!
//! A write whose clock was behind finds a newer cell where an earlier write was answered, if both had a quorum. It takes a newer
//! version then, once: so a write always wins over those that were answered before it began, however clocks differ.
//!
//! A read that saw replicas differ answers only when `ack` of them have what it answers (read repair). So with quorums, a
//! later read never answers with something older. Cells that come after the answer are compared too, and whoever is
//! behind gets the newest.
//!
//! A write without enough replicas may have reached some of them: it is not undone, and a later read may find it.

use crate::cell::Cell;
use crate::version::Version;

/// How many replicas are asked, and how many have to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    /// Answers that are waited for: 1 to `from`.
    pub ack: usize,
    /// Replicas that are asked.
    pub from: usize,
}

impl Quorum {
    /// The default of a key with `from` replicas: more than half of them.
    pub fn majority(from: usize) -> Self {
        Self {
            ack: from / 2 + 1,
            from,
        }
    }
}

/// What is done to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Finds the newest cell.
    Get,
    /// Writes a cell, with the version that it has.
    Put(Cell),
    /// Writes a cell that replicas may have missed. Where there is a newer one, all is well.
    Repair(Cell),
    /// Writes a cell with a version that is newer than all that the replicas have; that of the cell is the least.
    PutBehind(Cell),
}

/// What has to be done for it. Replicas are numbers of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask a replica for its cell.
    Read(u16),
    /// Have a replica write a cell, unless it has a newer one.
    Write(u16, Cell),
    /// Choose a version behind this one, and go on with [`Coordinator::behind`].
    Behind(Version),
    /// Keep a cell for a replica that did not take it.
    Hint(u16, Cell),
    /// Answer. It comes exactly once.
    Answer(Answer),
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The newest cell of `ack` replicas; `None` when none of them has one.
    Found(Option<Cell>),
    /// `ack` replicas have this version, or a newer one.
    Written(Version),
    /// Fewer than `ack` replicas answered. A write may be on some of them.
    TooFew,
}

/// What is known of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It was asked for its cell.
    Asked,
    /// It has this version, or nothing.
    Has(Option<Version>),
    /// It was sent a cell of this version.
    Sent(Version),
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
    ack: usize,
    replicas: Vec<(u16, Known)>,
    phase: Phase,
    is_write: bool,
    /// The newest cell that is known, or the one that is written.
    newest: Option<Cell>,
    /// Whether a write that finds a newer cell is made again with another version.
    may_advance: bool,
    /// One that was found while `newest`, older than it, is given to more replicas, to be answered.
    later: Option<Cell>,
}

impl Coordinator {
    /// Begins `operation` on `replicas`, of which `ack` have to answer. Those that are down are not asked: `is_up` says so.
    pub fn begin(
        operation: Operation,
        ack: usize,
        replicas: &[u16],
        is_up: impl Fn(u16) -> bool,
        steps: &mut Vec<Step>,
    ) -> Self {
        let may_advance = matches!(operation, Operation::Put(_));
        let (phase, is_write, newest) = match operation {
            Operation::Get => (Phase::Reading, false, None),
            Operation::Put(cell) | Operation::Repair(cell) => (Phase::Writing, true, Some(cell)),
            Operation::PutBehind(cell) => (Phase::Reading, true, Some(cell)),
        };
        let mut this = Self {
            ack,
            phase,
            is_write,
            newest,
            may_advance,
            later: None,
            replicas: Vec::with_capacity(replicas.len()),
        };
        let up = replicas.iter().filter(|node| is_up(**node)).count();
        for &node in replicas {
            // Where it is known that too few would take it, none does: a write that fails at once has left nothing behind.
            let known = match (up >= ack && is_up(node), &this.newest, phase) {
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
        if up >= ack && phase == Phase::Writing {
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
            // Only versions are of interest for a write.
            Phase::Reading if !self.is_write && version > newest => self.newest = cell,
            Phase::Writing | Phase::Answered if version < newest => self.send_newest(node, steps),
            Phase::Answered if version > newest => {
                // It is newer than what was answered. Whoever is known to be behind it gets it.
                self.newest = cell;
                self.send_newest_to_those_behind(steps);
            }
            Phase::Writing if !self.is_write && version > newest => self.later = cell,
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
        match self.known(node) {
            Some(known) if *known == Known::Sent(version) => {
                *known = Known::Has(Some(newer.unwrap_or(version)));
            }
            _ => return,
        }
        let newest = self.newest.as_ref().map(|cell| cell.version);
        if self.phase == Phase::Answered && newer.is_none() && Some(version) < newest {
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
            if was_sent && let Some(cell) = self.newest.clone() {
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
        self.hint_failed(steps);
        self.go_on(steps);
    }

    /// Whether nothing is awaited any more.
    pub fn is_over(&self) -> bool {
        let is_awaited = |known: &Known| matches!(known, Known::Asked | Known::Sent(_));
        self.phase == Phase::Answered && !self.replicas.iter().any(|(_, known)| is_awaited(known))
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
                    steps.push(Step::Behind(version));
                    return;
                }
                Next::Repair => {
                    self.phase = Phase::Writing;
                    self.send_newest_to_those_behind(steps);
                }
            }
        }
    }

    fn next(&self) -> Next {
        let count = |is: &dyn Fn(Known) -> bool| {
            let replicas = self.replicas.iter();
            replicas.filter(|(_, known)| is(*known)).count()
        };
        let has_cell = |known| matches!(known, Known::Has(_));
        let newest = self.newest.as_ref().map(|cell| cell.version);
        let has_newest = |known| matches!(known, Known::Has(version) if version >= newest);
        let may_answer = count(&|known| known != Known::Failed);
        match self.phase {
            Phase::Choosing | Phase::Answered => Next::Wait,
            _ if may_answer < self.ack => Next::Answer(Answer::TooFew),
            Phase::Reading if count(&has_cell) < self.ack => Next::Wait,
            Phase::Reading if self.is_write => {
                Next::Choose(self.highest().max(newest.unwrap_or_default()))
            }
            Phase::Reading if count(&has_newest) >= self.ack => {
                Next::Answer(Answer::Found(self.newest.clone()))
            }
            Phase::Reading => Next::Repair,
            Phase::Writing if count(&has_newest) < self.ack => Next::Wait,
            // Only now: of `ack` replicas, one has each write that was answered before.
            Phase::Writing if self.may_advance && Some(self.highest()) > newest => {
                Next::Choose(self.highest())
            }
            Phase::Writing if self.is_write => {
                Next::Answer(Answer::Written(newest.unwrap_or_default()))
            }
            Phase::Writing => Next::Answer(Answer::Found(self.newest.clone())),
        }
    }

    /// The newest version that a replica is known to have.
    fn highest(&self) -> Version {
        let versions = self.replicas.iter().filter_map(|(_, known)| match known {
            Known::Has(version) => *version,
            _ => None,
        });
        versions.max().unwrap_or_default()
    }

    fn answer(&mut self, answer: Answer, steps: &mut Vec<Step>) {
        if self.phase == Phase::Reading && self.is_write {
            // It was sent to nobody, and is to reach nobody.
            self.newest = None;
        }
        self.phase = Phase::Answered;
        steps.push(Step::Answer(answer));
        if let Some(later) = self.later.take() {
            self.newest = Some(later);
        }
        // A read has compared `ack` cells; those of the others are still to be, as they are.
        self.send_newest_to_those_behind(steps);
    }

    /// Sends the newest cell to all that are known to have an older one. For a write that is all that were asked.
    fn send_newest_to_those_behind(&mut self, steps: &mut Vec<Step>) {
        let Some(newest) = &self.newest else {
            return;
        };
        let is_writing = self.is_write && self.phase == Phase::Writing;
        for (node, known) in &mut self.replicas {
            let is_behind = match known {
                Known::Has(version) => *version < Some(newest.version),
                Known::Asked => is_writing,
                Known::Sent(version) => is_writing && *version < newest.version,
                Known::Failed => false,
            };
            if is_behind {
                *known = Known::Sent(newest.version);
                steps.push(Step::Write(*node, newest.clone()));
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

enum Next {
    Wait,
    Answer(Answer),
    Choose(Version),
    Repair,
}

#[cfg(test)]
mod tests;
