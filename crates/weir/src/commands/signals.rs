//! The signals of a running gateway.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody outside asks of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGTERM or SIGINT: end when what was accepted is done; the second time, at once.
    End,
    /// SIGUSR1: open the access log again.
    ReopenLog,
}

/// The signals that are listened for.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
}

impl Signals {
    /// Must be called inside a tokio runtime.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            reopen: listen(SignalKind::user_defined1())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End,
            _ = self.interrupt.recv() => Asked::End,
            _ = self.reopen.recv() => Asked::ReopenLog,
        }
    }
}
