//! Recent latencies, as a histogram in which older ones weigh less.
//!
//! Each doubling from 16 µs to 67 s is cut into eight buckets, so a quantile is right to within 9 % of itself. Shorter
//! or longer latencies count in the first or last bucket. A latency loses half of its weight with every half-life. The
//! stored weights do not shrink; new ones grow instead (forward decay, Cormode et al., ICDE 2009), and once in a long
//! while everything is scaled down together. The weight of a new latency is updated only 64 times in a half-life, and
//! so is right to within 1.1 %. It takes about 750 bytes. Recording is O(1), amortised; a quantile walks the buckets.

use std::time::{Duration, Instant};

const PER_DOUBLING: u32 = 8;
const DOUBLINGS: u32 = 22;
const BUCKETS: usize = (PER_DOUBLING * DOUBLINGS) as usize;

/// The upper end of the first bucket: 2^14 ns.
const FIRST_LOG2: u32 = 14;

/// After this many half-lives, new latencies weigh a million times more and everything is scaled down.
const HALF_LIVES_MAX: f64 = 20.0;

/// How many times in a half-life the weight of a new latency changes.
const STEPS: u32 = 64;

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    weights: [f32; BUCKETS],
    total: f32,
    half_life: Duration,
    /// When a new latency weighed 1.
    unit_at: Instant,
    /// The weight of a new latency, until `weighs_until`.
    weight: f32,
    weighs_until: Instant,
}

impl Histogram {
    pub(crate) fn new(half_life: Duration, now: Instant) -> Self {
        Self {
            weights: [0.0; BUCKETS],
            total: 0.0,
            half_life: half_life.max(Duration::from_millis(1)),
            unit_at: now,
            weight: 1.0,
            weighs_until: now,
        }
    }

    pub(crate) fn record(&mut self, now: Instant, latency: Duration) {
        if now >= self.weighs_until {
            self.weigh(now);
        }
        self.weights[bucket(latency)] += self.weight;
        self.total += self.weight;
    }

    fn weigh(&mut self, now: Instant) {
        let mut age = self.half_lives(now);
        if age > HALF_LIVES_MAX {
            self.scale_down(now, age);
            age = 0.0;
        }
        self.weight = age.exp2() as f32;
        self.weighs_until = now + self.half_life / STEPS;
    }

    /// How many latencies it holds; an old one counts for less than one.
    pub(crate) fn count(&self, now: Instant) -> f64 {
        f64::from(self.total) / self.half_lives(now).exp2()
    }

    /// The latency that this share (from 0 to 1) does not exceed. `None` when it is empty.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        if self.total <= 0.0 {
            return None;
        }
        let mut left = self.total * share as f32;
        let reached = self.weights.iter().position(|&weight| {
            left -= weight;
            left <= 0.0 && weight > 0.0
        });
        // Rounding may leave a remainder after the last bucket.
        let last = || self.weights.iter().rposition(|&weight| weight > 0.0);
        reached.or_else(last).map(upper_end)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, now: Instant) {
        *self = Self::new(self.half_life, now);
    }

    fn half_lives(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.unit_at).as_secs_f64() / self.half_life.as_secs_f64()
    }

    fn scale_down(&mut self, now: Instant, age: f64) {
        let factor = (-age).exp2() as f32;
        for weight in &mut self.weights {
            *weight *= factor;
        }
        self.total = self.weights.iter().sum();
        self.unit_at = now;
    }
}

/// The latencies of several histograms at one moment, for comparisons.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    weights: [f32; BUCKETS],
    total: f32,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            weights: [0.0; BUCKETS],
            total: 0.0,
        }
    }
}

impl Spread {
    /// Adds the latencies of a histogram, with their present weights.
    pub(crate) fn add(&mut self, histogram: &Histogram, now: Instant) {
        let factor = (-histogram.half_lives(now)).exp2() as f32;
        for (sum, weight) in self.weights.iter_mut().zip(histogram.weights) {
            *sum += weight * factor;
        }
        self.total += histogram.total * factor;
    }

    /// What is left without `part`.
    pub(crate) fn without(&self, part: &Self) -> Self {
        let weights = |bucket: usize| (self.weights[bucket] - part.weights[bucket]).max(0.0);
        let weights: [f32; BUCKETS] = std::array::from_fn(weights);
        Self {
            weights,
            total: weights.iter().sum(),
        }
    }

    /// How many latencies of equal weight would say as much, if they came evenly: the square of the sum of the weights
    /// divided by the sum of their squares.
    pub(crate) fn count(&self) -> f64 {
        2.0 * f64::from(self.total)
    }

    /// How often, from 0 to 1, one of these is longer than one of `others`; ties count half. It is 0 if there is
    /// nothing to compare.
    pub(crate) fn is_longer(&self, others: &Self) -> f64 {
        let (mut below, mut longer) = (0.0, 0.0);
        for (own, other) in self.weights.iter().zip(others.weights) {
            longer += own * (below + other / 2.0);
            below += other;
        }
        let pairs = self.total * others.total;
        if pairs > 0.0 {
            f64::from(longer / pairs)
        } else {
            0.0
        }
    }
}

/// The bucket of a latency.
fn bucket(latency: Duration) -> usize {
    let ns = latency.as_nanos().clamp(1, u128::from(u64::MAX)) as u64;
    let log2 = ns.ilog2();
    if log2 < FIRST_LOG2 {
        return 0;
    }
    // The three bits below the highest one.
    let eighth = (ns >> (log2 - 3)) & 7;
    let index = (log2 - FIRST_LOG2) * PER_DOUBLING + eighth as u32;
    (index as usize).min(BUCKETS - 1)
}

/// The smallest latency above a bucket.
fn upper_end(bucket: usize) -> Duration {
    let (doubling, eighth) = (bucket as u32 / PER_DOUBLING, bucket as u64 % 8);
    Duration::from_nanos((9 + eighth) << (doubling + FIRST_LOG2 - 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::tests::start;
    use proptest::prelude::*;

    fn secs(seconds: f64) -> Instant {
        start() + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn old_latencies_lose_half_of_their_weight_with_every_half_life() {
        let mut histogram = Histogram::new(Duration::from_secs(10), start());
        (0..100).for_each(|_| histogram.record(start(), Duration::from_millis(100)));
        for (seconds, count) in [(0.0, 100.0), (10.0, 50.0), (30.0, 12.5)] {
            assert!((histogram.count(secs(seconds)) - count).abs() < 1e-3);
        }
        // After a minute, one and a half of the hundred are left; four new ones are the majority.
        let is_slow = |histogram: &Histogram| {
            histogram.quantile(0.5).expect("it is not empty") > Duration::from_millis(50)
        };
        histogram.record(secs(60.0), Duration::from_millis(1));
        assert!(is_slow(&histogram));
        histogram.record(secs(60.0), Duration::from_millis(1));
        assert!(!is_slow(&histogram));
    }

    #[test]
    fn months_do_not_wear_it_out() {
        let mut histogram = Histogram::new(Duration::from_secs(1), start());
        for day in 0..100 {
            let now = secs(f64::from(day) * 86_400.0);
            (0..10).for_each(|_| histogram.record(now, Duration::from_millis(7)));
            assert!((histogram.count(now) - 10.0).abs() < 1e-3);
        }
    }

    #[test]
    fn spreads_are_compared_by_ranks() {
        let of = |ms: &[u64]| {
            let mut histogram = Histogram::new(Duration::from_secs(1), start());
            for &ms in ms {
                histogram.record(start(), Duration::from_millis(ms));
            }
            let mut spread = Spread::default();
            spread.add(&histogram, secs(1.0));
            spread
        };
        // (one, other, how often it is longer)
        let table: &[(&[u64], &[u64], f64)] = &[
            (&[10], &[10], 0.5),
            (&[100], &[10], 1.0),
            (&[10, 1_000], &[10, 1_000], 0.5),
            (&[100, 10_000], &[10, 1_000], 0.75),
            (&[10], &[], 0.0),
        ];
        for &(one, other, expected) in table {
            let longer = of(one).is_longer(&of(other));
            assert!(
                (longer - expected).abs() < 1e-3,
                "{one:?} {other:?}: {longer}"
            );
        }
        let both = of(&[10, 1_000]);
        assert!((both.count() - 2.0).abs() < 1e-3, "two that weigh half");
        assert!(both.without(&of(&[10])).is_longer(&of(&[100])) > 0.999);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_quantile_is_within_an_eighth_above_the_latency_at_its_rank(
            mut latencies_us in proptest::collection::vec(17u64..60_000_000, 1..300),
            share in 0.01f64..1.0,
        ) {
            let mut histogram = Histogram::new(Duration::from_secs(10), start());
            for &us in &latencies_us {
                histogram.record(start(), Duration::from_micros(us));
            }
            latencies_us.sort_unstable();
            let rank = (latencies_us.len() as f64 * share).ceil() as usize;
            let exact = latencies_us[rank.max(1) - 1] as f64;
            let found = histogram.quantile(share).expect("it is not empty").as_secs_f64() * 1e6;
            prop_assert!(exact < found && found <= exact * 1.126, "{found} for {exact}");
        }

        #[test]
        fn no_latency_is_out_of_range(latency: Duration) {
            let bucket = bucket(latency);
            prop_assert!(bucket < BUCKETS);
            prop_assert!(latency < upper_end(bucket) || bucket == BUCKETS - 1);
        }
    }
}
