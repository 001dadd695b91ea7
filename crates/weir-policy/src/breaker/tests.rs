//! The state machine as a table of histories, and random interleavings of probes and late reports.

use super::*;
use crate::balance::tests::start;
use crate::health::Backoff;
use proptest::prelude::*;

const LATENCY: Duration = Duration::from_millis(10);

fn settings() -> Settings {
    Settings {
        window: Duration::from_secs(10),
        min_requests: 4,
        failure_ratio: Some(0.5),
        slow: Some(Slow {
            after: Duration::from_millis(100),
            ratio: 0.75,
        }),
        consecutive_failures: None,
        open_for: Backoff {
            first: Duration::from_secs(5),
            max: Duration::from_secs(15),
        },
        probes: 2,
        probe_successes: 3,
        probe_timeout: Duration::from_secs(2),
        recovery: Duration::from_secs(10),
    }
}

/// Plays a history. `ok`, `bad`, `slow` and `gone` are whole requests (refused ones count for nothing). `take`
/// only begins one, and `late-ok` and `late-bad` end the oldest of those. A number lets that many seconds pass.
/// Returns the state at the end.
fn play(settings: Settings, history: &str) -> &'static str {
    let mut now = start();
    let mut random = fastrand::Rng::with_seed(1);
    let mut breaker = Breaker::new(settings, now);
    let mut taken = Vec::new();
    for event in history.split_whitespace() {
        if let Ok(seconds) = event.parse() {
            now += Duration::from_secs_f64(seconds);
            continue;
        }
        let outcome = match event {
            "ok" | "late-ok" => Outcome::Success(LATENCY),
            "bad" | "late-bad" => Outcome::Failure(LATENCY),
            "slow" => Outcome::Success(Duration::from_millis(101)),
            _ => Outcome::Ignored,
        };
        let permit = if event.starts_with("late") {
            Ok(taken.remove(0))
        } else {
            breaker.acquire(now, &mut random)
        };
        match permit {
            Ok(permit) if event == "take" => taken.push(permit),
            Ok(permit) => breaker.report(now, permit, outcome, &mut random),
            Err(_) => {}
        }
    }
    breaker.status(now, &mut random).as_str()
}

#[test]
fn what_leads_from_state_to_state() {
    let table = [
        ("", "closed"),
        // The fourth request reaches the minimum; half of them failed.
        ("bad bad bad", "closed"),
        ("bad bad bad bad", "open"),
        ("ok ok bad bad", "open"),
        ("ok ok ok bad", "closed"),
        // Clients that leave count for nothing.
        ("bad bad bad gone gone gone", "closed"),
        // Failures leave the window.
        ("bad bad bad 11 bad", "closed"),
        ("bad bad bad 8.9 bad", "open"),
        // Three of four were slow.
        ("slow slow slow ok", "open"),
        ("slow slow ok ok", "closed"),
        // Open refuses, then lets probes through.
        ("bad bad bad bad 3.9", "open"),
        ("bad bad bad bad 5", "half-open"),
        ("bad bad bad bad 5 ok ok", "half-open"),
        ("bad bad bad bad 5 ok ok ok", "recovering"),
        ("bad bad bad bad 5 ok ok bad", "open"),
        ("bad bad bad bad 5 ok ok slow", "open"),
        ("bad bad bad bad 5 gone gone gone", "half-open"),
        // The wait doubles with each opening, up to its limit.
        ("bad bad bad bad 5 bad 7.9", "open"),
        ("bad bad bad bad 5 bad 10", "half-open"),
        ("bad bad bad bad 5 bad 10 bad 11.9", "open"),
        ("bad bad bad bad 5 bad 10 bad 15 bad 15", "half-open"),
        // A probe that never reports has failed.
        ("bad bad bad bad 5 take 1.9", "half-open"),
        ("bad bad bad bad 5 take 2", "open"),
        ("bad bad bad bad 5 take 2 20 ok ok ok", "recovering"),
        // Permits of an earlier state count for nothing.
        (
            "take take take take bad bad bad bad late-ok 5 late-bad",
            "half-open",
        ),
        ("take bad bad bad bad 5 ok ok ok late-bad", "recovering"),
        ("bad bad bad bad 5 take bad 10 late-ok ok ok", "half-open"),
        // A recovery ends by itself, or trips by the same rules as closed.
        ("bad bad bad bad 5 ok ok ok 9.9", "recovering"),
        ("bad bad bad bad 5 ok ok ok 10", "closed"),
        ("bad bad bad bad 5 ok ok ok 9.9 bad bad bad bad", "open"),
        // After a recovery, the first wait is the short one again.
        (
            "bad bad bad bad 5 ok ok ok 10 bad bad bad bad 5",
            "half-open",
        ),
        ("bad bad bad bad 5 ok ok ok 9.9 bad bad bad bad 5", "open"),
    ];
    for (history, expected) in table {
        assert_eq!(play(settings(), history), expected, "{history}");
    }
}

#[test]
fn failures_in_a_row_need_no_volume() {
    let settings = Settings {
        min_requests: 1_000,
        consecutive_failures: Some(3),
        ..settings()
    };
    let table = [
        ("bad bad", "closed"),
        ("bad bad bad", "open"),
        ("bad bad ok bad bad", "closed"),
        ("bad bad gone bad", "open"),
        ("bad bad 60 bad", "open"),
    ];
    for (history, expected) in table {
        assert_eq!(play(settings, history), expected, "{history}");
    }
}

#[test]
fn the_twentieth_failure_opens_it() {
    let history = |failures| "bad ".repeat(failures);
    assert_eq!(play(Settings::default(), &history(19)), "closed");
    assert_eq!(play(Settings::default(), &history(20)), "open");
}

#[test]
fn a_recovery_admits_a_share_that_rises_linearly() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut breaker = Breaker::new(settings(), start());
    breaker.recover(start());
    // (seconds into the recovery, share in percent)
    for (seconds, percent) in [(0.0, 10), (2.5, 32), (5.0, 55), (7.5, 77), (9.9, 99)] {
        let now = start() + Duration::from_secs_f64(seconds);
        let admitted = (0..10_000).filter(|_| breaker.acquire(now, &mut random).is_ok());
        let share = admitted.count() / 100;
        assert!(share.abs_diff(percent) <= 2, "{share} % after {seconds} s");
    }
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut breaker = Breaker::new(settings(), start());
    assert_eq!(breaker.retry_after(start()), None);
    breaker.open(start(), &mut random);
    let after = breaker.retry_after(start()).expect("it is open");
    assert!((Duration::from_secs(4)..=Duration::from_secs(5)).contains(&after));
    let refused = breaker.acquire(start(), &mut random);
    assert_eq!(refused, Err(Refused { retry_after: after }));
    assert_eq!(breaker.retry_after(start() + after), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The seed is part of the input, which proptest prints on failure.
    #[test]
    fn never_more_probes_in_flight_than_allowed(
        seed: u64, probes in 1u8..=PROBES_MAX, probe_successes in 1u32..6, failing in 0.0..1.0,
    ) {
        let settings = Settings { probes, probe_successes, ..settings() };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut now = start();
        let mut breaker = Breaker::new(settings, now);
        breaker.open(now, &mut random);
        let mut permits: Vec<Permit> = Vec::new();
        for _ in 0..2_000 {
            now += Duration::from_millis(random.u64(0..300));
            if random.u8(0..3) > 0 {
                permits.extend(breaker.acquire(now, &mut random));
            } else if !permits.is_empty() {
                // Any permit may come back, also one of an earlier state, or never.
                let permit = permits.swap_remove(random.usize(..permits.len()));
                let outcome = match random.f64() {
                    draw if draw < failing => Outcome::Failure(LATENCY),
                    draw if draw < 0.95 => Outcome::Success(LATENCY),
                    _ => Outcome::Ignored,
                };
                breaker.report(now, permit, outcome, &mut random);
            }
            if let Status::HalfOpen { in_flight: counted, .. } = breaker.status(now, &mut random) {
                let is_of_now = |permit: &&Permit| permit.epoch == breaker.epoch;
                let in_flight = permits.iter().filter(is_of_now).count();
                prop_assert!(in_flight <= usize::from(probes));
                prop_assert_eq!(in_flight, counted as usize);
            }
        }
    }
}

#[test]
fn a_state_says_since_when_also_if_nobody_asked_at_that_moment() {
    let began = start();
    let mut random = fastrand::Rng::with_seed(1);
    let mut breaker = Breaker::new(settings(), began);
    assert_eq!(breaker.since(), began);
    let failed_at = began + Duration::from_secs(3);
    for _ in 0..4 {
        let permit = breaker.acquire(failed_at, &mut random).expect("closed");
        let outcome = Outcome::Failure(LATENCY);
        breaker.report(failed_at, permit, outcome, &mut random);
    }
    let Status::Open { remaining, .. } = breaker.status(failed_at, &mut random) else {
        panic!("it is open");
    };
    assert_eq!(breaker.since(), failed_at);
    let later = began + Duration::from_secs(1000);
    assert_eq!(breaker.status(later, &mut random).as_str(), "half-open");
    assert_eq!(breaker.since(), failed_at + remaining);
    for _ in 0..3 {
        let permit = breaker.acquire(later, &mut random).expect("a probe");
        breaker.report(later, permit, Outcome::Success(LATENCY), &mut random);
    }
    assert_eq!(breaker.since(), later);
    let much_later = later + Duration::from_secs(1000);
    assert_eq!(breaker.status(much_later, &mut random).as_str(), "closed");
    assert_eq!(breaker.since(), later + settings().recovery);
}
