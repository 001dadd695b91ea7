//! An HTTP/1.1 connection. As many requests are on their way as the plan's pipeline is deep, and the next one is written as
//! soon as a response is complete. A request takes one send and one receive, no timer object and no allocation.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::task::yield_now;
use weir_http::Method;
use weir_socket::Stream;
use weir_socket::deadline::Timer;

use super::{open_in_time, pause};
use crate::lane::Lane;
use crate::outcome::Outcome;
use crate::response::ResponseReader;
use crate::source::{Next, Start};

/// These read half a megabyte at most, which takes less than a millisecond. Most answers are smaller.
const READS_PER_TURN: usize = 8;

/// Sends until there is nothing more to send.
pub(super) async fn run(lane: Rc<Lane>, id: usize, pipeline: usize, stream: Option<Stream>) {
    let mut connection = Connection::new(lane, id, pipeline, stream);
    while poll_fn(|cx| connection.poll_begin(cx)).await {
        connection.ensure_open().await;
        if connection.stream.is_some() {
            let after = connection.exchange().await;
            connection.settle(after);
        }
    }
}

struct Connection {
    lane: Rc<Lane>,
    id: usize,
    depth: usize,
    timer: Timer,
    stream: Option<Stream>,
    /// Requests without a response, in the order of their sending.
    on_the_way: VecDeque<Sent>,
    /// Requests as bytes, of which `written` were sent.
    out: Vec<u8>,
    written: usize,
    reader: ResponseReader,
    /// Attempts to connect in a row that failed.
    refusals: u32,
}

#[derive(Clone, Copy)]
struct Sent {
    start: Start,
    method: Method,
}

/// Why an exchange is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// All responses have come, and nothing is due.
    Idle,
    /// The server has said that it closes; requests without a response are sent again.
    Closing,
    /// The connection broke.
    Lost,
    TimedOut,
}

impl Connection {
    fn new(lane: Rc<Lane>, id: usize, pipeline: usize, stream: Option<Stream>) -> Self {
        Self {
            id,
            depth: if lane.plan.keep_alive { pipeline } else { 1 },
            timer: Timer::new(&lane.deadlines),
            stream,
            on_the_way: VecDeque::with_capacity(pipeline),
            out: Vec::new(),
            written: 0,
            reader: ResponseReader::default(),
            refusals: 0,
            lane,
        }
    }

    /// Waits for a request to send; `false` is the end of the run.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if !self.on_the_way.is_empty() {
            return Poll::Ready(true);
        }
        let now_ns = self.lane.now_ns();
        match self.lane.next(self.id, now_ns, cx) {
            Next::Over => Poll::Ready(false),
            Next::WaitUntil(_) => {
                self.drop_if_closed(cx);
                Poll::Pending
            }
            Next::Send(start) => {
                self.drop_if_closed(cx);
                self.begin(start, now_ns);
                self.refill(now_ns);
                Poll::Ready(true)
            }
        }
    }

    /// A server may close a connection that nothing is sent on. The next request has not failed by that.
    fn drop_if_closed(&mut self, cx: &mut Context<'_>) {
        if self.lane.plan.arrivals.is_closed() {
            return;
        }
        let Some(stream) = &self.stream else {
            return;
        };
        let mut unasked = self.lane.read_buffer.borrow_mut();
        unasked.clear();
        let is_over = stream.poll_read(&mut unasked, cx).is_ready();
        drop(unasked);
        if is_over {
            self.close();
        }
    }

    /// Puts a request behind the ones that are on their way.
    fn begin(&mut self, start: Start, now_ns: u64) {
        let method = self
            .lane
            .wire
            .borrow_mut()
            .write(start.number, &mut self.out);
        if self.on_the_way.is_empty() {
            self.timer.set_at(now_ns + self.lane.timeout_ns);
        }
        self.on_the_way.push_back(Sent { start, method });
    }

    /// Takes what is due, as far as the pipeline goes.
    fn refill(&mut self, now_ns: u64) {
        while self.on_the_way.len() < self.depth {
            let Next::Send(start) = self.lane.next_at_once(now_ns) else {
                break;
            };
            self.begin(start, now_ns);
        }
    }

    async fn ensure_open(&mut self) {
        if self.stream.is_some() {
            return;
        }
        match open_in_time(&self.lane, &self.timer).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.refusals = 0;
            }
            Err(failure) => {
                failure.note(&self.lane);
                self.fail_all(failure.outcome());
                pause(&self.lane, &self.timer, self.refusals).await;
                self.refusals += 1;
            }
        }
    }

    /// Writes and reads until the connection is idle or of no more use.
    async fn exchange(&mut self) -> After {
        loop {
            if let ControlFlow::Break(after) = poll_fn(|cx| self.poll_turn(cx)).await {
                return after;
            }
            // What arrives as fast as it is read must not keep the thread from this deadline, from the clock or from the
            // other connections. All of them come first now.
            if self.timer.has_passed(self.lane.now_ns()) {
                return After::TimedOut;
            }
            yield_now().await;
        }
    }

    /// Writes and reads as much as one connection may before the others have their turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<ControlFlow<After>> {
        for _ in 0..READS_PER_TURN {
            if self.written < self.out.len() {
                match self.poll_write(cx) {
                    Poll::Ready(ControlFlow::Break(())) => {
                        return Poll::Ready(ControlFlow::Break(After::Lost));
                    }
                    // It took a part. Only who was told to wait is woken, so it is asked again.
                    Poll::Ready(ControlFlow::Continue(())) if self.written < self.out.len() => {
                        continue;
                    }
                    _ => {}
                }
            }
            let received = self.poll_read(cx);
            match received {
                Poll::Ready(ControlFlow::Continue(())) => {}
                Poll::Ready(over) => return Poll::Ready(over),
                Poll::Pending if self.begin_what_is_due(cx) => {}
                Poll::Pending => {
                    let timed_out = |()| ControlFlow::Break(After::TimedOut);
                    return self.timer.poll(cx).map(timed_out);
                }
            }
        }
        Poll::Ready(ControlFlow::Continue(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<ControlFlow<()>> {
        let Some(stream) = &self.stream else {
            return Poll::Ready(ControlFlow::Break(()));
        };
        let written = stream.poll_write(cx, &self.out[self.written..], &[]);
        written.map(|written| match written {
            Ok(count) => {
                self.written += count;
                if self.written == self.out.len() {
                    self.out.clear();
                    self.written = 0;
                }
                ControlFlow::Continue(())
            }
            Err(_) => ControlFlow::Break(()),
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<ControlFlow<After>> {
        let Some(stream) = &self.stream else {
            return Poll::Ready(ControlFlow::Break(After::Lost));
        };
        let lane = Rc::clone(&self.lane);
        let mut buffer = lane.read_buffer.borrow_mut();
        buffer.clear();
        let count = match stream.poll_read(&mut buffer, cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(_)) => return Poll::Ready(ControlFlow::Break(After::Lost)),
            Poll::Ready(Ok(count)) => count,
        };
        let now_ns = lane.now_ns();
        Poll::Ready(if count == 0 {
            ControlFlow::Break(self.take_end(now_ns))
        } else {
            lane.recorder.borrow_mut().bytes_received += count as u64;
            self.take_in(&buffer, now_ns)
        })
    }

    /// Reads the responses in `bytes` and takes new requests for the ones that are complete.
    fn take_in(&mut self, mut bytes: &[u8], now_ns: u64) -> ControlFlow<After> {
        let lane = Rc::clone(&self.lane);
        while !bytes.is_empty() {
            let Some(first) = self.on_the_way.front() else {
                // Nobody asked for this.
                return ControlFlow::Break(After::Lost);
            };
            let mut seen = lane.seen_head.borrow_mut();
            match self.reader.read(&mut bytes, first.method, &mut seen) {
                Ok(None) => return ControlFlow::Continue(()),
                Err(_) => return ControlFlow::Break(After::Lost),
                Ok(Some(meaning)) => {
                    self.finish(Outcome::of_status(meaning.status), now_ns);
                    if !meaning.keep_alive || !lane.plan.keep_alive {
                        return ControlFlow::Break(After::Closing);
                    }
                }
            }
        }
        self.refill(now_ns);
        if self.on_the_way.is_empty() {
            ControlFlow::Break(After::Idle)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The server has closed.
    fn take_end(&mut self, now_ns: u64) -> After {
        match self.reader.end() {
            Some(meaning) => {
                self.finish(Outcome::of_status(meaning.status), now_ns);
                After::Closing
            }
            None => After::Lost,
        }
    }

    /// The first request on its way has ended.
    fn finish(&mut self, outcome: Outcome, now_ns: u64) {
        if let Some(sent) = self.on_the_way.pop_front() {
            self.lane.record(sent.start, outcome, now_ns);
        }
        if let Some(next) = self.on_the_way.front() {
            self.timer.set_at(next.start.sent_ns + self.lane.timeout_ns);
        }
    }

    /// A pipeline with room takes what is due while it waits. Returns whether it did.
    fn begin_what_is_due(&mut self, cx: &mut Context<'_>) -> bool {
        if self.on_the_way.len() == self.depth || self.lane.plan.arrivals.is_closed() {
            return false;
        }
        let now_ns = self.lane.now_ns();
        let Next::Send(start) = self.lane.next(self.id, now_ns, cx) else {
            return false;
        };
        self.begin(start, now_ns);
        true
    }

    /// Draws the consequences of an exchange that is over.
    fn settle(&mut self, after: After) {
        if self.depth > 1 {
            // A connection on the list must be able to send when it is woken.
            self.lane.leave(self.id);
        }
        match after {
            After::Idle => {}
            After::Closing => {
                self.close();
                self.send_again();
            }
            After::Lost => {
                self.close();
                self.fail_all(Outcome::Reset);
            }
            After::TimedOut if self.lane.is_halted() => {
                self.close();
                for sent in self.on_the_way.drain(..) {
                    self.lane.abandon(sent.start);
                }
            }
            After::TimedOut => {
                self.close();
                self.fail_all(Outcome::Timeout);
            }
        }
    }

    /// The server has not acted on requests behind its last response on a connection that closes (RFC 9112 §9.3.2).
    fn send_again(&mut self) {
        let lane = Rc::clone(&self.lane);
        for sent in &self.on_the_way {
            lane.wire
                .borrow_mut()
                .write(sent.start.number, &mut self.out);
        }
    }

    fn fail_all(&mut self, outcome: Outcome) {
        let now_ns = self.lane.now_ns();
        for sent in self.on_the_way.drain(..) {
            self.lane.record(sent.start, outcome, now_ns);
        }
        self.out.clear();
        self.written = 0;
    }

    fn close(&mut self) {
        self.stream = None;
        self.reader.reset();
        self.out.clear();
        self.written = 0;
    }
}

#[cfg(test)]
mod tests;
