//! The operator, and what nodes do of what he says.

use super::{Broken, DEADLINE_MS, Event, KEYS, Place, World};
use crate::frame::{Change, Membership, Moved, Standing};
use crate::layout::Layout;
use crate::layout::change::{self, Seen, Step, Want};
use crate::placement::Slot;
use crate::version::{Clock, Version};

use super::CALM_MS;

impl World {
    pub(super) fn look(&mut self) {
        let next = self.now_ms + self.rng.u64(20..200);
        self.at(next, Event::Look);
        self.check_maps();
        let Some((goal, is_back)) = self.goal.take() else {
            // What he said may have come late.
            if let Some(layout) = self.newest().filter(|layout| layout.next.is_some()) {
                self.goal = Some((layout, true));
            } else if self.now_ms < CALM_MS - 1_500 && self.rng.u8(..3) == 0 {
                self.want();
            }
            return;
        };
        // He changes his mind, and sees to it again that it is done when all is well.
        let is_back = match self.rng.u8(..60) {
            0 if self.now_ms < CALM_MS => true,
            _ => is_back,
        };
        let seen = self.seen_by_operator(&goal);
        let step = if is_back {
            change::step_back(&goal, &seen, &[])
        } else {
            change::step(&goal, &seen)
        };
        match step {
            Step::Done if is_back => self.told.aborted += 1,
            Step::Done => self.told.committed += 1,
            Step::Tell(told) => {
                for (name, change) in told {
                    let mut nodes = self.nodes.iter();
                    let place = nodes.position(|node| node.name == name);
                    let place = place.expect("it is known");
                    let at = self.now_ms + self.rng.u64(1..80);
                    if self.rng.u8(..20) > 0 {
                        self.at(at, Event::Told(place, change));
                    }
                }
                self.goal = Some((goal, is_back));
            }
            Step::Fail(_) => {
                // Either it was ended already, or it is to be taken back.
                self.goal = Some((goal, !is_back));
            }
            // What others go by is looked at the next time.
            Step::Overtaken(_) => self.goal = (!is_back).then_some((goal, true)),
            Step::Wait(_) | Step::Away(_) => self.goal = Some((goal, is_back)),
        }
    }

    /// What the members go by, as far as one of them knows more than the others.
    fn newest(&self) -> Option<Layout> {
        let members = (0..self.nodes.len()).filter(|place| self.is_member(*place));
        let layouts = members.filter_map(|place| self.nodes[place].layout.clone());
        layouts.max_by_key(|layout| (layout.highest, layout.next.is_some()))
    }

    /// Plans a change of the nodes that are there.
    fn want(&mut self) {
        let Some(layout) = self.newest() else {
            return;
        };
        let names: Vec<Box<str>> = layout
            .now
            .map
            .nodes()
            .iter()
            .map(|node| node.address.clone())
            .collect();
        let old = names[self.rng.usize(..names.len())].clone();
        let of_old = |node: &super::Node| node.name == old;
        let is_gone = self.nodes.iter().any(|node| of_old(node) && !node.is_up) && names.len() > 2;
        let kind = self.rng.u8(..3);
        let new = || -> Box<str> { format!("n{}", self.nodes.len()).into() };
        let want = match kind {
            0 if names.len() < 6 => Want::Join(new()),
            1 => Want::Leave {
                nodes: vec![old],
                is_gone,
            },
            _ => Want::Replace {
                old,
                new: new(),
                is_gone,
            },
        };
        let Ok(goal) = change::planned(&layout, &want, None) else {
            return;
        };
        if !matches!(want, Want::Leave { .. }) {
            self.add(None);
        }
        let gone = goal.next.as_ref().map(|next| next.gone.clone());
        for node in &mut self.nodes {
            node.is_lost |= gone.as_ref().is_some_and(|gone| gone.contains(&node.id));
        }
        self.goal = Some((goal, false));
    }

    fn seen_by_operator(&self, goal: &Layout) -> Vec<Seen> {
        let seen = change::concerned(goal).into_iter().map(|name| {
            let mut nodes = self.nodes.iter();
            let node = nodes.find(|node| node.name == name);
            let node = node.expect("it is known");
            let is_settled = node.under_way.keys().all(|id| *id > node.settles_at);
            let mut moved = node.moved.clone();
            moved.is_done |= moved.has_begun && self.broken == Broken::Moving;
            let standing = match &node.layout {
                None => Standing::Waits,
                Some(layout) if layout.node_at(&name).is_some() => Standing::Member,
                Some(_) => Standing::Left,
            };
            let membership = Membership {
                standing,
                is_settled: is_settled || self.broken == Broken::Settling,
                moved,
                layout: node.layout.clone().map(Box::new),
            };
            (name, node.is_up.then_some(membership))
        });
        seen.collect()
    }

    /// A node hears what it is to do.
    pub(super) fn hear(&mut self, place: Place, change: &Change) {
        let order = self.order;
        let node = &mut self.nodes[place];
        if !node.is_up {
            return;
        }
        match change::told(&node.name, node.layout.as_ref(), change) {
            Ok(Some(layout)) => {
                let own = layout.node_at(&node.name);
                if let Some(own) = own.filter(|_| node.id == 0) {
                    node.id = own.id;
                    node.clock = Clock::new(own.id, node.run, Version::default());
                }
                let before = node.layout.as_ref();
                let going = before.map_or(Vec::new(), |before| layout.going_from(before));
                let until = self.now_ms + DEADLINE_MS;
                node.going = going.into_iter().map(|id| (id, until)).collect();
                node.layout = Some(layout);
                node.moved = Moved::default();
                node.settles_at = order;
            }
            Ok(None) if matches!(change, Change::Move(_)) && !node.moved.has_begun => {
                node.moved.has_begun = true;
                node.cursor = 0;
                let run = node.run;
                let at = self.now_ms + 1;
                self.at(at, Event::Take(place, run));
            }
            _ => {}
        }
    }

    /// A node takes what the replicas of before have of its next key.
    pub(super) fn take_next(&mut self, place: Place, run: u16) {
        let node = &self.nodes[place];
        let is_moving = node.is_up && node.run == run && node.moved.has_begun;
        let Some(layout) = node.layout.clone().filter(|_| is_moving) else {
            return;
        };
        let Some(next) = &layout.next else {
            return;
        };
        let (id, key) = (node.id, node.cursor);
        if key == KEYS {
            self.nodes[place].moved.is_done = true;
            return;
        }
        let at = self.now_ms + self.rng.u64(1..40);
        self.at(at, Event::Take(place, run));
        let mut newest = None;
        for other in layout.now.map.nodes() {
            if next.gone.contains(&other.id) {
                continue;
            }
            let mut nodes = self.nodes.iter();
            let from = nodes.position(|node| node.name == other.address);
            let from = from.expect("it is known");
            let is_away = !self.nodes[from].is_up || self.is_cut(place, from);
            if is_away || !self.is_heard(place, from, layout.epoch()) {
                return;
            }
            newest = newest.max(self.nodes[from].cells.get(&key).copied());
        }
        if let Some(cell) = newest
            && layout.gains(id, Slot::of(&[key]))
        {
            self.take(place, key, cell);
        }
        self.nodes[place].cursor += 1;
    }
}
