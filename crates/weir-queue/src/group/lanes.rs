//! Upstreams of messages, each with a number and a pace of its own: one that is ill holds up no other.

use std::collections::HashMap;

use crate::pace::Pace;
use crate::settings::Delivery;

/// Upstreams that have a pace of their own. More than so many are renamed ones from long ago, which share the last.
const LANES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_name: HashMap<Box<str>, usize>,
    paces: Vec<Pace>,
    /// What each has taken since the start.
    delivered: Vec<u64>,
    /// Whose turn it is.
    turn: usize,
}

impl Lanes {
    /// The lane of an upstream.
    pub(super) fn of(&mut self, upstream: &str) -> usize {
        if let Some(&lane) = self.by_name.get(upstream) {
            return lane;
        }
        if self.paces.len() == LANES_MAX {
            return LANES_MAX - 1;
        }
        let lane = self.paces.len();
        self.by_name.insert(upstream.into(), lane);
        self.paces.push(Pace::new(1, None));
        self.delivered.push(0);
        lane
    }

    /// The limits of each are these.
    pub(super) fn limit(&mut self, delivery: &Delivery) {
        for pace in &mut self.paces {
            pace.limit(delivery.concurrency, delivery.rate);
        }
    }

    /// All lanes, another one first each time.
    pub(super) fn in_turn(&mut self) -> impl Iterator<Item = usize> + use<> {
        let count = self.paces.len();
        self.turn = (self.turn + 1) % count.max(1);
        let first = self.turn;
        (0..count).map(move |lane| (first + lane) % count)
    }

    pub(super) fn pace(&mut self, lane: usize) -> &mut Pace {
        &mut self.paces[lane]
    }

    /// One more was delivered.
    pub(super) fn deliver(&mut self, lane: usize) {
        self.delivered[lane] += 1;
    }

    pub(super) fn delivered(&self, lane: usize) -> u64 {
        self.delivered[lane]
    }

    /// The lanes whose targets fail at everything.
    pub(super) fn ill(&self) -> impl Iterator<Item = usize> {
        let paces = self.paces.iter().enumerate();
        paces
            .filter(|(_, pace)| pace.is_ill())
            .map(|(lane, _)| lane)
    }
}
