//! The time: milliseconds since 1970, as records and expiry have it.
//!
//! It never goes back while the process lives, whatever is done to the clock of the machine: waits that were to end in a second would
//! last for as long as the clock was put back. A clock that is put forward is followed.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When the process first asked, by the clock that only goes on.
static STARTED: LazyLock<Instant> = LazyLock::new(monotonic);
/// What the time was then, or is to be taken for since the clock was put forward.
static BASE_MS: AtomicU64 = AtomicU64::new(0);
/// A difference that is no step but the pace of two clocks.
const STEP_MS: u64 = 1000;

/// Now.
pub(crate) fn now_ms() -> u64 {
    let passed_ms = STARTED.elapsed().as_millis() as u64;
    let machine_ms = machine_ms();
    let steady_ms = BASE_MS.load(Ordering::Relaxed) + passed_ms;
    if machine_ms <= steady_ms + STEP_MS {
        return steady_ms;
    }
    let base_ms = machine_ms.saturating_sub(passed_ms);
    BASE_MS.fetch_max(base_ms, Ordering::Relaxed);
    machine_ms
}

/// What the machine says. A clock before 1970 is at 0.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes in")]
fn machine_ms() -> u64 {
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
