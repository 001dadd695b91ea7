//! How much of a queue is under way at once: as much as the target takes well.
//!
//! A window of attempts grows by one with each that succeeds, and is halved by each that fails. When several have failed in a row and
//! none has succeeded, the target is ill: one attempt at a time is made then, with ever longer pauses between, up to five seconds.
//! What comes back after an outage so meets a queue that begins with a single request.

/// Failures in a row from which on the target counts as ill.
const ILL_FROM: u32 = 3;
const PAUSE_MIN_MS: f64 = 100.0;
const PAUSE_MAX_MS: f64 = 5000.0;

/// The pace of a target.
#[derive(Debug)]
pub(crate) struct Pace {
    under_way_max: f64,
    under_way: usize,
    /// Milliseconds between two attempts.
    interval_ms: f64,
    window: f64,
    failures: u32,
    paused_until_ms: f64,
    /// When the rate allows the next one.
    next_ms: f64,
    /// When the last one began.
    begun_ms: f64,
}

/// Whether an attempt may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    Begin,
    /// Not before this time in milliseconds.
    At(u64),
    /// When one that is under way has ended.
    Later,
}

impl Pace {
    /// At most so many at once, and so many a second.
    pub(crate) fn new(under_way_max: u32, per_second: Option<f64>) -> Self {
        let mut pace = Self {
            under_way_max: 1.0,
            under_way: 0,
            interval_ms: 0.0,
            window: 1.0,
            failures: 0,
            paused_until_ms: 0.0,
            next_ms: 0.0,
            begun_ms: 0.0,
        };
        pace.limit(under_way_max, per_second);
        pace
    }

    /// Other limits hold from now on.
    pub(crate) fn limit(&mut self, under_way_max: u32, per_second: Option<f64>) {
        self.under_way_max = f64::from(under_way_max.max(1));
        self.window = self.window.min(self.under_way_max);
        let interval_ms = per_second.map_or(0.0, |rate| 1e3 / rate);
        // What waits by another rate waits no longer than by this one.
        self.next_ms = self.next_ms.min(self.begun_ms + interval_ms);
        self.interval_ms = interval_ms;
    }

    /// Whether one more may begin beside those under way.
    pub(crate) fn may_begin(&self, now_ms: u64) -> May {
        if self.under_way >= self.window as usize {
            return May::Later;
        }
        let at_ms = self.paused_until_ms.max(self.next_ms);
        if at_ms > now_ms as f64 {
            return May::At(at_ms.ceil() as u64);
        }
        May::Begin
    }

    /// One has begun.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.under_way += 1;
        self.begun_ms = now_ms as f64;
        // What was not used in a tenth of a second is lost.
        let earliest_ms = now_ms as f64 - 100.0;
        self.next_ms = self.next_ms.max(earliest_ms) + self.interval_ms;
    }

    /// One has ended, however.
    pub(crate) fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.window = (self.window + 1.0).min(self.under_way_max);
    }

    /// `random` is from 0 to 1.
    pub(crate) fn failed(&mut self, now_ms: u64, random: f64) {
        self.failures = self.failures.saturating_add(1);
        self.window = (self.window / 2.0).max(1.0);
        if self.is_ill() {
            self.window = 1.0;
            let doublings = (self.failures - ILL_FROM).min(16);
            let pause_ms = (PAUSE_MIN_MS * f64::from(1 << doublings)).min(PAUSE_MAX_MS);
            self.paused_until_ms = now_ms as f64 + pause_ms * (0.5 + random / 2.0);
        }
    }

    /// Whether everything has failed lately.
    pub(crate) fn is_ill(&self) -> bool {
        self.failures >= ILL_FROM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many begin, and end.
    fn room(pace: &mut Pace, now_ms: u64) -> usize {
        let mut begun = 0;
        while pace.may_begin(now_ms) == May::Begin {
            pace.begin(now_ms);
            begun += 1;
        }
        (0..begun).for_each(|_| pace.end());
        begun
    }

    #[test]
    fn it_grows_with_what_succeeds() {
        let mut pace = Pace::new(16, None);
        assert_eq!(room(&mut pace, 0), 1);
        for _ in 0..7 {
            pace.succeeded();
        }
        assert_eq!(room(&mut pace, 0), 8);
        (0..100).for_each(|_| pace.succeeded());
        assert_eq!(room(&mut pace, 0), 16);
        pace.failed(0, 0.5);
        assert_eq!(room(&mut pace, 0), 8, "one failure is no illness");
        pace.limit(4, None);
        assert_eq!(room(&mut pace, 0), 4);
    }

    #[test]
    fn an_ill_target_is_asked_ever_less_often_and_at_last_every_five_seconds() {
        let mut pace = Pace::new(16, None);
        (0..100).for_each(|_| pace.succeeded());
        let mut now_ms = 0;
        let mut asked = Vec::new();
        while now_ms < 60_000 {
            match pace.may_begin(now_ms) {
                May::Begin => {
                    asked.push(now_ms);
                    pace.begin(now_ms);
                    pace.end();
                    pace.failed(now_ms, 1.0);
                }
                May::At(at_ms) => now_ms = at_ms,
                May::Later => panic!("nothing is under way"),
            }
        }
        assert!(asked.len() < 25, "{asked:?}");
        let last = asked.len() - 1;
        assert_eq!(asked[last] - asked[last - 1], 5000);
        pace.succeeded();
        assert_eq!(room(&mut pace, now_ms), 2, "it begins small");
    }

    #[test]
    fn a_rate_is_kept() {
        let mut pace = Pace::new(1000, Some(100.0));
        (0..1000).for_each(|_| pace.succeeded());
        let mut now_ms = 10_000;
        let mut begun = 0;
        while now_ms < 20_000 {
            match pace.may_begin(now_ms) {
                May::Begin => {
                    begun += 1;
                    pace.begin(now_ms);
                    pace.end();
                }
                May::At(at_ms) => now_ms = at_ms,
                May::Later => panic!("there is room"),
            }
        }
        assert!((1000..=1011).contains(&begun), "{begun}");
        // Another rate holds at once, however long the wait was by this one.
        let mut pace = Pace::new(1, Some(0.001));
        pace.begin(now_ms);
        pace.end();
        pace.limit(1, Some(10.0));
        assert_eq!(pace.may_begin(now_ms), May::At(now_ms + 100));
    }
}
