//! Which of two writes of a key is newer.
//!
//! A [`Version`] is a time of a hybrid logical clock (Kulkarni et al., 2014) and who gave it. The time follows the wall clock
//! and never goes back: where the wall clock stands still or goes back, a counter goes on. A node that sees a version goes on
//! behind it, so a write that was made knowing another one is newer, however the wall clocks differ. Of two writes that
//! did not know of each other, the one with the later clock wins; at the same time, the higher number.
//!
//! ```text
//!  63                           16 15          0   15      0 15      0
//! +-------------------------------+-------------+ +---------+---------+
//! | milliseconds since 1970       | counter     | | node    | run     |
//! +-------------------------------+-------------+ +---------+---------+
//! ```
//!
//! The run says how often the node has been started. Without it, a node that has ended with its clock ahead could give a version twice.

use std::fmt;
use std::str::FromStr;

const COUNTER_BITS: u32 = 16;

/// A clock that is ahead by more than this is not followed.
pub const AHEAD_MS_MAX: u64 = 60_000;

/// The version of a write. Larger is newer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Milliseconds since 1970, and a counter in the lower 16 bits.
    pub time: u64,
    /// The node that gave it.
    pub node: u16,
    /// Which of its runs that was.
    pub run: u16,
}

impl Version {
    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.time >> COUNTER_BITS
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}-{:x}", self.time, self.node, self.run)
    }
}

/// As [`Version`] is displayed.
impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let mut next = || parts.next().filter(|part| !part.starts_with('+'));
        let (time, node, run) = (next(), next(), next());
        let hex = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        let short = |part| hex(part).and_then(|number| number.try_into().ok());
        match (hex(time), short(node), short(run), parts.next()) {
            (Some(time), Some(node), Some(run), None) => Ok(Self { time, node, run }),
            _ => Err(()),
        }
    }
}

/// A hybrid logical clock.
#[derive(Debug)]
pub struct Clock {
    last: Version,
    /// The latest that the wall clock of this node has said, as far as is known: it may have been put back since.
    wall_ms: u64,
}

/// A version that is too far ahead of the wall clock, by so many milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFarAhead(pub u64);

impl Clock {
    /// The clock of a node in one of its runs, which goes on behind the newest version that it has kept.
    pub fn new(node: u16, run: u16, kept: Version) -> Self {
        let time = kept.time;
        Self {
            last: Version { time, node, run },
            wall_ms: kept.unix_ms(),
        }
    }

    /// From now on its versions are of this node.
    pub(crate) fn belong(&mut self, node: u16) {
        self.last.node = node;
    }

    /// A version for a write that is made now: newer than all that this clock has given or seen.
    pub fn tick(&mut self, unix_ms: u64) -> Version {
        self.wall_ms = self.wall_ms.max(unix_ms);
        self.last.time = (unix_ms << COUNTER_BITS).max(self.last.time + 1);
        self.last
    }

    /// What it says now, in milliseconds since 1970.
    pub fn unix_ms(&self, unix_ms: u64) -> u64 {
        unix_ms.max(self.last.unix_ms())
    }

    /// Goes on behind a version that another node gave.
    ///
    /// # Errors
    /// It is from a clock that is so far ahead that it must be wrong. It is not followed: the error would spread. Where the wall clock was
    /// put back, what it has said before is no error. What was seen of others does not count: step by step, any error would spread.
    pub fn see(&mut self, version: Version, unix_ms: u64) -> Result<(), TooFarAhead> {
        self.wall_ms = self.wall_ms.max(unix_ms);
        let ahead_ms = version.unix_ms().saturating_sub(self.wall_ms);
        if ahead_ms > AHEAD_MS_MAX {
            return Err(TooFarAhead(ahead_ms));
        }
        self.last.time = self.last.time.max(version.time);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(node: u16) -> Clock {
        Clock::new(node, 1, Version::default())
    }

    #[test]
    fn time_never_goes_back_and_follows_the_wall_clock() {
        let mut clock = clock(1);
        let [first, same, back, later] = [1000, 1000, 400, 1001].map(|ms| clock.tick(ms));
        assert_eq!((first.unix_ms(), first.node), (1000, 1));
        assert!(first < same && same < back && back < later);
        assert_eq!((back.unix_ms(), later.unix_ms()), (1000, 1001));
    }

    #[test]
    fn a_write_that_knew_of_another_is_newer() {
        let (mut ahead, mut behind) = (clock(1), clock(2));
        let seen = ahead.tick(30_000);
        assert_eq!(behind.see(seen, 10), Ok(()));
        let answer = behind.tick(11);
        assert!(answer > seen);
        assert_eq!(answer.unix_ms(), 30_000);
    }

    #[test]
    fn a_clock_that_is_wrong_is_not_followed() {
        let mut clock = clock(1);
        let wrong = Version {
            time: (AHEAD_MS_MAX + 6) << COUNTER_BITS,
            ..Version::default()
        };
        assert_eq!(clock.see(wrong, 5), Err(TooFarAhead(AHEAD_MS_MAX + 1)));
        assert_eq!(clock.tick(7).unix_ms(), 7);
        assert_eq!(clock.see(wrong, 6), Ok(()));
    }

    #[test]
    fn a_wall_clock_that_is_put_back_stops_nobody() {
        let kept = clock(1).tick(10_000_000);
        let (mut one, mut two) = (Clock::new(1, 2, kept), Clock::new(2, 2, kept));
        let written = one.tick(5_000_000);
        assert!(written > kept);
        assert_eq!(one.unix_ms(5_000_000), 10_000_000);
        assert_eq!(one.see(kept, 5_000_000), Ok(()));
        assert_eq!(two.see(written, 5_000_000), Ok(()));
        let mut running = clock(3);
        running.tick(10_000_000);
        assert_eq!(running.see(written, 5_000_000), Ok(()));
    }

    #[test]
    fn an_error_does_not_creep() {
        let mut clock = clock(1);
        let ahead = |ms: u64| Version {
            time: ms << COUNTER_BITS,
            ..Version::default()
        };
        assert_eq!(clock.see(ahead(50_000), 1), Ok(()));
        assert_eq!(clock.see(ahead(100_000), 1), Err(TooFarAhead(99_999)));
    }

    #[test]
    fn a_restart_goes_on_behind_what_was_kept_and_gives_nothing_twice() {
        let kept = clock(3).tick(5_000);
        assert!(Clock::new(3, 2, kept).tick(4_000) > kept);
        // Nothing was kept, and the wall clock says the same as then.
        assert_ne!(Clock::new(3, 2, Version::default()).tick(5_000), kept);
    }

    #[test]
    fn at_the_same_time_the_higher_number_is_newer() {
        let [one, two] = [1, 2].map(|node| clock(node).tick(9));
        assert!(two > one);
    }
}
