//! What the adaptive limit must do, whatever the service: scenarios with the figures that must hold.
//!
//! Each row says in which seconds it looks, how many good answers a second the service could have given then, and what
//! share of them must come; how late the answers may be; and what share of requests may be refused. `WEIR_CASE=text` plays the
//! cases whose names contain it.

use super::gate::{Gate, Told, Weir};
use super::simulation::{
    Capacity, End, Load, Order, Record, Report, Scenario, Work, play, poisson, start,
};
use std::time::Duration;
use weir_policy::limit::priority::Priority;

/// One row: a window of a run and what must hold in it.
struct Window {
    from_s: f64,
    to_s: f64,
    /// Good answers a second that the service can give.
    possible: f64,
    /// The percentage of them that must come.
    percent_min: f64,
    /// The 99th percentile of the latency of answers is at most this.
    answered_p99_ms_max: f64,
    /// At most this percentage of requests is refused.
    refused_percent_max: f64,
}

/// A service, its load, and the windows.
struct Case {
    name: &'static str,
    capacity: Vec<Capacity>,
    sources: Vec<(usize, Vec<Load>)>,
    windows: Vec<Window>,
}

pub(crate) fn capacity(from_s: f64, slots: usize, work: Work) -> Capacity {
    Capacity {
        from_s,
        slots,
        work,
        order: Order::Arrival,
    }
}

pub(crate) fn from(from_s: f64, load: Load) -> Load {
    Load { from_s, ..load }
}

fn window(seconds: [f64; 2], possible: f64, percent_min: f64, p99_ms: f64, refused: f64) -> Window {
    Window {
        from_s: seconds[0],
        to_s: seconds[1],
        possible,
        percent_min,
        answered_p99_ms_max: p99_ms,
        refused_percent_max: refused,
    }
}

pub(crate) const MS20: Work = Work::Fixed(20.0);

/// The service of the issue: 8 slots of 20 ms.
fn usual() -> Vec<Capacity> {
    vec![capacity(0.0, 8, MS20)]
}

fn one(loads: Vec<Load>) -> Vec<(usize, Vec<Load>)> {
    vec![(0, loads)]
}

fn cases() -> Vec<Case> {
    let mut cases = steady();
    cases.extend(fast());
    cases.extend(service_changes());
    cases.extend(load_changes());
    cases.extend(surges());
    cases
}

fn steady() -> Vec<Case> {
    let exponential = vec![capacity(0.0, 8, Work::Exponential(20.0))];
    let bimodal = vec![capacity(
        0.0,
        8,
        Work::Bimodal {
            usual: 5.0,
            rare: 155.0,
            one_of: 10,
        },
    )];
    vec![
        Case {
            name: "exponential work, 1x",
            capacity: exponential.clone(),
            sources: one(vec![poisson(400.0)]),
            windows: vec![window([3.0, 60.0], 400.0, 91.0, 700.0, 9.0)],
        },
        Case {
            name: "exponential work, 10x",
            capacity: exponential,
            sources: one(vec![poisson(4_000.0)]),
            windows: vec![window([3.0, 60.0], 400.0, 96.0, 200.0, 100.0)],
        },
        Case {
            name: "bimodal work, 1x",
            capacity: bimodal.clone(),
            sources: one(vec![poisson(400.0)]),
            windows: vec![window([3.0, 60.0], 400.0, 88.0, 1_000.0, 12.0)],
        },
        Case {
            name: "bimodal work, 10x",
            capacity: bimodal,
            sources: one(vec![poisson(4_000.0)]),
            windows: vec![window([3.0, 60.0], 400.0, 91.0, 400.0, 100.0)],
        },
        Case {
            name: "one slot, 10x",
            capacity: vec![capacity(0.0, 1, MS20)],
            sources: one(vec![poisson(500.0)]),
            windows: vec![window([10.0, 60.0], 50.0, 98.0, 400.0, 100.0)],
        },
        Case {
            name: "8 slots of 200 ms, 10x",
            capacity: vec![capacity(0.0, 8, Work::Fixed(200.0))],
            sources: one(vec![poisson(400.0)]),
            windows: vec![window([20.0, 120.0], 40.0, 95.0, 800.0, 100.0)],
        },
    ]
}

fn fast() -> Vec<Case> {
    vec![
        Case {
            name: "200 slots of 5 ms, 10x",
            capacity: vec![capacity(0.0, 200, Work::Fixed(5.0))],
            sources: one(vec![poisson(400_000.0)]),
            windows: vec![
                window([0.0, 1.0], 40_000.0, 75.0, 300.0, 100.0),
                window([1.0, 5.0], 40_000.0, 97.0, 28.0, 100.0),
            ],
        },
        Case {
            name: "4 slots of 0.1 ms, 10x",
            capacity: vec![capacity(0.0, 4, Work::Fixed(0.1))],
            sources: one(vec![poisson(400_000.0)]),
            windows: vec![window([0.5, 2.0], 40_000.0, 99.0, 9.0, 100.0)],
        },
        Case {
            name: "200 slots of 5 ms, healthy",
            capacity: vec![capacity(0.0, 200, Work::Fixed(5.0))],
            sources: one(vec![poisson(30_000.0)]),
            windows: vec![
                window([0.0, 2.0], 30_000.0, 99.0, 10.0, 0.0),
                window([2.0, 20.0], 30_000.0, 99.0, 10.0, 0.0),
            ],
        },
    ]
}

fn service_changes() -> Vec<Case> {
    vec![
        Case {
            name: "8 -> 4 -> 16 slots, 10x",
            capacity: vec![
                capacity(0.0, 8, MS20),
                capacity(20.0, 4, MS20),
                capacity(40.0, 16, MS20),
            ],
            sources: one(vec![poisson(4_000.0)]),
            windows: vec![
                window([3.0, 20.0], 400.0, 97.0, 100.0, 100.0),
                window([23.0, 40.0], 200.0, 97.0, 100.0, 100.0),
                window([43.0, 60.0], 800.0, 97.0, 100.0, 100.0),
            ],
        },
        Case {
            name: "20 -> 60 -> 20 ms, 10x",
            capacity: vec![
                capacity(0.0, 8, MS20),
                capacity(20.0, 8, Work::Fixed(60.0)),
                capacity(40.0, 8, MS20),
            ],
            sources: one(vec![poisson(4_000.0)]),
            windows: vec![
                window([3.0, 20.0], 400.0, 97.0, 100.0, 100.0),
                window([23.0, 40.0], 400.0 / 3.0, 95.0, 450.0, 100.0),
                window([43.0, 60.0], 400.0, 96.0, 100.0, 100.0),
            ],
        },
        Case {
            name: "100 slots, 5 -> 15 ms, 2x",
            capacity: vec![
                capacity(0.0, 100, Work::Fixed(5.0)),
                capacity(20.0, 100, Work::Fixed(15.0)),
            ],
            sources: one(vec![poisson(40_000.0)]),
            windows: vec![
                window([5.0, 20.0], 20_000.0, 98.0, 30.0, 100.0),
                window([23.0, 60.0], 20_000.0 / 3.0, 98.0, 75.0, 100.0),
            ],
        },
        Case {
            name: "100 slots, 5 -> 50 ms at 0.5x of the slower",
            capacity: vec![
                capacity(0.0, 100, Work::Fixed(5.0)),
                capacity(20.0, 100, Work::Fixed(50.0)),
            ],
            sources: one(vec![poisson(40_000.0), from(10.0, poisson(1_000.0))]),
            windows: vec![window([23.0, 60.0], 1_000.0, 98.0, 75.0, 1.0)],
        },
        Case {
            name: "10 minutes of 10x",
            capacity: usual(),
            sources: one(vec![poisson(4_000.0)]),
            windows: vec![
                window([3.0, 60.0], 400.0, 97.0, 100.0, 100.0),
                window([540.0, 600.0], 400.0, 97.0, 100.0, 100.0),
            ],
        },
    ]
}

fn load_changes() -> Vec<Case> {
    let burst = |count: u32| Load {
        burst: count,
        is_poisson: false,
        ..poisson(f64::from(count))
    };
    vec![
        Case {
            name: "overload, an hour idle, overload",
            capacity: usual(),
            sources: one(vec![
                poisson(4_000.0),
                from(10.0, poisson(0.0)),
                from(3_610.0, poisson(4_000.0)),
            ]),
            windows: vec![window([3_613.0, 3_630.0], 400.0, 97.0, 100.0, 100.0)],
        },
        Case {
            name: "0.8x after overload",
            capacity: usual(),
            sources: one(vec![poisson(4_000.0), from(30.0, poisson(320.0))]),
            windows: vec![window([31.0, 90.0], 320.0, 98.0, 100.0, 0.0)],
        },
        Case {
            name: "bursts of 24, one a second",
            capacity: usual(),
            sources: one(vec![burst(24)]),
            windows: vec![window([0.0, 60.0], 24.0, 100.0, 100.0, 0.0)],
        },
        Case {
            name: "bursts of 48 to a fast service, 100 a second",
            capacity: vec![capacity(0.0, 1, Work::Fixed(0.05))],
            sources: one(vec![Load {
                burst: 48,
                is_poisson: false,
                ..poisson(4_800.0)
            }]),
            windows: vec![window([1.0, 20.0], 4_800.0, 100.0, 5.0, 0.0)],
        },
        Case {
            name: "bursts of 100, one a second",
            capacity: usual(),
            sources: one(vec![burst(100)]),
            windows: vec![window([0.0, 60.0], 100.0, 100.0, 300.0, 0.0)],
        },
        Case {
            name: "two gates before one service, 10x and 0.3x",
            capacity: usual(),
            sources: vec![(0, vec![poisson(4_000.0)]), (1, vec![poisson(120.0)])],
            windows: vec![window([17.0, 60.0], 400.0, 97.0, 160.0, 100.0)],
        },
    ]
}

/// What comes all at once, and is no overload.
fn surges() -> Vec<Case> {
    vec![
        Case {
            name: "overload, a minute idle, then a few bursts of 60",
            capacity: usual(),
            sources: one(vec![
                poisson(4_000.0),
                from(10.0, poisson(0.0)),
                from(
                    70.0,
                    Load {
                        burst: 60,
                        is_poisson: false,
                        ..poisson(6.0)
                    },
                ),
            ]),
            windows: vec![window([70.0, 100.0], 6.0, 100.0, 200.0, 0.0)],
        },
        Case {
            name: "health checks of 1.5 ms only, then 30 % with 30 ms",
            capacity: vec![
                capacity(0.0, 200, Work::Fixed(1.5)),
                capacity(60.0, 200, Work::Fixed(30.0)),
            ],
            sources: one(vec![poisson(1.0), from(60.0, poisson(2_000.0))]),
            windows: vec![window([60.0, 70.0], 2_000.0, 97.0, 120.0, 2.0)],
        },
        Case {
            name: "page loads of 100 in 50 ms, one a minute",
            capacity: usual(),
            sources: one(std::iter::once(poisson(10.0)).chain(page_loads()).collect()),
            windows: vec![window([0.0, 600.0], 11.5, 90.0, 300.0, 0.0)],
        },
    ]
}

/// A hundred requests, half a millisecond apart, every minute, and ten a second besides.
fn page_loads() -> Vec<Load> {
    let even = |per_s| Load {
        is_poisson: false,
        ..poisson(per_s)
    };
    let loads = (1..10).flat_map(|minute| {
        let at_s = 60.0 * f64::from(minute);
        [from(at_s, even(2_000.0)), from(at_s + 0.05, poisson(10.0))]
    });
    loads.collect()
}

fn run(case: &Case, seed: u64) -> Report {
    let seconds = case.windows.last().expect("a case has windows").to_s;
    let gates = case.sources.iter().map(|&(gate, _)| gate + 1).max();
    let scenario = Scenario {
        seed,
        seconds: seconds + 2.0,
        capacity: case.capacity.clone(),
        pauses: None,
        sources: case.sources.clone(),
    };
    let mut gates: Vec<Box<dyn Gate>> = (0..gates.expect("a case has sources"))
        .map(|_| Box::new(Weir::adaptive()) as Box<dyn Gate>)
        .collect();
    play(&scenario, &mut gates)
}

#[test]
fn every_service_is_kept_busy_and_none_is_overrun() {
    let only = std::env::var("WEIR_CASE").unwrap_or_default();
    let mut broken = Vec::new();
    for case in cases().iter().filter(|case| case.name.contains(&only)) {
        for seed in 1..=3 {
            let report = run(case, seed);
            for window in &case.windows {
                let (from_s, to_s) = (window.from_s, window.to_s);
                let percent = 100.0 * report.goodput(from_s, to_s) / window.possible;
                let p99_ms = report.answered_ms(from_s, to_s, 99.0);
                let refused = 100.0 * report.refused_share(from_s, to_s);
                let line = format!(
                    "{}, seed {seed}, {from_s} to {to_s} s: {percent:.1} % of what is possible, p99 {p99_ms:.0} ms, \
                     {refused:.2} % refused, limit {:?}",
                    case.name,
                    report.limits(0, from_s, to_s),
                );
                println!("{line}");
                if percent < window.percent_min
                    || p99_ms > window.answered_p99_ms_max
                    || refused > window.refused_percent_max
                {
                    broken.push(line);
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Gateways know nothing of each other: how late answers are is a matter of chance, and of how a machine rounds. So many seeds tell
/// what is usual.
const SEEDS: u64 = 7;
/// Good answers a second that the usual service can give.
const USUAL_PER_S: f64 = 400.0;
/// One gateway may keep the service busy by itself, and the others without work; their queues then wait for its.
const LEAST_PERCENT: f64 = 60.0;

/// So many gateways share one load, after some seconds of a quarter of what the service can take. It comes to one after the other,
/// so many seconds apart.
fn shared(gateways: usize, times: f64, [quiet_s, apart_s]: [f64; 2]) -> Case {
    let share = |times| USUAL_PER_S * times / gateways as f64;
    let load = |gate| {
        let begins_s = quiet_s + apart_s * gate as f64;
        vec![poisson(share(0.25)), from(begins_s, poisson(share(times)))]
    };
    Case {
        name: "several gateways",
        capacity: usual(),
        sources: (0..gateways).map(|gate| (gate, load(gate))).collect(),
        windows: vec![window([27.0, 60.0], USUAL_PER_S, 97.0, 2_000.0, 100.0)],
    }
}

/// Of all seeds, the 99th percentile of answers in ms and the percentage of what is possible, from the best to the worst.
fn figures(case: &Case) -> [Vec<f64>; 2] {
    let Window { from_s, to_s, .. } = case.windows[0];
    let reports: Vec<Report> = (0..SEEDS).map(|seed| run(case, seed)).collect();
    let late_ms = |report: &Report| report.answered_ms(from_s, to_s, 99.0);
    let percent = |report: &Report| 100.0 * report.goodput(from_s, to_s) / USUAL_PER_S;
    let mut late_ms: Vec<f64> = reports.iter().map(late_ms).collect();
    let mut percent: Vec<f64> = reports.iter().map(percent).collect();
    late_ms.sort_by(f64::total_cmp);
    percent.sort_by(|one, other| other.total_cmp(one));
    [late_ms, percent]
}

#[test]
fn several_gateways_before_one_service_do_little_worse_than_one() {
    const WORST: usize = SEEDS as usize - 1;
    println!(
        "p99 in ms and good answers in % of what is possible: the median of {SEEDS} seeds, and the worst"
    );
    // Just started, when the service is known, and one gateway after the other.
    for (when, more_at_most) in [([0.0, 0.0], 6.0), ([10.0, 0.0], 3.0), ([10.0, 0.1], 5.0)] {
        for times in [1.3, 2.0, 5.0, 10.0] {
            let mut one_ms = f64::INFINITY;
            print!("| {times} x after {} s, {} s apart |", when[0], when[1]);
            for gateways in [1, 2, 3, 6] {
                let case = shared(gateways, times, when);
                let [late_ms, percent] = figures(&case);
                let (late, share) = (late_ms[WORST / 2], percent[WORST / 2]);
                let (latest, least) = (late_ms[WORST], percent[WORST]);
                print!(" {late:.0} ({latest:.0}) / {share:.0} ({least:.0}) |");
                one_ms = if gateways == 1 { late } else { one_ms };
                let window = &case.windows[0];
                assert!(late <= more_at_most * one_ms && share >= window.percent_min);
                assert!(latest <= window.answered_p99_ms_max && least >= LEAST_PERCENT);
            }
            println!();
        }
    }
}

/// When an overload has been found out, and what it left in the service is answered.
const SETTLED_S: f64 = 3.0;

/// The usual service under these rates of critical, normal and low requests for half a minute.
fn by_priority(seed: u64, per_s: [f64; 3]) -> Report {
    let priorities = [Priority::Critical, Priority::Normal, Priority::Low];
    let load = |priority, per_s| Load {
        priority,
        ..poisson(per_s)
    };
    let sources = priorities.into_iter().zip(per_s);
    let case = Case {
        name: "priorities",
        capacity: usual(),
        sources: sources
            .map(|(priority, per_s)| (0, vec![load(priority, per_s)]))
            .collect(),
        windows: vec![window([0.0, 30.0], 400.0, 0.0, 0.0, 0.0)],
    };
    run(&case, seed)
}

#[test]
fn the_lowest_priority_is_shed_first() {
    for seed in 1..=3 {
        let report = by_priority(seed, [200.0, 100.0, 2_000.0]);
        let refused: Vec<f64> = (0..3).map(|source| refused_of(&report, source)).collect();
        println!("seed {seed}: refused {refused:.3?} of critical, normal, low");
        assert!(refused[0] < 0.02, "seed {seed}: {refused:?}");
        assert!(refused[1] < 0.1, "seed {seed}: {refused:?}");
        assert!(refused[2] > 0.9, "seed {seed}: {refused:?}");
    }
}

/// The service answers eight at once, and nobody who is hurried waits from one time to the next: without further care the
/// places would go to whoever happens to be there, who are low most of the time.
#[test]
fn where_a_priority_is_too_much_alone_nothing_is_left_for_lower_ones() {
    for seed in 1..=3 {
        for low_per_s in [2_000.0, 8_000.0] {
            let report = by_priority(seed, [0.0, 800.0, low_per_s]);
            let answered: Vec<f64> = (1..3).map(|source| answered_of(&report, source)).collect();
            println!("seed {seed}: {answered:.1?} answers a second to normal, low");
            assert!(answered[0] > 388.0, "seed {seed}: {answered:?}");
            assert!(answered[1] < 4.0, "seed {seed}: {answered:?}");
        }
    }
}

/// Answers a second to a source, in the half minute of [`by_priority`].
fn answered_of(report: &Report, source: usize) -> f64 {
    let of_source = report
        .between(SETTLED_S, 30.0)
        .filter(|it| it.source == source);
    let answered = of_source.filter(|it| matches!(it.end, End::Answered(_)));
    answered.count() as f64 / (30.0 - SETTLED_S)
}

/// The share of a source's requests that were refused.
fn refused_of(report: &Report, source: usize) -> f64 {
    let of_source: Vec<_> = report
        .between(SETTLED_S, 30.0)
        .filter(|record| record.source == source)
        .collect();
    let is_refused = |record: &&&Record| matches!(record.end, End::Refused(_));
    let refused = of_source.iter().filter(is_refused).count();
    refused as f64 / of_source.len() as f64
}

/// One of three replicas leaves at twice what all can take, and is back twenty seconds later. A gate that is told so lets in no more
/// than what the others keep up with, at once, and as much as before when it is back.
#[test]
fn a_limit_follows_the_replicas_that_are_in() {
    let scenario = Scenario {
        seed: 7,
        seconds: 60.0,
        capacity: vec![
            capacity(0.0, 24, MS20),
            capacity(20.0, 16, MS20),
            capacity(40.0, 24, MS20),
        ],
        pauses: None,
        sources: one(vec![poisson(2_400.0)]),
    };
    let at = |second: u64| start() + Duration::from_secs(second);
    let told = Told {
        weir: Weir::adaptive(),
        changes: [(at(20), 2.0 / 3.0), (at(40), 1.5)].into(),
    };
    let (told, untold) = (
        play(&scenario, &mut [Box::new(told)]),
        play(&scenario, &mut [Box::new(Weir::adaptive())]),
    );
    let p50 = |report: &Report, from_s, to_s| report.answered_ms(from_s, to_s, 50.0);
    let then = p50(&told, 15.0, 20.0);
    let (less, late) = (p50(&told, 20.1, 20.6), p50(&untold, 20.1, 20.6));
    println!("p50 {then:.0} ms with three; in half a second with two {less:.0}, untold {late:.0}");
    assert!(less < late, "{less} ms, {late} ms where nobody says so");
    let (_, with_three) = told.limits(0, 19.0, 19.9);
    let (_, with_two) = told.limits(0, 20.1, 20.4);
    assert!(
        f64::from(with_two) < 0.8 * f64::from(with_three),
        "{with_three} places, then {with_two}"
    );
    for (from_s, to_s, per_s) in [
        (5.0, 20.0, 1_200.0),
        (20.0, 40.0, 800.0),
        (40.5, 60.0, 1_200.0),
    ] {
        let good = told.goodput(from_s, to_s) / per_s;
        assert!(
            good > 0.95,
            "{good} of what can be answered from {from_s} s on"
        );
    }
}

/// A service that is no smaller for it, because something behind its replicas holds it back, is not starved.
#[test]
fn a_limit_that_was_lowered_for_nothing_is_back_within_a_second() {
    let scenario = Scenario {
        seed: 7,
        seconds: 40.0,
        capacity: vec![capacity(0.0, 24, MS20)],
        pauses: None,
        sources: one(vec![poisson(2_400.0)]),
    };
    for factor in [0.1, 2.0 / 3.0, 1.5, 10.0] {
        let told = Told {
            weir: Weir::adaptive(),
            changes: [(start() + Duration::from_secs(20), factor)].into(),
        };
        let report = play(&scenario, &mut [Box::new(told)]);
        let good = report.goodput(21.0, 40.0) / 1_200.0;
        assert!(good > 0.95, "told {factor}: {good} of what can be answered");
    }
}
