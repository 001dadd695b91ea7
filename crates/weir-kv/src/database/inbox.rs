//! What waits for the tasks of a database: a bounded queue that is taken in batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// What has waited for so long is answered with an error, whatever the database does meanwhile.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(2);

/// A bounded queue for a few tasks.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    waiting: Mutex<Waiting<T>>,
    came: Notify,
    /// The weight of what waits or is being done.
    weight: AtomicUsize,
    weight_max: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<Item<T>>,
    /// As how many they count.
    count: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Item<T> {
    since: Instant,
    weight: usize,
    /// As how many it counts.
    count: usize,
    what: T,
}

/// How much is taken at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) items: usize,
    /// A single item may weigh more.
    pub(crate) weight: usize,
}

/// What was taken together.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    pub(crate) items: Vec<T>,
    /// What has waited for too long.
    pub(crate) late: Vec<T>,
    /// Of all of it, for [`Inbox::done`].
    pub(crate) weight: usize,
}

impl<T> Inbox<T> {
    pub(crate) fn new(weight_max: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                count: 0,
                is_closed: false,
            }),
            came: Notify::new(),
            weight: AtomicUsize::new(0),
            weight_max,
        }
    }

    /// Adds an item; it comes back when too much waits already, or nothing is taken any more.
    pub(crate) fn put(&self, what: T, weight: usize) -> Result<(), T> {
        self.put_several(what, weight, 1)
    }

    /// The same with an item that counts as several.
    pub(crate) fn put_several(&self, what: T, weight: usize, count: usize) -> Result<(), T> {
        let before = self.weight.fetch_add(weight, Ordering::AcqRel);
        let is_full = before > 0 && before + weight > self.weight_max;
        let mut waiting = self.lock();
        if is_full || waiting.is_closed {
            drop(waiting);
            self.done(weight);
            return Err(what);
        }
        let since = Instant::now();
        waiting.count += count;
        waiting.items.push_back(Item {
            since,
            weight,
            count,
            what,
        });
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    /// What waits, as soon as something does; `None` when nothing comes any more.
    pub(crate) async fn take(&self, most: Most) -> Option<Batch<T>> {
        loop {
            if let Some(batch) = self.try_take(most) {
                return Some(batch);
            }
            if self.is_over() {
                // The other tasks are to end, too.
                self.came.notify_one();
                return None;
            }
            self.came.notified().await;
        }
    }

    /// Waits until so many items wait, or the first of them has waited for so long.
    pub(crate) async fn gather(&self, count: usize, wait: Duration) {
        loop {
            let first = {
                let waiting = self.lock();
                if waiting.is_closed || waiting.count >= count {
                    return;
                }
                waiting.items.front().map(|item| item.since)
            };
            let Some(since) = first else {
                self.came.notified().await;
                continue;
            };
            let until = since + wait;
            if Instant::now() >= until {
                return;
            }
            let _ = timeout_at(until, self.came.notified()).await;
        }
    }

    fn try_take(&self, most: Most) -> Option<Batch<T>> {
        let mut waiting = self.lock();
        if waiting.items.is_empty() {
            return None;
        }
        let now = Instant::now();
        let mut batch = Batch {
            items: Vec::new(),
            late: Vec::new(),
            weight: 0,
        };
        let mut items = 0;
        while let Some(next) = waiting.items.front() {
            let is_first = batch.weight == 0;
            let is_full =
                items + next.count > most.items || batch.weight + next.weight > most.weight;
            if is_full && !is_first {
                break;
            }
            let Some(Item {
                since,
                weight,
                count,
                what,
            }) = waiting.items.pop_front()
            else {
                break;
            };
            waiting.count -= count;
            items += count;
            batch.weight += weight;
            if now.duration_since(since) > WAIT_MAX {
                batch.late.push(what);
            } else {
                batch.items.push(what);
            }
        }
        if !waiting.items.is_empty() {
            self.came.notify_one();
        }
        Some(batch)
    }

    fn is_over(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed && waiting.items.is_empty()
    }

    /// Items of this weight are done.
    pub(crate) fn done(&self, weight: usize) {
        self.weight.fetch_sub(weight, Ordering::AcqRel);
    }

    /// Nothing more comes; what is here is taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    /// Whether nothing waits and nothing is being done.
    pub(crate) fn is_empty(&self) -> bool {
        self.weight.load(Ordering::Acquire) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most {
        items: 2,
        weight: 10,
    };

    fn runtime() -> tokio::runtime::Runtime {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime")
    }

    #[test]
    fn a_batch_has_a_bound_and_so_has_what_waits() {
        runtime().block_on(async {
            let inbox = Inbox::new(20);
            for (what, weight) in [(1, 5), (2, 5), (3, 5), (4, 5)] {
                assert_eq!(inbox.put(what, weight), Ok(()));
            }
            assert_eq!(inbox.put(5, 1), Err(5));
            let batch = inbox.take(MOST).await.expect("it is open");
            assert_eq!((batch.items, batch.weight), (vec![1, 2], 10));
            assert_eq!(inbox.put(5, 1), Err(5), "the batch is not done");
            inbox.done(10);
            assert_eq!(inbox.put(5, 9), Ok(()));
            inbox.close();
            assert_eq!(inbox.put(6, 1), Err(6));
            let batch = inbox.take(MOST).await.expect("something is left");
            assert_eq!(batch.items, [3, 4]);
            let batch = inbox.take(MOST).await.expect("something is left");
            assert_eq!(batch.items, [5]);
            inbox.done(19);
            assert!(inbox.is_empty());
            assert!(inbox.take(MOST).await.is_none());
        });
    }

    #[test]
    fn what_is_heavier_than_all_is_taken_alone() {
        runtime().block_on(async {
            let inbox = Inbox::new(20);
            assert_eq!(inbox.put(1, 100), Ok(()));
            assert_eq!(inbox.put(2, 1), Err(2));
            let batch = inbox.take(MOST).await.expect("it is open");
            assert_eq!((batch.items, batch.weight), (vec![1], 100));
        });
    }

    #[test]
    fn what_has_waited_for_too_long_is_told_apart() {
        runtime().block_on(async {
            let inbox = Inbox::new(20);
            assert_eq!(inbox.put(1, 1), Ok(()));
            tokio::time::advance(WAIT_MAX + Duration::from_millis(1)).await;
            assert_eq!(inbox.put(2, 1), Ok(()));
            let batch = inbox.take(MOST).await.expect("it is open");
            assert_eq!((batch.late, batch.items), (vec![1], vec![2]));
        });
    }

    #[test]
    fn what_is_gathered_is_so_many_or_has_waited_for_so_long() {
        runtime().block_on(async {
            let wait = Duration::from_millis(100);
            let inbox = std::sync::Arc::new(Inbox::new(100));
            let begin = Instant::now();
            let several = std::sync::Arc::clone(&inbox);
            tokio::spawn(async move {
                for what in 0..3 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let put = several.put_several(what, 1, 2);
                    assert_eq!(put, Ok(()));
                }
            });
            inbox.gather(4, wait).await;
            assert_eq!(begin.elapsed().as_millis(), 20);
            let batch = inbox.take(Most { items: 4, ..MOST }).await;
            assert_eq!(batch.expect("it is open").items, [0, 1]);
            inbox.gather(4, wait).await;
            assert_eq!(
                begin.elapsed().as_millis(),
                130,
                "the third has waited alone"
            );
            inbox.close();
            inbox.gather(100, wait).await;
        });
    }
}
