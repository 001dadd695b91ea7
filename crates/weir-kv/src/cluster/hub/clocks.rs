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
    its: frame::Clocks,
    heard: Instant,
    /// By how many milliseconds its wall clock is ahead of that of this node, and its clock of versions.
    wall_ahead_ms: i64,
    versions_ahead_ms: i64,
}

/// Which clock of this node is wrong, as far as the others know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Off {
    /// None is.
    Nothing,
    /// Its versions: it makes no writes.
    Versions,
    /// The wall clock: it does not know either what has expired.
    Wall,
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
        let known = Known {
            its,
            heard,
            wall_ahead_ms: ahead(its.wall_ms, own.wall_ms),
            versions_ahead_ms: ahead(its.version_ms, own.version_ms),
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
        Some(known.its.wall_ms.saturating_add(since.as_millis() as u64))
    }

    /// Whether a node's clocks are known, and differ little from those of this one.
    pub(in crate::cluster) fn is_near(&self, node: u16) -> bool {
        let known = self.lock().get(&node).copied();
        known.is_some_and(|known| is_near(known.wall_ahead_ms) && is_near(known.versions_ahead_ms))
    }

    /// Whether others take a version of this time, in milliseconds since 1970.
    pub(super) fn take(&self, version_ms: u64, own_wall_ms: u64) -> bool {
        let is_near = |ms: u64| version_ms.saturating_sub(ms) <= AHEAD_MS_MAX;
        // Where all wall clocks were put back, versions of all go on from where they were.
        let knows = |known: &Known| is_near(known.its.version_ms);
        is_near(own_wall_ms) || self.lock().values().any(knows)
    }

    /// Whether it is this node whose clocks are wrong.
    pub(super) fn own_off(&self) -> Off {
        let known: Vec<Known> = self.lock().values().copied().collect();
        let walls = known.iter().map(|known| known.wall_ahead_ms).collect();
        if most_agree_that_it_is_off(walls) {
            return Off::Wall;
        }
        let versions = known.iter().map(|known| known.versions_ahead_ms).collect();
        // Where wall clocks are alike, the clock of versions that is ahead of all others is wrong.
        let is_ahead = |known: &Known| {
            is_near(known.wall_ahead_ms) && known.versions_ahead_ms < -OFF_MS.cast_signed()
        };
        let is_ahead_of_all = !known.is_empty() && known.iter().all(is_ahead);
        if is_ahead_of_all || most_agree_that_it_is_off(versions) {
            return Off::Versions;
        }
        Off::Nothing
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_near(ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() <= OFF_MS
}

/// Whether the clocks of more than half of the others differ from that of this node, and by about the same.
fn most_agree_that_it_is_off(mut ahead_ms: Vec<i64>) -> bool {
    let nodes = ahead_ms.len();
    ahead_ms.retain(|ahead_ms| !is_near(*ahead_ms));
    ahead_ms.sort_unstable();
    let count = nodes / 2 + 1;
    let agree = |group: &[i64]| group[count - 1].abs_diff(group[0]) <= OFF_MS;
    // Of two nodes, nobody knows which.
    nodes > 1 && ahead_ms.windows(count).any(agree)
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
            let off = if is_own_off { Off::Wall } else { Off::Nothing };
            assert_eq!(clocks(ahead_ms).own_off(), off, "{ahead_ms:?}");
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
        assert_eq!(own.own_off(), Off::Versions);
        assert_eq!(others.own_off(), Off::Nothing);
        assert!(!others.is_near(1) && others.is_near(2));
        let (ahead_ms, wall_ms) = (OWN.version_ms + 3_600_000, OWN.wall_ms);
        assert!(!own.take(ahead_ms, wall_ms) && own.take(wall_ms, wall_ms));
        // Of two, the one whose versions are ahead of both wall clocks.
        own.forget(2);
        assert_eq!(own.own_off(), Off::Versions);
        let pair = Clocks::default();
        let was_ahead = ahead_of(OWN, 0, 3_600_000);
        pair.tell(1, (was_ahead, Instant::now()), OWN);
        assert_eq!(pair.own_off(), Off::Nothing);
        // All of them were put back.
        pair.tell(1, (was_ahead, Instant::now()), was_ahead);
        assert_eq!(pair.own_off(), Off::Nothing);
        assert!(pair.is_near(1) && pair.take(ahead_ms, wall_ms));
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
