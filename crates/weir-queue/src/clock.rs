//! The time: milliseconds since 1970, as records and expiry have it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Now. A clock before 1970 is at 0.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes in")]
pub(crate) fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_millis() as u64
}

/// Now, on a clock that never goes back.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes in")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// From 0 to 1, for waits that are spread.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where randomness comes in"
)]
pub(crate) fn random_share() -> f64 {
    fastrand::u64(..) as f64 / u64::MAX as f64
}
