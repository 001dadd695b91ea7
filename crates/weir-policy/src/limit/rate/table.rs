//! Theoretical arrival times of a bounded number of keys.
//!
//! ```text
//! sets      [ 8 entries ][ 8 entries ][ 8 entries ] ...      128 bytes each
//! entry     hash of the key: u64 │ theoretical arrival time: u64, in nanoseconds
//! ```
//!
//! A key may stand in either of two sets, which its hash names, so a look-up reads 16 entries however many keys there
//! are. Keys themselves are not kept; two keys whose hashes agree in all 64 bits share a quota.
//!
//! An entry whose time has passed says the same as no entry. So while fewer keys are in debt than fit, nothing is ever
//! lost, whatever number of keys comes by. Beyond that, a new key takes the place of the entry with the *earliest* time
//! of its 16: the one that has used the least of its quota, which with equal use is the one that has not been seen for
//! longest. **The newcomer takes over the time as well.** This is what a flood of keys meets:
//!
//! - Requests are not to be had by inventing keys: what was used stays used, whoever's name stands beside it. The whole
//!   table never admits more than `keys_max` bursts at once and `keys_max` times the rate from then on.
//! - A key that has used up its quota has the latest time and leaves last. To make the gateway forget it, an attacker
//!   would have to use up all other entries of its sets first, and finds it in the debt of the entry that it displaces.
//! - An honest newcomer in a flood begins with the debt of the least used of 16 entries. It is refused only if all of
//!   those have used everything, which takes `keys_max` × `burst` requests that were let through.

/// Entries in a set: two cache lines.
const SET: usize = 8;

/// What an entry costs.
pub(super) const BYTES_PER_KEY: usize = size_of::<Entry>();

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    hash: u64,
    /// Zero: never used.
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

    /// The theoretical arrival time of the key with this hash, to be moved on; one that has passed may stand for a key
    /// that was never seen.
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

    /// The hashes of the keys that are remembered.
    #[cfg(test)]
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.sets.iter().flatten().map(|entry| entry.hash)
    }

    /// The two sets in which a key may stand: its hash scaled to the number of sets, from each half.
    fn sets_of(&self, hash: u64) -> [usize; 2] {
        let scale = |half: u64| ((half * self.sets.len() as u64) >> 32) as usize;
        [scale(hash >> 32), scale(hash & u64::from(u32::MAX))]
    }
}
