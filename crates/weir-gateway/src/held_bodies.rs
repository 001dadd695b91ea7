//! How much of bodies the gateway holds for clients that send or read slowly: one budget for all workers.
//!
//! What fits into one buffer is not counted: a connection may take one while its head comes too, so that
//! `limits.connections` bounds it. The rest is claimed here before it is read. Whoever finds no room goes on without: it
//! moves its body no faster than both sides do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffers::BUFFER_BYTES;

/// The bytes that are claimed.
#[derive(Debug, Default)]
pub(crate) struct HeldBodies {
    claimed: AtomicU64,
}

impl HeldBodies {
    /// What the admin listener shows.
    pub(crate) fn bytes(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }
}

/// What one body holds beside its first buffer. Dropping it gives that back.
#[derive(Debug)]
pub(crate) struct Claim {
    of: Arc<HeldBodies>,
    bytes: u64,
    /// Of all claims together.
    bytes_max: u64,
}

impl Claim {
    /// Nothing yet.
    pub(crate) fn new(of: &Arc<HeldBodies>, bytes_max: u64) -> Self {
        Self {
            of: Arc::clone(of),
            bytes: 0,
            bytes_max,
        }
    }

    /// Makes room for another buffer beside `held` bytes; `false` when there is none.
    pub(crate) fn make_room(&mut self, held: usize) -> bool {
        let wanted = (held as u64).next_multiple_of(BUFFER_BYTES as u64);
        let Some(more) = wanted.checked_sub(self.bytes).filter(|&more| more > 0) else {
            return true;
        };
        let claimed = &self.of.claimed;
        let added = claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |claimed| {
            claimed
                .checked_add(more)
                .filter(|&all| all <= self.bytes_max)
        });
        if added.is_ok() {
            self.bytes = wanted;
        }
        added.is_ok()
    }

    /// Nothing is held any more.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.of.claimed.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = BUFFER_BYTES;

    #[test]
    fn what_is_held_beside_the_first_buffer_is_claimed_and_comes_back() {
        let held = Arc::<HeldBodies>::default();
        let mut first = Claim::new(&held, 3 * STEP as u64);
        let mut second = Claim::new(&held, 3 * STEP as u64);
        // Held, whether there is room for another buffer, and what is claimed by then.
        let cases = [
            (0, true, 0),
            (1, true, 1),
            (STEP, true, 1),
            (STEP + 1, true, 2),
            (1, true, 2),
            (3 * STEP, true, 3),
            (3 * STEP + 1, false, 3),
        ];
        for (bytes, has_room, claimed) in cases {
            assert_eq!(first.make_room(bytes), has_room, "{bytes}");
            assert_eq!(held.bytes(), (claimed * STEP) as u64, "{bytes}");
        }
        assert!(second.make_room(0), "the first buffer is not counted");
        assert!(!second.make_room(1));
        first.clear();
        assert!(second.make_room(1));
        drop((first, second));
        assert_eq!(held.bytes(), 0);
    }
}
