//! Getting a connection to an endpoint that has no idle one: whichever comes first, one that comes free or a new one.
//!
//! A connect belongs to the endpoint and not to the request that it was begun for: it goes on, in a task of its own and
//! under its own deadline, when that request is served otherwise or leaves. Only who needs a fresh connection has one
//! for itself.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use weir_policy::connects::Seat;
use weir_socket::{Socket, Stream};

use crate::deadline::{Deadlines, Timer};
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::settings::EndpointAddress;
use crate::state::health::Leave;
use crate::state::pool::line::{self, Given, Line};
use crate::state::pool::still_stands;
use crate::state::view::LocalEndpoint;

/// How long a Unix socket whose queue is full is left alone.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// What opens connections to one endpoint, for all who wait for one.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) local: Rc<LocalEndpoint>,
    pub(super) deadlines: Rc<Deadlines>,
    pub(super) timeout: Duration,
}

/// A connection that has not been answered on yet. Dropping this says that it was, or that it is gone.
#[derive(Debug)]
pub(super) struct Unproven(Connector);

impl Connector {
    /// A connection for the request in `x`: the first that comes free or stands.
    pub(super) async fn wait(self, x: &Exchange) -> Result<(Stream, Option<Unproven>), Failure> {
        let mut waiter = Waiter {
            seat: self.line().join(),
            can_repeat: x.request.method.is_idempotent(),
            connector: self,
        };
        x.client.timer.set(waiter.connector.timeout);
        waiter.connector.begin();
        poll_fn(|cx| match waiter.poll(&x.client.timer, cx) {
            // There is no use in a connection that nobody waits for.
            Poll::Pending if !x.upload.is_running() && x.client.has_left(cx) => {
                Poll::Ready(Err(Failure::ClientGone))
            }
            other => other,
        })
        .await
    }

    /// A connection for one request alone. It tells the endpoint's health, as one that has this `leave`.
    pub(super) async fn connect(&self, leave: Leave, timer: &Timer) -> Result<Stream, Failure> {
        let connected = connect(&self.local.address, self.timeout, timer).await;
        let state = &self.local.state;
        match connected {
            Ok(stream) => {
                self.local.metrics().connects.add(1);
                state.accepted();
                Ok(stream)
            }
            // What the gateway lacks is not held against the endpoint.
            Err((failure @ Failure::NoSocket, _)) => Err(failure),
            Err((failure, errno)) => {
                self.local.metrics().connect_failures.add(1);
                state.refused(leave, timer.now_ms(), errno);
                Err(failure)
            }
        }
    }

    /// Opens as many connections as those who wait are to have.
    fn begin(&self) {
        while self.line().begin() {
            tokio::task::spawn_local(self.clone().open());
        }
        if self.line().begin_watch() {
            tokio::task::spawn_local(self.clone().watch());
        }
    }

    /// Sees to it that nobody waits for long without a connect under way: one timer for all of the line, since setting one
    /// is a system call where all others are later.
    async fn watch(self) {
        while !self.line().end_watch() {
            tokio::time::sleep(line::PATIENCE / 2).await;
            self.line().owe_to_late();
            self.begin();
        }
    }

    async fn open(self) {
        let timer = Timer::new(&self.deadlines);
        match self.connect(Leave::Usual, &timer).await {
            Ok(stream) => {
                if let Some(stream) = self.line().connected(stream) {
                    self.local.pool.put(stream, timer.now_ms());
                }
            }
            Err(failure) => self.line().failed(failure),
        }
        self.begin();
    }

    fn line(&self) -> &Line {
        &self.local.pool.line
    }
}

impl Drop for Unproven {
    fn drop(&mut self) {
        self.0.line().proven();
        self.0.begin();
    }
}

/// A request in the line. When it is dropped, what it was given and did not take goes to the next.
struct Waiter {
    connector: Connector,
    seat: Seat,
    can_repeat: bool,
}

impl Waiter {
    fn poll(
        &mut self,
        timer: &Timer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Stream, Option<Unproven>), Failure>> {
        let line = self.connector.line();
        match line.take(self.seat, cx.waker()) {
            Some(Given::New(stream)) => {
                let unproven = Unproven(self.connector.clone());
                return Poll::Ready(Ok((stream, Some(unproven))));
            }
            Some(Given::Kept(stream)) if still_stands(&stream, self.can_repeat) => {
                return Poll::Ready(Ok((stream, None)));
            }
            Some(Given::Kept(_)) => {
                line.join_again(self.seat);
                let _ = line.take(self.seat, cx.waker());
                self.connector.begin();
            }
            Some(Given::Failed(failure)) => return Poll::Ready(Err(failure)),
            None => {}
        }
        timer.poll(cx).map(|()| Err(Failure::ConnectTimeout))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Connector {
            local, deadlines, ..
        } = &self.connector;
        match local.pool.line.leave(self.seat) {
            Some(Given::Kept(stream)) => local.pool.put(stream, deadlines.now_ms()),
            Some(Given::New(stream)) => {
                local.pool.line.proven();
                local.pool.put(stream, deadlines.now_ms());
            }
            Some(Given::Failed(_)) | None => {}
        }
    }
}

/// Connects within `timeout`, measured by `timer`. An error comes with what the system said.
async fn connect(
    address: &EndpointAddress,
    timeout: Duration,
    timer: &Timer,
) -> Result<Stream, (Failure, Errno)> {
    timer.set(timeout);
    let mut attempt = pin!(open(address));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(Ok(stream)),
        Poll::Ready(Err(error)) => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::CONNREFUSED);
            Poll::Ready(Err((whose_failure(&error), errno)))
        }
        Poll::Pending => {
            let late = (Failure::ConnectTimeout, Errno::TIMEDOUT);
            timer.poll(cx).map(|()| Err(late))
        }
    })
    .await
}

/// A gateway that has run out of descriptors or memory must not take its endpoints for dead. `EADDRNOTAVAIL` is not among
/// these: it is said of one destination, that all local ports towards it are in use or that there is no way to it.
pub(super) fn whose_failure(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC) => {
            Failure::NoSocket
        }
        _ => Failure::ConnectFailed,
    }
}

/// Connects. Whoever asks sets the deadline.
pub(super) async fn open(address: &EndpointAddress) -> io::Result<Stream> {
    let is_unix = matches!(address, EndpointAddress::Unix(_));
    loop {
        match Socket::connect(address).await {
            // Its queue is full, for which there is no report; over TCP the kernel would try again by itself.
            Err(error) if is_unix && error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(QUEUE_PAUSE).await;
            }
            connected => return connected.map(Stream::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn what_the_gateway_lacks_is_not_held_against_the_endpoint() {
        let failure = |errno: Errno| whose_failure(&errno.into());
        for ours in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert_eq!(failure(ours), Failure::NoSocket);
        }
        for theirs in [
            Errno::CONNREFUSED,
            Errno::HOSTUNREACH,
            Errno::NOENT,
            Errno::ADDRNOTAVAIL,
        ] {
            assert_eq!(failure(theirs), Failure::ConnectFailed);
        }
    }

    #[test]
    fn a_unix_socket_whose_queue_is_full_is_asked_again() {
        let name = format!("weir-queue-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let address = socket2::SockAddr::unix(&path).expect("the path is short");
        let socket =
            || socket2::Socket::new(Domain::UNIX, Type::STREAM, None).expect("there are sockets");
        let listener = socket();
        listener.bind(&address).expect("the path is free");
        listener.listen(0).expect("it is bound");
        let mut queue = Vec::new();
        loop {
            let stream = socket();
            stream.set_nonblocking(true).expect("it is a socket");
            if stream.connect(&address).is_err() {
                break;
            }
            queue.push(stream);
        }
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("there is a runtime");
        runtime.block_on(async {
            let address = EndpointAddress::Unix(path.clone());
            let mut opening = pin!(open(&address));
            let is_pending = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx).is_pending()));
            assert!(is_pending.await, "the queue is full");
            listener.accept().expect("somebody is in the queue");
            opening.await.expect("there is room");
        });
        std::fs::remove_file(&path).expect("it is there");
    }
}
