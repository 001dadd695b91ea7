//! A client of a cluster that knows the map: it asks for each key at the node that is first among its replicas, without a hop between.
//!
//! ```text
//! get, put, delete ──► attempts: which node is next, and is it safe?
//!                          │
//!                          └──► link: one connection to each node, on which requests do not wait for each other
//! scan ──► merged: the pages of all nodes in one order
//! ```
//!
//! It needs a tokio runtime with time and I/O. It keeps no data, so it may be dropped at any time.
//!
//! ```no_run
//! use std::time::Duration;
//! use weir_kv::client::{Client, ClientSettings, PutOptions, Written};
//! use weir_kv::condition::{Condition, Tags};
//!
//! # async fn count() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(ClientSettings {
//!     nodes: vec!["10.0.0.1:8081".parse()?, "10.0.0.2:8081".parse()?],
//!     secret: "0123456789abcdef".to_owned(),
//!     timeout: Duration::from_secs(5),
//! })
//! .await?;
//!
//! let for_a_minute = PutOptions {
//!     ttl: Some(Duration::from_secs(60)),
//!     ..PutOptions::default()
//! };
//! client.put("greeting", "hello", for_a_minute).await?;
//!
//! // Over what was read, and over nothing else.
//! if let Some(entry) = client.get("greeting", None).await? {
//!     let over = PutOptions {
//!         condition: Condition {
//!             matches: Some(Tags::These(vec![entry.version])),
//!             matches_none: None,
//!         },
//!         ..PutOptions::default()
//!     };
//!     match client.put("greeting", "good morning", over).await? {
//!         Written::Done(version) => println!("it has the version {version}"),
//!         Written::Unmet(now) => println!("somebody else has written {now:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod attempts;
mod error;
mod link;
mod links;
mod members;
mod scan;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::error::ClientError;
pub use self::members::{Found, Members};
pub use self::scan::Scan;

use self::attempts::{Attempts, Next};
use self::links::{Links, Placed};
use crate::VALUE_BYTES_MAX;
use crate::api::KEY_BYTES_MAX;
use crate::cell::Cell;
use crate::condition::{Condition, Tags};
use crate::coordinator::{Answer, Quorum};
use crate::frame::{Ask, Say, Span, TAGS_MAX, What};
use crate::version::Version;
use crate::wall::unix_ms;

/// Where the nodes are, and how long to wait for them.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Some of the nodes, at the addresses that their configurations have. The first one that answers tells of all others.
    pub nodes: Vec<SocketAddr>,
    /// That of the nodes; empty where they have none.
    pub secret: String,
    /// How long an operation takes at most; of a scan, a page.
    pub timeout: Duration,
}

/// What is there of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// Which write it is from. Its entity tag is [`crate::condition::tag`].
    pub version: Version,
    /// When it is no longer there, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

/// What came of a write that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is done, with this version.
    Done(Version),
    /// It is not done: its condition does not hold of this.
    Unmet(Option<Entry>),
}

/// How a value is written.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// How long it is there, by the clock of this machine.
    pub ttl: Option<Duration>,
    /// What must hold of the value before.
    pub condition: Condition,
    /// On how many replicas; if nothing is said, more than half of those that a key has.
    pub quorum: Option<Quorum>,
}

/// How a value is deleted.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// What must hold of the value before.
    pub condition: Condition,
    /// As with [`PutOptions`].
    pub quorum: Option<Quorum>,
}

/// A client of a cluster.
#[derive(Debug)]
pub struct Client {
    links: Links,
    placed: Mutex<Arc<Placed>>,
    /// One at a time asks for another map.
    learning: Semaphore,
    timeout: Duration,
}

impl Client {
    /// Asks one of the nodes for the map.
    ///
    /// # Errors
    /// None of them has one for this client.
    pub async fn connect(settings: ClientSettings) -> Result<Self, ClientError> {
        let timeout = settings.timeout;
        let deadline = Instant::now() + timeout;
        let links = Links::new(settings.nodes, settings.secret);
        let placed = links.learn(None, deadline).await?;
        Ok(Self {
            links,
            placed: Mutex::new(Arc::new(placed)),
            learning: Semaphore::new(1),
            timeout,
        })
    }

    /// What is there of a key. Without a quorum, more than half of its replicas are asked.
    ///
    /// # Errors
    /// It is not known what is there.
    pub async fn get(
        &self,
        key: impl Into<Bytes>,
        quorum: Option<Quorum>,
    ) -> Result<Option<Entry>, ClientError> {
        let condition = Condition::default();
        match self.ask(key.into(), What::Get, quorum, condition).await? {
            Answer::Found(cell) => Ok(entry(cell)),
            _ => Err(ClientError::TooFew),
        }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// It is not written, or nobody knows: [`ClientError::may_be_written`] tells which.
    pub async fn put(
        &self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        options: PutOptions,
    ) -> Result<Written, ClientError> {
        let value = value.into();
        if value.len() as u64 > VALUE_BYTES_MAX {
            let why = format!(
                "the value has {} bytes, and may have {VALUE_BYTES_MAX}",
                value.len()
            );
            return Err(ClientError::Invalid(why));
        }
        let expires_ms = match options.ttl.map(|ttl| ttl.as_millis() as u64) {
            None => None,
            Some(0) => return Err(ClientError::Invalid("the ttl is zero".to_owned())),
            Some(ttl_ms) => Some(unix_ms().saturating_add(ttl_ms)),
        };
        let what = What::Put { value, expires_ms };
        self.write(key.into(), what, options.quorum, options.condition)
            .await
    }

    /// Deletes a value; also when there is none.
    ///
    /// # Errors
    /// As with [`Client::put`].
    pub async fn delete(
        &self,
        key: impl Into<Bytes>,
        options: DeleteOptions,
    ) -> Result<Written, ClientError> {
        self.write(key.into(), What::Delete, options.quorum, options.condition)
            .await
    }

    /// The entries of a range, in the order of their keys.
    pub fn scan(&self, span: Span) -> Scan<'_> {
        Scan::new(self, span)
    }

    async fn write(
        &self,
        key: Bytes,
        what: What,
        quorum: Option<Quorum>,
        condition: Condition,
    ) -> Result<Written, ClientError> {
        match self.ask(key, what, quorum, condition).await? {
            Answer::Written(version) => Ok(Written::Done(version)),
            Answer::Unmet(cell) => Ok(Written::Unmet(entry(cell))),
            Answer::Conflict => Err(ClientError::Conflict),
            Answer::TooFew | Answer::Found(_) => Err(ClientError::TooFew),
        }
    }

    /// Has a node do something for a key: one after the other of those that may, until one has.
    async fn ask(
        &self,
        key: Bytes,
        what: What,
        quorum: Option<Quorum>,
        condition: Condition,
    ) -> Result<Answer, ClientError> {
        check(&key, &condition)?;
        let deadline = Instant::now() + self.timeout;
        let mut placed = self.placed();
        let mut attempts = Attempts::new(what != What::Get);
        let mut next = attempts.place(placed.ranked(&key));
        loop {
            next = match next {
                Next::Ask(node) => {
                    let quorum = placed.quorum(quorum)?;
                    if !condition.is_none() && !quorum.may_decide(placed.replicas) {
                        let why = quorum.indecision(placed.replicas);
                        return Err(ClientError::Invalid(why));
                    }
                    let ask = Ask {
                        key: key.clone(),
                        what: what.clone(),
                        quorum,
                        condition: condition.clone(),
                        until_ms: None,
                    };
                    let link = self.links.to(&node);
                    let came = link.ask(placed.map.epoch(), Say::Ask(ask), deadline).await;
                    attempts.come(came)
                }
                Next::Learn => {
                    placed = self.learn(&placed, deadline).await;
                    attempts.place(placed.ranked(&key))
                }
                Next::Give(answer) => return Ok(answer),
                Next::Fail(error) => return Err(error),
            };
        }
    }

    fn placed(&self) -> Arc<Placed> {
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&placed)
    }

    /// The map that has come after this one, if a node has such a one.
    async fn learn(&self, known: &Arc<Placed>, deadline: Instant) -> Arc<Placed> {
        // It is never closed. Others may have learnt it meanwhile.
        let _turn = self.learning.acquire().await;
        let placed = self.placed();
        if placed.map.epoch() > known.map.epoch() {
            return placed;
        }
        let Ok(newer) = self.links.learn(Some(&placed), deadline).await else {
            return placed;
        };
        let newer = Arc::new(newer);
        *self.placed.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&newer);
        newer
    }
}

/// Whether nodes take it.
fn check(key: &[u8], condition: &Condition) -> Result<(), ClientError> {
    let invalid = |why: String| Err(ClientError::Invalid(why));
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return invalid(format!(
            "the key has {} bytes, and may have 1 to {KEY_BYTES_MAX}",
            key.len()
        ));
    }
    let is_long =
        |tags: &Option<Tags>| matches!(tags, Some(Tags::These(these)) if these.len() > TAGS_MAX);
    if is_long(&condition.matches) || is_long(&condition.matches_none) {
        return invalid(format!("more than {TAGS_MAX} versions in a condition"));
    }
    Ok(())
}

/// What a cell tells a client. A node has taken away what has expired.
fn entry(cell: Option<Cell>) -> Option<Entry> {
    let cell = cell?;
    Some(Entry {
        value: cell.value?,
        version: cell.version,
        expires_ms: cell.expires_ms,
    })
}

#[cfg(test)]
mod tests;
