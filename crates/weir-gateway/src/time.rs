//! The time. It is asked for here and nowhere else, so that a simulation can have a time of its own.
//!
//! It is asked for anew each time: three times for a request that is forwarded and twice for a hit, some 25 ns each. A worker
//! that kept the time of its turn would say of each hit that it took no time, because a turn begins and ends it; and a worker
//! that always has something to do does not park, so that nothing would tell it that a turn is over.

#![expect(
    clippy::disallowed_methods,
    reason = "this is where the time is asked for"
)]

use std::time::{Duration, Instant};

/// Now, on the clock that only runs forward. In a runtime whose time is simulated, that time; threads without a runtime may
/// ask too.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How long ago `then` was.
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// The time of day.
#[cfg(not(test))]
pub(crate) fn since_1970() -> Duration {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// In tests the time of day goes forward with [`now`], from one and the same moment on in each thread.
#[cfg(test)]
pub(crate) fn since_1970() -> Duration {
    const BEGINNING: Duration = Duration::from_secs(1_700_000_000);
    thread_local!(static STARTED: Instant = now());
    BEGINNING + STARTED.with(|started| since(*started))
}
