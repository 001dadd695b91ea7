//! Sinks: where batches of messages go beside the upstreams of their routes, or instead of them.
//!
//! ```text
//! log/ ──► [`turn`]: reads a batch ──► [`Connection`]: writes all of it or nothing ──► journal: how far it has come
//!              ▲        │                    a file, a table, a topic
//!              └────────┴── refused: one of them becomes a dead letter, and the rest is written
//! ```
//!
//! Each sink is a consumer of its own: it gets every message in the order of the log, is as far as it is, and has dead letters of its
//! own. A batch is written again when it is not known what became of it; a target that can tell a message by its id takes it once.

#[cfg(feature = "cassandra")]
mod cassandra;
mod columns;
mod end;
mod file;
#[cfg(feature = "kafka")]
pub(crate) mod kafka;
mod notes;
mod orders;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "cassandra"))]
mod row;
mod settings;
mod turn;

use crate::message::Message;
use crate::token::Secret;

pub use self::columns::{Column, Source};
pub use self::settings::{
    Cassandra, Destination, File, Kafka, Lines, Postgres, Sasl, SinkSettings,
};
pub(crate) use self::turn::{Parts, Sink};

/// A message of a batch.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) offset: u64,
    pub(crate) time_ms: u64,
    /// The envelope, as [`Message::write`] has made it.
    pub(crate) envelope: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Item {
    /// What is known of it; `None` when a later version of weir has written it.
    pub(crate) fn message(&self) -> Option<Message<'_>> {
        Message::read(&self.envelope)
    }

    fn bytes(&self) -> usize {
        self.envelope.len() + self.body.len()
    }
}

/// Whose messages they are.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) queue: String,
    /// What tells this directory from any other.
    instance: u64,
}

impl Origin {
    pub(crate) fn new(queue: String, secret: &Secret) -> Self {
        Self {
            queue,
            instance: secret.instance(),
        }
    }

    /// A name that no other directory has.
    #[cfg(feature = "kafka")]
    pub(crate) fn member(&self) -> String {
        format!("weir-{:016x}", self.instance)
    }

    /// The name of a message in all the world: a UUID of version 8 (RFC 9562 §5.8), of the directory and the offset.
    pub(crate) fn id(&self, offset: u64) -> u128 {
        let directory = (self.instance & !0xf000) | 0x8000;
        let offset = (offset & (u64::MAX >> 2)) | 1 << 63;
        u128::from(directory) << 64 | u128::from(offset)
    }
}

/// Where a file ends that a sink has written: which file it is, and its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) file: u64,
    pub(crate) bytes: u64,
}

/// Why a batch was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The target cannot be reached, or does not work: it is tried again.
    Away(String),
    /// It does not want one of the messages; which, if that is known.
    Refused { at: Option<usize>, why: String },
}

/// Why a message is refused that cannot be read.
const LATER: &str = "a later version of weir has written it";

/// What a sink writes to, open or not.
#[derive(Debug)]
pub(crate) enum Connection {
    File(file::Lines),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Table>),
    #[cfg(feature = "cassandra")]
    Cassandra(Box<cassandra::Table>),
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::Topic>),
}

impl Connection {
    /// Nothing is opened before the first batch. `mark` is where the sink has come to before.
    pub(crate) fn new(
        settings: &SinkSettings,
        origin: &Origin,
        mark: Mark,
    ) -> Result<Self, String> {
        let origin = origin.clone();
        match &settings.destination {
            Destination::File(file) => {
                let lines = file::Lines::new(file.clone(), origin, mark);
                Ok(Self::File(lines))
            }
            #[cfg(feature = "postgres")]
            Destination::Postgres(table) => {
                let table = postgres::Table::new(table, settings.timeout, origin)?;
                Ok(Self::Postgres(Box::new(table)))
            }
            #[cfg(feature = "cassandra")]
            Destination::Cassandra(table) => {
                let table = cassandra::Table::new(table.clone(), origin);
                Ok(Self::Cassandra(Box::new(table)))
            }
            #[cfg(feature = "kafka")]
            Destination::Kafka(topic) => {
                let topic = kafka::Topic::new(topic.clone(), origin);
                Ok(Self::Kafka(Box::new(topic)))
            }
            #[cfg(not(all(feature = "postgres", feature = "cassandra", feature = "kafka")))]
            _ => Err("this weir was built without it".to_owned()),
        }
    }

    #[cfg_attr(
        not(any(feature = "postgres", feature = "cassandra", feature = "kafka")),
        expect(clippy::unused_async, reason = "a file is written at once")
    )]
    /// Writes all of them, durably, or none. What is written again is there once where the target can tell.
    pub(crate) async fn write(&mut self, items: &[Item]) -> Result<Mark, Trouble> {
        match self {
            Self::File(lines) => lines.write(items),
            #[cfg(feature = "postgres")]
            Self::Postgres(table) => table.write(items).await.map(|()| Mark::default()),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(table) => table.write(items).await.map(|()| Mark::default()),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => topic.write(items).await.map(|()| Mark::default()),
        }
    }

    /// It is not known what became of the last attempt: the next one begins anew.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::File(lines) => lines.close(),
            #[cfg(feature = "postgres")]
            Self::Postgres(table) => table.close(),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(table) => table.close(),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => topic.close(),
        }
    }
}

/// The columns that a table has: its own, or those of one that weir makes.
#[cfg(any(feature = "postgres", feature = "cassandra"))]
fn all_columns(own: &[Column]) -> Vec<Column> {
    if !own.is_empty() {
        return own.to_vec();
    }
    let preset = Source::PRESET.iter();
    let preset = preset.map(|(name, source)| Column {
        name: (*name).to_owned(),
        source: source.clone(),
    });
    preset.collect()
}
