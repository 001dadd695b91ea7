//! The future of a disk job, and the bounded queue that disk threads take jobs from.
//!
//! An [`Answer`] wakes its task through the standard `Waker`, so it can be awaited on any runtime and this crate
//! depends on none. Adding a job never blocks: a full queue refuses it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::StoreError;

/// The result of a job of a disk thread. Dropping it does not cancel the job.
#[derive(Debug)]
pub struct Answer<T>(Arc<Mutex<State<T>>>);

/// The other end of an [`Answer`]. If it is dropped without an answer, the answer is [`StoreError::Closed`].
#[derive(Debug)]
pub(crate) struct Reply<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
enum State<T> {
    Waiting(Option<Waker>),
    Done(Result<T, StoreError>),
    Taken,
}

impl<T> Answer<T> {
    pub(crate) fn pair() -> (Reply<T>, Self) {
        let state = Arc::new(Mutex::new(State::Waiting(None)));
        (Reply(Arc::clone(&state)), Self(state))
    }

    /// An answer that is ready.
    pub(crate) fn ready(result: Result<T, StoreError>) -> Self {
        Self(Arc::new(Mutex::new(State::Done(result))))
    }

    /// Blocks this thread until the answer is there. For tests, tools and shutdown; never for a worker.
    pub fn wait(self) -> Result<T, StoreError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut this = self;
        loop {
            if let Poll::Ready(result) = Pin::new(&mut this).poll(&mut context) {
                return result;
            }
            std::thread::park();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Poll::Ready(result),
            State::Waiting(_) => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            State::Taken => Poll::Ready(Err(StoreError::Closed)),
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn send(self, result: Result<T, StoreError>) {
        self.settle(result);
    }

    fn settle(&self, result: Result<T, StoreError>) {
        let mut state = lock(&self.0);
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Done(result);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.settle(Err(StoreError::Closed));
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Jobs that wait for a disk thread; their number is bounded.
pub(crate) struct JobQueue<J> {
    jobs: Mutex<Jobs<J>>,
    arrived: Condvar,
    jobs_max: usize,
}

struct Jobs<J> {
    waiting: VecDeque<J>,
    closed: bool,
}

impl<J> JobQueue<J> {
    pub(crate) fn new(jobs_max: usize) -> Self {
        let jobs = Mutex::new(Jobs {
            waiting: VecDeque::new(),
            closed: false,
        });
        Self {
            jobs,
            arrived: Condvar::new(),
            jobs_max,
        }
    }

    /// Adds a job. Fails if there are too many or the store is closed.
    pub(crate) fn push(&self, job: J) -> Result<(), StoreError> {
        self.push_below(job, self.jobs_max)
    }

    /// Adds an optional job, if the queue is at most half full.
    pub(crate) fn push_if_calm(&self, job: J) -> Result<(), StoreError> {
        self.push_below(job, self.jobs_max.div_ceil(2))
    }

    /// Adds a job that frees what another one holds. The number of jobs does not matter here: each belongs to a job or
    /// a writer that was counted.
    pub(crate) fn push_always(&self, job: J) -> Result<(), StoreError> {
        self.push_below(job, usize::MAX)
    }

    /// Like [`JobQueue::push_always`], but the job is done before all others.
    pub(crate) fn push_first(&self, job: J) -> Result<(), StoreError> {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            return Err(StoreError::Closed);
        }
        jobs.waiting.push_front(job);
        drop(jobs);
        self.arrived.notify_one();
        Ok(())
    }

    fn push_below(&self, job: J, jobs_max: usize) -> Result<(), StoreError> {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            return Err(StoreError::Closed);
        }
        if jobs.waiting.len() >= jobs_max {
            return Err(StoreError::Busy);
        }
        jobs.waiting.push_back(job);
        drop(jobs);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for the next job; `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<J> {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self
                .arrived
                .wait(jobs)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more jobs; those that wait are still done.
    pub(crate) fn close(&self) {
        lock(&self.jobs).closed = true;
        self.arrived.notify_all();
    }
}

/// Locks. A thread that panicked with the lock has left nothing half done that could harm the next: every critical
/// section of the stores changes its values at its end.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_arrives_from_another_thread() {
        let (reply, answer) = Answer::pair();
        let thread = std::thread::spawn(move || reply.send(Ok(7)));
        assert_eq!(answer.wait().unwrap(), 7);
        thread.join().unwrap();
    }

    #[test]
    fn a_job_that_is_dropped_answers_that_the_store_is_closed() {
        let (reply, answer) = Answer::<()>::pair();
        drop(reply);
        assert!(matches!(answer.wait(), Err(StoreError::Closed)));
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_is_emptied() {
        let queue = JobQueue::new(2);
        queue.push_if_calm(1).unwrap();
        assert!(matches!(queue.push_if_calm(2), Err(StoreError::Busy)));
        queue.push(2).unwrap();
        assert!(matches!(queue.push(3), Err(StoreError::Busy)));
        queue.push_first(0).unwrap();
        queue.close();
        assert!(matches!(queue.push(3), Err(StoreError::Closed)));
        assert!(matches!(queue.push_first(3), Err(StoreError::Closed)));
        let jobs: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(jobs, [0, 1, 2]);
    }
}
