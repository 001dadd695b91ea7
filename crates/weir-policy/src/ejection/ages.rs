//! How many requests have been in flight for longer than some time, without a timer for each.
//!
//! Requests are counted in the time slot in which they were sent: in slots of a tenth of a second for ages up to three
//! seconds, and in slots of two seconds for ages up to a minute. The result is exact to one slot, and never too high.

use std::time::{Duration, Instant};

const SLOTS: usize = 32;
const FINE: Duration = Duration::from_millis(100);
const COARSE: Duration = Duration::from_secs(2);

/// The longest age that the fine slots cover.
const FINE_AGE_MAX: Duration = Duration::from_secs(3);

/// The longest age that can be asked for.
pub(super) const AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Ages {
    fine: Ring,
    coarse: Ring,
}

impl Ages {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            fine: Ring::new(FINE, now),
            coarse: Ring::new(COARSE, now),
        }
    }

    /// A request was sent: now, or slightly before the last call's time.
    pub(super) fn on_start(&mut self, now: Instant) {
        self.fine.on_start(now);
        self.coarse.on_start(now);
    }

    pub(super) fn on_finish(&mut self, now: Instant, started_at: Instant) {
        self.fine.on_finish(now, started_at);
        self.coarse.on_finish(now, started_at);
    }

    /// Sets the mark: requests sent from now on are counted separately.
    pub(super) fn mark(&mut self, now: Instant) {
        self.fine.mark(now);
        self.coarse.mark(now);
    }

    /// How many requests sent after the mark have been in flight for longer than `age`. Exact to one slot, and never
    /// too high; requests older than all slots are not counted.
    pub(super) fn older_since_mark(&mut self, now: Instant, age: Duration) -> u32 {
        let is_near = now < self.fine.marked_at + FINE_AGE_MAX && age <= FINE_AGE_MAX / 2;
        let ring = if is_near {
            &mut self.fine
        } else {
            &mut self.coarse
        };
        ring.older_since_mark(now, age)
    }

    /// How many requests have been in flight for longer than `age`, which is at most [`AGE_MAX`].
    pub(super) fn older_than(&mut self, now: Instant, age: Duration) -> u32 {
        self.ring(age).older_than(now, age)
    }

    fn ring(&mut self, age: Duration) -> &mut Ring {
        if age <= FINE_AGE_MAX {
            &mut self.fine
        } else {
            &mut self.coarse
        }
    }
}

/// Slots of one width. Requests older than all of them are counted together.
#[derive(Debug)]
struct Ring {
    width: Duration,
    /// Requests in flight by when they were sent; `current` is the slot of now.
    slots: [u32; SLOTS],
    current: usize,
    current_began: Instant,
    older: u32,
    marked_at: Instant,
    /// How many requests in the slot of the mark were sent before it.
    before_mark: u32,
}

impl Ring {
    fn new(width: Duration, now: Instant) -> Self {
        Self {
            width,
            slots: [0; SLOTS],
            current: 0,
            current_began: now,
            older: 0,
            marked_at: now,
            before_mark: 0,
        }
    }

    fn on_start(&mut self, now: Instant) {
        self.turn(now);
        *self.count(now) += 1;
    }

    fn on_finish(&mut self, now: Instant, started_at: Instant) {
        self.turn(now);
        let slot = self.slot(started_at);
        let count = self.count(started_at);
        *count = count.saturating_sub(1);
        if slot.is_some() && slot == self.slot(self.marked_at) && started_at <= self.marked_at {
            self.before_mark = self.before_mark.saturating_sub(1);
        }
    }

    fn older_than(&mut self, now: Instant, age: Duration) -> u32 {
        self.turn(now);
        // Only whole slots count: a slot that began later also holds younger requests.
        let began_before = age + self.width;
        let into = now.saturating_duration_since(self.current_began);
        let is_old = |back: &usize| into + self.width * (*back as u32) >= began_before;
        let old = (0..SLOTS).filter(is_old);
        self.older + old.map(|back| self.slots[self.back(back)]).sum::<u32>()
    }

    fn mark(&mut self, now: Instant) {
        self.turn(now);
        self.marked_at = now;
        self.before_mark = self.slots[self.current];
    }

    fn older_since_mark(&mut self, now: Instant, age: Duration) -> u32 {
        self.turn(now);
        let into = now.saturating_duration_since(self.current_began);
        let marked = now.saturating_duration_since(self.marked_at);
        let of_slot = |back: usize| {
            let began = into + self.width * (back as u32);
            let ended = began.saturating_sub(self.width);
            let count = self.slots[self.back(back)];
            match () {
                () if began < age + self.width || ended >= marked => 0,
                () if began >= marked => count.saturating_sub(self.before_mark),
                () => count,
            }
        };
        (0..SLOTS).map(of_slot).sum()
    }

    /// The slot that began `widths` slots before the current one.
    fn back(&self, widths: usize) -> usize {
        (self.current + SLOTS - widths) % SLOTS
    }

    /// The counter for a request that was sent at this time.
    fn count(&mut self, started_at: Instant) -> &mut u32 {
        match self.slot(started_at) {
            Some(slot) => &mut self.slots[slot],
            None => &mut self.older,
        }
    }

    /// The slot of a request that was sent at this time, if it is still there.
    fn slot(&self, started_at: Instant) -> Option<usize> {
        if started_at >= self.current_began {
            return Some(self.current);
        }
        let before = self.current_began.saturating_duration_since(started_at);
        let back = before.as_nanos().div_ceil(self.width.as_nanos());
        (back < SLOTS as u128).then(|| self.back(back as usize))
    }

    fn turn(&mut self, now: Instant) {
        if now < self.current_began + self.width {
            return;
        }
        let elapsed = now.saturating_duration_since(self.current_began);
        let turns = elapsed.as_nanos() / self.width.as_nanos();
        for _ in 0..turns.min(SLOTS as u128) {
            self.current = (self.current + 1) % SLOTS;
            self.older += std::mem::take(&mut self.slots[self.current]);
        }
        self.current_began += self.width * u32::try_from(turns).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::tests::start;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Threads read the clock in one order and report in another.
        #[test]
        fn finished_requests_are_not_counted(seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut ages = Ages::new(start());
            let mut sent: Vec<Instant> = Vec::new();
            for step_ms in 0..2_000 {
                let late = Duration::from_micros(random.u64(0..5_000));
                let now = start() + Duration::from_millis(5 + step_ms).saturating_sub(late);
                if random.bool() {
                    ages.on_start(now);
                    sent.push(now);
                } else if !sent.is_empty() {
                    ages.on_finish(now, sent.swap_remove(random.usize(..sent.len())));
                }
            }
            let end = start() + Duration::from_secs(10);
            for started_at in sent {
                ages.on_finish(end, started_at);
            }
            prop_assert_eq!(ages.older_than(end, Duration::ZERO), 0);
        }

        /// The seed is part of the input, which proptest prints on failure.
        #[test]
        fn it_counts_what_is_older_give_or_take_one_slot(seed: u64, age_ms in 0u64..=60_000) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut ages = Ages::new(start());
            let mut sent: Vec<Instant> = Vec::new();
            let (mut now, mut mark) = (start(), start());
            // About thirty steps cover the age.
            let step_ms_max = age_ms / 20 + 10;
            for _ in 0..300 {
                now += Duration::from_millis(random.u64(1..=step_ms_max));
                if random.bool() {
                    ages.on_start(now);
                    sent.push(now);
                } else if !sent.is_empty() {
                    let started_at = sent.swap_remove(random.usize(..sent.len()));
                    ages.on_finish(now, started_at);
                }
                let older = |age: Duration| {
                    sent.iter().filter(|&&at| now - at > age).count() as u32
                };
                let age = Duration::from_millis(age_ms);
                let counted = ages.older_than(now, age);
                let width = if age <= FINE_AGE_MAX { FINE } else { COARSE };
                prop_assert!(older(age + width) <= counted && counted <= older(age));
                if random.u32(..20) == 0 {
                    ages.mark(now);
                    mark = now;
                }
                let since = ages.older_since_mark(now, age);
                let older = |age: Duration| {
                    sent.iter().filter(|&&at| now - at > age && at >= mark).count() as u32
                };
                let later = |age: Duration| {
                    sent.iter().filter(|&&at| now - at > age && at > mark).count() as u32
                };
                let is_near = now - mark < FINE_AGE_MAX && age <= FINE_AGE_MAX / 2;
                let width = if is_near { FINE } else { COARSE };
                let slots_hold = now - mark < COARSE * (SLOTS as u32 - 1);
                prop_assert!(since <= older(age));
                prop_assert!(!slots_hold || later(age + width) <= since);
            }
        }
    }
}
