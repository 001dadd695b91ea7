//! The life of an HTTP/1.1 connection: wait, read a head, run the story, and again.

use std::borrow::Borrow;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use weir_http::Reject;
use weir_http::head::HeadScan;
use weir_http::request::{self, Progress};

use crate::buffers::Buffers;
use crate::connection::{After, Client};
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::listener::round::Rounds;
use crate::state::worker::Worker;
use crate::story;

/// Empty lines skipped before a request line. One is what RFC 9112 §2.2 asks for; some old clients send two.
const LEADING_EMPTY_LINES_MAX: usize = 2;
/// How long a closing connection is read, and how much is read from it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;
/// How long a draining worker waits for a request that may be in flight on an idle connection.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// Serves a client until its connection ends, and drops `presence` then. The worker is that of the presence.
///
/// This is the task of a connection, most of which are idle.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function holds what it is given twice"
)]
pub(crate) fn serve(
    mut client: Box<Client>,
    presence: impl Borrow<Rc<Worker>>,
    rounds: Rc<Rounds>,
) -> impl Future<Output = ()> {
    async move {
        let mut after = After::KeepAlive;
        while after == After::KeepAlive && wait_for_request(&mut client, presence.borrow()).await {
            // A client that sends many requests at once takes turns with others.
            tokio::task::coop::consume_budget().await;
            let mut round = rounds.take();
            round.begin(client, presence.borrow());
            (client, after) = poll_fn(|cx| round.poll(cx)).await;
            rounds.put(round);
        }
        match after {
            After::Close => {
                Box::pin(linger(&mut client, &presence.borrow().buffers)).await;
            }
            After::Abort => client.h1().stream.reset_on_close(),
            After::KeepAlive | After::Leave => {}
        }
    }
}

/// Reads a request and answers it.
pub(crate) async fn serve_request(x: &mut Exchange, worker: &Rc<Worker>) -> After {
    match read_head(x, worker).await {
        Ok(true) => story::run(x, worker).await,
        Ok(false) => After::Leave,
        Err(failure) => story::refuse(x, worker, failure).await,
    }
}

/// Whether a request begins to arrive before the connection has been idle for too long.
fn wait_for_request(client: &mut Client, worker: &Worker) -> impl Future<Output = bool> {
    client.timer.set(worker.view().snapshot.timeouts.idle);
    let mut seen_draining = false;
    poll_fn(move |cx| {
        if !client.h1().input.is_empty() {
            return Poll::Ready(true);
        }
        if (worker.is_draining() || client.is_last()) && !seen_draining {
            seen_draining = true;
            client.timer.set(DRAIN_IDLE);
        }
        // Only a read can tell: the runtime takes a connection that was just accepted for readable.
        let has_begun = match client.link.poll_read(&worker.buffers, cx) {
            Poll::Ready(count) => Poll::Ready(count.is_ok_and(|count| count > 0)),
            Poll::Pending => client.timer.poll(cx).map(|()| false),
        };
        if has_begun.is_ready() {
            client.link.release(&worker.buffers);
        }
        has_begun
    })
}

/// Reads a request head into `x`; `false` when the client closed before it sent one.
async fn read_head(x: &mut Exchange, worker: &Worker) -> Result<bool, Failure> {
    let (limits, timeout) = {
        let view = worker.view();
        (view.snapshot.head_limits, view.snapshot.timeouts.head)
    };
    let mut scan = HeadScan::default();
    let mut empty_lines = 0;
    x.client.timer.set(timeout);
    loop {
        if skip_empty_line(&mut x.client, empty_lines)? {
            empty_lines += 1;
            continue;
        }
        let unread = x.client.h1().input.unread();
        match x
            .request
            .parse(unread, &mut scan, limits)
            .map_err(Failure::Request)?
        {
            Progress::Complete(bytes) => {
                x.take_head(bytes);
                return Ok(true);
            }
            Progress::Incomplete => {
                match x.client.fill(&worker.buffers, Failure::HeadTimeout).await {
                    Ok(0) | Err(Failure::ClientGone) if x.client.h1().input.is_empty() => {
                        return Ok(false);
                    }
                    Ok(0) => return Err(Failure::ClientGone),
                    Ok(_) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
    }
}

fn skip_empty_line(client: &mut Client, skipped: usize) -> Result<bool, Failure> {
    let input = &mut client.h1().input;
    if request::leading_empty_line(input.unread()).map_err(Failure::Request)? != Some(true) {
        return Ok(false);
    }
    if skipped == LEADING_EMPTY_LINES_MAX {
        return Err(Failure::Request(Reject::RequestLine));
    }
    input.consume(2);
    Ok(true)
}

/// Closes so that the client can still read the response: data that arrives on a closed socket would reset the
/// connection, and the response would be lost.
async fn linger(client: &mut Client, buffers: &Buffers) {
    client.h1().stream.finish_sending();
    client.timer.set(LINGER);
    let mut read = client.h1().input.unread().len();
    while read < LINGER_BYTES_MAX {
        let input = &mut client.h1().input;
        input.consume(input.unread().len());
        match client.fill(buffers, Failure::ClientGone).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read += count,
        }
    }
}
