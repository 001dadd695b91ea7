//! The lines of a queue: two for each priority, all in one block of memory.
//!
//! A line is a doubly linked list through the block, so a waiter leaves from either end or from the middle at the same
//! small cost. Within a line deadlines never decrease as long as the caller's clock does not run backwards. So the
//! first of a line also expires first. This file knows nothing about overload.

use super::super::priority::Priority;
use std::time::Instant;

/// A line of waiters: each priority has one for the patient and one for the hurried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line(u8);

impl Line {
    const COUNT: usize = 2 * Priority::COUNT;

    pub(super) const ALL: [Line; Self::COUNT] = [
        Line(0),
        Line(1),
        Line(2),
        Line(3),
        Line(4),
        Line(5),
        Line(6),
        Line(7),
    ];

    pub(super) fn patient(priority: Priority) -> Self {
        Self(priority as u8)
    }

    pub(super) fn hurried(priority: Priority) -> Self {
        Self(priority as u8 + Priority::COUNT as u8)
    }

    pub(super) fn priority(self) -> Priority {
        Priority::ALL[usize::from(self.0) % Priority::COUNT]
    }
}

/// The end of a list, or no slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Lines<T> {
    slots: Vec<Slot<T>>,
    /// The first free slot; free slots are chained by `next`.
    free: u32,
    ends: [Ends; Line::COUNT],
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` when the slot is free.
    waiter: Option<T>,
    deadline: Option<Instant>,
    previous: u32,
    next: u32,
    /// Counts the waiters of this slot, so that the ticket of an earlier one finds nobody.
    generation: u32,
    line: Line,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
}

impl<T> Lines<T> {
    pub(super) fn new(waiters_max: usize) -> Self {
        let count = u32::try_from(waiters_max)
            .ok()
            .filter(|&count| count < NONE)
            .expect("fewer than 2^32 - 1 waiters are configured");
        let slots = (0..count)
            .map(|index| Slot {
                waiter: None,
                deadline: None,
                previous: NONE,
                next: if index + 1 == count { NONE } else { index + 1 },
                generation: 0,
                line: Line(0),
            })
            .collect();
        Self {
            slots,
            free: if count == 0 { NONE } else { 0 },
            ends: [Ends {
                oldest: NONE,
                newest: NONE,
            }; Line::COUNT],
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a waiter at the newest end. Returns its slot and generation. There must be a free slot.
    pub(super) fn push(&mut self, line: Line, deadline: Instant, waiter: T) -> (u32, u32) {
        let index = self.free;
        let ends = &mut self.ends[usize::from(line.0)];
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        slot.waiter = Some(waiter);
        slot.deadline = Some(deadline);
        slot.line = line;
        slot.previous = ends.newest;
        slot.next = NONE;
        let generation = slot.generation;
        if ends.newest == NONE {
            ends.oldest = index;
        } else {
            self.slots[ends.newest as usize].next = index;
        }
        ends.newest = index;
        self.len += 1;
        (index, generation)
    }

    pub(super) fn pop_oldest(&mut self, line: Line) -> Option<T> {
        self.take(self.ends[usize::from(line.0)].oldest)
    }

    pub(super) fn pop_newest(&mut self, line: Line) -> Option<T> {
        self.take(self.ends[usize::from(line.0)].newest)
    }

    /// When the oldest waiter of a line has waited long enough.
    pub(super) fn deadline(&self, line: Line) -> Option<Instant> {
        let oldest = self.ends[usize::from(line.0)].oldest;
        self.slots.get(oldest as usize)?.deadline
    }

    pub(super) fn remove(&mut self, index: u32, generation: u32) -> Option<T> {
        let slot = self.slots.get(index as usize)?;
        (slot.generation == generation)
            .then(|| self.take(index))
            .flatten()
    }

    /// Takes the waiter of this slot out of its line and frees the slot.
    fn take(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let waiter = slot.waiter.take()?;
        let (previous, next, line) = (slot.previous, slot.next, slot.line);
        slot.deadline = None;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next = self.free;
        self.free = index;
        self.len -= 1;
        let ends = &mut self.ends[usize::from(line.0)];
        if previous == NONE {
            ends.oldest = next;
        } else {
            self.slots[previous as usize].next = next;
        }
        if next == NONE {
            ends.newest = previous;
        } else {
            self.slots[next as usize].previous = previous;
        }
        Some(waiter)
    }
}
