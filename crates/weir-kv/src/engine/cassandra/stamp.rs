//! The times of versions as Cassandra has them. Pure.

use std::cell::Cell;

use crate::version::Version;

/// The last second that a time to live may lead to: January 2038. Later than that, a value is kept, and only taken for expired.
const EXPIRES_S_MAX: u64 = i32::MAX as u64 - 1;

/// The timestamps of a process, in microseconds since 1970, as those of everybody else who writes to a cluster.
///
/// Each is larger than all before it. The counter of a version has more values than a millisecond has microseconds, so while a
/// clock stands still, timestamps go on by one.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    last_us: Cell<i64>,
}

impl Stamps {
    pub(super) fn of(&self, version: Version) -> i64 {
        let counter = version.time as u16;
        let wanted_us = version.unix_ms() * 1000 + u64::from(counter.min(999));
        let stamp_us = wanted_us.cast_signed().max(self.last_us.get() + 1);
        self.last_us.set(stamp_us);
        stamp_us
    }
}

/// In how many seconds Cassandra may forget a value, or 0 for never. It is not before it expires.
pub(super) fn ttl_s(expires_ms: Option<u64>, now_ms: u64) -> i32 {
    let Some(expires_ms) = expires_ms else {
        return 0;
    };
    if expires_ms / 1000 >= EXPIRES_S_MAX {
        return 0;
    }
    let left_s = expires_ms.saturating_sub(now_ms).div_ceil(1000) + 1;
    i32::try_from(left_s).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(unix_ms: u64, counter: u64) -> Version {
        Version {
            time: unix_ms << 16 | counter,
            ..Version::default()
        }
    }

    #[test]
    fn each_timestamp_is_larger_than_the_last_however_the_clock_stands() {
        let stamps = Stamps::default();
        let given = [
            (5, 0),
            (5, 1),
            (5, 4000),
            (5, 4001),
            (6, 0),
            (6, 1),
            (900, 0),
        ];
        let given = given.map(|(unix_ms, counter)| stamps.of(version(unix_ms, counter)));
        assert_eq!(given, [5000, 5001, 5999, 6000, 6001, 6002, 900_000]);
    }

    #[test]
    fn nothing_is_forgotten_before_it_expires() {
        for (expires_ms, ttl) in [
            (None, 0),
            (Some(10_000), 1),
            (Some(10_001), 2),
            (Some(0), 1),
            (Some(u64::MAX), 0),
            (Some(2_147_483_645_999), 2_147_483_637),
        ] {
            assert_eq!(ttl_s(expires_ms, 10_000), ttl, "{expires_ms:?}");
        }
    }
}
