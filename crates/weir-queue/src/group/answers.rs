//! What upstreams have answered, the newest.

use std::collections::{HashMap, VecDeque};

use weir_gateway::service::Outcome;

/// Answers that are kept, and their bytes in all.
const ANSWERS_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Answers {
    by_offset: HashMap<u64, (u16, Vec<u8>)>,
    order: VecDeque<u64>,
    bytes: usize,
}

impl Answers {
    /// Keeps up to `bytes_max` of an answer, if it is one and any are kept.
    pub(super) fn keep(&mut self, offset: u64, outcome: &Outcome, bytes_max: usize) {
        let Outcome::Answered(answered) = outcome else {
            return;
        };
        if bytes_max == 0 {
            return;
        }
        let body = &answered.body[..answered.body.len().min(bytes_max)];
        self.bytes += body.len();
        let before = self
            .by_offset
            .insert(offset, (answered.status, body.to_vec()));
        match before {
            Some((_, before)) => self.bytes -= before.len(),
            None => self.order.push_back(offset),
        }
        while self.bytes > BYTES_MAX || self.order.len() > ANSWERS_MAX {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some((_, body)) = self.by_offset.remove(&oldest) {
                self.bytes -= body.len();
            }
        }
    }

    pub(super) fn of(&self, offset: u64) -> Option<&(u16, Vec<u8>)> {
        self.by_offset.get(&offset)
    }
}
