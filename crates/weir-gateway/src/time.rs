//! The time. It is asked for here, so that a simulation can have a time of its own.

use std::time::{Duration, Instant};

/// Now, on the clock that only runs forward. In a runtime whose time is simulated, that time.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
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
    BEGINNING + STARTED.with(|started| now().saturating_duration_since(*started))
}
