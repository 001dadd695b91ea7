//! Open-loop clients, a gate, and a service: a discrete-event simulation that depends on nothing but its seed.
//!
//! The service works on as many requests as it has slots and lets the others wait, in order of arrival or in none. It never notices
//! that a client has left. A client leaves after a second; an answer that comes later is worth nothing.

use super::gate::{Answer, Gate};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use weir_policy::limit::priority::Priority;

/// After this long, an answer is worth nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// So long after a refusal comes a client of a closed loop again, or one that tries more than once.
const COMES_AGAIN: Duration = Duration::from_millis(10);

/// The first instant of every simulation.
#[expect(
    clippy::disallowed_methods,
    reason = "std has no other source of a first Instant"
)]
pub(crate) fn start() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

/// How long the service works on a request, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Fixed(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Log-normal with this mean and a σ of 1.
    LogNormal(f64),
    /// All but one of so many take `usual`, the one takes `rare`.
    Bimodal {
        usual: f64,
        rare: f64,
        one_of: u32,
    },
}

impl Work {
    fn draw(self, random: &mut fastrand::Rng) -> Duration {
        let ms = match self {
            Self::Fixed(ms) => ms,
            Self::Exponential(mean) => -mean * (1.0 - random.f64()).ln(),
            Self::LogNormal(mean) => {
                // Box and Muller; the mean of exp(z) is exp(1/2).
                let z = (-2.0 * (1.0 - random.f64()).ln()).sqrt()
                    * (std::f64::consts::TAU * random.f64()).cos();
                mean * (z - 0.5).exp()
            }
            Self::Bimodal { rare, one_of, .. } if random.u32(0..one_of) == 0 => rare,
            Self::Bimodal { usual, .. } => usual,
        };
        Duration::from_secs_f64(ms / 1e3)
    }
}

/// What the service is from `from_s` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    pub(crate) from_s: f64,
    pub(crate) slots: usize,
    pub(crate) work: Work,
    pub(crate) order: Order,
}

/// Who of those that wait in the service is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Arrival,
    /// Anybody: most services have no order.
    Any,
}

/// All that the service works on stands still for `length_s` every `every_s`: it collects garbage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    pub(crate) every_s: f64,
    pub(crate) length_s: f64,
}

impl Pauses {
    /// When work that begins now, and takes so many seconds, is done.
    fn done_s(self, now_s: f64, work_s: f64) -> f64 {
        let pause = |at_s: f64| self.every_s * ((at_s / self.every_s).floor() + 1.0);
        let (mut at_s, mut left_s) = (now_s, work_s);
        let into_s = now_s % self.every_s;
        if now_s >= self.every_s && into_s < self.length_s {
            at_s += self.length_s - into_s;
        }
        while at_s + left_s > pause(at_s) {
            let begins = pause(at_s);
            left_s -= begins - at_s;
            at_s = begins + self.length_s;
        }
        at_s + left_s
    }
}

/// How requests arrive on a route from `from_s` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) from_s: f64,
    pub(crate) per_s: f64,
    /// How many arrive at the same instant.
    pub(crate) burst: u32,
    pub(crate) is_poisson: bool,
    pub(crate) priority: Priority,
    /// So many clients in a closed loop instead: each asks again when it is answered, or ten milliseconds after it is refused.
    pub(crate) clients: u32,
    /// So often comes again who is refused: after [`COMES_AGAIN`] the first time, twice as long the next.
    pub(crate) retries: u32,
}

/// Poisson arrivals at this rate, from the beginning.
pub(crate) fn poisson(per_s: f64) -> Load {
    Load {
        from_s: 0.0,
        per_s,
        burst: 1,
        is_poisson: true,
        priority: Priority::Normal,
        clients: 0,
        retries: 0,
    }
}

/// A closed loop of so many clients.
pub(crate) fn closed(clients: u32) -> Load {
    Load {
        clients,
        ..poisson(0.0)
    }
}

/// Everything that a run depends on.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    pub(crate) capacity: Vec<Capacity>,
    pub(crate) pauses: Option<Pauses>,
    /// The phases of the load of each source; a source sends through the gate named beside it.
    pub(crate) sources: Vec<(usize, Vec<Load>)>,
}

/// What became of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) arrived: Duration,
    pub(crate) source: usize,
    /// How often its client was refused before.
    tries: u32,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// Answered, this long after it arrived.
    Answered(Duration),
    /// Refused, this long after it arrived.
    Refused(Duration),
    /// The run ended first.
    Pending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Served {
        id: usize,
    },
    QueueDeadline {
        gate: usize,
    },
    Arrival {
        source: usize,
    },
    /// A client of a closed loop asks, or one that was refused so often.
    Asks {
        source: usize,
        tries: u32,
    },
}

struct Run<'a> {
    scenario: &'a Scenario,
    gates: &'a mut [Box<dyn Gate>],
    /// How long requests take, and when they come: the same, whatever stands in front of the service.
    random: fastrand::Rng,
    random_gaps: fastrand::Rng,
    random_order: fastrand::Rng,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    events_made: u64,
    records: Vec<Record>,
    busy: usize,
    backlog: VecDeque<usize>,
    /// The next deadline of each gate's queue that an event is scheduled for.
    deadlines: Vec<Duration>,
    /// The limit of each gate, every 100 ms.
    limits: Vec<(Duration, Vec<u32>)>,
}

/// What a run left.
pub(crate) struct Report {
    pub(crate) records: Vec<Record>,
    pub(crate) limits: Vec<(Duration, Vec<u32>)>,
}

/// Plays a scenario.
pub(crate) fn play(scenario: &Scenario, gates: &mut [Box<dyn Gate>]) -> Report {
    let mut run = Run {
        scenario,
        random: fastrand::Rng::with_seed(scenario.seed),
        random_gaps: fastrand::Rng::with_seed(!scenario.seed),
        random_order: fastrand::Rng::with_seed(scenario.seed.rotate_left(32)),
        now: Duration::ZERO,
        events: BinaryHeap::new(),
        events_made: 0,
        records: Vec::new(),
        busy: 0,
        backlog: VecDeque::new(),
        deadlines: vec![Duration::ZERO; gates.len()],
        limits: Vec::new(),
        gates,
    };
    for (source, (_, phases)) in scenario.sources.iter().enumerate() {
        let first = Duration::from_secs_f64(phases[0].from_s);
        run.schedule(first, Event::Arrival { source });
        for client in 0..phases[0].clients {
            let at = first + Duration::from_micros(u64::from(client));
            run.schedule(at, Event::Asks { source, tries: 0 });
        }
    }
    let end = Duration::from_secs_f64(scenario.seconds);
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        if at > end {
            break;
        }
        run.now = at;
        run.sample_limits();
        match event {
            Event::Arrival { source } => run.on_arrival(source),
            Event::Asks { source, tries } => run.on_request(source, tries),
            Event::Served { id } => run.on_served(id),
            Event::QueueDeadline { gate } => run.settle(gate),
        }
    }
    Report {
        records: run.records,
        limits: run.limits,
    }
}

impl Run<'_> {
    fn schedule(&mut self, at: Duration, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, event)));
    }

    fn instant(&self) -> Instant {
        start() + self.now
    }

    fn on_arrival(&mut self, source: usize) {
        let load = *current(&self.scenario.sources[source].1, self.now, |load| {
            load.from_s
        });
        if load.per_s > 0.0 {
            for _ in 0..load.burst {
                self.on_request(source, 0);
            }
        }
        self.schedule_next_arrival(source);
    }

    fn on_request(&mut self, source: usize, tries: u32) {
        let (gate, phases) = &self.scenario.sources[source];
        let (gate, load) = (*gate, *current(phases, self.now, |load| load.from_s));
        let id = self.records.len();
        self.records.push(Record {
            arrived: self.now,
            source,
            tries,
            end: End::Pending,
        });
        match self.gates[gate].acquire(self.instant(), load.priority, id) {
            Answer::Admitted => self.serve(id),
            Answer::Queued(None) => {}
            Answer::Queued(Some(displaced)) => self.refuse(displaced),
            Answer::Refused => self.refuse(id),
        }
        self.settle(gate);
    }

    /// A client of a closed loop has its answer.
    fn ask_again(&mut self, source: usize, after: Duration) {
        let phases = &self.scenario.sources[source].1;
        if current(phases, self.now, |load| load.from_s).clients > 0 {
            self.schedule(self.now + after, Event::Asks { source, tries: 0 });
        }
    }

    fn schedule_next_arrival(&mut self, source: usize) {
        let phases = &self.scenario.sources[source].1;
        let load = current(phases, self.now, |load| load.from_s);
        let next = (load.per_s > 0.0).then(|| {
            let mean_s = f64::from(load.burst) / load.per_s;
            let gap_s = if load.is_poisson {
                -mean_s * (1.0 - self.random_gaps.f64()).ln()
            } else {
                mean_s
            };
            self.now + Duration::from_secs_f64(gap_s)
        });
        // A new phase begins at its time, not after the last gap of the old one.
        let begins = phases
            .iter()
            .map(|load| Duration::from_secs_f64(load.from_s));
        let change = begins.into_iter().find(|&from| from > self.now);
        if let Some(at) = next.into_iter().chain(change).min() {
            self.schedule(at, Event::Arrival { source });
        }
    }

    fn serve(&mut self, id: usize) {
        self.backlog.push_back(id);
        self.fill_slots();
    }

    fn fill_slots(&mut self) {
        let capacity = *current(&self.scenario.capacity, self.now, |capacity| {
            capacity.from_s
        });
        while self.busy < capacity.slots
            && let Some(id) = self.next_in_line(capacity.order)
        {
            self.busy += 1;
            let work = capacity.work.draw(&mut self.random);
            let at = match self.scenario.pauses {
                Some(pauses) => {
                    let done = pauses.done_s(self.now.as_secs_f64(), work.as_secs_f64());
                    Duration::from_secs_f64(done)
                }
                None => self.now + work,
            };
            self.schedule(at, Event::Served { id });
        }
    }

    fn next_in_line(&mut self, order: Order) -> Option<usize> {
        match order {
            Order::Any if !self.backlog.is_empty() => {
                let place = self.random_order.usize(0..self.backlog.len());
                self.backlog.swap_remove_back(place)
            }
            Order::Any | Order::Arrival => self.backlog.pop_front(),
        }
    }

    fn on_served(&mut self, id: usize) {
        self.busy -= 1;
        self.fill_slots();
        let record = &mut self.records[id];
        record.end = End::Answered(self.now.saturating_sub(record.arrived));
        let source = record.source;
        let gate = self.scenario.sources[source].0;
        self.ask_again(source, Duration::ZERO);
        let now = self.instant();
        self.gates[gate].release(now, id);
        self.settle(gate);
    }

    fn refuse(&mut self, id: usize) {
        let record = &mut self.records[id];
        record.end = End::Refused(self.now.saturating_sub(record.arrived));
        let (source, tries) = (record.source, record.tries);
        self.ask_again(source, COMES_AGAIN);
        let load = current(&self.scenario.sources[source].1, self.now, |load| {
            load.from_s
        });
        if tries < load.retries {
            let at = self.now + COMES_AGAIN * 2_u32.pow(tries);
            let tries = tries + 1;
            self.schedule(at, Event::Asks { source, tries });
        }
    }

    fn settle(&mut self, gate: usize) {
        while let Some(decision) = self.gates[gate].decide(self.instant()) {
            match decision {
                (id, true) => self.serve(id),
                (id, false) => self.refuse(id),
            }
        }
        if let Some(at) = self.gates[gate].next_deadline(self.instant()) {
            let at = at.saturating_duration_since(start()).max(self.now);
            if self.deadlines[gate] != at {
                self.deadlines[gate] = at;
                self.schedule(at, Event::QueueDeadline { gate });
            }
        }
    }

    fn sample_limits(&mut self) {
        let due = self
            .limits
            .last()
            .map_or(Duration::ZERO, |&(at, _)| at + Duration::from_millis(100));
        if self.now >= due {
            let limits = self.gates.iter().map(|gate| gate.limit()).collect();
            self.limits.push((self.now, limits));
        }
    }
}

/// The phase that holds at `now`.
fn current<T>(phases: &[T], now: Duration, from_s: impl Fn(&T) -> f64) -> &T {
    let has_begun = |phase: &&T| Duration::from_secs_f64(from_s(phase)) <= now;
    phases.iter().rev().find(has_begun).unwrap_or(&phases[0])
}

impl Report {
    /// The requests that arrived in these seconds.
    pub(crate) fn between(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Record> {
        let seconds = Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s);
        self.records
            .iter()
            .filter(move |record| seconds.contains(&record.arrived))
    }

    /// Answers that were still worth something, per second of arrival.
    pub(crate) fn goodput(&self, from_s: f64, to_s: f64) -> f64 {
        let good = self
            .between(from_s, to_s)
            .filter(|record| matches!(record.end, End::Answered(latency) if latency <= PATIENCE));
        good.count() as f64 / (to_s - from_s)
    }

    /// The percentile of the latency of answers, in milliseconds.
    pub(crate) fn answered_ms(&self, from_s: f64, to_s: f64, percent: f64) -> f64 {
        percentile_ms(percent, self.between(from_s, to_s), |end| match end {
            End::Answered(latency) => Some(latency),
            _ => None,
        })
    }

    /// The same, of those that were worth something.
    pub(crate) fn good_ms(&self, from_s: f64, to_s: f64, percent: f64) -> f64 {
        percentile_ms(percent, self.between(from_s, to_s), |end| match end {
            End::Answered(latency) if latency <= PATIENCE => Some(latency),
            _ => None,
        })
    }

    /// The percentile of the time until a refusal, in milliseconds; 0 when nobody was refused.
    pub(crate) fn refused_ms(&self, from_s: f64, to_s: f64, percent: f64) -> f64 {
        percentile_ms(percent, self.between(from_s, to_s), |end| match end {
            End::Refused(after) => Some(after),
            _ => None,
        })
    }

    /// The share of requests that were refused.
    pub(crate) fn refused_share(&self, from_s: f64, to_s: f64) -> f64 {
        let (mut refused, mut all) = (0.0, 0.0);
        for record in self.between(from_s, to_s) {
            all += 1.0;
            refused += f64::from(u8::from(matches!(record.end, End::Refused(_))));
        }
        if all == 0.0 { 0.0 } else { refused / all }
    }

    /// The least and greatest limit of a gate in these seconds.
    pub(crate) fn limits(&self, gate: usize, from_s: f64, to_s: f64) -> (u32, u32) {
        let seconds = Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s);
        let limits = || {
            let samples = self.limits.iter().filter(|(at, _)| seconds.contains(at));
            samples.map(|(_, limits)| limits[gate])
        };
        (limits().min().unwrap_or(0), limits().max().unwrap_or(0))
    }
}

fn percentile_ms<'a>(
    percent: f64,
    records: impl Iterator<Item = &'a Record>,
    time: impl Fn(End) -> Option<Duration>,
) -> f64 {
    let mut times: Vec<Duration> = records.filter_map(|record| time(record.end)).collect();
    times.sort_unstable();
    let rank = (times.len() as f64 * percent / 100.0).ceil() as usize;
    let at_rank = times.get(rank.saturating_sub(1).min(times.len().saturating_sub(1)));
    at_rank.map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
