//! What a sink writes down, and what it shows of itself.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::turn::{Sink, TURN, set};
use crate::clock;
use crate::dead::DEAD_SHOWN;
use crate::journal::Known;
use crate::progress::Checkpoint;
use crate::shared::lock;

impl Sink {
    /// Once a second: shows what takes a look at the disk, and makes the notes durable.
    pub(super) fn look_around(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < TURN) {
            return;
        }
        self.looked = Some(Instant::now());
        if std::mem::take(&mut self.has_new_dead) {
            *lock(&self.consumer.newest_dead) = self.dead.newest(DEAD_SHOWN);
        }
        // What is replayed, or was there before the sink, is no sign of a target that is late.
        self.cursor.go_to(self.next.max(self.replayed_until));
        let first = self.cursor.read().ok().flatten();
        let oldest_ms = first.map_or(0, |record| record.time_ms);
        set(&self.consumer.oldest_ms, oldest_ms);
        self.write(true);
    }

    /// Writes what was noted; durably if it is all.
    pub(super) fn write(&mut self, is_all: bool) {
        let Self {
            journal,
            dead,
            next,
            mark,
            is_paused,
            ..
        } = self;
        let known = || Known {
            checkpoint: Checkpoint {
                low: *next,
                ..Checkpoint::default()
            },
            gone: dead.gone(),
            dropped: Vec::new(),
            is_paused: *is_paused,
            mark: *mark,
        };
        let mut written = Ok(());
        if journal.has_unwritten() {
            written = journal.write(clock::now_ms(), known);
        }
        if is_all {
            written = written.and_then(|()| journal.sync());
        }
        if let Err(error) = written
            && !error.is_full()
            && self.stopped.is_none()
        {
            self.stop(&error);
        }
        self.publish();
    }

    /// Shows others where it is.
    pub(super) fn publish(&self) {
        let consumer = &self.consumer;
        set(&consumer.consumed, self.next);
        set(&consumer.dead, self.dead.len() as u64);
        set(&consumer.dead_bytes, self.dead.bytes());
        consumer.is_paused.store(self.is_paused, Ordering::Relaxed);
        consumer.is_ill.store(self.is_ill(), Ordering::Relaxed);
    }
}
