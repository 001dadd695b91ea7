//! What an attempt means for a sink: how far it is, what is a dead letter, and when it goes on.

use super::turn::{Sink, Work};
use super::{Item, Mark, Trouble};
use crate::clock;
use crate::dead::Death;
use crate::journal::Entry;
use crate::shared::{add, lock};

/// Waits after attempts that failed: the first, and the longest.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 15_000;
/// Attempts with a dead letter of which nothing was heard.
const UNTRIED_MAX: u32 = 10;
/// Characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 500;

impl Sink {
    /// An attempt is over.
    pub(super) fn end(&mut self, work: Work, written: Result<Mark, Trouble>) {
        let now_ms = clock::now_ms();
        match written {
            Ok(mark) => {
                self.failures = 0;
                self.mark = mark;
                self.delivered(now_ms, &work);
            }
            Err(Trouble::Away(why)) => {
                add(&self.consumer.retried, 1);
                self.failures = self.failures.saturating_add(1);
                let doublings = (self.failures - 1).min(16);
                let pause_ms = (PAUSE_MIN_MS << doublings).min(PAUSE_MAX_MS) as f64;
                let pause_ms = pause_ms * (0.5 + clock::random_share() / 2.0);
                self.again_ms = now_ms + pause_ms as u64;
                *lock(&self.consumer.last_error) = Some(shortened(&why));
                match work {
                    // One that is tried in vain again and again stays where it is.
                    Work::Dead((id, tries), _) if tries < UNTRIED_MAX => {
                        self.redrive.waiting.push_back((id, tries + 1));
                    }
                    Work::Dead(..) => {}
                    // It may be more than can be written in time.
                    Work::Batch(items) => self.limit = (items.len() / 2).max(1),
                }
            }
            Err(Trouble::Refused { at, why }) => {
                // Whoever says what is wrong with a message is well.
                self.failures = 0;
                let why = shortened(&why);
                *lock(&self.consumer.last_error) = Some(why.clone());
                match work {
                    // It stays where it is; the operator sees that it failed again.
                    Work::Dead(..) => add(&self.consumer.retried, 1),
                    Work::Batch(items) => self.refuse(now_ms, &items, at, &why),
                }
            }
        }
        self.publish();
    }

    fn delivered(&mut self, now_ms: u64, work: &Work) {
        let items = work.items();
        add(&self.consumer.delivered, items.len() as u64);
        if let Some(rate) = self.settings.rate {
            self.rated_ms = self.rated_ms.max(now_ms as f64) + items.len() as f64 * 1e3 / rate;
        }
        match work {
            Work::Dead((id, _), _) => self.bury_no_more(vec![*id]),
            Work::Batch(items) => {
                if self.dead.len() > 0 {
                    // They were replayed.
                    let dead = items.iter().filter_map(|item| self.dead.of(item.offset));
                    let dead: Vec<u64> = dead.collect();
                    self.bury_no_more(dead);
                }
                if let Some(last) = items.last() {
                    self.next = last.offset + 1;
                }
                self.refused = self.refused.split_off(&self.next);
                self.limit = (2 * self.limit).min(self.settings.batch.max(1) as usize);
            }
        }
        let written = Entry::Written(self.next, self.mark);
        self.journal.note(now_ms, &written);
    }

    /// One of them is a dead letter, if it is known which.
    fn refuse(&mut self, now_ms: u64, items: &[Item], at: Option<usize>, why: &str) {
        let at = at.filter(|&at| at < items.len());
        let at = at.or((items.len() == 1).then_some(0));
        let Some(item) = at.map(|at| &items[at]) else {
            self.limit = (items.len() / 2).max(1);
            return;
        };
        let death = Death {
            offset: item.offset,
            attempts: 1,
            came_ms: item.time_ms,
            reason: "refused",
            error: why,
        };
        let message = (&*item.envelope, &*item.body);
        match self.dead.bury(now_ms, death, message) {
            Ok(before) => {
                if let Some(before) = before {
                    self.journal.note(now_ms, &Entry::Gone(vec![before]));
                }
                self.refused.insert(item.offset);
                while self.refused.remove(&self.next) {
                    self.next += 1;
                }
                let written = Entry::Written(self.next, self.mark);
                self.journal.note(now_ms, &written);
                self.has_new_dead = true;
                add(&self.consumer.died, 1);
            }
            // There is no room for it now.
            Err(error) if error.is_full() => self.again_ms = now_ms + PAUSE_MAX_MS,
            Err(error) => self.stop(&error),
        }
    }

    /// Dead letters are there no longer.
    pub(super) fn bury_no_more(&mut self, ids: Vec<u64>) {
        if ids.is_empty() {
            return;
        }
        for &id in &ids {
            self.dead.remove(id);
        }
        self.has_new_dead = true;
        self.journal.note(clock::now_ms(), &Entry::Gone(ids));
    }
}

/// What an error says, without all of what a client has sent.
fn shortened(why: &str) -> String {
    why.chars().take(ERROR_CHARS_MAX).collect()
}
