//! What all workers know about an endpoint that refuses connections, or that checks found to be down: whether, and
//! until when, it is avoided.
//!
//! It is three atomics for each endpoint, read once for each choice and written only when something fails or recovers.
//! So their cache line stays shared by all workers while all is well.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use weir_policy::balance::preference::Standing;
use weir_policy::health::Backoff;

/// Growing waits of an endpoint that refuses connections: short enough that a restarted server is used again within
/// seconds.
const BACKOFF: Backoff = Backoff {
    first: Backoff::FIRST_DEFAULT,
    max: Backoff::MAX_DEFAULT,
};

/// The health of one endpoint. Times are milliseconds since the gateway started.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: AtomicU32,
    down_until_ms: AtomicU64,
    /// The result of its checks, if there are any.
    is_checked_down: AtomicBool,
}

impl Health {
    /// The worst that is known of it here: it may stand out among its siblings, or be leaving.
    pub(crate) fn standing(&self, now_ms: u64) -> Standing {
        if !self.is_checked_up() {
            Standing::Down
        } else if self.down_until_ms.load(Ordering::Relaxed) > now_ms {
            Standing::Waiting
        } else {
            Standing::Well
        }
    }

    /// Whether requests may go there; also true when its wait is over and it has to prove itself.
    pub(crate) fn is_available(&self, now_ms: u64) -> bool {
        self.standing(now_ms) == Standing::Well
    }

    /// Whether no check says that it is down.
    pub(crate) fn is_checked_up(&self) -> bool {
        !self.is_checked_down.load(Ordering::Relaxed)
    }

    /// Sets the result of its checks.
    pub(crate) fn checked(&self, is_up: bool) {
        self.is_checked_down.store(!is_up, Ordering::Relaxed);
    }

    /// Whether it has no failures, so that no trial is needed.
    pub(crate) fn is_trusted(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// Permission to connect. An endpoint whose wait is over is tried by one request at a time: the others go elsewhere
    /// for as long as the attempt may take.
    pub(crate) fn leave(&self, now_ms: u64, attempt: Duration) -> Option<Leave> {
        if self.is_trusted() {
            return Some(Leave::Usual);
        }
        let until = self.down_until_ms.load(Ordering::Relaxed);
        let next = now_ms + attempt.as_millis() as u64;
        let is_mine = until <= now_ms
            && self
                .down_until_ms
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        is_mine.then_some(Leave::Trial)
    }

    /// A connection was opened.
    pub(crate) fn connected(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.down_until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// A connection was refused, or was not open in time. If many usual attempts fail at once, only the first counts;
    /// after that, only trials do.
    pub(crate) fn refused(&self, leave: Leave, now_ms: u64, random: &mut fastrand::Rng) {
        let counted = match leave {
            Leave::Usual => self
                .failures
                .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
                .map(|_| 1),
            Leave::Trial => Ok(self.failures.fetch_add(1, Ordering::Relaxed) + 1),
        };
        if let Ok(failures) = counted {
            let wait = BACKOFF.after(failures, random).as_millis() as u64;
            self.down_until_ms.store(now_ms + wait, Ordering::Relaxed);
        }
    }
}

/// Why a connection to an endpoint is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It has no failures.
    Usual,
    /// It refused connections before, and its wait is over.
    Trial,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: Duration = Duration::from_secs(1);

    #[test]
    fn checks_weigh_more_than_a_wait() {
        let (health, mut random) = (Health::default(), fastrand::Rng::with_seed(1));
        assert_eq!(health.standing(0), Standing::Well);
        health.refused(Leave::Usual, 0, &mut random);
        assert_eq!(health.standing(0), Standing::Waiting);
        health.checked(false);
        assert_eq!(health.standing(0), Standing::Down);
        assert_eq!(health.standing(500), Standing::Down, "the wait is over");
        health.checked(true);
        assert_eq!(health.standing(500), Standing::Well);
    }

    #[test]
    fn one_request_at_a_time_tries_an_endpoint_that_refused() {
        let (health, mut random) = (Health::default(), fastrand::Rng::with_seed(1));
        assert_eq!(health.leave(0, ATTEMPT), Some(Leave::Usual));
        for _ in 0..50 {
            health.refused(Leave::Usual, 0, &mut random);
        }
        assert!(!health.is_available(300), "fifty refusals at once are one");
        assert!(health.is_available(500));
        assert_eq!(health.leave(500, ATTEMPT), Some(Leave::Trial));
        assert_eq!(health.leave(500, ATTEMPT), None);
        health.refused(Leave::Trial, 510, &mut random);
        assert!(!health.is_available(510 + 700), "the wait has doubled");
        assert_eq!(health.leave(1600, ATTEMPT), Some(Leave::Trial));
        health.connected();
        assert_eq!(health.leave(1600, ATTEMPT), Some(Leave::Usual));
    }
}
