//! The client's side: one connection and what has been read from it.

use std::future::poll_fn;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::Scheme;

use crate::buffers::Buffers;
use crate::connection::link::Link;
use crate::deadline::{Deadlines, Timer};
use crate::failure::Failure;
use crate::state::gate::Waits;
use crate::state::listening::Listening;

pub(crate) mod h1;
pub(crate) mod link;
pub(crate) mod upgrade;

/// A client's connection. Lives and dies on one worker.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) link: Link,
    pub(crate) address: AddressText,
    /// How it has connected.
    pub(crate) scheme: Scheme,
    /// Where it came in; `None` for a client that is nobody.
    pub(crate) listening: Option<Arc<Listening>>,
    pub(crate) timer: Timer,
}

impl Client {
    /// Nobody, for what the gateway asks on its own account: in the name of the client that is known by `address`.
    pub(crate) fn nobody(
        address: AddressText,
        scheme: Scheme,
        deadlines: &Rc<Deadlines>,
    ) -> Box<Self> {
        Box::new(Self {
            link: Link::Nobody,
            address,
            scheme,
            listening: None,
            timer: Timer::new(deadlines),
        })
    }

    /// Whether it is nobody, see [`Link::Nobody`].
    pub(crate) fn is_nobody(&self) -> bool {
        self.link.is_nobody()
    }

    /// The socket of a client that came by one of HTTP/1.1.
    ///
    /// # Panics
    /// It did not.
    pub(crate) fn h1(&mut self) -> &mut h1::Link {
        match &mut self.link {
            Link::H1(link) => link,
            Link::Nobody => panic!("nobody has no socket"),
        }
    }

    /// Waits for bytes from the client; 0 is the end. The caller has set the deadline; past it, the failure is `late`.
    pub(crate) async fn fill(
        &mut self,
        buffers: &Buffers,
        late: Failure,
    ) -> Result<usize, Failure> {
        poll_fn(|cx| match self.link.poll_read(buffers, cx) {
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::ClientGone)),
            Poll::Pending => self.timer.poll(cx).map(|()| Err(late)),
        })
        .await
    }

    /// Waits for what `ready` polls for, as long as the client does. The caller has set the deadline; past it, the failure is
    /// `late`.
    pub(crate) async fn wait_for<T>(
        &self,
        late: Failure,
        mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Failure> {
        poll_fn(|cx| match ready(cx) {
            Poll::Ready(it) => Poll::Ready(Ok(it)),
            Poll::Pending if self.has_left(cx) => Poll::Ready(Err(Failure::ClientGone)),
            Poll::Pending => self.timer.poll(cx).map(|()| Err(late)),
        })
        .await
    }

    /// Whether the address that it came in by is given up, so that the connection ends with its request.
    pub(crate) fn is_last(&self) -> bool {
        self.listening
            .as_ref()
            .is_some_and(|listening| listening.is_closing())
    }

    /// Whether the client takes no answer any more; the task is woken when it does not.
    pub(crate) fn has_left(&self, cx: &mut Context<'_>) -> bool {
        self.link.has_left(cx)
    }
}

/// An IP address as text, made once for all the fields and log lines it is written to, and the network it is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressText {
    octets: [u8; 16],
    network_bytes: u8,
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl AddressText {
    /// `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`
    const BYTES_MAX: usize = 45;

    pub(crate) fn new(address: IpAddr) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let mut rest = bytes.as_mut_slice();
        // A dual-stack listener sees IPv4 clients as mapped addresses; everyone else knows them by the short form.
        write!(rest, "{}", address.to_canonical()).expect("every address fits");
        let len = (Self::BYTES_MAX - rest.len()) as u8;
        let mut octets = [0; 16];
        let network_bytes = match address.to_canonical() {
            IpAddr::V4(address) => {
                octets[..4].copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                octets = address.octets();
                8
            }
        };
        Self {
            octets,
            network_bytes,
            bytes,
            len,
        }
    }

    /// What clients are counted by: an IPv4 address, or the first 64 bits of an IPv6 address, since whoever has one of
    /// those has all the others of its network (RFC 4291 §2.5.4, RFC 6177).
    pub(crate) fn network(&self) -> &[u8] {
        &self.octets[..usize::from(self.network_bytes)]
    }

    /// The address itself, an IPv4 address in its own form.
    pub(crate) fn address(&self) -> IpAddr {
        match self.octets {
            [a, b, c, d, ..] if self.network_bytes == 4 => Ipv4Addr::new(a, b, c, d).into(),
            octets => octets.into(),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests;

/// What becomes of a connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    KeepAlive,
    /// Nothing more is sent; what still arrives is read, so that the client gets to read the response.
    Close,
    /// The response is broken off in a way that the client notices.
    Abort,
    /// The client has left already.
    Leave,
}

impl After {
    /// What follows a response when the client's side went as announced.
    pub(crate) fn keep_alive(keep_alive: bool) -> Self {
        if keep_alive {
            Self::KeepAlive
        } else {
            Self::Close
        }
    }
}

impl Waits for Client {
    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn has_left(&self, cx: &mut Context<'_>) -> bool {
        Client::has_left(self, cx)
    }
}
