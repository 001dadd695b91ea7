use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;
use crate::frame::Moved;
use crate::placement::Map;

fn layout(names: &[&str], replicas: usize) -> Layout {
    Layout::first(Map::new(names).expect("a map"), replicas)
}

fn join(node: &str) -> Want {
    Want::Join(node.into())
}

fn leave(node: &str) -> Want {
    Want::Leave {
        nodes: vec![node.into()],
        is_gone: false,
    }
}

#[test]
fn a_plan_has_the_replicas_that_are_usual_or_said() {
    for (names, replicas, want, said, expected) in [
        (&["a"][..], 1, join("b"), None, 2),
        (&["a", "b"], 2, join("c"), None, 3),
        (&["a", "b", "c"], 3, join("d"), None, 3),
        (&["a", "b", "c"], 3, join("d"), Some(4), 4),
        (&["a", "b", "c"], 2, join("d"), None, 2),
        (&["a", "b", "c"], 3, leave("b"), None, 2),
        (&["a", "b", "c", "d"], 4, leave("b"), None, 3),
    ] {
        let planned = planned(&layout(names, replicas), &want, said).expect("a plan");
        let next = planned.next.expect("one is to follow").placement;
        assert_eq!(next.replicas, expected, "{names:?} {want:?}");
        assert_eq!(next.map.epoch(), 2);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let three = layout(&["a", "b", "c"], 3);
    for (layout, want, replicas, says) in [
        (&three, join("a"), None, "one of the nodes already"),
        (&three, leave("d"), None, "none of the nodes"),
        (&three, join("d"), Some(5), "there will be 4 nodes"),
        (&three, join("d"), Some(0), "there will be 4 nodes"),
        (
            &layout(&["a"], 1),
            leave("a"),
            None,
            "no node would be left",
        ),
        (
            &layout(&["a", "b", "c", "d", "e", "f", "g", "h", "i"], 3),
            join("j"),
            None,
            "at most 9",
        ),
        (
            &planned(&three, &join("d"), None).expect("a plan"),
            leave("a"),
            None,
            "another change is under way",
        ),
    ] {
        let refused = planned(layout, &want, replicas).expect_err("it cannot be");
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn a_node_in_the_place_of_another_one_gets_its_slots_and_nobody_else_any() {
    let before = layout(&["a", "m", "z"], 2);
    let want = Want::Replace {
        old: "a".into(),
        new: "n".into(),
        is_gone: true,
    };
    let planned = planned(&before, &want, None).expect("a plan");
    let shares: BTreeMap<_, _> = shares(&planned)
        .into_iter()
        .map(|share| (share.address.clone(), share))
        .collect();
    let (old, new) = (&shares["a"], &shares["n"]);
    assert_eq!(
        (old.replica_of.0, old.replica_of.1),
        (new.replica_of.1, new.replica_of.0)
    );
    assert_eq!(old.first_of.0, new.first_of.1);
    assert_eq!(new.gains, new.replica_of.1);
    assert_eq!((shares["m"].gains, shares["z"].gains), (0, 0));
    assert_eq!(concerned(&planned), ["n", "m", "z"].map(Box::from));
}

/// Nodes by what they were told, in the order of a change.
fn seen_of(goal: &Layout, told_of: &[(&str, Option<&Layout>)]) -> Vec<Seen> {
    let seen = concerned(goal).into_iter().map(|name| {
        let known = told_of.iter().find(|(node, _)| **node == *name);
        let layout = known.and_then(|(_, layout)| *layout).cloned();
        let standing = match layout {
            None => Standing::Waits,
            Some(_) => Standing::Member,
        };
        let membership = Membership {
            standing,
            is_settled: true,
            moved: Moved::default(),
            layout: layout.map(Box::new),
        };
        (name, Some(membership))
    });
    seen.collect()
}

fn aborts(node: &str, epoch: u64) -> Step {
    Step::Tell(vec![(node.into(), Change::Abort(epoch))])
}

fn overtaken_with(step: Step, says: &[&str]) {
    match step {
        Step::Overtaken(why) => {
            assert!(says.iter().all(|says| why.contains(says)), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_that_join_at_once_the_second_one_is_told_what_to_do() {
    let before = layout(&["a", "b", "c"], 3);
    let first = planned(&before, &join("x"), None).expect("a plan");
    let second = planned(&before, &join("y"), None).expect("a plan");
    let after = first.committed().expect("it ends");
    // While the first one is under way, and when it has ended.
    for (own, says) in [
        (&first, "another change, to epoch 2"),
        (&after, "a, b, c, x;"),
    ] {
        let seen = |y| {
            let all = ["a", "b", "c"].map(|node| (node, Some(own)));
            let all: Vec<_> = all.into_iter().chain([("y", Some(y))]).collect();
            seen_of(&second, &all)
        };
        let begun = seen(&second);
        overtaken_with(step(&second, &begun), &[says, "`weir kv abort --nodes y`"]);
        assert_eq!(step_back(&second, &begun, &[]), aborts("y", 2));
        // It is not done: the cluster goes by something else than before.
        let back = seen(&second.aborted());
        overtaken_with(step_back(&second, &back, &[]), &[says]);
    }
    // It tries again, with what it has been told.
    let again = planned(&after, &join("y"), None).expect("a plan");
    let nodes = ["a", "b", "c", "x"].map(|node| (node, Some(&after)));
    let nodes: Vec<_> = nodes.into_iter().chain([("y", Some(&second))]).collect();
    overtaken_with(
        step(&again, &seen_of(&again, &nodes)),
        &["empty its directory"],
    );
}

#[test]
fn two_changes_that_hold_up_each_other_are_taken_back_one_after_the_other() {
    let before = layout(&["a", "b", "c", "d"], 3);
    let first = planned(&before, &leave("a"), None).expect("a plan");
    let second = planned(&before, &leave("d"), None).expect("a plan");
    let (aborted, other) = (first.aborted(), second.aborted());
    let told = |b, a| {
        [
            ("a", Some(a)),
            ("b", Some(b)),
            ("c", Some(&before)),
            ("d", Some(&before)),
        ]
    };
    let seen = seen_of(&first, &told(&first, &second));
    overtaken_with(step(&first, &seen), &["a goes by another change"]);
    assert_eq!(step_back(&first, &seen, &[]), aborts("b", 2));
    let seen = seen_of(&first, &told(&aborted, &second));
    overtaken_with(
        step_back(&first, &seen, &[]),
        &["`weir kv abort --nodes a`"],
    );
    let seen = seen_of(&second, &told(&aborted, &second));
    assert_eq!(step_back(&second, &seen, &[]), aborts("a", 2));
    let seen = seen_of(&second, &told(&aborted, &other));
    assert_eq!(step_back(&second, &seen, &[]), Step::Done);
}

/// A node as a change sees it.
#[derive(Debug, Clone)]
struct Node {
    layout: Option<Layout>,
    moved: Moved,
    is_up: bool,
}

/// Nodes, and operators who want different things at the same time, with what they saw a while ago.
struct World {
    rng: Rng,
    nodes: BTreeMap<Box<str>, Node>,
    goal: Layout,
    /// What somebody is about to tell, as he decided when he looked.
    about_to: Vec<(Box<str>, Change)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let before = layout(&["a", "b", "c"], 3);
        let want = match rng.u8(..3) {
            0 => join("d"),
            1 => leave("a"),
            _ => Want::Replace {
                old: "b".into(),
                new: "d".into(),
                is_gone: false,
            },
        };
        let goal = planned(&before, &want, None).expect("a plan");
        let nodes = concerned(&goal).into_iter().map(|name| {
            let is_known = before.now.map.node(&name).is_some();
            let node = Node {
                layout: is_known.then(|| before.clone()),
                moved: Moved::default(),
                is_up: true,
            };
            (name, node)
        });
        let nodes = nodes.collect();
        Self {
            rng,
            nodes,
            goal,
            about_to: Vec::new(),
        }
    }

    fn seen(&self) -> Vec<Seen> {
        let seen = concerned(&self.goal).into_iter().map(|name| {
            let node = &self.nodes[&name];
            let standing = match &node.layout {
                None => Standing::Waits,
                Some(layout) if layout.node_at(&name).is_some() => Standing::Member,
                Some(_) => Standing::Left,
            };
            let membership = Membership {
                standing,
                is_settled: true,
                moved: node.moved.clone(),
                layout: node.layout.clone().map(Box::new),
            };
            (name, node.is_up.then_some(membership))
        });
        seen.collect()
    }

    fn tell(&mut self, name: &str, change: &Change) {
        let node = self.nodes.get_mut(name).expect("it is one of them");
        if !node.is_up {
            return;
        }
        match told(name, node.layout.as_ref(), change) {
            Ok(Some(layout)) => {
                node.layout = Some(layout);
                node.moved = Moved::default();
            }
            Ok(None) if matches!(change, Change::Move(_)) => node.moved.has_begun = true,
            _ => {}
        }
    }

    /// One of many things happens.
    fn happen(&mut self) {
        let names: Vec<Box<str>> = self.nodes.keys().cloned().collect();
        let name = names[self.rng.usize(..names.len())].clone();
        let kind = self.rng.u8(..32);
        let node = self.nodes.get_mut(&name).expect("it is one of them");
        match kind {
            0 => {
                node.is_up = !node.is_up;
                node.moved = Moved::default();
            }
            1..=9 => node.moved.is_done = node.moved.has_begun,
            10..=19 => {
                let step = match kind {
                    10 => step_back(&self.goal, &self.seen(), &[]),
                    _ => step(&self.goal, &self.seen()),
                };
                if let Step::Tell(told) = step {
                    self.about_to.extend(told);
                }
            }
            _ if !self.about_to.is_empty() => {
                let at = self.rng.usize(..self.about_to.len());
                let (name, change) = self.about_to.swap_remove(at);
                self.tell(&name, &change);
            }
            _ => {}
        }
    }

    /// No two nodes ever go by maps that have nothing in common, unless one of them is none any more.
    fn check(&self, seed: u64) {
        let members: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|(name, node)| {
                let layout = node.layout.as_ref()?;
                layout.node_at(name).map(|_| (name, layout.epoch()))
            })
            .collect();
        for (one, epoch) in &members {
            for (other, others) in &members {
                assert!(
                    crate::layout::have_common(*epoch, *others),
                    "seed {seed}: {one} has {epoch:x} and {other} {others:x}"
                );
            }
        }
    }
}

#[test]
fn operators_who_want_opposite_things_do_not_part_a_cluster() {
    let mut ended = [0; 2];
    for seed in 0..3000 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.happen();
            world.check(seed);
        }
        let committed = world.goal.committed();
        let is_ended = |of: &Layout| {
            let nodes = world.nodes.values();
            let layouts: Vec<_> = nodes.filter_map(|node| node.layout.as_ref()).collect();
            layouts
                .iter()
                .all(|layout| layout.now == of.now && layout.next.is_none())
        };
        ended[0] += usize::from(committed.is_some_and(|after| is_ended(&after)));
        ended[1] += usize::from(is_ended(&world.goal));
    }
    assert!(ended.iter().all(|count| *count > 20), "{ended:?}");
}

#[test]
fn a_change_comes_to_its_end_whoever_was_away_in_between() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        for _ in 0..40 {
            let names: Vec<Box<str>> = world.nodes.keys().cloned().collect();
            let name = &names[world.rng.usize(..names.len())];
            let is_up = world.rng.u8(..4) > 0;
            let node = world.nodes.get_mut(name).expect("it is one of them");
            node.is_up = is_up;
            node.moved.is_done = node.moved.has_begun;
            if let Step::Tell(told) = step(&world.goal, &world.seen()) {
                // It may be that only the first of them hears of it.
                let count = world.rng.usize(..=told.len());
                for (name, change) in told.into_iter().take(count) {
                    world.tell(&name, &change);
                }
            }
        }
        for node in world.nodes.values_mut() {
            node.is_up = true;
        }
        for _ in 0..40 {
            match step(&world.goal, &world.seen()) {
                Step::Tell(told) => {
                    for (name, change) in told {
                        world.tell(&name, &change);
                    }
                }
                Step::Wait(_) => {
                    for node in world.nodes.values_mut() {
                        node.moved.is_done = node.moved.has_begun;
                    }
                }
                Step::Done => break,
                Step::Away(why) | Step::Fail(why) | Step::Overtaken(why) => {
                    panic!("seed {seed}: {why}")
                }
            }
        }
        assert_eq!(step(&world.goal, &world.seen()), Step::Done, "seed {seed}");
    }
}
