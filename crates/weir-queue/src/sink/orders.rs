//! What is asked of a sink from outside its thread.

use std::collections::HashSet;

use serde_json::json;

use super::Sink;
use super::turn::Stop;
use crate::clock;
use crate::group::Command;
use crate::journal::Entry;
use crate::outcome::said;

impl Sink {
    /// Who has left does not want to know any more, so nobody minds when a sender finds nobody.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::State(offset, replier) => {
                let state = match () {
                    () if self.dead.of(offset).is_some() => "failed",
                    () if offset < self.next => "produced",
                    () => "pending",
                };
                let said_of = json!({ "offset": offset, "state": state });
                replier.answer(said(200, format!("{said_of}\n")));
            }
            Command::Pause(done) => {
                self.set_paused(true);
                let _ = done.send(Ok(0));
            }
            Command::Resume(is_to_skip, done) => {
                let skipped = if is_to_skip { self.skip() } else { Ok(0) };
                if skipped.is_ok() {
                    self.go_on();
                    self.set_paused(false);
                }
                let _ = done.send(skipped);
            }
            Command::ReplayFrom(_, done) | Command::ReplaySince(_, done)
                if self.replay.is_some() =>
            {
                let _ = done.send(Err("another replay is about to begin".to_owned()));
            }
            Command::ReplayFrom(from, done) => self.replay = Some((from, done)),
            Command::ReplaySince(since_ms, done) => match self.offset_at(since_ms) {
                Ok(from) => self.replay = Some((from, done)),
                Err(error) => {
                    let _ = done.send(Err(error.to_string()));
                }
            },
            Command::Dead(from, count, reply) => {
                let _ = reply.send(self.dead.page(from, count));
            }
            Command::Redrive(ids, done) => {
                let chosen = self.dead.chosen(ids);
                let _ = done.send(chosen.map(|ids| self.redrive(ids)));
            }
            Command::Drop(ids, done) => {
                let chosen = self.dead.chosen(ids);
                let dropped = chosen.map(|ids| {
                    let count = ids.len() as u64;
                    self.bury_no_more(ids);
                    self.write(true);
                    count
                });
                let _ = done.send(dropped);
            }
        }
    }

    /// Begins with a replay, if one waits. No batch is under way.
    pub(super) fn begin_replay(&mut self) {
        let Some((from, done)) = self.replay.take() else {
            return;
        };
        let before = self.next;
        self.replayed_until = before.max(self.replayed_until);
        let first = self.first_from(from);
        self.next = before.min(first);
        self.refused = self.left_out.iter().copied().collect();
        self.journal
            .note(clock::now_ms(), &Entry::Written(self.next, self.mark));
        self.write(true);
        let _ = done.send(Ok(before - self.next));
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.journal
            .note(clock::now_ms(), &Entry::Paused(is_paused));
        self.write(true);
    }

    /// Passes by what cannot be read; how many messages that are at most.
    fn skip(&mut self) -> Result<u64, String> {
        if self.stopped != Some(Stop::Damaged) {
            return Err("it has not stopped because of what cannot be read".to_owned());
        }
        let next = self.skip_damaged();
        let next = next.ok_or("what cannot be read is at the end of the log: restart weir")?;
        let skipped = next.saturating_sub(self.next);
        self.next = next.max(self.next);
        self.journal
            .note(clock::now_ms(), &Entry::Written(self.next, self.mark));
        Ok(skipped)
    }

    /// Has dead letters written after all. How many are new.
    fn redrive(&mut self, ids: Vec<u64>) -> u64 {
        let waiting: HashSet<u64> = self.redrive.waiting.iter().map(|&(id, _)| id).collect();
        let before = self.redrive.waiting.len();
        let new = ids.into_iter().filter(|id| !waiting.contains(id));
        self.redrive.waiting.extend(new.map(|id| (id, 0)));
        (self.redrive.waiting.len() - before) as u64
    }
}
