//! Least connections, as in nginx's `least_conn`: the endpoint with the fewest requests in flight per weight.
//!
//! Only the requests of this worker count; what other workers or gateways send is not known here. Latency is not looked
//! at: a slow endpoint is avoided because its requests stay in flight for longer.

use super::Endpoint;
use super::round_robin::SmoothWeighted;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct LeastConn {
    /// Whose turn it is among equally loaded endpoints. Without it, an idle upstream would send all to its first one.
    turns: SmoothWeighted,
}

impl LeastConn {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            turns: SmoothWeighted::new(endpoints),
        }
    }

    pub(super) fn pick(
        &mut self,
        endpoints: &[Endpoint],
        available: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut least: Option<(usize, Endpoint)> = None;
        let mut is_tied = false;
        for (index, &endpoint) in endpoints.iter().enumerate() {
            if !available(index) {
                continue;
            }
            match least.map_or(Ordering::Less, |(_, least)| compare_load(endpoint, least)) {
                Ordering::Less => (least, is_tied) = (Some((index, endpoint)), false),
                Ordering::Equal => is_tied = true,
                Ordering::Greater => {}
            }
        }
        let (index, least) = least?;
        if !is_tied {
            return Some(index);
        }
        let is_least =
            |other: usize| compare_load(endpoints[other], least).is_eq() && available(other);
        self.turns
            .pick(endpoints, &is_least)
            // Only when all of the least loaded became unavailable since: any other is better than none.
            .or_else(|| self.turns.pick(endpoints, available))
    }
}

/// Compares `in_flight / weight` by cross multiplication, which is exact.
fn compare_load(a: Endpoint, b: Endpoint) -> Ordering {
    let a_scaled = u64::from(a.in_flight) * u64::from(b.weight);
    let b_scaled = u64::from(b.in_flight) * u64::from(a.weight);
    a_scaled.cmp(&b_scaled)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{names, turns, turns_kept_open};
    use super::super::{Balancer, Method};

    #[test]
    fn the_least_loaded_per_weight_is_chosen() {
        // (weights, in flight, chosen)
        let table: [(&[u32], &[u32], &str); 7] = [
            (&[1, 1, 1], &[2, 1, 2], "b"),
            (&[1, 1, 1], &[0, 1, 1], "a"),
            (&[5, 1], &[4, 1], "a"),
            (&[5, 1], &[6, 1], "b"),
            (&[3, 1], &[1, 0], "b"),
            (&[u32::MAX, 1], &[9, 1], "a"),
            (&[5, 1], &[5, 1], "a"), // a tie, which falls to the heavier first
        ];
        for (weights, in_flight, expected) in table {
            let mut balancer = Balancer::new(Method::LeastConn, &names(weights));
            for (endpoint, &count) in in_flight.iter().enumerate() {
                (0..count).for_each(|_| balancer.on_start(endpoint));
            }
            assert_eq!(
                turns(&mut balancer, 1, "abc"),
                expected,
                "weights {weights:?}, in flight {in_flight:?}"
            );
        }
    }

    #[test]
    fn ties_are_broken_in_turn_by_weight() {
        let mut balancer = Balancer::new(Method::LeastConn, &names(&[5, 1, 1]));
        assert_eq!(
            turns(&mut balancer, 7, "abc"),
            "aabacaa",
            "an idle upstream is round robin"
        );
        let mut balancer = Balancer::new(Method::LeastConn, &names(&[1, 1, 1]));
        assert_eq!(
            turns(&mut balancer, 4, "bc"),
            "bcbc",
            "only what is available is tied"
        );
    }

    #[test]
    fn requests_that_stay_open_fill_by_weight() {
        let mut balancer = Balancer::new(Method::LeastConn, &names(&[3, 2, 1]));
        turns_kept_open(&mut balancer, 60);
        assert_eq!(
            [0, 1, 2].map(|endpoint| balancer.in_flight(endpoint)),
            [30, 20, 10]
        );
    }
}
