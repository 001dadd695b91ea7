//! A connection as those see it who read and write: what is between them and the socket is settled here.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use tokio::net::{TcpStream, UnixStream};

use crate::socket::{Peek, Socket};

/// A connected stream.
///
/// Its calls are for one task: a pending one wakes the task that polled last, for reading and for writing each.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stream {
    /// A socket, with nothing in between.
    Plain(Socket),
    /// TLS over a socket. It is behind a pointer, so that a plain stream is no larger for it.
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::Session>),
}

impl Stream {
    /// Ready when there may be something to read, or the end.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_readable(cx),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_readable(cx),
        }
    }

    /// Ready when there may be room to write.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_writable(cx),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_writable(cx),
        }
    }

    /// Appends what has arrived to `buffer`, within its spare capacity, which must not be empty. 0 is the end.
    pub fn poll_read(&self, buffer: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_read(buffer, cx),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_read(buffer, cx),
        }
    }

    /// Writes the two pieces, one after the other, as far as the socket takes them. They are not both empty.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_write(cx, first, second),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_write(cx, first, second),
        }
    }

    /// The same for any number of pieces.
    pub fn poll_write_pieces(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_write_pieces(cx, pieces),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_write_pieces(cx, pieces),
        }
    }

    /// Whether the peer has neither sent anything nor closed, as far as the runtime has heard. This is no system call.
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_quiet(),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.is_quiet(),
        }
    }

    /// What there is to read, asked of the kernel, which may know more than the runtime.
    pub fn peek(&self) -> Peek {
        match self {
            Self::Plain(socket) => socket.peek(),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.peek(),
        }
    }

    /// Whether the peer has closed or reset the connection; the task is woken when it does. What it sent before hides it.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Plain(socket) => socket.poll_closed(cx),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.poll_closed(cx),
        }
    }

    /// Tells the peer that nothing more will be sent.
    pub fn finish_sending(&self) {
        match self {
            Self::Plain(socket) => socket.finish_sending(),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.finish_sending(),
        }
    }

    /// Makes closing a reset, so that the peer cannot take a response that was broken off for a complete one.
    pub fn reset_on_close(&self) {
        match self {
            Self::Plain(socket) => socket.reset_on_close(),
            #[cfg(feature = "tls")]
            Self::Tls(session) => session.reset_on_close(),
        }
    }
}

impl From<Socket> for Stream {
    fn from(socket: Socket) -> Self {
        Self::Plain(socket)
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(Socket::Tcp(stream))
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Plain(Socket::Unix(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every idle connection has one.
    #[test]
    fn a_stream_is_as_small_as_its_socket() {
        assert_eq!(size_of::<Stream>(), size_of::<Socket>());
    }
}
