use super::*;

fn placement(map: Map, replicas: usize) -> Placement {
    Placement { map, replicas }
}

/// Three nodes, of which one goes and two others come.
fn layouts() -> [Layout; 3] {
    let map = Map::new(&["a", "b", "c"]).expect("a map");
    let next = map.successor(&["b", "c", "d", "e"]).expect("a map");
    let stable = Layout::first(map, 3);
    let joint = stable.prepared(Next {
        placement: placement(next, 3),
        gone: vec![1],
    });
    let joint = joint.expect("it is newer");
    let after = joint.committed().expect("one is to follow");
    [stable, joint, after]
}

#[test]
fn layouts_follow_each_other_and_are_read_as_they_were_written() {
    let [stable, joint, after] = layouts();
    assert!(stable.committed().is_none());
    let aborted = joint.aborted();
    assert_eq!((&aborted.now, &aborted.next), (&stable.now, &None));
    let again = joint.next.clone().expect("one is to follow");
    assert!(joint.prepared(again.clone()).is_none());
    // What was given up may be known to somebody still.
    assert!(aborted.prepared(again).is_none());
    for layout in [stable, joint, after] {
        let bytes = layout.encode();
        assert_eq!(Layout::decode(bytes.clone()).as_ref(), Some(&layout));
        for length in [0, 1, 16, 17, 25, bytes.len() - 1] {
            assert!(Layout::decode(bytes.slice(..length)).is_none(), "{length}");
        }
    }
}

#[test]
fn only_nodes_with_a_common_map_work_together() {
    let [stable, joint, after] = layouts().map(|layout| layout.epoch());
    for (one, other, may) in [
        (stable, stable, true),
        (stable, joint, true),
        (joint, joint, true),
        (joint, after, true),
        (stable, after, false),
        (0, stable, false),
        (0, 0, false),
    ] {
        assert_eq!(have_common(one, other), may, "{one:x} {other:x}");
        assert_eq!(have_common(other, one), may, "{one:x} {other:x}");
    }
}

#[test]
fn who_has_no_common_map_is_behind_or_ahead() {
    let [stable, joint, after] = layouts().map(|layout| layout.epoch());
    let next = 3 << 32 | after;
    for (own, other, expected) in [
        (stable, stable, Maps::InCommon),
        (stable, joint, Maps::InCommon),
        (joint, after, Maps::InCommon),
        (stable, after, Maps::Newer),
        (after, stable, Maps::Older),
        (stable, next, Maps::Newer),
        (joint, 3, Maps::Newer),
        (3, joint, Maps::Older),
        // Each has one that the other one has not, and nobody knows which of them holds.
        (after, 3 << 32 | stable, Maps::Other),
    ] {
        assert_eq!(maps(own, other), expected, "{own:x} {other:x}");
    }
}

#[test]
fn who_is_lost_is_no_node_any_more() {
    let [_, joint, _] = layouts();
    let addresses: Vec<_> = joint.nodes().into_iter().map(|node| node.address).collect();
    assert_eq!(addresses, ["b", "c", "d", "e"].map(Box::from));
    assert!(joint.node(1).is_none() && joint.node_at("a").is_none());
    let has: Vec<u16> = (0..8).filter(|id| joint.has(*id)).collect();
    assert_eq!(
        has,
        joint.nodes().iter().map(|node| node.id).collect::<Vec<_>>()
    );
    assert_eq!(joint.node(4).map(|node| node.address), Some("d".into()));
}

/// Every change of one node, and of the number of replicas.
fn changes() -> Vec<Layout> {
    let mut changes = Vec::new();
    for (before, after) in [
        ("ab", "abc"),
        ("abc", "abcd"),
        ("abcde", "abcdef"),
        ("abcd", "abc"),
        ("abcd", "bcd"),
        ("abc", "bcd"),
        ("abc", "ab"),
        ("a", "ab"),
    ] {
        let names = |text: &'static str| -> Vec<&'static str> {
            (0..text.len()).map(|at| &text[at..=at]).collect()
        };
        let map = Map::new(&names(before)).expect("a map");
        let next = map.successor(&names(after)).expect("a map");
        for replicas in 1..=before.len().min(3) {
            for later in [replicas, after.len().min(3)] {
                if later > after.len() {
                    continue;
                }
                let layout = Layout::first(map.clone(), replicas).prepared(Next {
                    placement: placement(next.clone(), later),
                    gone: Vec::new(),
                });
                changes.push(layout.expect("it is newer"));
            }
        }
    }
    changes
}

/// Whichever nodes answer: those that are enough for an operation are enough by either map.
#[test]
fn what_is_acknowledged_in_between_has_a_quorum_by_both_maps() {
    for layout in changes() {
        let next = layout.next.as_ref().expect("one is to follow");
        let quorum = Quorum::majority(layout.now.replicas);
        let later = Quorum::majority(next.placement.replicas);
        for number in 0..40 {
            let key = format!("key{number}");
            let slot = Slot::of(key.as_bytes());
            let replicas = layout.replicas(key.as_bytes(), quorum);
            let nodes = replicas.nodes.len();
            for answered in 0..1_u32 << nodes {
                let is_in = |node: u16| {
                    let at = replicas.nodes.iter().position(|other| *other == node);
                    at.is_some_and(|at| answered >> at & 1 == 1)
                };
                let count = |placement: &Placement| {
                    let nodes = placement.replicas_of(slot).into_iter();
                    nodes.filter(|node| is_in(*node)).count()
                };
                let is_enough = replicas.are_enough(|at| answered >> at & 1 == 1);
                let of_both = (count(&layout.now), count(&next.placement));
                assert_eq!(
                    is_enough,
                    of_both.0 >= quorum.ack && of_both.1 >= later.ack,
                    "{key} {answered:b} {of_both:?}"
                );
            }
        }
    }
}

/// Whichever quorum of the replicas of before has a cell: with those that take it, it has a quorum by the next map; also where a
/// request says fewer replicas than usual.
#[test]
fn what_was_acknowledged_before_has_a_quorum_when_it_has_moved() {
    for layout in changes() {
        let next = layout.next.as_ref().expect("one is to follow");
        for from in 1..=layout.now.replicas.min(next.placement.replicas) {
            let quorum = Quorum::majority(from);
            let later = next.placement.quorum(quorum, &layout.now);
            for number in 0..40 {
                let key = format!("key{number}");
                let slot = Slot::of(key.as_bytes());
                let (old, new) = (
                    layout.now.replicas_of_key(key.as_bytes(), quorum.from),
                    next.placement.replicas_of_key(key.as_bytes(), later.from),
                );
                for has in 0..1_u32 << old.len() {
                    if (has.count_ones() as usize) < quorum.ack {
                        continue;
                    }
                    let had = |node: &u16| {
                        let at = old.iter().position(|other| other == node);
                        at.is_some_and(|at| has >> at & 1 == 1)
                    };
                    let kept = new.iter();
                    let kept = kept.filter(|node| had(node) || layout.gains(**node, slot));
                    assert!(
                        kept.count() >= later.ack,
                        "{key} {old:?} {new:?} {quorum:?} {later:?} {has:b}"
                    );
                }
            }
        }
    }
}
