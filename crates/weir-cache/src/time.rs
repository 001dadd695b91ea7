//! Moments in the form that the rules use. Nothing here reads a clock.

use std::time::Duration;

/// Milliseconds since the Unix epoch. Arithmetic stops at both ends instead of wrapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment of a Unix time in milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// The moment of a Unix time in seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub const fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// How long ago `earlier` was; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(ms_of(span)))
    }

    /// The second in which this moment lies: HTTP dates have no smaller unit.
    #[must_use]
    pub fn whole_second(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }
}

/// A span in milliseconds, as it is stored.
pub(crate) fn ms_of(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
