//! What each decision costs: bytes, and nanoseconds per call, in one thread, with nothing else in the way.
//!
//! `cargo run --release -p weir-policy --example ns_per_call`

use std::hint::black_box;
use std::time::{Duration, Instant};
use weir_policy::Outcome;
use weir_policy::breaker::{self, Breaker};
use weir_policy::ejection::{self, Ejection};
use weir_policy::hedge::{self, Hedge};
use weir_policy::limit::concurrency::{self, Acquired, Decision, Limit, Limiter};
use weir_policy::limit::priority::Priority;
use weir_policy::limit::rate::{Quota, RateLimiter};
use weir_policy::retry::{Budget, BudgetSettings};

const CALLS: u32 = 2_000_000;
const LATENCY: Duration = Duration::from_millis(5);

/// Runs `call` with a time that moves on by ten microseconds, and prints what one takes: the median of nine runs.
fn measure(name: &str, mut call: impl FnMut(Instant, u32)) {
    let mut now = clock();
    let mut runs: Vec<Duration> = (0..9)
        .map(|_| {
            let began = clock();
            for number in 0..CALLS {
                now += Duration::from_micros(10);
                call(now, number);
            }
            began.elapsed()
        })
        .collect();
    runs.sort_unstable();
    let ns = runs[4].as_nanos() as f64 / f64::from(CALLS);
    println!("{name:<60} {ns:>7.1} ns");
}

#[expect(clippy::disallowed_methods, reason = "this measures time")]
fn clock() -> Instant {
    Instant::now()
}

fn main() {
    println!(
        "bytes: breaker {}, limiter {}, retry budget {}, hedge {}",
        size_of::<Breaker>(),
        size_of::<Limiter<u32>>(),
        size_of::<Budget>(),
        size_of::<Hedge>(),
    );
    let mut random = fastrand::Rng::with_seed(1);
    measure("nothing", |now, number| {
        black_box((now, number));
    });
    let mut breaker = Breaker::new(breaker::Settings::default(), clock());
    measure("breaker: acquire and report, closed", |now, _| {
        if let Ok(permit) = breaker.acquire(now, &mut random) {
            breaker.report(now, permit, Outcome::Success(LATENCY), &mut random);
        }
    });
    for endpoints in [3, 30] {
        let mut ejection = Ejection::new(ejection::Settings::default(), endpoints, clock());
        let name = format!("ejection: admits, start and finish, {endpoints} endpoints");
        measure(&name, |now, number| {
            let endpoint = number as usize % endpoints;
            if black_box(ejection.admits(endpoint, now, 0.5)) {
                let token = ejection.start(endpoint, 0, now, &mut random);
                ejection.finish(now, token, Outcome::Success(LATENCY), &mut random);
            }
        });
    }
    limiters();
    for keys in [1_000, 1_000_000] {
        let quota = Quota {
            requests: 100,
            per: Duration::from_secs(1),
            burst: 100,
        };
        let mut limiter = RateLimiter::new(quota, keys as usize, 1, clock());
        let bytes = limiter.keys_max() * RateLimiter::BYTES_PER_KEY;
        let name = format!("rate limit: acquire, {keys} keys in turn, {bytes} bytes");
        measure(&name, |now, _| {
            let key = random.u32(..keys);
            black_box(limiter.acquire(now, &key.to_le_bytes()));
        });
    }
    let mut budget = Budget::new(BudgetSettings::default(), clock());
    measure("retry budget: request", |now, _| budget.on_request(now));
    let mut hedge = Hedge::new(hedge::Settings::default(), clock());
    measure("hedge: delay and answer", |now, _| {
        black_box(hedge.delay(now));
        hedge.on_answer(now, LATENCY);
    });
}

fn limiters() {
    for (name, limit) in [
        ("fixed", Limit::Fixed(64)),
        (
            "adaptive",
            Limit::Adaptive(concurrency::AdaptiveSettings::default()),
        ),
    ] {
        let settings = concurrency::Settings {
            limit,
            ..concurrency::Settings::default()
        };
        let mut limiter: Limiter<u32> = Limiter::new(&settings, clock(), clock());
        measure(
            &format!("concurrency limit, {name}: acquire and release, not full"),
            |now, number| {
                if let Acquired::Admitted(permit) =
                    limiter.acquire(now, Priority::Normal, || number)
                {
                    limiter.release(now, permit, Outcome::Success(LATENCY));
                }
                black_box(limiter.decide(now));
            },
        );
        let mut limiter: Limiter<u32> = Limiter::new(&settings, clock(), clock());
        let mut permits = std::collections::VecDeque::with_capacity(128);
        measure(
            &format!("concurrency limit, {name}: acquire and release, overloaded"),
            |now, number| {
                if let Acquired::Admitted(permit) =
                    limiter.acquire(now, Priority::Normal, || number)
                {
                    permits.push_back(permit);
                }
                // One in four is answered.
                if number % 4 == 0
                    && let Some(permit) = permits.pop_front()
                {
                    limiter.release(now, permit, Outcome::Success(LATENCY));
                }
                while let Some(decision) = limiter.decide(now) {
                    if let Decision::Admitted(_, permit) = decision {
                        permits.push_back(permit);
                    }
                }
            },
        );
    }
}
