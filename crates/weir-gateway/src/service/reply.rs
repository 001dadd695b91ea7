//! What a service answers, and how the answer gets from its thread to the worker of the client.
//!
//! Content that is not here whole comes in pieces through a channel that holds [`PIECES_MAX`]: a service is held back by a client
//! that reads slowly.

use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc;
use weir_http::FieldName;
use weir_http::head::is_token_byte;

use crate::service::later::{self, Awaited, Given};

/// Pieces of content that wait for a client.
const PIECES_MAX: usize = 4;

/// The answer of a service to a request.
#[derive(Debug)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    /// Fields in their order. `Date`, framing and what belongs to a connection are the gateway's.
    pub fields: Vec<(Box<str>, Vec<u8>)>,
    /// The content; none for 204, 205 and 304. A HEAD gets its length and no more.
    pub content: Content,
}

impl Answer {
    /// An answer without content and fields.
    pub fn new(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            content: Content::Whole(Bytes::new()),
        }
    }

    /// The same with one field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// The same with this content.
    #[must_use]
    pub fn content(mut self, content: impl Into<Bytes>) -> Self {
        self.content = Content::Whole(content.into());
        self
    }

    /// Whether it can be sent: HTTP has this status, its fields are fields and none of the gateway's, and it has content only
    /// where there may be some.
    pub(crate) fn is_sound(&self) -> bool {
        let has_content = !matches!(&self.content, Content::Whole(bytes) if bytes.is_empty());
        let may_have_content = !matches!(self.status, 204 | 205 | 304);
        (200..600).contains(&self.status)
            && (may_have_content || !has_content)
            && self
                .fields
                .iter()
                .all(|(name, value)| is_field(name, value))
    }
}

/// Whether a service may say this: a field that is not the gateway's.
pub(super) fn is_field(name: &str, value: &[u8]) -> bool {
    let id = FieldName::of(name.as_bytes());
    let is_own = id.is_hop_by_hop() || matches!(id, FieldName::ContentLength | FieldName::Date);
    let is_text = |&byte: &u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    !name.is_empty() && name.bytes().all(is_token_byte) && !is_own && value.iter().all(is_text)
}

/// The content of an answer.
#[derive(Debug)]
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// It comes in pieces, in all so many bytes where that is known.
    Pieces(Option<u64>, Pieces),
}

impl Content {
    /// Content that comes in pieces, and what they are fed to.
    pub fn pieces(length: Option<u64>) -> (Feeder, Self) {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        (Feeder(sender), Self::Pieces(length, Pieces(receiver)))
    }
}

/// The client's end of content that comes in pieces.
#[derive(Debug)]
pub struct Pieces(mpsc::Receiver<Piece>);

/// What a feeder says.
#[derive(Debug)]
pub(crate) enum Piece {
    Content(Bytes),
    End,
}

impl Pieces {
    /// The next piece; `None` when the feeder is gone without having said that this is the end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.0.poll_recv(cx)
    }
}

/// The service's end of content that comes in pieces. Dropped without [`Feeder::finish`], the response breaks off.
#[derive(Debug)]
pub struct Feeder(mpsc::Sender<Piece>);

/// Nobody takes the content any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HasLeft;

impl Feeder {
    /// Waits until there is room for the next piece.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub async fn feed(&self, piece: impl Into<Bytes>) -> Result<(), HasLeft> {
        let piece = Piece::Content(piece.into());
        self.0.send(piece).await.map_err(|_| HasLeft)
    }

    /// The same on a thread of its own, which it blocks. Not for a task.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub fn feed_blocking(&self, piece: impl Into<Bytes>) -> Result<(), HasLeft> {
        let piece = Piece::Content(piece.into());
        self.0.blocking_send(piece).map_err(|_| HasLeft)
    }

    /// Whether nobody takes it any more.
    pub fn has_left(&self) -> bool {
        self.0.is_closed()
    }

    /// That was all of it.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub async fn finish(self) -> Result<(), HasLeft> {
        self.0.send(Piece::End).await.map_err(|_| HasLeft)
    }

    /// The same on a thread of its own, which it blocks. Not for a task.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub fn finish_blocking(self) -> Result<(), HasLeft> {
        self.0.blocking_send(Piece::End).map_err(|_| HasLeft)
    }
}

/// An answer that is there, or will be.
#[derive(Debug)]
pub struct Reply(State);

#[derive(Debug)]
enum State {
    Ready(Option<Box<Answer>>),
    Later(Awaited),
}

impl Reply {
    /// An answer that is there.
    pub fn ready(answer: Answer) -> Self {
        Self(State::Ready(Some(Box::new(answer))))
    }

    /// An answer that comes later, and what gives it from whatever thread.
    pub fn later() -> (Replier, Self) {
        let (replier, awaited) = later::later();
        (Replier(replier), Self(State::Later(awaited)))
    }

    /// The answer; `None` when the service has dropped its end without one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        match &mut self.0 {
            State::Ready(answer) => Poll::Ready(answer.take().map(|answer| *answer)),
            State::Later(awaited) => awaited.poll(cx),
        }
    }
}

/// The service's end of a [`Reply`]. Dropped without an answer, the client gets a 500.
#[derive(Debug)]
pub struct Replier(Given);

impl Replier {
    /// Answers. Nothing happens when the client has left meanwhile.
    pub fn answer(self, answer: Answer) {
        later::give(&self.0, answer);
    }

    /// Answers many at once, for the price of one wake-up for each worker.
    pub fn answer_all(answers: impl Iterator<Item = (Self, Answer)>) {
        later::give_all(answers.map(|(replier, answer)| (replier.0, answer)));
    }

    /// Whether nobody waits for the answer any more.
    pub fn has_left(&self) -> bool {
        self.0.has_left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_of_http_is_found_before_it_is_sent() {
        let plain = |status| Answer::new(status).with("Content-Type", *b"text/plain");
        for (answer, is_sound) in [
            (plain(200).content("text"), true),
            (plain(599), true),
            (plain(304).with("ETag", *b"\"1\""), true),
            (plain(204), true),
            (plain(204).content("text"), false),
            (plain(205).content("text"), false),
            (plain(304).content("text"), false),
            (plain(101), false),
            (plain(199), false),
            (plain(600), false),
            (plain(0), false),
            (plain(200).with("Content-Length", *b"4"), false),
            (plain(200).with("transfer-encoding", *b"chunked"), false),
            (plain(200).with("Connection", *b"close"), false),
            (plain(200).with("Date", *b"now"), false),
            (plain(200).with("X: 1\r\nY", *b"2"), false),
            (plain(200).with("", *b"2"), false),
            (plain(200).with("X", *b"1\r\nSet-Cookie: a"), false),
            (plain(200).with("X", *b"1\0"), false),
            (plain(200).with("X", "\u{e9}\t1".as_bytes()), true),
        ] {
            assert_eq!(answer.is_sound(), is_sound, "{answer:?}");
        }
        let (_feeder, content) = Content::pieces(None);
        let streamed = Answer {
            content,
            ..plain(304)
        };
        assert!(!streamed.is_sound());
    }
}
