//! The comparison that `docs/decisions/0008-evidence-of-a-queue.md` quotes, and the numbers that weir promises.
//!
//! `cargo test -p weir-policy --test it overload::table -- --nocapture` prints it.

use super::gate::{Gate, Open, Other, Weir};
use super::other_limits::{Gradient2, Vegas};
use super::scenarios::{MS20, capacity, from};
use super::simulation::{
    Capacity, End, Load, Order, Record, Report, Scenario, Work, play, poisson, start,
};
use weir_policy::limit::concurrency::Limit;

const SEED: u64 = 5;
const SECONDS: f64 = 30.0;
/// When weir has found out, and what an overload left in the service is answered.
const SETTLED_S: f64 = 3.0;
const KINDS: [&str; 5] = ["nothing", "fixed 8", "gradient2", "vegas", "weir"];
const MULTIPLES: [f64; 8] = [0.5, 0.9, 1.0, 1.2, 1.5, 2.0, 5.0, 10.0];

fn gate(kind: &str) -> Box<dyn Gate> {
    let initial = 20;
    match kind {
        "nothing" => Box::new(Open),
        "fixed 8" => Box::new(Weir::new(Limit::Fixed(8), start())),
        "gradient2" => Box::new(Other::new(Gradient2::new(initial))),
        "vegas" => Box::new(Other::new(Vegas::new(initial, SEED))),
        "weir" => Box::new(Weir::adaptive()),
        _ => unreachable!("no such kind"),
    }
}

/// The service of the issue under one load.
fn run(kind: &str, seed: u64, seconds: f64, load: Vec<Load>) -> Report {
    run_in(vec![capacity(0.0, 8, MS20)], kind, seed, seconds, load)
}

fn run_in(capacity: Vec<Capacity>, kind: &str, seed: u64, seconds: f64, load: Vec<Load>) -> Report {
    let scenario = Scenario {
        seed,
        seconds: seconds + 2.0,
        capacity,
        pauses: None,
        sources: vec![(0, load)],
    };
    play(&scenario, &mut [gate(kind)])
}

#[test]
fn the_comparison() {
    println!("good answers per second / p99 of answers in ms / p99 of refusals in ms, seed {SEED}");
    for kind in KINDS {
        print!("| {kind} |");
        for multiple in MULTIPLES {
            let report = run(kind, SEED, SECONDS, vec![poisson(400.0 * multiple)]);
            let good = report.goodput(SETTLED_S, SECONDS);
            let answered_ms = report.answered_ms(SETTLED_S, SECONDS, 99.0);
            let refused_ms = report.refused_ms(SETTLED_S, SECONDS, 99.0);
            print!(" {good:.0} / {answered_ms:.0} / {refused_ms:.0} |");
            // Why the others were not chosen. Should this fail, the decision wants another look.
            if multiple >= 5.0 && ["gradient2", "vegas"].contains(&kind) {
                assert!(answered_ms > 200.0, "{kind} at {multiple}x");
            }
        }
        println!();
    }
    println!(
        "the limit and the p99 of answers in ms in the last minute of ten at 10x, seed {SEED}"
    );
    for kind in ["gradient2", "vegas", "weir"] {
        let report = run(kind, SEED, 600.0, vec![poisson(4_000.0)]);
        let (least, most) = report.limits(0, 540.0, 600.0);
        let answered_ms = report.answered_ms(540.0, 600.0, 99.0);
        println!("| {kind} | {least} to {most} | {answered_ms:.0} |");
    }
}

#[test]
fn goodput_is_that_of_the_best_at_every_multiple() {
    let constant = |per_s| Load {
        is_poisson: false,
        ..poisson(per_s)
    };
    for seed in 1..=5 {
        for multiple in 1..=10 {
            let per_s = 400.0 * f64::from(multiple);
            for load in [poisson(per_s), constant(per_s)] {
                let report = run("weir", seed, SECONDS, vec![load]);
                let case = format!("seed {seed}, {multiple}x, {load:?}");
                let good = report.goodput(SETTLED_S, SECONDS);
                assert!(good >= 0.95 * 400.0, "{case}: {good} good answers/s");
                let answered_ms = report.answered_ms(SETTLED_S, SECONDS, 99.0);
                // At its capacity a service queues now and then, and answers all the same.
                let most_ms = if multiple == 1 {
                    1_000.0
                } else {
                    5.0 * 20.0 + 20.0
                };
                assert!(answered_ms <= most_ms, "{case}: answers {answered_ms} ms");
                let refused_ms = report.refused_ms(SETTLED_S, SECONDS, 99.0);
                // A queue that is not overloaded may be waited in for its interval.
                let most_ms = if multiple == 1 { 100.0 } else { 5.0 };
                assert!(refused_ms <= most_ms, "{case}: refusals {refused_ms} ms");
            }
        }
    }
}

#[test]
fn traffic_that_the_service_can_take_is_not_refused() {
    for seed in 1..=5 {
        for share in [0.05, 0.5, 0.8] {
            let overload_first = vec![poisson(4_000.0), from(10.0, poisson(400.0 * share))];
            for (from_s, load) in [(0.0, vec![poisson(400.0 * share)]), (13.0, overload_first)] {
                let report = run("weir", seed, 600.0, load);
                let case = format!("seed {seed}, {share} of capacity from {from_s} s");
                let refused = report.refused_share(from_s, 600.0);
                assert!(refused < 1e-4, "{case}: {refused} refused");
            }
        }
    }
}

/// From the first second on, of a gateway that has just begun and of one that knows the service: an answer after a second is worth
/// nothing, and what is let in before anybody can know is answered late.
#[test]
fn an_overload_costs_little_from_its_first_instant_on() {
    let even = |per_s| Load {
        is_poisson: false,
        ..poisson(per_s)
    };
    let seconds = 10.0;
    println!("good answers a second / p99 of them in ms, in the first ten seconds");
    let in_any_order = Capacity {
        order: Order::Any,
        ..capacity(0.0, 8, MS20)
    };
    // At once, after a single request, and after a quarter of what the service can take.
    for (from_s, before) in [(0.0, 0.0), (1.5, 1.0), (10.0, 100.0)] {
        for multiple in [1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0] {
            let mut loads = vec![even(before), from(from_s, even(400.0 * multiple))];
            loads.drain(..usize::from(from_s == 0.0));
            let to_s = from_s + seconds;
            print!("| {multiple} x after {from_s} s |");
            let usual = vec![capacity(0.0, 8, MS20)];
            // What is asked first takes longer: connections are opened, caches are filled.
            let cold = |ms| {
                vec![
                    capacity(0.0, 8, MS20),
                    capacity(from_s, 8, Work::Fixed(ms)),
                    capacity(from_s + 0.015, 8, MS20),
                ]
            };
            for (kind, capacity) in [
                ("nothing", usual.clone()),
                ("fixed 8", usual.clone()),
                ("weir", usual),
                ("weir", cold(25.0)),
                ("weir", cold(30.0)),
                ("weir", vec![in_any_order]),
            ] {
                let (order, is_cold) = (capacity[0].order, capacity.len() > 1);
                let report = run_in(capacity, kind, SEED, to_s, loads.clone());
                let good = report.goodput(from_s, to_s);
                let p99_ms = report.good_ms(from_s, to_s, 99.0);
                print!(" {good:.0} / {p99_ms:.0} |");
                let case = format!("{multiple} x after {from_s} s: {good}/s, {p99_ms} ms");
                assert!(kind != "weir" || good >= 0.97 * 400.0, "{case}");
                let p99_most_ms = match (order, is_cold) {
                    (Order::Any, _) => 600.0,
                    (Order::Arrival, true) => 250.0,
                    (Order::Arrival, false) => 120.0,
                };
                assert!(
                    kind != "weir" || multiple < 2.0 || p99_ms <= p99_most_ms,
                    "{case}"
                );
            }
            println!();
        }
    }
}

/// A service is three times slower for ten seconds, and clients leave after a tenth of a second: the queue that it made is not there any
/// more when it is well again.
#[test]
fn what_a_slow_time_left_is_gone_with_it() {
    let within = |record: &&Record| matches!(record.end, End::Answered(latency) if latency.as_millis() <= 100);
    println!(
        "answers a second within 100 ms: before, while 20 ms are 60, and in the two seconds after"
    );
    for per_s in [240.0, 300.0, 360.0] {
        for kind in ["nothing", "fixed 8", "weir"] {
            let scenario = Scenario {
                seed: SEED,
                seconds: 25.0,
                capacity: vec![
                    capacity(0.0, 8, MS20),
                    capacity(10.0, 8, Work::Fixed(60.0)),
                    capacity(20.0, 8, MS20),
                ],
                pauses: None,
                sources: vec![(0, vec![poisson(per_s)])],
            };
            let report = play(&scenario, &mut [gate(kind)]);
            let good = [(0.0, 10.0), (10.0, 20.0), (20.0, 22.0)].map(|(from_s, to_s)| {
                report.between(from_s, to_s).filter(within).count() as f64 / (to_s - from_s)
            });
            println!("| {per_s}/s | {kind} | {good:.0?} |");
            assert!(kind != "weir" || good[2] > 0.9 * per_s, "{good:?}");
        }
    }
}
