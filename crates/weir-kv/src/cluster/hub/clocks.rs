//! What the clocks of other nodes say, beside those of this one.
//!
//! A version that is far ahead of a node's clock is refused by it. So a node whose clock is wrong must not give any: others could
//! neither keep nor replace what it has written. Nor one whose clock was wrong and is right again, since its versions go on from where
//! they were. It does not look at a clock itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::frame;
use crate::version::AHEAD_MS_MAX;

/// Clocks that differ by more do not work together. It is less than what is refused, as they go on.
const OFF_MS: u64 = AHEAD_MS_MAX / 2;

/// What is known of each node's clocks. The hub hears of them, and others look at it.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Clocks(Mutex<HashMap<u16, Known>>);

#[derive(Debug, Clone, Copy)]
struct Known {
    wall_ms: u64,
    heard: Instant,
    /// By how many milliseconds it is ahead of this node: the wall clock or that of versions, whichever differs more.
    ahead_ms: i64,
}

impl Clocks {
    /// What the clocks of a node have said, when that was heard, and what those of this one say now.
    pub(super) fn tell(
        &self,
        node: u16,
        (its, heard): (frame::Clocks, Instant),
        own: frame::Clocks,
    ) {
        let ahead =
            |its_ms: u64, own_ms: u64| its_ms.cast_signed().saturating_sub(own_ms.cast_signed());
        let wall_ms = ahead(its.wall_ms, own.wall_ms);
        let version_ms = ahead(its.version_ms, own.version_ms);
        let known = Known {
            wall_ms: its.wall_ms,
            heard,
            ahead_ms: if version_ms.unsigned_abs() > wall_ms.unsigned_abs() {
                version_ms
            } else {
                wall_ms
            },
        };
        self.lock().insert(node, known);
    }

    /// It is not known what the clocks of a node say.
    pub(super) fn forget(&self, node: u16) {
        self.lock().remove(&node);
    }

    /// What a node's wall clock says then, if it is known; or a little less, since what it has said was on its way for a moment.
    pub(super) fn wall_at(&self, node: u16, then: Instant) -> Option<u64> {
        let known = self.lock().get(&node).copied()?;
        let since = then.saturating_duration_since(known.heard);
        Some(known.wall_ms.saturating_add(since.as_millis() as u64))
    }

    /// Whether a node's clocks are known, and differ little from those of this one.
    pub(in crate::cluster) fn is_near(&self, node: u16) -> bool {
        let known = self.lock().get(&node).copied();
        known.is_some_and(|known| known.ahead_ms.unsigned_abs() <= OFF_MS)
    }

    /// Whether it is this node whose clocks are wrong: those of more than half of the others differ, and by about the same.
    pub(super) fn is_own_off(&self) -> bool {
        let mut off: Vec<i64> = self.lock().values().map(|known| known.ahead_ms).collect();
        let nodes = off.len();
        off.retain(|ahead_ms| ahead_ms.unsigned_abs() > OFF_MS);
        off.sort_unstable();
        let count = nodes / 2 + 1;
        let agree = |group: &[i64]| group[count - 1].abs_diff(group[0]) <= OFF_MS;
        // Of two nodes, nobody knows which.
        nodes > 1 && off.windows(count).any(agree)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OWN: frame::Clocks = frame::Clocks {
        wall_ms: 10_000_000,
        version_ms: 10_000_000,
    };

    /// Clocks that are ahead by so much, the wall clock and that of versions.
    fn ahead_of(own: frame::Clocks, wall_ms: i64, version_ms: i64) -> frame::Clocks {
        frame::Clocks {
            wall_ms: own.wall_ms.saturating_add_signed(wall_ms),
            version_ms: own.version_ms.saturating_add_signed(version_ms),
        }
    }

    fn clocks(ahead_ms: &[i64]) -> Clocks {
        let clocks = Clocks::default();
        for (node, ahead_ms) in (2..).zip(ahead_ms) {
            let its = ahead_of(OWN, *ahead_ms, *ahead_ms);
            clocks.tell(node, (its, Instant::now()), OWN);
        }
        clocks
    }

    #[test]
    fn whoever_is_alone_with_its_clock_is_wrong() {
        for (ahead_ms, is_own_off) in [
            (&[][..], false),
            (&[0, 5], false),
            (&[-90_000, -91_000], true),
            (&[90_000, 88_000], true),
            // The others do not agree either: one of them is wrong.
            (&[90_000, 0], false),
            (&[90_000, -90_000], false),
            (&[90_000], false),
            (&[90_000, 90_000, 0, 0], false),
            (&[90_000, 90_000, 90_000, 0], true),
        ] {
            assert_eq!(clocks(ahead_ms).is_own_off(), is_own_off, "{ahead_ms:?}");
        }
        let clocks = clocks(&[40_000, 20_000]);
        assert!(!clocks.is_near(2) && clocks.is_near(3));
        assert!(!clocks.is_near(9), "nothing is known of it");
        clocks.forget(3);
        assert!(!clocks.is_near(3));
    }

    #[test]
    fn a_clock_that_was_ahead_is_wrong_as_long_as_its_versions_are() {
        let others = Clocks::default();
        let own = Clocks::default();
        for node in 2..4 {
            // The wall clock of node 1 was put back, and its versions go on from where they were.
            let was_ahead = ahead_of(OWN, 0, 3_600_000);
            own.tell(node, (OWN, Instant::now()), was_ahead);
            others.tell(1, (was_ahead, Instant::now()), OWN);
            others.tell(node, (OWN, Instant::now()), OWN);
        }
        assert!(own.is_own_off());
        assert!(!others.is_own_off() && !others.is_near(1) && others.is_near(2));
    }

    #[test]
    fn a_wall_clock_is_told_on_from_when_it_was_heard() {
        let clocks = Clocks::default();
        let heard = Instant::now();
        clocks.tell(2, (ahead_of(OWN, 7, 9_999), heard), OWN);
        let then = heard + Duration::from_millis(250);
        assert_eq!(clocks.wall_at(2, then), Some(10_000_257));
        assert_eq!(clocks.wall_at(3, then), None);
    }
}
