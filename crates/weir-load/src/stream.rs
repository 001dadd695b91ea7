//! A connection to the server: TCP or a Unix socket, with or without TLS.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags};
use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::plan::{Address, Target};

/// A connected stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// What is under TLS, or all there is.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The server, or this machine, did not make one.
    Connect(io::Error),
    /// It was made, and then no TLS could be spoken.
    Tls(io::Error),
}

impl Stream {
    /// Connects, as far as the first byte of HTTP.
    pub(crate) async fn open(target: &Target) -> Result<Self, OpenError> {
        let socket = match &target.address {
            Address::Tcp(address) => TcpStream::connect(address).await.and_then(|stream| {
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }),
            Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        };
        let socket = socket.map_err(OpenError::Connect)?;
        let Some(tls) = &target.tls else {
            return Ok(Self::Plain(socket));
        };
        let connector = TlsConnector::from(tls.config.clone());
        let stream = connector.connect(tls.server_name.clone(), socket).await;
        let stream = stream.map_err(|error| OpenError::Tls(say_alpn(error)))?;
        let agreed = stream.get_ref().1.alpn_protocol();
        // A server without ALPN speaks HTTP/1.1; what else was asked for has to be agreed to.
        let asked = tls.config.alpn_protocols.first().map(Vec::as_slice);
        if asked == Some(b"h2") && agreed != asked {
            return Err(OpenError::Tls(io::Error::other(NO_HTTP2)));
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Reads what has arrived. 0 is the end.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_receive(cx, buffer),
            Self::Tls(stream) => {
                // What a send could not flush goes first: the server cannot answer what it has not got.
                if let Poll::Ready(Err(error)) = Pin::new(&mut *stream).poll_flush(cx) {
                    return Poll::Ready(Err(error));
                }
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Writes as much of `bytes` as the socket takes.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => socket.poll_send(cx, bytes),
            // It is flushed by the read that follows every send.
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}

const NO_HTTP2: &str = "the server does not speak HTTP/2";

/// A server that refuses the protocol asked for says so with an alert that few people know.
fn say_alpn(error: io::Error) -> io::Error {
    let refused = rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    if cause == Some(&refused) {
        io::Error::other(NO_HTTP2)
    } else {
        error
    }
}

impl Socket {
    fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let received = self.try_io(Interest::READABLE, |socket| {
                Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?.0)
            });
            match received {
                Err(error) if is_transient(&error) => ready!(self.poll_readable(cx))?,
                Ok(count) => {
                    if 0 < count && count < buffer.len() {
                        self.note_drained();
                    }
                    return Poll::Ready(Ok(count));
                }
                error => return Poll::Ready(error),
            }
        }
    }

    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let sent = self.try_io(Interest::WRITABLE, |socket| {
                Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
            });
            match sent {
                Err(error) if is_transient(&error) => ready!(self.poll_writable(cx))?,
                other => return Poll::Ready(other),
            }
        }
    }

    /// A read that left room has emptied the socket: withdraws the report that there is something to read, so that the
    /// next wait does not begin with a system call in vain. Whatever arrives from now on is reported again.
    fn note_drained(&self) {
        let _ = self.try_io::<()>(
            Interest::READABLE,
            |_| Err(io::ErrorKind::WouldBlock.into()),
        );
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    /// Calls `attempt` if the runtime believes that it can succeed; its `WouldBlock` withdraws that belief. The system
    /// calls are made directly: the C library's wrappers are cancellation points, which costs a few percent.
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

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

// TLS and HTTP/2 know sockets by these traits.

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
