//! Which keys move when endpoints come and go, and what the load bound allows.

use super::super::tests::start;
use super::super::{Balancer, Finished, Method, Pick};
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

const KEYS: u64 = 20_000;

/// Endpoints `10.0.0.N:80` of these weights.
fn addresses(weights: &[u32]) -> Vec<(String, u32)> {
    weights
        .iter()
        .enumerate()
        .map(|(index, &weight)| (format!("10.0.0.{index}:80"), weight))
        .collect()
}

fn balancer(endpoints: &[(String, u32)]) -> Balancer {
    let endpoints: Vec<(&str, u32)> = endpoints
        .iter()
        .map(|(identity, weight)| (identity.as_str(), *weight))
        .collect();
    Balancer::new(Method::Hash, &endpoints)
}

fn pick(balancer: &mut Balancer, hash: u64, available: impl Fn(usize) -> bool) -> Option<usize> {
    let mut random = fastrand::Rng::with_seed(7);
    balancer.pick(
        &mut Pick {
            now: start(),
            random: &mut random,
            hash,
        },
        available,
    )
}

/// Where each key lives while nothing is in flight.
fn homes(endpoints: &[(String, u32)]) -> Vec<&str> {
    let mut balancer = balancer(endpoints);
    let keys = (0..KEYS).map(|key| hash_key(&key.to_le_bytes()));
    keys.map(|hash| {
        endpoints[pick(&mut balancer, hash, |_| true).unwrap()]
            .0
            .as_str()
    })
    .collect()
}

#[test]
fn hash_key_is_the_same_for_ever() {
    // Any implementation of XXH3 says so. A change here would move every key of every cluster.
    assert_eq!(hash_key(b""), 0x2d06_8005_38d3_94c2);
    assert_eq!(hash_key(b"a"), 0xe6c6_32b6_1e96_4e1f);
}

#[test]
fn a_key_stays_where_it_was_in_every_version() {
    let endpoints = addresses(&[1, 1, 1, 1, 2]);
    let homes = homes(&endpoints);
    let last_parts: Vec<&str> = homes[..12].iter().map(|home| &home[7..8]).collect();
    assert_eq!(last_parts.concat(), "022224214441");
}

#[test]
fn shares_follow_the_weights() {
    let endpoints = addresses(&[1, 1, 2, 4]);
    let homes = homes(&endpoints);
    for (identity, weight) in &endpoints {
        let share = homes.iter().filter(|home| *home == identity).count() as u64;
        let ideal = KEYS * u64::from(*weight) / 8;
        assert!(
            share.abs_diff(ideal) < ideal / 4,
            "{identity}: {share} of {ideal}"
        );
    }
}

#[test]
fn the_order_of_the_endpoints_does_not_matter() {
    let endpoints = addresses(&[1, 2, 3, 4]);
    let reversed: Vec<_> = endpoints.iter().cloned().rev().collect();
    assert_eq!(homes(&endpoints), homes(&reversed));
}

#[test]
fn an_endpoint_that_leaves_moves_only_its_own_keys() {
    let endpoints = addresses(&[1; 10]);
    let before = homes(&endpoints);
    for leaving in 0..endpoints.len() {
        let mut remaining = endpoints.clone();
        let (identity, _) = remaining.remove(leaving);
        let after = homes(&remaining);
        let moved: Vec<&str> = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .map(|(before, _)| *before)
            .collect();
        assert!(
            moved.iter().all(|home| *home == identity),
            "a key of another endpoint moved"
        );
        // A tenth of the keys, give or take the unevenness of the ring. Read the other way, this is one that joins.
        let share = moved.len() as u64;
        assert!(
            share.abs_diff(KEYS / 10) < KEYS / 30,
            "{identity}: {share} of {KEYS} keys moved"
        );
    }
}

#[test]
fn an_endpoint_that_is_unavailable_moves_only_its_own_keys() {
    let mut balancer = balancer(&addresses(&[1; 5]));
    for key in 0..KEYS {
        let hash = hash_key(&key.to_le_bytes());
        let home = pick(&mut balancer, hash, |_| true).unwrap();
        let without_2 = pick(&mut balancer, hash, |index| index != 2).unwrap();
        assert!(if home == 2 {
            without_2 != 2
        } else {
            without_2 == home
        });
    }
}

#[test]
fn a_ring_too_large_is_scaled_down_and_still_moves_few_keys() {
    let endpoints = addresses(&[1000, 1000, 1000, 1000, 1]);
    let without_last = &endpoints[..4];
    let moved = homes(&endpoints)
        .iter()
        .zip(homes(without_last))
        .filter(|(before, after)| *before != after)
        .count();
    assert!((moved as u64) < KEYS / 100, "{moved} of {KEYS} keys moved");

    let weights: Vec<Endpoint> = [u32::MAX, u32::MAX, 1]
        .into_iter()
        .map(|weight| Endpoint {
            weight,
            in_flight: 0,
        })
        .collect();
    let ring = Ring::new(&["a", "b", "c"], &weights);
    assert!(ring.points.len() as u64 <= POINTS_MAX + 3);
    assert!(
        ring.owners.contains(&2),
        "the lightest endpoint has a point"
    );
}

#[test]
fn a_key_belongs_to_the_first_point_at_or_after_it() {
    let endpoints = [Endpoint {
        weight: 1,
        in_flight: 0,
    }; 3];
    let ring = Ring::new(&["a", "b", "c"], &endpoints);
    let owner_of = |hash| ring.pick(hash, &endpoints, 0, &|_| true).unwrap();
    let count = ring.points.len();
    for (number, &point) in ring.points.iter().enumerate() {
        assert_eq!(owner_of(point), ring.owners[number] as usize);
        let next = ring.owners[(number + 1) % count];
        assert_eq!(owner_of(point + 1), next as usize);
    }
}

#[test]
fn one_hot_key_spills_over_along_the_ring() {
    // Four equal endpoints, named here in the order in which the key meets them. The bound while 0, 1, 2 ... are in
    // flight is ceil(1.25 * (total + 1) / 4).
    let expected_and_bounds = [
        ('a', 1),
        ('b', 1),
        ('c', 1),
        ('a', 2),
        ('b', 2),
        ('c', 2),
        ('a', 3),
        ('b', 3),
        ('c', 3),
        ('a', 4),
    ];
    let mut balancer = balancer(&addresses(&[1; 4]));
    let mut met: Vec<usize> = Vec::new();
    for (number, (expected, bound)) in expected_and_bounds.into_iter().enumerate() {
        assert_eq!(
            (5 * (number + 1)).div_ceil(16),
            bound,
            "the table states the bound"
        );
        let endpoint = pick(&mut balancer, 0, |_| true).unwrap();
        if !met.contains(&endpoint) {
            met.push(endpoint);
        }
        let name = ['a', 'b', 'c', 'd'][met.iter().position(|&seen| seen == endpoint).unwrap()];
        assert_eq!(name, expected, "request {number}");
        balancer.on_start(endpoint);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the keys: an endpoint that gets a request had fewer in flight than its bound, where the shares are
    /// those among the available endpoints.
    #[test]
    fn no_endpoint_exceeds_its_bound(
        weights in vec(1..=10_u32, 1..=8),
        requests in vec((0..3_u64, any::<u8>(), any::<prop::sample::Index>()), 1..300),
    ) {
        let mut balancer = balancer(&addresses(&weights));
        let mut open: Vec<usize> = Vec::new();
        for (key, available, finish) in requests {
            let is_available = |index: usize| (available | 1) & (1 << index) != 0;
            let weight_available: u32 =
                (0..weights.len()).filter(|&index| is_available(index)).map(|index| weights[index]).sum();
            let endpoint = pick(&mut balancer, hash_key(&key.to_le_bytes()), is_available).unwrap();
            let share = f64::from(weights[endpoint]) / f64::from(weight_available);
            let bound = (1.25 * (open.len() + 1) as f64 * share).ceil();
            prop_assert!(f64::from(balancer.in_flight(endpoint)) < bound);
            balancer.on_start(endpoint);
            open.push(endpoint);
            if available % 4 == 0 {
                let finished = open.swap_remove(finish.index(open.len()));
                balancer.on_finish(finished, Finished::Failed { now: start() });
            }
        }
    }
}
