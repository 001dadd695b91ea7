//! Opening a connection to an endpoint.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpStream, UnixStream};

use crate::deadline::Timer;
use crate::failure::Failure;
use crate::io::Stream;
use crate::settings::EndpointAddress;

/// Connects within `timeout`, measured by the connection's own timer.
pub(crate) async fn connect(
    address: &EndpointAddress,
    timeout: Duration,
    timer: &Timer,
) -> Result<Stream, Failure> {
    timer.set(timeout);
    let mut attempt = pin!(open(address));
    poll_fn(|cx| match attempt.as_mut().poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(Ok(stream)),
        Poll::Ready(Err(error)) => Poll::Ready(Err(whose_failure(&error))),
        Poll::Pending => timer.poll(cx).map(|()| Err(Failure::ConnectTimeout)),
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

pub(super) async fn open(address: &EndpointAddress) -> io::Result<Stream> {
    match address {
        EndpointAddress::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        EndpointAddress::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
    }
}

#[cfg(test)]
mod tests {
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
}
