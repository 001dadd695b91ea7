//! The tasks of a simulation, and its time: it stands still while anything can go on without it, and then moves by [`STEP`].

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::time;

/// How far time moves when nothing can go on without it.
pub(super) const STEP: Duration = Duration::from_millis(10);
/// Rounds of the runtime in which nobody moves before time does.
const QUIET_ROUNDS: u32 = 4;
/// Rounds of the runtime at one moment after which something spins.
const ROUNDS_MAX: u32 = 200_000;

/// See the module.
#[derive(Clone)]
pub(super) struct Tasks {
    started: Instant,
    /// How often somebody moved.
    polls: Rc<Cell<u64>>,
    /// Those that the simulation waits for and that have not ended.
    busy: Rc<Cell<usize>>,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            started: time::now(),
            polls: Rc::default(),
            busy: Rc::default(),
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        time::since(self.started).as_millis() as u64
    }

    pub(super) async fn sleep(&self, ms: u64) {
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    /// Runs a task that the simulation waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let busy = Rc::clone(&self.busy);
        busy.set(busy.get() + 1);
        self.spawn_quietly(async move {
            task.await;
            busy.set(busy.get() - 1);
        });
    }

    /// Runs a task that goes on for as long as others want something of it.
    pub(super) fn spawn_quietly(&self, task: impl Future<Output = ()> + 'static) {
        let polls = Rc::clone(&self.polls);
        tokio::task::spawn_local(async move {
            let mut task = pin!(task);
            std::future::poll_fn(|cx| {
                polls.set(polls.get() + 1);
                task.as_mut().poll(cx)
            })
            .await;
        });
    }

    /// Lets everything go on until it ends or `patience` is over; `each` looks after every step.
    pub(super) async fn run(&self, patience: Duration, mut each: impl FnMut()) -> bool {
        let started = time::now();
        while time::since(started) < patience {
            self.settle().await;
            each();
            if self.busy.get() == 0 {
                return true;
            }
            tokio::time::advance(STEP).await;
        }
        false
    }

    /// Lets everything go on that needs no time.
    pub(super) async fn settle(&self) {
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < QUIET_ROUNDS {
            let before = self.polls.get();
            tokio::task::yield_now().await;
            quiet = if self.polls.get() == before {
                quiet + 1
            } else {
                0
            };
            rounds += 1;
            assert!(
                rounds < ROUNDS_MAX,
                "something goes on and on at one moment"
            );
        }
    }
}
