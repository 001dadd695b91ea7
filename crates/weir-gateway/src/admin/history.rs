//! What the last minute was like: each second, what was counted since the second before.
//!
//! Only the admin thread knows it. Workers count as they do anyway, and whoever opens the dashboard finds the minute before.
//!
//! - [`track`]: the seconds of one subject, which is pure
//! - [`tally`]: what is counted of a subject, as cells of a table

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use crate::admin::history::tally::Tally;
use crate::admin::history::track::Track;
use crate::metrics::{ByClass, CLASSES, added};
use crate::state::shared::Shared;

pub(super) mod tally;
mod track;

/// How far back it reaches.
pub(super) const MINUTE_MS: u64 = 60_000;
/// What counts as now.
pub(super) const NOW_MS: u64 = 10_000;
/// Routes and endpoints that are followed. A gateway that has more of them leaves out the rest.
const SUBJECTS_MAX: usize = 2000;
/// A minute has sixty seconds; those that came late leave room for a few more.
const SECONDS_MAX: usize = 64;

/// Whose counts they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Requests that no route takes.
    Unrouted,
    Route(String),
    Endpoint {
        upstream: String,
        endpoint: String,
    },
}

/// The last minute of everything that is counted.
#[derive(Debug, Default)]
pub(super) struct History {
    tracks: BTreeMap<Subject, Track>,
    seconds: VecDeque<Second>,
    began_ms: Option<u64>,
}

/// What became of the requests that ended in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Second {
    /// Its end, in milliseconds since the start.
    at_ms: u64,
    /// A second, or more when the admin thread was late.
    took_ms: u64,
    requests: u64,
    /// Turned away by a limit or a breaker.
    refused: u64,
    /// The other ones of 5xx.
    failed: u64,
}

impl History {
    /// Of a gateway that has just begun to count: what is there at the first look, has come since the start.
    pub(super) fn since_start() -> Self {
        Self {
            began_ms: Some(0),
            ..Self::default()
        }
    }

    /// Takes down what has been counted up to `now_ms`.
    pub(super) fn note(&mut self, now_ms: u64, shared: &Shared) {
        self.note_all(now_ms, &tally::read(shared));
    }

    fn note_all(&mut self, now_ms: u64, counted: &[(Subject, Tally)]) {
        let before_ms = self.seconds.back().map_or(self.began_ms, |s| Some(s.at_ms));
        let subjects: BTreeSet<_> = counted.iter().map(|(subject, _)| subject).collect();
        self.tracks.retain(|subject, _| subjects.contains(subject));
        let mut second = Second {
            at_ms: now_ms,
            took_ms: now_ms.saturating_sub(before_ms.unwrap_or(now_ms)),
            requests: 0,
            refused: 0,
            failed: 0,
        };
        for (subject, tally) in counted.iter().take(SUBJECTS_MAX) {
            let is_new = !self.tracks.contains_key(subject);
            let track = self.tracks.entry(subject.clone()).or_default();
            if is_new && self.began_ms.is_none() {
                track.begin(tally.cells());
                continue;
            }
            let added = Tally::of(track.note(now_ms, tally.cells()));
            if !matches!(subject, Subject::Endpoint { .. }) {
                second.requests += added.requests();
                second.refused += added.refused();
                second.failed += added.failed();
            }
        }
        match self.began_ms {
            None => self.began_ms = Some(now_ms),
            Some(_) => self.seconds.push_back(second),
        }
        let oldest_ms = now_ms.saturating_sub(MINUTE_MS);
        self.seconds.retain(|second| second.at_ms > oldest_ms);
        while self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_front();
        }
    }

    /// What was counted of `subject` in the last `window_ms`; `None` where it is not followed.
    pub(super) fn of(&self, subject: &Subject, window_ms: u64) -> Option<Tally> {
        let newest_ms = self.seconds.back()?.at_ms;
        let track = self.tracks.get(subject)?;
        let since_ms = newest_ms.saturating_sub(window_ms);
        Some(Tally::of(track.since(since_ms)))
    }

    pub(super) fn seconds(&self) -> impl Iterator<Item = Second> {
        self.seconds.iter().copied()
    }

    /// How much of the last minute it knows.
    pub(super) fn covers_ms(&self) -> u64 {
        self.seconds.iter().map(|second| second.took_ms).sum()
    }
}

/// The classes of `tables`, added up.
fn classes<'m>(tables: impl Iterator<Item = &'m ByClass>) -> [u64; CLASSES.len()] {
    added(tables.map(ByClass::counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, requests: u64) -> (Subject, Tally) {
        let subject = Subject::Route(name.to_owned());
        (subject, Tally::of(vec![0, requests]))
    }

    fn requests(history: &History, name: &str, window_ms: u64) -> Option<u64> {
        let subject = Subject::Route(name.to_owned());
        Some(history.of(&subject, window_ms)?.requests())
    }

    #[test]
    fn a_minute_is_a_minute_and_what_was_before_is_gone() {
        let mut history = History::default();
        // What was counted before the history began is not of the last minute.
        history.note_all(0, &[route("a", 7)]);
        for second in 1..=100 {
            history.note_all(second * 1000, &[route("a", 7 + 2 * second)]);
        }
        assert_eq!(requests(&history, "a", MINUTE_MS), Some(120));
        assert_eq!(requests(&history, "a", NOW_MS), Some(20));
        assert_eq!(history.covers_ms(), 60_000);
        assert!(
            history
                .seconds()
                .all(|it| (it.took_ms, it.requests) == (1000, 2))
        );
    }

    #[test]
    fn less_than_a_minute_says_how_much_it_is() {
        let mut history = History::default();
        assert_eq!(requests(&history, "a", MINUTE_MS), None);
        history.note_all(500, &[route("a", 0)]);
        history.note_all(1500, &[route("a", 3)]);
        // The admin thread came late.
        history.note_all(5500, &[route("a", 8)]);
        assert_eq!(requests(&history, "a", MINUTE_MS), Some(8));
        assert_eq!(history.covers_ms(), 5000);
    }

    #[test]
    fn a_route_that_goes_is_forgotten_and_one_that_comes_counts_at_once() {
        let mut history = History::default();
        history.note_all(0, &[route("a", 1)]);
        history.note_all(1000, &[route("a", 4), route("b", 5)]);
        assert_eq!(requests(&history, "a", MINUTE_MS), Some(3));
        assert_eq!(requests(&history, "b", MINUTE_MS), Some(5));
        // Here the route `b` is another one of that name, which counts from zero.
        history.note_all(2000, &[route("b", 2)]);
        assert_eq!(requests(&history, "a", MINUTE_MS), None);
        assert_eq!(requests(&history, "b", MINUTE_MS), Some(7));
    }

    #[test]
    fn it_stays_small_whatever_time_does() {
        let mut history = History::default();
        for call in 0..1000 {
            history.note_all(call, &[route("a", call)]);
        }
        assert_eq!(history.seconds.len(), SECONDS_MAX);
        let tracked = &history.tracks[&Subject::Route("a".to_owned())];
        assert!(tracked.len() <= SECONDS_MAX, "{}", tracked.len());
    }
}
