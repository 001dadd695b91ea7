//! Theoretical arrival times of a bounded number of keys.
//!
//! ```text
//! sets      [ 8 entries ][ 8 entries ][ 8 entries ] ...      128 bytes each
//! entry     hash of the key: u64 │ theoretical arrival time: u64, in nanoseconds
//! ```
//!
//! A key may be in either of two sets, which its hash names, so a look-up reads 16 entries however many keys there are.
//! Keys themselves are not stored; two keys whose hashes agree in all 64 bits share a quota.
//!
//! An entry whose time has passed is like no entry. So while the keys in debt fit, nothing is ever lost, however many
//! keys come. Beyond that, a new key replaces the entry with the *earliest* time of its 16. That one has used the least
//! of its quota; with equal use, it has not been seen for longest. **The new key takes over the time as well.** A flood
//! of keys has these effects:
//! - Invented keys gain no requests: what was used stays used under any name. The whole table never admits more than
//!   `keys_max` bursts at once and `keys_max` times the rate from then on.
//! - A key that has used up its quota has the latest time and leaves last. To make the gateway forget it, an attacker
//!   must first use up all other entries of its sets, and then inherits the debt of the entry it displaces.
//! - An honest new key in a flood begins with the debt of the least used of 16 entries. It is refused only if all of
//!   those are used up, which takes `keys_max` × `burst` admitted requests.

/// Entries in a set: two cache lines.
const SET: usize = 8;

/// The size of an entry.
pub(super) const BYTES_PER_KEY: usize = size_of::<Entry>();

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hash: u64,
    /// Zero if never used.
    arrival_ns: u64,
}

impl Entry {
    fn is_of(&self, hash: u64) -> bool {
        self.hash == hash && self.arrival_ns > 0
    }
}

#[derive(Debug)]
pub(super) struct Table {
    sets: Vec<[Entry; SET]>,
}

impl Table {
    pub(super) fn new(keys_max: usize) -> Self {
        let sets = keys_max.div_ceil(SET).max(2);
        Self {
            sets: vec![[Entry::default(); SET]; sets],
        }
    }

    pub(super) fn keys_max(&self) -> usize {
        self.sets.len() * SET
    }

    /// The theoretical arrival time of the key with this hash, to be moved on. A time that has passed may belong to a
    /// key that was never seen.
    pub(super) fn entry(&mut self, hash: u64, now_ns: u64) -> &mut u64 {
        let [first, second] = self.sets_of(hash);
        let places = || (0..SET).flat_map(|index| [(first, index), (second, index)]);
        let of = |(set, index): (usize, usize)| self.sets[set][index];
        let own = places().find(|&place| of(place).is_of(hash));
        let (set, index) = own
            .or_else(|| places().min_by_key(|&place| of(place).arrival_ns.max(now_ns)))
            .expect("a set has entries");
        let entry = &mut self.sets[set][index];
        entry.hash = hash;
        &mut entry.arrival_ns
    }

    /// The theoretical arrival time of the key with this hash, if it is remembered.
    pub(super) fn known(&mut self, hash: u64) -> Option<&mut u64> {
        let sets = self.sets_of(hash);
        let set = sets
            .into_iter()
            .find(|&set| self.sets[set].iter().any(|entry| entry.is_of(hash)))?;
        let own = self.sets[set].iter_mut().find(|entry| entry.is_of(hash))?;
        Some(&mut own.arrival_ns)
    }

    /// The hashes of the remembered keys.
    #[cfg(test)]
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.sets.iter().flatten().map(|entry| entry.hash)
    }

    /// The two sets of a key: each half of its hash, scaled to the number of sets.
    fn sets_of(&self, hash: u64) -> [usize; 2] {
        let scale = |half: u64| ((half * self.sets.len() as u64) >> 32) as usize;
        [scale(hash >> 32), scale(hash & u64::from(u32::MAX))]
    }
}
