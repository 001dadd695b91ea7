//! Requests that take a thread each, since they are long: batches and ranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At once. A client that is slow to take a range holds one.
const JOBS_MAX: usize = 64;

/// Those that are under way.
#[derive(Debug, Default)]
pub(super) struct Jobs(Arc<AtomicUsize>);

/// Too many are under way, or the system has no thread.
#[derive(Debug)]
pub(super) struct Busy;

/// Counts one until it ends, however it does.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Jobs {
    /// Runs it on a thread of its own.
    pub(super) fn begin(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(Arc::clone(&self.0));
        if before >= JOBS_MAX {
            return Err(Busy);
        }
        let thread = std::thread::Builder::new().name(name.to_owned());
        let run = move || {
            run();
            drop(counted);
        };
        thread.spawn(run).map(drop).map_err(|_| Busy)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
