//! The client's side: one connection and what has been read from it.

use std::future::poll_fn;
use std::io::Write as _;
use std::net::IpAddr;
use std::task::Poll;

use crate::buffers::{Buffers, Input};
use crate::deadline::Timer;
use crate::failure::Failure;
use crate::io::Stream;

pub(crate) mod h1;
pub(crate) mod round;
pub(crate) mod upgrade;

/// A client's connection. Lives and dies on one worker.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: Stream,
    pub(crate) address: AddressText,
    pub(crate) input: Input,
    pub(crate) timer: Timer,
}

impl Client {
    /// Waits for bytes from the client; 0 is the end. The caller has set the deadline; past it, the failure is `late`.
    pub(crate) async fn fill(
        &mut self,
        buffers: &Buffers,
        late: Failure,
    ) -> Result<usize, Failure> {
        poll_fn(
            |cx| match self.input.poll_fill(&mut self.stream, buffers, cx) {
                Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::ClientGone)),
                Poll::Pending => self.timer.poll(cx).map(|()| Err(late)),
            },
        )
        .await
    }
}

/// An IP address as text, made once for all the fields and log lines it is written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressText {
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
        Self { bytes, len }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
