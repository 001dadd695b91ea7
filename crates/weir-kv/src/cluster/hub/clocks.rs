//! What the clocks of other nodes say, beside that of this one.
//!
//! A version that is far ahead of a node's clock is refused by it. So a node whose clock is wrong must not give any: others could
//! neither keep nor replace what it has written. Pure.

use std::collections::HashMap;

use crate::version::AHEAD_MS_MAX;

/// Clocks that differ by more do not work together. It is less than what is refused, as they go on.
const OFF_MS: u64 = AHEAD_MS_MAX / 2;

/// By how many milliseconds the clocks of others are ahead.
#[derive(Debug, Default)]
pub(super) struct Clocks(HashMap<u16, i64>);

impl Clocks {
    /// What the clock of a node has said, and what that of this one says now.
    pub(super) fn tell(&mut self, node: u16, unix_ms: u64, own_ms: u64) {
        let ahead_ms = unix_ms.cast_signed().saturating_sub(own_ms.cast_signed());
        self.0.insert(node, ahead_ms);
    }

    /// It is not known what the clock of a node says.
    pub(super) fn forget(&mut self, node: u16) {
        self.0.remove(&node);
    }

    /// Whether a node's clock and that of this one differ too much.
    pub(super) fn differs(&self, node: u16) -> bool {
        let ahead_ms = self.0.get(&node);
        ahead_ms.is_some_and(|ahead_ms| ahead_ms.unsigned_abs() > OFF_MS)
    }

    /// Whether it is this node whose clock is wrong: that of more than half of the others differs, and by about the same.
    pub(super) fn is_own_off(&self) -> bool {
        let mut off: Vec<i64> = self.0.values().copied().collect();
        off.retain(|ahead_ms| ahead_ms.unsigned_abs() > OFF_MS);
        off.sort_unstable();
        let count = self.0.len() / 2 + 1;
        let agree = |group: &[i64]| group[count - 1].abs_diff(group[0]) <= OFF_MS;
        // Of two nodes, nobody knows which.
        self.0.len() > 1 && off.windows(count).any(agree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(ahead_ms: &[i64]) -> Clocks {
        let mut clocks = Clocks::default();
        for (node, ahead_ms) in (2..).zip(ahead_ms) {
            clocks.tell(
                node,
                10_000_000_u64.saturating_add_signed(*ahead_ms),
                10_000_000,
            );
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
        let mut clocks = clocks(&[40_000, 20_000]);
        assert!(clocks.differs(2) && !clocks.differs(3) && !clocks.differs(9));
        clocks.forget(2);
        assert!(!clocks.differs(2));
    }
}
