//! What a queue in Kafka fetches of its topic, to be delivered.
//!
//! ```text
//! topic ──► [`Fetcher`]: a member of a group ──► kafka/log ──► the group that delivers
//!   ▲                                                              │
//!   └──── commits: what is settled, and what is so out of turn ◄───┘
//! ```
//!
//! Records become messages of a log of their own, which is read by what delivers as any other. It is no place to keep anything:
//! after a restart it begins anew, with what the group has not committed. What is fetched and not settled has a bound, beyond which
//! nothing more is fetched; the rest waits in Kafka.

mod record;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Error, Log};

use self::record::{envelope, nothing};
use crate::claims::{Claimed, Claims};
use crate::clock;
use crate::settings::KafkaQueue;
use crate::shared::{Shared, lock};
use crate::sink::kafka;

/// How long it waits for a record: as long as it takes to notice that it is to end.
const POLL: Duration = Duration::from_millis(100);
/// Records that are taken in a turn.
const TURN: usize = 1000;
const TURN_BYTES: usize = 4 << 20;
/// Messages that are fetched and not settled, beyond which no more are; and below which it goes on.
const OPEN_MAX: usize = 100_000;
const OPEN_AGAIN: usize = 99_000;
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// How long it tries at the end.
const COMMITTED_AT_LAST: Duration = Duration::from_secs(5);
/// How long a broker may take to say what is committed.
const COMMITTED_WITHIN: Duration = Duration::from_secs(10);
/// How long it waits before it begins anew.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The thread that fetches.
pub(crate) struct Fetcher {
    settings: KafkaQueue,
    shared: Arc<Shared>,
    log: Log,
    claimed: Arc<Claimed>,
    is_closed: Arc<AtomicBool>,
    /// What it is called in its group, the same after a restart.
    member: String,
    is_held: bool,
    /// What was told last to be wrong.
    told: String,
}

/// What it is made of.
pub(crate) struct Parts {
    pub(crate) settings: KafkaQueue,
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
    pub(crate) claimed: Arc<Claimed>,
    pub(crate) is_closed: Arc<AtomicBool>,
    pub(crate) member: String,
}

/// What librdkafka tells by the way.
struct Context {
    shared: Arc<Shared>,
    claimed: Arc<Claimed>,
    has_failed: AtomicBool,
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {
        // What matters of it comes as an error too.
    }

    fn error(&self, _: KafkaError, reason: &str) {
        self.note(reason);
    }
}

impl Context {
    fn note(&self, why: &str) {
        for consumer in self.shared.consumers() {
            *lock(&consumer.last_error) = Some(format!("Kafka: {why}"));
        }
    }

    /// Commits what has changed; whether that was taken, or sent where nobody waits for it.
    fn commit(&self, consumer: &BaseConsumer<Self>, topic: &str, mode: CommitMode) -> bool {
        let commits = self.claimed.with(Claims::commits);
        let mut list = TopicPartitionList::new();
        for commit in &commits {
            let mut element = list.add_partition(topic, commit.partition);
            let offset = Offset::Offset(commit.offset.cast_signed());
            if element.set_offset(offset).is_ok() {
                element.set_metadata(&commit.metadata);
            }
        }
        let is_sent = commits.is_empty() || consumer.commit(&list, mode).is_ok();
        if !is_sent {
            self.claimed.with(Claims::forget_commits);
        }
        is_sent
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(list) = rebalance else {
            return;
        };
        // One that was lost is somebody else's already, and a commit of it would have this member fenced off.
        if let Some(element) = list.elements().first()
            && !consumer.assignment_lost()
        {
            self.commit(consumer, element.topic(), CommitMode::Sync);
        }
        for element in list.elements() {
            self.claimed
                .with(|claims| claims.leave(element.partition()));
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                // It may have been held when it was ours before, which librdkafka remembers.
                let _ = consumer.resume(list);
                let committed = consumer.committed_offsets((*list).clone(), COMMITTED_WITHIN);
                let committed = match committed {
                    Ok(committed) => committed,
                    Err(error) => {
                        // What was settled out of turn is delivered again.
                        self.note(&kafka::in_words(&error));
                        (*list).clone()
                    }
                };
                for element in committed.elements() {
                    let known = match element.offset() {
                        Offset::Offset(offset) => u64::try_from(offset).ok(),
                        _ => None,
                    };
                    let known = known.map(|offset| (offset, element.metadata()));
                    self.claimed
                        .with(|claims| claims.take(element.partition(), known));
                }
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => self.note(&kafka::in_words(error)),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if result.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

impl Fetcher {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            settings: parts.settings,
            shared: parts.shared,
            log: parts.log,
            claimed: parts.claimed,
            is_closed: parts.is_closed,
            member: parts.member,
            is_held: false,
            told: String::new(),
        }
    }

    /// Fetches until it is closed.
    pub(crate) fn run(mut self) {
        while !self.is_closed.load(Ordering::Acquire) {
            let fetched = match self.consumer() {
                Ok(consumer) => self.fetch(&consumer),
                Err(error) => Err(kafka::in_words(&error)),
            };
            // What is here and not settled comes again, with the next consumer.
            self.claimed.with(Claims::leave_all);
            self.is_held = false;
            if let Err(why) = fetched {
                self.wait_after(&why);
            }
        }
    }

    /// Something is wrong that another consumer may not meet again.
    fn wait_after(&mut self, why: &str) {
        let name = &self.shared.settings().name;
        let error = format!("nothing is fetched of its topic: {why}");
        if self.told != error {
            tell(Level::Error, format_args!("queue {name}: {error}"));
            self.told.clone_from(&error);
        }
        for consumer in self.shared.consumers() {
            *lock(&consumer.last_error) = Some(error.clone());
        }
        let began = clock::monotonic();
        while began.elapsed() < AGAIN_AFTER && !self.is_closed.load(Ordering::Acquire) {
            if self.is_over() {
                self.shared.is_kept.store(true, Ordering::Release);
            }
            std::thread::sleep(POLL);
        }
    }

    fn consumer(&self) -> KafkaResult<BaseConsumer<Context>> {
        let mut config = kafka::common(&self.settings.topic);
        config.set("group.id", &self.settings.group);
        // One that was killed and is back takes its place at once; for one that is gone, others wait this long.
        config.set("group.instance.id", &self.member);
        config.set("session.timeout.ms", "10000");
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("auto.offset.reset", "earliest");
        config.set("topic.metadata.refresh.interval.ms", "10000");
        config.set("queued.max.messages.kbytes", "16384");
        config.set("allow.auto.create.topics", "true");
        let consumer = config.create_with_context(Context {
            shared: Arc::clone(&self.shared),
            claimed: Arc::clone(&self.claimed),
            has_failed: AtomicBool::new(false),
        });
        let consumer: BaseConsumer<Context> = consumer?;
        consumer.subscribe(&[&self.settings.topic.topic])?;
        Ok(consumer)
    }

    /// Until it is closed, or something is wrong with the consumer or the disk.
    fn fetch(&mut self, consumer: &BaseConsumer<Context>) -> Result<(), String> {
        let topic = self.settings.topic.topic.clone();
        let context = Arc::clone(consumer.context());
        let mut committed = clock::monotonic();
        while !self.is_closed.load(Ordering::Acquire) {
            self.hold_or_go_on(consumer);
            self.rest(consumer);
            let mut wait = POLL;
            for _ in 0..TURN {
                match consumer.poll(wait) {
                    Some(Ok(record)) => self.keep(&record).map_err(|error| error.to_string())?,
                    Some(Err(error)) => context.note(&kafka::in_words(&error)),
                    None => break,
                }
                wait = Duration::ZERO;
                let bytes_max = self.shared.settings().bytes_max as usize;
                if self.log.pending_bytes() > TURN_BYTES.min(bytes_max / 16) {
                    break;
                }
            }
            self.write().map_err(|error| error.to_string())?;
            if let Some((_, why)) = consumer.client().fatal_error() {
                return Err(why);
            }
            if context.has_failed.swap(false, Ordering::Relaxed) {
                self.claimed.with(Claims::forget_commits);
            }
            if committed.elapsed() >= COMMIT_EVERY {
                committed = clock::monotonic();
                context.commit(consumer, &topic, CommitMode::Async);
            }
        }
        self.commit_all(consumer);
        consumer.unsubscribe();
        Ok(())
    }

    /// Commits what is settled, so that whoever comes next delivers nothing of it again. A broker that was away may take a while.
    fn commit_all(&self, consumer: &BaseConsumer<Context>) {
        let began = clock::monotonic();
        let topic = &self.settings.topic.topic;
        let commit = || consumer.context().commit(consumer, topic, CommitMode::Sync);
        // What was sent may not have arrived.
        self.claimed.with(Claims::forget_commits);
        while !commit() && began.elapsed() < COMMITTED_AT_LAST {
            std::thread::sleep(POLL);
        }
    }

    /// When nothing is delivered any more, since the process ends or nobody uses the queue: all of it is committed.
    fn rest(&self, consumer: &BaseConsumer<Context>) {
        if self.is_over() && !self.shared.is_kept.load(Ordering::Acquire) {
            self.commit_all(consumer);
            self.shared.is_kept.store(true, Ordering::Release);
        }
    }

    fn is_over(&self) -> bool {
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        let consumers = self.shared.consumers();
        is_draining && consumers.iter().all(|own| own.is_drained())
    }

    /// Fetches nothing while enough is here, or nothing is to be begun.
    fn hold_or_go_on(&mut self, consumer: &BaseConsumer<Context>) {
        let open = self.claimed.with(|claims| claims.open());
        let bytes_max = self.shared.settings().bytes_max;
        let is_full = self.log.bytes() + self.shared.dead_bytes() > bytes_max / 2;
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        let most = if self.is_held { OPEN_AGAIN } else { OPEN_MAX };
        let is_held = is_draining || is_full || open > most;
        if is_full {
            self.shared.wants_room.store(true, Ordering::Release);
        }
        let Ok(assignment) = consumer.assignment() else {
            return;
        };
        // A partition that has come meanwhile is not held yet, so it is said each time.
        let said = if is_held {
            consumer.pause(&assignment)
        } else if self.is_held {
            consumer.resume(&assignment)
        } else {
            Ok(())
        };
        if said.is_ok() {
            self.is_held = is_held;
        }
    }

    /// Takes a record.
    fn keep(&mut self, record: &BorrowedMessage<'_>) -> Result<(), Error> {
        let place = (
            record.partition(),
            u64::try_from(record.offset()).unwrap_or(0),
        );
        let here = self.log.next_offset();
        if !self.claimed.with(|claims| claims.fetched(place, here)) {
            return Ok(());
        }
        let time_ms = record.timestamp().to_millis();
        let time_ms = time_ms.and_then(|time_ms| u64::try_from(time_ms).ok());
        let time_ms = time_ms.unwrap_or_else(clock::now_ms);
        let body = record.payload().unwrap_or_default();
        // A header whose name is no text makes its reader panic.
        let read = AssertUnwindSafe(|| envelope(record, body.len()));
        let envelope = catch_unwind(read).unwrap_or_else(|_| nothing());
        match self.log.append(time_ms, &envelope, body) {
            Err(Error::TooLong) => self.log.append(time_ms, &nothing(), b"").map(|_| ()),
            appended => appended.map(|_| ()),
        }
    }

    /// Lets others see what was taken, and removes what nobody needs.
    fn write(&mut self) -> Result<(), Error> {
        if self.log.pending_bytes() > 0 {
            self.log.write()?;
            let counts = &self.shared.counts;
            counts.readable.store(self.log.written(), Ordering::Release);
            counts.next.store(self.log.written(), Ordering::Release);
            self.shared.wake_consumers();
        }
        let consumed = self.shared.consumed();
        let next = self.log.next_offset();
        let least = self.shared.settings().bytes_max / 16;
        if consumed >= next && self.log.bytes() > least && self.log.first_offset() < next {
            // The segment that is written stays, so where all of it is consumed there is another one.
            self.log.skip_to(next + 1)?;
        }
        while self.log.drop_oldest(consumed, 0, 0)?.is_some() {}
        let bytes = self.log.bytes();
        self.shared.counts.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}
