//! Opening a connection to an endpoint.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::deadline::Timer;
use crate::failure::Failure;
use crate::io::Stream;
use crate::settings::ServerAddress;

/// Connects within `timeout`, measured by the connection's own timer.
pub(crate) async fn connect(
    address: &ServerAddress,
    timeout: Duration,
    timer: &Timer,
) -> Result<Stream, Failure> {
    timer.set(timeout);
    let mut attempt = pin!(open(address));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(Ok(stream)),
        Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::ConnectFailed)),
        Poll::Pending => timer.poll(cx).map(|()| Err(Failure::ConnectTimeout)),
    })
    .await
}

async fn open(address: &ServerAddress) -> io::Result<Stream> {
    match address {
        ServerAddress::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        ServerAddress::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
    }
}
