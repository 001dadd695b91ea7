//! How fast answers come while the limit is reached.
//!
//! A round adds up stretches of time in which the limit is reached, however far apart. The first base latency of a
//! stretch does not count: what is answered then was admitted before. A stretch of less than four base latencies does
//! not count at all: it is a burst, and says more about when requests came than about how fast answers do. The first round
//! has to do without the ones before. It is longer, and so that it ends all the same, a stretch goes on over a moment in
//! which the next request has not come yet.

use std::time::{Duration, Instant};

/// The least time that a round lasts, not counting the time in which the limit is not reached. It also lasts at least
/// two base latencies.
const ROUND_MIN: Duration = Duration::from_millis(50);

/// A stretch at the limit counts once it has lasted for this many base latencies.
const STRETCH_LATENCIES_MIN: u32 = 4;

/// The first round has this many times as many answers. It can begin just before a service answers in a lump, and end just
/// after another; the ones after it begin where the one before has ended.
const FIRST_ANSWERS: u32 = 2;

/// In the first round, a gap of up to this share of the base latency is part of a stretch.
const GAP_OF_LATENCY: u32 = 16;

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
    is_first: bool,
}

/// A time in which the limit is reached.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    since: Instant,
    /// When answers begin to count.
    counts_from: Instant,
    /// When the stretch is long enough to count.
    counts_at: Instant,
    answers: u32,
    /// Since when the limit is not reached.
    gap_since: Option<Instant>,
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
            is_first: false,
        }
    }

    /// A round of which nothing is known before.
    pub(super) fn first(now: Instant) -> Self {
        Self {
            is_first: true,
            ..Self::new(now)
        }
    }

    pub(super) fn on_fullness(&mut self, now: Instant, is_full: bool, base: Option<Duration>) {
        let base = base.unwrap_or(Duration::ZERO);
        self.end_after_gap(now, base);
        if is_full {
            let stretch = self.stretch.get_or_insert_with(|| Stretch {
                since: now,
                counts_from: now + base,
                counts_at: now + base * STRETCH_LATENCIES_MIN,
                answers: 0,
                gap_since: None,
            });
            stretch.gap_since = None;
        } else if let Some(stretch) = &mut self.stretch {
            stretch.gap_since.get_or_insert(now);
        }
    }

    /// Ends the stretch at its gap, if that has become too long.
    fn end_after_gap(&mut self, now: Instant, base: Duration) {
        let Some((stretch, gap_since)) = self.stretch.and_then(|it| Some((it, it.gap_since?)))
        else {
            return;
        };
        let longest = if self.is_first {
            base / GAP_OF_LATENCY
        } else {
            Duration::ZERO
        };
        if now.saturating_duration_since(gap_since) > longest {
            let (counted, answers) = stretch.counted(gap_since);
            self.counted += counted;
            self.answers += answers;
            self.full += gap_since.saturating_duration_since(stretch.since);
            self.stretch = None;
        }
    }

    pub(super) fn on_refusal(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    pub(super) fn on_answer(&mut self, now: Instant, base: Duration) {
        self.end_after_gap(now, base);
        if let Some(stretch) = &mut self.stretch
            && now >= stretch.counts_from
        {
            stretch.answers += 1;
        }
    }

    /// Once the round is long enough: the answers per second in it, and a new round begins.
    pub(super) fn finish(&mut self, now: Instant, base: Duration, answers_min: u32) -> Option<f64> {
        let stretch = self.stretch?;
        let times = if self.is_first { FIRST_ANSWERS } else { 1 };
        let answers_min = answers_min * times;
        if self.answers + stretch.answers < answers_min {
            return None;
        }
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
                gap_since: None,
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
