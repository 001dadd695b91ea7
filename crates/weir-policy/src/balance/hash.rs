//! Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016, <https://arxiv.org/abs/1608.01350>).
//!
//! Endpoints own points on a ring of hashes; a request goes to the owner of the first point at or after its own hash,
//! or, when that one is unavailable or has more than its share in flight, to the next along the ring. So a key stays
//! with its endpoint, an endpoint that comes or goes moves only its own share of the keys, and a popular key cannot
//! overload one endpoint. This file does not decide which part of a request is hashed.

use super::Endpoint;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// An endpoint takes no more than this many percent of its fair share of the requests in flight. The paper's
/// `c = 1 + ε` with ε = 1/4: lower spreads better, higher keeps more keys at home.
pub const LOAD_FACTOR_PERCENT: u32 = 125;

/// Points on the ring per unit of weight, as in libketama and nginx. With 160, shares differ from the ideal by about
/// 8 % (1/√160).
const POINTS_PER_WEIGHT: u64 = 160;

/// The most points of one ring (12 bytes each), save that each endpoint has at least one. Larger weights are scaled
/// down together; then a change of the endpoints moves somewhat more keys than the ideal.
const POINTS_MAX: u64 = 1 << 16;

/// The hash of a part of a request, for [`Pick::hash`](super::Pick::hash).
///
/// It is the 64-bit XXH3 with seed 0, whose output is fixed by its specification
/// (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>): gateways of different versions agree on where a
/// key lives. It does not withstand an attacker who chooses keys to collide; the load bound limits what that gains.
pub fn hash_key(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

#[derive(Debug)]
pub(super) struct Ring {
    /// The hashes of all points, ascending.
    points: Vec<u64>,
    /// The endpoint that owns each point. Apart from `points`, so that a search touches fewer cache lines.
    owners: Vec<u32>,
    weight_total: u64,
}

impl Ring {
    pub(super) fn new(identities: &[&str], endpoints: &[Endpoint]) -> Self {
        let weight_total: u64 = endpoints
            .iter()
            .map(|endpoint| u64::from(endpoint.weight))
            .sum();
        let mut owned_points: Vec<(u64, u32)> = Vec::new();
        for (owner, (identity, endpoint)) in (0..).zip(identities.iter().zip(endpoints)) {
            // A point depends on the identity and its own number alone, so others may come and go around it.
            let points = (0..point_count(endpoint.weight, weight_total))
                .map(|number| (xxh3_64_with_seed(identity.as_bytes(), number), owner));
            owned_points.extend(points);
        }
        owned_points.sort_unstable();
        let (points, owners) = owned_points.into_iter().unzip();
        Self {
            points,
            owners,
            weight_total,
        }
    }

    pub(super) fn pick(
        &self,
        hash: u64,
        endpoints: &[Endpoint],
        in_flight_total: u64,
        available: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let at_or_after = self.points.partition_point(|&point| point < hash);
        let start = if at_or_after == self.points.len() {
            0
        } else {
            at_or_after
        };
        let home = *self.owners.get(start)? as usize;
        // The bound over all endpoints is never wider than the bound over the available ones: no need to count them.
        if available(home) && is_below_bound(endpoints[home], in_flight_total, self.weight_total) {
            return Some(home);
        }
        self.walk(start, endpoints, in_flight_total, available)
    }

    /// The first endpoint from `start` along the ring that is available and below its bound.
    ///
    /// The shares are those among the available endpoints, since these carry all of the load. There always is one below
    /// its bound: the bounds add up to more than what is in flight.
    fn walk(
        &self,
        start: usize,
        endpoints: &[Endpoint],
        in_flight_total: u64,
        available: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let weight_available: u64 = (0..endpoints.len())
            .filter(|&index| available(index))
            .map(|index| u64::from(endpoints[index].weight))
            .sum();
        if weight_available == 0 {
            return None;
        }
        let (before, after) = self.owners.split_at(start);
        let mut owners = after.iter().chain(before).map(|&owner| owner as usize);
        // An endpoint seen before is full or away still, so that the next distinct endpoint needs no bookkeeping.
        owners
            .clone()
            .find(|&owner| {
                is_below_bound(endpoints[owner], in_flight_total, weight_available)
                    && available(owner)
            })
            // Only when others changed what is available during this walk: better above the bound than nowhere.
            .or_else(|| owners.find(|&owner| available(owner)))
    }
}

/// How many points an endpoint of this weight owns on a ring of that total weight.
fn point_count(weight: u32, weight_total: u64) -> u64 {
    let wanted = u64::from(weight) * POINTS_PER_WEIGHT;
    let wanted_total = weight_total.saturating_mul(POINTS_PER_WEIGHT);
    if wanted_total <= POINTS_MAX {
        return wanted;
    }
    // The quotient is below POINTS_MAX, for no weight exceeds the total.
    let scaled = u128::from(weight) * u128::from(POINTS_MAX) / u128::from(weight_total);
    (scaled as u64).max(1)
}

/// Whether one more request keeps the endpoint within `ceil(c * (total + 1) * weight / weight_total)` in flight.
/// Multiplied out, which is exact and needs no division; 128 bits hold any counts.
fn is_below_bound(endpoint: Endpoint, in_flight_total: u64, weight_total: u64) -> bool {
    let in_flight = u128::from(endpoint.in_flight) * u128::from(weight_total) * 100;
    let bound = u128::from(in_flight_total + 1)
        * u128::from(endpoint.weight)
        * u128::from(LOAD_FACTOR_PERCENT);
    in_flight < bound
}

#[cfg(test)]
mod tests;
