//! The other nodes, as they come and go: whether they answer, and what is kept for them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::Calls;
use super::hints::{Counts, Hints, Keeper};
use super::reach::Reach;
use crate::placement::Node;

/// Another node.
pub(super) struct Neighbour {
    pub(super) node: Node,
    reach: Arc<Reach>,
    hints: Hints,
    /// Where they are kept.
    path: PathBuf,
}

/// All of them, by their numbers.
pub(super) struct Neighbours {
    all: RwLock<HashMap<u16, Neighbour>>,
    /// Where hints are kept, and how long.
    hints: PathBuf,
    hints_age: Duration,
}

/// A node that has come, as far as the hub has to know it.
pub(super) struct Come {
    pub(super) node: Node,
    pub(super) reach: Arc<Reach>,
    pub(super) keeper: Keeper,
}

impl Neighbour {
    /// It is none any more, and what was kept for it is of no use to anybody. Waits for what is being sent to it.
    pub(super) fn forget(self) {
        drop(self.hints);
        // What stays takes room, and no more: a node of this name that comes later has newer cells, or takes them.
        let _ = std::fs::remove_dir_all(self.path);
    }
}

impl Neighbours {
    pub(super) fn new(hints: PathBuf, hints_age: Duration) -> Self {
        Self {
            all: RwLock::default(),
            hints,
            hints_age,
        }
    }

    /// Opens what is kept for nodes that are not known yet. None of them is known before all is open.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn open(
        &self,
        nodes: impl Iterator<Item = Node>,
        calls: &Calls,
    ) -> Result<Vec<Neighbour>, String> {
        let unknown = nodes.filter(|node| !self.read().contains_key(&node.id));
        let open = |node: Node| {
            let name = node.address.replace([':', '[', ']'], "_");
            let reach: Arc<Reach> = Arc::default();
            let whom = (node.id, reach.up());
            let path = self.hints.join(name);
            let hints = Hints::open(&path, whom, calls.clone(), self.hints_age)?;
            Ok(Neighbour {
                node,
                reach,
                hints,
                path,
            })
        };
        unknown.map(open).collect()
    }

    /// These are known from here on.
    pub(super) fn add(&self, neighbours: Vec<Neighbour>) -> Vec<Come> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let add = |neighbour: Neighbour| {
            let come = Come {
                node: neighbour.node.clone(),
                reach: Arc::clone(&neighbour.reach),
                keeper: neighbour.hints.keeper(),
            };
            all.insert(neighbour.node.id, neighbour);
            come
        };
        neighbours.into_iter().map(add).collect()
    }

    /// All but these are known no more. To drop what is returned may wait.
    pub(super) fn keep(&self, is_kept: impl Fn(u16) -> bool) -> Vec<(u16, Neighbour)> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.extract_if(|id, _| !is_kept(*id)).collect()
    }

    /// Nobody is known any more.
    pub(super) fn clear(&self) {
        drop(self.keep(|_| false));
    }

    pub(super) fn is_up(&self, node: u16) -> bool {
        let all = self.read();
        let neighbour = all.get(&node);
        neighbour.is_some_and(|neighbour| neighbour.reach.is_up())
    }

    /// Why a node takes no part, though it is there.
    pub(super) fn apart(&self, node: u16) -> Option<String> {
        let all = self.read();
        all.get(&node).and_then(|neighbour| neighbour.reach.apart())
    }

    /// Whether a node is about to end, and takes no new connections of clients.
    pub(super) fn is_draining(&self, node: u16) -> bool {
        let all = self.read();
        let neighbour = all.get(&node);
        neighbour.is_some_and(|neighbour| neighbour.reach.is_draining())
    }

    pub(super) fn hint_counts(&self, node: u16) -> Option<Arc<Counts>> {
        let all = self.read();
        all.get(&node).map(|neighbour| neighbour.hints.counts())
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<u16, Neighbour>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }
}
