//! Which of several upstreams gets a request, by shares: the old version and the new one of a service, say.
//!
//! Weighted rendezvous hashing (Schindelhauer, Schomaker 2005, <https://doi.org/10.1145/1073970.1073991>): a key runs a race
//! between the upstreams, in which each needs a time that follows from the key and its name, divided by its weight; the first
//! one home gets the key. The times are distributed so that each wins with the probability of its weight among all weights.
//!
//! So a key stays where it is while the weights do. An upstream whose share grows gains keys and loses none; one whose share
//! shrinks loses keys and gains none; between two others nothing moves. Neither the order in which they are named nor what else
//! there is has a say, so gateways agree, and so do routes that name the same upstreams.
//!
//! A key that is drawn at random makes this a draw by weight.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Upstreams and their weights. It holds 16 bytes for each, and a call costs a hash and a logarithm for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    sides: Vec<Side>,
}

#[derive(Debug, Clone, PartialEq)]
struct Side {
    seed: u64,
    weight: f64,
}

impl Split {
    /// A split between `sides`: the name of each and its weight, which is finite and not negative. Names differ, and some weight
    /// is above zero; without one, the first side gets everything.
    pub fn new(sides: &[(&str, f64)]) -> Self {
        let sides = sides.iter().map(|&(name, weight)| Side {
            seed: xxh3_64(name.as_bytes()),
            weight,
        });
        Self {
            sides: sides.collect(),
        }
    }

    /// The position of the side that gets `key`. One without weight gets none.
    pub fn side(&self, key: u64) -> usize {
        let key = key.to_le_bytes();
        let (mut first, mut best) = (0, f64::INFINITY);
        for (index, side) in self.sides.iter().enumerate() {
            if side.weight <= 0.0 {
                continue;
            }
            let time = exponential(xxh3_64_with_seed(&key, side.seed)) / side.weight;
            if time < best {
                (first, best) = (index, time);
            }
        }
        first
    }
}

/// A hash as a draw from the exponential distribution of rate 1: above zero, and finite.
fn exponential(hash: u64) -> f64 {
    // The middle of one of 2^53 equal parts between 0 and 1, never one of the ends.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: u64 = 20_000;

    fn sides(split: &Split) -> Vec<usize> {
        (0..KEYS)
            .map(|key| split.side(xxh3_64(&key.to_le_bytes())))
            .collect()
    }

    #[test]
    fn shares_are_kept() {
        for weights in [
            &[95.0, 5.0][..],
            &[0.95, 0.05],
            &[1.0, 1.0, 1.0],
            &[0.0, 1.0],
            &[70.0, 0.0, 20.0, 10.0],
            &[1e6, 1e-3],
        ] {
            let names = ["stable", "next", "third", "fourth"];
            let named: Vec<_> = names.into_iter().zip(weights.iter().copied()).collect();
            let found = sides(&Split::new(&named));
            let total: f64 = weights.iter().sum();
            for (side, weight) in weights.iter().enumerate() {
                let got = found.iter().filter(|&&it| it == side).count() as f64;
                let share = weight / total;
                // Five standard deviations of a binomial distribution, and none of a share that is zero.
                let tolerance = 5.0 * (KEYS as f64 * share * (1.0 - share)).sqrt();
                let expected = share * KEYS as f64;
                assert!((got - expected).abs() <= tolerance, "{weights:?}: {got}");
            }
        }
    }

    #[test]
    fn where_a_key_lives_is_the_same_in_every_version() {
        let split = Split::new(&[("stable", 95.0), ("next", 5.0)]);
        let of_next: Vec<u64> = (0..100).filter(|&key| split.side(key) == 1).collect();
        assert_eq!(of_next, [2, 22, 54, 63, 95]);
    }

    proptest! {
        #[test]
        fn a_share_that_grows_only_gains(
            weights in prop::collection::vec(0.0..100.0f64, 2..6),
            which in 0usize..6,
            more in 0.1..100.0f64,
            keys in prop::collection::vec(any::<u64>(), 200),
        ) {
            let which = which % weights.len();
            let name = |index: usize| ["a", "b", "c", "d", "e", "f"][index];
            let named = |weights: &[f64]| {
                let named: Vec<_> = weights.iter().enumerate().map(|(i, &w)| (name(i), w)).collect();
                Split::new(&named)
            };
            let before = named(&weights);
            let mut grown = weights.clone();
            grown[which] += more;
            let after = named(&grown);
            for key in keys {
                let (was, is) = (before.side(key), after.side(key));
                // Where all weights were zero, the first had everything.
                let had_weight = weights[was] > 0.0;
                prop_assert!(is == was || is == which || !had_weight);
                prop_assert!(grown[is] > 0.0);
            }
        }

        #[test]
        fn neither_order_nor_unit_matters(key in any::<u64>(), one in 0.1..9.0f64, other in 0.1..9.0f64) {
            let split = Split::new(&[("stable", one), ("next", other)]);
            let turned = Split::new(&[("next", other), ("stable", one)]);
            let doubled = Split::new(&[("stable", one * 2.0), ("next", other * 2.0)]);
            prop_assert_eq!(split.side(key), 1 - turned.side(key));
            prop_assert_eq!(split.side(key), doubled.side(key));
        }
    }
}
