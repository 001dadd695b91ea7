//! Rate limits: how often one key may ask.
//!
//! The rule is GCRA (the "generic cell rate algorithm" of ATM Forum TM 4.0), a token bucket that remembers one number
//! for each key: its *theoretical arrival time*, the time at which the key will have used nothing. A request moves it
//! on by one emission interval. A request that would move it more than `burst` intervals ahead of now is refused and
//! moves nothing. A key whose time has passed is like a key that was never seen, so it need not be remembered.
//!
//! Clients choose the keys, so there can be any number of them. [`RateLimiter`] remembers a bounded number; `table`
//! says what happens beyond it.
//!
//! The figures in a [`Decision`] are those of the `RateLimit` and `RateLimit-Policy` fields
//! (draft-ietf-httpapi-ratelimit-headers-10). Several gateways count each for themselves.

mod table;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};
use table::Table;

/// How often one key may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// This many requests; at least 1 (0 counts as 1).
    pub requests: u32,
    /// In this time; at least a nanosecond for each request.
    pub per: Duration,
    /// How many may come at once after a rest; at least 1 (0 counts as 1).
    pub burst: u32,
}

impl Quota {
    /// The time between evenly spaced requests, in nanoseconds.
    fn interval_ns(&self) -> u64 {
        let interval_ns = self.per.as_nanos() / u128::from(self.requests.max(1));
        u64::try_from(interval_ns).unwrap_or(u64::MAX).max(1)
    }

    /// How far ahead of now the theoretical arrival time may be, in nanoseconds.
    fn ahead_max_ns(&self) -> u64 {
        self.interval_ns()
            .saturating_mul(u64::from(self.burst.max(1)))
    }
}

/// Whether a request may pass, and the figures for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may.
    pub is_allowed: bool,
    /// `q` of `RateLimit-Policy`, and `r` of `RateLimit` for a key that was never seen: the burst.
    pub limit: u32,
    /// `w` of `RateLimit-Policy`, in seconds, rounded up: the time in which a whole burst comes back.
    pub window_s: u64,
    /// `r` of `RateLimit`: how many more may come at once now.
    pub remaining: u32,
    /// Time until `remaining` is the burst again.
    pub reset: Duration,
    /// How long a refused client should wait until one request will pass. Zero when it may pass.
    pub retry_after: Duration,
}

impl Decision {
    /// `t` of `RateLimit`, in seconds, rounded up. For a refused request it equals [`Decision::retry_after_s`], because
    /// the draft wants both to name the same time.
    pub fn reset_s(&self) -> u64 {
        if self.is_allowed {
            whole_seconds(self.reset)
        } else {
            self.retry_after_s()
        }
    }

    /// `Retry-After`, in seconds, rounded up: at least 1 for a refused request.
    pub fn retry_after_s(&self) -> u64 {
        whole_seconds(self.retry_after)
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Counts the requests of many keys against one quota.
#[derive(Debug)]
pub struct RateLimiter {
    interval_ns: u64,
    ahead_max_ns: u64,
    quota: Quota,
    started_at: Instant,
    seed: u64,
    table: Table,
}

impl RateLimiter {
    /// The memory of a remembered key, in bytes.
    pub const BYTES_PER_KEY: usize = table::BYTES_PER_KEY;

    /// A limiter that remembers `keys_max` keys (at least 16) in [`RateLimiter::BYTES_PER_KEY`] bytes each, all
    /// allocated now. `seed` must be random and secret: with it, one can choose keys that fall into one set.
    pub fn new(quota: Quota, keys_max: usize, seed: u64, now: Instant) -> Self {
        Self {
            interval_ns: quota.interval_ns(),
            ahead_max_ns: quota.ahead_max_ns(),
            quota,
            started_at: now,
            seed,
            table: Table::new(keys_max),
        }
    }

    /// A request with this key arrives.
    pub fn acquire(&mut self, now: Instant, key: &[u8]) -> Decision {
        let elapsed = now.saturating_duration_since(self.started_at).as_nanos();
        // Time zero means an empty entry in the table, and 500 years are enough.
        let now_ns = u64::try_from(elapsed)
            .unwrap_or(u64::MAX / 2)
            .min(u64::MAX / 2)
            + 1;
        let arrival_ns = self.table.entry(self.hash(key), now_ns);
        let used_ns = arrival_ns.saturating_sub(now_ns);
        let after_ns = used_ns.saturating_add(self.interval_ns);
        let is_allowed = after_ns <= self.ahead_max_ns;
        let used_ns = if is_allowed {
            *arrival_ns = now_ns.saturating_add(after_ns);
            after_ns
        } else {
            used_ns
        };
        self.decision(is_allowed, used_ns)
    }

    /// A request with this key that [`RateLimiter::acquire`] has allowed is not made after all.
    pub fn give_back(&mut self, key: &[u8]) {
        if let Some(arrival_ns) = self.table.known(self.hash(key)) {
            *arrival_ns = arrival_ns.saturating_sub(self.interval_ns).max(1);
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.seed)
    }

    /// The largest number of remembered keys.
    pub fn keys_max(&self) -> usize {
        self.table.keys_max()
    }

    fn decision(&self, is_allowed: bool, used_ns: u64) -> Decision {
        let free_ns = self.ahead_max_ns.saturating_sub(used_ns);
        let retry_ns = if is_allowed {
            0
        } else {
            self.interval_ns - free_ns
        };
        Decision {
            is_allowed,
            limit: self.quota.burst.max(1),
            window_s: whole_seconds(Duration::from_nanos(self.ahead_max_ns)),
            remaining: u32::try_from(free_ns / self.interval_ns).unwrap_or(u32::MAX),
            reset: Duration::from_nanos(used_ns),
            retry_after: Duration::from_nanos(retry_ns),
        }
    }
}
