//! What all workers know about an endpoint that refuses connections, or that checks found to be down: whether, and
//! until when, it is avoided.
//!
//! It is a few atomics for each endpoint, read once for each choice and written only when something fails or recovers.
//! So their cache line stays shared by all workers while all is well.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;

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
    /// When it refused last, and what the system said then.
    refused_ms: AtomicU64,
    errno: AtomicI32,
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

    /// Whether it is known to be well: nothing speaks against it, or a connection stood since something did.
    pub(crate) fn is_up(&self) -> bool {
        self.is_trusted() && self.is_checked_up()
    }

    /// How it refused, if no connection stood since.
    pub(crate) fn refusal(&self, now_ms: u64) -> Option<Refusal> {
        let until = self.down_until_ms.load(Ordering::Relaxed);
        let refused = self.refused_ms.load(Ordering::Relaxed);
        self.errno()
            .filter(|_| !self.is_trusted())
            .map(|errno| Refusal {
                errno,
                ago_ms: now_ms.saturating_sub(refused),
                wait_ms: until.saturating_sub(now_ms),
            })
    }

    /// What the system said when it refused last, if it ever did.
    pub(crate) fn errno(&self) -> Option<Errno> {
        let errno = self.errno.load(Ordering::Relaxed);
        (errno != 0).then(|| Errno::from_raw_os_error(errno))
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

    /// A connection was opened. Says whether that is news.
    pub(crate) fn connected(&self) -> bool {
        if self.is_trusted() {
            return false;
        }
        self.down_until_ms.store(0, Ordering::Relaxed);
        self.failures.swap(0, Ordering::Relaxed) != 0
    }

    /// A connection was refused, or was not open in time. If many usual attempts fail at once, only the first counts;
    /// after that, only trials do. Says whether it is the first since one stood.
    pub(crate) fn refused(
        &self,
        leave: Leave,
        (now_ms, errno): (u64, Errno),
        random: &mut fastrand::Rng,
    ) -> bool {
        self.errno.store(errno.raw_os_error(), Ordering::Relaxed);
        self.refused_ms.store(now_ms, Ordering::Relaxed);
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
        counted == Ok(1)
    }
}

/// How an endpoint refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    /// When it last did.
    pub(crate) ago_ms: u64,
    /// Until a request tries it; zero from then on, until one has.
    pub(crate) wait_ms: u64,
}

/// The name of what the system says when it opens no connection, as `errno(3)` has it; `None` for what is rarely said.
pub(crate) fn errno_name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::CONNREFUSED => "ECONNREFUSED",
        Errno::CONNRESET => "ECONNRESET",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::HOSTUNREACH => "EHOSTUNREACH",
        Errno::NETUNREACH => "ENETUNREACH",
        Errno::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        Errno::NOENT => "ENOENT",
        Errno::ACCESS => "EACCES",
        Errno::PERM => "EPERM",
        Errno::AGAIN => "EAGAIN",
        _ => return None,
    })
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
        health.refused(Leave::Usual, (0, Errno::CONNREFUSED), &mut random);
        assert_eq!(health.standing(0), Standing::Waiting);
        health.checked(false);
        assert_eq!(health.standing(0), Standing::Down);
        assert_eq!(health.standing(500), Standing::Down, "the wait is over");
        health.checked(true);
        assert_eq!(health.standing(500), Standing::Well);
    }

    #[test]
    fn who_refused_is_not_up_before_a_connection_stands() {
        let (health, mut random) = (Health::default(), fastrand::Rng::with_seed(1));
        let said = |ms| (ms, Errno::CONNREFUSED);
        assert!(health.is_up() && health.refusal(0).is_none());
        assert!(health.refused(Leave::Usual, said(0), &mut random));
        assert!(!health.refused(Leave::Usual, said(1), &mut random));
        assert!(!health.is_up());
        let refusal = health.refusal(60_000).expect("it refused");
        assert_eq!((refusal.ago_ms, refusal.wait_ms), (59_999, 0));
        assert!(
            health.standing(60_000) == Standing::Well,
            "a request may try it"
        );
        assert!(!health.is_up(), "nobody has asked");
        assert!(health.connected(), "that is news");
        assert!(!health.connected(), "and now it is known");
        assert!(health.is_up() && health.refusal(60_000).is_none());
    }

    #[test]
    fn one_request_at_a_time_tries_an_endpoint_that_refused() {
        let (health, mut random) = (Health::default(), fastrand::Rng::with_seed(1));
        assert_eq!(health.leave(0, ATTEMPT), Some(Leave::Usual));
        for _ in 0..50 {
            health.refused(Leave::Usual, (0, Errno::CONNREFUSED), &mut random);
        }
        assert!(
            health.standing(300) != Standing::Well,
            "fifty refusals at once are one"
        );
        assert!(health.standing(500) == Standing::Well);
        assert_eq!(health.leave(500, ATTEMPT), Some(Leave::Trial));
        assert_eq!(health.leave(500, ATTEMPT), None);
        health.refused(Leave::Trial, (510, Errno::CONNREFUSED), &mut random);
        assert!(
            health.standing(510 + 700) != Standing::Well,
            "the wait has doubled"
        );
        assert_eq!(health.leave(1600, ATTEMPT), Some(Leave::Trial));
        health.connected();
        assert_eq!(health.leave(1600, ATTEMPT), Some(Leave::Usual));
    }
}
