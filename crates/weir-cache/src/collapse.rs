//! How a request goes about an answer that another one is asking for (request collapsing, RFC 9111 §4): how often it joins
//! others before it asks by itself, and when somebody asks in the place of one that is late.
//!
//! Joining can come to nothing again and again. An origin whose `Vary` differs from answer to answer makes a request that has
//! joined one fill want another variant, and then the first one again; leaders leave; answers turn out to be private. So
//! every request has a number of looks, after which it asks the origin as if there were no cache: [`Collapse`].
//!
//! A leader may be late for a reason of its own, and those who wait know nothing of that. When it has taken longer than is
//! usual, one of them asks in its place, and all go by whichever answer comes first. If that one is late too, the next
//! goes, each time after four times as long: a crowd that waits for an origin which has become slow sends it a few requests, and
//! not all of them at once: [`Relief`].

mod told;

use std::time::{Duration, Instant};

pub use told::{Told, Unanswered, may_have};

/// How often a request joins others. Two are common: the first tells it by which fields the origin chooses its variant.
pub const JOINS_MAX: u8 = 3;
/// How often a request looks for what is stored; also where it does not join, since something may have come meanwhile.
pub const LOOKS_MAX: u8 = JOINS_MAX + 2;
/// Fills that may fail before a request that waits is told so.
const FAILURES_MAX: u8 = 1;

/// One request's way through what is stored and what others ask for, which begins with a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collapse {
    looks: u8,
    joins: u8,
    failures: u8,
    is_alone: bool,
}

/// Why a look, or waiting for another request, came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// The answer is not for others, or is another variant, or its leader has left.
    Unshared,
    /// The leader got no answer.
    OriginFailed,
    /// The leader got an error, which is for nobody else: everybody hears it from the origin. To wait for another one would
    /// cost each the time of two answers.
    OriginErred,
    /// No answer came for as long as a request waits at all.
    WaitedTooLong,
    /// The leader is late, and this request is the one that asks in its place.
    LeaderLate,
    /// The answer had begun before this request came, and is not fresh enough for it by now.
    NotFresh,
    /// What was found could not be read.
    StoreFailed,
    /// Somebody else has had the answer stored between the look and the right to ask for it.
    StoredMeanwhile,
    /// The part that the client wants is far from having arrived.
    FarAway,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To look again.
    Look,
    /// To ask the origin as if there were no cache.
    Pass,
    /// To tell the client that there is no answer.
    Fail,
}

impl Collapse {
    /// Whether the request may wait for another one, or only ask.
    pub fn may_join(&self) -> bool {
        !self.is_alone && self.joins < JOINS_MAX
    }

    /// The request waits for another one.
    pub fn joins(&mut self) {
        self.joins = self.joins.saturating_add(1);
    }

    /// What follows when a look or a wait came to nothing. There is a bounded number of looks.
    pub fn next(&mut self, why: Nothing) -> Next {
        match why {
            Nothing::OriginFailed if self.failures == FAILURES_MAX => return Next::Fail,
            Nothing::WaitedTooLong => return Next::Fail,
            Nothing::FarAway => return Next::Pass,
            Nothing::OriginFailed => self.failures += 1,
            Nothing::OriginErred | Nothing::LeaderLate | Nothing::NotFresh => self.is_alone = true,
            Nothing::Unshared | Nothing::StoreFailed | Nothing::StoredMeanwhile => {}
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS_MAX {
            Next::Look
        } else {
            Next::Pass
        }
    }
}

/// When somebody asks in the place of a leader that is late.
#[derive(Debug, Clone, Copy, Default)]
pub struct Relief {
    /// When the next one may, and how long after the one before that is.
    next: Option<(Instant, Duration)>,
}

/// How many times as long after one of them the next goes, as that went after the one before.
const RELIEF_GROWTH: u32 = 4;
/// The longest time between two of them.
const RELIEF_AFTER_MAX: Duration = Duration::from_secs(60);

impl Relief {
    /// Asked by whoever has waited for `patience` or longer: it is the one that asks now.
    ///
    /// # Errors
    /// Somebody does already. This is when to come again.
    pub fn take(&mut self, now: Instant, patience: Duration) -> Result<(), Instant> {
        let after = match self.next {
            Some((due, _)) if now < due => return Err(due),
            Some((_, after)) => after.saturating_mul(RELIEF_GROWTH),
            None => patience,
        };
        let after = after.clamp(Duration::from_millis(1), RELIEF_AFTER_MAX);
        self.next = Some((now + after, after));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Nothing; 9] = [
        Nothing::Unshared,
        Nothing::OriginFailed,
        Nothing::OriginErred,
        Nothing::WaitedTooLong,
        Nothing::LeaderLate,
        Nothing::NotFresh,
        Nothing::StoreFailed,
        Nothing::StoredMeanwhile,
        Nothing::FarAway,
    ];

    /// Looks and joins until something else follows; `event` says what each came to.
    fn walk(mut event: impl FnMut(u8) -> Nothing) -> (u8, u8, Next) {
        let (mut request, mut joins) = (Collapse::default(), 0);
        for look in 1..=u8::MAX {
            if request.may_join() {
                request.joins();
                joins += 1;
            }
            match request.next(event(look)) {
                Next::Look => {}
                end => return (look, joins, end),
            }
        }
        panic!("it goes round for ever");
    }

    #[test]
    fn what_a_request_does_after_nothing() {
        let cases = [
            (Nothing::Unshared, (LOOKS_MAX, JOINS_MAX, Next::Pass)),
            (Nothing::StoreFailed, (LOOKS_MAX, JOINS_MAX, Next::Pass)),
            (Nothing::StoredMeanwhile, (LOOKS_MAX, JOINS_MAX, Next::Pass)),
            (Nothing::OriginErred, (LOOKS_MAX, 1, Next::Pass)),
            (Nothing::LeaderLate, (LOOKS_MAX, 1, Next::Pass)),
            (Nothing::NotFresh, (LOOKS_MAX, 1, Next::Pass)),
            (Nothing::FarAway, (1, 1, Next::Pass)),
            (Nothing::OriginFailed, (2, 2, Next::Fail)),
            (Nothing::WaitedTooLong, (1, 1, Next::Fail)),
        ];
        for (why, expected) in cases {
            assert_eq!(walk(|_| why), expected, "{why:?}");
        }
    }

    #[test]
    fn whatever_comes_it_ends() {
        for seed in 0..10_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (looks, joins, _) = walk(|_| ALL[random.usize(..ALL.len())]);
            assert!(looks <= LOOKS_MAX && joins <= JOINS_MAX, "seed {seed}");
        }
    }

    #[test]
    fn a_crowd_relieves_a_leader_one_by_one_and_ever_more_seldom() {
        let start = start();
        let (mut relief, patience) = (Relief::default(), Duration::from_millis(100));
        // A hundred who wait, each of whom looks every millisecond from its own deadline on.
        let asked: Vec<u64> = (100..30_000)
            .filter(|&ms| {
                let now = start + Duration::from_millis(ms);
                let asking = (0..100).filter(|_| relief.take(now, patience).is_ok());
                match asking.count() {
                    0 => false,
                    count => count == 1 || panic!("{count} at once"),
                }
            })
            .collect();
        assert_eq!(asked, [100, 200, 600, 2200, 8600]);
    }

    #[test]
    fn who_comes_too_early_is_told_when_to_come_again() {
        let start = start();
        let (mut relief, patience) = (Relief::default(), Duration::from_secs(1));
        assert_eq!(relief.take(start, patience), Ok(()));
        let due = start + patience;
        assert_eq!(relief.take(start, Duration::ZERO), Err(due));
        assert_eq!(relief.take(due, Duration::ZERO), Ok(()));
        assert_eq!(relief.take(due, patience), Err(due + 4 * patience));
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test needs some moment to begin with"
    )]
    fn start() -> Instant {
        Instant::now()
    }
}
