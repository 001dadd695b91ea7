//! The adaptive limits of Netflix's concurrency-limits and of Envoy, which were compared and not chosen.
//!
//! The first two follow the Java sources (`Gradient2Limit`, `VegasLimit`) with their defaults, fed with every single answer as
//! the library does without a window; only the initial limit is weir's. Envoy's follows the description of its filter
//! `adaptive_concurrency` with the values of its examples.

use std::time::{Duration, Instant};

/// A limit that moves with answers.
pub(crate) trait Algorithm {
    fn on_answer(&mut self, now: Instant, latency: Duration, in_flight: usize);
    fn limit(&self) -> u32;
}

/// Short against long average of the latency.
pub(crate) struct Gradient2 {
    limit: f64,
    long_ns: f64,
    answers: u32,
}

impl Gradient2 {
    const QUEUE: f64 = 4.0;
    const SMOOTHING: f64 = 0.2;
    const TOLERANCE: f64 = 1.5;
    const LONG_WINDOW: f64 = 600.0;
    const WARM_UP: u32 = 10;

    pub(crate) fn new(initial: u32) -> Self {
        Self {
            limit: f64::from(initial),
            long_ns: 0.0,
            answers: 0,
        }
    }
}

impl Algorithm for Gradient2 {
    fn on_answer(&mut self, _: Instant, latency: Duration, in_flight: usize) {
        let short_ns = latency.as_nanos() as f64;
        self.answers += 1;
        self.long_ns = if self.answers <= Self::WARM_UP {
            self.long_ns + (short_ns - self.long_ns) / f64::from(self.answers)
        } else {
            self.long_ns + (short_ns - self.long_ns) * 2.0 / (Self::LONG_WINDOW + 1.0)
        };
        if self.long_ns > 2.0 * short_ns {
            self.long_ns *= 0.95;
        }
        if (in_flight as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (Self::TOLERANCE * self.long_ns / short_ns).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + Self::QUEUE;
        let smoothed = self.limit + Self::SMOOTHING * (wanted - self.limit);
        self.limit = smoothed.clamp(20.0, 200.0);
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

/// The queue that the least latency implies, kept between alpha and beta.
pub(crate) struct Vegas {
    limit: f64,
    least_ns: f64,
    answers: f64,
    jitter: f64,
    random: fastrand::Rng,
}

impl Vegas {
    const PROBE_MULTIPLIER: f64 = 30.0;

    pub(crate) fn new(initial: u32, seed: u64) -> Self {
        Self {
            limit: f64::from(initial),
            least_ns: f64::INFINITY,
            answers: 0.0,
            jitter: 1.0,
            random: fastrand::Rng::with_seed(seed),
        }
    }
}

impl Algorithm for Vegas {
    fn on_answer(&mut self, _: Instant, latency: Duration, in_flight: usize) {
        let ns = latency.as_nanos() as f64;
        self.answers += 1.0;
        if self.jitter * Self::PROBE_MULTIPLIER * self.limit <= self.answers {
            self.jitter = 0.5 + self.random.f64() / 2.0;
            self.answers = 0.0;
            self.least_ns = ns;
            return;
        }
        if ns < self.least_ns {
            self.least_ns = ns;
            return;
        }
        if (in_flight as f64) * 2.0 < self.limit {
            return;
        }
        let root = self.limit.log10().max(1.0);
        let queue = (self.limit * (1.0 - self.least_ns / ns)).ceil();
        let (alpha, beta) = (3.0 * root, 6.0 * root);
        let wanted = if queue <= root {
            self.limit + beta
        } else if queue < alpha {
            self.limit + root
        } else if queue > beta {
            self.limit - root
        } else {
            return;
        };
        self.limit = wanted.clamp(1.0, 1_000.0);
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

/// Envoy's gradient controller: the median of 100 ms against the least latency, which is measured anew each minute with three
/// requests at a time.
pub(crate) struct Envoy {
    limit: f64,
    least_ns: f64,
    sample_ns: Vec<u64>,
    updated_at: Option<Instant>,
    /// When the least latency is measured next; `None` while it is.
    measure_at: Option<Instant>,
}

impl Envoy {
    const UPDATED_EVERY: Duration = Duration::from_millis(100);
    const MEASURED_EVERY: Duration = Duration::from_secs(60);
    const MEASURED_WITH: f64 = 3.0;
    const MEASURED_BY: usize = 50;
    const BUFFER: f64 = 0.25;
    const LIMIT_MAX: f64 = 1_000.0;

    pub(crate) fn new() -> Self {
        Self {
            limit: Self::MEASURED_WITH,
            least_ns: 0.0,
            sample_ns: Vec::new(),
            updated_at: None,
            measure_at: None,
        }
    }

    fn median(&mut self) -> f64 {
        self.sample_ns.sort_unstable();
        let median = self.sample_ns[self.sample_ns.len() / 2] as f64;
        self.sample_ns.clear();
        median
    }
}

impl Algorithm for Envoy {
    fn on_answer(&mut self, now: Instant, latency: Duration, _: usize) {
        self.sample_ns.push(latency.as_nanos() as u64);
        let Some(measure_at) = self.measure_at else {
            if self.sample_ns.len() >= Self::MEASURED_BY {
                self.least_ns = self.median();
                self.measure_at = Some(now + Self::MEASURED_EVERY);
                self.updated_at = Some(now);
            }
            return;
        };
        if now >= measure_at {
            self.measure_at = None;
            self.limit = Self::MEASURED_WITH;
            self.sample_ns.clear();
        } else if self
            .updated_at
            .is_none_or(|at| now >= at + Self::UPDATED_EVERY)
        {
            self.updated_at = Some(now);
            let gradient = self.least_ns * (1.0 + Self::BUFFER) / self.median().max(1.0);
            let limit = self.limit * gradient.clamp(0.5, 2.0);
            self.limit = (limit + limit.sqrt()).clamp(Self::MEASURED_WITH, Self::LIMIT_MAX);
        }
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}
