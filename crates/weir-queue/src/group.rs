//! Delivery to upstreams: one thread, which reads ahead, has messages delivered by a courier, and notes what became of them.
//!
//! - [`turn`]: what wakes the thread, and the order of its steps
//! - [`begin`]: what is delivered next, [`end`]: what an outcome means, [`redrive`]: dead letters that are delivered after all
//! - [`orders`]: what is asked from outside
//! - [`shelf`]: messages that were read, [`lanes`]: upstreams and their paces, [`answers`]: what upstreams have said

mod answers;
mod begin;
mod end;
mod lanes;
mod orders;
mod redrive;
mod shelf;
mod turn;

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_gateway::service::{Courier, Outcome};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Cursor, Error};

use crate::claims::Claimed;
use crate::clock;
use crate::consumer::Consumer;
use crate::dead::{DEAD_SHOWN, DeadLetters};
use crate::journal::{Journal, Known};
use crate::message::Message;
use crate::progress::{Bounds, Checkpoint, Progress};
use crate::ranges::Ranges;
use crate::shared::{Shared, lock};
use crate::sink::Mark;

use self::answers::Answers;
use self::lanes::Lanes;
use self::orders::Replay;
pub(crate) use self::orders::{Command, Done};
use self::redrive::Redrive;
pub(crate) use self::shelf::Kept;
use self::shelf::Shelf;

/// Messages that are read in a turn.
const READ_IN_TURN: usize = 256;
/// Milliseconds after which outcomes are written, and after which they are made durable.
const WRITE_EVERY_MS: u64 = 10;
const SYNC_EVERY_MS: u64 = 1000;
/// How long it gives up messages in a turn.
const GIVE_UP_FOR: Duration = Duration::from_millis(200);
/// The longest wait that a message has from before a restart, besides the longest backoff.
const DUE_IN_MAX_MS: u64 = 3_600_000;

/// The group.
#[derive(Debug)]
pub(crate) struct Group {
    shared: Arc<Shared>,
    consumer: Arc<Consumer>,
    courier: Courier,
    /// Of messages that come from Kafka: those that are ours.
    claimed: Option<Arc<Claimed>>,
    commands: mpsc::Receiver<Command>,
    journal: Journal,
    dead: DeadLetters,
    /// Messages that were dropped as dead letters, by the offsets that they had.
    dropped: Ranges,
    progress: Progress,
    shelf: Shelf,
    lanes: Lanes,
    keys: RandomState,
    /// What has failed before.
    failed: HashMap<u64, Failed>,
    redrive: Redrive,
    replay: Option<Replay>,
    /// What is before this offset was replayed: it is older than it would be otherwise.
    replayed_until: u64,
    is_paused: bool,
    /// Dead letters have come or gone since they were shown.
    has_new_dead: bool,
    /// Why nothing is delivered any more, if so, and what cannot be read if it is that.
    stopped: Option<String>,
    damaged: Option<Damaged>,
    answers: Answers,
    written_ms: u64,
    synced_ms: u64,
    /// The journal could not be written, and is not tried again before this time.
    unwritten_until_ms: u64,
}

/// A message that has failed.
#[derive(Debug, Clone, Copy)]
struct Failed {
    /// How often, since the start.
    times: u32,
    /// How many others had been delivered to the same upstream when that was over.
    delivered: u64,
}

/// What cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damaged {
    /// What comes next.
    Ahead,
    /// A message that was read before.
    Message(u64),
}

/// What is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Message { offset: u64, attempts: u32 },
    Dead { id: u64 },
}

/// A delivery that is under way.
#[derive(Debug, Clone, Copy)]
struct Begun {
    which: Which,
    lane: usize,
    /// How many had been delivered to the same upstream when it began.
    delivered: u64,
}

type UnderWay = JoinSet<(Begun, Outcome)>;

/// What a group is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) courier: Courier,
    pub(crate) claimed: Option<Arc<Claimed>>,
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
        let latest_ms = clock::now_ms()
            + DUE_IN_MAX_MS.max(settings.delivery.retry.backoff_max.as_millis() as u64);
        // The clock may have been wrong when they were noted.
        let mut checkpoint = parts.known.checkpoint;
        for (_, _, due_ms) in &mut checkpoint.tried {
            *due_ms = latest_ms.min(*due_ms);
        }
        let progress = Progress::new(Bounds::default(), &checkpoint);
        let mut shelf = Shelf::new(parts.ahead, parts.behind);
        shelf.go_to(progress.read());
        let group = Self {
            shared: parts.shared,
            consumer: parts.consumer,
            courier: parts.courier,
            claimed: parts.claimed,
            commands: parts.commands,
            journal: parts.journal,
            dead: parts.dead,
            dropped: Ranges::of(parts.known.dropped),
            progress,
            shelf,
            lanes: Lanes::default(),
            keys: RandomState::new(),
            failed: HashMap::new(),
            redrive: Redrive::default(),
            replay: None,
            replayed_until: 0,
            is_paused: parts.known.is_paused,
            has_new_dead: true,
            stopped: None,
            damaged: None,
            answers: Answers::default(),
            written_ms: 0,
            synced_ms: 0,
            unwritten_until_ms: 0,
        };
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
                Err(error) => return self.stop_damaged(&error, Damaged::Ahead),
            }
        }
        // The rest has its turn.
        self.consumer.wakes.notify_one();
    }

    fn read_next(&mut self) -> Result<bool, Error> {
        let Self {
            shelf,
            progress,
            lanes,
            keys,
            ..
        } = self;
        // Before it is read: what is there by then was read, or is nothing.
        let ends = self.shared.counts.readable.load(Ordering::Acquire);
        let is_wanted = |offset| progress.is_settled(offset).is_none();
        let Some((offset, head)) = shelf.read_next(is_wanted)? else {
            progress.pass_to(ends);
            return Ok(false);
        };
        let message = Message::read(&head);
        let key = message.and_then(|message| message.key);
        let upstream = message.map_or("", |message| message.upstream);
        let lane = lanes.of(upstream);
        progress.offer(offset, key.map(|key| keys.hash_one(key)), lane);
        if progress.is_settled(offset) == Some(true) {
            shelf.drop_one(offset);
        }
        Ok(true)
    }

    /// Nothing is delivered any more until somebody has seen to it.
    fn stop(&mut self, why: &dyn Display) {
        let name = &self.shared.settings().name;
        tell(
            Level::Error,
            format_args!("queue {name} delivers nothing: {why}"),
        );
        let why = why.to_string();
        self.consumer.stop(why.clone());
        self.stopped = Some(why);
    }

    /// The same for what may be passed by.
    fn stop_damaged(&mut self, error: &Error, damaged: Damaged) {
        if matches!(error, Error::Damaged(_)) {
            self.damaged = Some(damaged);
        }
        self.stop(error);
    }

    /// Goes on after a stop.
    fn resume(&mut self) {
        self.stopped = None;
        self.damaged = None;
        self.consumer.go_on();
    }

    /// Goes on as if this were what is known.
    fn begin_anew(&mut self, checkpoint: &Checkpoint) {
        self.progress = Progress::new(Bounds::default(), checkpoint);
        self.shelf.clear();
        self.shelf.go_to(self.progress.read());
        self.failed.clear();
        // Otherwise a restart would know nothing of it.
        self.journal.forget();
    }

    /// Writes what was noted, when it is time. `is_all`: whether it is time or not.
    fn write(&mut self, is_all: bool) {
        let now_ms = clock::now_ms();
        let is_time = now_ms.saturating_sub(self.written_ms) >= WRITE_EVERY_MS
            && now_ms >= self.unwritten_until_ms;
        if is_all || is_time {
            self.written_ms = now_ms;
            let Self {
                journal,
                progress,
                dead,
                dropped,
                is_paused,
                ..
            } = self;
            let known = || Known {
                checkpoint: progress.checkpoint(),
                gone: dead.gone(),
                dropped: dropped.iter().collect(),
                is_paused: *is_paused,
                mark: Mark::default(),
            };
            if let Err(error) = journal.write(now_ms, known) {
                // What is delivered makes room: to wait for that would be to wait for ever.
                self.unwritten_until_ms = now_ms + SYNC_EVERY_MS;
                if !error.is_full() && self.stopped.is_none() {
                    self.stop(&error);
                }
            }
            self.publish();
        }
        if is_all || now_ms.saturating_sub(self.synced_ms) >= SYNC_EVERY_MS {
            self.synced_ms = now_ms;
            if let Err(error) = self.journal.sync()
                && self.stopped.is_none()
            {
                self.stop(&error);
            }
        }
    }

    /// Shows others where it is.
    fn publish(&self) {
        let counts = &self.consumer;
        let set =
            |count: &std::sync::atomic::AtomicU64, value| count.store(value, Ordering::Relaxed);
        set(&counts.consumed, self.progress.low());
        set(&counts.settled_ahead, self.progress.settled_ahead());
        set(&counts.dead, self.dead.len() as u64);
        set(&counts.dead_bytes, self.dead.bytes());
        counts.is_paused.store(self.is_paused, Ordering::Relaxed);
        let is_ill = self.lanes.ill().any(|lane| self.progress.held_in(lane) > 0);
        counts.is_ill.store(is_ill, Ordering::Relaxed);
    }

    /// Once a second: what has waited too long for an upstream that fails is given up, however rarely that is asked.
    fn give_up_old(&mut self) {
        let until = clock::monotonic() + GIVE_UP_FOR;
        let settings = self.shared.settings();
        let age_max_ms = settings.delivery.retry.age_max.as_millis() as u64;
        while clock::monotonic() < until && self.stopped.is_none() {
            let low = self.progress.low();
            let is_waiting_in = |lane| self.progress.is_waiting_in(low, lane);
            if !self.lanes.ill().any(is_waiting_in) {
                return;
            }
            let Ok(Some(kept)) = self.shelf.fetch(low) else {
                return;
            };
            let now_ms = clock::now_ms();
            let expires_ms = Message::read(&kept.head).map_or(0, |message| message.expires_ms);
            let reason = match () {
                () if expires_ms > 0 && expires_ms <= now_ms => "expired",
                () if now_ms.saturating_sub(kept.time_ms) > age_max_ms => "age",
                () => return,
            };
            let times = self.failed.get(&low).map_or(0, |failed| failed.times);
            let error = lock(&self.consumer.last_error).clone().unwrap_or_default();
            if let Err(error) = self.bury((low, times), &kept, reason, &error) {
                if !error.is_full() {
                    self.stop(&error);
                }
                return;
            }
        }
    }

    /// Shows what takes a look at the disk: when the oldest message came that is not settled, and the newest dead letters.
    fn show(&mut self) {
        if std::mem::take(&mut self.has_new_dead) {
            *lock(&self.consumer.newest_dead) = self.dead.newest(DEAD_SHOWN);
        }
        // What is replayed is no sign of a target that is late.
        let oldest = self.progress.low().max(self.replayed_until);
        let time_ms = match self.shelf.fetch(oldest) {
            Ok(Some(kept)) => kept.time_ms,
            _ => 0,
        };
        self.consumer.oldest_ms.store(time_ms, Ordering::Relaxed);
    }
}
