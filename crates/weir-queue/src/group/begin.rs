//! What is delivered next.

use std::sync::atomic::Ordering;

use weir_gateway::service::Errand;
use weir_log::Error;

use super::shelf::Kept;
use super::{Begun, Damaged, Group, UnderWay, Which};
use crate::clock;
use crate::dead::DEAD_MAX;
use crate::message::Message;
use crate::pace::May;

/// How long everything waits when the workers have enough to do.
const BUSY_MS: u64 = 20;
/// How long a message waits whose turn an error has ended.
const AFTER_ERROR_MS: u64 = 1000;
/// Bytes of an answer that are looked at at least: the beginning is what an operator is told when it is an error.
const ANSWER_BYTES_MIN: usize = 1024;
/// Messages of a turn that are given up without an attempt. Each waits for the disk.
const BURIED_IN_TURN: u32 = 32;

/// What became of beginning.
enum Next {
    /// Something is under way.
    Began,
    /// There was nothing to deliver in it.
    Settled,
    /// The same, and the disk was waited for.
    Buried,
    /// There is nothing.
    Nothing,
    /// The workers have enough to do.
    Busy,
}

impl Group {
    /// Begins with as much as the paces allow. Says when to come again, if that is known.
    pub(super) fn begin(&mut self, under_way: &mut UnderWay) -> Option<u64> {
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        if self.is_paused || self.stopped.is_some() || is_draining || self.replay.is_some() {
            return None;
        }
        self.progress.ripen(clock::now_ms());
        let mut again_ms = self.progress.next_due_ms();
        let mut buried = 0;
        for lane in self.lanes.in_turn() {
            loop {
                let now_ms = clock::now_ms();
                match self.lanes.pace(lane).may_begin(now_ms) {
                    May::Begin => {}
                    May::At(at_ms) => {
                        let has_some = !self.progress.is_idle(lane) || self.redrive.has(lane);
                        again_ms = sooner(again_ms, has_some.then_some(at_ms));
                        break;
                    }
                    May::Later => break,
                }
                match self.begin_in(lane, now_ms, under_way) {
                    Ok(Next::Began) => self.lanes.pace(lane).begin(now_ms),
                    Ok(Next::Settled) => {}
                    Ok(Next::Buried) if buried < BURIED_IN_TURN => buried += 1,
                    Ok(Next::Buried) => return Some(now_ms),
                    Ok(Next::Nothing) => {
                        again_ms = sooner(again_ms, self.redrive.next_due_ms(lane));
                        break;
                    }
                    Ok(Next::Busy) => return Some(now_ms + BUSY_MS),
                    Err(error) => {
                        self.stop(&error);
                        return None;
                    }
                }
            }
        }
        sooner(again_ms, self.progress.next_due_ms())
    }

    /// Begins with a message of a lane, or in turn with a dead letter.
    fn begin_in(
        &mut self,
        lane: usize,
        now_ms: u64,
        under_way: &mut UnderWay,
    ) -> Result<Next, Error> {
        if let Some(id) = self.redrive.take(lane, now_ms, self.progress.is_idle(lane)) {
            return self.begin_dead(id, lane, under_way);
        }
        if self.dead.is_full() && self.redrive.has(lane) {
            // They make room, one after the other.
            return Ok(Next::Nothing);
        }
        if self.dead.is_full() && !self.progress.is_idle(lane) {
            self.stop(&format!(
                "it has {DEAD_MAX} dead letters; have them delivered or drop them, and resume"
            ));
            return Ok(Next::Nothing);
        }
        let Some(due) = self.progress.take(lane, now_ms) else {
            return Ok(Next::Nothing);
        };
        let which = Which::Message {
            offset: due.offset,
            attempts: due.attempts,
        };
        let begun = self.begin_message(which, due.offset, lane, under_way);
        begun.or_else(|error| {
            // It has its turn again once somebody has seen to that, or there is room.
            let due_ms = now_ms + AFTER_ERROR_MS;
            self.progress.give_back(due.offset, due_ms);
            if error.is_full() {
                return Ok(Next::Buried);
            }
            if let Error::Damaged(_) = error {
                self.damaged = Some(Damaged::Message(due.offset));
            }
            Err(error)
        })
    }

    fn begin_message(
        &mut self,
        which: Which,
        offset: u64,
        lane: usize,
        under_way: &mut UnderWay,
    ) -> Result<Next, Error> {
        if !self.is_ours(offset) {
            // Somebody else delivers it now.
            self.settle(offset);
            return Ok(Next::Settled);
        }
        let Some(kept) = self.shelf.take(offset)? else {
            // Nobody can say any more what it was.
            self.settle(offset);
            return Ok(Next::Settled);
        };
        let now_ms = clock::now_ms();
        let Some(message) = Message::read(&kept.head) else {
            let why = "a later version of weir has written it";
            self.bury((offset, 0), &kept, "refused", why)?;
            return Ok(Next::Buried);
        };
        if message.upstream.is_empty() && message.route.is_empty() {
            let why = "weir has not produced it: it does not say for which upstream it is";
            self.bury((offset, 0), &kept, "refused", why)?;
            return Ok(Next::Buried);
        }
        if message.upstream.is_empty() {
            self.settle(offset);
            return Ok(Next::Settled);
        }
        if message.expires_ms > 0 && message.expires_ms <= now_ms {
            let attempts = self.failed.get(&offset).map_or(0, |failed| failed.times);
            self.bury(
                (offset, attempts),
                &kept,
                "expired",
                "its time to live is over",
            )?;
            return Ok(Next::Buried);
        }
        if self.send((which, lane), &message, &kept, under_way) {
            return Ok(Next::Began);
        }
        self.progress.give_back(offset, now_ms + BUSY_MS);
        self.shelf.put(offset, kept);
        Ok(Next::Busy)
    }

    fn begin_dead(
        &mut self,
        id: u64,
        lane: usize,
        under_way: &mut UnderWay,
    ) -> Result<Next, Error> {
        let Some(kept) = self.dead.exhume(id)? else {
            self.redrive.remove(id);
            return Ok(Next::Settled);
        };
        let Some(message) = Message::read(&kept.head) else {
            self.redrive.remove(id);
            return Ok(Next::Settled);
        };
        if self.send((Which::Dead { id }, lane), &message, &kept, under_way) {
            return Ok(Next::Began);
        }
        self.redrive.give_back(id, clock::now_ms() + BUSY_MS);
        Ok(Next::Busy)
    }

    /// Has a message delivered, unless the workers have enough to do.
    fn send(
        &self,
        (which, lane): (Which, usize),
        message: &Message<'_>,
        kept: &Kept,
        under_way: &mut UnderWay,
    ) -> bool {
        let settings = self.shared.settings();
        let (offset, attempts) = match which {
            Which::Message { offset, attempts } => (offset, attempts),
            Which::Dead { id } => (self.dead.offset(id).unwrap_or_default(), 0),
        };
        let failed = self.failed.get(&offset).map_or(0, |failed| failed.times);
        let attempt = attempts.max(failed) + 1;
        let errand = Errand {
            route: message.route.into(),
            upstream: message.upstream.into(),
            client: message.client,
            peer: message.peer,
            scheme: message.scheme,
            head: message.head.to_vec(),
            body: kept.body.clone(),
            fields: vec![
                ("weir-offset".to_owned(), offset.to_string()),
                ("weir-attempt".to_owned(), attempt.to_string()),
            ],
            within: settings.delivery.timeout,
            answer_bytes_max: settings.delivery.answer_bytes_max.max(ANSWER_BYTES_MIN),
        };
        let Ok(delivery) = self.courier.deliver(errand) else {
            return false;
        };
        let begun = Begun {
            which,
            lane,
            delivered: self.lanes.delivered(lane),
        };
        under_way.spawn(async move { (begun, delivery.await) });
        true
    }
}

/// The sooner of two times.
fn sooner(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}
