use super::*;

#[test]
fn a_map_is_read_as_it_was_written_and_nothing_else_is_one() {
    let map = Map::new(&["one", "two", "three"]).expect("they make a cluster");
    let map = map.successor(&["two", "three", "four"]);
    let map = map.expect("they make a cluster");
    let bytes = map.encode();
    let read = Map::decode(bytes.clone()).expect("it is a map");
    assert!(read == map && read.fingerprint() == map.fingerprint());
    for length in [0, 7, 11, 20, bytes.len() - 1] {
        assert!(Map::decode(bytes.slice(..length)).is_none(), "{length}");
    }
    for (at, byte) in [
        (11, 0),
        (11, 4),
        (bytes.len() - 1, 3),
        (bytes.len() - 1, bytes[bytes.len() - 2]),
    ] {
        let mut broken = bytes.to_vec();
        broken[at] = byte;
        assert!(Map::decode(broken.into()).is_none(), "{at}");
    }
}

fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("10.0.0.{n}:8081")).collect()
}

fn map(count: usize) -> Map {
    let addresses = addresses(count);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    Map::new(&addresses).expect("they make a cluster")
}

/// The largest share of the slots among the first `replicas`, as a multiple of the mean.
fn peak(map: &Map, replicas: usize) -> f64 {
    let mut counts = vec![0_usize; map.nodes().len()];
    for slot in Slot::all() {
        for &node in &map.ranked(slot)[..replicas] {
            counts[usize::from(node)] += 1;
        }
    }
    let mean = (SLOTS * replicas) as f64 / counts.len() as f64;
    counts.into_iter().max().unwrap_or(0) as f64 / mean
}

/// Of all copies that `replicas` make, the share that a node has under `next` and not under `map`.
fn moved(map: &Map, next: &Map, replicas: usize) -> f64 {
    let ids = |map: &Map, slot| -> Vec<u16> {
        let ranked = map.ranked(slot).iter().take(replicas);
        ranked
            .map(|&node| map.nodes()[usize::from(node)].id)
            .collect()
    };
    let moved = Slot::all().map(|slot| {
        let before = ids(map, slot);
        let after = ids(next, slot);
        after.iter().filter(|id| !before.contains(id)).count()
    });
    moved.sum::<usize>() as f64 / (SLOTS * replicas) as f64
}

#[test]
fn every_rank_is_level() {
    for nodes in [1, 2, 3, 4, 5, 7, 9, 10, 33, 100] {
        let map = map(nodes);
        for replicas in [1, 2, 3, 5, 9] {
            if replicas <= nodes {
                let peak = peak(&map, replicas);
                assert!(peak <= 1.01, "{nodes} nodes, {replicas} replicas: {peak}");
            }
        }
    }
}

#[test]
fn a_ranking_has_each_node_once() {
    for nodes in [1, 3, 9, 100] {
        let map = map(nodes);
        for slot in Slot::all() {
            let mut ranked = map.ranked(slot).to_vec();
            ranked.sort_unstable();
            let all: Vec<u8> = (0..nodes as u8).collect();
            assert_eq!(ranked, all);
        }
    }
}

#[test]
fn whoever_makes_the_map_makes_the_same() {
    let there = Map::new(&["a:1", "b:1", "c:1"]).expect("a cluster");
    let here = Map::new(&["c:1", "a:1", "b:1"]).expect("a cluster");
    assert!(there == here && there.fingerprint() == here.fingerprint());
    let other = Map::new(&["a:1", "b:1"]).expect("a cluster");
    assert_ne!(other.fingerprint(), there.fingerprint());
    // A map is kept and sent to others: what is in it must not change from one version of weir to the next.
    let firsts = [0, 1, 5000, 16383].map(|number| {
        let slot = Slot::numbered(number).expect("there is one");
        there.ranked(slot).to_vec()
    });
    assert_eq!(
        firsts,
        [[1, 2, 0], [0, 2, 1], [1, 0, 2], [0, 1, 2]],
        "the figures of the first version"
    );
    assert_eq!(Slot::of(b"").number(), 2881);
    assert_eq!(Slot::of(b"key").number(), 12026);
}

#[test]
fn a_node_that_joins_takes_its_part_and_no_more_moves() {
    for nodes in [1, 2, 3, 5, 9, 30] {
        let before = map(nodes);
        let next = addresses(nodes + 1);
        let next: Vec<&str> = next.iter().map(String::as_str).collect();
        let after = before.successor(&next).expect("a cluster");
        assert_eq!(after.epoch(), 2);
        for replicas in [1, 2, 3] {
            if replicas > nodes {
                continue;
            }
            let part = 1.0 / (nodes + 1) as f64;
            let moved = moved(&before, &after, replicas);
            assert!(
                (part - 1e-3..part + 0.02).contains(&moved),
                "{nodes} nodes, {replicas} replicas: {moved}, its part is {part}"
            );
            assert!(peak(&after, replicas) <= 1.01);
        }
    }
}

#[test]
fn a_node_that_leaves_is_followed_by_the_others() {
    for nodes in [2, 3, 5, 9, 30] {
        let before = map(nodes);
        let next = addresses(nodes);
        let next: Vec<&str> = next.iter().skip(1).map(String::as_str).collect();
        let after = before.successor(&next).expect("a cluster");
        for replicas in [1, 2, 3] {
            if replicas >= nodes {
                continue;
            }
            let part = 1.0 / nodes as f64;
            let moved = moved(&before, &after, replicas);
            assert!(
                (part - 1e-3..part + 0.02).contains(&moved),
                "{nodes} nodes, {replicas} replicas: {moved}, its part is {part}"
            );
            assert!(peak(&after, replicas) <= 1.01);
        }
        // Numbers are never used again: an old write of the node that left must not look like one of its successor.
        let back = after.successor(&[next.as_slice(), &["new:1"]].concat());
        let back = back.expect("a cluster");
        let id = back.node("new:1").map(|node| node.id);
        assert_eq!(id, Some(nodes as u16 + 1));
    }
}

#[test]
fn maps_that_wander_stay_level_and_move_little() {
    let mut rng = fastrand::Rng::with_seed(17);
    let pool = addresses(12);
    let mut members: Vec<&str> = pool[..3].iter().map(String::as_str).collect();
    let mut map = Map::new(&members).expect("a cluster");
    for step in 0..60 {
        let is_join = members.len() < 3 || (members.len() < 12 && rng.bool());
        let before = members.len();
        if is_join {
            let absent: Vec<&String> = pool
                .iter()
                .filter(|address| !members.contains(&address.as_str()))
                .collect();
            members.push(rng.choice(absent).expect("somebody is absent"));
        } else {
            members.swap_remove(rng.usize(..members.len()));
        }
        let next = map.successor(&members).expect("a cluster");
        let part = 1.0 / before.max(members.len()) as f64;
        let moved = moved(&map, &next, 2);
        assert!(
            moved <= part + 0.03,
            "step {step}: {moved} moved, a part is {part}"
        );
        assert!(peak(&next, 1) <= 1.01 && peak(&next, 2) <= 1.01);
        map = next;
    }
}

#[test]
fn what_makes_no_cluster_is_told() {
    assert_eq!(Map::new(&[]).err(), Some(MapError::NoNodes));
    let twice = Map::new(&["a:1", "b:1", "a:1"]).err();
    assert_eq!(twice, Some(MapError::Twice("a:1".into())));
    let many = addresses(NODES_MAX + 1);
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(Map::new(&many).err(), Some(MapError::TooMany(129)));
}

/// Every rule that a configuration can name.
fn rules() -> impl Iterator<Item = Rule> {
    use scheme::Hash;
    Scheme::NAMES.iter().flat_map(|&(_, scheme)| {
        let scheme = scheme.with_virtual_nodes(30).unwrap_or(scheme);
        Hash::NAMES
            .iter()
            .map(move |&(_, hash)| Rule { scheme, hash })
    })
}

fn following(rule: Rule, nodes: usize) -> Map {
    let addresses = addresses(nodes);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    Map::following(rule, &addresses).expect("they make a cluster")
}

/// Who has a key is the same for all that have the map, also for those that were told it; fewer replicas are among more.
#[test]
fn every_rule_ranks_all_nodes_for_every_key() {
    for rule in rules() {
        let map = following(rule, 5);
        let told = Map::decode(map.encode()).expect("it is a map");
        assert!(told == map && told.rule() == rule, "{rule}");
        for key in (0..2_000_u32).map(u32::to_be_bytes) {
            let all = map.replicas(&key, usize::MAX);
            let mut sorted = all.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4], "{rule}");
            assert_eq!(usize::from(all[0]), map.first(&key), "{rule}");
            for count in 1..5 {
                assert_eq!(*map.replicas(&key, count), all[..count], "{rule}");
            }
            assert_eq!(*told.replicas(&key, 3), all[..3], "{rule}");
        }
    }
}

/// Nodes that place keys in different ways must find that out.
#[test]
fn every_rule_has_a_fingerprint_of_its_own() {
    let fingerprints = rules().map(|rule| following(rule, 3).fingerprint());
    let mut fingerprints: Vec<u64> = fingerprints.collect();
    let more = Scheme::RingTree(31);
    let more = Rule {
        scheme: more,
        ..Rule::default()
    };
    fingerprints.push(following(more, 3).fingerprint());
    assert_eq!(fingerprints[0], map(3).fingerprint(), "the usual one");
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 13);
}

#[test]
fn a_scheme_of_another_kind_has_no_successor() {
    for rule in rules() {
        let next = following(rule, 3).successor(&["10.0.0.0:8081"]);
        let is_usual = rule == Rule::default();
        assert_eq!(next.err(), (!is_usual).then_some(MapError::Fixed), "{rule}");
    }
    let bytes = following(rules().nth(2).expect("a ring"), 3).encode();
    for end in [[9, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 2]] {
        let mut broken = bytes.to_vec();
        let rule = broken.len() - 4;
        broken[rule..].copy_from_slice(&end);
        assert!(Map::decode(broken.into()).is_none(), "{end:?}");
    }
}
