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
use crate::dead::{DEAD_MAX, DeadLetters};
use crate::group::{Command, Done};
use crate::journal::{Journal, Known};
use crate::shared::{Shared, lock};

/// Bytes of a batch, but for its last message.
const BATCH_BYTES: usize = 4 << 20;
/// How often it looks around without being woken, and makes its notes durable.
pub(super) const TURN: Duration = Duration::from_secs(1);
/// Failures in a row from which on the target counts as ill.
const ILL_FROM: u32 = 3;

/// A sink that is open.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(super) shared: Arc<Shared>,
    pub(super) consumer: Arc<Consumer>,
    pub(super) settings: SinkSettings,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) journal: Journal,
    pub(super) dead: DeadLetters,
    pub(super) cursor: Cursor,
    /// The message that is written next, and what is known of a file that it is written to.
    pub(super) next: u64,
    pub(super) mark: Mark,
    /// Messages of a batch: fewer while one of them is refused and nobody says which.
    pub(super) limit: usize,
    /// Messages behind `next` that are dead letters since it was there.
    pub(super) refused: BTreeSet<u64>,
    /// Messages that nobody was told to be kept: half of a batch, which is passed by.
    pub(super) left_out: Vec<u64>,
    pub(super) redrive: Redrive,
    /// What is before this offset was replayed, or was there before the sink: it is older than it would be otherwise.
    pub(super) replayed_until: u64,
    pub(super) is_paused: bool,
    pub(super) is_closed: bool,
    /// Why nothing is written any more, if so.
    pub(super) stopped: Option<Stop>,
    /// A replay that begins when no batch is under way: from where, and who is told.
    pub(super) replay: Option<(u64, Done)>,
    /// Whose messages they are.
    pub(super) origin: Origin,
    pub(super) failures: u32,
    /// When it is tried again, and when the rate allows the next batch.
    pub(super) again_ms: u64,
    pub(super) rated_ms: f64,
    pub(super) has_new_dead: bool,
    pub(super) looked: Option<Instant>,
}

/// Dead letters that are to be written after all.
#[derive(Debug, Default)]
pub(super) struct Redrive {
    /// Each with how often it was tried in vain.
    pub(super) waiting: VecDeque<(u64, u32)>,
    /// Whether the last attempt was with one: others have their turn.
    was_last: bool,
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
pub(super) enum Work {
    Batch(Vec<Item>),
    /// A dead letter, and how often it was tried in vain.
    Dead((u64, u32), [Item; 1]),
}

impl Work {
    pub(super) fn items(&self) -> &[Item] {
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
            refused: parts.left_out.iter().copied().collect(),
            left_out: parts.left_out,
            redrive: Redrive::default(),
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
        // Neither has to wait for the other.
        let batch = if self.redrive.was_last && !self.dead.is_full() {
            self.read()?
        } else {
            Vec::new()
        };
        if !batch.is_empty() {
            self.redrive.was_last = false;
            return Ok(Some(Work::Batch(batch)));
        }
        while let Some((id, tries)) = self.redrive.waiting.pop_front() {
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
                self.redrive.was_last = true;
                return Ok(Some(Work::Dead((id, tries), [item])));
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
}

pub(super) fn set(count: &std::sync::atomic::AtomicU64, value: u64) {
    count.store(value, Ordering::Release);
}
