//! An endpoint with a request in flight to it, and who is told how that ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use weir_policy::balance::Finished;

use crate::deadline::Timer;
use crate::ended::Ended;
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::metrics::EndpointMetrics;
use crate::state::breaker::Entered;
use crate::state::health::Leave;
use crate::state::pool::Pool;
use crate::state::view::{LocalEndpoint, View};
use crate::state::watch::Watching;
use crate::time;
use crate::upstream::connect::Connector;
use crate::upstream::relay::Upstream;

/// An endpoint with a request in flight to it; dropping it ends the flight.
#[derive(Debug)]
pub(crate) struct Chosen {
    view: Rc<View>,
    local: Rc<LocalEndpoint>,
    pub(crate) upstream: usize,
    pub(crate) endpoint: usize,
    leave: Leave,
    /// What requests are like it, if anybody compares.
    kind: u64,
    /// When it was chosen.
    since: Instant,
    finished: Cell<Finished>,
    /// Boxed, because it is moved from hand to hand, and most have nobody to tell.
    told: RefCell<Option<Box<Reporters>>>,
}

/// Which endpoint a request is sent to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Which {
    pub(super) upstream: usize,
    pub(super) endpoint: usize,
    /// What requests are like it, if anybody compares.
    pub(super) kind: u64,
}

impl Chosen {
    pub(super) fn new(
        view: &Rc<View>,
        which: Which,
        leave: Leave,
        since: Instant,
        told: Option<Box<Reporters>>,
    ) -> Self {
        let Which {
            upstream,
            endpoint,
            kind,
        } = which;
        let local = Rc::clone(&view.upstreams[upstream].endpoints[endpoint]);
        local.started();
        Self {
            view: Rc::clone(view),
            local,
            upstream,
            endpoint,
            leave,
            kind,
            since,
            finished: Cell::new(Finished::Abandoned),
            told: RefCell::new(told),
        }
    }

    /// How many endpoints its upstream has.
    pub(super) fn siblings(&self) -> usize {
        self.view.snapshot.upstreams[self.upstream].endpoints.len()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.local.pool
    }

    pub(crate) fn metrics(&self) -> &EndpointMetrics {
        self.local.metrics()
    }

    /// When it was chosen.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// What opens connections to it.
    pub(super) fn connector(&self, timeout: Duration, timer: &Timer) -> Connector {
        Connector {
            local: Rc::clone(&self.local),
            deadlines: timer.deadlines(),
            timeout,
        }
    }

    pub(super) fn leave(&self) -> Leave {
        self.leave
    }

    /// Whether the endpoint refused before and has to prove itself.
    pub(crate) fn is_trial(&self) -> bool {
        self.leave == Leave::Trial
    }

    /// Nobody waits for the answer, and nobody is told of it.
    pub(super) fn tell_nobody(&self) {
        self.told.take();
    }

    /// The request is no probe of the endpoint's breaker: its client may take any time to send it.
    pub(crate) fn withdraw_probe(&self) {
        if let Some(told) = &mut *self.told.borrow_mut() {
            told.entered = None;
        }
    }

    /// The response head is here.
    pub(crate) fn answered(&self, x: &mut Exchange) {
        let now = time::now();
        let latency = now.saturating_duration_since(self.since);
        x.facts.upstream_latency = Some(latency);
        x.facts.answered_at = Some(now);
        x.facts.endpoint = Some((self.upstream, self.endpoint));
        self.finished.set(Finished::Answered { now, latency });
        self.metrics().responses.add(x.response.status);
        self.metrics().latency.record(latency);
        if let Some(told) = self.told.take() {
            told.tell(now, x.answered(), latency);
        }
    }

    /// The endpoint did not answer on this connection.
    pub(super) fn asked_in_vain(&self, failure: Failure, upstream: &Upstream) {
        // That a kept connection has died of old age is no fault of the endpoint.
        let is_its_fault = failure.fault() == Fault::Upstream && !upstream.has_died_of_age(failure);
        if is_its_fault {
            self.failed(failure);
        }
    }

    /// The endpoint did not do its part.
    fn failed(&self, failure: Failure) {
        let now = time::now();
        self.finished.set(Finished::Failed { now });
        let latency = now.saturating_duration_since(self.since);
        if let Some(told) = self.told.take() {
            told.tell(now, Ended::Failed(failure), latency);
        }
    }

    /// The response broke off, whose head counted as an answer: the endpoint has done half its part, and half not.
    pub(crate) fn broke_off(&self, failure: Failure) {
        let upstream = &self.view.snapshot.upstreams[self.upstream];
        let watch = upstream.watch.as_ref();
        if let Some(watch) = watch.filter(|_| failure.fault() == Fault::Upstream) {
            let now = time::now();
            let watching = watch.look().start(watch, self.endpoint, self.kind, now);
            let latency = now.saturating_duration_since(self.since);
            watching.report(now, Ended::Failed(failure), latency);
        }
    }

    /// What the system said, after a connection to it ended in `failure`.
    pub(super) fn connect_error(&self, failure: Failure) -> Option<Errno> {
        match failure {
            // The wait of a request may end before that of the connect that it waits for.
            Failure::ConnectTimeout => Some(Errno::TIMEDOUT),
            _ => self.local.state.health.errno(),
        }
    }

    /// No connection stood. Its health was told by who tried.
    pub(super) fn refused(&self, failure: Failure) {
        self.failed(failure);
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.local.finished(self.finished.get());
    }
}

/// Who is told how asking an endpoint ended.
#[derive(Debug)]
pub(super) struct Reporters {
    entered: Option<Entered>,
    watching: Option<Watching>,
}

impl Reporters {
    /// `None` if nobody is.
    pub(super) fn of(entered: Option<Entered>, watching: Option<Watching>) -> Option<Box<Self>> {
        let is_watched = entered.is_some() || watching.is_some();
        is_watched.then(|| Box::new(Self { entered, watching }))
    }

    fn tell(self, now: Instant, ended: Ended, latency: Duration) {
        if let Some(entered) = self.entered {
            entered.report(now, ended, latency);
        }
        if let Some(watching) = self.watching {
            watching.report(now, ended, latency);
        }
    }
}
