//! What must hold at the end of a run.

use super::{KEYS, Place, World};
use crate::layout::have_common;
use crate::placement::Slot;

impl World {
    /// Nodes that know each other have a map in common, whatever is under way: otherwise one would take the other for one with an old map.
    pub(super) fn check_maps(&mut self) {
        for one in 0..self.nodes.len() {
            for other in 0..one {
                let knows = |one: Place, other: Place| {
                    let layout = self.nodes[one].layout.as_ref();
                    let name = &self.nodes[other].name;
                    self.is_member(one) && layout.is_some_and(|it| it.node_at(name).is_some())
                };
                let epochs = [one, other].map(|place| self.epoch(place));
                let is_known = knows(one, other) && knows(other, one);
                if is_known && !have_common(epochs[0], epochs[1]) {
                    let wrong = format!("{one} and {other} have no common map: {epochs:x?}");
                    if !self.told.wrong.contains(&wrong) {
                        self.told.wrong.push(wrong);
                    }
                }
            }
        }
    }

    /// Each operation against all that were answered before it began.
    pub(super) fn check_order(&mut self) {
        for (later_id, later) in &self.seen {
            let Some((_, version)) = later.answered else {
                continue;
            };
            for (earlier_id, earlier) in &self.seen {
                let Some((answered_ms, known)) = earlier.answered else {
                    continue;
                };
                if earlier.key != later.key || answered_ms >= later.began_ms {
                    continue;
                }
                let is_sound = if later.is_write {
                    version > known
                } else {
                    version >= known
                };
                if !is_sound {
                    self.told.wrong.push(format!(
                        "{later_id} ({later:?}) goes behind {earlier_id} ({earlier:?})"
                    ));
                }
            }
        }
    }

    /// In the end, all nodes go by the same map, and all replicas by it are the same.
    pub(super) fn check_end(&mut self) {
        let members: Vec<Place> = (0..self.nodes.len())
            .filter(|place| self.is_member(*place))
            .collect();
        let layout = self.nodes[members[0]].layout.clone().expect("a member");
        for place in &members {
            let own = self.nodes[*place].layout.as_ref();
            if own.is_none_or(|own| own.now != layout.now || own.next.is_some()) {
                let wrong = format!("{place} and {} have different maps", members[0]);
                self.told.wrong.push(wrong);
            }
        }
        for key in 0..KEYS {
            let replicas = layout.now.replicas_of(Slot::of(&[key]));
            let cells: Vec<_> = replicas
                .iter()
                .filter_map(|id| self.place_of(members[0], *id))
                .map(|place| self.nodes[place].cells.get(&key).copied())
                .collect();
            if cells.windows(2).any(|pair| pair[0] != pair[1]) {
                let wrong = format!("the replicas of {key} have {cells:?}");
                self.told.wrong.push(wrong);
            }
        }
    }
}
