//! What a thread puts off until it has done all that it has to do now.
//!
//! To wake another thread costs a system call, and takes the CPU away where there are few. A worker that reads many requests in a
//! row leaves them all before it wakes whoever is to see to them.

use std::thread::ThreadId;

use tokio::runtime::Handle;

/// Drops something when the runtime of this thread has done what is ready now; at once where there is none. It is dropped also when the
/// runtime ends before.
pub(crate) fn at_end(put_off: impl Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        // Behind what is ready already.
        runtime.spawn(async move { drop(put_off) });
    }
}

/// The threads that have put something off. Each has its own round: none waits for that of another one.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<ThreadId>);

impl Threads {
    /// This thread, unless it has put it off already.
    pub(crate) fn begin(&mut self) -> Option<ThreadId> {
        let this = std::thread::current().id();
        let is_new = !self.0.contains(&this);
        if is_new {
            self.0.push(this);
        }
        is_new.then_some(this)
    }

    /// The round of a thread has ended.
    pub(crate) fn end(&mut self, thread: ThreadId) {
        self.0.retain(|other| *other != thread);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn it_comes_behind_what_is_ready_and_is_never_lost() {
        let put_off = Arc::new(());
        at_end(Arc::clone(&put_off));
        assert_eq!(Arc::strong_count(&put_off), 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            at_end(Arc::clone(&put_off));
            assert_eq!(Arc::strong_count(&put_off), 2);
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&put_off), 1);
            at_end(Arc::clone(&put_off));
        });
        drop(runtime);
        assert_eq!(Arc::strong_count(&put_off), 1);
    }

    #[test]
    fn each_thread_puts_it_off_once() {
        let mut threads = Threads::default();
        let this = threads.begin().expect("it is the first");
        assert_eq!(threads.begin(), None);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| threads.begin()).join();
            assert!(other.expect("no panic").is_some());
        });
        threads.end(this);
        assert_eq!(threads.begin(), Some(this));
    }
}
