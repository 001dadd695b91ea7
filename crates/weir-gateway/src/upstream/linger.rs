//! A request that nobody waits for any more, while its upstream is still at work on it: its client has left, or its attempt took so
//! long that another one follows.
//!
//! Few services notice that nobody waits for their answer. If its place went to the next request at once, such a service would
//! hold more than its limit, all the more the more impatient its clients are: an hour of work for nobody, and the limit would see
//! none of it. So the request keeps its place until the service has answered, or, where the head of the response was here already,
//! has said something more; at the latest when the time for that is over. The answer is for nobody, and its connection is closed with
//! it. That it came says how long the service takes: where every client leaves before it is answered, nothing else would.
//!
//! A client that has left counts as a connection of its address meanwhile: it takes no more places by leaving than by staying.
//! It holds nothing but the place: no probe of a breaker, and no endpoint is told how it ended.
//!
//! Where there are no places, the connection is closed at once, which says to services that can hear it that they may stop.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use weir_policy::Outcome;
use weir_socket::Stream;

use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::state::gate::Place;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::time;
use crate::upstream::ahead::STREAM_AFTER;
use crate::upstream::chosen::Chosen;
use crate::upstream::hedge::Asked;
use crate::upstream::relay::Upstream;

/// Interim responses of more bytes than this are taken for an answer.
const INTERIM_BYTES_MAX: usize = 16 << 10;
const READ_BYTES: usize = 512;

/// Keeps the place of the request in `x`, which nobody waits for, while `asked` is at work on all of it, for `patience` after it was
/// asked.
pub(crate) fn begin(x: &mut Exchange, worker: &Worker, asked: Asked, patience: Duration) {
    let Asked { chosen, upstream } = asked;
    let until = chosen.since() + patience;
    let awaited = Awaited::Head(x.incoming.unread().to_vec());
    let Some((place, stay)) = keep(x, worker, &upstream) else {
        return;
    };
    chosen.tell_nobody();
    let left = Left {
        stream: upstream.wire.into_stream(),
        chosen: Some(chosen),
        place,
        stay,
        says_time: !x.facts.was_repeated,
    };
    tokio::task::spawn_local(left.wait(awaited, until));
}

/// The same once the head of the response is here: until there is more of it, or it would be a stream and no work any more.
pub(crate) fn after_head(x: &mut Exchange, worker: &Worker, mut upstream: Upstream) {
    std::mem::swap(&mut x.pass, &mut upstream.pass);
    let says_time = !x.facts.was_repeated && !x.pass.was_held_up();
    let answered_at = x.facts.answered_at.unwrap_or_else(time::now);
    if !x.pass.is_apart()
        && let Some((place, stay)) = keep(x, worker, &upstream)
    {
        let left = Left {
            stream: upstream.wire.into_stream(),
            chosen: None,
            place,
            stay,
            says_time,
        };
        tokio::task::spawn_local(left.wait(Awaited::More, answered_at + STREAM_AFTER));
    }
}

/// The place of the request in `x`, if it has one that can be kept.
fn keep(x: &mut Exchange, worker: &Worker, upstream: &Upstream) -> Option<(Place, Stay)> {
    if !upstream.wire.is_sent() || !x.upload.is_complete() || !x.pass.has_place() {
        return None;
    }
    let address = x.client_address().address();
    let stay = Stay::of(address, &worker.shared)?;
    Some((x.pass.leave_place()?, stay))
}

/// What the service has yet to say.
enum Awaited {
    /// The head of a response, of which so much has come.
    Head(Vec<u8>),
    More,
}

/// What is left of a request.
struct Left {
    stream: Stream,
    /// As long as it is the endpoint's turn.
    chosen: Option<Chosen>,
    place: Place,
    stay: Stay,
    /// Whether the time that the place was taken is the service's.
    says_time: bool,
}

impl Left {
    async fn wait(self, mut awaited: Awaited, until: Instant) {
        let mut due = Due::at(until);
        let answer = poll_fn(|cx| match awaited.poll(&self.stream, cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => due.poll(cx).map(|()| None),
        })
        .await;
        let Self {
            stream,
            chosen,
            mut place,
            stay,
            says_time,
        } = self;
        let taken = time::since(place.since());
        let outcome = match answer {
            Some(Answer::Good) => Outcome::Success(taken),
            Some(Answer::Other) | None => Outcome::Failure(taken),
            Some(Answer::End) => Outcome::Ignored,
        };
        if says_time {
            place.will_say(outcome);
        }
        drop((stream, chosen, place, stay));
    }
}

/// What the service has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The head of a response that is none of its mistakes.
    Good,
    /// Something else.
    Other,
    /// Nothing: the connection has ended.
    End,
}

impl Awaited {
    fn poll(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<Answer> {
        let Self::Head(head) = self else {
            return stream.poll_readable(cx).map(|_| Answer::Other);
        };
        loop {
            if let Some(answer) = answer_in(head) {
                return Poll::Ready(answer);
            }
            head.reserve(READ_BYTES);
            match ready!(stream.poll_read(head, cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Answer::End),
                Ok(_) => {}
            }
        }
    }
}

/// The answer, as far as it has come; interim responses before it are taken off.
fn answer_in(head: &mut Vec<u8>) -> Option<Answer> {
    loop {
        let first_digit = head.get(b"HTTP/1.1 ".len())?;
        let is_http = head.starts_with(b"HTTP/1.");
        match first_digit {
            b'1' if is_http && head.len() <= INTERIM_BYTES_MAX => {
                let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
                head.drain(..end + 4);
            }
            b'2'..=b'4' if is_http => return Some(Answer::Good),
            _ => return Some(Answer::Other),
        }
    }
}

/// A connection of a client in the counts, though it is closed.
struct Stay {
    address: IpAddr,
    shared: Arc<Shared>,
}

impl Stay {
    fn of(address: IpAddr, shared: &Arc<Shared>) -> Option<Self> {
        let shared = Arc::clone(shared);
        let may_stay = shared.admission.enter(address);
        may_stay.then_some(Self { address, shared })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.shared.admission.leave(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_responses_are_no_answer() {
        for (head, answer) in [
            ("", None),
            ("HTTP/1.1 ", None),
            ("HTTP/1.1 2", Some(Answer::Good)),
            ("HTTP/1.0 404 Not Found\r\n", Some(Answer::Good)),
            ("HTTP/1.1 503 ", Some(Answer::Other)),
            ("SSH-2.0-x 2\r\n", Some(Answer::Other)),
            ("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n", None),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\n\r\n", None),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
                Some(Answer::Good),
            ),
            (
                "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 500 ",
                Some(Answer::Other),
            ),
        ] {
            assert_eq!(answer_in(&mut head.as_bytes().to_vec()), answer, "{head}");
        }
        let mut endless = b"HTTP/1.1 103 ".to_vec();
        endless.resize(INTERIM_BYTES_MAX + 1, b'x');
        assert_eq!(answer_in(&mut endless), Some(Answer::Other));
    }
}
