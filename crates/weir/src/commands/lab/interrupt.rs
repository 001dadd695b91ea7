//! Ctrl-C and SIGTERM: the first one ends a measurement and keeps its results, the second ends at once. The janitor
//! then cleans up what still runs.

use std::io::Write as _;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::commands::signals::{Instruction, Signals};

/// The exit status that a shell reports for a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

/// Sets `stop` at the first signal.
pub(super) fn listen(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        runtime.block_on(async {
            while signals.next().await != Instruction::End {}
            stop.store(true, Ordering::Relaxed);
            say("weir lab: ending; a second signal ends at once");
            while signals.next().await != Instruction::End {}
            exit(EXIT_INTERRUPTED);
        });
    });
    Ok(())
}

/// Prints a line. If nobody reads it, the laboratory must still end in order.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
