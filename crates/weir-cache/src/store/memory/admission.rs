//! Whether a full store admits an object: the larger it is, the more misses it needs first.
//!
//! The queues of the store treat all objects alike. A large one pushes out many small ones, each of which may be as
//! popular. So while the store is full, an object of twice the average weight needs two misses before it is admitted,
//! and one of four times or more needs four. An object of average weight or less is always admitted.
//!
//! Misses are counted in a sketch of two rows (a count-min sketch, Cormode and Muthukrishnan 2005), which is halved
//! from time to time so that it forgets (as in `TinyLFU`, Einziger et al. 2017). It may count too many, never too few:
//! then an object is admitted earlier. It is used on misses only.

/// After this many misses any object is admitted that fits at all.
const MISSES_MAX: u64 = 4;

/// Counters per object that the store is expected to hold.
const COUNTERS_PER_OBJECT: usize = 8;

#[derive(Debug)]
pub(super) struct Admission {
    counters: Box<[u8]>,
    misses: usize,
}

impl Admission {
    pub(super) fn new(objects: usize) -> Self {
        let counters = objects.clamp(64, 1 << 21).next_power_of_two() * COUNTERS_PER_OBJECT;
        Self {
            counters: vec![0; counters].into(),
            misses: 0,
        }
    }

    /// Counts a miss of the key with this hash. Returns whether its object is admitted.
    pub(super) fn admits(&mut self, hash: u64, weight: u64, weight_mean: u64) -> bool {
        let mask = self.counters.len() - 1;
        let (first, second) = (hash as usize & mask, (hash >> 32) as usize & mask);
        let misses = self.counters[first]
            .min(self.counters[second])
            .saturating_add(1);
        for counter in [first, second] {
            self.counters[counter] = self.counters[counter].max(misses);
        }
        self.misses += 1;
        if self.misses >= self.counters.len() {
            self.misses = 0;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
        u64::from(misses) >= weight.div_ceil(weight_mean.max(1)).min(MISSES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_the_object_the_more_misses_it_takes() {
        for (weight, misses) in [(1, 1), (100, 1), (101, 2), (300, 3), (400, 4), (1 << 40, 4)] {
            let mut admission = Admission::new(64);
            let asked = (1..9).find(|_| admission.admits(0x1234_5678_9abc, weight, 100));
            assert_eq!(asked, Some(misses), "{weight}");
        }
    }

    #[test]
    fn misses_of_long_ago_are_forgotten() {
        let mut admission = Admission::new(64);
        assert!(!admission.admits(7, 400, 100));
        for other in 0..2 * admission.counters.len() as u64 {
            admission.admits((other % 8 + 200) << 32 | (other % 8 + 100), 1, 100);
        }
        assert!(!(0..3).any(|_| admission.admits(7, 400, 100)));
    }
}
