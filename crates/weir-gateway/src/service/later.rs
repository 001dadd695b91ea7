//! Answers that come from another thread, many of them at once.
//!
//! To wake a task of another thread's runtime costs a system call. A service that answers hundreds of requests together would make
//! as many. So of the tasks of one thread only one is woken from afar, and wakes the others, its neighbours, when it takes its own
//! answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use crate::lock::lock;
use crate::service::reply::Answer;

/// Where an answer passes from one thread to another.
#[derive(Debug, Default)]
struct Slot {
    answer: Option<Answer>,
    /// The service has dropped its end, or answered.
    is_over: bool,
    has_left: bool,
    /// Who waits, and on which thread.
    waiting: Option<(ThreadId, Waker)>,
    /// Whom to wake when this one is: tasks of the same thread.
    neighbours: VecDeque<Waker>,
}

/// Those who wait on one thread, and what wakes each of them.
type Waiting = (Vec<Given>, VecDeque<Waker>);

/// The end that waits.
#[derive(Debug)]
pub(super) struct Awaited(Arc<Mutex<Slot>>);

/// The end that answers.
#[derive(Debug)]
pub(super) struct Given(Arc<Mutex<Slot>>);

pub(super) fn later() -> (Given, Awaited) {
    let slot = Arc::new(Mutex::new(Slot::default()));
    (Given(Arc::clone(&slot)), Awaited(slot))
}

impl Awaited {
    /// The answer; `None` when there will be none.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Answer>> {
        let mut slot = lock(&self.0);
        if !slot.is_over {
            match &mut slot.waiting {
                Some((_, waker)) if waker.will_wake(cx.waker()) => {}
                waiting => *waiting = Some((thread::current().id(), cx.waker().clone())),
            }
            return Poll::Pending;
        }
        let (answer, neighbours) = (slot.answer.take(), std::mem::take(&mut slot.neighbours));
        drop(slot);
        neighbours.into_iter().for_each(Waker::wake);
        Poll::Ready(answer)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.has_left = true;
        let neighbours = std::mem::take(&mut slot.neighbours);
        let answer = slot.answer.take();
        drop(slot);
        neighbours.into_iter().for_each(Waker::wake);
        drop(answer);
    }
}

impl Given {
    pub(super) fn has_left(&self) -> bool {
        lock(&self.0).has_left
    }

    /// Puts the answer there, and says who waits for it.
    fn give(&self, answer: Option<Answer>) -> Option<(ThreadId, Waker)> {
        let mut slot = lock(&self.0);
        if slot.is_over {
            return None;
        }
        slot.is_over = true;
        if !slot.has_left {
            slot.answer = answer;
        }
        slot.waiting.take()
    }

    /// Has whoever waits here wake others, unless it has its answer already; whether it does. They are taken then.
    fn wakes(&self, neighbours: &mut VecDeque<Waker>) -> bool {
        let mut slot = lock(&self.0);
        if slot.answer.is_none() {
            return false;
        }
        slot.neighbours = std::mem::take(neighbours);
        true
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some((_, waker)) = self.give(None) {
            waker.wake();
        }
    }
}

/// Gives an answer, and wakes whoever waits for it.
pub(super) fn give(given: &Given, answer: Answer) {
    if let Some((_, waker)) = given.give(Some(answer)) {
        waker.wake();
    }
}

/// The same with many.
pub(super) fn give_all(answers: impl Iterator<Item = (Given, Answer)>) {
    let mut by_thread: Vec<(ThreadId, Waiting)> = Vec::new();
    for (given, answer) in answers {
        let Some((thread, waker)) = given.give(Some(answer)) else {
            continue;
        };
        match by_thread.iter_mut().find(|(own, _)| *own == thread) {
            Some((_, (givens, wakers))) => {
                givens.push(given);
                wakers.push_back(waker);
            }
            None => by_thread.push((thread, (vec![given], VecDeque::from([waker])))),
        }
    }
    for (_, waiting) in by_thread {
        wake(waiting);
    }
}

/// Wakes those who wait on one thread: the first that has not been woken by something else, and by it the others. Wakers are passed
/// on and not cloned: each clone would have this thread and the other one take turns at the memory of a task.
fn wake((givens, mut wakers): Waiting) {
    for given in &givens {
        let Some(waker) = wakers.pop_front() else {
            return;
        };
        // Those who have gone on meanwhile need no waking, and it does no harm.
        if given.wakes(&mut wakers) {
            waker.wake();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Counted {
        fn waker(self: &Arc<Self>) -> Waker {
            Arc::clone(self).into()
        }

        fn count(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// So many that wait on this thread, each with a waker that counts.
    fn waiting(count: usize) -> (Vec<Given>, Vec<Awaited>, Vec<Arc<Counted>>) {
        let wakers: Vec<Arc<Counted>> = (0..count).map(|_| Arc::default()).collect();
        let (given, mut awaited): (Vec<_>, Vec<_>) = (0..count).map(|_| later()).unzip();
        for (one, waker) in awaited.iter_mut().zip(&wakers) {
            assert!(one.poll(&Context::from_waker(&waker.waker())).is_pending());
        }
        (given, awaited, wakers)
    }

    fn status(awaited: &mut Awaited, waker: &Arc<Counted>) -> Option<u16> {
        match awaited.poll(&Context::from_waker(&waker.waker())) {
            Poll::Ready(answer) => answer.map(|answer| answer.status),
            Poll::Pending => panic!("it is answered"),
        }
    }

    fn woken(wakers: &[Arc<Counted>]) -> Vec<usize> {
        wakers.iter().map(|waker| waker.count()).collect()
    }

    #[test]
    fn one_is_woken_and_wakes_its_neighbours() {
        let (given, mut awaited, wakers) = waiting(3);
        let statuses = [200, 202, 404].map(Answer::new);
        give_all(given.into_iter().zip(statuses));
        assert_eq!(woken(&wakers), [1, 0, 0]);
        assert_eq!(status(&mut awaited[0], &wakers[0]), Some(200));
        assert_eq!(woken(&wakers), [1, 1, 1]);
        assert_eq!(status(&mut awaited[1], &wakers[1]), Some(202));
        assert_eq!(status(&mut awaited[2], &wakers[2]), Some(404));
        assert_eq!(woken(&wakers), [1, 1, 1]);
    }

    #[test]
    fn one_that_leaves_wakes_them_too() {
        let (given, mut awaited, wakers) = waiting(3);
        give_all(given.into_iter().zip([200, 202, 404].map(Answer::new)));
        drop(awaited.remove(0));
        assert_eq!(woken(&wakers), [1, 1, 1]);
        // One that has left before is no one to be woken, and no one to wake others.
        let (given, mut awaited, wakers) = waiting(3);
        drop(awaited.remove(0));
        assert!(given[0].has_left() && !given[1].has_left());
        give_all(given.into_iter().zip([200, 202, 404].map(Answer::new)));
        assert_eq!(woken(&wakers), [0, 1, 0]);
        assert_eq!(status(&mut awaited[0], &wakers[1]), Some(202));
        assert_eq!(woken(&wakers), [0, 1, 1]);
    }

    #[test]
    fn a_service_that_drops_its_end_is_noticed() {
        let (given, mut awaited, wakers) = waiting(1);
        drop(given);
        assert_eq!(woken(&wakers), [1]);
        assert_eq!(status(&mut awaited[0], &wakers[0]), None);
    }

    /// Threads that wait, one that answers in heaps, and clients that leave: everyone who stays has his answer.
    #[test]
    fn nobody_is_forgotten() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (sender, receiver) = std::sync::mpsc::channel::<Vec<Given>>();
            let answering = thread::spawn(move || {
                while let Ok(given) = receiver.recv() {
                    give_all(given.into_iter().map(|given| (given, Answer::new(200))));
                }
            });
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                for _ in 0..20 {
                    let count = rng.usize(1..20);
                    let (given, awaited): (Vec<_>, Vec<_>) = (0..count).map(|_| later()).unzip();
                    let waiting = awaited.into_iter().map(|mut awaited| {
                        let leaves = rng.u8(..4) == 0;
                        tokio::spawn(async move {
                            if leaves {
                                tokio::task::yield_now().await;
                                return;
                            }
                            std::future::poll_fn(|cx| awaited.poll(cx))
                                .await
                                .expect("an answer");
                        })
                    });
                    let waiting: Vec<_> = waiting.collect();
                    if rng.bool() {
                        tokio::task::yield_now().await;
                    }
                    sender.send(given).expect("it answers");
                    for one in waiting {
                        one.await.expect("it ends");
                    }
                }
            });
            drop(sender);
            answering.join().expect("it ends");
        }
    }
}
