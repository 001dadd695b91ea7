//! `protect` never does worse than nothing, whoever the clients are: services and loads drawn at random, with clients that leave, that
//! come again when they are refused, and that wait for an answer before they ask again. Each is played with the limit and without it, and
//! what counts is who is answered before he leaves.
//!
//! `WEIR_CLIENTS=n` plays so many points, and prints the worst.

use crate::overload::gate::{Gate, Open, Weir};
use crate::overload::simulation::{
    Capacity, End, Load, Order, Report, Scenario, Work, closed, play, poisson,
};

/// A service, and its clients.
#[derive(Debug, Clone, Copy)]
struct Point {
    seed: u64,
    slots: u32,
    mean_s: f64,
    is_exponential: bool,
    load: Kind,
    /// So many times as long as an answer takes on average waits a client.
    patience: f64,
    retries: u32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// This share of the capacity, at random.
    Open(f64),
    /// So many clients.
    Closed(u32),
}

impl Point {
    fn draw(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut one_of = |of: &[f64]| of[random.usize(..of.len())];
        let open = [0.3, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 5.0, 10.0];
        let closed = [64.0, 512.0, 4_000.0];
        Self {
            seed,
            slots: one_of(&[1.0, 4.0, 8.0, 32.0, 64.0]) as u32,
            mean_s: one_of(&[0.005, 0.02, 0.1, 1.0]),
            is_exponential: one_of(&[0.0, 1.0]) > 0.0,
            load: if one_of(&[0.0, 0.0, 0.0, 1.0]) > 0.0 {
                Kind::Closed(one_of(&closed) as u32)
            } else {
                Kind::Open(one_of(&open))
            },
            patience: one_of(&[2.0, 5.0, 50.0, f64::INFINITY]),
            retries: one_of(&[0.0, 0.0, 3.0]) as u32,
        }
    }

    fn per_s(&self) -> f64 {
        f64::from(self.slots) / self.mean_s
    }

    /// Seconds that are played, of which the rule is looked at from the first on.
    fn seconds(&self) -> [f64; 2] {
        let settles_s = (20.0 * self.mean_s).max(100.0 / self.per_s()).max(3.0);
        [settles_s, 3.0 * settles_s]
    }

    fn play(&self, gate: Box<dyn Gate>) -> Report {
        let load = match self.load {
            Kind::Open(share) => poisson(share * self.per_s()),
            Kind::Closed(clients) => closed(clients),
        };
        let ms = 1e3 * self.mean_s;
        let scenario = Scenario {
            seed: self.seed,
            seconds: self.seconds()[1],
            capacity: vec![Capacity {
                from_s: 0.0,
                slots: self.slots as usize,
                work: if self.is_exponential {
                    Work::Exponential(ms)
                } else {
                    Work::Fixed(ms)
                },
                order: Order::Arrival,
            }],
            pauses: None,
            sources: vec![(
                0,
                vec![Load {
                    retries: self.retries,
                    ..load
                }],
            )],
        };
        play(&scenario, &mut [gate])
    }

    /// How many are answered in these seconds before they leave, and what share of those who come then is refused.
    fn judge(&self, report: &Report, from_s: f64, to_s: f64) -> (f64, f64) {
        let patience_s = self.patience * self.mean_s;
        let good = report.records.iter().filter(|record| match record.end {
            End::Answered(latency) => {
                let at_s = (record.arrived + latency).as_secs_f64();
                latency.as_secs_f64() <= patience_s && (from_s..to_s).contains(&at_s)
            }
            End::Refused(_) | End::Pending => false,
        });
        (good.count() as f64, report.refused_share(from_s, to_s))
    }
}

/// Where the rule does not hold, chance has it that the queue goes away by itself.
const HOLDS_SHARE: f64 = 0.9;

#[test]
fn no_client_is_worse_off() {
    let points = std::env::var("WEIR_CLIENTS").ok();
    let points = points.map_or(60, |points| points.parse().expect("a number of points"));
    let mut judged: Vec<(f64, String)> = (0..points)
        .map(|seed| {
            let point = Point::draw(seed);
            let [settled_s, to_s] = point.seconds();
            let (with, without) = (
                point.play(Box::new(Weir::adaptive())),
                point.play(Box::new(Open)),
            );
            let (good, refused) = point.judge(&with, settled_s, to_s);
            let (good_without, _) = point.judge(&without, settled_s, to_s);
            let can_bear = matches!(point.load, Kind::Open(share) if share <= 0.9);
            let undue = if can_bear { refused / 0.001 } else { 0.0 };
            let worse = 0.95 * good_without / (good + 1.0);
            let what = format!("{good} of {good_without}, {refused:.4} refused: {point:?}");
            (worse.max(undue), what)
        })
        .collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (score, what) in judged.iter().take(20) {
        println!("{score:8.2} {what}");
    }
    let holds = judged.iter().filter(|(score, _)| *score <= 1.0).count();
    println!("no worse than nothing at {holds} of {points}");
    assert!(holds as f64 >= HOLDS_SHARE * points as f64);
}
