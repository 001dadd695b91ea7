//! `protect` does no harm and saves a service that is overrun, over a space of services and loads: points drawn at random, each
//! played with the limit and without it.
//!
//! `WEIR_POINTS=n` plays so many of those in which nothing changes and so many of the others, `WEIR_FIRST=n` such that begin there,
//! `WEIR_POINT=n` one, whose course is printed.

use crate::overload::gate::{Gate, Open, Other, Weir};
use crate::overload::other_limits::{Envoy, Gradient2, Vegas};
use crate::overload::simulation::{
    Capacity, End, Load, Order, Pauses, Report, Scenario, Work, closed, play, poisson, start,
};
use weir_policy::limit::concurrency::Limit;

/// One service under one load.
#[derive(Debug, Clone, Copy)]
struct Point {
    seed: u64,
    /// None for a service that has no limit of its own.
    slots: Option<u32>,
    /// The mean time of a request, in seconds.
    mean_s: f64,
    times: Times,
    /// The share of the capacity that is asked for.
    load: f64,
    arrivals: Arrivals,
    gateways: usize,
    change: Change,
    order: Order,
}

/// What happens to it, once the rule has had its time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    /// So many times as many slots.
    Slots(f64),
    /// Requests take so many times as long.
    Times(f64),
    /// So many times as many requests for two seconds.
    Surge(f64),
    /// Pauses of so many seconds every two.
    Pauses(f64),
}

/// How service times vary.
#[derive(Debug, Clone, Copy)]
enum Times {
    Constant,
    Exponential,
    LogNormal,
    /// Nine in ten are short, one takes thirty times as long.
    OneOfTen,
    /// One in a hundred takes a hundred times as long.
    OneOfHundred,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrivals {
    Even,
    Poisson,
    Bursts(u32),
    Closed(u32),
}

/// The first points are of one gateway each, and nothing changes.
const STILL: u64 = 600;

/// A service without slots is taken to have so many, to say what a load is.
const NOMINAL_SLOTS: u32 = 64;
/// Points with more requests a second take too long to play.
const RATE_MAX: f64 = 60_000.0;

/// What came of a point.
#[derive(Debug)]
struct Verdict {
    /// By how much the rule is broken, above 1, and where.
    score: f64,
    what: String,
    /// The share that was refused of what the service could take, from the first second to the first change.
    refused_unduly: f64,
}

impl Verdict {
    fn add(&mut self, score: f64, what: impl FnOnce() -> String) {
        if score > self.score {
            *self = Self {
                score,
                what: what(),
                ..*self
            };
        }
    }
}

/// What the service is, and what is asked of it, from a second on.
#[derive(Debug, Clone, Copy)]
struct Phase {
    from_s: f64,
    slots: Option<u32>,
    mean_s: f64,
    per_s: f64,
}

impl Phase {
    fn capacity(&self) -> f64 {
        self.slots
            .map_or(f64::INFINITY, |slots| f64::from(slots) / self.mean_s)
    }
}

impl Point {
    fn draw(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        loop {
            let slots = [1, 4, 8, 32, 64, 200, 1_000, 0][random.usize(..8)];
            let times = [
                Times::Constant,
                Times::Exponential,
                Times::LogNormal,
                Times::OneOfTen,
                Times::OneOfHundred,
            ];
            let arrivals = [
                Arrivals::Even,
                Arrivals::Poisson,
                Arrivals::Poisson,
                Arrivals::Bursts(100),
                Arrivals::Closed(64),
            ];
            let changes = [
                Change::Nothing,
                Change::Nothing,
                Change::Nothing,
                Change::Slots(0.25),
                Change::Slots(8.0),
                Change::Times(3.0),
                Change::Times(1.0 / 3.0),
                Change::Surge(10.0),
                Change::Pauses(0.05),
                Change::Pauses(0.4),
            ];
            let mut point = Self {
                seed,
                slots: (slots > 0).then_some(slots),
                mean_s: [25e-6, 0.001, 0.005, 0.02, 0.1, 1.0, 5.0][random.usize(..7)],
                times: times[random.usize(..5)],
                load: [0.05, 0.3, 0.8, 0.9, 0.95, 1.0, 1.2, 2.0, 10.0][random.usize(..9)],
                arrivals: arrivals[random.usize(..5)],
                gateways: [1, 1, 1, 2, 3, 6][random.usize(..6)],
                change: changes[random.usize(..10)],
                order: [Order::Arrival, Order::Any][(seed % 2) as usize],
            };
            if seed < STILL {
                (point.gateways, point.change) = (1, Change::Nothing);
            }
            let rate = match point.arrivals {
                Arrivals::Closed(_) => point.nominal(),
                _ => point.nominal() * point.load,
            };
            if rate <= RATE_MAX {
                return point;
            }
        }
    }

    /// Requests a second that it can answer.
    fn nominal(&self) -> f64 {
        f64::from(self.slots.unwrap_or(NOMINAL_SLOTS)) / self.mean_s
    }

    fn work(&self, mean_s: f64) -> Work {
        let ms = mean_s * 1e3;
        match self.times {
            Times::Constant => Work::Fixed(ms),
            Times::Exponential => Work::Exponential(ms),
            Times::LogNormal => Work::LogNormal(ms),
            Times::OneOfTen => Work::Bimodal {
                usual: ms / 3.9,
                rare: 30.0 * ms / 3.9,
                one_of: 10,
            },
            Times::OneOfHundred => Work::Bimodal {
                usual: ms / 1.99,
                rare: 100.0 * ms / 1.99,
                one_of: 100,
            },
        }
    }

    /// The 99th percentile of the time of a request when nothing queues, in milliseconds.
    fn unloaded_p99_ms(&self, mean_s: f64) -> f64 {
        let times = match self.times {
            Times::Constant => 1.0,
            Times::Exponential => 4.6,
            Times::LogNormal => (2.326_f64 - 0.5).exp(),
            Times::OneOfTen => 30.0 / 3.9,
            Times::OneOfHundred => 100.0 / 1.99,
        };
        1e3 * mean_s * times
    }

    /// The phases: when each begins, its slots, mean time and load.
    fn phases(&self) -> Vec<Phase> {
        let first = Phase {
            from_s: 0.0,
            slots: self.slots,
            mean_s: self.mean_s,
            per_s: self.nominal() * self.load,
        };
        let change_s = self.settles_s(self.mean_s) + (20.0 * self.mean_s).max(4.0);
        let then = Phase {
            from_s: change_s,
            ..first
        };
        let mut phases = vec![first];
        match self.change {
            Change::Nothing | Change::Pauses(_) => {}
            Change::Slots(factor) => phases.push(Phase {
                slots: self
                    .slots
                    .map(|slots| ((f64::from(slots) * factor) as u32).max(1)),
                ..then
            }),
            Change::Times(factor) => phases.push(Phase {
                mean_s: self.mean_s * factor,
                ..then
            }),
            Change::Surge(factor) => {
                phases.push(Phase {
                    per_s: first.per_s * factor,
                    ..then
                });
                phases.push(Phase {
                    from_s: change_s + 2.0,
                    ..first
                });
            }
        }
        phases
    }

    /// The time that it has to find out, in seconds: three, or twenty mean times, or until a hundred answers have come to each
    /// gateway. From fewer nobody could tell. Several gateways have thrice the time: they have to cut at once.
    fn settles_s(&self, mean_s: f64) -> f64 {
        let answers_per_s = self.slots.map_or(f64::INFINITY, f64::from) / mean_s;
        let answers_s = 100.0 * self.gateways as f64 / answers_per_s;
        let together = if self.gateways > 1 { 3.0 } else { 1.0 };
        together * (20.0 * mean_s).max(answers_s).max(3.0)
    }

    /// When the rule is looked at, and in which phase: the seconds.
    fn windows(&self) -> Vec<(Phase, f64, f64)> {
        let phases = self.phases();
        let ends = phases
            .iter()
            .skip(1)
            .map(|phase| phase.from_s)
            .chain([f64::INFINITY]);
        let windows = phases.iter().zip(ends).map(|(phase, end)| {
            let from_s = phase.from_s + self.settles_s(phase.mean_s);
            (
                *phase,
                from_s,
                end.min(from_s + (20.0 * phase.mean_s).max(4.0)),
            )
        });
        windows.filter(|(_, from_s, to_s)| from_s < to_s).collect()
    }

    fn end_s(&self) -> f64 {
        self.windows().last().map_or(0.0, |(_, _, to_s)| *to_s)
    }

    fn play(&self, gate: impl Fn() -> Box<dyn Gate>) -> Report {
        let gateways = self.gateways as f64;
        let load = |phase: &Phase| match self.arrivals {
            Arrivals::Closed(clients) => Load {
                from_s: phase.from_s,
                ..closed(clients / self.gateways as u32)
            },
            arrivals => Load {
                from_s: phase.from_s,
                burst: if let Arrivals::Bursts(burst) = arrivals {
                    burst
                } else {
                    1
                },
                is_poisson: arrivals != Arrivals::Even,
                ..poisson(phase.per_s / gateways)
            },
        };
        let phases = self.phases();
        let capacity = |phase: &Phase| Capacity {
            from_s: phase.from_s,
            slots: phase.slots.map_or(usize::MAX, |slots| slots as usize),
            work: self.work(phase.mean_s),
            order: self.order,
        };
        let loads: Vec<Load> = phases.iter().map(load).collect();
        let scenario = Scenario {
            seed: self.seed,
            seconds: self.end_s(),
            capacity: phases.iter().map(capacity).collect(),
            pauses: match self.change {
                Change::Pauses(length_s) => Some(Pauses {
                    every_s: 2.0,
                    length_s,
                }),
                _ => None,
            },
            sources: (0..self.gateways)
                .map(|gate| (gate, loads.clone()))
                .collect(),
        };
        let mut gates: Vec<_> = (0..self.gateways).map(|_| gate()).collect();
        play(&scenario, &mut gates)
    }

    /// Where the rule is broken most.
    fn judge(&self) -> Verdict {
        self.judge_with(|| Box::new(Weir::adaptive()))
    }

    fn judge_with(&self, gate: impl Fn() -> Box<dyn Gate>) -> Verdict {
        let with = self.play(gate);
        let without = self.play(|| Box::new(Open));
        let mut verdict = Verdict {
            score: 0.0,
            what: String::new(),
            refused_unduly: 0.0,
        };
        for (phase, from_s, to_s) in self.windows() {
            if self.share(&phase) <= 0.9 {
                Self::judge_harm(&mut verdict, [&with, &without], &phase, from_s, to_s);
            } else {
                self.judge_overload(&mut verdict, [&with, &without], &phase, from_s, to_s);
            }
        }
        verdict
    }

    /// Where the service can take it all, hardly anybody is refused, and nobody is answered later than without a limit.
    fn judge_harm(
        verdict: &mut Verdict,
        [with, without]: [&Report; 2],
        phase: &Phase,
        from_s: f64,
        to_s: f64,
    ) {
        let mut spans = vec![(from_s, to_s, 0.001)];
        if phase.from_s == 0.0 {
            spans = vec![(0.0, 1.0, 0.01), (1.0, to_s, 0.001)];
            verdict.refused_unduly = with.refused_share(1.0, to_s);
        }
        for (from_s, to_s, most) in spans {
            let refused = with.refused_share(from_s, to_s);
            verdict.add(refused / most, || {
                format!("{:.2} % refused from second {from_s} on", refused * 100.0)
            });
        }
        let [with, without] = [with, without].map(|run| waited_ms(run, from_s, to_s));
        if without > 0.0 {
            verdict.add(with / (1.1 * without + 1.0), || {
                format!("p99 {with:.1} ms, without {without:.1}")
            });
        }
    }

    /// Where more is asked for, the service gives nearly all that it can, and what it answers comes in time.
    fn judge_overload(
        &self,
        verdict: &mut Verdict,
        [with, without]: [&Report; 2],
        phase: &Phase,
        from_s: f64,
        to_s: f64,
    ) {
        let is_overload = self.share(phase) > 1.1;
        let together = if self.gateways > 1 { 2.0 } else { 1.0 };
        let p99_most = together * (5.0 * self.unloaded_p99_ms(phase.mean_s) + 20.0);
        let good = answered_per_s(with, from_s, to_s);
        let possible = if is_overload && matches!(self.arrivals, Arrivals::Bursts(_)) {
            self.best_fixed(from_s, to_s, p99_most)
        } else {
            answered_per_s(without, from_s, to_s).min(phase.capacity())
        };
        verdict.add(0.95 * possible / good.max(1e-9), || {
            format!("{good:.1} good answers a second of {possible:.1} from second {from_s} on")
        });
        if is_overload {
            let p99 = waited_ms(with, from_s, to_s);
            verdict.add(p99 / p99_most, || {
                format!("p99 {p99:.1} ms of {p99_most:.1} from second {from_s} on")
            });
        }
    }

    /// How much of what the service can bear is asked for in a phase.
    fn share(&self, phase: &Phase) -> f64 {
        let pauses = match self.change {
            Change::Pauses(length_s) => 1.0 - length_s / 2.0,
            _ => 1.0,
        };
        match (phase.slots, self.arrivals) {
            (None, _) => 0.5,
            // More than it is answered a closed loop does not ask.
            (Some(slots), Arrivals::Closed(clients)) => {
                if clients <= slots {
                    0.5
                } else {
                    1.0
                }
            }
            (Some(_), _) => phase.per_s / (phase.capacity() * pauses),
        }
    }

    /// Answers a second behind the best limit that does not change, of those that keep the latency: what is to be had from bursts
    /// of which some must be refused although the service has nothing to do afterwards.
    fn best_fixed(&self, from_s: f64, to_s: f64, p99_most: f64) -> f64 {
        let limits = (0..)
            .map(|step| 1.25_f64.powi(step))
            .take_while(|limit| *limit < 3e3);
        let runs = limits.map(|limit| {
            let limit = Limit::Fixed((limit / self.gateways as f64) as u32);
            self.play(|| Box::new(Weir::new(limit, start())))
        });
        let keep = runs.filter(|run| waited_ms(run, from_s, to_s) <= p99_most);
        let good = keep.map(|run| answered_per_s(&run, from_s, to_s));
        good.max_by(f64::total_cmp).unwrap_or(0.0)
    }
}

/// Answers that come in these seconds.
fn answered_per_s(report: &Report, from_s: f64, to_s: f64) -> f64 {
    let is_then = |record: &&crate::overload::simulation::Record| match record.end {
        End::Answered(latency) => {
            (from_s..to_s).contains(&(record.arrived + latency).as_secs_f64())
        }
        End::Refused(_) | End::Pending => false,
    };
    report.records.iter().filter(is_then).count() as f64 / (to_s - from_s)
}

/// How long 99 in a hundred of those wait who come in these seconds and are not refused. Who has no answer when the last second is
/// over has waited until then, at least.
fn waited_ms(report: &Report, from_s: f64, to_s: f64) -> f64 {
    let came = report.between(from_s, to_s);
    let waited = came.filter_map(|record| match record.end {
        End::Answered(latency) => Some(latency.as_secs_f64() * 1e3),
        End::Pending => Some((to_s - record.arrived.as_secs_f64()) * 1e3),
        End::Refused(_) => None,
    });
    let mut waited: Vec<f64> = waited.collect();
    waited.sort_by(f64::total_cmp);
    let rank = (waited.len() as f64 * 0.99).ceil() as usize;
    waited.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// What must hold of the points that are played: the share at which the rule holds, and the most that is refused of what the
/// service could take, after the first second. Where it does not hold, service times vary so much, or so few are answered in
/// the time that there is, that chance looks like an overload; `docs/decisions/0008-evidence-of-a-queue.md` shows such points.
const HOLDS_SHARE: f64 = 0.84;
const REFUSED_MOST: f64 = 0.1;
/// But at this share of the points: bursts that come at random are more than the service can take now and then.
const REFUSED_MORE_SHARE: f64 = 0.01;

#[test]
fn no_harm_is_done_and_the_overrun_are_saved() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("WEIR_POINT") {
        show(&Point::draw(seed));
        return;
    }
    let first = number("WEIR_FIRST");
    let points = number("WEIR_POINTS").unwrap_or(150);
    let firsts = first.map_or(vec![0, STILL], |first| vec![first]);
    for first in firsts {
        let range = first..first + points;
        let mut judged: Vec<_> = range
            .clone()
            .map(|seed| (Point::draw(seed), Point::draw(seed).judge()))
            .collect();
        judged.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
        let holds = judged.iter().filter(|(_, verdict)| verdict.score <= 1.0);
        let share = holds.count() as f64 / judged.len() as f64;
        println!("the rule holds at {share:.3} of the points {range:?}; the worst:");
        for (point, verdict) in judged.iter().take(40) {
            println!("{:8.2} {}: {point:?}", verdict.score, verdict.what);
        }
        assert!(share >= HOLDS_SHARE, "{share}");
        let still = judged
            .iter()
            .filter(|(point, _)| point.change == Change::Nothing);
        let more = still.filter(|(_, verdict)| verdict.refused_unduly > REFUSED_MOST);
        let more: Vec<_> = more.collect();
        assert!(
            more.len() as f64 <= REFUSED_MORE_SHARE * points as f64,
            "{more:#?}"
        );
    }
}

type Make = fn() -> Box<dyn Gate>;

/// Adaptive limits that others have published, with the queue of this crate, under the same rule. Prints at how many of
/// `WEIR_BESIDE` points of each half it holds, and from how many somebody is turned away whom the service could have answered.
#[test]
fn beside_others() {
    let Some(points) = std::env::var("WEIR_BESIDE").ok() else {
        return;
    };
    let points: u64 = points.parse().expect("a number of points");
    let others: [(&str, Make); 6] = [
        ("nothing", || Box::new(Open)),
        ("weir", || Box::new(Weir::adaptive())),
        ("fixed at 100", || {
            Box::new(Weir::new(Limit::Fixed(100), start()))
        }),
        ("Netflix, Gradient2", || {
            Box::new(Other::new(Gradient2::new(20)))
        }),
        ("Netflix, Vegas", || Box::new(Other::new(Vegas::new(20, 1)))),
        ("Envoy, gradient", || Box::new(Other::new(Envoy::new()))),
    ];
    for first in [0, STILL] {
        println!("of the {points} points from {first} on:");
        for (name, make) in others {
            let verdicts: Vec<_> = (first..first + points)
                .map(|seed| Point::draw(seed).judge_with(make))
                .collect();
            let holds = verdicts.iter().filter(|verdict| verdict.score <= 1.0);
            let harms = verdicts
                .iter()
                .filter(|verdict| verdict.refused_unduly > 0.001);
            println!(
                "{name:<20} holds at {:4}, refuses unduly at {:4}",
                holds.count(),
                harms.count()
            );
        }
    }
}

/// Prints the course of a point.
fn show(point: &Point) {
    let verdict = point.judge();
    println!("{point:?}: {:.2} {}", verdict.score, verdict.what);
    let report = point.play(|| Box::new(Weir::adaptive()));
    let part_s = point.end_s() / 20.0;
    for part in 0..20 {
        let (from_s, to_s) = (part_s * f64::from(part), part_s * f64::from(part + 1));
        println!(
            "{from_s:8.2} {:8.1} answers/s, p99 {:8.1} ms, {:5.1} % refused, limit {:?}",
            answered_per_s(&report, from_s, to_s),
            report.answered_ms(from_s, to_s, 99.0),
            100.0 * report.refused_share(from_s, to_s),
            report.limits(0, from_s, to_s),
        );
    }
}
