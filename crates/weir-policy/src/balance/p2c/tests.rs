//! Small simulations with passed-in time: who gets how much when endpoints differ.

use super::super::tests::{names, start};
use super::super::{Balancer, Finished, Method, Pick};
use std::time::Duration;

/// How an endpoint behaves: the latency of its answers in milliseconds, or `None` when it fails at once.
type Behaviour = Option<u64>;

/// One request every millisecond from second `from_s` to second `to_s`. Returns the share of each endpoint in percent.
fn simulate<const N: usize>(
    balancer: &mut Balancer,
    endpoints: [Behaviour; N],
    from_s: u64,
    to_s: u64,
) -> [u64; N] {
    let mut random = fastrand::Rng::with_seed(7);
    let mut counts = [0; N];
    // (when it finishes, endpoint, outcome)
    let mut open: Vec<(u64, usize, Finished)> = Vec::new();
    for now_ms in from_s * 1_000..to_s * 1_000 {
        let now = start() + Duration::from_millis(now_ms);
        open.retain(|&(at_ms, endpoint, outcome)| {
            let is_open = at_ms > now_ms;
            if !is_open {
                balancer.on_finish(endpoint, outcome);
            }
            is_open
        });
        let endpoint = balancer
            .pick(
                &mut Pick {
                    now,
                    random: &mut random,
                    hash: 0,
                },
                |_| true,
            )
            .expect("all are available");
        balancer.on_start(endpoint);
        counts[endpoint] += 1;
        match endpoints[endpoint] {
            Some(ms) => {
                let latency = Duration::from_millis(ms);
                open.push((
                    now_ms + ms,
                    endpoint,
                    Finished::Answered {
                        now: now + latency,
                        latency,
                    },
                ));
            }
            None => balancer.on_finish(endpoint, Finished::Failed { now }),
        }
    }
    for (_, endpoint, outcome) in open {
        balancer.on_finish(endpoint, outcome);
    }
    counts.map(|count| count * 100 / ((to_s - from_s) * 1_000))
}

#[test]
fn shares_follow_latency_weight_and_failures() {
    const TEN: Behaviour = Some(10);
    // (case, weights, behaviours, least and greatest share of a, b and c in percent)
    let table = [
        (
            "alike",
            [1, 1, 1],
            [TEN, TEN, TEN],
            [(28, 38), (28, 38), (28, 38)],
        ),
        (
            "weights",
            [2, 1, 1],
            [TEN, TEN, TEN],
            [(40, 70), (15, 30), (15, 30)],
        ),
        (
            "a is slow",
            [1, 1, 1],
            [Some(500), TEN, TEN],
            [(0, 10), (42, 52), (42, 52)],
        ),
        (
            "a fails at once",
            [1, 1, 1],
            [None, TEN, TEN],
            [(0, 2), (45, 52), (45, 52)],
        ),
    ];
    for (case, weights, behaviours, expected) in table {
        let mut balancer = Balancer::new(Method::P2c, &names(&weights));
        let shares = simulate(&mut balancer, behaviours, 0, 60);
        let is_expected = shares
            .iter()
            .zip(&expected)
            .all(|(share, &(least, most))| (least..=most).contains(share));
        assert!(is_expected, "{case}: {shares:?} %, expected {expected:?}");
    }
}

#[test]
fn an_endpoint_that_was_slow_is_found_again() {
    let mut balancer = Balancer::new(Method::P2c, &names(&[1, 1]));
    let [slow, _] = simulate(&mut balancer, [Some(1_000), Some(10)], 0, 30);
    let [recovered, _] = simulate(&mut balancer, [Some(10), Some(10)], 31, 331);
    assert!(slow <= 5, "{slow} %");
    assert!((35..=65).contains(&recovered), "{recovered} %");
}

#[test]
fn of_two_endpoints_the_cheaper_always_wins() {
    // (weights, latency of a and b in ms, in flight to a and b, chosen); the latencies are those of the last answer.
    let table = [
        ([1, 1], [100, 200], [0, 0], 0),
        ([1, 1], [200, 100], [0, 0], 1),
        ([1, 1], [100, 250], [2, 0], 1),
        ([1, 1], [100, 350], [2, 0], 0),
        ([4, 1], [300, 100], [0, 0], 0),
        ([4, 1], [500, 100], [0, 0], 1),
        ([1000, 1], [100, 100], [500, 0], 0),
        ([1000, 1], [100, 100], [1500, 0], 1),
    ];
    for (weights, latencies_ms, in_flight, expected) in table {
        let mut balancer = Balancer::new(Method::P2c, &names(&weights));
        for endpoint in 0..2 {
            let latency = Duration::from_millis(latencies_ms[endpoint]);
            balancer.on_finish(
                endpoint,
                Finished::Answered {
                    now: start(),
                    latency,
                },
            );
            (0..in_flight[endpoint]).for_each(|_| balancer.on_start(endpoint));
        }
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..100 {
            let chosen = balancer.pick(
                &mut Pick {
                    now: start(),
                    random: &mut random,
                    hash: 0,
                },
                |_| true,
            );
            assert_eq!(
                chosen,
                Some(expected),
                "weights {weights:?}, {latencies_ms:?} ms, in flight {in_flight:?}"
            );
        }
    }
}
