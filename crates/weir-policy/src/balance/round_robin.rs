//! Smooth weighted round robin, as nginx does it since 2012 (its commit "Upstream: smooth weighted round-robin
//! balancing"; `ngx_http_upstream_get_peer` in `ngx_http_upstream_round_robin.c`, where `owed` is `current_weight`).
//!
//! Weights 5, 1, 1 give a a b a c a a: the shares are exact over each cycle, and a heavy endpoint is not hit five times
//! in a row. This file does not lower the weight of an endpoint that fails (nginx's "effective weight"): passing
//! over failing endpoints is the caller's business.

use super::Endpoint;

#[derive(Debug)]
pub(super) struct SmoothWeighted {
    /// What each endpoint is owed, in units of weight. The sum is always zero.
    owed: Vec<i64>,
}

impl SmoothWeighted {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            owed: vec![0; endpoints],
        }
    }

    /// Every candidate is owed its weight more; who is owed most (the first of equals) gets the turn and pays the sum.
    /// An endpoint that is not a candidate neither earns nor pays, so it does not come back to a burst.
    pub(super) fn pick(
        &mut self,
        endpoints: &[Endpoint],
        candidate: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut weight_total = 0;
        let mut best: Option<(usize, i64)> = None;
        for (index, (owed, endpoint)) in self.owed.iter_mut().zip(endpoints).enumerate() {
            if !candidate(index) {
                continue;
            }
            *owed += i64::from(endpoint.weight);
            weight_total += i64::from(endpoint.weight);
            if best.is_none_or(|(_, most)| *owed > most) {
                best = Some((index, *owed));
            }
        }
        let (index, _) = best?;
        self.owed[index] -= weight_total;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{names, turns};
    use super::super::{Balancer, Method};

    #[test]
    fn turns_are_exact_and_interleaved() {
        let table: [(&[u32], &str); 6] = [
            (&[5, 1, 1], "aabacaa aabacaa"),
            (&[1, 1, 1], "abc abc"),
            (&[2, 1], "aba aba"),
            (&[1, 2], "bab bab"),
            (&[3, 2, 1], "abacba abacba"),
            (&[7], "aaaaaaa"),
        ];
        for (weights, expected) in table {
            let expected = expected.replace(' ', "");
            let mut balancer = Balancer::new(Method::RoundRobin, &names(weights));
            assert_eq!(
                turns(&mut balancer, expected.len(), "abc"),
                expected,
                "weights {weights:?}"
            );
        }
    }

    #[test]
    fn an_endpoint_that_was_away_resumes_where_it_left() {
        let mut balancer = Balancer::new(Method::RoundRobin, &names(&[1, 1, 1]));
        assert_eq!(turns(&mut balancer, 1, "abc"), "a");
        assert_eq!(
            turns(&mut balancer, 6, "ac"),
            "ccacac",
            "b is away; a had its turn, then c and a alternate"
        );
        // b earned nothing while it was away: one turn is due to it, not seven.
        assert_eq!(turns(&mut balancer, 6, "abc"), "bacbac");
    }
}
