//! What all parts of a node know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tokio::time::Instant;

use super::hello;
use super::hub::{DEADLINE, Off};
use crate::coordinator::{Quorum, Replicas};
use crate::engine::Engine;
use crate::frame::{Clocks, Presence};
use crate::layout::Layout;
use crate::placement::Node;
use crate::tally::Tally;
use crate::version::{Clock, Version};
use crate::wall::unix_ms;

/// What all parts of a node know.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) tally: Arc<Tally>,
    clock: Mutex<Clock>,
    /// Where the others reach this node: its name.
    address: Box<str>,
    /// Its number; 0 while it has none yet.
    me: AtomicU16,
    layout: ArcSwap<Layout>,
    is_member: AtomicBool,
    /// The epoch of the last map that another node was heard to go by alone while it was still to follow here.
    decided: AtomicU64,
    /// Nodes that have gone, and until when what they have begun before is done for them.
    going: Mutex<Vec<(u16, Instant)>>,
    is_draining: AtomicBool,
    off: Mutex<Off>,
    /// Nodes that have a newer map, and none in common with this one, with its epoch; and the highest of these, or 0.
    ahead: Mutex<HashMap<u16, u64>>,
    newest: AtomicU64,
    /// How many layouts there were, and which of them was the first that nothing under way began before, as far as the hub knows.
    generation: AtomicUsize,
    pub(super) settled: AtomicUsize,
    /// Writes that ask no other node, by the generation that they began in.
    alone: [AtomicUsize; 2],
}

/// A write that asks no other node, as long as it is under way.
pub(crate) struct Alone {
    shared: Arc<Shared>,
    at: usize,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.shared.alone[self.at].fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    /// A node in this layout. Where the layout does not have it, it waits until another one does.
    pub(crate) fn new(engine: Arc<dyn Engine>, address: &str, layout: Layout) -> Self {
        let me = layout.node_at(address).map_or(0, |node| node.id);
        let (newest, run) = engine.opened();
        Self {
            clock: Mutex::new(Clock::new(me, run, newest)),
            engine,
            tally: Arc::default(),
            address: address.into(),
            me: AtomicU16::new(me),
            layout: ArcSwap::from_pointee(layout),
            is_member: AtomicBool::new(me > 0),
            decided: AtomicU64::new(0),
            going: Mutex::default(),
            is_draining: AtomicBool::new(false),
            off: Mutex::new(Off::Nothing),
            ahead: Mutex::default(),
            newest: AtomicU64::new(0),
            generation: AtomicUsize::new(0),
            settled: AtomicUsize::new(0),
            alone: Default::default(),
        }
    }

    /// The number of this node.
    pub(crate) fn me(&self) -> u16 {
        self.me.load(Ordering::Acquire)
    }

    /// Whether this node is one of the layout.
    pub(crate) fn is_member(&self) -> bool {
        self.is_member.load(Ordering::Acquire)
    }

    /// Which nodes have which keys now.
    pub(crate) fn layout(&self) -> Guard<Arc<Layout>> {
        self.layout.load()
    }

    /// Counts a write that asks no other node. It looks at the layout after that, and goes by what it finds.
    pub(crate) fn begin_alone(self: &Arc<Self>) -> Alone {
        loop {
            let generation = self.generation.load(Ordering::SeqCst);
            self.alone[generation % 2].fetch_add(1, Ordering::SeqCst);
            let alone = Alone {
                shared: Arc::clone(self),
                at: generation % 2,
            };
            // Otherwise the layout may be another one, and nobody waits for this. It changes a few times a year.
            if self.generation.load(Ordering::SeqCst) == generation {
                return alone;
            }
        }
    }

    /// Whether all is over that began by layouts of before.
    pub(super) fn is_settled(&self) -> bool {
        let generation = self.generation.load(Ordering::SeqCst);
        let alone = self.alone[(generation + 1) % 2].load(Ordering::SeqCst);
        self.settled.load(Ordering::SeqCst) == generation && alone == 0
    }

    /// Whatever begins from here on goes by this layout, whose generation is returned.
    pub(super) fn enter(&self, layout: Layout) -> usize {
        let own = layout.node_at(&self.address);
        if let Some(own) = &own {
            let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
            clock.belong(own.id);
            self.me.store(own.id, Ordering::Release);
        }
        let (going, until) = (layout.going_from(&self.layout()), Instant::now() + DEADLINE);
        *self.going.lock().unwrap_or_else(PoisonError::into_inner) =
            going.into_iter().map(|id| (id, until)).collect();
        self.layout.store(Arc::new(layout));
        self.lock_ahead().clear();
        self.newest.store(0, Ordering::Release);
        self.is_member.store(own.is_some(), Ordering::Release);
        self.generation.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn lock_ahead(&self) -> MutexGuard<'_, HashMap<u16, u64>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node has said whether it has a newer map, and which. Whether this node has fallen behind by that. What a node has said holds
    /// until it says something else: it may be away since.
    pub(super) fn note_newer(&self, node: u16, newer: Option<u64>) -> bool {
        let mut ahead = self.lock_ahead();
        match newer {
            Some(epoch) => ahead.insert(node, epoch),
            None => ahead.remove(&node),
        };
        let newest = ahead.values().copied().max().unwrap_or(0);
        let before = self.newest.swap(newest, Ordering::AcqRel);
        before == 0 && newest > 0
    }

    /// Whether other nodes have a newer map, and none in common with this one. It was started with an old copy of its data then, or
    /// without it: whatever it did by its own map, nodes would miss that have the keys now.
    pub(crate) fn is_behind(&self) -> bool {
        self.newest.load(Ordering::Acquire) > 0
    }

    /// What the clocks of this node say.
    pub(super) fn clocks(&self) -> Clocks {
        let wall_ms = unix_ms();
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        Clocks {
            wall_ms,
            version_ms: clock.unix_ms(wall_ms),
        }
    }

    /// What this node says when it is asked whether it is there.
    pub(super) fn presence(&self) -> Presence {
        Presence {
            clocks: self.clocks(),
            is_draining: self.is_draining.load(Ordering::Acquire),
        }
    }

    /// This node is about to end, and clients had better ask others.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Whether the clocks of this node are wrong, as far as the others know, so that it does nothing of this kind for clients.
    pub(crate) fn is_off(&self, is_read: bool) -> bool {
        match *self.off.lock().unwrap_or_else(PoisonError::into_inner) {
            Off::Nothing => false,
            Off::Versions => !is_read,
            Off::Wall => true,
        }
    }

    pub(super) fn set_off(&self, off: Off) {
        *self.off.lock().unwrap_or_else(PoisonError::into_inner) = off;
    }

    pub(crate) fn tick(&self) -> Version {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.tick(unix_ms())
    }

    /// Goes on behind a version; whether that is not too far ahead.
    pub(crate) fn see(&self, version: Version) -> bool {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.see(version, unix_ms()).is_ok()
    }

    /// What this node says of itself.
    pub(super) fn own<'s>(&'s self, secret: &'s str) -> hello::Own<'s> {
        hello::Own {
            address: &self.address,
            secret,
            cluster: self.layout().cluster,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The other nodes.
    pub(crate) fn others(&self) -> impl Iterator<Item = Node> {
        let (me, is_member) = (self.me(), self.is_member());
        let nodes = self.layout().nodes().into_iter();
        nodes.filter(move |node| is_member && node.id != me)
    }

    /// Whether a key has this node alone, if it has one replica.
    pub(crate) fn is_only(&self, key: &[u8]) -> bool {
        let layout = self.layout();
        let map = &layout.now.map;
        layout.next.is_none() && map.nodes()[map.first(key)].id == self.me()
    }

    /// Whether both this node and another one have replicas of a key.
    pub(crate) fn is_common(&self, key: &[u8], other: u16) -> bool {
        let replicas = self.usual_replicas(key);
        replicas.contains(&self.me()) && replicas.contains(&other)
    }

    /// How many nodes have a key, unless a request says otherwise.
    pub(crate) fn replication(&self) -> usize {
        self.layout().now.replicas
    }

    /// The nodes that have a key, unless a request says otherwise.
    pub(crate) fn usual_replicas(&self, key: &[u8]) -> Vec<u16> {
        let layout = self.layout();
        layout.now.replicas_of_key(key, layout.now.replicas)
    }

    /// Whether a node with this number is one of the layout, or has gone a moment ago: it may not know that yet, and what it has begun has
    /// enough replicas by either map. One that is lost for good is not heard from the moment on in which it is.
    pub(super) fn is_heard(&self, node: u16) -> bool {
        let is_going = |(going, until): &(u16, Instant)| *going == node && Instant::now() < *until;
        let going = || self.going.lock().unwrap_or_else(PoisonError::into_inner);
        self.layout().has(node) || going().iter().any(is_going)
    }

    /// Another node goes by a layout of this epoch, as a frame of it says.
    pub(super) fn hear_epoch(&self, epoch: u64) {
        if self.layout().is_followed_by(epoch) {
            self.decided.store(epoch, Ordering::Release);
        }
    }

    /// The nodes whose turn it may be to write a key, in their order.
    ///
    /// While nodes come or go, that is by the map that holds, until it is known that one of them goes by the next one alone. That it does
    /// so is never taken back, and all others follow it: so they may go by its order before they are told, and two maps make two nodes
    /// the first of a key only for the moment in which this is heard.
    pub(super) fn in_turn(&self, key: &[u8], quorum: Quorum) -> Vec<u16> {
        let layout = self.layout();
        let decided = self.decided.load(Ordering::Acquire);
        match &layout.next {
            Some(next) if layout.is_followed_by(decided) => {
                next.placement.replicas_of_key(key, quorum.from)
            }
            _ => layout.replicas(key, quorum).nodes,
        }
    }

    /// Whom an operation concerns.
    pub(crate) fn replicas(&self, key: &[u8], quorum: Quorum) -> Replicas {
        self.layout().replicas(key, quorum)
    }
}
