//! Whether endpoints are ejected that are as well as their siblings, and how soon one is that is not, over a space of services,
//! loads and balancers that is drawn from seeds.
//!
//! `WEIR_EJECTIONS=2000 cargo test -p weir-policy --test it standing_out -- --nocapture` draws as many points.

use crate::overload::start;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use weir_policy::Outcome;
use weir_policy::ejection::{Ejection, Reason, Settings, Token};

/// Who gets a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Balance {
    InTurn,
    LeastConnections,
    Random,
    /// By the key of a request.
    Hash,
}

/// What requests are for.
#[derive(Debug, Clone, Copy)]
enum Traffic {
    /// All the same.
    Alike,
    /// A thousand paths, some much more popular.
    Paths,
    /// Half of them take a hundred times as long, at random.
    TwoClasses,
    /// The same in turn, by path.
    InTurn,
    /// A few take 25 s.
    LongPolls,
    /// A tenth to nine tenths are of one key, which takes twenty times as long.
    HeavyKey,
    /// And one that always fails.
    BadKey,
    /// Two keys.
    FewKeys,
    /// A fifth as many at a time as otherwise in five.
    Bursts,
}

/// What happens to all endpoints at once, for one second in ten.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shared {
    Nothing,
    /// Nothing is answered.
    Pauses,
    /// All fail.
    Outages,
    /// All take ten times as long.
    Slowness,
}

/// What becomes of the first endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Illness {
    Fails,
    FailsHalf,
    TenTimesSlower,
    Hangs,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    seed: u64,
    endpoints: usize,
    per_s: f64,
    latency_ms: f64,
    is_exponential: bool,
    balance: Balance,
    traffic: Traffic,
    heavy: f64,
    errors: f64,
    shared: Shared,
    illness: Option<Illness>,
}

const ILL_FROM: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(90);
const TIMEOUT: Duration = Duration::from_secs(30);

impl Point {
    fn draw(seed: u64, is_ill: bool) -> Self {
        use Balance::{Hash, InTurn, LeastConnections, Random};
        use Illness::{Fails, FailsHalf, Hangs, TenTimesSlower};
        let mut random = fastrand::Rng::with_seed(seed);
        let mut of = |values: &[f64]| values[random.usize(..values.len())];
        let endpoints = of(&[2.0, 3.0, 4.0, 6.0, 9.0]) as usize;
        let per_s = of(&[2.0, 10.0, 60.0, 300.0, 1_000.0]);
        let latency_ms = of(&[1.0, 20.0, 100.0, 1_000.0]);
        let heavy = of(&[0.1, 0.3, 0.5, 0.9]);
        let errors = of(&[0.0, 0.0, 0.01, 0.2, 0.35, 0.5]);
        let is_exponential = random.bool();
        let balances = [InTurn, LeastConnections, Random, Hash];
        let traffics = [
            Traffic::Alike,
            Traffic::Paths,
            Traffic::TwoClasses,
            Traffic::InTurn,
            Traffic::LongPolls,
            Traffic::HeavyKey,
            Traffic::BadKey,
            Traffic::FewKeys,
            Traffic::Bursts,
        ];
        let shared = [
            Shared::Nothing,
            Shared::Nothing,
            Shared::Pauses,
            Shared::Outages,
            Shared::Slowness,
        ];
        let illnesses = [Fails, FailsHalf, TenTimesSlower, Hangs];
        Self {
            seed,
            endpoints,
            per_s,
            latency_ms,
            is_exponential,
            balance: balances[random.usize(..balances.len())],
            traffic: traffics[random.usize(..traffics.len())],
            heavy,
            errors,
            shared: shared[random.usize(..shared.len())],
            illness: is_ill.then(|| illnesses[random.usize(..illnesses.len())]),
        }
    }
}

impl Point {
    fn is_clear(&self) -> bool {
        // An answer that takes no longer than 100 ms is not slow, whatever the others take.
        let is_slow = self.latency_ms >= 20.0 || self.illness != Some(Illness::TenTimesSlower);
        let is_alike = matches!(
            self.traffic,
            Traffic::Alike | Traffic::Paths | Traffic::Bursts | Traffic::HeavyKey
        );
        is_alike
            && is_slow
            && self.balance != Balance::Hash
            && self.errors <= 0.01
            && self.shared == Shared::Nothing
            && self.per_s >= 10.0 * self.endpoints as f64
    }

    /// What takes five times as long as is usual is slow: nobody can tell before.
    fn found_by(&self) -> Duration {
        let slowest = if matches!(self.traffic, Traffic::HeavyKey) {
            20.0
        } else {
            1.0
        };
        Duration::from_secs_f64(3.0 + 10.0 * slowest * self.latency_ms / 1e3)
    }
}

/// What came of a point.
#[derive(Debug, Default)]
struct Report {
    /// Ejections of endpoints that were well, but for those that failed on trial.
    unduly: Vec<Reason>,
    /// From the beginning of the illness to the first ejection.
    found_after: Option<Duration>,
}

impl Report {
    /// Why endpoints were ejected that were well.
    fn in_words(&self) -> String {
        let mut reasons: Vec<&str> = self.unduly.iter().map(|reason| reason.as_str()).collect();
        reasons.sort_unstable();
        let counted = reasons.chunk_by(|one, other| one == other);
        let counted = counted.map(|alike| format!("{} {}", alike.len(), alike[0]));
        counted.collect::<Vec<_>>().join(", ")
    }
}

/// One request as it is meant.
struct Ask {
    key: u64,
    path: u64,
    takes_ms: f64,
    fails: bool,
}

impl Ask {
    /// What endpoints are compared by: a hash of the path, and of the key if the balancer goes by it.
    fn kind(&self, balance: Balance) -> u64 {
        let key = if balance == Balance::Hash {
            self.key
        } else {
            0
        };
        let hash = |part: u64, by: u64| part.wrapping_mul(by) >> 7;
        hash(self.path, 0x9e37_79b9_7f4a_7c15) ^ hash(key, 0xc2b2_ae3d_27d4_eb4f)
    }
}

struct World {
    point: Point,
    random: fastrand::Rng,
    asked: u64,
}

impl World {
    fn ask(&mut self) -> Ask {
        let (point, random) = (self.point, &mut self.random);
        self.asked += 1;
        let mut ask = Ask {
            key: random.u64(..1_000),
            path: 0,
            takes_ms: if point.is_exponential {
                -(1.0 - random.f64()).ln() * point.latency_ms
            } else {
                point.latency_ms
            },
            fails: random.f64() < point.errors,
        };
        match point.traffic {
            Traffic::Alike | Traffic::Bursts => {}
            // Zipf's law, about.
            Traffic::Paths => ask.path = (1_000.0_f64.powf(random.f64())) as u64,
            Traffic::TwoClasses => {
                if random.bool() {
                    ask.takes_ms *= 100.0;
                }
            }
            Traffic::InTurn => {
                ask.path = self.asked % 2;
                if ask.path == 0 {
                    ask.takes_ms *= 100.0;
                }
            }
            Traffic::LongPolls => {
                if random.f64() < point.heavy {
                    (ask.path, ask.takes_ms, ask.fails) = (1, 25_000.0, false);
                }
            }
            Traffic::HeavyKey => {
                if random.f64() < point.heavy {
                    ask.key = 7;
                    ask.takes_ms *= 20.0;
                }
            }
            Traffic::BadKey => {
                if random.f64() < point.heavy {
                    (ask.key, ask.fails) = (7, true);
                }
            }
            Traffic::FewKeys => {
                ask.key = random.u64(..2);
                if ask.key == 0 {
                    ask.takes_ms *= 20.0;
                }
            }
        }
        ask
    }

    fn pick(&mut self, ask: &Ask, in_flight: &[u32], admits: impl Fn(usize) -> bool) -> usize {
        let all = self.point.endpoints;
        let first = match self.point.balance {
            Balance::InTurn | Balance::LeastConnections => self.asked as usize,
            Balance::Random => self.random.usize(..all),
            Balance::Hash => (ask.key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize,
        };
        let mut order: Vec<usize> = (first..first + all).map(|turn| turn % all).collect();
        if self.point.balance == Balance::LeastConnections {
            order.sort_by_key(|&endpoint| in_flight[endpoint]);
        }
        let admitted = order.iter().copied().find(|&endpoint| admits(endpoint));
        admitted.unwrap_or(order[0])
    }

    /// When a request that arrives at `now` ends, and whether well.
    fn end(&self, ask: &Ask, endpoint: usize, now: Duration) -> (Duration, bool) {
        let is_ill = endpoint == 0 && now >= ILL_FROM;
        let illness = self.point.illness.filter(|_| is_ill);
        let in_ten = Duration::from_nanos((now.as_nanos() % 10_000_000_000) as u64);
        let is_bad_second = in_ten >= Duration::from_secs(9);
        let shared = if is_bad_second {
            self.point.shared
        } else {
            Shared::Nothing
        };
        let mut takes = Duration::from_secs_f64(ask.takes_ms / 1e3);
        let mut is_good = !ask.fails;
        match illness {
            Some(Illness::Fails) => is_good = false,
            Some(Illness::FailsHalf) => is_good &= !self.asked.is_multiple_of(2),
            Some(Illness::TenTimesSlower) => takes *= 10,
            Some(Illness::Hangs) => takes = TIMEOUT,
            None => {}
        }
        match shared {
            Shared::Pauses => takes += Duration::from_secs(10).saturating_sub(in_ten),
            Shared::Outages => is_good = false,
            Shared::Slowness => takes *= 10,
            Shared::Nothing => {}
        }
        if takes >= TIMEOUT {
            (takes, is_good) = (TIMEOUT, false);
        }
        (now + takes, is_good)
    }
}

fn play(point: Point) -> Report {
    let mut random = fastrand::Rng::with_seed(point.seed);
    let mut world = World {
        point,
        random: fastrand::Rng::with_seed(!point.seed),
        asked: 0,
    };
    let mut ejection = Ejection::new(Settings::default(), point.endpoints, start());
    let mut open: BinaryHeap<Reverse<(Duration, usize, bool)>> = BinaryHeap::new();
    let mut tokens: Vec<Option<(Token, Duration, usize)>> = Vec::new();
    let mut in_flight = vec![0; point.endpoints];
    let mut ejected = vec![0; point.endpoints];
    let mut report = Report::default();
    let mut now = Duration::ZERO;
    while now < END {
        let is_burst = matches!(point.traffic, Traffic::Bursts) && world.random.u32(..5) > 0;
        if !is_burst {
            let factor = if matches!(point.traffic, Traffic::Bursts) {
                5.0
            } else {
                1.0
            };
            let gap = -(1.0 - world.random.f64()).ln() / point.per_s * factor;
            now += Duration::from_secs_f64(gap);
        }
        while let Some(&Reverse((at, number, is_good))) = open.peek()
            && at <= now
        {
            open.pop();
            let (token, sent_at, endpoint) = tokens[number].take().expect("it ends once");
            in_flight[endpoint] -= 1;
            let latency = at.saturating_sub(sent_at);
            let outcome = if is_good {
                Outcome::Success(latency)
            } else {
                Outcome::Failure(latency)
            };
            ejection.finish(start() + at, token, outcome, &mut random);
        }
        let ask = world.ask();
        let draw = random.f64();
        let admits = |endpoint| ejection.admits(endpoint, start() + now, draw);
        let endpoint = world.pick(&ask, &in_flight, admits);
        let kind = ask.kind(point.balance);
        let token = ejection.start(endpoint, kind, start() + now, &mut random);
        let (ends, is_good) = world.end(&ask, endpoint, now);
        in_flight[endpoint] += 1;
        open.push(Reverse((ends, tokens.len(), is_good)));
        tokens.push(Some((token, now, endpoint)));
        for (endpoint, ejected) in ejected.iter_mut().enumerate() {
            let status = ejection.status(endpoint, start() + now);
            if status.ejections_total == *ejected {
                continue;
            }
            *ejected = status.ejections_total;
            let is_ill = point.illness.is_some() && endpoint == 0 && now >= ILL_FROM;
            let reason = status.reason.expect("it was ejected");
            if is_ill {
                report
                    .found_after
                    .get_or_insert(now.saturating_sub(ILL_FROM));
            } else {
                report.unduly.push(reason);
            }
        }
    }
    report
}

fn points() -> u64 {
    let points = std::env::var("WEIR_EJECTIONS").ok();
    points.map_or(200, |points| points.parse().expect("a number of points"))
}

/// Requests that are exactly alternately of two kinds, the one of which takes a hundred times as long, come to a service whose
/// endpoints take turns: nobody can say before the first of the slow ones is answered that they are only slow.
#[test]
fn who_is_well_stays() {
    let mut unduly = 0_u64;
    for seed in 1..=points() {
        let point = Point::draw(seed, false);
        let report = play(point);
        if !report.unduly.is_empty() {
            unduly += 1;
            println!("{} {point:?}", report.in_words());
        }
    }
    println!("{unduly} of {} points with an ejection", points());
    assert!(unduly as f64 <= 0.02 * points() as f64);
}

/// Only where there is enough to compare: many requests, alike, to endpoints that mostly answer well.
#[test]
fn who_is_ill_is_found() {
    let (mut clear, mut found) = (0, 0_u32);
    for seed in 1..=points() {
        let point = Point::draw(seed, true);
        let report = play(point);
        if !point.is_clear() {
            continue;
        }
        clear += 1;
        if report
            .found_after
            .is_some_and(|after| after <= point.found_by())
        {
            found += 1;
        } else {
            println!("late: {:?} {point:?}", report.found_after);
        }
    }
    println!("{found} of {clear} clear points found");
    assert!(f64::from(found) >= 0.95 * f64::from(clear));
}
