//! The signals of a running gateway.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What an operator asks of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// SIGTERM or SIGINT: end once all accepted requests are done; the second time, end
    /// at once.
    End,
    /// SIGUSR1: open the access log again.
    ReopenLog,
    /// SIGHUP: read the config file again. Only heard by a process with a config file, and then also if the process was
    /// started so that it ignores it.
    Reload,
}

/// The signals that are listened for.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    reload: Option<Signal>,
}

impl Signals {
    /// Must be called inside a tokio runtime.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            reopen: listen(SignalKind::user_defined1())?,
            reload: None,
        })
    }

    /// Listens for SIGHUP too, which otherwise ends the process.
    pub(crate) fn with_reload(mut self) -> anyhow::Result<Self> {
        let reload = signal(SignalKind::hangup()).context("cannot listen for signals")?;
        self.reload = Some(reload);
        Ok(self)
    }

    pub(crate) async fn next(&mut self) -> Instruction {
        let reload = async {
            match &mut self.reload {
                Some(reload) => reload.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Instruction::End,
            _ = self.interrupt.recv() => Instruction::End,
            _ = self.reopen.recv() => Instruction::ReopenLog,
            _ = reload => Instruction::Reload,
        }
    }
}

/// Whether whoever started this process has it ignore SIGHUP, as nohup does. Only Linux tells.
pub(crate) fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first bit is the signal 1.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
