//! Ids of events that have none: UUIDs of version 7 (RFC 9562 §5.7), whose order is that in which they were given.
//!
//! ```text
//!  127                       80 79    76 75         64 63 62 61             0
//! +----------------------------+--------+-------------+-----+----------------+
//! | milliseconds since 1970    | 7      | counter     | 2   | random         |
//! +----------------------------+--------+-------------+-----+----------------+
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

const COUNTER_BITS: u32 = 12;

/// Gives ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Milliseconds and counter of the last.
    last: AtomicU64,
}

impl Ids {
    pub(super) fn next(&self, now_ms: u64) -> String {
        let wanted = now_ms << COUNTER_BITS;
        let next = |last: u64| wanted.max(last + 1);
        let take = |last| Some(next(last));
        let last = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let given = next(last.unwrap_or_else(|last| last));
        written(given, random())
    }
}

fn written(given: u64, random: u64) -> String {
    let (time_ms, counter) = (given >> COUNTER_BITS, given & ((1 << COUNTER_BITS) - 1));
    let random = random >> 2 | 1 << 63;
    format!(
        "{:08x}-{:04x}-7{counter:03x}-{:04x}-{:012x}",
        time_ms >> 16,
        time_ms & 0xffff,
        random >> 48,
        random & 0xffff_ffff_ffff
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where randomness comes in"
)]
fn random() -> u64 {
    fastrand::u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7() {
        // The example of RFC 9562, appendix A.6, with its random bits in order.
        let id = written(0x017f_22e2_79b0 << 12 | 0xcc3, 0x18c4_dc0c_0c07_398f << 2);
        assert_eq!(id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    }

    #[test]
    fn ids_are_in_the_order_in_which_they_were_given() {
        let ids = Ids::default();
        let times = [5, 5, 5, 3, 6]
            .into_iter()
            .chain(std::iter::repeat_n(7, 5000))
            .chain([8]);
        let given: Vec<String> = times.map(|now_ms| ids.next(now_ms)).collect();
        assert!(given.is_sorted() && given.windows(2).all(|two| two[0] != two[1]));
    }
}
