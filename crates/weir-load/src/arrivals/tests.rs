use proptest::prelude::*;

use super::*;
use crate::mix::{Mix, Request};
use crate::plan::{Address, Plan, Protocol, Target};

fn plan(arrivals: Arrivals, end: End, warm_up: Duration) -> Plan {
    Plan {
        target: Target {
            address: Address::Unix("unused".into()),
            authority: String::new(),
            tls: None,
        },
        protocol: Protocol::Http1 { pipeline: 1 },
        mix: Mix::only(Request::get("/")).expect("a mix"),
        arrivals,
        end,
        warm_up,
        connections: 1,
        threads: 1,
        keep_alive: true,
        timeout: Duration::from_secs(1),
        seed: 7,
    }
}

fn whole(plan: &Plan) -> Vec<Arrival> {
    Schedule::new(plan, Share { index: 0, of: 1 }).collect()
}

fn ramp(from: f64, to: f64, seconds: u64) -> Arrivals {
    Arrivals::Ramp {
        from,
        to,
        over: Duration::from_secs(seconds),
    }
}

fn bursts(rate: f64, count: u32) -> Arrivals {
    Arrivals::Bursts { rate, count }
}

fn steps(steps: &[(f64, u64)]) -> Arrivals {
    let step = |&(rate, seconds)| Step {
        rate,
        lasts: Duration::from_secs(seconds),
    };
    Arrivals::Steps(steps.iter().map(step).collect())
}

/// The number of arrivals is the area under the rate.
#[test]
fn as_many_as_the_rate_says() {
    for (arrivals, seconds, count) in [
        (Arrivals::Constant(1000.0), 3, 3000),
        (Arrivals::Constant(0.5), 10, 5),
        (bursts(1000.0, 100), 3, 3000),
        (bursts(10.0, 100), 15, 200),
        (ramp(0.0, 1000.0, 4), 4, 2000),
        (ramp(1000.0, 0.0, 4), 4, 2000),
        (ramp(100.0, 300.0, 2), 5, 400 + 900),
        (ramp(500.0, 500.0, 2), 2, 1000),
        (steps(&[(100.0, 2), (0.0, 3), (200.0, 1)]), 6, 400),
        (steps(&[(100.0, 1), (10.0, 1)]), 10, 100 + 90),
    ] {
        let plan = plan(
            arrivals,
            End::After(Duration::from_secs(seconds)),
            Duration::ZERO,
        );
        let found = whole(&plan).len();
        assert_eq!(found, count, "{:?}", plan.arrivals);
    }
}

#[test]
fn each_at_its_instant() {
    let after = |seconds| End::After(Duration::from_secs(seconds));
    let at = |plan: &Plan, number: usize| whole(plan)[number].at_ns;
    // No error adds up: the millionth instant is as exact as the first.
    let even = plan(Arrivals::Constant(300_000.0), after(4), Duration::ZERO);
    assert_eq!(at(&even, 0), 0);
    assert_eq!(at(&even, 1), 3_333);
    assert_eq!(at(&even, 1_199_999), 3_999_996_667);
    // A ramp from nothing: the n-th when n = 500/2 t².
    let growing = plan(ramp(0.0, 500.0, 1), after(1), Duration::ZERO);
    assert_eq!(at(&growing, 10), 200_000_000);
    assert_eq!(at(&growing, 90), 600_000_000);
    let stepping = plan(
        steps(&[(10.0, 1), (0.0, 1), (100.0, 1)]),
        after(3),
        Duration::ZERO,
    );
    assert_eq!(at(&stepping, 9), 900_000_000);
    assert_eq!(at(&stepping, 10), 2_000_000_000);
    assert_eq!(at(&stepping, 11), 2_010_000_000);
}

#[test]
fn the_warm_up_is_the_load_as_it_begins() {
    let warm_up = Duration::from_secs(2);
    let plan = plan(ramp(100.0, 300.0, 1), End::Requests(50), warm_up);
    let all = whole(&plan);
    let (counted, warm): (Vec<Arrival>, Vec<Arrival>) =
        all.iter().partition(|arrival| arrival.is_counted);
    assert_eq!((warm.len(), counted.len()), (200, 50));
    assert_eq!(warm[199].at_ns, 1_990_000_000);
    assert_eq!(counted[0].at_ns, 2_000_000_000);
    assert_eq!(counted[0].number, 200);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
    let plan = plan(
        Arrivals::Poisson(1000.0),
        End::Requests(100_000),
        Duration::ZERO,
    );
    let all = whole(&plan);
    let gaps = all
        .windows(2)
        .map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9);
    let gaps: Vec<f64> = gaps.collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let longer = gaps.iter().filter(|gap| **gap > 0.002).count() as f64 / gaps.len() as f64;
    assert!((mean * 1000.0 - 1.0).abs() < 0.02, "{mean}");
    assert!((longer - (-2.0_f64).exp()).abs() < 0.01, "{longer}");
}

proptest! {
    /// Together, any number of threads sends the whole schedule, each arrival once and at the same instants.
    #[test]
    fn the_parts_are_the_whole(
        kind in 0..4,
        rate in 1.0..5000.0_f64,
        threads in 1_u64..9,
        warm_ms in 0_u64..300,
        by_number in any::<bool>(),
    ) {
        let arrivals = match kind {
            0 => Arrivals::Constant(rate),
            1 => Arrivals::Poisson(rate),
            2 => ramp(rate, 2.0 * rate, 1),
            _ => steps(&[(rate, 1), (0.0, 1), (rate / 2.0, 1)]),
        };
        let end = if by_number { End::Requests(500) } else { End::After(Duration::from_secs(1)) };
        let plan = plan(arrivals, end, Duration::from_millis(warm_ms));
        let whole = whole(&plan);
        let parts = (0..threads).map(|index| Schedule::new(&plan, Share { index, of: threads }));
        let mut together: Vec<_> = parts.flatten().collect();
        together.sort_by_key(|arrival| arrival.number);
        prop_assert_eq!(&together, &whole);
        prop_assert!(whole.is_sorted_by_key(|arrival| arrival.at_ns));
        let numbers = whole.iter().map(|arrival| arrival.number);
        prop_assert!(numbers.eq(0..whole.len() as u64));
    }

    /// The count is the same as one by one.
    #[test]
    fn what_is_left_is_counted(
        kind in 0..4,
        rate in 1.0..5000.0_f64,
        of in 1_u64..5,
        warm_ms in 0_u64..300,
        by_number in any::<bool>(),
        taken in 0_usize..1500,
        until in 0_u64..3000,
    ) {
        let arrivals = match kind {
            0 => Arrivals::Constant(rate),
            1 => Arrivals::Poisson(rate),
            2 => ramp(rate, 0.0, 1),
            _ => steps(&[(rate, 1), (0.0, 1), (rate / 2.0, 1)]),
        };
        let end = if by_number { End::Requests(500) } else { End::After(Duration::from_secs(1)) };
        let plan = plan(arrivals, end, Duration::from_millis(warm_ms));
        let mut schedule = Schedule::new(&plan, Share { index: of / 2, of });
        let _ = schedule.by_ref().take(taken).count();
        // Often this is exactly the instant of an arrival.
        let nth = schedule.clone().nth(until as usize).map(|arrival| arrival.at_ns);
        let until_ns = nth.unwrap_or(until * 1_000_000);
        let one_by_one = schedule.clone().filter(|arrival| arrival.is_counted && arrival.at_ns <= until_ns);
        prop_assert_eq!(schedule.counted_left(until_ns), one_by_one.count() as u64);
    }
}

/// Counting what could not be sent must not take as long as sending it.
#[test]
fn billions_that_are_left_are_counted_at_once() {
    for arrivals in [
        Arrivals::Constant(1e9),
        Arrivals::Poisson(1e9),
        ramp(1e9, 1e9, 1),
    ] {
        for end in [
            End::Requests(100_000_000_000),
            End::After(Duration::from_secs(100)),
        ] {
            let plan = plan(arrivals.clone(), end, Duration::from_secs(3));
            let schedule = Schedule::new(&plan, Share { index: 1, of: 2 });
            for (until_s, count) in [(3, 0.0), (13, 5e9), (200, 5e10)] {
                let found = schedule.counted_left(until_s * 1_000_000_000) as f64;
                assert!((found - count).abs() < 1e6, "{arrivals} {end:?}: {found}");
            }
        }
    }
}

#[test]
fn absurd_rates_are_refused() {
    let day = End::After(Duration::from_secs(86_400));
    for (arrivals, end, expected) in [
        (Arrivals::Constant(0.001), day, Ok(())),
        (Arrivals::Constant(0.001), End::Requests(86), Ok(())),
        (
            Arrivals::Constant(0.001),
            End::Requests(87),
            Err("87 requests at 0.001/s take more than a day"),
        ),
        (
            Arrivals::Poisson(0.001),
            End::Requests(87),
            Err("take more than a day"),
        ),
        (
            Arrivals::Constant(1e9),
            End::Requests(u64::MAX),
            Err("take more than a day"),
        ),
        (
            Arrivals::Constant(1e-12),
            day,
            Err("less than one request a day"),
        ),
        (
            Arrivals::Constant(5e-324),
            day,
            Err("less than one request a day"),
        ),
        (Arrivals::Constant(2e9), day, Err("beyond 0 to")),
        (Arrivals::Constant(f64::NAN), day, Err("beyond 0 to")),
        (Arrivals::Constant(f64::INFINITY), day, Err("beyond 0 to")),
        (ramp(0.0, 100.0, 10), day, Ok(())),
        (ramp(100.0, 0.0, 1), End::Requests(50), Ok(())),
        (
            ramp(100.0, 0.0, 1),
            End::Requests(51),
            Err("take more than a day"),
        ),
    ] {
        let found = arrivals.check(end);
        match (&found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(expected)) if found.contains(expected) => {}
            _ => panic!("{arrivals} {end:?}: {found:?}"),
        }
    }
}
