//! A thread with a runtime of its own, for the tasks of an engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use super::OpenError;

/// What is under way is waited for so long; a disk or a database that never answers keeps no process from ending.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

/// A thread that is waited for when it is dropped. What its tasks take from must be closed before.
pub(crate) struct Thread(Option<JoinHandle<()>>);

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

/// What goes on after a beginning that went well.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()>>>;

impl Thread {
    /// Starts a thread, and waits for what its beginning results in.
    ///
    /// # Errors
    /// That of the beginning, after which the thread has ended; or there is no thread.
    pub(crate) fn start<B, T>(
        name: &str,
        begin: impl FnOnce() -> B + Send + 'static,
    ) -> Result<(Self, T), OpenError>
    where
        B: Future<Output = Result<(T, Work), OpenError>>,
        T: Send + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(1);
        let run = move || {
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                Err(why) => {
                    let _ = sender.send(Err(why.into()));
                    return;
                }
            };
            let begun = runtime.block_on(begin());
            let work = match begun {
                Ok((begun, work)) => {
                    let _ = sender.send(Ok(begun));
                    work
                }
                Err(why) => {
                    let _ = sender.send(Err(why));
                    return;
                }
            };
            runtime.block_on(tokio::task::LocalSet::new().run_until(work));
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(run);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        let thread = Self(Some(thread));
        let begun = receiver.recv();
        let begun = begun.unwrap_or_else(|_| Err("it has ended at once".to_owned().into()))?;
        Ok((thread, begun))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        if let Some(thread) = self.0.take() {
            while !thread.is_finished() {
                if Instant::now() > until {
                    return;
                }
                std::thread::sleep(POLL);
            }
            let _ = thread.join();
        }
    }
}

/// A runtime for this thread.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| format!("cannot start a runtime: {error}"))
}
