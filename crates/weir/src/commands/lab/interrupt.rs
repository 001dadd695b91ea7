//! Ctrl-C and SIGTERM: the first one ends a measurement and keeps what there is, the second ends at once. What is running
//! then is cleaned up by the janitor.

use std::io::Write as _;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::commands::signals::{Asked, Signals};

/// As a shell says of a program that SIGINT ended.
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
            while signals.next().await != Asked::End {}
            stop.store(true, Ordering::Relaxed);
            say("weir lab: ending; a second signal ends at once");
            while signals.next().await != Asked::End {}
            exit(EXIT_INTERRUPTED);
        });
    });
    Ok(())
}

/// That nobody reads it any more must not keep the laboratory from ending in order.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
