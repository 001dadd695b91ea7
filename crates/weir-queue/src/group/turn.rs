//! The thread of a group: what wakes it, and what it does then.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use weir_gateway::service::{Errand, Outcome};

use super::{Command, Group, UnderWay, Which};
use crate::clock;
use crate::journal::Entry;
use crate::message::Message;
use crate::outcome::said;
use crate::shared::lock;

/// How often it turns without being woken: it shows where it is, and makes its notes durable.
const TURN: Duration = Duration::from_secs(1);
/// Dead letters of one answer.
const LETTERS_MAX: usize = 1000;

/// What wakes a group.
enum Event {
    Ended(Which, Outcome),
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
        let mut noted = Instant::now();
        let mut is_closed = false;
        while !is_closed || !under_way.is_empty() {
            self.limit();
            self.read_ahead();
            let again_ms = self.begin(&mut under_way);
            let count = under_way.len() as u64;
            self.shared.counts.under_way.store(count, Ordering::Release);
            match self.next(&mut under_way, again_ms, is_closed).await {
                Event::Ended(which, outcome) => self.note_end(which, &outcome),
                Event::Asked(command) => self.obey(command, &mut under_way).await,
                Event::Turn => {}
                Event::Closed => is_closed = true,
            }
            self.write(false);
            if noted.elapsed() >= TURN {
                noted = Instant::now();
                self.show();
            }
        }
        self.write(true);
    }

    /// Waits for what comes first.
    async fn next(
        &mut self,
        under_way: &mut UnderWay,
        again_ms: Option<u64>,
        is_closed: bool,
    ) -> Event {
        let wait =
            again_ms.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(clock::now_ms())));
        let wait = wait.map_or(TURN, |wait| wait.clamp(Duration::from_millis(1), TURN));
        let mut over = pin!(sleep_until(Instant::now() + wait));
        let mut delivers = pin!(self.shared.delivers.notified());
        let commands = &mut self.commands;
        poll_fn(|cx| {
            if let Poll::Ready(Some(ended)) = under_way.poll_join_next(cx) {
                // A delivery has no code that panics, and nobody aborts one.
                return Poll::Ready(match ended {
                    Ok((which, outcome)) => Event::Ended(which, outcome),
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

    fn note_end(&mut self, which: Which, outcome: &Outcome) {
        if let Err(error) = self.end(which, outcome) {
            self.stop(&error);
        }
    }

    /// The limits are those of the settings of now.
    fn limit(&mut self) {
        let settings = self.shared.settings();
        self.pace
            .limit(settings.delivery.concurrency, settings.delivery.rate);
    }

    /// Has a message delivered, unless the workers have enough to do.
    pub(super) fn send(
        &self,
        which: Which,
        message: &Message<'_>,
        body: &[u8],
        under_way: &mut UnderWay,
    ) -> bool {
        let settings = self.shared.settings();
        let (offset, attempts) = match which {
            Which::Message { offset, attempts } => (offset, attempts),
            Which::Dead { id } => (self.dead.offset(id).unwrap_or_default(), 0),
        };
        let attempt = attempts.max(self.failed.get(&offset).map_or(0, |failed| failed.times)) + 1;
        let errand = Errand {
            route: message.route.into(),
            upstream: message.upstream.into(),
            client: message.client,
            peer: message.peer,
            scheme: message.scheme,
            head: message.head.to_vec(),
            body: body.to_vec(),
            fields: vec![
                ("weir-offset".to_owned(), offset.to_string()),
                ("weir-attempt".to_owned(), attempt.to_string()),
            ],
            within: settings.delivery.timeout,
            // The beginning is what an operator is told when it is an error.
            answer_bytes_max: settings.delivery.answer_bytes_max.max(1024),
        };
        let Ok(delivery) = self.courier.deliver(errand) else {
            return false;
        };
        under_way.spawn(async move { (which, delivery.await) });
        true
    }

    async fn obey(&mut self, command: Command, under_way: &mut UnderWay) {
        let now_ms = clock::now_ms();
        match command {
            Command::State(offset, replier) => {
                let state = format!("{}\n", self.state(offset));
                replier.answer(said(200, state));
            }
            Command::Pause(is_paused, done) => {
                self.is_paused = is_paused;
                if !is_paused {
                    self.stopped = None;
                    *lock(&self.shared.stopped) = None;
                }
                self.journal.note(now_ms, &Entry::Paused(is_paused));
                self.write(true);
                let _ = done.send(Ok(1));
            }
            Command::ReplayFrom(from, done) => {
                self.finish(under_way).await;
                let count = self.replay_from(from);
                let _ = done.send(Ok(count));
            }
            Command::ReplaySince(since_ms, done) => {
                self.finish(under_way).await;
                let found = self.behind.go_to_time(since_ms);
                let found = found.map(|()| self.behind.offset());
                let counted = found.map(|from| self.replay_from(from));
                let _ = done.send(counted.map_err(|error| error.to_string()));
            }
            Command::Dead(from, count, reply) => {
                let ids: Vec<u64> = self.dead.ids(from).take(count.min(LETTERS_MAX)).collect();
                let letters = ids
                    .into_iter()
                    .filter_map(|id| self.dead.show(id).transpose());
                let letters: Result<Vec<_>, _> = letters.collect();
                let _ = reply.send(letters.map_err(|error| error.to_string()));
            }
            Command::Redrive(ids, done) => {
                let ids = self.chosen(ids);
                let _ = done.send(ids.map(|ids| {
                    let count = ids.len() as u64;
                    self.redrive.extend(ids);
                    count
                }));
            }
            Command::Drop(ids, done) => {
                let dropped = self.chosen(ids).map(|ids| {
                    let count = ids.len() as u64;
                    for &id in &ids {
                        self.dead.remove(id);
                    }
                    self.has_new_dead = true;
                    self.journal.note(now_ms, &Entry::Gone(ids));
                    count
                });
                self.write(true);
                let _ = done.send(dropped);
            }
        }
    }

    /// Waits until nothing is under way, so that nothing is overtaken by what comes then.
    async fn finish(&mut self, under_way: &mut UnderWay) {
        while let Some(ended) = under_way.join_next().await {
            if let Ok((which, outcome)) = ended {
                self.note_end(which, &outcome);
            }
        }
    }

    /// The dead letters of these numbers, or all that are not being delivered already.
    fn chosen(&self, ids: Option<Vec<u64>>) -> Result<Vec<u64>, String> {
        let Some(ids) = ids else {
            let waits = |id: &u64| !self.redrive.contains(id);
            return Ok(self.dead.ids(0).filter(waits).collect());
        };
        match ids.iter().find(|&&id| self.dead.offset(id).is_none()) {
            Some(id) => Err(format!("there is no dead letter {id}")),
            None => Ok(ids),
        }
    }
}
