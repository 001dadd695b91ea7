//! How fast answers come while the limit is reached.
//!
//! A round adds up stretches of time in which the limit is reached, however far apart. The first base latency of a
//! stretch does not count: what is answered then was admitted before. A stretch of less than four base latencies does
//! not count at all: it is a burst, and says more about when requests came than about how fast answers do.

use std::time::{Duration, Instant};

/// The least time that a round lasts, not counting the time in which the limit is not reached. It also lasts at least
/// two base latencies.
const ROUND_MIN: Duration = Duration::from_millis(50);

/// A stretch at the limit counts once it has lasted for this many base latencies.
const STRETCH_LATENCIES_MIN: u32 = 4;

#[derive(Debug)]
pub(super) struct Round {
    started_at: Instant,
    stretch: Option<Stretch>,
    /// What counts, of the stretches before.
    counted: Duration,
    answers: u32,
    /// The time at the limit, of the stretches before, whether it counts or not.
    full: Duration,
    refusals: u32,
}

/// A time in which the limit is reached without a break.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    since: Instant,
    /// When answers begin to count.
    counts_from: Instant,
    /// When the stretch is long enough to count.
    counts_at: Instant,
    answers: u32,
}

impl Round {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            started_at: now,
            stretch: None,
            counted: Duration::ZERO,
            answers: 0,
            full: Duration::ZERO,
            refusals: 0,
        }
    }

    pub(super) fn on_fullness(&mut self, now: Instant, is_full: bool, base: Option<Duration>) {
        if is_full {
            let base = base.unwrap_or(Duration::ZERO);
            self.stretch.get_or_insert(Stretch {
                since: now,
                counts_from: now + base,
                counts_at: now + base * STRETCH_LATENCIES_MIN,
                answers: 0,
            });
        } else if let Some(stretch) = self.stretch.take() {
            let (counted, answers) = stretch.counted(now);
            self.counted += counted;
            self.answers += answers;
            self.full += now.saturating_duration_since(stretch.since);
        }
    }

    pub(super) fn on_refusal(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    pub(super) fn on_answer(&mut self, now: Instant) {
        if let Some(stretch) = &mut self.stretch
            && now >= stretch.counts_from
        {
            stretch.answers += 1;
        }
    }

    /// Once the round is long enough: the answers per second in it, and a new round begins.
    pub(super) fn finish(&mut self, now: Instant, base: Duration, answers_min: u32) -> Option<f64> {
        let stretch = self.stretch?;
        let (counted, answers) = stretch.counted(now);
        let (counted, answers) = (self.counted + counted, self.answers + answers);
        if answers < answers_min || counted < ROUND_MIN || counted < base * 2 {
            return None;
        }
        // The stretch goes on, and has shown already that it counts.
        *self = Self {
            stretch: Some(Stretch {
                since: now,
                counts_from: now,
                counts_at: now,
                answers: 0,
            }),
            ..Self::new(now)
        };
        Some(f64::from(answers) / counted.as_secs_f64())
    }

    /// Whether the limit is reached most of the time and requests are refused.
    pub(super) fn is_overload(&self, now: Instant) -> bool {
        let stretch = self.stretch.map_or(Duration::ZERO, |stretch| {
            now.saturating_duration_since(stretch.since)
        });
        self.refusals > 0
            && (self.full + stretch) * 2 > now.saturating_duration_since(self.started_at)
    }
}

impl Stretch {
    /// The time and the answers that count.
    fn counted(&self, now: Instant) -> (Duration, u32) {
        if now < self.counts_at {
            return (Duration::ZERO, 0);
        }
        (
            now.saturating_duration_since(self.counts_from),
            self.answers,
        )
    }
}
