//! Balancing: which endpoint of an upstream gets a request.
//!
//! A [`Balancer`] belongs to one worker and sees only the requests of that worker; nothing in it is shared. It does not
//! know why an endpoint is unavailable (refused, ejected, draining, full): the caller says so for each pick. It never
//! retries and never waits.
//!
//! [`Balancer::pick`], [`Balancer::on_start`] and [`Balancer::on_finish`] run for every request: they do not allocate.
//!
//! Each method is one file and one variant of the state:
//! - `round_robin`: smooth weighted round robin
//! - `least_conn`: the fewest requests in flight per weight
//! - `random`: by weight, and the weighted draw itself
//! - `p2c`: two draws, the one expected to answer sooner wins
//! - `hash`: consistent hashing with bounded loads
//!
//! Which endpoints are preferred to others, whatever the method, is [`preference`]'s to say, and which of several upstreams gets
//! a request is [`split`]'s.

mod hash;
mod least_conn;
mod p2c;
pub mod preference;
mod random;
mod round_robin;
pub mod split;
#[cfg(test)]
pub(crate) mod tests;

use std::time::{Duration, Instant};

pub use hash::{LOAD_FACTOR_PERCENT, hash_key};

/// How a balancer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// In turn, by weight, and evenly interleaved.
    #[default]
    RoundRobin,
    /// The endpoint with the fewest requests in flight per weight.
    LeastConn,
    /// At random, by weight.
    Random,
    /// The better of two random endpoints by recent latency and requests in flight ("power of two choices").
    P2c,
    /// The same endpoint for the same hash, as long as that endpoint is available and not overloaded.
    Hash,
}

impl Method {
    /// The name of each method in configuration and metrics.
    pub const NAMES: &[(&str, Method)] = &[
        ("round-robin", Method::RoundRobin),
        ("least-conn", Method::LeastConn),
        ("random", Method::Random),
        ("p2c", Method::P2c),
        ("hash", Method::Hash),
    ];
}

/// Chooses among the endpoints of one upstream and counts what is in flight to each.
///
/// Endpoints are named by their position in the list given to [`Balancer::new`]; any other number is a bug of the
/// caller and panics.
#[derive(Debug)]
pub struct Balancer {
    endpoints: Vec<Endpoint>,
    /// Always the sum of `in_flight` over `endpoints`.
    in_flight_total: u64,
    state: State,
}

/// What a balancer may use to choose for one request.
#[derive(Debug)]
pub struct Pick<'a> {
    /// The time of the pick. May be coarse, and may repeat; going backwards counts as standing still.
    pub now: Instant,
    /// Where random choices come from.
    pub random: &'a mut fastrand::Rng,
    /// [`hash_key`] of the chosen part of the request. Only [`Method::Hash`] reads it.
    pub hash: u64,
}

/// How a request to an endpoint ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// The endpoint answered, with whatever status.
    Answered {
        /// When the request finished.
        now: Instant,
        /// From the start of the request until the head of the response had arrived.
        latency: Duration,
    },
    /// The endpoint refused, broke off or timed out. A failure is often quick; it must not look like a fast answer.
    Failed {
        /// When the request failed.
        now: Instant,
    },
    /// The client left before the endpoint could do either: that says nothing about the endpoint.
    Abandoned,
}

#[derive(Debug, Clone, Copy)]
struct Endpoint {
    /// At least 1.
    weight: u32,
    in_flight: u32,
}

/// What each method remembers between picks.
#[derive(Debug)]
enum State {
    RoundRobin(round_robin::SmoothWeighted),
    LeastConn(least_conn::LeastConn),
    Random(random::WeightedDraw),
    P2c(p2c::P2c),
    Hash(hash::Ring),
}

impl Balancer {
    /// A balancer over `endpoints`, each a stable identity (for example its address) and a weight of at least 1
    /// (0 counts as 1). Only [`Method::Hash`] reads the identities, and expects them to differ from each other.
    pub fn new(method: Method, endpoints: &[(&str, u32)]) -> Self {
        let identities: Vec<&str> = endpoints.iter().map(|&(identity, _)| identity).collect();
        let endpoints: Vec<Endpoint> = endpoints
            .iter()
            .map(|&(_, weight)| Endpoint {
                weight: weight.max(1),
                in_flight: 0,
            })
            .collect();
        let state = match method {
            Method::RoundRobin => {
                State::RoundRobin(round_robin::SmoothWeighted::new(endpoints.len()))
            }
            Method::LeastConn => State::LeastConn(least_conn::LeastConn::new(endpoints.len())),
            Method::Random => State::Random(random::WeightedDraw::new(&endpoints)),
            Method::P2c => State::P2c(p2c::P2c::new(&endpoints)),
            Method::Hash => State::Hash(hash::Ring::new(&identities, &endpoints)),
        };
        Self {
            endpoints,
            in_flight_total: 0,
            state,
        }
    }

    /// A balancer over other `endpoints` that knows what this one knows of those that stay: how many requests are in
    /// flight to them, and how soon they answered. `places` has for each of `endpoints` its position here, if it has
    /// one. Turns begin anew.
    ///
    /// From here on whoever finishes a request tells the new balancer.
    #[must_use]
    pub fn succeed(
        &self,
        method: Method,
        endpoints: &[(&str, u32)],
        places: &[Option<usize>],
    ) -> Self {
        let mut next = Self::new(method, endpoints);
        for (index, &place) in places.iter().enumerate() {
            let Some(place) = place else { continue };
            let in_flight = self.endpoints[place].in_flight;
            next.endpoints[index].in_flight = in_flight;
            next.in_flight_total += u64::from(in_flight);
            if let (State::P2c(next), State::P2c(before)) = (&mut next.state, &self.state) {
                next.take_over(index, before, place);
            }
        }
        next
    }

    /// The endpoint for one request among those for which `available` says yes; `None` when none is.
    ///
    /// `available` may be asked about the same endpoint more than once. It may read what other threads write: an
    /// endpoint is never returned whose last answer was no.
    pub fn pick(
        &mut self,
        request: &mut Pick<'_>,
        available: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let endpoints = &self.endpoints;
        match &mut self.state {
            State::RoundRobin(turns) => turns.pick(endpoints, &available),
            State::LeastConn(least_conn) => least_conn.pick(endpoints, &available),
            State::Random(draw) => draw.pick(request.random, endpoints, &available),
            State::P2c(p2c) => p2c.pick(request, endpoints, &available),
            State::Hash(ring) => {
                ring.pick(request.hash, endpoints, self.in_flight_total, &available)
            }
        }
    }

    /// One more request is in flight to `endpoint`.
    pub fn on_start(&mut self, endpoint: usize) {
        let in_flight = &mut self.endpoints[endpoint].in_flight;
        *in_flight = in_flight
            .checked_add(1)
            .expect("fewer than 2^32 requests are in flight to one endpoint");
        self.in_flight_total += 1;
    }

    /// One request less is in flight to `endpoint`, and this is how it ended. Without a matching
    /// [`Balancer::on_start`] the count stays at zero.
    pub fn on_finish(&mut self, endpoint: usize, outcome: Finished) {
        let in_flight = &mut self.endpoints[endpoint].in_flight;
        if *in_flight > 0 {
            *in_flight -= 1;
            self.in_flight_total -= 1;
        }
        if let State::P2c(p2c) = &mut self.state {
            p2c.on_finish(endpoint, outcome);
        }
    }

    /// Requests in flight to `endpoint` from this balancer.
    pub fn in_flight(&self, endpoint: usize) -> u32 {
        self.endpoints[endpoint].in_flight
    }
}
