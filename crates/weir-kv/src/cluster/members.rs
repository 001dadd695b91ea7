//! What a node does when others come or go, or it does itself: it goes by another layout, and takes what it gets by that.
//!
//! A layout is on disk before anything begins by it. So after a crash a node goes on by what it has promised.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Calls;
use super::Shared;
use super::hub::Event;
use super::moving::Moving;
use super::neighbours::{Come, Neighbours};
use super::opening;
use super::sweeping::Sweeping;
use crate::frame::{Change, Membership, Moved, Standing};
use crate::layout::{Layout, change};

/// How long to wait for a connection to a node that comes, and how often to look.
const MEET: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// What keeps a node among the others.
pub(super) struct Members {
    shared: Arc<Shared>,
    neighbours: Arc<Neighbours>,
    events: mpsc::UnboundedSender<Event>,
    /// One change at a time. It may be held for seconds; how this node stands is told all the same.
    changing: Mutex<Changing>,
    moved: Mutex<Arc<Mutex<Moved>>>,
    sweeping: Mutex<Option<Sweeping>>,
    /// The nodes of the configuration.
    configured: String,
}

/// What is under way.
#[derive(Default)]
struct Changing {
    /// Takes what this node gets by the map of this epoch.
    moving: Option<(u64, Moving)>,
}

impl Members {
    pub(super) fn new(
        shared: Arc<Shared>,
        neighbours: Arc<Neighbours>,
        events: mpsc::UnboundedSender<Event>,
        configured: String,
    ) -> Self {
        Self {
            shared,
            neighbours,
            events,
            changing: Mutex::default(),
            moved: Mutex::default(),
            sweeping: Mutex::default(),
            configured,
        }
    }

    /// How this node stands.
    pub(super) fn standing(&self) -> Membership {
        let layout = self.shared.layout();
        let standing = match (self.shared.is_member(), self.shared.me()) {
            (true, _) => Standing::Member,
            (false, 0) => Standing::Waits,
            (false, _) => Standing::Left,
        };
        let moved = Arc::clone(&lock(&self.moved));
        let moved = lock(&moved).clone();
        Membership {
            standing,
            is_settled: self.shared.is_settled(),
            moved,
            layout: (standing != Standing::Waits).then(|| Box::new(Layout::clone(&layout))),
        }
    }

    /// Does what a change asks for. It waits for the disk.
    ///
    /// # Errors
    /// It does not follow what there is, or the disk refuses: nothing is changed then.
    pub(super) fn change(&self, change: &Change) -> Result<(), String> {
        let mut changing = lock(&self.changing);
        let layout = Layout::clone(&self.shared.layout());
        let has_joined = self.shared.me() > 0;
        let told = change::told(self.shared.address(), has_joined.then_some(&layout), change)?;
        if let Some(layout) = told {
            changing.moving = None;
            *lock(&self.moved) = Arc::default();
            self.enter(layout)?;
        } else if let Change::Move(epoch) = change {
            self.begin_to_move(*epoch, &mut changing)?;
        }
        Ok(())
    }

    /// Whatever begins from here on goes by this layout.
    fn enter(&self, layout: Layout) -> Result<(), String> {
        let nodes = layout.nodes();
        let others = nodes
            .iter()
            .filter(|node| &*node.address != self.shared.address());
        let calls = self.calls();
        let come = self.neighbours.open(others.cloned(), &calls)?;
        // What it would take away may be what another node is to take from here.
        *lock(&self.sweeping) = None;
        let before = Layout::clone(&self.shared.layout());
        let left = left_by(&before, &layout);
        let history = (self.shared.address(), &*self.configured);
        opening::keep(&*self.shared.engine, history, &layout, left)?;
        let mut come = self.neighbours.add(come);
        if self.shared.is_member() {
            self.meet(std::mem::take(&mut come));
        }
        let is_stable = layout.next.is_none();
        let generation = self.shared.enter(layout);
        let gone = self
            .neighbours
            .keep(|id| nodes.iter().any(|node| node.id == id));
        let go = gone.iter().map(|(id, _)| *id).collect();
        // If the hub is gone, so is this node soon.
        let _ = self.events.send(Event::Nodes {
            come,
            go,
            generation: Some(generation),
        });
        for (_, node) in gone {
            node.forget();
        }
        if is_stable {
            self.sweep();
        }
        Ok(())
    }

    /// Connects to nodes that come before anything is asked of them, and waits for that a little: a key may have no other replica by the
    /// next map. Who comes itself is asked for nothing yet, and is not known to the others.
    fn meet(&self, come: Vec<Come>) {
        let reached: Vec<_> = come.iter().map(|come| Arc::clone(&come.reach)).collect();
        let _ = self.events.send(Event::Nodes {
            come,
            go: Vec::new(),
            generation: None,
        });
        let began = Instant::now();
        let is_one_down = || reached.iter().any(|reach| !reach.is_up());
        while is_one_down() && began.elapsed() < MEET {
            std::thread::sleep(LOOK);
        }
    }

    /// Takes away what others have now, if there is something.
    pub(super) fn sweep(&self) {
        let mut sweeping = lock(&self.sweeping);
        *sweeping = None;
        *sweeping = Sweeping::start(self.calls());
    }

    fn begin_to_move(&self, epoch: u64, changing: &mut Changing) -> Result<(), String> {
        if !self.shared.is_settled() {
            return Err("what began before is under way still".to_owned());
        }
        if changing.moving.as_ref().map(|(moved, _)| *moved) != Some(epoch) {
            let told: Arc<Mutex<Moved>> = Arc::default();
            changing.moving = Some((epoch, Moving::start(self.calls(), Arc::clone(&told))?));
            *lock(&self.moved) = told;
        }
        Ok(())
    }

    fn calls(&self) -> Calls {
        Calls {
            shared: Arc::clone(&self.shared),
            events: Some(self.events.clone()),
        }
    }

    /// Goes no further with what is under way.
    pub(super) fn end(&self) {
        lock(&self.changing).moving = None;
        *lock(&self.sweeping) = None;
    }
}

/// The layout by which this node has keys that it may not have by the one that follows.
fn left_by(before: &Layout, after: &Layout) -> Option<Layout> {
    let next = before.next.as_ref().filter(|_| after.next.is_none())?;
    let left = if after.now == before.now {
        // What it has taken already.
        Layout {
            now: next.placement.clone(),
            ..before.aborted()
        }
    } else {
        before.aborted()
    };
    Some(left)
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
