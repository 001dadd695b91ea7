//! Dead letters that are to be delivered after all: which, when, and that none is tried for ever.

use std::collections::{BTreeMap, BTreeSet};

/// How often one is tried that no upstream hears of. Then it is left where it is.
const UNTRIED_MAX: u32 = 10;
/// How long it waits before that is tried again, at first.
const WAIT_MS: u64 = 500;

#[derive(Debug, Default)]
pub(super) struct Redrive {
    letters: BTreeMap<u64, Letter>,
    /// Those that are not under way, by lane and time.
    waiting: BTreeSet<(usize, u64, u64)>,
    /// Whether the last that had its turn was a dead letter.
    was_dead: bool,
}

#[derive(Debug, Clone, Copy)]
struct Letter {
    lane: usize,
    untried: u32,
    /// When it is tried, if it is not under way.
    due_ms: Option<u64>,
}

impl Redrive {
    /// Has this one delivered, unless it is already. Whether it was new.
    pub(super) fn add(&mut self, id: u64, lane: usize) -> bool {
        if self.letters.contains_key(&id) {
            return false;
        }
        let letter = Letter {
            lane,
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

    fn first(&self, lane: usize) -> Option<(u64, u64)> {
        let first = self.waiting.range((lane, 0, 0)..).next();
        let first = first.filter(|(own, ..)| *own == lane);
        first.map(|&(_, due_ms, id)| (due_ms, id))
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
        }
        Some(id)
    }

    /// When the next one is due.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let mut next = None;
        let mut lane = 0;
        // The first of each lane.
        while let Some(&(own, due_ms, _)) = self.waiting.range((lane, 0, 0)..).next() {
            next = Some(next.map_or(due_ms, |next: u64| next.min(due_ms)));
            lane = own + 1;
        }
        next
    }

    /// One that was taken was not tried.
    pub(super) fn give_back(&mut self, id: u64, due_ms: u64) {
        if let Some(letter) = self.letters.get_mut(&id) {
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
            self.letters.remove(&id);
            return;
        }
        let due_ms = now_ms + (WAIT_MS << letter.untried);
        self.give_back(id, due_ms);
    }

    /// One is delivered, dropped or left where it is.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(letter) = self.letters.remove(&id)
            && let Some(due_ms) = letter.due_ms
        {
            self.waiting.remove(&(letter.lane, due_ms, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_delivered_once_and_in_turn_with_others() {
        let mut redrive = Redrive::default();
        assert!(redrive.add(3, 0) && redrive.add(1, 0) && redrive.add(2, 1));
        assert!(!redrive.add(3, 0), "it is there");
        assert_eq!(redrive.take(0, 0, false), Some(1));
        assert_eq!(redrive.take(0, 0, false), None, "others have their turn");
        assert_eq!(redrive.take(0, 0, false), Some(3));
        assert!(!redrive.add(3, 0), "it is under way");
        assert!(redrive.has(1) && !redrive.has(0));
        redrive.remove(2);
        redrive.remove(3);
        assert!(!redrive.has(1));
        assert!(redrive.add(3, 0));
    }

    #[test]
    fn what_nobody_hears_of_is_left_in_the_end() {
        let mut redrive = Redrive::default();
        redrive.add(1, 0);
        let mut now_ms = 0;
        let mut tries = 0;
        while let Some(due_ms) = redrive.next_due_ms() {
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
