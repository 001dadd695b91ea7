//! Ranges, streamed.

use bytes::Bytes;
use weir_gateway::service::{Answer, Content, Feeder, Replier, Reply};

use super::Store;
use super::batch::NDJSON;
use super::jobs::Busy;
use crate::api::line::Line;
use crate::api::{self, v1};
use crate::cell::Cell;
use crate::cluster::{Calls, Merged, NoAnswer, TooFewNodes};
use crate::coordinator::Quorum;
use crate::frame::{Say, Span, Why};
use crate::wall::unix_ms;

const OCTETS: &[u8] = b"application/octet-stream";
/// Bytes of a range that are sent at once, about.
const PIECE_BYTES: usize = 64 << 10;

impl Store {
    /// The entries of this node from a key on, up to another one.
    pub(super) fn range(&self, from: Bytes, to: Option<Bytes>) -> Reply {
        let calls = self.calls();
        self.send(OCTETS, move |mut sending| {
            let own = [calls.shared.me()].into_iter();
            let mut entries = Merged::new(own, &Span { from, to }, 1);
            let now_ms = unix_ms();
            loop {
                let (key, cell) = match next(&mut entries, &calls) {
                    Ok(Some(entry)) => entry,
                    Ok(None) => return sending.end(),
                    Err(error) => return sending.fail(&error, "this node has not read it in time"),
                };
                let is_wanted = match cell.at(now_ms) {
                    None => sending.is_wanted(),
                    Some(value) => sending.add(&[&key, b"\n", value]),
                };
                if !is_wanted {
                    return;
                }
            }
        })
    }

    /// The entries of the whole cluster, as lines of JSON.
    pub(super) fn range_of_all(&self, range: v1::Range) -> Reply {
        let calls = self.calls();
        self.send(NDJSON, move |sending| send_all(&calls, range, sending))
    }

    fn send(
        &self,
        content_type: &'static [u8],
        run: impl FnOnce(Sending) + Send + 'static,
    ) -> Reply {
        let (replier, reply) = Reply::later();
        let sending = Sending::new(Content::pieces(None), replier, content_type);
        match self.jobs.begin("kv range", move || run(sending)) {
            Ok(()) => reply,
            Err(Busy) => Reply::ready(api::busy("too many batches and ranges are under way")),
        }
    }
}

/// Sends lines until the limit, the end, or somebody fails.
fn send_all(calls: &Calls, range: v1::Range, mut sending: Sending) {
    let mut rest = Span {
        from: range.start,
        to: range.end,
    };
    let (mut epoch, mut entries) = begin(calls, &rest);
    let (now_ms, mut left) = (unix_ms(), range.limit);
    loop {
        let found = next(&mut entries, calls);
        // Nodes have come or gone: others may have what is still to come.
        if calls.shared.layout().epoch() != epoch {
            (epoch, entries) = begin(calls, &rest);
            continue;
        }
        let (key, cell) = match found {
            Ok(Some(entry)) => entry,
            Ok(None) => return sending.end(),
            Err(error) => {
                return sending.fail(&error, "too few nodes answered for a range of all keys");
            }
        };
        rest.from = [&key, &b"\0"[..]].concat().into();
        let Some(value) = cell.at(now_ms) else {
            if sending.is_wanted() {
                continue;
            }
            return;
        };
        let is_over = left == 0;
        let line = if is_over {
            Line::Next(key)
        } else {
            Line::Entry(key, cell.version, value.clone())
        };
        let is_taken = sending.add(&[line.json().to_string().as_bytes(), b"\n"]);
        if is_over {
            return sending.end();
        }
        if !is_taken {
            return;
        }
        left -= 1;
    }
}

/// A range of all nodes, and the epoch of the layout that says who they are.
fn begin(calls: &Calls, span: &Span) -> (u64, Merged) {
    let layout = calls.shared.layout();
    let next = layout.next.as_ref().map(|next| next.placement.replicas);
    let replicas = next.unwrap_or(usize::MAX).min(layout.now.replicas);
    let nodes = layout.nodes().into_iter().map(|node| node.id);
    let ack = Quorum::majority(replicas).ack;
    (layout.epoch(), Merged::new(nodes, span, ack))
}

/// The next key and its newest cell, from nodes that are asked for it. It fails when too many nodes do, as the last of them.
fn next(entries: &mut Merged, calls: &Calls) -> Result<Option<(Bytes, Cell)>, NoAnswer> {
    loop {
        let wanted = entries.wanted();
        if wanted.is_empty() {
            return Ok(entries.next());
        }
        for (node, span) in wanted {
            let (page, error) = match calls.ask_again(node, || Say::Scan(true, span.clone())) {
                Ok(Say::Page(page)) => (Some(page), NoAnswer::Silent),
                answer => (None, answer.err().unwrap_or(NoAnswer::Silent)),
            };
            let filled = entries.fill(node, page);
            filled.map_err(|TooFewNodes| error)?;
        }
    }
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
    fn fail(&mut self, error: &NoAnswer, silent: &str) {
        let Some(replier) = self.replier.take() else {
            return;
        };
        replier.answer(match error {
            NoAnswer::Silent => api::text(504, silent),
            NoAnswer::Refused(Why::Busy, why) => api::busy(why),
            NoAnswer::Refused(Why::Unable, why) => api::text(501, why),
            NoAnswer::Refused(_, why) => api::text(503, why),
        });
    }
}
