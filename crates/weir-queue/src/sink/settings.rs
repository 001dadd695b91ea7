//! What a sink is told: plain data.

use std::path::PathBuf;
use std::time::Duration;

use super::columns::Column;

/// A sink of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSettings {
    /// Its name in the configuration.
    pub name: String,
    /// What it writes to.
    pub destination: Destination,
    /// Messages at once, at most.
    pub batch: u32,
    /// Messages a second; any number, if there is none.
    pub rate: Option<f64>,
    /// How long writing a batch may take.
    pub timeout: Duration,
}

/// What a sink writes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Destination {
    /// A file, a line for each message.
    File(File),
    /// A table of Postgres, a row for each.
    Postgres(Postgres),
    /// A table of Cassandra, a row for each.
    Cassandra(Cassandra),
    /// A topic of Kafka, a record for each.
    Kafka(Kafka),
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What its lines are.
    pub lines: Lines,
}

/// What the lines of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// JSON that says how the message came, and has its content as a string.
    Messages,
    /// The content alone.
    Contents,
}

/// A table of Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postgres {
    /// As libpq has it: `postgres://user:password@host/database`.
    pub url: String,
    /// Its name, with that of its schema perhaps.
    pub table: String,
    /// Its columns. Without any, it has those of [`Source::PRESET`](super::Source::PRESET), and is made when it is not there.
    pub columns: Vec<Column>,
}

impl Postgres {
    /// What is wrong with a URL, if something is, or with having one.
    ///
    /// # Errors
    /// The same.
    pub fn check_url(url: &str) -> Result<(), String> {
        #[cfg(feature = "postgres")]
        return super::postgres::check_url(url);
        #[cfg(not(feature = "postgres"))]
        {
            let _ = url;
            Err(not_built("Postgres", "postgres"))
        }
    }
}

/// A table of Cassandra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cassandra {
    /// Some nodes of the cluster: hosts with ports.
    pub nodes: Vec<String>,
    /// The name of the keyspace.
    pub keyspace: String,
    /// The name of the table.
    pub table: String,
    /// Its columns, as of [`Postgres`].
    pub columns: Vec<Column>,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// Rows at once.
    pub concurrency: u32,
}

impl Cassandra {
    /// Whether this build knows it.
    ///
    /// # Errors
    /// It does not.
    pub fn check() -> Result<(), String> {
        if cfg!(feature = "cassandra") {
            Ok(())
        } else {
            Err(not_built("Cassandra", "cassandra"))
        }
    }
}

/// A topic of Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kafka {
    /// Some brokers of the cluster: hosts with ports.
    pub brokers: Vec<String>,
    /// The name of the topic.
    pub topic: String,
    /// Whether all replicas in sync must have a record, or only the leader.
    pub acks_of_all: bool,
    /// How batches are compressed, as librdkafka calls it.
    pub compression: &'static str,
    /// Whether brokers speak TLS.
    pub with_tls: bool,
    /// Who asks.
    pub sasl: Option<Sasl>,
    /// Anything else that librdkafka is told.
    pub options: Vec<(String, String)>,
}

/// Who asks a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// As librdkafka calls it: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub mechanism: &'static str,
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Kafka {
    /// What a record may have unless something else is said.
    const RECORD_BYTES_MAX: usize = 1_000_000;
    /// Bytes that the head of a request may take in a record, and all that is said of it.
    const HEAD_BYTES: u64 = 80 << 10;

    /// Bytes of a record.
    pub(super) fn record_bytes_max(&self) -> usize {
        let mut options = self.options.iter();
        let most = options.find(|(name, _)| name == "message.max.bytes");
        let most = most.and_then(|(_, value)| value.parse().ok());
        most.unwrap_or(Self::RECORD_BYTES_MAX)
    }

    /// Bytes of a request's content that fit into a record with the largest head.
    pub fn content_bytes_max(&self) -> u64 {
        let most = self.record_bytes_max() as u64;
        most.saturating_sub(Self::HEAD_BYTES).max(1)
    }

    /// Whether this build knows it, and librdkafka what it is told.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        #[cfg(feature = "kafka")]
        return super::kafka::check(self);
        #[cfg(not(feature = "kafka"))]
        Err(not_built("Kafka", "kafka"))
    }
}

/// What to do about a target that is not in this build.
#[allow(dead_code, reason = "a build may have all of them")]
pub(super) fn not_built(what: &str, feature: &str) -> String {
    format!("this weir was built without {what}; build it with `--features {feature}`")
}
