//! The thread of a sink: a batch at a time, in the order of the log.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Cursor, Error};

use super::{Connection, Item, Mark, Origin, SinkSettings, Trouble};
use crate::clock;
use crate::consumer::Consumer;
use crate::dead::{DEAD_MAX, DEAD_SHOWN, DeadLetters, Death};
use crate::group::{Command, Done};
use crate::journal::{Entry, Journal, Known};
use crate::progress::Checkpoint;
use crate::shared::{Shared, add, lock};

/// Bytes of a batch, but for its last message.
const BATCH_BYTES: usize = 4 << 20;
/// How often it looks around without being woken, and makes its notes durable.
const TURN: Duration = Duration::from_secs(1);
/// Waits after attempts that failed: the first, and the longest.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 15_000;
/// Failures in a row from which on the target counts as ill.
const ILL_FROM: u32 = 3;
/// Characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 500;

/// A sink that is open.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(super) shared: Arc<Shared>,
    pub(super) consumer: Arc<Consumer>,
    settings: SinkSettings,
    commands: mpsc::Receiver<Command>,
    pub(super) journal: Journal,
    pub(super) dead: DeadLetters,
    cursor: Cursor,
    /// The message that is written next, and what is known of a file that it is written to.
    pub(super) next: u64,
    pub(super) mark: Mark,
    /// Messages of a batch: fewer while one of them is refused and nobody says which.
    limit: usize,
    /// Messages behind `next` that are dead letters since it was there.
    pub(super) refused: BTreeSet<u64>,
    /// Dead letters that are to be written after all.
    pub(super) redrive: VecDeque<u64>,
    /// What is before this offset was replayed, or was there before the sink: it is older than it would be otherwise.
    pub(super) replayed_until: u64,
    pub(super) is_paused: bool,
    pub(super) is_closed: bool,
    /// Why nothing is written any more, if so.
    pub(super) stopped: Option<Stop>,
    /// A replay that begins when no batch is under way: from where, and who is told.
    pub(super) replay: Option<(u64, Done)>,
    /// Whose messages they are.
    origin: Origin,
    failures: u32,
    /// When it is tried again, and when the rate allows the next batch.
    again_ms: u64,
    rated_ms: f64,
    pub(super) has_new_dead: bool,
    looked: Option<Instant>,
}

/// Why a sink writes nothing until somebody has seen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The log cannot be read.
    Damaged,
    Else,
}

/// What a sink is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) settings: SinkSettings,
    pub(crate) origin: Origin,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) journal: Journal,
    pub(crate) known: Known,
    pub(crate) dead: DeadLetters,
    pub(crate) cursor: Cursor,
    /// Messages that nobody was told to be kept.
    pub(crate) left_out: Vec<u64>,
    /// See [`Sink::replayed_until`].
    pub(crate) replayed_until: u64,
}

/// What is written at once.
#[derive(Debug)]
enum Work {
    Batch(Vec<Item>),
    /// A dead letter.
    Dead(u64, [Item; 1]),
}

impl Work {
    fn items(&self) -> &[Item] {
        match self {
            Self::Batch(items) => items,
            Self::Dead(_, item) => item,
        }
    }
}

impl Sink {
    pub(crate) fn new(parts: Parts) -> Self {
        let limit = parts.settings.batch.max(1) as usize;
        let mut sink = Self {
            shared: parts.shared,
            consumer: parts.consumer,
            settings: parts.settings,
            commands: parts.commands,
            journal: parts.journal,
            dead: parts.dead,
            cursor: parts.cursor,
            next: parts.known.checkpoint.low,
            mark: parts.known.mark,
            limit,
            refused: parts.left_out.into_iter().collect(),
            redrive: VecDeque::new(),
            replayed_until: parts.replayed_until,
            is_paused: parts.known.is_paused,
            is_closed: false,
            stopped: None,
            replay: None,
            origin: parts.origin,
            failures: 0,
            again_ms: 0,
            rated_ms: 0.0,
            has_new_dead: true,
            looked: None,
        };
        // What is older than the log is nothing to wait for.
        let noted = sink.next;
        sink.next = sink.first_from(noted);
        if sink.next > noted {
            // What is behind the mark of a file may be what the log has no more.
            sink.mark = Mark::default();
        }
        sink.publish();
        sink
    }

    /// Writes batches until the queue is closed.
    pub(crate) async fn run(mut self, mut connection: Connection) {
        while !self.is_closed {
            let wanted = lock(&self.consumer.wanted).take();
            if let Some(settings) = wanted {
                self.follow(settings, &mut connection);
            }
            self.begin_replay();
            let work = self.work();
            match work {
                Ok(Some(work)) => {
                    self.attempt(&mut connection, work).await;
                    self.write(false);
                }
                Ok(None) => self.wait().await,
                Err(error) => {
                    self.stop(&error);
                    if matches!(error, Error::Damaged(_)) {
                        self.stopped = Some(Stop::Damaged);
                    }
                }
            }
            self.look_around();
        }
        self.write(true);
    }

    /// What is to be written now, if anything is.
    fn work(&mut self) -> Result<Option<Work>, Error> {
        let now_ms = clock::now_ms();
        let waits = now_ms < self.again_ms || (now_ms as f64) < self.rated_ms;
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        if self.is_paused || self.stopped.is_some() || is_draining || waits {
            return Ok(None);
        }
        while let Some(id) = self.redrive.pop_front() {
            let exhumed = self.dead.exhume(id).unwrap_or_else(|error| {
                // It stays where it is, and what waits goes on.
                *lock(&self.consumer.last_error) = Some(error.to_string());
                None
            });
            if let Some(kept) = exhumed {
                let item = Item {
                    offset: self.dead.offset(id).unwrap_or_default(),
                    time_ms: kept.time_ms,
                    envelope: kept.head,
                    body: kept.body,
                };
                return Ok(Some(Work::Dead(id, [item])));
            }
        }
        if self.dead.is_full() {
            self.stop(&format!(
                "it has {DEAD_MAX} dead letters; have them delivered or drop them, and resume"
            ));
            return Ok(None);
        }
        let batch = self.read()?;
        Ok((!batch.is_empty()).then_some(Work::Batch(batch)))
    }

    /// The messages that come next, without those that were refused.
    fn read(&mut self) -> Result<Vec<Item>, Error> {
        // Before it is read: what is there by then was read, or is nothing.
        let ends = self.shared.counts.readable.load(Ordering::Acquire);
        let mut batch: Vec<Item> = Vec::new();
        let mut bytes = 0;
        self.cursor.go_to(self.next);
        let rate = self
            .settings
            .rate
            .map_or(usize::MAX, |rate| rate.ceil() as usize);
        let most = self.limit.min(rate.max(1));
        while batch.len() < most && bytes < BATCH_BYTES {
            let read = match self.cursor.read() {
                Ok(read) => read,
                // What is before it is written first.
                Err(_) if !batch.is_empty() => break,
                Err(error) => return Err(error),
            };
            let Some(record) = read else {
                if batch.is_empty() && ends > self.next {
                    // Nothing is there, or it was refused.
                    self.next = ends;
                    self.refused.clear();
                    self.publish();
                }
                break;
            };
            if self.refused.contains(&record.offset) {
                continue;
            }
            let item = Item {
                offset: record.offset,
                time_ms: record.time_ms,
                envelope: record.head.to_vec(),
                body: record.body.to_vec(),
            };
            bytes += item.bytes();
            batch.push(item);
        }
        Ok(batch)
    }

    /// Writes what is to be written, and does meanwhile what is asked.
    async fn attempt(&mut self, connection: &mut Connection, work: Work) {
        let items = work.items();
        self.consumer.is_noted.store(false, Ordering::Release);
        set(&self.consumer.under_way, items.len() as u64);
        if let (Work::Batch(_), Some(first)) = (&work, items.first())
            && first.offset >= self.replayed_until
        {
            set(&self.consumer.oldest_ms, first.time_ms);
        }
        let within = self.settings.timeout;
        let over = sleep_until(Instant::now() + within);
        let written = {
            let mut writing = pin!(connection.write(items));
            let mut over = pin!(over);
            poll_fn(|cx| {
                if let Poll::Ready(written) = writing.as_mut().poll(cx) {
                    return Poll::Ready(Some(written));
                }
                while let Poll::Ready(command) = self.commands.poll_recv(cx) {
                    let Some(command) = command else {
                        self.is_closed = true;
                        return Poll::Ready(None);
                    };
                    self.obey(command);
                }
                over.as_mut().poll(cx).map(|()| {
                    let why = format!("there was no answer within {within:?}");
                    Some(Err(Trouble::Away(why)))
                })
            })
            .await
        };
        if matches!(written, None | Some(Err(Trouble::Away(_)))) {
            connection.reset();
        }
        // Otherwise nobody knows what became of it, and it is written again after a restart.
        if let Some(written) = written {
            self.end(work, written);
        }
        self.consumer.under_way.store(0, Ordering::Release);
    }

    /// An attempt is over.
    fn end(&mut self, work: Work, written: Result<Mark, Trouble>) {
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
                    Work::Dead(id, _) => self.redrive.push_front(id),
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
            Work::Dead(id, _) => self.bury_no_more(vec![*id]),
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

    /// Waits until there may be something to do.
    async fn wait(&mut self) {
        if self.shared.is_draining.load(Ordering::Acquire)
            && !self.consumer.is_noted.load(Ordering::Acquire)
        {
            self.write(true);
            self.consumer.is_noted.store(true, Ordering::Release);
        }
        let now_ms = clock::now_ms();
        let at_ms = self.again_ms.max(self.rated_ms.ceil() as u64);
        let wait = Duration::from_millis(at_ms.saturating_sub(now_ms));
        let wait = if wait.is_zero() { TURN } else { wait.min(TURN) };
        let mut over = pin!(sleep_until(Instant::now() + wait));
        let consumer = Arc::clone(&self.consumer);
        let mut woken = pin!(consumer.wakes.notified());
        poll_fn(|cx| {
            match self.commands.poll_recv(cx) {
                Poll::Ready(Some(command)) => self.obey(command),
                Poll::Ready(None) => self.is_closed = true,
                Poll::Pending => {
                    let is_woken = woken.as_mut().poll(cx).is_ready();
                    let is_over = Pin::as_mut(&mut over).poll(cx).is_ready();
                    return if is_woken || is_over {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    };
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Once a second: shows what takes a look at the disk, and makes the notes durable.
    fn look_around(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < TURN) {
            return;
        }
        self.looked = Some(Instant::now());
        if std::mem::take(&mut self.has_new_dead) {
            *lock(&self.consumer.newest_dead) = self.dead.newest(DEAD_SHOWN);
        }
        // What is replayed, or was there before the sink, is no sign of a target that is late.
        self.cursor.go_to(self.next.max(self.replayed_until));
        let first = self.cursor.read().ok().flatten();
        let oldest_ms = first.map_or(0, |record| record.time_ms);
        set(&self.consumer.oldest_ms, oldest_ms);
        self.write(true);
    }

    /// Writes what was noted; durably if it is all.
    pub(super) fn write(&mut self, is_all: bool) {
        let Self {
            journal,
            dead,
            next,
            mark,
            is_paused,
            ..
        } = self;
        let known = || Known {
            checkpoint: Checkpoint {
                low: *next,
                ..Checkpoint::default()
            },
            gone: dead.gone(),
            dropped: Vec::new(),
            is_paused: *is_paused,
            mark: *mark,
        };
        let mut written = Ok(());
        if journal.has_unwritten() {
            written = journal.write(clock::now_ms(), known);
        }
        if is_all {
            written = written.and_then(|()| journal.sync());
        }
        if let Err(error) = written
            && !error.is_full()
            && self.stopped.is_none()
        {
            self.stop(&error);
        }
        self.publish();
    }

    /// Nothing is written any more until somebody has seen to it.
    pub(super) fn stop(&mut self, why: &dyn Display) {
        let queue = &self.shared.settings().name;
        let sink = &self.settings.name;
        tell(
            Level::Error,
            format_args!("queue {queue}: its sink {sink} writes nothing: {why}"),
        );
        self.consumer.stop(why.to_string());
        self.stopped = Some(Stop::Else);
    }

    /// Passes by what cannot be read.
    pub(super) fn skip_damaged(&mut self) -> Option<u64> {
        self.cursor.go_to(self.next);
        self.cursor.skip_damaged()
    }

    pub(super) fn is_ill(&self) -> bool {
        self.failures >= ILL_FROM
    }

    /// The offset of the first message of this time or later.
    pub(super) fn offset_at(&mut self, time_ms: u64) -> Result<u64, Error> {
        self.cursor.go_to(0);
        self.cursor.go_to_time(time_ms)?;
        Ok(self.cursor.offset())
    }

    /// Other settings hold from the next batch on.
    fn follow(&mut self, settings: SinkSettings, connection: &mut Connection) {
        if settings != self.settings {
            self.again_ms = 0;
            self.failures = 0;
            match Connection::new(&settings, &self.origin, self.mark) {
                Ok(other) => *connection = other,
                Err(why) => self.stop(&why),
            }
        }
        self.limit = settings.batch.max(1) as usize;
        self.rated_ms = 0.0;
        self.settings = settings;
    }

    /// The offset of the first message from this one on, or this one.
    pub(super) fn first_from(&mut self, offset: u64) -> u64 {
        self.cursor.go_to(offset);
        let first = self.cursor.read().ok().flatten();
        first.map_or(offset, |record| record.offset)
    }

    /// Goes on after a stop, at once.
    pub(super) fn go_on(&mut self) {
        self.stopped = None;
        self.again_ms = 0;
        self.consumer.go_on();
    }

    /// Shows others where it is.
    pub(super) fn publish(&self) {
        let consumer = &self.consumer;
        set(&consumer.consumed, self.next);
        set(&consumer.dead, self.dead.len() as u64);
        set(&consumer.dead_bytes, self.dead.bytes());
        consumer.is_paused.store(self.is_paused, Ordering::Relaxed);
        consumer.is_ill.store(self.is_ill(), Ordering::Relaxed);
    }
}

/// What an error says, without all of what a client has sent.
fn shortened(why: &str) -> String {
    why.chars().take(ERROR_CHARS_MAX).collect()
}

fn set(count: &std::sync::atomic::AtomicU64, value: u64) {
    count.store(value, Ordering::Release);
}
