//! GCRA as a table and against a token bucket as a model, and what floods of keys can and cannot do.

use super::*;
use crate::balance::tests::start;
use proptest::prelude::*;
use std::collections::HashMap;

const SEED: u64 = 0x5eed;

fn ms(ms: u64) -> Instant {
    start() + Duration::from_millis(ms)
}

/// Ten requests per second, three at once.
fn quota() -> Quota {
    Quota {
        requests: 10,
        per: Duration::from_secs(1),
        burst: 3,
    }
}

fn limiter(keys_max: usize) -> RateLimiter {
    RateLimiter::new(quota(), keys_max, SEED, start())
}

#[test]
fn one_key_gets_a_burst_and_then_its_rate() {
    let mut limiter = limiter(1_000);
    // (when in ms, allowed, remaining, reset in ms, retry after in ms)
    let table = [
        (0, true, 2, 100, 0),
        (0, true, 1, 200, 0),
        (0, true, 0, 300, 0),
        (0, false, 0, 300, 100),
        (60, false, 0, 240, 40),
        (100, true, 0, 300, 0),
        (199, false, 0, 201, 1),
        (200, true, 0, 300, 0),
        (450, true, 1, 150, 0),
        (9_000, true, 2, 100, 0),
    ];
    for (at_ms, is_allowed, remaining, reset_ms, retry_ms) in table {
        let decision = limiter.acquire(ms(at_ms), b"key");
        let expected = Decision {
            is_allowed,
            limit: 3,
            window_s: 1,
            remaining,
            reset: Duration::from_millis(reset_ms),
            retry_after: Duration::from_millis(retry_ms),
        };
        assert_eq!(decision, expected, "at {at_ms} ms");
    }
    assert!(limiter.acquire(ms(9_000), b"another key").is_allowed);
}

#[test]
fn a_request_given_back_does_not_count() {
    let mut limiter = limiter(1_000);
    let remaining = |limiter: &mut RateLimiter| limiter.acquire(ms(0), b"key").remaining;
    assert_eq!(remaining(&mut limiter), 2);
    limiter.give_back(b"key");
    assert_eq!(remaining(&mut limiter), 2);
    limiter.give_back(b"another key");
    assert_eq!(remaining(&mut limiter), 1);
    for _ in 0..9 {
        limiter.give_back(b"key");
    }
    assert_eq!(remaining(&mut limiter), 2, "no more than a burst");
}

#[test]
fn fields_are_in_whole_seconds_and_agree() {
    let quota = Quota {
        requests: 1,
        per: Duration::from_millis(1_500),
        burst: 2,
    };
    let mut limiter = RateLimiter::new(quota, 16, SEED, start());
    let first = limiter.acquire(start(), b"key");
    assert_eq!(
        (first.window_s, first.reset_s(), first.retry_after_s()),
        (3, 2, 0)
    );
    limiter.acquire(start(), b"key");
    let refused = limiter.acquire(start(), b"key");
    assert_eq!((refused.reset_s(), refused.retry_after_s()), (2, 2));
}

#[test]
fn no_quota_panics() {
    let extremes = [
        (0, Duration::ZERO, 0),
        (u32::MAX, Duration::ZERO, u32::MAX),
        (1, Duration::MAX, u32::MAX),
        (u32::MAX, Duration::MAX, 1),
    ];
    for (requests, per, burst) in extremes {
        let quota = Quota {
            requests,
            per,
            burst,
        };
        let mut limiter = RateLimiter::new(quota, 0, SEED, start());
        for at_ms in [0, 0, 1, 1_000_000] {
            assert!(limiter.acquire(ms(at_ms), b"key").limit >= 1, "{quota:?}");
        }
    }
}

#[test]
fn half_the_capacity_is_never_forgotten_and_most_of_a_full_table_neither() {
    // (keys as a share of what fits, at most this share of them forgotten)
    for (share, forgotten_max) in [(0.5, 0.0), (0.75, 0.002), (1.0, 0.1)] {
        let forgotten = forgotten_share(share);
        println!("{share} of what fits: {forgotten:.5} forgotten");
        assert!(forgotten <= forgotten_max, "{forgotten} of {share}");
    }
}

/// The share of keys, each seen once, that are forgotten.
fn forgotten_share(share: f64) -> f64 {
    let mut limiter = limiter(100_000);
    let keys = (limiter.keys_max() as f64 * share) as u32;
    (0..keys).for_each(|key| {
        limiter.acquire(start(), &key.to_le_bytes());
    });
    let hashes =
        (0..keys).map(|key| xxhash_rust::xxh3::xxh3_64_with_seed(&key.to_le_bytes(), SEED));
    let known: std::collections::HashSet<u64> = limiter.table.hashes().collect();
    hashes.filter(|hash| !known.contains(hash)).count() as f64 / f64::from(keys)
}

#[test]
fn a_flood_of_keys_gains_nothing() {
    let keys_max = 1_024;
    let mut limiter = limiter(keys_max);
    // The attacker has used up its own key.
    (0..3).for_each(|_| {
        limiter.acquire(start(), b"attacker");
    });
    // A flood of a hundred times more keys than fit gets the bursts of those that fit, and not one request more.
    let passed = (0..100 * keys_max as u64)
        .filter(|key| limiter.acquire(start(), &key.to_le_bytes()).is_allowed)
        .count();
    assert!(passed <= keys_max * 3 - 3, "{passed} passed");
    assert!(!limiter.acquire(start(), b"attacker").is_allowed);
    // From then on it gets as much per second as all keys that fit.
    let passed = (0..100 * keys_max as u64)
        .filter(|key| {
            limiter
                .acquire(ms(100), &(key + (1 << 40)).to_le_bytes())
                .is_allowed
        })
        .count();
    assert!(passed <= keys_max, "{passed} passed");
}

#[test]
fn a_flood_of_single_requests_neither_frees_nor_refuses_others() {
    let keys_max = 1_024;
    let mut limiter = limiter(keys_max);
    (0..3).for_each(|_| {
        limiter.acquire(start(), b"used up");
    });
    for key in 0..keys_max as u64 {
        limiter.acquire(start(), &key.to_le_bytes());
    }
    assert!(
        !limiter.acquire(start(), b"used up").is_allowed,
        "it leaves last"
    );
    assert!(
        limiter.acquire(start(), b"honest newcomer").is_allowed,
        "the debt of one request leaves two"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The seed is part of the input, which proptest prints on failure.
    #[test]
    fn it_decides_as_a_token_bucket_does(
        seed: u64, requests in 1u32..1_000, per_ms in 1u64..10_000, burst in 1u32..20,
    ) {
        let quota = Quota { requests, per: Duration::from_millis(per_ms), burst };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut limiter = RateLimiter::new(quota, 1_000, seed, start());
        let interval_ns = quota.interval_ns();
        // For each key its tokens, in nanoseconds, and when they were counted.
        let mut buckets: HashMap<u8, (u64, u64)> = HashMap::new();
        let mut now_ns = 0;
        for _ in 0..500 {
            now_ns += random.u64(0..3 * interval_ns);
            let key = random.u8(0..4);
            let full = (quota.ahead_max_ns(), now_ns);
            let (tokens_ns, at_ns) = buckets.entry(key).or_insert(full);
            *tokens_ns = (*tokens_ns + now_ns - *at_ns).min(quota.ahead_max_ns());
            *at_ns = now_ns;
            let may = *tokens_ns >= interval_ns;
            if may {
                *tokens_ns -= interval_ns;
            }
            let decision = limiter.acquire(start() + Duration::from_nanos(now_ns), &[key]);
            prop_assert_eq!(decision.is_allowed, may);
            prop_assert_eq!(u64::from(decision.remaining), *tokens_ns / interval_ns);
            let retry_ns = if may { 0 } else { interval_ns - *tokens_ns };
            prop_assert_eq!(decision.retry_after, Duration::from_nanos(retry_ns));
        }
    }
}
