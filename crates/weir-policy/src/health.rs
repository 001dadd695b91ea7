//! Passive health: how long an endpoint that refused a connection is avoided.
//!
//! All workers share the state of an endpoint (failures in a row, when it may be tried again), and the gateway
//! keeps it. This file only knows the length of the wait. It sends no probes: the first request after the wait is
//! the probe.
//!
//! [`check`] makes the decisions of active health checks.

pub mod check;

use std::time::Duration;

/// How long to avoid an endpoint after a failure: doubled with every failure in a row, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait, however many failures came before.
    pub max: Duration,
}

/// The most that jitter takes off a wait, in percent of it.
const JITTER_PERCENT_MAX: u128 = 20;

/// The most doublings. Even a first wait of one millisecond is then 24 days.
const DOUBLINGS_MAX: u32 = 31;

impl Backoff {
    /// The first wait, unless configured otherwise.
    pub const FIRST_DEFAULT: Duration = Duration::from_millis(500);
    /// The longest wait, unless configured otherwise.
    pub const MAX_DEFAULT: Duration = Duration::from_secs(10);

    /// The wait after `failures` failures in a row. Zero failures count as one.
    ///
    /// Jitter only shortens the wait, by up to 20 %. So `max` is never exceeded, and the workers of many gateways
    /// do not all probe an endpoint at the same moment.
    pub fn after(&self, failures: u32, random: &mut fastrand::Rng) -> Duration {
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
        let wait = self.first.saturating_mul(1 << doublings).min(self.max);
        let jitter_ns_max =
            u64::try_from(wait.as_nanos() * JITTER_PERCENT_MAX / 100).unwrap_or(u64::MAX);
        wait.saturating_sub(Duration::from_nanos(random.u64(0..=jitter_ns_max)))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Self::FIRST_DEFAULT,
            max: Self::MAX_DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wait_doubles_up_to_its_limit_and_jitter_takes_at_most_a_fifth() {
        // (failures in a row, wait before jitter in ms)
        let table = [
            (0, 500),
            (1, 500),
            (2, 1_000),
            (3, 2_000),
            (5, 8_000),
            (6, 10_000),
            (7, 10_000),
            (u32::MAX, 10_000),
        ];
        let mut random = fastrand::Rng::with_seed(1);
        for (failures, wait_ms) in table {
            let wait = Duration::from_millis(wait_ms);
            let waits: Vec<Duration> = (0..1_000)
                .map(|_| Backoff::default().after(failures, &mut random))
                .collect();
            let (shortest, longest) = (*waits.iter().min().unwrap(), *waits.iter().max().unwrap());
            assert!(
                shortest >= wait * 80 / 100 && shortest < wait * 81 / 100,
                "{failures} failures: {shortest:?}"
            );
            assert!(
                longest <= wait && longest > wait * 99 / 100,
                "{failures} failures: {longest:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_configuration_panics_or_waits_longer_than_its_limit(
            first: Duration, max: Duration, failures: u32, seed: u64,
        ) {
            let wait = Backoff { first, max }.after(failures, &mut fastrand::Rng::with_seed(seed));
            prop_assert!(wait <= max);
        }
    }
}
