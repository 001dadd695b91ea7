use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Waker;
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::arrivals::Share;
use crate::recorder::Handover;
use crate::report::tests::report;
use crate::thread::{Halt, ThreadStart};

/// Small, so that a socket holds more than a turn reads.
const READ_BYTES: usize = 256;
const TURN_BYTES: usize = READS_PER_TURN * READ_BYTES;

/// Runs `test` with a connection that has asked for something, of which more has come than it reads in a turn.
fn with_much_to_read(test: impl FnOnce(Connection, &mut Context<'_>)) {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let (stream, server) = UnixStream::pair().expect("there are sockets");
        let answer = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'x'; 4 * TURN_BYTES]].concat();
        let written = server.try_write(&answer).expect("it is open");
        assert_eq!(written, answer.len(), "there is room");
        stream.readable().await.expect("it is open");
        test(
            connection(stream.into()),
            &mut Context::from_waker(Waker::noop()),
        );
        drop(server);
    });
}

fn connection(stream: Stream) -> Connection {
    let start = ThreadStart {
        plan: report(&[]).plan,
        share: Share { index: 0, of: 1 },
        connections: 1,
        epoch: Instant::now(),
        handover: Arc::<Handover>::default(),
        halt: Arc::<Halt>::default(),
        opened: mpsc::sync_channel(1).0,
        start: mpsc::sync_channel(1).1,
        done: mpsc::channel().0,
    };
    let lane = Rc::new(Lane::new(&start).expect("a timer can be made"));
    *lane.read_buffer.borrow_mut() = Vec::with_capacity(READ_BYTES);
    let sent = Sent {
        start: Start {
            number: 0,
            intended_ns: 0,
            is_counted: true,
            sent_ns: 0,
            in_flight: 1,
        },
        method: Method::Get,
    };
    let mut connection = Connection::new(lane, 0, 1, Some(stream));
    connection.on_the_way.push_back(sent);
    connection
}

#[test]
fn a_turn_ends_though_there_is_more_to_read() {
    with_much_to_read(|mut connection, cx| {
        let lane = Rc::clone(&connection.lane);
        let mut turn = pin!(connection.exchange());
        assert!(turn.as_mut().poll(cx).is_pending());
        let read = lane.recorder.borrow().bytes_received as usize;
        assert!(0 < read && read <= TURN_BYTES, "{read} bytes");
    });
}

/// Nobody ticks here.
#[test]
fn a_deadline_passes_though_there_is_more_to_read() {
    with_much_to_read(|mut connection, cx| {
        connection.timer.set_at(1);
        let mut turn = pin!(connection.exchange());
        assert_eq!(turn.as_mut().poll(cx), Poll::Ready(After::TimedOut));
    });
}
