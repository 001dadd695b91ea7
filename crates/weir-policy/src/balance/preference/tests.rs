//! Endpoints are called a, b, c and so on. What is known of them is a word each, with marks: `well/full/asked`.

use super::*;
use crate::balance::Method;
use crate::balance::tests::{names, start};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: &str = "abcdefghijkl";

const STANDINGS: [(&str, Standing); 6] = [
    ("unreachable", Standing::Unreachable),
    ("leaving", Standing::Leaving),
    ("down", Standing::Down),
    ("waiting", Standing::Waiting),
    ("stands-out", Standing::StandsOut),
    ("well", Standing::Well),
];

#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
struct Endpoint {
    standing: Standing,
    is_asked: bool,
    is_full: bool,
    is_doubted: bool,
    /// Its breaker is open.
    is_open: bool,
    is_home: bool,
}

/// A word of the table.
fn endpoint(word: &str) -> Endpoint {
    let mut marks = word.split('/');
    let name = marks.next();
    let known = STANDINGS.iter().find(|(known, _)| Some(*known) == name);
    let mut endpoint = Endpoint {
        standing: known.unwrap_or_else(|| panic!("{word:?}")).1,
        is_asked: false,
        is_full: false,
        is_doubted: false,
        is_open: false,
        is_home: false,
    };
    for mark in marks {
        match mark {
            "asked" => endpoint.is_asked = true,
            "full" => endpoint.is_full = true,
            "doubted" => endpoint.is_doubted = true,
            "open" => endpoint.is_open = true,
            "home" => endpoint.is_home = true,
            _ => panic!("{word:?}"),
        }
    }
    endpoint
}

#[derive(Debug, Clone)]
struct World {
    endpoints: Vec<Endpoint>,
    purpose: Purpose,
    is_room_fixed: bool,
    is_from_before: bool,
}

impl Known for World {
    fn standing(&self, endpoint: usize) -> Standing {
        self.endpoints[endpoint].standing
    }

    fn is_trusted(&self, endpoint: usize) -> bool {
        !self.endpoints[endpoint].is_doubted
    }

    fn has_room(&self, endpoint: usize) -> bool {
        !self.endpoints[endpoint].is_full
    }

    fn is_room_fixed(&self) -> bool {
        self.is_room_fixed
    }

    fn is_from_before(&self) -> bool {
        self.is_from_before
    }
}

impl World {
    fn of(endpoints: &str, purpose: Purpose) -> Self {
        Self {
            endpoints: endpoints.split_whitespace().map(endpoint).collect(),
            purpose,
            is_room_fixed: false,
            is_from_before: false,
        }
    }

    fn asked(&self) -> Vec<usize> {
        let all = self.endpoints.iter().enumerate();
        all.filter_map(|(index, endpoint)| endpoint.is_asked.then_some(index))
            .collect()
    }

    fn balancer(&self, method: Method) -> Balancer {
        Balancer::new(method, &names(&vec![1; self.endpoints.len()]))
    }

    /// Who is asked, one after the other, if each declines because its breaker is open; `!` behind one that is not well.
    fn order(&self) -> String {
        let (asked, mut order) = (self.asked(), String::new());
        let home = self.endpoints.iter().position(|it| it.is_home);
        let mut search = Search::new(self.purpose, &asked).at_home(home);
        let mut balancer = self.balancer(Method::RoundRobin);
        let mut random = fastrand::Rng::with_seed(7);
        let mut pick = Pick {
            now: start(),
            random: &mut random,
            hash: 0,
        };
        while let Ok(found) = search.next(&mut balancer, &mut pick, self) {
            order.push_str(&NAMES[found.endpoint..=found.endpoint]);
            if !found.is_well {
                order.push('!');
            }
            search.decline(found.endpoint, Declined::Open(Duration::ZERO));
        }
        order
    }

    /// How far back an endpoint stands among those that may be asked: the lowest goes first. `None` if it may not be.
    fn place(&self, endpoint: Endpoint) -> Option<(Standing, u8, bool)> {
        let (is_full, is_asked) = (endpoint.is_full, endpoint.is_asked);
        let is_for_copy = endpoint.standing == Standing::Well && !is_asked && !endpoint.is_doubted;
        if self.purpose == Purpose::Copy && !is_for_copy {
            return None;
        }
        match endpoint.standing {
            Standing::Well if is_full && self.is_room_fixed => None,
            Standing::Well => Some((Standing::Well, u8::from(is_full), is_asked)),
            Standing::Leaving => self.is_from_before.then_some((Standing::Leaving, 0, false)),
            Standing::Unreachable => None,
            standing => Some((standing, 0, is_asked)),
        }
    }

    /// Those that stand first, of those that have not declined.
    fn first(&self, declined: &[usize]) -> Vec<usize> {
        let place = |index: &usize| {
            let place = self.place(self.endpoints[*index]);
            place.map(|(standing, room, asked)| (std::cmp::Reverse(standing), room, asked))
        };
        let left: Vec<usize> = (0..self.endpoints.len())
            .filter(|index| !declined.contains(index) && place(index).is_some())
            .collect();
        let best = left.iter().map(place).min();
        left.into_iter()
            .filter(|index| Some(place(index)) == best)
            .collect()
    }

    /// Whether somebody well only has no room, and nobody may have more.
    fn waits_for_room(&self, declined: &[usize]) -> bool {
        let is_well_and_full = |(index, endpoint): (usize, &Endpoint)| {
            let is_well = endpoint.standing == Standing::Well && endpoint.is_full;
            let is_for_copy = !endpoint.is_asked && !endpoint.is_doubted;
            let is_meant = self.purpose == Purpose::Request || is_for_copy;
            is_well && is_meant && !declined.contains(&index)
        };
        self.is_room_fixed && self.endpoints.iter().enumerate().any(is_well_and_full)
    }
}

#[test]
fn the_order_of_preference() {
    let cases = [
        // who is well, and all others before nobody
        ("well well well", "abc"),
        (
            "unreachable leaving down waiting stands-out well",
            "fe!d!c!",
        ),
        ("down stands-out", "b!a!"),
        ("leaving unreachable", ""),
        // room, and not having seen the request
        ("well/full well", "ba"),
        ("well/asked well", "ba"),
        ("well/full well/asked", "ba"),
        ("well/full/asked well/full well/asked well", "dcba"),
        ("stands-out/asked stands-out waiting", "b!a!c!"),
        // room is not asked for where nothing is well, nor trust
        ("stands-out/full stands-out", "a!b!"),
        ("well/doubted well", "ab"),
    ];
    for (endpoints, expected) in cases {
        let world = World::of(endpoints, Purpose::Request);
        assert_eq!(world.order(), expected, "{endpoints}");
    }
}

#[test]
fn a_home_goes_first_while_it_is_well_and_has_room() {
    let cases = [
        ("well well well/home", "cab"),
        ("well well/doubted/home", "ba"),
        ("well well/full/home well", "acb"),
        ("well well/asked/home well", "acb"),
        ("well stands-out/home well", "acb!"),
        ("well leaving/home", "a"),
        ("unreachable/home well", "b"),
    ];
    for (endpoints, expected) in cases {
        let world = World::of(endpoints, Purpose::Request);
        assert_eq!(world.order(), expected, "{endpoints}");
    }
    let copy = World::of("well well well/home", Purpose::Copy);
    assert_eq!(copy.order(), "cab");
    let copy = World::of("well well well/home/asked", Purpose::Copy);
    assert_eq!(copy.order(), "ab");
}

#[test]
fn the_order_for_a_second_copy() {
    let cases = [
        ("well well", "ab"),
        ("well/asked well/doubted well", "c"),
        ("well/full well", "ba"),
        ("stands-out waiting down leaving", ""),
    ];
    for (endpoints, expected) in cases {
        let mut world = World::of(endpoints, Purpose::Copy);
        world.is_from_before = true;
        assert_eq!(world.order(), expected, "{endpoints}");
    }
}

#[test]
fn who_leaves_is_asked_by_requests_from_before() {
    let cases = [
        ("leaving", "a!"),
        ("leaving down", "b!a!"),
        ("leaving/asked leaving unreachable", "a!b!"),
        ("well leaving", "ab!"),
    ];
    for (endpoints, expected) in cases {
        let mut world = World::of(endpoints, Purpose::Request);
        world.is_from_before = true;
        assert_eq!(world.order(), expected, "{endpoints}");
    }
}

#[test]
fn where_room_is_fixed_a_request_waits_for_it() {
    let cases = [
        ("well well/full", "a"),
        ("well/full stands-out", ""),
        ("stands-out/full waiting", "a!b!"),
        ("well/asked well/full", "a"),
    ];
    for (endpoints, expected) in cases {
        let mut world = World::of(endpoints, Purpose::Request);
        world.is_room_fixed = true;
        assert_eq!(world.order(), expected, "{endpoints}");
    }
}

#[test]
fn why_nobody_is_left() {
    let seconds = Duration::from_secs;
    let cases: [(&[Declined], Nobody); 6] = [
        (&[], Nobody::Left),
        (&[Declined::Tried], Nobody::Left),
        (&[Declined::Full], Nobody::Full),
        (&[Declined::Open(seconds(3))], Nobody::Open(seconds(3))),
        (
            &[Declined::Open(seconds(3)), Declined::Open(seconds(2))],
            Nobody::Open(seconds(2)),
        ),
        (&[Declined::Full, Declined::Open(seconds(3))], Nobody::Full),
    ];
    for (declined, expected) in cases {
        let mut search = Search::new(Purpose::Request, &[]);
        for (endpoint, why) in declined.iter().enumerate() {
            search.decline(endpoint, *why);
        }
        assert_eq!(search.nobody(), expected, "{declined:?}");
    }
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let standing = prop_oneof![
        3 => Just(Standing::Well),
        4 => select(STANDINGS.map(|(_, standing)| standing).to_vec()),
    ];
    let marks = any::<(bool, bool, bool, bool)>();
    (standing, marks).prop_map(
        |(standing, (is_asked, is_full, is_doubted, is_open))| Endpoint {
            standing,
            is_asked,
            is_full,
            is_doubted,
            is_open,
            is_home: false,
        },
    )
}

fn any_world() -> impl Strategy<Value = World> {
    let purpose = select(vec![Purpose::Request, Purpose::Request, Purpose::Copy]);
    (
        vec(any_endpoint(), 0..=NAMES.len()),
        purpose,
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(endpoints, purpose, (is_room_fixed, is_from_before))| World {
                endpoints,
                purpose,
                is_room_fixed,
                is_from_before,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    /// Some decline, some fill up or are tried by others meanwhile: whoever is found next stands first by the rule, and nobody
    /// is found only when nobody may be asked.
    #[test]
    fn whoever_is_found_stands_first(
        mut world in any_world(),
        method in select(Method::NAMES.to_vec()),
        seed: u64,
    ) {
        let (asked, mut declined, mut open, mut is_full) = (world.asked(), Vec::new(), None, false);
        let mut search = Search::new(world.purpose, &asked);
        let mut balancer = world.balancer(method.1);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut happens = fastrand::Rng::with_seed(!seed);
        // Each round has one declined, or one worse off.
        for _ in 0..=2 * NAMES.len() {
            let mut pick = Pick { now: start(), random: &mut random, hash: seed };
            let first = world.first(&declined);
            let has_well = first.iter().any(|&index| world.endpoints[index].standing == Standing::Well);
            let waits = world.is_room_fixed && (is_full || world.waits_for_room(&declined)) && !has_well;
            let found = match search.next(&mut balancer, &mut pick, &world) {
                Ok(found) => found,
                Err(nobody) => {
                    prop_assert!(first.is_empty() || waits, "{:?} for {:?}", nobody, first);
                    let expected = match open {
                        _ if is_full || waits => Nobody::Full,
                        Some(after) => Nobody::Open(after),
                        None => Nobody::Left,
                    };
                    prop_assert_eq!(nobody, expected);
                    return Ok(());
                }
            };
            prop_assert!(!waits && first.contains(&found.endpoint), "{:?} of {:?}", found, first);
            let endpoint = &mut world.endpoints[found.endpoint];
            prop_assert_eq!(found.is_well, endpoint.standing == Standing::Well);
            let why = if endpoint.is_open {
                Declined::Open(Duration::from_millis(happens.u64(..100)))
            } else if endpoint.is_full || !found.is_well {
                Declined::Full
            } else {
                endpoint.standing = Standing::Waiting;
                Declined::Tried
            };
            search.decline(found.endpoint, why);
            match why {
                Declined::Tried => continue,
                Declined::Full => is_full = true,
                Declined::Open(after) => open = Some(open.map_or(after, |open: Duration| open.min(after))),
            }
            declined.push(found.endpoint);
        }
        prop_assert!(false, "it goes round for ever");
    }
}
