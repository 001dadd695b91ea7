//! What an endpoint has shown, and whether it stands out from its siblings.
//!
//! This file judges; it does not know states, and moves no endpoint. An endpoint stands out when the difference is
//! large enough to matter (the settings), and too large for chance or for traffic that only it gets (`chance`).

use super::ages::Ages;
use super::chance::{self, Shown};
use super::kinds::Kinds;
use super::typical::Typical;
use super::{Reason, Settings};
use crate::histogram::{Histogram, Spread};
use crate::outcome::Outcome;
use crate::window::Window;
use std::time::{Duration, Instant};

/// A latency loses half of its weight in this time, so an endpoint that becomes slow has a slow median a second later.
const LATENCY_HALF_LIFE: Duration = Duration::from_secs(1);

/// A median of fewer latencies is not used.
const LATENCIES_MIN: f64 = 5.0;

/// Longer rows of failures are examined only ten times a second.
const SHORT_ROW: u32 = 64;

/// A sibling fails clearly less often if it fails at most this much as often.
const CLEARLY: f64 = 1.0 / 3.0;

/// A standard deviation can be tiny, so a success rate less than this below the mean does not stand out.
const BELOW_MEAN_MIN: f64 = 0.05;

const REQUESTS: usize = 0;
const FAILURES: usize = 1;
/// Requests that ended late, or were given up late; and those that ended in time.
const LATE: usize = 2;
const IN_TIME: usize = 3;

#[derive(Debug)]
pub(super) struct Evidence {
    window: Window<4>,
    latencies: Histogram,
    ages: Ages,
    kinds: Kinds,
    /// All answers ever.
    shown: Shown,
    failures_in_a_row: u32,
    /// The kinds of these failures.
    failed: Kinds,
    /// What its siblings had shown when the first of these failures came.
    siblings_before_row: Shown,
    last_answer_at: Instant,
    /// What its siblings had shown at that time.
    siblings_before_silence: Shown,
    /// Whether it was brought back without having shown that it is healthy.
    is_suspect: bool,
}

impl Evidence {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            window: Window::new(settings.window, now),
            latencies: Histogram::new(LATENCY_HALF_LIFE, now),
            ages: Ages::new(now),
            kinds: Kinds::new(),
            shown: Shown::default(),
            failures_in_a_row: 0,
            failed: Kinds::new(),
            siblings_before_row: Shown::default(),
            last_answer_at: now,
            siblings_before_silence: Shown::default(),
            is_suspect: false,
        }
    }

    /// What is known of an endpoint that stays when others come or go. Its requests in flight report to the old one.
    pub(super) fn succeed(&self, settings: &Settings, now: Instant) -> Self {
        Self {
            window: self.window.clone(),
            latencies: self.latencies.clone(),
            kinds: self.kinds.clone(),
            shown: self.shown,
            failures_in_a_row: self.failures_in_a_row,
            failed: self.failed.clone(),
            siblings_before_row: self.siblings_before_row,
            is_suspect: self.is_suspect,
            ..Self::new(settings, now)
        }
    }

    /// Forgets what came before the endpoint's return, except for the kinds of its requests.
    pub(super) fn restart(&mut self, now: Instant, typical: &Typical) {
        self.window.clear(now);
        self.latencies.clear(now);
        self.ages = Ages::new(now);
        self.failures_in_a_row = 0;
        self.last_answer_at = now;
        self.siblings_before_silence = typical.shown.without(self.shown);
        self.is_suspect = false;
    }

    pub(super) fn suspect(&mut self) {
        self.is_suspect = true;
    }

    /// A request is sent there; it may count for nothing else.
    pub(super) fn on_kind(&mut self, kind: u64, typical: &mut Typical) {
        self.kinds.add(kind);
        typical.kinds.add(kind);
    }

    pub(super) fn on_start(&mut self, now: Instant) {
        self.ages.on_start(now);
    }

    pub(super) fn on_finish(
        &mut self,
        now: Instant,
        (started_at, kind): (Instant, u64),
        outcome: Outcome,
        typical: &mut Typical,
    ) {
        self.ages.on_finish(now, started_at);
        let waited = now.saturating_duration_since(started_at);
        let is_late = typical.is_slow(outcome.latency().unwrap_or(waited));
        if is_late {
            self.window.add(now, LATE, 1);
        }
        let siblings = typical.shown.without(self.shown);
        let is_bad = match outcome {
            Outcome::Ignored => return,
            Outcome::Success(latency) => {
                self.failures_in_a_row = 0;
                self.is_suspect &= typical.is_slow(latency);
                self.latencies.record(now, latency);
                typical.latencies.record(now, latency);
                0
            }
            Outcome::Failure(_) => {
                if self.failures_in_a_row == 0 {
                    self.siblings_before_row = siblings;
                    self.failed = Kinds::new();
                }
                self.failed.add(kind);
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                1
            }
        };
        self.window.add(now, REQUESTS, 1);
        self.window.add(now, FAILURES, is_bad);
        self.window.add(now, IN_TIME, u32::from(!is_late));
        for shown in [&mut self.shown, &mut typical.shown] {
            shown.requests += 1.0;
            shown.bad += f64::from(is_bad);
        }
        // A request that is given up after a long wait was not answered.
        if is_bad == 0 || !is_late {
            self.last_answer_at = now;
            self.ages.mark(now);
            self.siblings_before_silence = siblings;
        }
    }

    /// Begins to compare it with changed siblings, which have shown `since_row` since its row of failures began.
    pub(super) fn join(&mut self, typical: &Typical, since_row: Shown) {
        let siblings = typical.shown.without(self.shown);
        self.siblings_before_silence = siblings;
        self.siblings_before_row = siblings.without(since_row);
    }

    /// What its siblings have shown since its row of failures began.
    pub(super) fn shown_since_row(&self, typical: &Typical) -> Shown {
        let siblings = typical.shown.without(self.shown);
        siblings.without(self.siblings_before_row)
    }

    /// Whether its row of failures is short enough to examine at each failure.
    pub(super) fn has_short_row(&self) -> bool {
        (1..=SHORT_ROW).contains(&self.failures_in_a_row)
    }

    /// Halves the weight of what was counted so far.
    pub(super) fn age(&mut self) {
        self.kinds.halve();
    }

    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// All answers ever.
    pub(super) fn shown(&self) -> Shown {
        self.shown
    }

    /// Answers in the window.
    pub(super) fn answers(&mut self, now: Instant) -> Shown {
        let [requests, bad, ..] = self.window.counts(now);
        Shown { requests, bad }
    }

    /// Requests that ended in the window, or should have; late ones count as bad.
    pub(super) fn in_time(&mut self, now: Instant, waiting: f64) -> Shown {
        let [.., late, in_time] = self.window.counts(now);
        let bad = late + waiting;
        Shown {
            requests: bad + in_time,
            bad,
        }
    }

    /// How many requests have waited for longer than `late_after`.
    pub(super) fn waiting(&mut self, now: Instant, late_after: Option<Duration>) -> f64 {
        late_after.map_or(0.0, |after| f64::from(self.ages.older_than(now, after)))
    }

    pub(super) fn median(&self, now: Instant) -> Option<Duration> {
        if self.latencies.count(now) < LATENCIES_MIN {
            return None;
        }
        self.latencies.quantile(0.5)
    }

    pub(super) fn add_latencies(&self, now: Instant, to: &mut Spread) {
        to.add(&self.latencies, now);
    }

    /// The probability that one of its requests is bad, if it is as healthy as its siblings, which have shown this.
    pub(super) fn healthy(&self, siblings: Shown, typical: &Typical) -> f64 {
        chance::healthy(siblings.share(), self.unlike(typical))
    }

    /// The share of its requests that its siblings do not get.
    fn unlike(&self, typical: &Typical) -> f64 {
        self.kinds.unlike(&typical.kinds.without(&self.kinds))
    }

    /// Whether it failed too many times in a row, while its siblings did not.
    pub(super) fn fails_in_a_row(
        &mut self,
        settings: &Settings,
        typical: &Typical,
        now: Instant,
    ) -> bool {
        let Some(limit) = settings.consecutive_failures else {
            return false;
        };
        if self.failures_in_a_row < limit.max(1) {
            return false;
        }
        let meanwhile = self.shown_since_row(typical);
        let of_late = typical.answers.without(self.answers(now));
        let of_siblings = typical.kinds.without(&self.kinds);
        let unlike = self
            .kinds
            .unlike(&of_siblings)
            .max(self.failed.unlike(&of_siblings));
        let row = Bad {
            count: self.failures_in_a_row,
            among: f64::from(self.failures_in_a_row),
            unlike,
        };
        row.is_no_chance(meanwhile, of_late)
    }

    /// Whether it stands out, or is a suspect that has not shown that it is healthy.
    pub(super) fn looks_bad(
        &mut self,
        settings: &Settings,
        typical: &Typical,
        now: Instant,
    ) -> bool {
        self.is_suspect || self.speaks(settings, typical, now).is_some()
    }

    /// Why the endpoint stands out, if it does.
    pub(super) fn speaks(
        &mut self,
        settings: &Settings,
        typical: &Typical,
        now: Instant,
    ) -> Option<Reason> {
        if self.fails_in_a_row(settings, typical, now) {
            return Some(Reason::ConsecutiveFailures);
        }
        if self.is_silent(settings, typical, now) {
            return Some(Reason::Silent);
        }
        if self.fails_too_often(settings, typical, now) {
            return Some(Reason::FailureShare);
        }
        self.is_slow(typical, now).then_some(Reason::Slow)
    }

    /// Whether requests wait unusually long without any answer, while its siblings answer theirs.
    fn is_silent(&mut self, settings: &Settings, typical: &Typical, now: Instant) -> bool {
        let Some(silent_after) = typical.silent_after else {
            return false;
        };
        let silence = now.saturating_duration_since(self.last_answer_at);
        if silence <= silent_after {
            return false;
        }
        let waiting = self.ages.older_than(now, silent_after);
        if waiting < settings.silent_requests.max(1) {
            return false;
        }
        let siblings = typical.shown.without(self.shown);
        let answered = siblings.without(self.siblings_before_silence).requests;
        // Requests that wait that long at siblings may have been sent earlier. Then siblings look worse than they are.
        let waiting_there = (typical.waiting - f64::from(waiting)).max(0.0);
        let meanwhile = Shown {
            requests: answered + waiting_there,
            bad: waiting_there,
        };
        let own = self.in_time(now, f64::from(waiting));
        let of_late = typical.in_time.without(own);
        let unlike = self.unlike(typical);
        // Either all requests sent since the last answer, or those that wait among all sent lately.
        let since = self.ages.older_since_mark(now, silent_after);
        let row = Bad {
            count: since,
            among: f64::from(since),
            unlike,
        };
        let some = Bad {
            count: waiting,
            among: own.requests,
            unlike,
        };
        (since >= settings.silent_requests.max(1) && row.is_no_chance(meanwhile, of_late))
            || some.is_no_chance(meanwhile, of_late)
    }

    fn fails_too_often(&mut self, settings: &Settings, typical: &Typical, now: Instant) -> bool {
        let own = self.answers(now);
        if own.requests < f64::from(settings.min_requests) || own.bad < 1.0 {
            return false;
        }
        let siblings = typical.answers.without(own);
        let alike = own.alike(self.unlike(typical));
        let share = alike.bad / alike.requests.max(1.0);
        let siblings_share = siblings.bad / siblings.requests.max(1.0);
        let is_bad = share >= settings.failure_share && siblings_share <= share * CLEARLY;
        let below = typical.success_mean - (1.0 - share);
        let is_outlier = typical.counted >= settings.sigma_endpoints_min
            && below >= BELOW_MEAN_MIN
            && below > settings.sigma * typical.success_deviation;
        (is_bad || is_outlier) && chance::fails_more(alike, siblings)
    }

    fn is_slow(&mut self, typical: &Typical, now: Instant) -> bool {
        let median = self.median(now);
        if !median.is_some_and(|median| typical.is_slow(median)) {
            return false;
        }
        let mut own = Spread::default();
        self.add_latencies(now, &mut own);
        let siblings = typical.spread.without(&own);
        let longer = own.is_longer(&siblings);
        chance::is_slower(longer, own.count(), self.unlike(typical), siblings.count())
    }
}

/// Bad requests, how many there were in all, and the share of requests that siblings do not get.
struct Bad {
    count: u32,
    among: f64,
    unlike: f64,
}

impl Bad {
    /// Whether these are no chance, compared with what siblings have shown since the row began, which shows what fails
    /// everywhere now. It must hold too compared with all that siblings have shown lately, if that is more.
    fn is_no_chance(&self, meanwhile: Shown, of_late: Shown) -> bool {
        let beside = |siblings| chance::is_no_chance(self.count, self.among, self.unlike, siblings);
        beside(meanwhile) && (of_late.requests <= meanwhile.requests || beside(of_late))
    }
}
