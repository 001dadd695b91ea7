//! What clients asked of this node, counted. Nothing is decided by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_gateway::service::{StoreOperations, StoreOutcomes};

use crate::coordinator::Answer;
use crate::engine::EngineError;
use crate::frame::What;
use crate::wall::unix_ms;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put,
    Delete,
}

impl Kind {
    pub(crate) fn of(what: &What) -> Self {
        match what {
            What::Get => Self::Get,
            What::Put { .. } => Self::Put,
            What::Delete => Self::Delete,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Ok,
    NotFound,
    Unmet,
    Conflict,
    TooFew,
    Busy,
    Refused,
    Failed,
}

const ENDS: usize = Ended::Failed as usize + 1;

impl Ended {
    pub(crate) fn of(outcome: &Result<Answer, EngineError>) -> Self {
        match outcome {
            Ok(answer) => Self::of_answer(answer),
            Err(error) => Self::of_error(error),
        }
    }

    pub(crate) fn of_answer(answer: &Answer) -> Self {
        match answer {
            Answer::Found(Some(cell)) if cell.at(unix_ms()).is_some() => Self::Ok,
            Answer::Found(_) => Self::NotFound,
            Answer::Written(_) => Self::Ok,
            Answer::Unmet(_) => Self::Unmet,
            Answer::Conflict => Self::Conflict,
            Answer::TooFew => Self::TooFew,
        }
    }

    pub(crate) fn of_error(error: &EngineError) -> Self {
        match error {
            EngineError::Busy => Self::Busy,
            EngineError::Refused(_) | EngineError::NoRanges | EngineError::NoConditions => {
                Self::Refused
            }
            EngineError::Failed(_) => Self::Failed,
        }
    }

    /// What came of a read that found out how it is, by the status of its answer.
    pub(crate) fn of_read(status: u16) -> Self {
        match status {
            404 => Self::NotFound,
            412 => Self::Unmet,
            _ => Self::Ok,
        }
    }
}

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ended: [[AtomicU64; ENDS]; 3],
    under_way: AtomicU64,
    /// Writes that another node was asked to make.
    pub(crate) forwarded: AtomicU64,
    /// Writes that took a newer version than the clock gave.
    pub(crate) advanced: AtomicU64,
    /// Cells that reads have given to replicas.
    pub(crate) read_repairs: AtomicU64,
}

impl Tally {
    /// Something was done at once.
    pub(crate) fn note(&self, kind: Kind, ended: Ended) {
        more(&self.ended[kind as usize][ended as usize]);
    }

    /// Something begins that takes a while.
    pub(crate) fn begin(self: &Arc<Self>, kind: Kind) -> Begun {
        more(&self.under_way);
        let tally = Arc::clone(self);
        let ended = Ended::Failed;
        Begun { tally, kind, ended }
    }

    pub(crate) fn read(&self) -> StoreOperations {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let outcomes = |kind: Kind| {
            let count = |ended: Ended| read(&self.ended[kind as usize][ended as usize]);
            StoreOutcomes {
                ok: count(Ended::Ok),
                not_found: count(Ended::NotFound),
                unmet: count(Ended::Unmet),
                conflict: count(Ended::Conflict),
                too_few: count(Ended::TooFew),
                busy: count(Ended::Busy),
                refused: count(Ended::Refused),
                failed: count(Ended::Failed),
            }
        };
        StoreOperations {
            get: outcomes(Kind::Get),
            put: outcomes(Kind::Put),
            delete: outcomes(Kind::Delete),
            under_way: read(&self.under_way),
            forwarded: read(&self.forwarded),
            advanced: read(&self.advanced),
            read_repairs: read(&self.read_repairs),
        }
    }
}

/// One more.
pub(crate) fn more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Something that is under way. One that is dropped without an end has failed.
#[derive(Debug)]
pub(crate) struct Begun {
    tally: Arc<Tally>,
    kind: Kind,
    ended: Ended,
}

impl Begun {
    pub(crate) fn end(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.tally.note(self.kind, self.ended);
        self.tally.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::version::Version;

    #[test]
    fn each_is_counted_once_by_what_came_of_it() {
        let tally: Arc<Tally> = Arc::default();
        let cell = |expires_ms| Cell {
            version: Version::default(),
            expires_ms,
            value: Some(bytes::Bytes::new()),
        };
        let outcomes = [
            Ok(Answer::Found(Some(cell(None)))),
            Ok(Answer::Found(Some(cell(Some(1))))),
            Ok(Answer::Found(None)),
            Ok(Answer::Unmet(None)),
            Ok(Answer::Conflict),
            Ok(Answer::TooFew),
            Err(EngineError::Busy),
            Err(EngineError::NoConditions),
            Err(EngineError::Failed(String::new())),
        ];
        for outcome in outcomes {
            let begun = tally.begin(Kind::Get);
            assert_eq!(tally.read().under_way, 1);
            begun.end(Ended::of(&outcome));
        }
        drop(tally.begin(Kind::Delete));
        tally.note(Kind::Put, Ended::of_read(404));
        let counted = tally.read();
        let counts = |outcomes: StoreOutcomes| outcomes.named().map(|(_, count)| count);
        assert_eq!(counts(counted.get), [1, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(counts(counted.put), [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(counts(counted.delete), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counted.under_way, 0);
    }
}
