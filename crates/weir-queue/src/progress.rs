//! What a consumer group has done of a queue, and what it does next.
//!
//! ```text
//!   settled          │ settled here and there, the rest is held │ not yet looked at
//!   ─────────────────┼──────────────────────────────────────────┼──────────────────►
//!                    low                                        read
//! ```
//!
//! Messages with one key are delivered one after the other, in the order of their offsets: each is settled before the next is
//! begun. Messages with different keys, and those without one, do not wait for each other. So a key that fails keeps back what
//! follows it under this key alone, for as long as what is held has room: a held message takes some 40 bytes, since its content
//! stays in the log.
//!
//! A message is in a lane, by where it goes. Each lane is taken from by itself, so that one that stands still holds up no other.
//!
//! Pure: what is offered, what became of a delivery, and the time come in as arguments.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::ranges::Ranges;

/// How much a group may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Messages that were looked at and are not settled.
    pub held_max: usize,
    /// Stretches of settled messages between those.
    pub ranges_max: usize,
    /// Messages that can be delivered at once in each lane, beyond which no more are looked at.
    pub ready_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            held_max: 200_000,
            ranges_max: 200_000,
            ready_max: 1024,
        }
    }
}

/// A message that is to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Which one.
    pub offset: u64,
    /// How often it was tried before.
    pub attempts: u32,
}

/// The state of a consumer group.
#[derive(Debug)]
pub struct Progress {
    bounds: Bounds,
    /// All before this offset are settled.
    low: u64,
    /// The first offset that was not offered.
    read: u64,
    /// What is settled between the two.
    settled: Ranges,
    held: HashMap<u64, Held>,
    /// Messages that wait for those of their key, which are held too. A key is here as long as one of it is held.
    behind: HashMap<u64, VecDeque<u64>>,
    lanes: Vec<Lane>,
    /// What is to be tried again, by its time in milliseconds.
    waiting: BTreeSet<(u64, u64)>,
    /// How often messages were tried that are not offered yet: what is known from before a restart.
    tried: BTreeMap<u64, (u32, u64)>,
}

/// What can be delivered now.
#[derive(Debug, Default)]
struct Lane {
    /// How many of its messages are held.
    held: usize,
    /// What was not tried yet.
    fresh: BTreeSet<u64>,
    /// What was tried before, by the time for which it has waited.
    tired: BTreeSet<(u64, u64)>,
    /// Whether the message that was taken last was tried before.
    was_tired: bool,
}

/// A message that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    key: Option<u64>,
    lane: usize,
    /// Attempts that count.
    attempts: u32,
    /// Whether there was any, whether it counts or not.
    is_tired: bool,
    is_taken: bool,
}

/// What is to be known of a group after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// All before this offset are settled.
    pub low: u64,
    /// What else is settled: first offsets, and those behind the last.
    pub settled: Vec<(u64, u64)>,
    /// What was tried and is not settled: offset, how often, and the time of the next attempt in milliseconds.
    pub tried: Vec<(u64, u32, u64)>,
}

impl Progress {
    /// A group that goes on from a checkpoint.
    pub fn new(bounds: Bounds, from: &Checkpoint) -> Self {
        let settled = Ranges::of(from.settled.clone());
        let tried = from.tried.iter();
        let tried = tried.map(|&(offset, attempts, due_ms)| (offset, (attempts, due_ms)));
        let mut progress = Self {
            bounds,
            low: from.low,
            read: from.low,
            settled,
            held: HashMap::new(),
            behind: HashMap::new(),
            lanes: Vec::new(),
            waiting: BTreeSet::new(),
            tried: tried.collect(),
        };
        progress.advance();
        progress
    }

    /// What a group needs to deliver again what comes from `from` on, and nothing before that.
    pub fn replayed(&self, from: u64) -> Checkpoint {
        let Checkpoint {
            low,
            settled,
            tried,
        } = self.checkpoint();
        let before = |(first, end): (u64, u64)| (first, end.min(from));
        let mut settled: Vec<_> = settled.into_iter().map(before).collect();
        settled.retain(|(first, end)| first < end);
        Checkpoint {
            low: low.min(from),
            settled,
            tried,
        }
    }

    /// What a group needs to go on from here. What is under way counts as tried before: it is delivered again.
    pub fn checkpoint(&self) -> Checkpoint {
        let due_of: HashMap<u64, u64> = self.waiting.iter().map(|&(due, of)| (of, due)).collect();
        let held = self.held.iter().filter(|(_, held)| held.attempts > 0);
        let held = held.map(|(&offset, held)| {
            let due_ms = due_of.get(&offset).copied().unwrap_or(0);
            (offset, held.attempts, due_ms)
        });
        let early = self.tried.iter();
        let early = early.map(|(&offset, &(attempts, due_ms))| (offset, attempts, due_ms));
        let mut tried: Vec<_> = held.chain(early).collect();
        tried.sort_unstable();
        Checkpoint {
            low: self.low,
            settled: self.settled.iter().collect(),
            tried,
        }
    }

    /// All before this offset are settled.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// How many behind [`Progress::low`] are settled.
    pub fn settled_ahead(&self) -> u64 {
        self.settled.offsets()
    }

    /// The offset that is to be offered next.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Messages that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the next message is to be offered: there is room for it, and too little to do without it. A group that holds
    /// nothing always wants more: what was settled before a restart may fill its bounds.
    pub fn wants_more(&self) -> bool {
        // Passing by what is settled makes no stretch more.
        let may_pass =
            self.settled.len() < self.bounds.ranges_max || self.settled.end() > self.read;
        let has_little = |lane: &Lane| lane.fresh.len() < self.bounds.ready_max;
        let is_little = self.lanes.is_empty() || self.lanes.iter().any(has_little);
        let has_room = self.held.len() < self.bounds.held_max && may_pass && is_little;
        has_room || self.held.is_empty()
    }

    /// Takes the next message of the log, with numbers for its key and its lane. Offsets that were left out before it are settled.
    pub fn offer(&mut self, offset: u64, key: Option<u64>, lane: usize) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        if offset < self.read {
            return;
        }
        let is_settled = self.settled.contains(offset);
        self.settled.insert(self.read, offset);
        self.read = offset + 1;
        self.advance();
        let (attempts, due_ms) = self.tried.remove(&offset).unwrap_or_default();
        if is_settled {
            return;
        }
        let held = Held {
            key,
            lane,
            attempts,
            is_tired: attempts > 0,
            is_taken: false,
        };
        self.held.insert(offset, held);
        self.lanes[lane].held += 1;
        if let Some(key) = key {
            let behind = self.behind.entry(key).or_default();
            behind.push_back(offset);
            if behind.len() > 1 {
                return;
            }
        }
        if due_ms > 0 {
            self.waiting.insert((due_ms, offset));
        } else {
            self.make_ready(0, offset);
        }
    }

    /// The message of a lane that is to be delivered now: in turn the oldest of those that were not tried yet, and of those that were, so that
    /// neither many that fail nor many that are new hold the others up. Until [`Progress::settle`], [`Progress::again`] or
    /// [`Progress::give_back`] says what became of it, none of its key follows.
    pub fn take(&mut self, lane: usize, now_ms: u64) -> Option<Due> {
        self.ripen(now_ms);
        let lane = self.lanes.get_mut(lane)?;
        loop {
            let has_turn = lane.fresh.is_empty() || !lane.was_tired;
            let tired = if has_turn {
                lane.tired.pop_first()
            } else {
                None
            };
            lane.was_tired = tired.is_some();
            let tired = tired.map(|(_, offset)| offset);
            let offset = tired.or_else(|| lane.fresh.pop_first())?;
            // Otherwise it was settled while it waited.
            if let Some(held) = self.held.get_mut(&offset) {
                held.is_taken = true;
                let attempts = held.attempts;
                return Some(Due { offset, attempts });
            }
        }
    }

    /// Whether a message waits to be tried again, or for its turn: it may be settled without an attempt.
    pub fn is_waiting(&self, offset: u64) -> bool {
        let held = self.held.get(&offset);
        held.is_some_and(|held| !held.is_taken)
    }

    /// The same for one of this lane.
    pub fn is_waiting_in(&self, offset: u64, lane: usize) -> bool {
        let held = self.held.get(&offset);
        held.is_some_and(|held| !held.is_taken && held.lane == lane)
    }

    /// Whether this message is settled; `None` when it was not looked at yet.
    pub fn is_settled(&self, offset: u64) -> Option<bool> {
        if offset < self.low || self.settled.contains(offset) {
            return Some(true);
        }
        (offset < self.read).then_some(false)
    }

    /// What has waited for this time can be delivered.
    pub fn ripen(&mut self, now_ms: u64) {
        while let Some(&(due_ms, offset)) = self.waiting.first()
            && due_ms <= now_ms
        {
            self.waiting.pop_first();
            self.make_ready(due_ms, offset);
        }
    }

    /// How many messages of a lane are held.
    pub fn held_in(&self, lane: usize) -> usize {
        self.lanes.get(lane).map_or(0, |lane| lane.held)
    }

    /// There is nothing before this offset that was not offered.
    pub fn pass_to(&mut self, offset: u64) {
        if offset > self.read {
            self.settled.insert(self.read, offset);
            self.read = offset;
            self.advance();
        }
    }

    /// Whether nothing of a lane can be delivered now.
    pub fn is_idle(&self, lane: usize) -> bool {
        let lane = self.lanes.get(lane);
        lane.is_none_or(|lane| lane.fresh.is_empty() && lane.tired.is_empty())
    }

    /// A message that was held for until `due_ms` can be delivered.
    fn make_ready(&mut self, due_ms: u64, offset: u64) {
        let Some(held) = self.held.get(&offset) else {
            return;
        };
        let lane = &mut self.lanes[held.lane];
        if held.is_tired {
            lane.tired.insert((due_ms, offset));
        } else {
            lane.fresh.insert(offset);
        }
    }

    /// When the next message is to be tried again, in milliseconds; `None` when none waits.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.waiting.first().map(|&(due_ms, _)| due_ms)
    }

    /// A message that was taken is delivered, or given up: it is never taken again.
    pub fn settle(&mut self, offset: u64) {
        let Some(held) = self.held.remove(&offset) else {
            return;
        };
        self.lanes[held.lane].held -= 1;
        self.settled.insert(offset, offset + 1);
        self.advance();
        let Some(key) = held.key else {
            return;
        };
        let Some(behind) = self.behind.get_mut(&key) else {
            return;
        };
        behind.pop_front();
        match behind.front() {
            Some(&next) => self.make_ready(0, next),
            None => {
                self.behind.remove(&key);
            }
        }
    }

    /// A message that was taken was tried, and is to be tried again at this time. Whether that counts is for the caller to say.
    pub fn again(&mut self, offset: u64, due_ms: u64, counts: bool) {
        if let Some(held) = self.held.get_mut(&offset) {
            held.attempts += u32::from(counts);
            held.is_tired = true;
            held.is_taken = false;
            self.waiting.insert((due_ms, offset));
        }
    }

    /// A message that was taken was not tried: it is ready again at this time, with the place that it had.
    pub fn give_back(&mut self, offset: u64, due_ms: u64) {
        if let Some(held) = self.held.get_mut(&offset) {
            held.is_taken = false;
            self.waiting.insert((due_ms, offset));
        }
    }

    /// Moves `low` over what is settled.
    fn advance(&mut self) {
        while let Some(end) = self.settled.take_first_from(self.low) {
            self.low = end;
        }
        self.read = self.read.max(self.low);
    }
}

#[cfg(test)]
mod tests;
