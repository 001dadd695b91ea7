//! What must hold: at the end of a run, and of what clients saw of it.

use std::collections::BTreeMap;

use super::World;

impl World {
    /// In the end, replicas are the same and nothing waits.
    pub(super) fn check_end(&mut self) {
        let first = self.nodes[0].cells.clone();
        for (index, node) in self.nodes.iter().enumerate() {
            if node.cells != first {
                let wrong = format!(
                    "node {} has {:?}, the first {first:?}",
                    index + 1,
                    node.cells
                );
                self.told.wrong.push(wrong);
            }
            if !node.hints.is_empty() || !node.under_way.is_empty() {
                let wrong = format!(
                    "node {} still has {} hints and {} operations",
                    index + 1,
                    node.hints.len(),
                    node.under_way.len()
                );
                self.told.wrong.push(wrong);
            }
        }
    }

    /// Of the writes over one version, one is answered as written.
    pub(super) fn check_conditions(&mut self) {
        let mut first = BTreeMap::new();
        for (id, seen) in &self.seen {
            let Some(over) = seen.over.filter(|_| seen.is_write) else {
                continue;
            };
            if seen.answered.is_none() {
                continue;
            }
            if let Some(other) = first.insert((seen.key, over), id) {
                self.told.wrong.push(format!(
                    "{other} and {id} are both written over {over:?} of key {}",
                    seen.key
                ));
            }
        }
        self.told.over += first.len() as u64;
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
}
