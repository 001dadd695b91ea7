//! What holds for every method, and the small language in which the tests of the methods are written: endpoints are
//! called a, b, c and so on, and a run of picks is a string.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::cell::RefCell;
use std::sync::LazyLock;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// The moment at which every test starts.
#[expect(
    clippy::disallowed_methods,
    reason = "std has no other source of a first Instant"
)]
pub(crate) fn start() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

/// Endpoints a, b, c ... of these weights.
pub(super) fn names(weights: &[u32]) -> Vec<(&'static str, u32)> {
    NAMES.into_iter().zip(weights.iter().copied()).collect()
}

/// Picks `count` times among the endpoints named in `available`, with nothing in flight between the picks.
pub(super) fn turns(balancer: &mut Balancer, count: usize, available: &str) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut request = Pick {
        now: start(),
        random: &mut random,
        hash: 0,
    };
    let picks =
        (0..count).map(|_| balancer.pick(&mut request, |index| available.contains(NAMES[index])));
    picks
        .map(|pick| NAMES[pick.expect("one is available")])
        .collect()
}

/// Picks `count` times and leaves every request in flight.
pub(super) fn turns_kept_open(balancer: &mut Balancer, count: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..count {
        let hash = hash_key(&number.to_le_bytes());
        let mut request = Pick {
            now: start(),
            random: &mut random,
            hash,
        };
        let endpoint = balancer
            .pick(&mut request, |_| true)
            .expect("all are available");
        balancer.on_start(endpoint);
    }
}

fn all_methods() -> impl Iterator<Item = Method> {
    Method::NAMES.iter().map(|&(_, method)| method)
}

#[test]
fn every_method_has_one_name() {
    let names: Vec<&str> = Method::NAMES.iter().map(|&(name, _)| name).collect();
    assert_eq!(
        names,
        ["round-robin", "least-conn", "random", "p2c", "hash"]
    );
    assert_eq!(
        all_methods().collect::<Vec<_>>(),
        [
            Method::RoundRobin,
            Method::LeastConn,
            Method::Random,
            Method::P2c,
            Method::Hash
        ]
    );
}

#[test]
fn nothing_is_chosen_from_nothing() {
    for method in all_methods() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut request = Pick {
            now: start(),
            random: &mut random,
            hash: u64::MAX,
        };
        assert_eq!(
            Balancer::new(method, &[]).pick(&mut request, |_| true),
            None,
            "{method:?}"
        );
        let mut one = Balancer::new(method, &[("a", 1)]);
        assert_eq!(one.pick(&mut request, |_| false), None, "{method:?}");
        assert_eq!(one.pick(&mut request, |_| true), Some(0), "{method:?}");
    }
}

#[test]
fn a_weight_of_zero_counts_as_one() {
    for method in all_methods() {
        let mut balancer = Balancer::new(method, &[("a", 0), ("b", 0)]);
        turns_kept_open(&mut balancer, 100);
        assert!(
            (0..2).all(|endpoint| balancer.in_flight(endpoint) > 20),
            "{method:?}: {balancer:?}"
        );
    }
}

/// Other workers may eject endpoints, or bring them back, in the middle of a pick.
#[test]
fn answers_that_change_during_a_pick_do_no_harm() {
    const STEADY: usize = 3;
    for method in all_methods() {
        let mut balancer = Balancer::new(method, &names(&[3, 1, 1, 1]));
        let mut random = fastrand::Rng::with_seed(7);
        let flips = RefCell::new(fastrand::Rng::with_seed(8));
        for number in 0..10_000 {
            let last_answers = RefCell::new([None; 4]);
            let is_available = |index: usize| {
                let last_answer = &mut last_answers.borrow_mut()[index];
                let answer = match number % 2 {
                    _ if index == STEADY => true,
                    0 => last_answer.is_none(), // ejected once it was asked about
                    _ => flips.borrow_mut().bool(),
                };
                *last_answer = Some(answer);
                answer
            };
            let mut request = Pick {
                now: start(),
                random: &mut random,
                hash: 0,
            };
            let picked = balancer.pick(&mut request, is_available);
            let endpoint = picked.expect("one is available throughout");
            let last_answer = last_answers.borrow()[endpoint];
            assert_eq!(last_answer, Some(true), "{method:?} picked {endpoint}");
            balancer.on_start(endpoint);
        }
    }
}

/// One thing that happens to a balancer.
#[derive(Debug, Clone)]
enum Event {
    /// A request comes while the endpoints of this bit set are available; it is started if one is picked.
    Request { hash: u64, available: u16 },
    /// A request to some endpoint finishes, whether or not one had started.
    Finish {
        endpoint: Index,
        latency_ms: Option<u32>,
    },
    /// Time passes.
    Wait { ms: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (any::<u64>(), prop_oneof![Just(u16::MAX), any::<u16>()])
            .prop_map(|(hash, available)| Event::Request { hash, available }),
        3 => (any::<Index>(), any::<Option<u32>>())
            .prop_map(|(endpoint, latency_ms)| Event::Finish { endpoint, latency_ms }),
        1 => any::<u32>().prop_map(|ms| Event::Wait { ms }),
    ]
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    vec(
        prop_oneof![8 => 1..=10_u32, 1 => any::<u32>()],
        1..=NAMES.len(),
    )
}

/// Endpoints b and c stay, in another order and with other weights; d is new.
#[test]
fn a_successor_knows_what_is_in_flight_to_those_that_stay() {
    for method in all_methods() {
        let mut before = Balancer::new(method, &names(&[1, 1, 1]));
        for (endpoint, count) in [(0, 9), (1, 3), (2, 5)] {
            (0..count).for_each(|_| before.on_start(endpoint));
        }
        let endpoints = [("c", 2), ("d", 1), ("b", 4)];
        let mut next = before.succeed(method, &endpoints, &[Some(2), None, Some(1)]);
        let in_flight = |balancer: &Balancer| [0, 1, 2].map(|index| balancer.in_flight(index));
        assert_eq!(in_flight(&next), [5, 0, 3], "{method:?}");
        assert_eq!(next.in_flight_total, 8, "{method:?}");
        for (endpoint, count) in [(0, 5), (2, 3)] {
            (0..count).for_each(|_| next.on_finish(endpoint, Finished::Abandoned));
        }
        assert_eq!((in_flight(&next), next.in_flight_total), ([0, 0, 0], 0));
    }
}

#[test]
fn a_successor_knows_who_was_slow() {
    let (mut before, now) = (Balancer::new(Method::P2c, &names(&[1, 1])), start());
    for (endpoint, millis) in [(0, 900), (1, 1)] {
        before.on_start(endpoint);
        let latency = Duration::from_millis(millis);
        before.on_finish(endpoint, Finished::Answered { now, latency });
    }
    let endpoints = [("b", 1), ("a", 1)];
    let mut next = before.succeed(Method::P2c, &endpoints, &[Some(1), Some(0)]);
    assert_eq!(
        turns(&mut next, 8, "ab"),
        "aaaaaaaa",
        "b is now in the place of a"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_promises_of_every_method(
        method in select(all_methods().collect::<Vec<_>>()),
        weights in weights(),
        seed: u64,
        events in vec(event(), 0..200),
    ) {
        let mut balancer = Balancer::new(method, &names(&weights));
        let mut random = fastrand::Rng::with_seed(seed);
        let mut now = start();
        let mut in_flight = vec![0_u32; weights.len()];
        for event in events {
            match event {
                Event::Request { hash, available } => {
                    let is_available = |index: usize| available & (1 << index) != 0;
                    let mut request = Pick { now, random: &mut random, hash };
                    let Some(endpoint) = balancer.pick(&mut request, is_available) else {
                        prop_assert!(!(0..weights.len()).any(is_available), "one was available");
                        continue;
                    };
                    prop_assert!(is_available(endpoint), "{} is not available", endpoint);
                    balancer.on_start(endpoint);
                    in_flight[endpoint] += 1;
                }
                Event::Finish { endpoint, latency_ms } => {
                    let endpoint = endpoint.index(weights.len());
                    let answered = |ms: u32| Finished::Answered { now, latency: Duration::from_millis(ms.into()) };
                    balancer.on_finish(endpoint, latency_ms.map_or(Finished::Failed { now }, answered));
                    in_flight[endpoint] = in_flight[endpoint].saturating_sub(1);
                }
                Event::Wait { ms } => now += Duration::from_millis(ms.into()),
            }
            for (endpoint, &count) in in_flight.iter().enumerate() {
                prop_assert_eq!(balancer.in_flight(endpoint), count);
            }
            prop_assert_eq!(balancer.in_flight_total, in_flight.iter().map(|&count| u64::from(count)).sum::<u64>());
        }
    }

    #[test]
    fn a_full_cycle_of_round_robin_gives_each_exactly_its_weight(weights in vec(1..=50_u32, 1..=NAMES.len())) {
        let mut balancer = Balancer::new(Method::RoundRobin, &names(&weights));
        let cycle = weights.iter().sum::<u32>() as usize;
        let all = NAMES.concat();
        let first_cycle = turns(&mut balancer, cycle, &all);
        for (name, &weight) in NAMES.iter().zip(&weights) {
            prop_assert_eq!(first_cycle.matches(name).count(), weight as usize);
        }
        prop_assert_eq!(turns(&mut balancer, cycle, &all), first_cycle, "the second cycle is like the first");
    }

    #[test]
    fn least_conn_is_never_beaten(weights in weights(), in_flight in vec(0..20_u32, NAMES.len())) {
        let mut balancer = Balancer::new(Method::LeastConn, &names(&weights));
        for (endpoint, &count) in in_flight.iter().enumerate().take(weights.len()) {
            (0..count).for_each(|_| balancer.on_start(endpoint));
        }
        let mut random = fastrand::Rng::with_seed(7);
        let mut request = Pick { now: start(), random: &mut random, hash: 0 };
        let chosen = balancer.pick(&mut request, |_| true).expect("all are available");
        for other in 0..weights.len() {
            let load_chosen = u64::from(in_flight[chosen]) * u64::from(weights[other]);
            let load_other = u64::from(in_flight[other]) * u64::from(weights[chosen]);
            prop_assert!(load_chosen <= load_other, "{} has less per weight than {}", other, chosen);
        }
    }
}
