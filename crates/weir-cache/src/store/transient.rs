//! Memory that is held for clients without being stored: a budget for all threads, and the part of each holder.
//!
//! It counts, and decides nothing. Optional memory is asked for first ([`Grant::try_add`]); the caller does without it
//! if there is no room. Memory that is already in use is always counted ([`Grant::set`]), so the budget may be
//! overdrawn. Then nothing new is stored until the holders release it.
//!
//! The body of an object that is sent counts while a client has not read all of it ([`Pin`]) and the object is not
//! stored (any more). A stored object counts in its store. An object that is sent at once is not pinned.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::job::lock;

/// When the budget is short, at least this part of it must become free.
const PART_FREED: u64 = 8;

/// The bytes for everything that is held for clients.
#[derive(Debug)]
pub struct Transient {
    /// It may be below zero for a moment, when one thread gives back what another is about to count.
    used: AtomicI64,
    bytes_max: AtomicI64,
    /// The largest request refused since the last check.
    refused: AtomicU64,
}

impl Transient {
    /// A budget with nothing in use.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let budget = Self {
            used: AtomicI64::new(0),
            bytes_max: AtomicI64::new(0),
            refused: AtomicU64::new(0),
        };
        budget.resize(bytes_max);
        Arc::new(budget)
    }

    /// Sets how many bytes may be used.
    pub fn resize(&self, bytes_max: u64) {
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed).max(0) as u64
    }

    /// Bytes that may be used.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed) as u64
    }

    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.bytes() >= self.bytes_max()
    }

    /// Whether more is used than may be.
    pub fn is_overdrawn(&self) -> bool {
        self.bytes() > self.bytes_max()
    }

    /// How many bytes must become free. None if nothing was refused since the last call and the budget is not
    /// overdrawn. Otherwise enough for the refused request, and for at least an eighth of the budget to be free.
    pub fn take_shortage(&self) -> u64 {
        let (used, bytes_max) = (self.bytes(), self.bytes_max());
        // Nearly always there was no refusal.
        let refused = match self.refused.load(Ordering::Relaxed) {
            0 if used <= bytes_max => return 0,
            0 => 0,
            _ => self.refused.swap(0, Ordering::Relaxed),
        };
        let free = refused.max(bytes_max / PART_FREED);
        (used + free).saturating_sub(bytes_max)
    }

    /// A request that could never be granted is no reason to take from others.
    fn note_refusal(&self, bytes: u64) {
        if bytes <= self.bytes_max() {
            self.refused.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    fn add(&self, bytes: i64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The part of a budget that one holder has; it is given back when this is dropped.
#[derive(Debug)]
pub struct Grant {
    of: Arc<Transient>,
    bytes: AtomicU64,
}

impl Grant {
    /// An empty grant.
    pub fn new(of: &Arc<Transient>) -> Self {
        Self {
            of: Arc::clone(of),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes this much more, if there is room.
    pub fn try_add(&self, bytes: u64) -> bool {
        let bytes_max = self.of.bytes_max.load(Ordering::Relaxed);
        let fits = |used: i64| {
            let sum = used.saturating_add_unsigned(bytes);
            (sum <= bytes_max).then_some(sum)
        };
        let used = &self.of.used;
        let has_room = used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok();
        if has_room {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.of.note_refusal(bytes);
        }
        has_room
    }

    /// Sets how much is held now, whether there is room for it or not.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if before != bytes {
            self.of.add(bytes.cast_signed() - before.cast_signed());
        }
    }

    /// The budget that it belongs to.
    pub fn budget(&self) -> &Arc<Transient> {
        &self.of
    }

    /// Bytes that it counts.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Who holds the body of an object: the store, which counts it by itself, or only clients.
#[derive(Debug)]
pub(super) struct Pins(Mutex<Owners>);

#[derive(Debug)]
struct Owners {
    /// Stored objects with this body: more than one if a head was renewed.
    stored: u32,
    pins: u32,
    bytes: u64,
    /// Exists from the first pin on.
    grant: Option<Grant>,
}

impl Pins {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Owners {
            stored: 0,
            pins: 0,
            bytes,
            grant: None,
        })))
    }

    /// An object with this body is stored.
    pub(super) fn enter(&self) {
        self.change(|owners| owners.stored += 1);
    }

    /// An object with this body is no longer stored.
    pub(super) fn leave(&self) {
        self.change(|owners| owners.stored = owners.stored.saturating_sub(1));
    }

    /// The body takes more memory: a compressed form was added.
    pub(super) fn grow(&self, bytes: u64) {
        self.change(|owners| owners.bytes += bytes);
    }

    pub(super) fn pin(self: &Arc<Self>, of: &Arc<Transient>) -> Pin {
        self.change(|owners| {
            owners.pins += 1;
            owners.grant.get_or_insert_with(|| Grant::new(of));
        });
        Pin(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Owners)) {
        let mut owners = lock(&self.0);
        change(&mut owners);
        if let Some(grant) = &owners.grant {
            let counts = owners.pins > 0 && owners.stored == 0;
            grant.set(if counts { owners.bytes } else { 0 });
        }
    }
}

/// A client that has not read all of an object.
#[derive(Debug)]
pub struct Pin(Arc<Pins>);

impl Pin {
    /// Bytes that are held for it, and for others with the same object, and are not stored.
    pub fn held_bytes(&self) -> u64 {
        lock(&self.0.0).grant.as_ref().map_or(0, Grant::bytes)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.change(|owners| owners.pins -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_memory_is_refused_and_used_memory_always_counts() {
        let budget = Transient::new(100);
        let (first, second) = (Grant::new(&budget), Grant::new(&budget));
        assert!(first.try_add(60) && !second.try_add(101) && second.bytes() == 0);
        assert_eq!(budget.take_shortage(), 0, "that never fits");
        assert!(!second.try_add(41) && !second.try_add(50));
        assert_eq!([budget.take_shortage(), budget.take_shortage()], [10, 0]);
        assert!(second.try_add(40) && budget.is_used_up() && !budget.is_overdrawn());
        second.set(70);
        assert!(budget.is_overdrawn());
        assert_eq!([budget.take_shortage(), budget.take_shortage()], [42, 42]);
        first.set(10);
        assert_eq!(
            (budget.bytes(), first.bytes(), second.bytes()),
            (80, 10, 70)
        );
        drop((first, second));
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn a_body_counts_while_clients_alone_have_it() {
        let budget = Transient::new(100);
        let pins = Pins::new(30);
        pins.enter();
        let first = pins.pin(&budget);
        assert_eq!(budget.bytes(), 0, "it is stored");
        // For a renewed head, the new object comes before the old one leaves.
        pins.enter();
        pins.leave();
        assert_eq!(budget.bytes(), 0);
        pins.leave();
        assert_eq!((budget.bytes(), first.held_bytes()), (30, 30));
        let second = pins.pin(&budget);
        pins.grow(5);
        assert_eq!(
            (budget.bytes(), second.held_bytes()),
            (35, 35),
            "once for all"
        );
        drop(first);
        assert_eq!(budget.bytes(), 35);
        pins.enter();
        assert_eq!(budget.bytes(), 0);
        pins.leave();
        drop(second);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn many_threads_leave_nothing_behind() {
        let budget = Transient::new(1 << 20);
        let pins = Pins::new(1000);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..2000 {
                        let pin = pins.pin(&budget);
                        let grant = Grant::new(&budget);
                        grant.try_add(7);
                        pins.enter();
                        grant.set(3);
                        pins.leave();
                        drop(pin);
                    }
                });
            }
        });
        assert_eq!(budget.bytes(), 0);
    }
}
