//! What a queue is told: plain data, already valid.

use std::path::PathBuf;
use std::time::Duration;

use crate::retry::Retry;
use crate::sink::{Kafka, SinkSettings};

/// When a message counts as kept, and is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is in memory. The end of the process loses what was not written yet.
    Memory,
    /// The kernel has it. It survives the process, and a crash of the machine loses up to about a second.
    Os,
    /// It is on the disk, with all that came while the disk was busy: one fdatasync for many.
    Group,
    /// The same, and never waits for others that may come.
    Each,
}

impl Durability {
    /// Whether a crash of the machine may take back what was acknowledged.
    pub(crate) fn may_lose(self) -> bool {
        matches!(self, Self::Memory | Self::Os)
    }
}

/// A queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Its name in the configuration.
    pub name: String,
    /// Its directory, which belongs to it alone.
    pub path: PathBuf,
    /// When a message counts as kept.
    pub durability: Durability,
    /// Bytes of its directory, dead letters included, beyond which it takes nothing.
    pub bytes_max: u64,
    /// How old the oldest message may be that is not delivered, before no more are taken.
    pub age_max: Option<Duration>,
    /// How long what was delivered stays, so that it can be delivered again. It goes earlier when room is needed.
    pub keep: Duration,
    /// Bytes of a request's content.
    pub message_bytes_max: u64,
    /// How long an `Idempotency-Key` is known.
    pub id_window: Duration,
    /// How messages get to their upstreams.
    pub delivery: Delivery,
    /// Where else they go.
    pub sinks: Vec<SinkSettings>,
    /// Where it lives, if that is a topic of Kafka. What is accepted is kept here until it is there: one of the sinks, named
    /// [`Settings::TOPIC`], produces it.
    pub topic: Option<KafkaQueue>,
}

impl Settings {
    /// The name of the sink that produces to the topic in which a queue lives.
    pub const TOPIC: &str = "kafka";
}

/// A topic in which a queue lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaQueue {
    /// The topic.
    pub topic: Kafka,
    /// The consumer group that delivers it.
    pub group: String,
}

/// How messages get to their upstreams.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Requests at once, at most 256.
    pub concurrency: u32,
    /// Requests a second; any number, if there is none.
    pub rate: Option<f64>,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// How often, and after which waits.
    pub retry: Retry,
    /// Bytes of an answer that are kept for whoever asks what became of his request; 0 keeps none.
    pub answer_bytes_max: usize,
}

/// How the requests of a route become messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Deferral {
    /// What orders them.
    pub key: Option<KeySource>,
    /// How long they may wait for delivery.
    pub ttl: Option<Duration>,
    /// Each line of a request's content is a message.
    pub is_batch: bool,
}

/// Where the key of a message is. Those that have the same are delivered one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// The value of a field, whose name is in lower case.
    Field(String),
    /// A parameter of the route's path.
    Parameter(String),
    /// A value in a content that is JSON (RFC 6901).
    Pointer(String),
}
