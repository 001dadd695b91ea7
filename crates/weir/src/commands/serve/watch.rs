//! What a gateway hears while it runs and until it has ended: signals, and that one of its workers has failed.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use weir_gateway::settings::Level;
use weir_gateway::tell::{self, tell};
use weir_gateway::{Gateway, Supervision, WorkerFailed};

use super::CUT_SHORT;
use crate::commands::signals::{Instruction, Signals};

/// Waits for signals, and looks whether the workers are well.
pub(super) struct Watch {
    runtime: Runtime,
    signals: Signals,
    supervision: Supervision,
    looked: Instant,
}

/// What ends a wait.
pub(super) enum Event {
    Asked(Instruction),
    Failed(WorkerFailed),
    /// The time is over.
    Over,
}

impl Watch {
    pub(super) fn new(runtime: Runtime, signals: Signals) -> Self {
        Self {
            runtime,
            signals,
            supervision: Supervision::default(),
            looked: Instant::now(),
        }
    }

    /// What happens next, before `until` if there is such a time.
    pub(super) fn next(&mut self, gateway: &Gateway, until: Option<Instant>) -> Event {
        loop {
            if until.is_some_and(|until| until <= Instant::now()) {
                return Event::Over;
            }
            // Signals do not delay the next look.
            let look = self.looked + Supervision::LOOK_EVERY;
            let due = until.map_or(look, |until| until.min(look));
            if let Some(asked) = self.signal(due.saturating_duration_since(Instant::now())) {
                return Event::Asked(asked);
            }
            if self.looked.elapsed() < Supervision::LOOK_EVERY {
                continue;
            }
            self.looked = Instant::now();
            if let Some(failed) = gateway.look(&mut self.supervision) {
                tell(
                    Level::Error,
                    format_args!("{failed}; ending, to be started anew"),
                );
                return Event::Failed(failed);
            }
        }
    }

    /// Lets a gateway that is to end go on until balancers know of it, unless a worker fails meanwhile.
    pub(super) fn delay(&mut self, gateway: &Gateway) -> Option<WorkerFailed> {
        gateway.leave();
        let until = Instant::now() + gateway.drain_delay();
        loop {
            match self.next(gateway, Some(until)) {
                Event::Asked(asked) => obey(asked, Some(gateway)),
                Event::Failed(failed) => return Some(failed),
                Event::Over => return None,
            }
        }
    }

    /// Waits while a gateway drains; there is none any more when only its log is being written.
    pub(super) fn wait(&mut self, gateway: Option<&Gateway>, wait: Duration) {
        if let Some(asked) = self.signal(wait) {
            obey(asked, gateway);
        }
    }

    fn signal(&mut self, within: Duration) -> Option<Instruction> {
        let signals = &mut self.signals;
        let asked = async { tokio::time::timeout(within, signals.next()).await };
        self.runtime.block_on(asked).ok()
    }
}

/// Does what a signal asks of a gateway that ends. Another one to end ends the process.
fn obey(asked: Instruction, gateway: Option<&Gateway>) {
    match (asked, gateway) {
        (Instruction::End, _) => {
            tell(Level::Warning, format_args!("ended while draining"));
            tell::flush();
            std::process::exit(i32::from(CUT_SHORT));
        }
        (Instruction::ReopenLog, Some(gateway)) => gateway.reopen_log(),
        (Instruction::ReopenLog, None) => {}
        (Instruction::Reload, _) => tell(
            Level::Warning,
            format_args!("SIGHUP is ignored: weir is ending, and keeps the configuration it has"),
        ),
    }
}
