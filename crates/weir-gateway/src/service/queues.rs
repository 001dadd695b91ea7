//! What operators see of queues, and ask of them. The gateway shows and passes on; the crate that has queues knows the rest.

use serde::Serialize;
use serde_json::Value;

/// A queue as an operator sees it. Counts are since the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueStatus {
    /// Its name in the configuration.
    pub name: String,
    /// How it is kept: `memory`, `os`, `group` or `each`.
    pub durability: &'static str,
    /// What is delivered to the upstreams of routes.
    #[serde(flatten)]
    pub upstream: ConsumerStatus,
    /// Bytes on the disk, and how many there may be.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_max: u64,
    /// Messages that were acknowledged.
    pub accepted: u64,
    /// Requests that had been accepted before under their `Idempotency-Key`.
    pub duplicates: u64,
    /// Requests that were refused because there is no room,
    pub refused_full: u64,
    /// because what waits is too old,
    pub refused_age: u64,
    /// because the disk refused,
    pub refused_disk: u64,
    /// or because they came faster than they can be written.
    pub refused_busy: u64,
    /// Messages that were acknowledged in memory and could not be written.
    pub lost: u64,
    /// The offset of the next message, and the one before which all are durable.
    pub next_offset: u64,
    /// See `next_offset`.
    pub durable_offset: u64,
    /// Times that messages were written together, and that the disk was waited for.
    pub commits: u64,
    /// See `commits`.
    pub syncs: u64,
    /// Why it takes nothing until a restart.
    pub failed: Option<String>,
    /// Where messages go besides.
    pub sinks: Vec<SinkStatus>,
}

/// A sink of a queue: a file, a table or a topic that messages are written to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SinkStatus {
    /// Its name in the configuration.
    pub name: String,
    /// What is written to it.
    #[serde(flatten)]
    pub consumer: ConsumerStatus,
}

/// How far one is who consumes a queue. Counts are since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ConsumerStatus {
    /// Messages that are neither delivered nor given up: its lag.
    pub waiting: u64,
    /// Those of them that are being delivered.
    pub under_way: u64,
    /// How long the oldest of them waits; `None` when none does.
    pub oldest_ms: Option<u64>,
    /// The offset before which all are delivered or given up.
    pub settled_offset: u64,
    /// Messages that were taken.
    pub delivered: u64,
    /// Attempts that failed; those of a sink are made with a batch.
    pub retried: u64,
    /// Messages that were given up since the start, and dead letters that there are.
    pub died: u64,
    /// See `died`.
    pub dead: u64,
    /// Somebody has paused it.
    pub is_paused: bool,
    /// The target fails at everything; it is asked now and then.
    pub is_ill: bool,
    /// What the last attempt that failed has come to.
    pub last_error: Option<String>,
    /// Why nothing is delivered until somebody has seen to it.
    pub stopped: Option<String>,
    /// The newest dead letters.
    pub dead_letters: Vec<Value>,
}

/// What an operator asks of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueOrder {
    /// Deliver nothing.
    Pause,
    /// Deliver again.
    Resume,
    /// The same, and pass by messages that cannot be read.
    SkipDamaged,
    /// Deliver again what is there from this offset on.
    ReplayFrom(u64),
    /// The same, from this time on, in milliseconds since 1970.
    ReplaySince(u64),
    /// Show dead letters.
    Dead {
        /// From this number on.
        from: u64,
        /// So many.
        limit: usize,
    },
    /// Have dead letters delivered after all: those of these numbers, or all.
    Redrive(Option<Vec<u64>>),
    /// Drop them.
    Drop(Option<Vec<u64>>),
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderError {
    /// There is no such queue. These are there.
    NoQueue(Vec<String>),
    /// What is wrong.
    Refused(String),
}
