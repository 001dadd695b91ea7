//! How nodes come and go: what is to follow, and what to tell which node next. Pure: who asks and tells is another matter.
//!
//! ```text
//! all know of it?  ── no ──► prepare, those that come first
//!   └─ yes ─► what began before is over everywhere? ── no ──► wait
//!        └─ yes ─► all have what they get? ── no ──► move, wait
//!             └─ yes ─► commit at one node, which decides ──► commit at all others, those that go last
//! ```
//!
//! Each step may be done again, by whoever looks at the nodes: a change that was left half-way goes on from where it is. What one node has
//! decided, all others follow: so two operators who want opposite things do not part a cluster.

mod back;
mod told;

pub use self::back::step_back;
pub use self::told::told;

use super::{Layout, Next, Placement};
use crate::frame::{Change, Membership, Standing};
use crate::placement::Slot;

/// Replicas where nobody says how many, if there are so many nodes.
const REPLICAS_USUAL: usize = 3;
/// Nodes of a cluster at most.
pub const NODES_MAX: usize = 9;

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// A node comes.
    Join(Box<str>),
    /// Nodes go.
    Leave {
        /// Which ones.
        nodes: Vec<Box<str>>,
        /// Whether they are lost for good, with their data.
        is_gone: bool,
    },
    /// A node comes in the place of another one.
    Replace {
        /// That one.
        old: Box<str>,
        /// The one that comes.
        new: Box<str>,
        /// Whether the old one is lost for good, with its data.
        is_gone: bool,
    },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Tell these nodes, and look again.
    Tell(Vec<(Box<str>, Change)>),
    /// Look again in a while; what is waited for.
    Wait(String),
    /// Nobody knows of it yet, and these nodes do not answer: it does not begin without them.
    Away(String),
    /// It is done.
    Done,
    /// It does not go on like this.
    Fail(String),
    /// Another change has come first, and neither can this one be ended, nor is there more of it to take back; what to do.
    Overtaken(String),
}

/// A node, and how it stands if it answers.
pub type Seen = (Box<str>, Option<Membership>);

/// What each node has before and after a change, in slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Where it is.
    pub address: Box<str>,
    /// Slots of which it is the first replica, before and after.
    pub first_of: (usize, usize),
    /// Slots of which it is a replica, before and after.
    pub replica_of: (usize, usize),
    /// Slots that it takes from others, or compares with them.
    pub gains: usize,
}

/// The layout in which what is wanted is to follow.
///
/// # Errors
/// It cannot be, and why.
pub fn planned(layout: &Layout, want: &Want, replicas: Option<usize>) -> Result<Layout, String> {
    let now = &layout.now;
    if let Some(next) = &layout.next {
        return Err(format!(
            "another change is under way, to epoch {}: `weir kv finish` goes on with it, and `weir kv abort` takes it back",
            next.placement.map.epoch()
        ));
    }
    // What was given up has had a number of its own, and maybe one for a node.
    let last = now.map.behind(layout.highest - now.map.epoch());
    let names = now.map.nodes().iter().map(|node| &*node.address);
    let known = |node: &str| match now.map.node(node) {
        Some(node) => Ok(node.id),
        None => Err(format!(
            "{node} is none of the nodes, which are {}",
            names.clone().collect::<Vec<_>>().join(", ")
        )),
    };
    let unknown = |node: &str| match now.map.node(node) {
        Some(_) => Err(format!("{node} is one of the nodes already")),
        None => Ok(()),
    };
    let (map, gone): (_, Vec<u16>) = match want {
        Want::Join(node) => {
            unknown(node)?;
            let names: Vec<&str> = names.clone().chain([&**node]).collect();
            if names.len() > NODES_MAX {
                return Err(format!("a cluster has at most {NODES_MAX} nodes"));
            }
            (last.successor(&names), Vec::new())
        }
        Want::Leave { nodes, is_gone } => {
            let ids: Result<Vec<u16>, String> = nodes.iter().map(|node| known(node)).collect();
            let mut gone = ids?;
            let stays = |name: &&str| nodes.iter().all(|node| &**node != *name);
            let names: Vec<&str> = names.clone().filter(stays).collect();
            if names.is_empty() {
                return Err("no node would be left, and they have all the data".to_owned());
            }
            gone.retain(|_| *is_gone);
            (last.successor(&names), gone)
        }
        Want::Replace { old, new, is_gone } => {
            let id = known(old)?;
            unknown(new)?;
            let gone = is_gone.then_some(id);
            (last.replaced(old, new), gone.into_iter().collect())
        }
    };
    let map = map.map_err(|error| error.to_string())?;
    let (before, after) = (now.map.nodes().len(), map.nodes().len());
    let replicas = replicas.unwrap_or(match now.replicas {
        usual if usual == before.min(REPLICAS_USUAL) => after.min(REPLICAS_USUAL),
        said => said.min(after),
    });
    if !(1..=after).contains(&replicas) {
        return Err(format!(
            "{replicas} replicas of a key, and there will be {after} nodes"
        ));
    }
    let next = Next {
        placement: Placement { map, replicas },
        gone,
    };
    let prepared = layout.prepared(next);
    prepared.ok_or_else(|| "the new map does not follow the one of now".to_owned())
}

/// What each node of a change has before and after it.
pub fn shares(layout: &Layout) -> Vec<Share> {
    let mut nodes = layout.now.map.nodes().to_vec();
    let next = layout.next.as_ref().map(|next| &next.placement);
    for node in next.iter().flat_map(|next| next.map.nodes()) {
        if !nodes.contains(node) {
            nodes.push(node.clone());
        }
    }
    let share = |placement: &Placement, node: u16| {
        let replicas = Slot::all().map(|slot| placement.replicas_of(slot));
        replicas.fold((0, 0), |(first, all), replicas| {
            let is_first = replicas.first() == Some(&node);
            let is_any = replicas.contains(&node);
            (first + usize::from(is_first), all + usize::from(is_any))
        })
    };
    let shares = nodes.iter().map(|node| {
        let before = share(&layout.now, node.id);
        let after = next.map_or(before, |next| share(next, node.id));
        let gains = Slot::all().filter(|slot| layout.gains(node.id, *slot));
        Share {
            address: node.address.clone(),
            first_of: (before.0, after.0),
            replica_of: (before.1, after.1),
            gains: gains.count(),
        }
    });
    shares.collect()
}

/// How far a node is with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Away,
    /// It does not know of it.
    Before,
    /// It has taken it back, or was told of another one since.
    GivenUp,
    Prepared,
    Committed,
    /// It goes by something else.
    Elsewhere,
}

impl At {
    fn of(goal: &Layout, seen: Option<&Membership>) -> Self {
        let Some(seen) = seen else {
            return Self::Away;
        };
        match &seen.layout {
            None if seen.standing == Standing::Waits => Self::Before,
            Some(layout) if **layout == *goal => Self::Prepared,
            Some(layout) if layout.next.is_none() && layout.now == goal.now => {
                if layout.highest < goal.highest {
                    Self::Before
                } else {
                    Self::GivenUp
                }
            }
            Some(layout) if goal.committed().as_ref() == Some(&**layout) => Self::Committed,
            _ => Self::Elsewhere,
        }
    }
}

/// The node that decides whether a change is done: one that stays.
fn decider(goal: &Layout) -> Option<Box<str>> {
    let next = goal.next.as_ref()?;
    let mut nodes = goal.now.map.nodes().iter();
    let stays = nodes.find(|node| next.placement.map.nodes().contains(node));
    let decider = stays.or(goal.now.map.nodes().first());
    decider.map(|node| node.address.clone())
}

/// Whom a change concerns, in the order in which they are told: those that come, those that stay, those that go.
pub fn concerned(goal: &Layout) -> Vec<Box<str>> {
    let mut nodes = goal.nodes();
    let next = goal.next.as_ref().map(|next| &next.placement.map);
    nodes.sort_by_key(|node| {
        let is_now = goal.now.map.nodes().contains(node);
        let is_next = next.is_some_and(|next| next.nodes().contains(node));
        (is_now, !is_next)
    });
    nodes.into_iter().map(|node| node.address).collect()
}

/// What to do next, to have all nodes go by the map that is to follow in `goal`.
pub fn step(goal: &Layout, seen: &[Seen]) -> Step {
    let Some(next) = &goal.next else {
        return Step::Done;
    };
    let epoch = next.placement.map.epoch();
    let at: Vec<(&Box<str>, At)> = seen
        .iter()
        .map(|(node, seen)| (node, At::of(goal, seen.as_ref())))
        .collect();
    let those = |wanted: At| -> Vec<&str> {
        let those = at.iter().filter(|(_, at)| *at == wanted);
        those.map(|(node, _)| &***node).collect()
    };
    let tell = |nodes: &[&str], change: &dyn Fn() -> Change| {
        let told = nodes.iter().map(|node| (Box::from(*node), change()));
        Step::Tell(told.collect())
    };
    let (away, before, prepared) = (those(At::Away), those(At::Before), those(At::Prepared));
    let committed = those(At::Committed);
    if let Some(why) = overtaken(goal, seen) {
        return Step::Overtaken(why);
    }
    if let [first, ..] = those(At::GivenUp)[..] {
        return Step::Fail(format!(
            "{first} has taken the change back: `weir kv abort` has all others follow"
        ));
    }
    match (&before[..], &prepared[..], &committed[..]) {
        ([], [], _) if away.is_empty() => Step::Done,
        ([], [], [..]) => Step::Wait(format!("{} does not answer", away.join(", "))),
        ([], prepared, [_, ..]) => tell(prepared, &|| Change::Commit(epoch)),
        ([first, ..], _, [_, ..]) => Step::Fail(format!(
            "{first} knows nothing of the change that others have ended"
        )),
        (_, [], []) if !away.is_empty() => Step::Away(away.join(", ")),
        ([first, ..], ..) => tell(&[first], &|| Change::Prepare(Box::new(goal.clone()))),
        _ if !away.is_empty() => Step::Wait(format!("{} does not answer", away.join(", "))),
        ([], prepared, []) => go_on(goal, seen, prepared),
    }
}

/// What to do about a node that goes by something else, if there is one.
fn overtaken(goal: &Layout, seen: &[Seen]) -> Option<String> {
    let at = |wanted: At| {
        let mut seen = seen.iter();
        seen.find(move |(_, seen)| At::of(goal, seen.as_ref()) == wanted)
    };
    let (node, membership) = at(At::Elsewhere)?;
    if goal.now.map.node(node).is_none() {
        return Some(format!(
            "{node} is left from a change that did not come about, or is of another cluster: stop it, empty its directory, start it with `join = true`, and let it join then"
        ));
    }
    let layout = membership.as_ref()?.layout.as_ref()?;
    let others = layout.now.map.nodes().iter();
    let others: Vec<&str> = others.map(|node| &*node.address).collect();
    let why = match &layout.next {
        Some(next) => format!(
            "{node} goes by another change, to epoch {}: `weir kv finish --nodes {node}` goes on with that one, and `weir kv abort --nodes {node}` takes it back",
            next.placement.map.epoch()
        ),
        None => format!(
            "{node} goes by the map of epoch {}, as another change came first: the nodes are {}; whatever else was to join has to be stopped and emptied before it does",
            layout.now.map.epoch(),
            others.join(", ")
        ),
    };
    let begun = at(At::Prepared);
    let begun = begun.map_or(String::new(), |(begun, _)| {
        format!("; `weir kv abort --nodes {begun}` takes back what has begun of this one")
    });
    Some(why + &begun)
}

/// What to do when all nodes know of the change, and none has ended it.
fn go_on(goal: &Layout, seen: &[Seen], prepared: &[&str]) -> Step {
    let epoch = goal.next.as_ref();
    let epoch = epoch.map_or(0, |next| next.placement.map.epoch());
    let members = || {
        let members = seen.iter();
        members.filter_map(|(node, seen)| Some((node, seen.as_ref()?)))
    };
    let unsettled = members().find(|(_, seen)| !seen.is_settled);
    if let Some((node, _)) = unsettled {
        return Step::Wait(format!("{node} ends what it began before"));
    }
    let unmoved: Vec<_> = members()
        .filter(|(_, seen)| !seen.moved.has_begun)
        .collect();
    if !unmoved.is_empty() {
        let told = unmoved
            .into_iter()
            .map(|(node, _)| (node.clone(), Change::Move(epoch)));
        return Step::Tell(told.collect());
    }
    let moving = members().find(|(_, seen)| !seen.moved.is_done);
    if let Some((node, seen)) = moving {
        let moved = &seen.moved;
        let trouble = match &*moved.trouble {
            "" => String::new(),
            trouble => format!("; {trouble}"),
        };
        return Step::Wait(format!(
            "{node} has looked at {} keys, and copied {} with {} MiB{trouble}",
            moved.looked_at,
            moved.copied,
            moved.bytes >> 20
        ));
    }
    let decider = decider(goal);
    let decider = prepared
        .iter()
        .find(|node| Some(**node) == decider.as_deref());
    let first = decider.or(prepared.first());
    let tell = first.map(|node| (Box::from(*node), Change::Commit(epoch)));
    Step::Tell(tell.into_iter().collect())
}

#[cfg(test)]
mod tests;
