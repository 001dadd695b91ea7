//! Answers that are sent piece by piece, from a thread that waits for whoever takes them.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_gateway::service::{Answer, Content, Feeder, Replier};

use crate::api;
use crate::cluster::NoAnswer;
use crate::frame::Why;

pub(super) const NDJSON: &[u8] = b"application/x-ndjson";
pub(super) const OCTETS: &[u8] = b"application/octet-stream";
/// Bytes that are sent at once, about.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// The gateway waits five seconds for a piece. After this time, what is next may take as long as a node does.
const SLOW: Duration = Duration::from_secs(2);

/// Something that is being sent. The answer begins with the first piece, so that what fails before that has a status.
pub(super) struct Sending {
    content_type: &'static [u8],
    feeder: Option<Feeder>,
    content: Option<Content>,
    replier: Option<Replier>,
    piece: Vec<u8>,
    /// When the last piece was sent.
    last: Instant,
}

impl Sending {
    pub(super) fn new(replier: Replier, content_type: &'static [u8]) -> Self {
        let (feeder, content) = Content::pieces(None);
        Self {
            content_type,
            feeder: Some(feeder),
            content: Some(content),
            replier: Some(replier),
            piece: Vec::with_capacity(PIECE_BYTES),
            last: Instant::now(),
        }
    }

    /// Adds what `write` appends; whether more is wanted.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        write(&mut self.piece);
        self.piece.len() < PIECE_BYTES || self.send()
    }

    /// Whether somebody still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        let has_left = match (&self.replier, &self.feeder) {
            (Some(replier), _) => replier.has_left(),
            (None, feeder) => feeder.as_ref().is_none_or(Feeder::has_left),
        };
        !has_left
    }

    /// Whether nothing was sent for a while, so that the gateway may soon give up.
    pub(super) fn is_slow(&self) -> bool {
        self.last.elapsed() > SLOW
    }

    /// Sends what there is, also if that is nothing: the gateway waits for more then. Whether more is wanted.
    pub(super) fn send(&mut self) -> bool {
        self.begin();
        let piece = std::mem::take(&mut self.piece);
        let is_wanted = self.feeder.as_ref().is_some_and(|to| feed(to, piece));
        self.last = Instant::now();
        is_wanted
    }

    fn begin(&mut self) {
        if let (Some(replier), Some(content)) = (self.replier.take(), self.content.take()) {
            replier.answer(Answer {
                content,
                ..Answer::new(200).with("Content-Type", self.content_type)
            });
        }
    }

    pub(super) fn end(mut self) {
        if (self.piece.is_empty() || self.send())
            && let Some(feeder) = self.feeder.take()
        {
            self.begin();
            // A client that has left is told nothing.
            let _ = feeder.finish_blocking();
        }
    }

    /// Answers with an error; what has begun breaks off.
    pub(super) fn fail(mut self, error: &NoAnswer, silent: &str) {
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

/// Feeds a piece of any length, of which no more waits for a client than a few small ones. Whether more is wanted.
pub(super) fn feed(feeder: &Feeder, piece: Vec<u8>) -> bool {
    let mut rest = Bytes::from(piece);
    loop {
        let part = rest.split_to(rest.len().min(PIECE_BYTES));
        if feeder.feed_blocking(part).is_err() {
            return false;
        }
        if rest.is_empty() {
            return true;
        }
    }
}
