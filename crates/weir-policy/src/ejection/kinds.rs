//! The kinds of requests that an endpoint gets, and how many of them its siblings get too.
//!
//! Kinds are hashes, counted in [`SLOTS`] slots in which older requests weigh less.

/// Few enough to be filled by a few dozen requests, and enough that two kinds rarely share one.
const SLOTS: usize = 64;

/// Only kinds that make up this share of an endpoint's requests are compared. A hash balancer places whole keys, so
/// each endpoint has its own light kinds; that does not make its mixture different.
const HEAVY: f64 = 1.0 / 16.0;

/// A difference of fewer standard deviations is chance.
const CHANCE: f64 = 3.0;

/// This many standard deviations are added to be on the safe side.
const MARGIN: f64 = 2.0;

#[derive(Debug, Clone)]
pub(super) struct Kinds {
    counts: [f32; SLOTS],
    total: f32,
}

impl Kinds {
    pub(super) fn new() -> Self {
        Self {
            counts: [0.0; SLOTS],
            total: 0.0,
        }
    }

    pub(super) fn add(&mut self, kind: u64) {
        self.counts[(kind % SLOTS as u64) as usize] += 1.0;
        self.total += 1.0;
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count += other;
        }
        self.total += other.total;
    }

    /// What is left without `part`.
    pub(super) fn without(&self, part: &Self) -> Self {
        let left = |slot: usize| (self.counts[slot] - part.counts[slot]).max(0.0);
        Self {
            counts: std::array::from_fn(left),
            total: (self.total - part.total).max(0.0),
        }
    }

    /// Halves the weight of what was counted so far.
    pub(super) fn halve(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2.0);
        self.total /= 2.0;
    }

    /// The share of these requests, from 0 to 1, whose kinds `siblings` do not have, or have less of, by more than
    /// chance. The estimate is rather too high than too low.
    pub(super) fn unlike(&self, siblings: &Self) -> f64 {
        let own = f64::from(self.total);
        if own < 1.0 {
            return 0.0;
        }
        // One request of an unknown kind is added.
        let (known, unknown) = (f64::from(siblings.total) + 1.0, 1.0 / SLOTS as f64);
        let excess = |(&count, &theirs): (&f32, &f32)| {
            if f64::from(count) < HEAVY * own {
                return 0.0;
            }
            let expected = own * (f64::from(theirs) + unknown) / known;
            // Both counts vary by chance.
            let deviation = (expected * (1.0 + own / known) + 1.0).sqrt();
            let count = f64::from(count);
            if count > expected + CHANCE * deviation {
                count - (expected - MARGIN * deviation).max(0.0)
            } else {
                0.0
            }
        };
        let excess: f64 = self.counts.iter().zip(&siblings.counts).map(excess).sum();
        let share = (excess / own).min(1.0);
        let deviation = (2.0 * share * (1.0 - share) / own).sqrt();
        (share + MARGIN * deviation).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for an endpoint and its siblings with these numbers of requests of kind 0, 1 and so on.
    fn unlike(own: &[u32], siblings: &[u32]) -> f64 {
        let kinds = |counts: &[u32]| {
            let mut kinds = Kinds::new();
            for (kind, &count) in counts.iter().enumerate() {
                (0..count).for_each(|_| kinds.add(kind as u64));
            }
            kinds
        };
        kinds(own).unlike(&kinds(siblings))
    }

    #[test]
    fn kinds_that_siblings_do_not_get_are_unlike() {
        // (own, siblings', from, to)
        let table: &[(&[u32], &[u32], f64, f64)] = &[
            (&[100], &[200], 0.0, 0.0),
            (&[100], &[0, 200], 0.9, 1.0),
            (&[50, 50], &[100, 100], 0.0, 0.0),
            (&[50, 50], &[200, 0], 0.5, 0.7),
            (&[10, 0], &[0, 20], 0.7, 1.0),
            // Nobody else gets requests.
            (&[100], &[], 0.4, 1.0),
            (&[1; 64], &[], 0.0, 0.0),
            (&[], &[100], 0.0, 0.0),
        ];
        for &(own, siblings, from, to) in table {
            let found = unlike(own, siblings);
            assert!(
                (from..=to).contains(&found),
                "{own:?} {siblings:?}: {found}"
            );
        }
    }

    #[test]
    fn chance_is_not_unlike() {
        let mut random = fastrand::Rng::with_seed(1);
        for requests in [3, 10, 30, 100, 1_000] {
            for kinds in [1, 2, 10, 1_000] {
                let mut sum = 0.0;
                for _ in 0..100 {
                    let (mut own, mut siblings) = (Kinds::new(), Kinds::new());
                    for request in 0..3 * requests {
                        let to = if request % 3 == 0 {
                            &mut own
                        } else {
                            &mut siblings
                        };
                        to.add(random.u64(0..kinds));
                    }
                    sum += own.unlike(&siblings) / 100.0;
                }
                assert!(sum < 0.1, "{requests} requests of {kinds} kinds: {sum}");
            }
        }
    }
}
