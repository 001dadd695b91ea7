//! How long a server holds requests, by how many it has at once: the evidence for whether it is the server that falls
//! behind, or whether more connections would have carried more. Pure.
//!
//! A server with room to spare answers as fast with all connections in use as with few of them. One that is at its limit
//! lets requests queue, so each takes longer the more there are.

use hdrhistogram::Histogram;

use crate::outcome::{histogram, merge, record};

/// With fewer requests on either side there is no evidence.
const REQUESTS_MIN: u64 = 4;
/// So many times longer is longer; anything less is chance.
const LONGER: f64 = 1.5;

/// Nanoseconds from the sending of a request to its end, for requests of an open loop, those of the warm-up included.
#[derive(Debug, Clone)]
pub struct Held {
    /// Sent while at most a quarter of the connections of a thread were in use.
    pub few_ns: Histogram<u64>,
    /// Sent as the last that all of them could carry.
    pub all_ns: Histogram<u64>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            few_ns: histogram(),
            all_ns: histogram(),
        }
    }
}

impl Held {
    /// Adds a request that was held for `held_ns` and was one of `in_flight` when it was sent, of `capacity` at most.
    pub(crate) fn note(&mut self, held_ns: u64, in_flight: usize, capacity: usize) {
        if in_flight * 4 <= capacity {
            record(&mut self.few_ns, held_ns);
        } else if in_flight >= capacity {
            record(&mut self.all_ns, held_ns);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        merge(&mut self.few_ns, &other.few_ns);
        merge(&mut self.all_ns, &other.all_ns);
    }

    pub(crate) fn clear(&mut self) {
        self.few_ns.reset();
        self.all_ns.reset();
    }

    /// The medians with few and with all connections in use, if requests are held longer by the second.
    pub fn grew(&self) -> Option<(u64, u64)> {
        let is_known = |histogram: &Histogram<u64>| histogram.len() >= REQUESTS_MIN;
        if !is_known(&self.few_ns) || !is_known(&self.all_ns) {
            return None;
        }
        let [few, all] = [&self.few_ns, &self.all_ns].map(|it| it.value_at_quantile(0.5));
        (all as f64 >= LONGER * few as f64).then_some((few, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that are sent to a server with `workers`, one more at a time until all connections are in use. Each takes 10 ms of a worker.
    fn held(capacity: usize, workers: usize) -> Held {
        let mut held = Held::default();
        let taking = |in_flight: usize| 10_000_000 * in_flight.div_ceil(workers) as u64;
        for in_flight in 1..=capacity {
            held.note(taking(in_flight), in_flight, capacity);
        }
        for _ in 0..100 {
            held.note(taking(capacity), capacity, capacity);
        }
        held
    }

    #[test]
    fn only_a_server_with_a_queue_holds_requests_longer() {
        for (capacity, workers, grew) in [
            (64, 1, Some((80_000_000, 640_000_000))),
            (64, 16, Some((10_000_000, 40_000_000))),
            (64, 64, None),
            (64, 1_000, None),
            // One connection, or a few, cannot tell.
            (1, 1, None),
            (8, 1, None),
            (16, 1, Some((20_000_000, 160_000_000))),
        ] {
            let found = held(capacity, workers).grew();
            let near = |(few, all): (u64, u64)| (few / 1_000_000, (all + 500_000) / 1_000_000);
            assert_eq!(found.map(near), grew.map(near), "{capacity} {workers}");
        }
    }
}
