//! The seam to the runtime: a connected socket, read and written without waiting or by polling.
//!
//! Everything else in this crate sees sockets through these few calls, so another runtime stays possible.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker, ready};

use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

/// A connected stream socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Appends what has arrived to `buffer`, within its spare capacity, which must not be empty. 0 is the end.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        debug_assert!(
            buffer.capacity() > buffer.len(),
            "there is room to read into"
        );
        match self {
            Self::Tcp(stream) => stream.try_read_buf(buffer),
            Self::Unix(stream) => stream.try_read_buf(buffer),
        }
    }

    /// Writes the two pieces, one after the other, as far as the socket takes them.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match (first.is_empty(), second.is_empty()) {
                (_, true) => self.try_write(first),
                (true, _) => self.try_write(second),
                _ => self.try_write_vectored(&[IoSlice::new(first), IoSlice::new(second)]),
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx))?;
                }
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                other => return Poll::Ready(other),
            }
        }
    }

    /// Whether the peer has neither sent anything nor closed, as far as the runtime has heard: no system call.
    pub(crate) fn is_quiet(&self) -> bool {
        self.poll_readable(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    /// Tells the peer that nothing more will be sent. An error means that the peer knows already.
    pub(crate) fn finish_sending(&self) {
        let _ = match self {
            Self::Tcp(stream) => SockRef::from(stream).shutdown(std::net::Shutdown::Write),
            Self::Unix(stream) => SockRef::from(stream).shutdown(std::net::Shutdown::Write),
        };
    }

    /// Makes closing a reset, so that the peer cannot take a response that was broken off for a complete one.
    pub(crate) fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(pieces),
            Self::Unix(stream) => stream.try_write_vectored(pieces),
        }
    }
}
