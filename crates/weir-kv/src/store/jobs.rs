//! Requests that take a thread each, since they are long: batches and ranges; and the memory that is theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At once. A client that is slow to take a range holds one.
const JOBS_MAX: usize = 64;

/// Bytes of values that a batch holds, and all of them together, until their clients have taken them.
pub(super) const ROOM_BYTES: usize = 64 << 20;
const ROOMS_BYTES: usize = 256 << 20;

/// Those that are under way.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    count: Arc<AtomicUsize>,
    /// Bytes that rooms hold.
    held_bytes: Arc<AtomicUsize>,
}

/// Too many are under way, or the system has no thread.
#[derive(Debug)]
pub(super) struct Busy;

/// Counts one until it ends, however it does.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Jobs {
    /// Runs it on a thread of its own.
    pub(super) fn begin(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(Arc::clone(&self.count));
        if before >= JOBS_MAX {
            return Err(Busy);
        }
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = move || {
            run();
            drop(counted);
        };
        thread.spawn(run).map(drop).map_err(|_| Busy)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Room for the values of one batch.
    pub(super) fn room(&self) -> Arc<Room> {
        Arc::new(Room {
            own_bytes: AtomicUsize::new(0),
            held_bytes: Arc::clone(&self.held_bytes),
        })
    }
}

/// Room for values. What was taken is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    own_bytes: AtomicUsize,
    held_bytes: Arc<AtomicUsize>,
}

impl Room {
    /// Takes room for so many bytes; false if there is not enough.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let has_room = add(&self.own_bytes, bytes, ROOM_BYTES);
        if has_room && !add(&self.held_bytes, bytes, ROOMS_BYTES) {
            self.own_bytes.fetch_sub(bytes, Ordering::AcqRel);
            return false;
        }
        has_room
    }

    pub(super) fn is_full(&self) -> bool {
        let is_full = |held: &AtomicUsize, most| held.load(Ordering::Acquire) >= most;
        is_full(&self.own_bytes, ROOM_BYTES) || is_full(&self.held_bytes, ROOMS_BYTES)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let own_bytes = *self.own_bytes.get_mut();
        self.held_bytes.fetch_sub(own_bytes, Ordering::AcqRel);
    }
}

/// Adds as long as there are no more than `most`; whether it has.
fn add(held: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= most);
    held.fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_its_room_and_all_have_theirs_until_they_end() {
        let jobs = Jobs::default();
        let half = ROOM_BYTES / 2;
        let room = jobs.room();
        assert!(room.take(half) && room.take(half) && room.take(0));
        assert!(room.is_full() && !room.take(1));
        let mut rooms = vec![room];
        for _ in 1..ROOMS_BYTES / ROOM_BYTES {
            let room = jobs.room();
            assert!(!room.is_full() && room.take(ROOM_BYTES));
            rooms.push(room);
        }
        let more = jobs.room();
        assert!(more.is_full() && !more.take(1) && more.take(0));
        rooms.pop();
        // What was refused has taken nothing.
        assert!(!more.take(ROOM_BYTES + 1) && more.take(ROOM_BYTES));
        drop((rooms, more));
        assert_eq!(jobs.held_bytes.load(Ordering::Acquire), 0);
    }
}
