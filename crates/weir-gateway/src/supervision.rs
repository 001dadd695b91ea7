//! Finds workers that will not serve anybody any more. A gateway that goes on with half of its workers looks healthy
//! from outside, and keeps every second client waiting.

use std::fmt;
use std::time::Duration;

/// A worker that stood still at this many checks in a row is given up. If the whole process was stopped, no checks were
/// made either.
const LOOKS_MAX: u32 = 30;

/// Why a gateway should end, so that its supervisor restarts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerFailed {
    /// The thread of this worker has ended by a panic.
    Ended(usize),
    /// This worker has not turned for this many checks.
    Stuck(usize, u32),
}

impl fmt::Display for WorkerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(worker) => write!(f, "worker {worker} has panicked"),
            Self::Stuck(worker, looks) => {
                let for_s = Supervision::LOOK_EVERY.as_secs() * u64::from(*looks);
                write!(f, "worker {worker} has not turned for {for_s} s")
            }
        }
    }
}

/// Checks the workers of a gateway, every [`Supervision::LOOK_EVERY`].
#[derive(Debug, Default)]
pub struct Supervision {
    /// At how many checks in a row each worker stood still.
    stood_still: Vec<u32>,
}

impl Supervision {
    /// How often to look.
    pub const LOOK_EVERY: Duration = Duration::from_secs(1);

    /// Takes for each worker whether its thread has ended and whether it stands still. Returns the one that has failed,
    /// if any.
    pub(crate) fn look(
        &mut self,
        workers: impl Iterator<Item = (bool, bool)>,
    ) -> Option<WorkerFailed> {
        let mut failed = None;
        for (worker, (has_ended, stands_still)) in workers.enumerate() {
            if worker == self.stood_still.len() {
                self.stood_still.push(0);
            }
            let looks = &mut self.stood_still[worker];
            *looks = if stands_still { *looks + 1 } else { 0 };
            let why = if has_ended {
                Some(WorkerFailed::Ended(worker))
            } else {
                (*looks >= LOOKS_MAX).then_some(WorkerFailed::Stuck(worker, *looks))
            };
            failed = failed.or(why);
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_given_up_when_it_has_ended_or_stood_still_for_long() {
        let mut supervision = Supervision::default();
        let (well, still) = ((false, false), (false, true));
        let mut look = |workers: [(bool, bool); 2]| supervision.look(workers.into_iter());
        for _ in 1..LOOKS_MAX {
            assert_eq!(look([well, still]), None);
        }
        assert_eq!(look([well, well]), None, "it has turned");
        for _ in 1..LOOKS_MAX {
            assert_eq!(look([well, still]), None);
        }
        let failed = look([well, still]).expect("it is stuck");
        assert_eq!(failed.to_string(), "worker 1 has not turned for 30 s");
        let failed = look([(true, true), well]).expect("it has ended");
        assert_eq!(failed.to_string(), "worker 0 has panicked");
    }
}
