//! A connected socket: read and written by polling, with one system call each and none in vain.
//!
//! The system calls are made directly: the C library's wrappers are cancellation points. They cost two atomic operations a
//! call, which is a few percent of a proxied request.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::Address;

/// A connected stream socket. [`Stream`](crate::Stream) says what its calls do.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// What a look at a silent connection finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// The peer is silent.
    Nothing,
    /// The peer has sent something.
    Bytes,
    /// The peer has closed or reset the connection.
    Closed,
}

impl Socket {
    /// Connects. What is written to TCP later is sent at once (`TCP_NODELAY`). Whoever calls sets a deadline.
    ///
    /// # Errors
    /// Those of `connect(2)`. A Unix socket whose queue is full is [`io::ErrorKind::WouldBlock`]: the kernel does not wait for
    /// room there, and nothing tells when there is some.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
        }
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    pub(crate) fn poll_read(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        debug_assert!(room > 0, "there is room to read into");
        loop {
            match self.try_io(Interest::READABLE, |socket| receive(socket, buffer)) {
                Err(error) if is_transient(&error) => ready!(self.poll_readable(cx))?,
                Ok(count) => {
                    if 0 < count && count < room {
                        self.note_drained();
                    }
                    return Poll::Ready(Ok(count));
                }
                error => return Poll::Ready(error),
            }
        }
    }

    pub(crate) fn poll_write_pieces(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_io(Interest::WRITABLE, |socket| send_all(socket, pieces)) {
                Err(error) if is_transient(&error) => ready!(self.poll_writable(cx))?,
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                other => return Poll::Ready(other),
            }
        }
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = self.try_io(Interest::WRITABLE, |socket| match (first, second) {
                (bytes, []) | ([], bytes) => send(socket, bytes),
                pieces => send_both(socket, pieces),
            });
            match written {
                Err(error) if is_transient(&error) => ready!(self.poll_writable(cx))?,
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                other => return Poll::Ready(other),
            }
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let mut has_news = false;
        // The closure runs only if the socket was reported readable, and leaves that report standing.
        let _ = self.try_io(Interest::READABLE, |_| {
            has_news = true;
            Ok(())
        });
        !has_news
    }

    pub(crate) fn peek(&self) -> Peek {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.as_fd(), &mut [0; 1], flags) {
            Ok((_, 0)) => Peek::Closed,
            Ok(_) => Peek::Bytes,
            Err(Errno::AGAIN | Errno::INTR) => Peek::Nothing,
            Err(_) => Peek::Closed,
        }
    }

    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.poll_readable(cx) {
                Poll::Pending => return false,
                Poll::Ready(Err(_)) => return true,
                Poll::Ready(Ok(())) => match self.peek() {
                    // The report was an old one.
                    Peek::Nothing => self.note_drained(),
                    seen => return seen == Peek::Closed,
                },
            }
        }
    }

    pub(crate) fn finish_sending(&self) {
        // An error means that the peer knows already.
        let _ = match self {
            Self::Tcp(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Self::Unix(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
        };
    }

    pub(crate) fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Withdraws the report that there is something to read. A read that left room has emptied the socket, and the next wait
    /// must not begin with a system call in vain. Whatever arrives from now on is reported again.
    pub(crate) fn note_drained(&self) {
        let _ = self.try_io::<()>(
            Interest::READABLE,
            |_| Err(io::ErrorKind::WouldBlock.into()),
        );
    }

    /// Calls `attempt` if the runtime believes that it can succeed; its `WouldBlock` withdraws that belief.
    fn try_io<T>(
        &self,
        interest: Interest,
        attempt: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, || attempt(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(interest, || attempt(stream.as_fd())),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let (_, count) = rustix::net::recv(socket, spare_capacity(buffer), RecvFlags::empty())?;
    Ok(count)
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

fn send_both(socket: BorrowedFd<'_>, (first, second): (&[u8], &[u8])) -> io::Result<usize> {
    send_all(socket, &[IoSlice::new(first), IoSlice::new(second)])
}

fn send_all(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(
        socket,
        pieces,
        &mut control,
        SendFlags::NOSIGNAL,
    )?)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as Peer;

    use super::*;

    /// Runs `test` with a socket and its peer. The runtime hears of nothing while it runs.
    fn with_pair(test: impl AsyncFnOnce(Socket, Peer)) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().build().expect("there is a runtime");
        runtime.block_on(async {
            let (own, peer) = Peer::pair().expect("there are sockets");
            own.set_nonblocking(true).expect("it is a socket");
            test(
                Socket::Unix(UnixStream::from_std(own).expect("it is a socket")),
                peer,
            )
            .await;
        });
    }

    #[test]
    fn the_kernel_knows_what_the_runtime_has_not_heard_yet() {
        with_pair(async |socket, mut peer| {
            socket.note_drained();
            assert_eq!(socket.peek(), Peek::Nothing);
            peer.write_all(b"x").expect("it is open");
            assert_eq!((socket.is_quiet(), socket.peek()), (true, Peek::Bytes));
        });
        with_pair(async |socket, peer| {
            socket.note_drained();
            drop(peer);
            assert_eq!((socket.is_quiet(), socket.peek()), (true, Peek::Closed));
        });
    }

    #[test]
    fn a_close_is_noticed_behind_an_old_report() {
        with_pair(async |socket, mut peer| {
            peer.write_all(b"x").expect("it is open");
            let mut one = Vec::with_capacity(1);
            let read = poll_fn(|cx| socket.poll_read(&mut one, cx)).await;
            assert_eq!(read.expect("it is open"), 1, "and the buffer is full");
            let mut peer = Some(peer);
            poll_fn(|cx| {
                let is_closed = socket.poll_closed(cx);
                assert_eq!(is_closed, peer.is_none());
                drop(peer.take());
                if is_closed {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        });
    }
}
