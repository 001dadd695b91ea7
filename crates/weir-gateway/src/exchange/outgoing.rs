//! What goes to the client: every head is finished here, and every byte of HTTP is sent by the one loop of [`send_while`].
//!
//! A head is a status and its end-to-end lines, from an upstream, from the cache or of our own. Whoever has them writes them to
//! [`Outgoing::bytes`] between [`Outgoing::begin`] and [`Exchange::finish_head`]; what belongs to the connection is added
//! there.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::task::{Context, Poll};

use weir_cache::store::Object;
use weir_http::forward::write_field;
use weir_http::opening::{self, End, Opening};
use weir_policy::limit::rate::Decision;

use crate::connection::After;
use crate::exchange::Exchange;
use crate::exchange::variables::Place;
use crate::failure::Failure;
use crate::state::snapshot::edited::Edited;
use crate::state::view::View;
use crate::state::worker::Worker;

/// Bodies up to this are copied behind the head: that is cheaper than telling the kernel of two pieces.
pub(crate) const COPIED_BODY_BYTES_MAX: usize = 4 << 10;
/// Pieces of a stored body that one system call sends.
const PIECES_MAX: usize = 64;

/// What is written for the client and not yet sent, and what it has been told.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// A head, and what goes behind it in the framing that the client gets.
    pub(crate) bytes: Vec<u8>,
    /// So many of them, at the front, are a head and were not sent.
    head_bytes: usize,
    /// What the client has been told once all of them were sent.
    says: Told,
    told: Told,
    /// What every answer of the route says.
    of_route: Vec<u8>,
    /// Whether it is in the place of what the route is there for.
    pub(crate) is_instead: bool,
}

/// What the client of an exchange has been told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Told {
    #[default]
    Nothing,
    /// Part of an interim response, which leaves no way to say anything else.
    PartOfInterim,
    /// Interim responses of its upstream. The answer may still be any.
    Interim,
    /// The answer, or part of it.
    Answer,
}

impl Outgoing {
    /// Begins a head.
    pub(crate) fn begin(&mut self, status_text: &[u8]) {
        self.bytes.clear();
        self.is_instead = false;
        opening::begin(status_text, &mut self.bytes);
    }

    /// Every answer says `lines`, whoever makes it.
    pub(crate) fn told_by(&mut self, lines: &[u8]) {
        self.of_route.extend_from_slice(lines);
    }

    /// Every answer has this field, whoever makes it.
    pub(crate) fn told_by_field(&mut self, name: &[u8], value: &[u8]) {
        write_field(&mut self.of_route, name, value);
    }

    /// Ends the head of an interim response, which `says` something of the answer or nothing.
    pub(crate) fn finish_interim(&mut self, says: Told) {
        self.bytes.extend_from_slice(b"\r\n");
        self.says = says;
        self.head_bytes = self.bytes.len();
    }

    /// What the client has been told so far.
    pub(crate) fn told(&self) -> Told {
        self.told
    }

    /// Whether the client can still be told anything.
    pub(crate) fn may_begin_anew(&self) -> bool {
        matches!(self.told, Told::Nothing | Told::Interim)
    }

    /// So many bytes more were sent of what `is_all` afterwards. Says how many of them were a head.
    fn sent(&mut self, bytes: usize, is_all: bool) -> usize {
        let of_head = bytes.min(self.head_bytes);
        self.head_bytes -= of_head;
        self.told = if is_all || self.says == Told::Answer {
            self.says
        } else {
            Told::PartOfInterim
        };
        of_head
    }

    /// Forgets everything and keeps the memory, up to `kept_bytes`.
    pub(super) fn reset(&mut self, kept_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
        self.head_bytes = 0;
        self.of_route.clear();
        self.of_route.shrink_to(kept_bytes);
        (self.says, self.told) = (Told::Nothing, Told::Nothing);
    }
}

/// What is sent behind the bytes of [`Outgoing`].
#[derive(Debug, Clone)]
pub(crate) enum Behind<'a> {
    Nothing,
    /// So many bytes of what was read from the upstream.
    Incoming(usize),
    Pieces(&'a [u8], &'a [u8]),
    Stored(&'a Object, Range<u64>),
}

impl Behind<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Incoming(bytes) => *bytes as u64,
            Self::Pieces(first, second) => (first.len() + second.len()) as u64,
            Self::Stored(_, range) => range.end - range.start,
        }
    }

    /// Writes as much as the client takes of all that is to be sent, from byte `sent` on.
    fn poll_write(&self, x: &Exchange, sent: u64, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (link, written) = (&x.client.link, &x.outgoing.bytes);
        let head = written.get(sent as usize..).unwrap_or_default();
        let sent_behind = sent.saturating_sub(written.len() as u64) as usize;
        match self {
            Self::Nothing => link.poll_write(cx, head, &[]),
            Self::Incoming(bytes) => {
                let body = &x.incoming.unread()[..*bytes];
                link.poll_write(cx, head, &body[sent_behind..])
            }
            Self::Pieces(first, second) => {
                let mut pieces = [head, first, second].map(IoSlice::new);
                let mut left = &mut pieces[..];
                // Empty pieces at the front would make a write of nothing look like a closed socket.
                IoSlice::advance_slices(&mut left, sent_behind);
                link.poll_write_pieces(cx, left)
            }
            Self::Stored(object, range) => {
                let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
                let count = object.slices(written, range.clone(), sent, &mut pieces);
                link.poll_write_pieces(cx, &pieces[..count])
            }
        }
    }
}

/// Sends what is written for the client and what is `behind`, all of both. Every write that makes progress gives the client
/// time for the next.
pub(crate) async fn send(x: &mut Exchange, behind: Behind<'_>) -> Result<(), Failure> {
    send_while(x, behind, |_, _| Ok(())).await
}

/// The same, while `meanwhile` is done whenever the client takes nothing.
pub(crate) async fn send_while(
    x: &mut Exchange,
    behind: Behind<'_>,
    mut meanwhile: impl FnMut(&mut Exchange, &mut Context<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let patience = x.timeouts.send;
    let total = x.outgoing.bytes.len() as u64 + behind.bytes();
    let mut sent = 0;
    x.client.timer.set(patience);
    let result = poll_fn(|cx| {
        while sent < total {
            match behind.poll_write(x, sent, cx) {
                Poll::Ready(Ok(count)) => {
                    sent += count as u64;
                    x.facts.bytes_sent += count as u64;
                    let of_head = x.outgoing.sent(count, sent == total);
                    x.facts.head_bytes_sent += of_head as u64;
                    x.client.timer.set(patience);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::ClientGone)),
                Poll::Pending => {
                    meanwhile(x, cx)?;
                    return x.client.timer.poll(cx).map(|()| Err(Failure::ClientGone));
                }
            }
        }
        Poll::Ready(Ok(()))
    })
    .await;
    x.outgoing.bytes.clear();
    result
}

impl Exchange {
    /// Ends the head of an answer, whose status line and lines are written: says what every client is told, and what belongs to
    /// its connection.
    pub(crate) fn finish_head(
        &mut self,
        (worker, view): (&Worker, &View),
        status: u16,
        end: End,
        keep_alive: bool,
    ) {
        self.facts.status = status;
        self.add_fields(worker, view);
        let out = &mut self.outgoing.bytes;
        out.extend_from_slice(&self.outgoing.of_route);
        if let Some(said) = &self.recall.status {
            said.write(out);
        }
        self.sticky.write(out);
        if let Some(decision) = &self.rate {
            write_rate_fields(decision, out);
        }
        let opening = Opening {
            end,
            version: self.request.version,
            keep_alive,
            is_upgrade: status == 101,
        };
        opening.finish(out);
        self.outgoing.says = Told::Answer;
        self.outgoing.head_bytes = self.outgoing.bytes.len();
        if let Some(line) = &view.snapshot.log_line
            && !line.noted.is_empty()
        {
            self.noted.take(&line.noted, &self.outgoing.bytes);
        }
    }

    /// What the configuration changes of the answer.
    pub(crate) fn says<'v>(&self, view: &'v View) -> &'v Edited {
        let snapshot = &view.snapshot;
        let route = self.facts.route.map(|route| &snapshot.routes[route]);
        let says = route.map_or(&snapshot.says, |route| &route.says);
        if self.outgoing.is_instead {
            &says.instead
        } else {
            &says.usual
        }
    }

    fn add_fields(&mut self, worker: &Worker, view: &View) {
        let says = self.says(view);
        if let Some(fields) = says.to_fill() {
            let mut out = std::mem::take(&mut self.outgoing.bytes);
            Place::new(self, worker, view).write_fields(fields, &mut out);
            self.outgoing.bytes = out;
        } else {
            says.edits(b"").write(&mut self.outgoing.bytes);
        }
    }

    /// What becomes of the connection after an answer, of which as much was sent as could be. Once a byte of it is out a status is
    /// of no use: only the connection can say that this was not the end.
    pub(crate) fn after(
        &mut self,
        worker: &Worker,
        sent: Result<(), Failure>,
        keep_alive: bool,
    ) -> Result<After, Failure> {
        match sent {
            Ok(()) => Ok(After::keep_alive(keep_alive)),
            Err(failure) if self.outgoing.may_begin_anew() => Err(failure),
            Err(failure) => {
                self.facts.failure = Some(worker.meaning_of(failure));
                Ok(After::Abort)
            }
        }
    }
}

/// Writes what a client is told of its limit: the fields `RateLimit` and `RateLimit-Policy`
/// (draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4).
fn write_rate_fields(decision: &Decision, out: &mut Vec<u8>) {
    let Decision {
        limit,
        window_s,
        remaining,
        ..
    } = decision;
    let parts: [(&[u8], u64); 4] = [
        (b"RateLimit-Policy: \"default\";q=", u64::from(*limit)),
        (b";w=", *window_s),
        (b"\r\nRateLimit: \"default\";r=", u64::from(*remaining)),
        (b";t=", decision.reset_s()),
    ];
    for (name, value) in parts {
        out.extend_from_slice(name);
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}
