//! Delivery to upstreams: one thread, which reads ahead, has messages delivered by a courier, and notes what became of them.

mod turn;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use weir_gateway::service::{Courier, Outcome, Replier};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Cursor, Error};

use crate::clock;
use crate::dead::{DeadLetter, DeadLetters, Death, Exhumed};
use crate::journal::{Entry, Journal, Known};
use crate::message::Message;
use crate::pace::{May, Pace};
use crate::progress::{Bounds, Checkpoint, Progress};
use crate::retry::{Verdict, describe, judge};
use crate::shared::{Shared, add, lock};

/// Bytes of messages that are kept in memory because they are delivered next; others are read again.
const AHEAD_BYTES_MAX: usize = 8 << 20;
/// Messages that are read in a turn.
const READ_IN_TURN: usize = 256;
/// How long a message waits that could not be tried.
const UNTRIED_MS: u64 = 1000;
/// The longest wait after an attempt that says nothing about the message.
const UNCOUNTED_MAX: Duration = Duration::from_secs(30);
/// Answers that are kept, and their bytes in all.
const ANSWERS_MAX: usize = 10_000;
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Dead letters that are shown.
const DEAD_SHOWN: usize = 5;
/// Milliseconds after which outcomes are written, and after which they are made durable.
const WRITE_EVERY_MS: u64 = 10;
const SYNC_EVERY_MS: u64 = 1000;

/// What is asked of a group from outside its thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// What became of a message.
    State(u64, Replier),
    Pause(bool, Done),
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

/// The group.
#[derive(Debug)]
pub(crate) struct Group {
    shared: Arc<Shared>,
    courier: Courier,
    commands: mpsc::Receiver<Command>,
    journal: Journal,
    dead: DeadLetters,
    progress: Progress,
    pace: Pace,
    /// Reads ahead, and what was read before.
    ahead: Cursor,
    behind: Cursor,
    keys: RandomState,
    /// Messages that are here, and their bytes.
    here: HashMap<u64, Kept>,
    here_bytes: usize,
    /// What has failed before.
    failed: HashMap<u64, Failed>,
    delivered: u64,
    /// Dead letters that are to be delivered.
    redrive: VecDeque<u64>,
    is_paused: bool,
    /// Dead letters have come or gone since they were shown.
    has_new_dead: bool,
    /// Why nothing is delivered any more, if so.
    stopped: Option<String>,
    answers: Answers,
    written_ms: u64,
    synced_ms: u64,
}

/// A message in memory.
#[derive(Debug)]
struct Kept {
    time_ms: u64,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// A message that has failed.
#[derive(Debug, Clone, Copy)]
struct Failed {
    /// How often, since the start.
    times: u32,
    /// How many others had been delivered then.
    delivered: u64,
}

/// What is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Message { offset: u64, attempts: u32 },
    Dead { id: u64 },
}

type UnderWay = JoinSet<(Which, Outcome)>;

/// What upstreams have answered, the newest.
#[derive(Debug, Default)]
struct Answers {
    by_offset: HashMap<u64, (u16, Vec<u8>)>,
    order: VecDeque<u64>,
    bytes: usize,
}

/// What a group is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) courier: Courier,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) journal: Journal,
    pub(crate) known: Known,
    pub(crate) dead: DeadLetters,
    pub(crate) ahead: Cursor,
    pub(crate) behind: Cursor,
}

impl Group {
    pub(crate) fn new(parts: Parts) -> Self {
        let settings = parts.shared.settings();
        let delivery = &settings.delivery;
        let progress = Progress::new(Bounds::default(), &parts.known.checkpoint);
        let mut group = Self {
            shared: parts.shared,
            courier: parts.courier,
            commands: parts.commands,
            journal: parts.journal,
            dead: parts.dead,
            pace: Pace::new(delivery.concurrency, delivery.rate),
            ahead: parts.ahead,
            behind: parts.behind,
            keys: RandomState::new(),
            here: HashMap::new(),
            here_bytes: 0,
            failed: HashMap::new(),
            delivered: 0,
            redrive: VecDeque::new(),
            is_paused: parts.known.is_paused,
            has_new_dead: true,
            stopped: None,
            answers: Answers::default(),
            progress,
            written_ms: 0,
            synced_ms: 0,
        };
        group.ahead.go_to(group.progress.read());
        group.publish();
        group
    }

    /// Reads messages for as long as there is too little to do.
    fn read_ahead(&mut self) {
        for _ in 0..READ_IN_TURN {
            if self.stopped.is_some() || !self.progress.wants_more() {
                return;
            }
            match self.read_next() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.stop(&error),
            }
        }
        // The rest has its turn.
        self.shared.delivers.notify_one();
    }

    fn read_next(&mut self) -> Result<bool, Error> {
        let Some(record) = self.ahead.read()? else {
            return Ok(false);
        };
        let message = Message::read(record.head);
        let key = message.and_then(|message| message.key);
        let key = key.map(|key| self.keys.hash_one(key));
        let bytes = record.head.len() + record.body.len();
        let (offset, time_ms) = (record.offset, record.time_ms);
        if self.here_bytes + bytes <= AHEAD_BYTES_MAX && self.progress.is_settled(offset).is_none()
        {
            self.here_bytes += bytes;
            let kept = Kept {
                time_ms,
                head: record.head.to_vec(),
                body: record.body.to_vec(),
            };
            self.here.insert(offset, kept);
        }
        self.progress.offer(offset, key);
        if self.progress.is_settled(offset) == Some(true) {
            self.drop_here(offset);
        }
        Ok(true)
    }

    /// Begins with as much as the pace allows. Says when it allows more, if that is known.
    fn begin(&mut self, under_way: &mut UnderWay) -> Option<u64> {
        loop {
            if self.is_paused
                || self.stopped.is_some()
                || self.shared.is_draining.load(Ordering::Acquire)
            {
                return None;
            }
            let now_ms = clock::now_ms();
            if self.progress.is_idle() && self.redrive.is_empty() {
                match self.progress.next_due_ms() {
                    Some(due_ms) if due_ms <= now_ms => {}
                    due_ms => return due_ms,
                }
            }
            match self.pace.may_begin(under_way.len(), now_ms) {
                May::Begin => {}
                May::At(at_ms) => return Some(at_ms),
                May::Later => return None,
            }
            let begun = match self.redrive.pop_front() {
                Some(id) => self.begin_dead(id, under_way),
                None => self.begin_next(now_ms, under_way),
            };
            match begun {
                Ok(Begun::Yes) => self.pace.begin(now_ms),
                Ok(Begun::Settled) => {}
                Ok(Begun::Nothing) => return self.progress.next_due_ms(),
                Ok(Begun::Busy) => return Some(now_ms + 20),
                Err(error) => {
                    self.stop(&error);
                    return None;
                }
            }
        }
    }

    fn begin_next(&mut self, now_ms: u64, under_way: &mut UnderWay) -> Result<Begun, Error> {
        if self.dead.is_full() {
            let max = crate::dead::DEAD_MAX;
            self.stop(&format!(
                "it has {max} dead letters; have them delivered or drop them, and resume"
            ));
            return Ok(Begun::Nothing);
        }
        let Some(due) = self.progress.take(now_ms) else {
            return Ok(Begun::Nothing);
        };
        let offset = due.offset;
        let which = Which::Message {
            offset,
            attempts: due.attempts,
        };
        let kept = match self.take_here(offset)? {
            Some(kept) => kept,
            // Nobody can say any more what it was.
            None => {
                self.settle(offset);
                return Ok(Begun::Settled);
            }
        };
        let Some(message) = Message::read(&kept.head) else {
            self.bury(
                which,
                &kept,
                "refused",
                "a later version of weir has written it",
            )?;
            return Ok(Begun::Settled);
        };
        if message.upstream.is_empty() {
            self.settle(offset);
            return Ok(Begun::Settled);
        }
        if message.expires_ms > 0 && message.expires_ms <= now_ms {
            self.bury(which, &kept, "expired", "its time to live is over")?;
            return Ok(Begun::Settled);
        }
        if self.send(which, &message, &kept.body, under_way) {
            return Ok(Begun::Yes);
        }
        self.progress.give_back(offset, now_ms + 20);
        self.put_here(offset, kept);
        Ok(Begun::Busy)
    }

    fn begin_dead(&mut self, id: u64, under_way: &mut UnderWay) -> Result<Begun, Error> {
        let Some(Exhumed { head, body }) = self.dead.exhume(id)? else {
            return Ok(Begun::Settled);
        };
        let Some(message) = Message::read(&head) else {
            return Ok(Begun::Settled);
        };
        if self.send(Which::Dead { id }, &message, &body, under_way) {
            return Ok(Begun::Yes);
        }
        self.redrive.push_front(id);
        Ok(Begun::Busy)
    }

    /// An attempt is over.
    fn end(&mut self, which: Which, outcome: &Outcome) -> Result<(), Error> {
        let now_ms = clock::now_ms();
        let verdict = judge(outcome);
        match verdict {
            // Whoever says what is wrong with a request is well.
            Verdict::Delivered | Verdict::Futile => self.pace.succeeded(),
            Verdict::Again(_) | Verdict::Untried(_) => {
                self.pace.failed(now_ms, clock::random_share());
            }
        }
        let (offset, attempts) = match which {
            Which::Message { offset, attempts } => (offset, attempts),
            Which::Dead { id } => {
                self.end_dead(now_ms, id, &verdict);
                return Ok(());
            }
        };
        match verdict {
            Verdict::Delivered => {
                self.delivered += 1;
                add(&self.shared.counts.delivered, 1);
                self.keep_answer(offset, outcome);
                self.settle(offset);
            }
            Verdict::Futile => self.give_up((offset, attempts + 1), "refused", outcome)?,
            Verdict::Untried(after) => {
                let wait_ms = after.map_or(UNTRIED_MS, |after| after.as_millis() as u64);
                self.progress.give_back(offset, now_ms + wait_ms);
            }
            Verdict::Again(after) => self.again(now_ms, (offset, attempts), after, outcome)?,
        }
        Ok(())
    }

    /// A message is to be tried again, unless it was often enough.
    fn again(
        &mut self,
        now_ms: u64,
        (offset, attempts): (u64, u32),
        after: Option<Duration>,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let settings = self.shared.settings();
        let retry = &settings.delivery.retry;
        let before = self.failed.get(&offset).copied();
        let failed = Failed {
            times: before.map_or(1, |before| before.times.saturating_add(1)),
            delivered: self.delivered,
        };
        self.failed.insert(offset, failed);
        // As long as nothing else is delivered, it says nothing about this message.
        let counts = self.delivered > before.map_or(0, |before| before.delivered);
        let tried = attempts + u32::from(counts);
        if counts && tried >= retry.attempts_max {
            return self.give_up((offset, tried), "attempts", outcome);
        }
        if let Some(kept) = self.fetch(offset)?
            && now_ms.saturating_sub(kept.time_ms) > retry.age_max.as_millis() as u64
        {
            return self.give_up((offset, tried), "age", outcome);
        }
        add(&self.shared.counts.retried, 1);
        let wait = if counts {
            retry.wait(tried, clock::random_share())
        } else {
            // When the target is back, nobody waits for long.
            retry
                .wait(failed.times, clock::random_share())
                .min(UNCOUNTED_MAX)
        };
        let due_ms = now_ms + wait.max(after.unwrap_or_default()).as_millis() as u64;
        if counts {
            self.progress.again(offset, due_ms);
            let tried = Entry::Tried {
                offset,
                attempts: tried,
                due_ms,
            };
            self.journal.note(now_ms, &tried);
        } else {
            self.progress.give_back(offset, due_ms);
        }
        Ok(())
    }

    fn give_up(
        &mut self,
        (offset, attempts): (u64, u32),
        reason: &str,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let Some(kept) = self.fetch(offset)? else {
            self.settle(offset);
            return Ok(());
        };
        self.keep_answer(offset, outcome);
        self.bury(
            Which::Message { offset, attempts },
            &kept,
            reason,
            &describe(outcome),
        )
    }

    /// A message becomes a dead letter.
    fn bury(&mut self, which: Which, kept: &Kept, reason: &str, error: &str) -> Result<(), Error> {
        let Which::Message { offset, attempts } = which else {
            return Ok(());
        };
        let death = Death {
            offset,
            attempts,
            reason,
            error,
        };
        self.dead
            .bury(clock::now_ms(), death, (&kept.head, &kept.body))?;
        self.has_new_dead = true;
        add(&self.shared.counts.died, 1);
        self.settle(offset);
        Ok(())
    }

    fn end_dead(&mut self, now_ms: u64, id: u64, verdict: &Verdict) {
        match verdict {
            Verdict::Delivered => {
                add(&self.shared.counts.delivered, 1);
                self.dead.remove(id);
                self.has_new_dead = true;
                self.journal.note(now_ms, &Entry::Gone(vec![id]));
            }
            // Its place is where it is; the operator sees that it failed again.
            Verdict::Futile | Verdict::Again(_) => add(&self.shared.counts.retried, 1),
            Verdict::Untried(_) => self.redrive.push_back(id),
        }
    }

    fn settle(&mut self, offset: u64) {
        self.progress.settle(offset);
        self.journal.settled(offset);
        self.failed.remove(&offset);
        self.drop_here(offset);
    }

    /// A message, read again if it is not here.
    fn take_here(&mut self, offset: u64) -> Result<Option<Kept>, Error> {
        if let Some(kept) = self.here.remove(&offset) {
            self.here_bytes -= kept.bytes();
            return Ok(Some(kept));
        }
        self.fetch(offset)
    }

    fn fetch(&mut self, offset: u64) -> Result<Option<Kept>, Error> {
        if self.behind.offset() != offset {
            self.behind.go_to(offset);
        }
        let record = self.behind.read()?.filter(|record| record.offset == offset);
        Ok(record.map(|record| Kept {
            time_ms: record.time_ms,
            head: record.head.to_vec(),
            body: record.body.to_vec(),
        }))
    }

    fn put_here(&mut self, offset: u64, kept: Kept) {
        self.here_bytes += kept.bytes();
        self.here.insert(offset, kept);
    }

    fn drop_here(&mut self, offset: u64) {
        if let Some(kept) = self.here.remove(&offset) {
            self.here_bytes -= kept.bytes();
        }
    }

    fn keep_answer(&mut self, offset: u64, outcome: &Outcome) {
        let settings = self.shared.settings();
        if settings.delivery.answer_bytes_max == 0 {
            return;
        }
        if let Outcome::Answered(answered) = outcome {
            self.answers
                .keep(offset, answered.status, answered.body.clone());
        }
    }

    /// Nothing is delivered any more until somebody has seen to it.
    fn stop(&mut self, why: &dyn std::fmt::Display) {
        let name = &self.shared.settings().name;
        tell(
            Level::Error,
            format_args!("queue {name} delivers nothing: {why}"),
        );
        self.stopped = Some(why.to_string());
        *lock(&self.shared.stopped) = self.stopped.clone();
    }

    fn known(progress: &Progress, dead: &DeadLetters, is_paused: bool) -> Known {
        Known {
            checkpoint: progress.checkpoint(),
            gone: dead.gone(),
            is_paused,
        }
    }

    /// Writes what was noted, when it is time. `is_all`: whether it is time or not.
    fn write(&mut self, is_all: bool) {
        let now_ms = clock::now_ms();
        if is_all || now_ms.abs_diff(self.written_ms) >= WRITE_EVERY_MS {
            self.written_ms = now_ms;
            let Self {
                journal,
                progress,
                dead,
                is_paused,
                ..
            } = self;
            let known = || Self::known(progress, dead, *is_paused);
            if let Err(error) = journal.write(now_ms, known)
                && !error.is_full()
                && self.stopped.is_none()
            {
                self.stop(&error);
            }
            self.publish();
        }
        if (is_all || now_ms.abs_diff(self.synced_ms) >= SYNC_EVERY_MS) && self.stopped.is_none() {
            self.synced_ms = now_ms;
            if let Err(error) = self.journal.sync() {
                self.stop(&error);
            }
        }
    }

    /// Shows others where it is.
    fn publish(&self) {
        let counts = &self.shared.counts;
        let low = self.progress.low();
        counts.consumed.store(low, Ordering::Relaxed);
        counts
            .settled_ahead
            .store(self.progress.settled_ahead(), Ordering::Relaxed);
        counts.dead.store(self.dead.len() as u64, Ordering::Relaxed);
        counts
            .dead_bytes
            .store(self.dead.bytes(), Ordering::Relaxed);
        counts.is_paused.store(self.is_paused, Ordering::Relaxed);
        counts.is_ill.store(self.pace.is_ill(), Ordering::Relaxed);
    }

    /// Shows what takes a look at the disk: when the oldest message came that is not settled, and the newest dead letters.
    fn show(&mut self) {
        if std::mem::take(&mut self.has_new_dead) {
            let ids: Vec<u64> = self.dead.newest(DEAD_SHOWN).collect();
            let letters = ids
                .into_iter()
                .filter_map(|id| self.dead.show(id).ok().flatten());
            let letters = letters.collect();
            *lock(&self.shared.newest_dead) = letters;
        }
        let low = self.progress.low();
        let time_ms = match self.here.get(&low) {
            Some(kept) => kept.time_ms,
            None => match self.fetch(low) {
                Ok(Some(kept)) => kept.time_ms,
                _ => 0,
            },
        };
        self.shared
            .counts
            .oldest_ms
            .store(time_ms, Ordering::Relaxed);
    }
}

/// What became of beginning.
enum Begun {
    Yes,
    /// There was nothing to deliver in it.
    Settled,
    /// There is nothing.
    Nothing,
    /// The workers have enough to do.
    Busy,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl Answers {
    fn keep(&mut self, offset: u64, status: u16, body: Vec<u8>) {
        self.bytes += body.len();
        if let Some((_, before)) = self.by_offset.insert(offset, (status, body)) {
            self.bytes -= before.len();
        } else {
            self.order.push_back(offset);
        }
        while self.bytes > ANSWER_BYTES_MAX || self.order.len() > ANSWERS_MAX {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some((_, body)) = self.by_offset.remove(&oldest) {
                self.bytes -= body.len();
            }
        }
    }
}

impl Group {
    /// What became of a message.
    fn state(&self, offset: u64) -> serde_json::Value {
        let is_dead = self.dead.of(offset).is_some();
        let state = match self.progress.is_settled(offset) {
            _ if is_dead => "failed",
            Some(true) => "delivered",
            Some(false) | None => "pending",
        };
        let mut said = json!({ "offset": offset, "state": state });
        if let Some((status, body)) = self.answers.by_offset.get(&offset) {
            said["status"] = json!(status);
            said["answer"] = json!(String::from_utf8_lossy(body));
        }
        said
    }

    /// Delivers again what the log still has.
    fn replay_from(&mut self, from: u64) -> u64 {
        let ends = self.shared.counts.next.load(Ordering::Acquire);
        let from = from.min(self.progress.low());
        let checkpoint = Checkpoint {
            low: from,
            ..Checkpoint::default()
        };
        self.progress = Progress::new(Bounds::default(), &checkpoint);
        self.ahead.go_to(from);
        self.here.clear();
        self.here_bytes = 0;
        self.failed.clear();
        ends.saturating_sub(from)
    }
}
