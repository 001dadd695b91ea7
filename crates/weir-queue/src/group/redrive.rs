//! Dead letters that are to be delivered after all: which, when, and that none is tried for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often one is tried that no upstream hears of. Then it is left where it is.
const UNTRIED_MAX: u32 = 10;
/// How long it waits before that is tried again, at first.
const WAIT_MS: u64 = 500;

#[derive(Debug, Default)]
pub(super) struct Redrive {
    letters: BTreeMap<u64, Letter>,
    /// Those that are not under way, by lane and time.
    waiting: BTreeSet<(usize, u64, u64)>,
    /// Keys of those that are under way.
    busy: BTreeSet<Arc<str>>,
    /// Whether the last that had its turn was a dead letter.
    was_dead: bool,
}

#[derive(Debug)]
struct Letter {
    lane: usize,
    key: Option<Arc<str>>,
    untried: u32,
    /// When it is tried, if it is not under way.
    due_ms: Option<u64>,
}

impl Redrive {
    /// Has this one delivered, unless it is already. Whether it was new.
    pub(super) fn add(&mut self, id: u64, lane: usize, key: Option<String>) -> bool {
        if self.letters.contains_key(&id) {
            return false;
        }
        let letter = Letter {
            lane,
            key: key.map(Into::into),
            untried: 0,
            due_ms: None,
        };
        self.letters.insert(id, letter);
        self.give_back(id, 0);
        true
    }

    /// Whether one waits in this lane.
    pub(super) fn has(&self, lane: usize) -> bool {
        self.first(lane).is_some()
    }

    /// The next one of a lane. It waits as long as one of its key is under way, and those behind it wait with it.
    fn first(&self, lane: usize) -> Option<(u64, u64)> {
        let first = self.waiting.range((lane, 0, 0)..).next();
        let first = first.filter(|(own, ..)| *own == lane);
        let first = first.map(|&(_, due_ms, id)| (due_ms, id));
        let key = |id| self.letters.get(&id)?.key.as_ref();
        first.filter(|&(_, id)| !key(id).is_some_and(|key| self.busy.contains(key)))
    }

    /// The one whose time has come. It has every second turn, unless nothing else has one.
    pub(super) fn take(&mut self, lane: usize, now_ms: u64, is_alone: bool) -> Option<u64> {
        let has_turn = is_alone || !self.was_dead;
        let first = self
            .first(lane)
            .filter(|(due_ms, _)| *due_ms <= now_ms && has_turn);
        self.was_dead = first.is_some();
        let (due_ms, id) = first?;
        self.waiting.remove(&(lane, due_ms, id));
        if let Some(letter) = self.letters.get_mut(&id) {
            letter.due_ms = None;
            self.busy.extend(letter.key.clone());
        }
        Some(id)
    }

    /// When the next one of a lane is due.
    pub(super) fn next_due_ms(&self, lane: usize) -> Option<u64> {
        self.first(lane).map(|(due_ms, _)| due_ms)
    }

    /// One that was taken was not tried.
    pub(super) fn give_back(&mut self, id: u64, due_ms: u64) {
        if let Some(letter) = self.letters.get_mut(&id) {
            if let Some(key) = &letter.key {
                self.busy.remove(key);
            }
            letter.due_ms = Some(due_ms);
            self.waiting.insert((letter.lane, due_ms, id));
        }
    }

    /// Nobody has heard of one that was taken.
    pub(super) fn untried(&mut self, id: u64, now_ms: u64) {
        let Some(letter) = self.letters.get_mut(&id) else {
            return;
        };
        letter.untried += 1;
        if letter.untried >= UNTRIED_MAX {
            self.remove(id);
            return;
        }
        let due_ms = now_ms + (WAIT_MS << letter.untried);
        self.give_back(id, due_ms);
    }

    /// One is delivered, dropped or left where it is.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(letter) = self.letters.remove(&id) else {
            return;
        };
        match (letter.due_ms, letter.key) {
            (Some(due_ms), _) => {
                self.waiting.remove(&(letter.lane, due_ms, id));
            }
            (None, Some(key)) => {
                self.busy.remove(&key);
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_delivered_once_and_in_turn_with_others() {
        let mut redrive = Redrive::default();
        let add = |redrive: &mut Redrive, id, lane| redrive.add(id, lane, None);
        for (id, lane) in [(3, 0), (1, 0), (2, 1)] {
            assert!(add(&mut redrive, id, lane));
        }
        assert!(!add(&mut redrive, 3, 0), "it is there");
        assert_eq!(redrive.take(0, 0, false), Some(1));
        assert_eq!(redrive.take(0, 0, false), None, "others have their turn");
        assert_eq!(redrive.take(0, 0, false), Some(3));
        assert!(!add(&mut redrive, 3, 0), "it is under way");
        assert!(redrive.has(1) && !redrive.has(0));
        redrive.remove(2);
        redrive.remove(3);
        assert!(!redrive.has(1));
        assert!(add(&mut redrive, 3, 0));
    }

    #[test]
    fn of_a_key_one_is_under_way_at_a_time() {
        let mut redrive = Redrive::default();
        for id in [1, 2, 3] {
            redrive.add(id, 0, Some("a".to_owned()));
        }
        assert_eq!(redrive.take(0, 0, true), Some(1));
        assert_eq!(redrive.take(0, 0, true), None);
        redrive.give_back(1, 0);
        assert_eq!(redrive.take(0, 0, true), Some(1));
        redrive.remove(1);
        assert_eq!(redrive.take(0, 0, true), Some(2));
        redrive.remove(2);
        assert_eq!(redrive.take(0, 0, true), Some(3));
    }

    #[test]
    fn what_nobody_hears_of_is_left_in_the_end() {
        let mut redrive = Redrive::default();
        redrive.add(1, 0, Some("key".to_owned()));
        let mut now_ms = 0;
        let mut tries = 0;
        while let Some(due_ms) = redrive.next_due_ms(0) {
            assert!(due_ms >= now_ms);
            now_ms = due_ms;
            assert_eq!(redrive.take(0, now_ms, true), Some(1));
            redrive.untried(1, now_ms);
            tries += 1;
        }
        assert_eq!(tries, UNTRIED_MAX);
        assert!(now_ms < 600_000, "{now_ms}");
    }
}
