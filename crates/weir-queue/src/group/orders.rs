//! What is asked of a group from outside its thread.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::sync::oneshot;
use weir_gateway::service::Replier;

use super::{Damaged, Group, UnderWay};
use crate::clock;
use crate::dead::DeadLetter;
use crate::journal::Entry;
use crate::outcome::said;

/// An order, with who is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// What became of a message.
    State(u64, Replier),
    Pause(Done),
    /// Goes on, and passes by what cannot be read if so.
    Resume(bool, Done),
    /// Deliver again, from this offset on.
    ReplayFrom(u64, Done),
    /// The same, from this time on.
    ReplaySince(u64, Done),
    /// Dead letters from this number on, so many.
    Dead(u64, usize, oneshot::Sender<Result<Vec<DeadLetter>, String>>),
    /// Deliver dead letters after all: these, or every one.
    Redrive(Option<Vec<u64>>, Done),
    /// Drop them.
    Drop(Option<Vec<u64>>, Done),
}

/// Who is told how many messages it was about, or what is wrong.
pub(crate) type Done = oneshot::Sender<Result<u64, String>>;

/// A replay that begins when nothing is under way any more, so that nothing is overtaken by what comes then.
#[derive(Debug)]
pub(super) struct Replay {
    from: u64,
    done: Done,
}

impl Group {
    /// Who has left does not want to know any more, so nobody minds when a sender finds nobody.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::State(offset, replier) => {
                let state = format!("{}\n", self.state(offset));
                replier.answer(said(200, state));
            }
            Command::Pause(done) => {
                self.set_paused(true);
                let _ = done.send(Ok(0));
            }
            Command::Resume(is_to_skip, done) => {
                let skipped = if is_to_skip { self.skip() } else { Ok(0) };
                if skipped.is_ok() {
                    self.resume();
                    self.set_paused(false);
                }
                let _ = done.send(skipped);
            }
            Command::ReplayFrom(_, done) | Command::ReplaySince(_, done)
                if self.replay.is_some() =>
            {
                let _ = done.send(Err("another replay is about to begin".to_owned()));
            }
            Command::ReplayFrom(from, done) => self.replay = Some(Replay { from, done }),
            Command::ReplaySince(since_ms, done) => match self.shelf.offset_at(since_ms) {
                Ok(from) => self.replay = Some(Replay { from, done }),
                Err(error) => {
                    let _ = done.send(Err(error.to_string()));
                }
            },
            Command::Dead(from, count, reply) => {
                let _ = reply.send(self.dead.page(from, count));
            }
            Command::Redrive(ids, done) => {
                let _ = done.send(self.redrive(ids));
            }
            Command::Drop(ids, done) => {
                let _ = done.send(self.drop_dead(ids));
            }
        }
    }

    /// Begins with a replay if one waits and its time has come.
    pub(super) fn begin_replay(&mut self, under_way: &UnderWay) {
        if !under_way.is_empty() {
            return;
        }
        let Some(Replay { from, done }) = self.replay.take() else {
            return;
        };
        let low = self.progress.low();
        let before = self.progress.settled_ahead() + low;
        let checkpoint = self.progress.replayed(from);
        self.replayed_until = low.max(self.replayed_until);
        self.begin_anew(&checkpoint);
        let after = self.progress.settled_ahead() + self.progress.low();
        self.write(true);
        let _ = done.send(Ok(before.saturating_sub(after)));
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.journal
            .note(clock::now_ms(), &Entry::Paused(is_paused));
        self.write(true);
    }

    /// Passes by what cannot be read; how many messages that are at most.
    fn skip(&mut self) -> Result<u64, String> {
        match self.damaged {
            None => Err("it has not stopped because of what cannot be read".to_owned()),
            Some(Damaged::Message(offset)) => {
                self.settle(offset);
                Ok(1)
            }
            Some(Damaged::Ahead) => {
                let read = self.progress.read();
                let next = self.shelf.skip_damaged();
                let next =
                    next.ok_or("what cannot be read is at the end of the log: restart weir")?;
                Ok(next.saturating_sub(read))
            }
        }
    }

    fn redrive(&mut self, ids: Option<Vec<u64>>) -> Result<u64, String> {
        let mut count = 0;
        for id in self.dead.chosen(ids)? {
            // It is read again when its turn comes.
            let upstream = self.dead.show(id).map_err(|error| error.to_string())?;
            if let Some(letter) = upstream {
                let lane = self.lanes.of(&letter.upstream);
                count += u64::from(self.redrive.add(id, lane, letter.key));
            }
        }
        Ok(count)
    }

    fn drop_dead(&mut self, ids: Option<Vec<u64>>) -> Result<u64, String> {
        let ids = self.dead.chosen(ids)?;
        let offsets = ids.iter().filter_map(|&id| self.dead.offset(id));
        let offsets: Vec<u64> = offsets.collect();
        for &offset in &offsets {
            self.dropped.insert(offset, offset + 1);
        }
        for &id in &ids {
            self.redrive.remove(id);
            self.dead.remove(id);
        }
        self.has_new_dead = true;
        let (count, now_ms) = (ids.len() as u64, clock::now_ms());
        self.journal.note(now_ms, &Entry::Dropped(offsets));
        self.journal.note(now_ms, &Entry::Gone(ids));
        self.write(true);
        Ok(count)
    }

    /// What became of a message.
    fn state(&self, offset: u64) -> serde_json::Value {
        let is_dead = self.dead.of(offset).is_some() || self.dropped.contains(offset);
        let state = match self.progress.is_settled(offset) {
            _ if is_dead => "failed",
            Some(true) => "delivered",
            Some(false) | None => "pending",
        };
        let mut said = json!({ "offset": offset, "state": state });
        if let Some((status, body)) = self.answers.of(offset) {
            said["status"] = json!(status);
            said["answer"] = json!(String::from_utf8_lossy(body));
        }
        for consumer in self.shared.consumers() {
            if let Some(sink) = &consumer.sink {
                let is_behind = consumer.consumed.load(Ordering::Relaxed) <= offset;
                let state = if is_behind { "pending" } else { "settled" };
                said["sinks"][sink] = json!(state);
            }
        }
        said
    }
}
