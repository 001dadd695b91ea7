//! A TLS session on a socket, with the calls of a [`Stream`](crate::Stream).
//!
//! What a call is about is the content. Records of TLS's own, such as the tickets that a server sends behind a handshake, are
//! taken in on the way and are no news.
//!
//! A write is done when the session has taken the bytes. What the socket did not take of them then is flushed by whatever is polled
//! next, reads too: a peer cannot answer what it has not got.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use rustix::net::RecvFlags;
use rustls::ClientConnection;
use tokio::io::{AsyncBufRead as _, AsyncWrite as _};
use tokio_rustls::client::TlsStream;

use crate::socket::{Peek, Socket};

/// So many reads may find nothing but records of TLS's own. A peer that sends more of them is not silent.
const LOOKS_MAX: usize = 16;

/// A TLS session on a socket.
#[derive(Debug)]
pub struct Session(
    // Reading moves the session on as well as writing, and both are for those who share a stream. The borrow ends with the call.
    RefCell<TlsStream<Socket>>,
);

impl Session {
    pub(super) fn new(stream: TlsStream<Socket>) -> Self {
        Self(RefCell::new(stream))
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.0.borrow_mut();
        flush_first(&mut stream, cx)?;
        Pin::new(&mut *stream).poll_fill_buf(cx).map_ok(|_| ())
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.0.borrow_mut();
        ready!(Pin::new(&mut *stream).poll_flush(cx))?;
        stream.get_ref().0.poll_writable(cx)
    }

    /// Reads no more than a record, so that an error behind it is there to be found by the next call.
    pub(crate) fn poll_read(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let room = buffer.capacity() - buffer.len();
        debug_assert!(room > 0, "there is room to read into");
        let mut stream = self.0.borrow_mut();
        flush_first(&mut stream, cx)?;
        let mut stream = Pin::new(&mut *stream);
        let bytes = ready!(stream.as_mut().poll_fill_buf(cx))?;
        let count = room.min(bytes.len());
        buffer.extend_from_slice(&bytes[..count]);
        stream.consume(count);
        Poll::Ready(Ok(count))
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match (first, second) {
            (bytes, []) | ([], bytes) => {
                let mut stream = self.0.borrow_mut();
                some(Pin::new(&mut *stream).poll_write(cx, bytes))
            }
            pieces => self.poll_write_pieces(cx, &[pieces.0, pieces.1].map(IoSlice::new)),
        }
    }

    pub(crate) fn poll_write_pieces(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.0.borrow_mut();
        some(Pin::new(&mut *stream).poll_write_vectored(cx, pieces))
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let mut stream = self.0.borrow_mut();
        let (socket, session) = stream.get_mut();
        content(session) == Peek::Nothing
            && (socket.is_quiet() || take_in(socket, session) == Peek::Nothing)
    }

    pub(crate) fn peek(&self) -> Peek {
        let mut stream = self.0.borrow_mut();
        let (socket, session) = stream.get_mut();
        match content(session) {
            Peek::Nothing => take_in(socket, session),
            seen => seen,
        }
    }

    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> bool {
        let mut stream = self.0.borrow_mut();
        if flush_first(&mut stream, cx).is_err() {
            return true;
        }
        match Pin::new(&mut *stream).poll_fill_buf(cx) {
            Poll::Pending => false,
            Poll::Ready(seen) => seen.map_or(true, <[u8]>::is_empty),
        }
    }

    /// Says so in TLS alone (`close_notify`, RFC 8446 §6.1): the socket may still have to send what was written.
    pub(crate) fn finish_sending(&self) {
        let mut stream = self.0.borrow_mut();
        stream.get_mut().1.send_close_notify();
        // Nobody waits to write any more who could miss being woken.
        let _ = Pin::new(&mut *stream).poll_flush(&mut Context::from_waker(Waker::noop()));
    }

    pub(crate) fn reset_on_close(&self) {
        self.0.borrow().get_ref().0.reset_on_close();
    }

    /// The session as libraries know it.
    pub(crate) fn as_pin(&mut self) -> Pin<&mut TlsStream<Socket>> {
        Pin::new(self.0.get_mut())
    }
}

/// Sends what is left of earlier writes, as far as the socket takes it.
fn flush_first(stream: &mut TlsStream<Socket>, cx: &mut Context<'_>) -> io::Result<()> {
    match Pin::new(stream).poll_flush(cx) {
        Poll::Ready(flushed) => flushed,
        Poll::Pending => Ok(()),
    }
}

/// Nothing written is an error, as it is on a socket.
fn some(written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    match written {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        other => other,
    }
}

/// What the session has ready to be read.
fn content(session: &mut ClientConnection) -> Peek {
    match session.reader().into_first_chunk() {
        Ok([]) => Peek::Closed,
        Ok(_) => Peek::Bytes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peek::Nothing,
        Err(_) => Peek::Closed,
    }
}

/// Takes in what the kernel has until there is content. This waits for nothing and leaves alone who is to be woken.
fn take_in(socket: &Socket, session: &mut ClientConnection) -> Peek {
    for _ in 0..LOOKS_MAX {
        match session.read_tls(&mut Arrived(socket)) {
            Ok(_) => {
                if session.process_new_packets().is_err() {
                    return Peek::Closed;
                }
                match content(session) {
                    Peek::Nothing => {}
                    seen => return seen,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.note_drained();
                return Peek::Nothing;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Peek::Closed,
        }
    }
    Peek::Bytes
}

/// What the kernel has, whatever the runtime believes.
struct Arrived<'s>(&'s Socket);

impl Read for Arrived<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self.0.as_fd(), buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}
