//! How many requests an upstream holds at once, over all workers, and who waits for a place.
//!
//! A request that finds no place leaves one end of a channel in the limiter's queue and waits at the other. Whoever
//! changes something (a place that comes back, a wait that is up) decides about the waiters, under the same lock, and so
//! do waiters when their own time has come: there is no task that does it for them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use weir_policy::Outcome;
use weir_policy::limit::concurrency::{
    Acquired, Decision, Limiter, Permit, Refusal, Settings, Status,
};
use weir_policy::limit::priority::Priority;
use weir_policy::limit::queue::Ticket;

use super::lock;
use crate::connection::Client;
use crate::failure::Failure;

/// Gateways in front of one service measure it at the same times: when the seconds since 1970 are a multiple of this.
const EPOCH: Duration = Duration::from_secs(10);

type Waiter = oneshot::Sender<Result<Permit, Refusal>>;

/// The places of one upstream.
#[derive(Debug)]
pub(crate) struct Gate {
    settings: Settings,
    limiter: Mutex<Limiter<Waiter>>,
}

impl Gate {
    /// The gate for `settings`: the one `before`, unless they have changed.
    pub(crate) fn succeed(
        before: Option<&Arc<Self>>,
        settings: Option<&Settings>,
    ) -> Option<Arc<Self>> {
        let settings = settings?;
        let before = before.filter(|before| before.settings == *settings);
        Some(before.map_or_else(|| Arc::new(Self::new(settings)), Arc::clone))
    }

    fn new(settings: &Settings) -> Self {
        let now = Instant::now();
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let since = Duration::from_nanos((unix.as_nanos() % EPOCH.as_nanos()) as u64);
        let epoch = now.checked_sub(since).unwrap_or(now);
        Self {
            settings: *settings,
            limiter: Mutex::new(Limiter::new(settings, now, epoch)),
        }
    }

    /// A place for a request: at once, after a short wait, or never.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        client: &Client,
        priority: Priority,
        now: Instant,
    ) -> Result<Place, Failure> {
        let mut receiver = None;
        let acquired = {
            let mut limiter = lock(&self.limiter);
            let acquired = limiter.acquire(now, priority, || {
                let (sender, end) = oneshot::channel();
                receiver = Some(end);
                sender
            });
            // What comes back is refused below, when the lock is free again.
            settle(&mut limiter, now);
            acquired
        };
        match acquired {
            Acquired::Admitted(permit) => Ok(self.place(permit)),
            Acquired::Refused(refusal) => Err(Failure::Shed(refusal)),
            Acquired::Queued(queued) => {
                if let Some(displaced) = queued.displaced {
                    // Who has left meanwhile need not be told.
                    let _ = displaced.send(Err(Refusal::Displaced));
                }
                let waiting = Waiting {
                    gate: self,
                    ticket: queued.ticket,
                    receiver: receiver.expect("whoever waits has made a channel"),
                };
                waiting.wait(client, queued.deadline).await
            }
        }
    }

    /// A place for a copy of a request that has one: at once, or never. It takes none from those who wait.
    pub(crate) fn enter_at_once(self: &Arc<Self>, now: Instant) -> Option<Place> {
        let permit = lock(&self.limiter).try_acquire(now)?;
        Some(self.place(permit))
    }

    fn place(self: &Arc<Self>, permit: Permit) -> Place {
        Place {
            gate: Arc::clone(self),
            permit: Some(permit),
            outcome: Outcome::Ignored,
        }
    }

    /// What the admin listener shows.
    pub(crate) fn status(&self, now: Instant) -> Status {
        lock(&self.limiter).status(now)
    }
}

/// Tells every waiter whose wait is over.
fn settle(limiter: &mut Limiter<Waiter>, now: Instant) {
    while let Some(decision) = limiter.decide(now) {
        let (waiter, verdict) = match decision {
            Decision::Admitted(waiter, permit) => (waiter, Ok(permit)),
            Decision::Refused(waiter, refusal) => (waiter, Err(refusal)),
        };
        // A waiter that leaves takes itself out under this lock, so nobody has left; and if, the place is free again.
        if let Err(Ok(permit)) = waiter.send(verdict) {
            limiter.release(now, permit, Outcome::Ignored);
        }
    }
}

/// A request in the queue. Dropping it leaves the queue.
struct Waiting<'a> {
    gate: &'a Arc<Gate>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Result<Permit, Refusal>>,
}

impl Waiting<'_> {
    async fn wait(mut self, client: &Client, deadline: Instant) -> Result<Place, Failure> {
        let mut late = pin!(tokio::time::sleep_until(deadline.into()));
        let verdict = poll_fn(|cx| {
            if let Poll::Ready(verdict) = std::pin::Pin::new(&mut self.receiver).poll(cx) {
                return Poll::Ready(verdict.map_err(|_| Failure::ShutDown));
            }
            if client.has_left(cx) {
                return Poll::Ready(Err(Failure::ClientGone));
            }
            if late.as_mut().poll(cx).is_ready() {
                settle(&mut lock(&self.gate.limiter), Instant::now());
                return match std::pin::Pin::new(&mut self.receiver).poll(cx) {
                    Poll::Ready(verdict) => Poll::Ready(verdict.map_err(|_| Failure::ShutDown)),
                    // The clock of the timer and that of the limiter differ by less than its next look.
                    Poll::Pending => {
                        late.as_mut()
                            .reset(tokio::time::Instant::now() + LOOK_AGAIN);
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                };
            }
            Poll::Pending
        })
        .await?;
        verdict
            .map(|permit| self.gate.place(permit))
            .map_err(Failure::Shed)
    }
}

/// When a wait is looked at again that was not over when its timer said so.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut limiter = lock(&self.gate.limiter);
        if limiter.cancel(self.ticket).is_none() {
            // It was decided about, and the verdict may not have been read.
            if let Ok(Ok(permit)) = self.receiver.try_recv() {
                limiter.release(Instant::now(), permit, Outcome::Ignored);
            }
        }
        settle(&mut limiter, Instant::now());
    }
}

/// One request's place in the upstream. Dropping it gives it to the next.
#[derive(Debug)]
pub(crate) struct Place {
    gate: Arc<Gate>,
    permit: Option<Permit>,
    outcome: Outcome,
}

impl Place {
    /// What it will say when it is given back.
    pub(crate) fn will_say(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let now = Instant::now();
            let mut limiter = lock(&self.gate.limiter);
            limiter.release(now, permit, self.outcome);
            settle(&mut limiter, now);
        }
    }
}
