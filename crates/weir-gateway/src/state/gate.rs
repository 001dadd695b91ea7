//! How many requests an upstream holds at once, over all workers, and who waits for a place.
//!
//! A request that finds no place leaves one end of a channel in the limiter's queue and waits at the other. Each change
//! (a place that comes back, a wait that is over) decides about the waiters, and so do waiters when their own time has
//! come. No separate task does it.
//!
//! A [`Permit`] is always in one of four places: in a [`Place`], in a channel, in [`Gate::change`], or back in the
//! limiter. Each of them passes it on, or gives it back when it is dropped. If a new configuration brings another gate,
//! waiting requests stay at the old one, and their places go back to it.

mod at;

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use weir_policy::Outcome;
use weir_policy::limit::concurrency::{
    Acquired, Decision, Limit, Limiter, Permit, Refusal, Settings, Status,
};
use weir_policy::limit::priority::Priority;
use weir_policy::limit::queue::Ticket;

use crate::deadline::{Due, TICK, Timer};
use crate::failure::Failure;
use crate::lock::lock;
use crate::settings::UpstreamCare;
use crate::time;

pub(crate) use crate::state::gate::at::{At, Places};

/// Gateways in front of one service measure it at the same times: when the seconds since 1970 are a multiple of this.
const EPOCH: Duration = Duration::from_secs(1_024);

/// An endpoint may always hold this many places before it is avoided, however small its share.
const FAIR_MIN: u64 = 4;

type Waiter = oneshot::Sender<Result<Permit, Refusal>>;

/// The places of one upstream.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The settings at the beginning; a fixed limit may have changed since.
    settings: Settings,
    /// How many of the places each endpoint has, if that is configured.
    per_endpoint: Option<u32>,
    limiter: Mutex<Limiter<Waiter>>,
    /// The limit when it was last read.
    limit: AtomicU32,
    /// How many endpoints an adaptive limit is for.
    endpoints: AtomicU32,
}

/// How many places of its upstream an endpoint may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// This many, and not one more.
    AtMost(u32),
    /// This many while others have room: an endpoint that hangs holds its own places, and leaves the rest to others.
    Fair(u32),
}

impl Gate {
    /// The gate for `care` of an upstream with `endpoints` endpoints: the one `before`, with a changed fixed limit if
    /// there is one. If anything else about it has changed, it is a new one.
    pub(crate) fn succeed(
        before: Option<&Arc<Self>>,
        care: &UpstreamCare,
        endpoints: usize,
    ) -> Option<Arc<Self>> {
        let mut settings = care.concurrency?;
        let per_endpoint = match &mut settings.limit {
            Limit::Fixed(limit) if care.is_limited_per_endpoint => {
                let each = *limit;
                *limit = each.saturating_mul(endpoints.max(1) as u32);
                Some(each)
            }
            Limit::Fixed(_) | Limit::Adaptive(_) => None,
        };
        let before = before.filter(|gate| gate.may_become(&settings, per_endpoint));
        let Some(before) = before else {
            return Some(Arc::new(Self::new(&settings, per_endpoint, endpoints)));
        };
        if let Limit::Fixed(limit) = settings.limit {
            before.change(time::now(), |limiter| limiter.set_fixed(limit));
        }
        Some(Arc::clone(before))
    }

    /// `endpoints` endpoints are in use. If each has places of its own, nobody is admitted for those of the others. Else an
    /// adaptive limit expects so much less, or more, of the service.
    pub(crate) fn follow(&self, endpoints: usize) {
        let Some(each) = self.per_endpoint else {
            let endpoints = endpoints.max(1) as u32;
            let before = self.endpoints.swap(endpoints, Ordering::Relaxed);
            if endpoints != before {
                let (now, factor) = (time::now(), f64::from(endpoints) / f64::from(before));
                self.change(now, |limiter| limiter.scale(now, factor));
            }
            return;
        };
        let limit = each.saturating_mul(endpoints as u32).max(1);
        if limit != self.limit.load(Ordering::Relaxed) {
            self.change(time::now(), |limiter| limiter.set_fixed(limit));
        }
    }

    fn may_become(&self, settings: &Settings, per_endpoint: Option<u32>) -> bool {
        let limit = match (self.settings.limit, settings.limit) {
            (Limit::Fixed(_), Limit::Fixed(limit)) => Limit::Fixed(limit),
            (limit, _) => limit,
        };
        let become_it = Settings {
            limit,
            ..self.settings
        };
        become_it == *settings && self.per_endpoint == per_endpoint
    }

    /// What an endpoint may hold that has `weight` of the `total` of all endpoints.
    pub(crate) fn allowance(&self, weight: u32, total: u64) -> Allowance {
        if let Some(each) = self.per_endpoint {
            return Allowance::AtMost(each);
        }
        // Half more than its share, plus a few, leaves room for chance; half of the share of the others stays theirs.
        let limit = u64::from(self.limit.load(Ordering::Relaxed));
        let weight = u64::from(weight);
        let half_of = |weight: u64| (limit * weight).div_ceil(2 * total.max(1));
        let fair = (3 * half_of(weight)).max(FAIR_MIN);
        let left = limit.saturating_sub(half_of(total.saturating_sub(weight)));
        Allowance::Fair(fair.min(left).clamp(1, u64::from(u32::MAX)) as u32)
    }

    /// Whether each endpoint has places of its own.
    pub(crate) fn is_per_endpoint(&self) -> bool {
        self.per_endpoint.is_some()
    }

    fn new(settings: &Settings, per_endpoint: Option<u32>, endpoints: usize) -> Self {
        let now = time::now();
        let unix = time::since_1970();
        let since = Duration::from_nanos((unix.as_nanos() % EPOCH.as_nanos()) as u64);
        let epoch = now.checked_sub(since).unwrap_or(now);
        let limiter = Limiter::new(settings, now, epoch);
        Self {
            settings: *settings,
            per_endpoint,
            limit: AtomicU32::new(limiter.limit()),
            endpoints: AtomicU32::new(endpoints.max(1) as u32),
            limiter: Mutex::new(limiter),
        }
    }

    /// A place for a request: at once, after a short wait, or never.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        client: &impl Waits,
        priority: Priority,
        now: Instant,
    ) -> Result<Place, Failure> {
        let mut receiver = None;
        let acquired = self.change(now, |limiter| {
            limiter.acquire(now, priority, || {
                let (sender, end) = oneshot::channel();
                receiver = Some(end);
                sender
            })
        });
        match acquired {
            Acquired::Admitted(permit) => Ok(self.place(permit, now)),
            Acquired::Refused(refusal) => Err(Failure::Shed(refusal)),
            Acquired::Queued(queued) => {
                if let Some(displaced) = queued.displaced {
                    // A request that has left meanwhile need not be told.
                    let _ = displaced.send(Err(Refusal::Displaced));
                }
                let waiting = Waiting {
                    gate: self,
                    deadline: queued.deadline,
                    ticket: Some(queued.ticket),
                    receiver: receiver.expect("whoever waits has made a channel"),
                };
                Box::pin(waiting.wait(client, now)).await
            }
        }
    }

    /// What the admin listener shows.
    pub(crate) fn status(&self, now: Instant) -> Status {
        lock(&self.limiter).status(now)
    }

    /// A place for a copy of a request that has one: at once, or never. It takes no place from those that wait.
    pub(crate) fn enter_at_once(self: &Arc<Self>, now: Instant) -> Option<Place> {
        let permit = self.change(now, |limiter| limiter.try_acquire(now))?;
        Some(self.place(permit, now))
    }

    fn place(self: &Arc<Self>, permit: Permit, since: Instant) -> Place {
        Place {
            gate: Arc::clone(self),
            since,
            permit: Some(permit),
            outcome: Outcome::Ignored,
            at: None,
            was_at: None,
            is_apart: false,
        }
    }

    /// Makes a change, and tells every waiter whose wait ends with it.
    fn change<R>(&self, now: Instant, change: impl FnOnce(&mut Limiter<Waiter>) -> R) -> R {
        let (result, mut decision) = {
            let mut limiter = lock(&self.limiter);
            let changed = (change(&mut limiter), limiter.decide(now));
            self.limit
                .store(limiter.limit_without_hold(), Ordering::Relaxed);
            changed
        };
        // Waking another worker is a system call, so the lock is released first.
        while let Some(decided) = decision {
            let (waiter, verdict) = match decided {
                Decision::Admitted(waiter, permit) => (waiter, Ok(permit)),
                Decision::Refused(waiter, refusal) => (waiter, Err(refusal)),
            };
            let unheard = waiter.send(verdict);
            let mut limiter = lock(&self.limiter);
            if let Err(Ok(permit)) = unheard {
                limiter.release(now, permit, Outcome::Ignored);
            }
            decision = limiter.decide(now);
        }
        result
    }
}

/// A client that waits for a place.
pub(crate) trait Waits {
    fn timer(&self) -> &Timer;

    /// Whether the client has left, so that nobody would take an answer.
    fn has_left(&self, cx: &mut Context<'_>) -> bool;
}

/// A request in the queue. Dropping it leaves the queue.
struct Waiting<'a> {
    gate: &'a Arc<Gate>,
    /// When it is decided about at the latest, unless it is held for a moment.
    deadline: Instant,
    /// `None` once the verdict has been read.
    ticket: Option<Ticket>,
    receiver: oneshot::Receiver<Result<Permit, Refusal>>,
}

impl Waiting<'_> {
    /// How long it takes until it may be decided about: at least a millisecond.
    fn patience(&self, now: Instant) -> Duration {
        let hold_ends = lock(&self.gate.limiter).hold_ends(now);
        let due = hold_ends.unwrap_or(self.deadline);
        let patience = due.saturating_duration_since(now);
        patience.max(Duration::from_millis(1))
    }

    async fn wait(mut self, client: &impl Waits, now: Instant) -> Result<Place, Failure> {
        // Whatever happens at the gate ends all waits that are over, so the timer only matters when nothing happens. A
        // wait shorter than a tick must not be a tick late.
        let set = |patience: Duration| {
            client.timer().set(patience);
            if patience < TICK {
                Due::at(time::now() + patience)
            } else {
                Due::never()
            }
        };
        let mut late = set(self.patience(now));
        poll_fn(|cx| {
            loop {
                // Neither timer fires early, so the request is decided about now at the latest, unless it was held for
                // a moment.
                let is_due = late.poll(cx).is_ready() || client.timer().poll(cx).is_ready();
                if is_due {
                    self.gate.change(time::now(), |_| ());
                }
                if let Poll::Ready(verdict) = Pin::new(&mut self.receiver).poll(cx) {
                    self.ticket = None;
                    let verdict = verdict.expect("the limiter tells every waiter");
                    let verdict = verdict.map_err(Failure::Shed);
                    return Poll::Ready(verdict.map(|permit| self.gate.place(permit, time::now())));
                }
                if client.has_left(cx) {
                    return Poll::Ready(Err(Failure::ClientGone));
                }
                if !is_due {
                    return Poll::Pending;
                }
                late = set(self.patience(time::now()));
            }
        })
        .await
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        // From here on nothing more is sent; a verdict may have been sent and not read.
        self.receiver.close();
        let verdict = self.receiver.try_recv();
        let now = time::now();
        self.gate.change(now, |limiter| match verdict {
            Ok(Ok(permit)) => limiter.release(now, permit, Outcome::Ignored),
            Ok(Err(_)) => {}
            Err(_) => drop(limiter.cancel(ticket)),
        });
    }
}

/// One request's place in the upstream. Dropping it gives it to the next.
#[derive(Debug)]
pub(crate) struct Place {
    gate: Arc<Gate>,
    since: Instant,
    permit: Option<Permit>,
    outcome: Outcome,
    /// The endpoint where it is counted, and where it was counted before it was set apart.
    at: Option<At>,
    was_at: Option<Arc<Places>>,
    is_apart: bool,
}

impl Place {
    /// The request goes to an endpoint.
    pub(crate) fn stand_at(&mut self, at: At) {
        self.at = Some(at);
    }

    /// The request does not go to its endpoint any more.
    pub(crate) fn leave_endpoint(&mut self) {
        self.at = None;
        self.was_at = None;
    }

    /// Whether others may use it, because its endpoint has been ejected.
    pub(crate) fn was_given_up(&self) -> bool {
        self.at.as_ref().is_some_and(At::was_given_up)
    }

    /// Takes out what counts it at its endpoint, for another place that goes on there.
    pub(crate) fn take_endpoint(&mut self) -> Option<At> {
        self.at.take()
    }

    /// Whether it counts as a stream.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// When it was taken.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The request is no more work for the upstream, so its place goes to the next. See [`Limiter::set_apart`].
    pub(crate) fn set_apart(&mut self) -> Result<(), Failure> {
        let Some(permit) = &mut self.permit else {
            return Ok(());
        };
        if self.gate.settings.streams_max == 0 {
            return Ok(());
        }
        // A place that was given up must count as work again before it ends.
        if let Some(at) = self.at.take() {
            self.was_at = Some(at.places());
        }
        let set_apart = |limiter: &mut Limiter<_>| limiter.set_apart(permit);
        let set_apart = self.gate.change(time::now(), set_apart);
        set_apart.map_err(Failure::Shed)?;
        self.is_apart = true;
        Ok(())
    }

    /// The request is work again, at the same endpoint.
    pub(crate) fn bring_back(&mut self) {
        self.is_apart = false;
        if let Some(places) = self.was_at.take() {
            self.at = places.take(u32::MAX);
        }
        if let Some(permit) = &mut self.permit {
            let now = time::now();
            self.gate
                .change(now, |limiter| limiter.bring_back(now, permit));
        }
    }

    /// Sets the outcome that it reports when it is given back.
    pub(crate) fn will_say(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let now = time::now();
            let outcome = self.outcome;
            self.at = None;
            self.gate
                .change(now, |limiter| limiter.release(now, permit, outcome));
        }
    }
}

#[cfg(test)]
mod tests;
