//! What an outcome means for a message.

use std::sync::Arc;
use std::time::Duration;

use weir_gateway::service::Outcome;
use weir_log::Error;

use super::shelf::Kept;
use super::{Begun, Damaged, Failed, Group, Which};
use crate::claims::Claimed;
use crate::clock;
use crate::dead::Death;
use crate::journal::Entry;
use crate::retry::{Verdict, describe, judge};
use crate::shared::{add, lock};

/// How long a message waits at most that could not be tried, or whose attempt says nothing about it: when the target is back, nobody
/// waits for long.
const UNCOUNTED_MAX: Duration = Duration::from_secs(30);
/// How long a message waits that cannot become a dead letter because the disk is full.
const FULL_MS: u64 = 1000;

impl Group {
    /// An attempt is over.
    pub(super) fn end(&mut self, begun: Begun, outcome: &Outcome) {
        let now_ms = clock::now_ms();
        let verdict = judge(outcome);
        let pace = self.lanes.pace(begun.lane);
        pace.end();
        match verdict {
            // Whoever says what is wrong with a request is well.
            Verdict::Delivered | Verdict::Futile => pace.succeeded(),
            Verdict::Again(_) | Verdict::Untried(_) => pace.failed(now_ms, clock::random_share()),
        }
        match begun.which {
            Which::Dead { id } => self.end_dead((now_ms, begun.lane), id, &verdict, outcome),
            Which::Message { offset, attempts } => {
                let ended = self.end_message((offset, attempts), begun, &verdict, outcome);
                if let Err(error) = ended {
                    self.progress.give_back(offset, now_ms + FULL_MS);
                    if !error.is_full() {
                        self.stop_damaged(&error, Damaged::Message(offset));
                    }
                }
            }
        }
    }

    fn end_message(
        &mut self,
        (offset, attempts): (u64, u32),
        begun: Begun,
        verdict: &Verdict,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        match verdict {
            Verdict::Delivered => {
                self.lanes.deliver(begun.lane);
                add(&self.consumer.delivered, 1);
                self.keep_answer(offset, outcome);
                self.settle(offset);
                // It was replayed.
                if let Some(id) = self.dead.of(offset) {
                    self.bury_no_more(id);
                }
                Ok(())
            }
            Verdict::Futile => self.give_up((offset, attempts + 1), "refused", outcome),
            Verdict::Again(after) | Verdict::Untried(after) => {
                let is_tried = matches!(verdict, Verdict::Again(_));
                self.again((offset, attempts), begun, (*after, is_tried), outcome)
            }
        }
    }

    /// A message is to be tried again, unless it was often enough.
    fn again(
        &mut self,
        (offset, attempts): (u64, u32),
        begun: Begun,
        (after, is_tried): (Option<Duration>, bool),
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let now_ms = clock::now_ms();
        let settings = self.shared.settings();
        let retry = &settings.delivery.retry;
        let before = self.failed.get(&offset);
        let times = before.map_or(0, |before| before.times);
        // As long as nothing else is delivered, it says nothing about this message.
        let since = before.map_or(begun.delivered, |before| before.delivered);
        let delivered = self.lanes.delivered(begun.lane);
        let counts = is_tried && delivered > since;
        let failed = Failed {
            times: times.saturating_add(u32::from(is_tried)),
            delivered,
        };
        let tried = attempts + u32::from(counts);
        if counts && tried >= retry.attempts_max {
            return self.give_up((offset, tried), "attempts", outcome);
        }
        if let Some(kept) = self.shelf.fetch(offset)?
            && now_ms.saturating_sub(kept.time_ms) > retry.age_max.as_millis() as u64
        {
            return self.give_up((offset, tried), "age", outcome);
        }
        self.failed.insert(offset, failed);
        let wait = if counts {
            retry.wait(tried, clock::random_share())
        } else {
            let wait = retry.wait(failed.times.max(1), clock::random_share());
            wait.min(UNCOUNTED_MAX)
        };
        let due_ms = now_ms + wait.max(after.unwrap_or_default()).as_millis() as u64;
        self.progress.again(offset, due_ms, counts);
        if is_tried {
            add(&self.consumer.retried, 1);
        }
        *lock(&self.consumer.last_error) = Some(describe(outcome));
        if counts {
            let tried = Entry::Tried {
                offset,
                attempts: tried,
                due_ms,
            };
            self.journal.note(now_ms, &tried);
        }
        Ok(())
    }

    fn give_up(
        &mut self,
        (offset, attempts): (u64, u32),
        reason: &str,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let Some(kept) = self.shelf.fetch(offset)? else {
            self.settle(offset);
            return Ok(());
        };
        self.keep_answer(offset, outcome);
        self.bury((offset, attempts), &kept, reason, &describe(outcome))
    }

    /// A message becomes a dead letter.
    pub(super) fn bury(
        &mut self,
        (offset, attempts): (u64, u32),
        kept: &Kept,
        reason: &str,
        error: &str,
    ) -> Result<(), Error> {
        if !self.is_ours(offset) {
            // Somebody else delivers it, or gives it up.
            self.settle(offset);
            return Ok(());
        }
        let death = Death {
            offset,
            attempts,
            came_ms: kept.time_ms,
            reason,
            error,
        };
        let now_ms = clock::now_ms();
        let message = (&*kept.head, &*kept.body);
        if let Some(before) = self.dead.bury(now_ms, death, message)? {
            self.redrive.remove(before);
            self.journal.note(now_ms, &Entry::Gone(vec![before]));
        }
        self.has_new_dead = true;
        add(&self.consumer.died, 1);
        self.settle(offset);
        Ok(())
    }

    /// Whether a message is to be delivered by us: of those from Kafka, the partition may have moved.
    pub(super) fn is_ours(&self, offset: u64) -> bool {
        let has = |claimed: &Arc<Claimed>| claimed.with(|claims| claims.has(offset));
        self.claimed.as_ref().is_none_or(has)
    }

    /// A dead letter is there no longer.
    pub(super) fn bury_no_more(&mut self, id: u64) {
        self.redrive.remove(id);
        self.dead.remove(id);
        self.has_new_dead = true;
        self.journal.note(clock::now_ms(), &Entry::Gone(vec![id]));
    }

    fn end_dead(
        &mut self,
        (now_ms, lane): (u64, usize),
        id: u64,
        verdict: &Verdict,
        outcome: &Outcome,
    ) {
        match verdict {
            Verdict::Delivered => {
                self.lanes.deliver(lane);
                add(&self.consumer.delivered, 1);
                if let Some(offset) = self.dead.offset(id) {
                    self.keep_answer(offset, outcome);
                }
                self.bury_no_more(id);
            }
            // Its place is where it is; the operator sees that it failed again.
            Verdict::Futile | Verdict::Again(_) => {
                add(&self.consumer.retried, 1);
                self.redrive.remove(id);
            }
            Verdict::Untried(_) => self.redrive.untried(id, now_ms),
        }
    }

    pub(super) fn settle(&mut self, offset: u64) {
        self.progress.settle(offset);
        self.journal.settled(offset);
        if let Some(claimed) = &self.claimed {
            claimed.with(|claims| claims.settle(offset));
        }
        self.failed.remove(&offset);
        self.shelf.drop_one(offset);
    }

    fn keep_answer(&mut self, offset: u64, outcome: &Outcome) {
        let bytes_max = self.shared.settings().delivery.answer_bytes_max;
        self.answers.keep(offset, outcome, bytes_max);
    }

    /// Makes room when there is none and little else waits: messages that fail keep all that was delivered behind them on the disk,
    /// so they become dead letters.
    pub(super) fn make_room(&mut self) {
        let held = self.progress.held() as u64;
        if self.progress.settled_ahead() < 10 * held.max(1) {
            return;
        }
        let low = self.progress.low();
        if self.shared.consumed() < low {
            // A sink needs it all the same.
            return;
        }
        let Some(&Failed { times, .. }) = self.failed.get(&low) else {
            return;
        };
        // One that is under way has its outcome first.
        if !self.progress.is_waiting(low) {
            return;
        }
        let why = "the queue was full, and it kept what was delivered behind it on the disk";
        let buried = self.shelf.fetch(low).and_then(|kept| {
            if let Some(kept) = kept {
                return self.bury((low, times), &kept, "room", why);
            }
            self.settle(low);
            Ok(())
        });
        if let Err(error) = buried
            && !error.is_full()
        {
            self.stop(&error);
        }
    }
}
