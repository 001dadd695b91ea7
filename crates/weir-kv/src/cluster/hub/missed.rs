//! What other nodes did not take, kept until they do.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Asked, Client, Hub};
use crate::cell::Cell;
use crate::cluster::peer::Peer;
use crate::coordinator::Operation;

/// What is kept for a node that did not take it: cells, and bytes of them.
const HINTS_MAX: usize = 100_000;
const HINTS_BYTES_MAX: usize = 64 << 20;
/// Hints that are under way to a node at once.
const HINTS_AT_ONCE: usize = 256;
/// How long to wait after a node has not taken one, at first and at most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Bytes of a hint besides its key and value, about.
const HINT_BYTES: usize = 128;

/// What a node missed.
pub(super) struct Missed {
    cells: VecDeque<(Bytes, Cell)>,
    bytes: usize,
    under_way: usize,
    pause: Duration,
    not_before: Instant,
}

impl Missed {
    pub(super) fn new() -> Self {
        Self {
            cells: VecDeque::new(),
            bytes: 0,
            under_way: 0,
            pause: PAUSE,
            not_before: Instant::now(),
        }
    }

    /// Keeps a cell. The oldest ones go when there are too many.
    pub(super) fn keep(&mut self, key: Bytes, cell: Cell) {
        self.bytes += hint_bytes(&key, &cell);
        self.cells.push_back((key, cell));
        while self.cells.len() > HINTS_MAX || self.bytes > HINTS_BYTES_MAX {
            self.take();
        }
    }

    fn take(&mut self) -> Option<(Bytes, Cell)> {
        let (key, cell) = self.cells.pop_front()?;
        self.bytes -= hint_bytes(&key, &cell);
        Some((key, cell))
    }

    /// A hint has ended.
    pub(super) fn ended(&mut self, is_taken: bool) {
        self.under_way -= 1;
        if is_taken {
            self.pause = PAUSE;
        } else if self.not_before <= Instant::now() {
            self.not_before = Instant::now() + self.pause;
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        }
    }
}

fn hint_bytes(key: &Bytes, cell: &Cell) -> usize {
    HINT_BYTES + key.len() + cell.value.as_ref().map_or(0, Bytes::len)
}

impl Hub {
    /// Has nodes that are up take what they missed.
    pub(super) fn send_hints(&mut self) {
        let now = Instant::now();
        let mut hints = Vec::new();
        for (&node, missed) in &mut self.missed {
            let is_up = self.peers.get(&node).is_some_and(Peer::is_up);
            while is_up && missed.not_before <= now && missed.under_way < HINTS_AT_ONCE {
                let Some((key, cell)) = missed.take() else {
                    break;
                };
                missed.under_way += 1;
                hints.push((node, key, cell));
            }
        }
        for (node, key, cell) in hints {
            // A write to one replica alone. What it does not take becomes a hint again.
            self.begin(Asked {
                operation: Operation::Repair(cell),
                key,
                ack: 1,
                replicas: vec![node],
                client: Client::Hint(node),
                is_in_order: false,
            });
        }
        let is_over = |missed: &Missed| missed.cells.is_empty() && missed.under_way == 0;
        self.missed.retain(|_, missed| !is_over(missed));
    }
}
