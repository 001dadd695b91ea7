//! The thread of a group: what wakes it, and what it does then.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use weir_gateway::service::Outcome;

use super::{Begun, Command, Group, UnderWay, WRITE_EVERY_MS};
use crate::clock;

/// How often it turns without being woken: it shows where it is, and makes its notes durable.
const TURN: Duration = Duration::from_secs(1);
/// Outcomes of a turn: what is asked from outside, and what is to be written, has its turn as well.
const ENDED_IN_TURN: usize = 256;

/// What wakes a group.
enum Event {
    Ended(Begun, Outcome),
    Asked(Command),
    /// There may be something to do.
    Turn,
    /// The queue is closed.
    Closed,
}

impl Group {
    /// Delivers until the queue is closed and what is under way has ended.
    pub(crate) async fn run(mut self) {
        let mut under_way = UnderWay::new();
        let mut shown = Instant::now();
        let mut is_closed = false;
        while !is_closed || !under_way.is_empty() {
            self.lanes.limit(&self.shared.settings().delivery);
            self.read_ahead();
            self.begin_replay(&under_way);
            let again_ms = self.begin(&mut under_way);
            let count = under_way.len() as u64;
            self.consumer.under_way.store(count, Ordering::Release);
            match self.next(&mut under_way, again_ms, is_closed).await {
                Event::Ended(begun, outcome) => {
                    self.end(begun, &outcome);
                    self.end_all(&mut under_way);
                }
                Event::Asked(command) => self.obey(command),
                Event::Turn => {}
                Event::Closed => is_closed = true,
            }
            let is_draining = self.shared.is_draining.load(Ordering::Acquire);
            let is_quiet = is_draining && under_way.is_empty();
            if is_quiet && !self.consumer.is_noted.load(Ordering::Acquire) {
                self.write(true);
                self.consumer.is_noted.store(true, Ordering::Release);
            }
            if self.shared.wants_room.swap(false, Ordering::AcqRel) {
                self.make_room();
            }
            self.write(false);
            if shown.elapsed() >= TURN {
                shown = Instant::now();
                self.give_up_old();
                self.show();
            }
        }
        self.write(true);
    }

    /// Ends with what else has ended.
    fn end_all(&mut self, under_way: &mut UnderWay) {
        for _ in 0..ENDED_IN_TURN {
            match under_way.try_join_next() {
                Some(Ok((begun, outcome))) => self.end(begun, &outcome),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    /// Waits for what comes first.
    async fn next(
        &mut self,
        under_way: &mut UnderWay,
        again_ms: Option<u64>,
        is_closed: bool,
    ) -> Event {
        let now_ms = clock::now_ms();
        let is_unwritten = self.journal.has_unwritten();
        let write_ms = self
            .unwritten_until_ms
            .max(self.written_ms + WRITE_EVERY_MS);
        let at_ms = again_ms
            .into_iter()
            .chain(is_unwritten.then_some(write_ms))
            .min();
        let wait = at_ms.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
        let wait = wait.map_or(TURN, |wait| wait.clamp(Duration::from_millis(1), TURN));
        let mut over = pin!(sleep_until(Instant::now() + wait));
        let mut delivers = pin!(self.consumer.wakes.notified());
        let commands = &mut self.commands;
        poll_fn(|cx| {
            if let Poll::Ready(Some(ended)) = under_way.poll_join_next(cx) {
                // A delivery has no code that panics, and nobody aborts one.
                return Poll::Ready(match ended {
                    Ok((begun, outcome)) => Event::Ended(begun, outcome),
                    Err(_) => Event::Turn,
                });
            }
            if !is_closed && let Poll::Ready(command) = commands.poll_recv(cx) {
                return Poll::Ready(command.map_or(Event::Closed, Event::Asked));
            }
            if delivers.as_mut().poll(cx).is_ready() || over.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Turn);
            }
            Poll::Pending
        })
        .await
    }
}
