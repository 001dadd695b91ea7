//! Power of two choices over Peak EWMA: draw two endpoints, take the one that is expected to answer sooner.
//!
//! Two choices keep the longest queue exponentially shorter than one (Mitzenmacher 2001, "The Power of Two Choices in
//! Randomized Load Balancing"), and unlike "the best of all" do not send every worker to the same endpoint at once.
//! Latency is judged by Peak EWMA as in Finagle (<https://twitter.github.io/finagle/guide/Clients.html>) and Linkerd,
//! whose constants these are; see `p2c/peak_ewma.rs`. This file does not look at status codes.

mod peak_ewma;

use super::random::WeightedDraw;
use super::{Endpoint, Finished, Pick};
use peak_ewma::PeakEwma;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct P2c {
    /// Draws are weighted: were they uniform, an endpoint could get no more than about 2/n of the requests, however
    /// large its weight.
    draw: WeightedDraw,
    latencies: Vec<PeakEwma>,
}

impl P2c {
    pub(super) fn new(endpoints: &[Endpoint]) -> Self {
        Self {
            draw: WeightedDraw::new(endpoints),
            latencies: vec![PeakEwma::default(); endpoints.len()],
        }
    }

    pub(super) fn pick(
        &mut self,
        request: &mut Pick<'_>,
        endpoints: &[Endpoint],
        available: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let first = self.draw.pick(request.random, endpoints, available)?;
        let Some(second) = self
            .draw
            .pick_other(first, request.random, endpoints, available)
        else {
            return Some(first);
        };
        let second_is_better =
            self.cost(second, endpoints, request.now) < self.cost(first, endpoints, request.now);
        Some(if second_is_better { second } else { first })
    }

    pub(super) fn on_finish(&mut self, endpoint: usize, outcome: Finished) {
        match outcome {
            Finished::Answered { now, latency } => self.latencies[endpoint].on_answer(latency, now),
            Finished::Failed { now } => self.latencies[endpoint].on_failure(now),
            Finished::Abandoned => {}
        }
    }

    /// The endpoint `index` is the one that `before` called `place`.
    pub(super) fn take_over(&mut self, index: usize, before: &Self, place: usize) {
        self.latencies[index] = before.latencies[place];
    }

    /// How long one more request would take here, in nanoseconds per weight, if those in flight were served one
    /// after the other.
    fn cost(&mut self, index: usize, endpoints: &[Endpoint], now: Instant) -> f64 {
        let Endpoint { weight, in_flight } = endpoints[index];
        self.latencies[index].latency_ns(now) * (f64::from(in_flight) + 1.0) / f64::from(weight)
    }
}

#[cfg(test)]
mod tests;
