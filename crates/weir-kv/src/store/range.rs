//! Ranges, streamed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weir_gateway::service::{Answer, Content, Feeder, Replier, Reply};

use super::batch::{NDJSON, put_key, put_value};
use super::{Store, failed};
use crate::api::{self, v1};
use crate::cell::Cell;
use crate::cluster::{Calls, Merged};
use crate::condition;
use crate::coordinator::Quorum;
use crate::engine::EngineError;
use crate::wall::unix_ms;

const OCTETS: &[u8] = b"application/octet-stream";
/// Ranges of the whole cluster at once, each of which has a thread.
const RANGES_MAX: usize = 16;
/// Bytes of a range that are sent at once, about.
const PIECE_BYTES: usize = 64 << 10;

impl Store {
    /// The entries of this node from a key on, up to another one.
    pub(super) fn range(&self, from: Bytes, to: Option<Bytes>) -> Reply {
        let (feeder, content) = Content::pieces(None);
        let (replier, reply) = Reply::later();
        let range = Sending::new((feeder, content), replier, OCTETS);
        let range = Arc::new(Mutex::new(range));
        let each = {
            let (range, now_ms) = (Arc::clone(&range), unix_ms());
            move |key: &[u8], cell: Cell| match cell.at(now_ms) {
                None => range_of(&range).is_wanted(),
                Some(value) => range_of(&range).add(&[key, b"\n", value]),
            }
        };
        let then = move |result: Result<(), EngineError>| match result {
            Ok(()) => {
                range_of(&range).end();
                None
            }
            Err(error) => {
                let mut range = range_of(&range);
                // An answer that has begun breaks off.
                let replier = range.replier.take();
                replier.map(|replier| (replier, failed(&error)))
            }
        };
        self.shared
            .engine
            .scan(from, to, Box::new(each), Box::new(then));
        reply
    }

    /// The entries of the whole cluster, as lines of JSON.
    pub(super) fn range_of_all(&self, range: v1::Range) -> Reply {
        let ranges = Arc::clone(&self.ranges);
        if ranges.fetch_add(1, Ordering::AcqRel) >= RANGES_MAX {
            ranges.fetch_sub(1, Ordering::AcqRel);
            return Reply::ready(api::busy("too many ranges are read"));
        }
        let calls = match &self.cluster {
            Some(cluster) => cluster.calls(),
            None => Calls::alone(&self.shared),
        };
        let (replier, reply) = Reply::later();
        let sending = Sending::new(Content::pieces(None), replier, NDJSON);
        let (failed, run) = (Arc::clone(&ranges), move || {
            send_all(&calls, range, sending);
            ranges.fetch_sub(1, Ordering::AcqRel);
        });
        // A thread that cannot be started drops the replier: the client gets a 500.
        let thread = std::thread::Builder::new().name("kv range".to_owned());
        if thread.spawn(run).is_err() {
            failed.fetch_sub(1, Ordering::AcqRel);
        }
        reply
    }
}

/// Sends lines until the limit, the end, or somebody fails.
fn send_all(calls: &Calls, range: v1::Range, mut sending: Sending) {
    let ack = Quorum::majority(calls.shared.replicas).ack;
    let mut entries = Merged::new(calls, (range.start, range.end), ack);
    let (now_ms, mut left) = (unix_ms(), range.limit);
    loop {
        let (key, cell) = match entries.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => return sending.end(),
            Err(_) => return sending.fail("too few nodes answered for a range of all keys"),
        };
        let Some(value) = cell.at(now_ms) else {
            if sending.is_wanted() {
                continue;
            }
            return;
        };
        let mut line = serde_json::json!({});
        if left == 0 {
            put_key(&mut line, "next", &key);
            sending.add(&[line.to_string().as_bytes(), b"\n"]);
            return sending.end();
        }
        left -= 1;
        put_key(&mut line, "key", &key);
        line["etag"] = condition::tag(cell.version).into();
        put_value(&mut line, value);
        if !sending.add(&[line.to_string().as_bytes(), b"\n"]) {
            return;
        }
    }
}

fn range_of(range: &Mutex<Sending>) -> std::sync::MutexGuard<'_, Sending> {
    range.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A range that is being sent. The answer begins with the first piece, so that what fails before that has a status.
struct Sending {
    content_type: &'static [u8],
    feeder: Option<Feeder>,
    content: Option<Content>,
    replier: Option<Replier>,
    piece: Vec<u8>,
}

impl Sending {
    fn new(
        (feeder, content): (Feeder, Content),
        replier: Replier,
        content_type: &'static [u8],
    ) -> Self {
        Self {
            content_type,
            feeder: Some(feeder),
            content: Some(content),
            replier: Some(replier),
            piece: Vec::with_capacity(PIECE_BYTES),
        }
    }

    /// Adds an entry; whether more are wanted.
    fn add(&mut self, parts: &[&[u8]]) -> bool {
        for part in parts {
            self.piece.extend_from_slice(part);
        }
        self.piece.len() < PIECE_BYTES || self.send()
    }

    /// Whether somebody still waits for the beginning.
    fn is_wanted(&self) -> bool {
        self.replier
            .as_ref()
            .is_none_or(|replier| !replier.has_left())
    }

    fn send(&mut self) -> bool {
        self.begin();
        let piece = std::mem::take(&mut self.piece);
        let feeder = self.feeder.as_ref();
        feeder.is_some_and(|feeder| feeder.feed_blocking(piece).is_ok())
    }

    fn begin(&mut self) {
        if let (Some(replier), Some(content)) = (self.replier.take(), self.content.take()) {
            replier.answer(Answer {
                content,
                ..Answer::new(200).with("Content-Type", self.content_type)
            });
        }
    }

    fn end(&mut self) {
        if (self.piece.is_empty() || self.send())
            && let Some(feeder) = self.feeder.take()
        {
            self.begin();
            // A client that has left is told nothing.
            let _ = feeder.finish_blocking();
        }
    }

    /// Answers with an error; what has begun breaks off.
    fn fail(&mut self, why: &str) {
        if let Some(replier) = self.replier.take() {
            replier.answer(api::text(504, why));
        }
    }
}
