//! Weighted random choice, as a method of its own and as the draw that `p2c` makes twice.
//!
//! It looks at nothing but weights: no load, no latency.

use super::Endpoint;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct WeightedDraw {
    /// For each endpoint, the sum of the weights up to and including its own. Strictly increasing.
    weight_ends: Vec<u64>,
}

/// How many draws may land on unacceptable endpoints before all endpoints are looked at. In health nearly every first
/// draw is accepted; this bounds the work when most endpoints are away.
const DRAWS_MAX: u32 = 4;

impl WeightedDraw {
    pub(super) fn new(endpoints: &[Endpoint]) -> Self {
        let mut end = 0;
        let weight_ends = endpoints.iter().map(|endpoint| {
            end += u64::from(endpoint.weight);
            end
        });
        Self {
            weight_ends: weight_ends.collect(),
        }
    }

    /// One of the acceptable endpoints, each with a chance in proportion to its weight.
    pub(super) fn pick(
        &self,
        random: &mut fastrand::Rng,
        endpoints: &[Endpoint],
        acceptable: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.pick_outside(0..0, random, endpoints, acceptable)
    }

    /// The same among all endpoints but `excluded`.
    pub(super) fn pick_other(
        &self,
        excluded: usize,
        random: &mut fastrand::Rng,
        endpoints: &[Endpoint],
        acceptable: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let end = self.weight_ends[excluded];
        let gap = end - u64::from(endpoints[excluded].weight)..end;
        let is_other = |index: usize| index != excluded && acceptable(index);
        self.pick_outside(gap, random, endpoints, &is_other)
    }

    /// Draws tickets outside `gap`, so that an excluded endpoint costs no draw however heavy it is.
    ///
    /// Drawing among all and rejecting the unacceptable ones gives the same chances as drawing among the acceptable
    /// ones, so it does not matter to the distribution at which draw this gives up and looks at all of them.
    fn pick_outside(
        &self,
        gap: Range<u64>,
        random: &mut fastrand::Rng,
        endpoints: &[Endpoint],
        acceptable: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let gap_weight = gap.end - gap.start;
        let tickets = self.weight_ends.last()? - gap_weight;
        if tickets == 0 {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            let ticket = random.u64(0..tickets);
            let ticket = if ticket < gap.start {
                ticket
            } else {
                ticket + gap_weight
            };
            let index = self.weight_ends.partition_point(|&end| end <= ticket);
            if acceptable(index) {
                return Some(index);
            }
        }
        pick_in_one_pass(random, endpoints, acceptable)
    }
}

/// Weighted reservoir sampling with one place (Chao 1982, "A general purpose unequal probability sampling plan"): each
/// acceptable endpoint replaces the choice so far with a chance of its weight over the weights seen. Asking about each
/// endpoint only once keeps it right even while the answers change.
fn pick_in_one_pass(
    random: &mut fastrand::Rng,
    endpoints: &[Endpoint],
    acceptable: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut weight_seen = 0;
    let mut chosen = None;
    for (index, endpoint) in endpoints.iter().enumerate() {
        if !acceptable(index) {
            continue;
        }
        weight_seen += u64::from(endpoint.weight);
        if random.u64(0..weight_seen) < u64::from(endpoint.weight) {
            chosen = Some(index);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::tests::{names, turns};
    use super::super::{Balancer, Method};
    use super::*;

    #[test]
    fn shares_follow_the_weights_of_what_is_available() {
        // (weights, available, expected share of each in percent). The last rows mostly end in the single pass.
        let table: [(&[u32], &str, [usize; 3]); 6] = [
            (&[1, 1, 1], "abc", [33, 33, 33]),
            (&[5, 3, 2], "abc", [50, 30, 20]),
            (&[5, 3, 2], "bc", [0, 60, 40]),
            (&[5, 3, 2], "c", [0, 0, 100]),
            (&[1000, 3, 1], "bc", [0, 75, 25]),
            (&[u32::MAX, 1, 1], "bc", [0, 50, 50]),
        ];
        for (weights, available, expected) in table {
            let mut balancer = Balancer::new(Method::Random, &names(weights));
            let chosen = turns(&mut balancer, 100_000, available);
            let shares = ['a', 'b', 'c'].map(|name| chosen.matches(name).count() / 1_000);
            let is_close = shares
                .iter()
                .zip(expected)
                .all(|(share, expected)| share.abs_diff(expected) <= 1);
            assert!(
                is_close,
                "weights {weights:?}, available {available}: {shares:?}"
            );
        }
    }

    #[test]
    fn the_other_of_two_draws_follows_the_remaining_weights() {
        let endpoints = [5, 3, 2].map(|weight| Endpoint {
            weight,
            in_flight: 0,
        });
        let draw = WeightedDraw::new(&endpoints);
        let mut random = fastrand::Rng::with_seed(7);
        for (excluded, expected) in [(0, [0, 60, 40]), (1, [71, 0, 28]), (2, [62, 37, 0])] {
            let mut counts = [0_usize; 3];
            for _ in 0..100_000 {
                let other = draw.pick_other(excluded, &mut random, &endpoints, &|_| true);
                counts[other.expect("two are left")] += 1;
            }
            let shares = counts.map(|count| count / 1_000);
            let is_close = shares
                .iter()
                .zip(expected)
                .all(|(share, expected)| share.abs_diff(expected) <= 1);
            assert!(is_close, "without {excluded}: {shares:?}");
        }
    }
}
