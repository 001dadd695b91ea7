//! Choosing an endpoint, and who is told how it did. Whether another one is asked after it is `retry.rs`'s to say.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_policy::balance::{Balancer, Finished, Method as BalanceMethod, Pick, hash_key};
use weir_policy::limit::concurrency::Refusal;

use crate::deadline::Timer;
use crate::ended::Ended;
use crate::exchange::Exchange;
use crate::exchange::pass::SHED_RETRY_AFTER;
use crate::failure::{Failure, Fault};
use crate::metrics::EndpointMetrics;
use crate::serving::Forwarding;
use crate::settings::HashOn;
use crate::state::breaker::Entered;
use crate::state::gate::At;
use crate::state::health::{Health, Leave};
use crate::state::pool::Pool;
use crate::state::view::{LocalEndpoint, View};
use crate::state::watch::Watching;
use crate::upstream::connect::Connector;
use crate::upstream::relay::Upstream;
use crate::upstream::room::Room;

/// Which endpoints of its upstream one request is for.
#[derive(Debug)]
pub(super) struct Choice {
    upstream: usize,
    hash: u64,
    /// What is asked for, as far as endpoints are compared by it.
    kind: u64,
    /// Endpoints that could not be connected to.
    unreachable: Vec<usize>,
    /// Endpoints that have seen the request: others go before them.
    asked: Vec<usize>,
}

/// Among which endpoints one is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    All,
    /// Those that have not seen the request, and against which nothing is known.
    TrustedOthers,
}

impl Choice {
    pub(super) fn new(x: &Exchange, by: Forwarding<'_>) -> Self {
        let state = by.upstream();
        let settings = &state.settings;
        let is_hashed = settings.balance == BalanceMethod::Hash;
        let hash = if is_hashed {
            hash_key(hashed_part(x, &settings.hash_on))
        } else {
            0
        };
        let is_watched = state.watch.is_some();
        let path = || hash_key(x.request.target.path.of(&x.head));
        // Reading and writing the same are not alike.
        let method = hash_key(&[x.request.method as u8]);
        Self {
            upstream: by.rule.upstream,
            hash,
            kind: if is_watched {
                path().wrapping_add(method).wrapping_add(hash)
            } else {
                0
            },
            unreachable: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The endpoint to ask next: one that is thought well, or whose wait is over and that this request may try. When
    /// there is none, any that was not tried yet: an answer may come from an endpoint thought dead, and will not come
    /// from here. But where breakers are open, that is what they are for.
    pub(super) fn next(
        &self,
        x: &mut Exchange,
        by: Forwarding<'_>,
        now: Instant,
    ) -> Result<Chosen, Failure> {
        let found = self.find(by, now, (Among::All, x.pass.is_apart()));
        let (chosen, at) = found.map_err(|shut| {
            if shut.is_full {
                x.retry_after = Some(SHED_RETRY_AFTER);
                Failure::Shed(Refusal::QueueFull)
            } else if shut.endpoints.is_empty() && self.unreachable.is_empty() {
                Failure::NoEndpoint
            } else if shut.endpoints.is_empty() {
                Failure::ConnectFailed
            } else {
                x.retry_after = shut.retry_after;
                Failure::BreakerOpen
            }
        })?;
        if let Some(at) = at {
            x.pass.stand_at(at);
        }
        Ok(chosen)
    }

    /// An endpoint to ask besides, if there is another one that is well.
    pub(super) fn besides(&self, by: Forwarding<'_>, now: Instant) -> Option<(Chosen, Option<At>)> {
        self.find(by, now, (Among::TrustedOthers, false)).ok()
    }

    /// No connection stood to this endpoint. Says whether there are others.
    pub(super) fn note_unreachable(&mut self, chosen: &Chosen) -> bool {
        self.unreachable.push(chosen.endpoint);
        let upstream = &chosen.view.snapshot.upstreams[self.upstream];
        self.unreachable.len() < upstream.endpoints.len()
    }

    /// This endpoint has seen the request.
    pub(super) fn note_asked(&mut self, chosen: &Chosen) {
        self.asked.push(chosen.endpoint);
    }

    /// One of the endpoints that `may` be asked: one that has not seen the request, if there is one.
    fn pick(
        &self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        may: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let unasked = balancer.pick(pick, |index| !self.asked.contains(&index) && may(index));
        if self.asked.is_empty() {
            return unasked;
        }
        unasked.or_else(|| balancer.pick(pick, may))
    }

    /// One of those that are well: one that has room, if there is one.
    fn pick_well(
        &self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        is_well: impl Fn(usize) -> bool,
        room: &Room<'_>,
    ) -> Option<usize> {
        let with_room = self.pick(balancer, pick, |index| is_well(index) && room.is_at(index));
        if with_room.is_some() || room.is_fixed() {
            return with_room;
        }
        self.pick(balancer, pick, is_well)
    }

    /// One of those that `may` be asked, though none of them is well. Who stands out may answer yet; who is known to be down will
    /// not.
    fn pick_anyone<'a>(
        &self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        may: impl Fn(usize) -> bool + Copy,
        health: impl Fn(usize) -> &'a Health + Copy,
        now_ms: u64,
    ) -> Option<usize> {
        self.pick(balancer, pick, |index| {
            may(index) && health(index).is_available(now_ms)
        })
        .or_else(|| {
            self.pick(balancer, pick, |index| {
                may(index) && health(index).is_checked_up()
            })
        })
        .or_else(|| self.pick(balancer, pick, may))
    }

    fn find(
        &self,
        by: Forwarding<'_>,
        now: Instant,
        (among, is_apart): (Among, bool),
    ) -> Result<(Chosen, Option<At>), Shut> {
        let endpoints = &by.view.upstreams[self.upstream].endpoints;
        let upstream = &by.view.snapshot.upstreams[self.upstream];
        let watch = upstream.watch.as_ref();
        let mut watched = watch.map(|watch| watch.look());
        let now = watched.as_ref().map_or(now, |watched| watched.looked);
        let now_ms = by.worker.deadlines.now_ms();
        let mut balancer = by.view.upstreams[self.upstream].balancer.borrow_mut();
        let random = &mut *by.worker.random.borrow_mut();
        let draw = random.f64();
        let mut pick = Pick {
            now,
            random,
            hash: self.hash,
        };
        let mut shut = Shut::default();
        let room = Room::new(upstream, is_apart);
        loop {
            let is_untried = |index: usize| {
                !self.unreachable.contains(&index) && !shut.endpoints.contains(&index)
            };
            let may_ask = |index: usize| is_untried(index) && !endpoints[index].state.is_leaving();
            let ejection = watched.as_ref().map(|watched| &watched.ejection);
            let stands_out =
                |index: usize| ejection.is_some_and(|ejection| !ejection.admits(index, now, draw));
            let is_well = |index: usize| {
                let health = &endpoints[index].state.health;
                let is_other = !self.asked.contains(&index) && health.is_trusted();
                let is_among = among == Among::All || is_other;
                may_ask(index) && health.is_available(now_ms) && !stands_out(index) && is_among
            };
            let well = self.pick_well(&mut balancer, &mut pick, is_well, &room);
            let is_full = shut.is_full || (0..endpoints.len()).any(is_well);
            if well.is_none() && room.is_fixed() && is_full {
                shut.is_full = true;
                break;
            }
            let mut index = well;
            if index.is_none() && among == Among::All {
                let health = |index: usize| &endpoints[index].state.health;
                index = self.pick_anyone(&mut balancer, &mut pick, may_ask, health, now_ms);
                if index.is_none() && !by.worker.is_current(by.view) {
                    // Under way since before a change of the configuration, and knows nobody that stays.
                    index = balancer.pick(&mut pick, is_untried);
                }
            }
            let Some(index) = index else { break };
            let Some(at) = room.take(index) else {
                shut.fill(index);
                continue;
            };
            let health = &endpoints[index].state.health;
            let leave = match well {
                // Without leave, another request has just begun to try this one, which makes it unavailable.
                Some(_) => match health.leave(now_ms, by.rule.timeouts.connect) {
                    Some(leave) => leave,
                    None => continue,
                },
                None => Leave::Usual,
            };
            let breaker = upstream.endpoints[index].breaker.as_ref();
            let entered = breaker.map(|breaker| breaker.enter(now)).transpose();
            let entered = entered.map_err(|refused| shut.add(index, refused.retry_after));
            let Ok(entered) = entered else { continue };
            let watching = watch
                .zip(watched.as_mut())
                .map(|(watch, watched)| watched.start(watch, index, self.kind, now));
            drop((watched, balancer));
            let told = Told::of(entered, watching);
            let which = (self.upstream, index, self.kind);
            return Ok((Chosen::new(by.view, which, leave, now, told), at));
        }
        Err(shut)
    }
}

/// There is none: endpoints whose breakers are open, or that have no place.
#[derive(Default)]
struct Shut {
    endpoints: Vec<usize>,
    /// One of them only has no place left.
    is_full: bool,
    /// When the first of them may be asked again.
    retry_after: Option<Duration>,
}

impl Shut {
    /// This one has no place left.
    fn fill(&mut self, endpoint: usize) {
        self.is_full = true;
        self.endpoints.push(endpoint);
    }

    fn add(&mut self, endpoint: usize, retry_after: Duration) {
        self.endpoints.push(endpoint);
        let earlier = self.retry_after.unwrap_or(retry_after);
        self.retry_after = Some(earlier.min(retry_after));
    }
}

/// Who is told how asking an endpoint ended.
#[derive(Debug)]
struct Told {
    entered: Option<Entered>,
    watching: Option<Watching>,
}

impl Told {
    /// `None` if nobody is.
    fn of(entered: Option<Entered>, watching: Option<Watching>) -> Option<Box<Self>> {
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
    told: RefCell<Option<Box<Told>>>,
}

impl Chosen {
    fn new(
        view: &Rc<View>,
        (upstream, endpoint, kind): (usize, usize, u64),
        leave: Leave,
        since: Instant,
        told: Option<Box<Told>>,
    ) -> Self {
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
        let now = Instant::now();
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
        let now = Instant::now();
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
            let now = Instant::now();
            let watching = watch.look().start(watch, self.endpoint, self.kind, now);
            let latency = now.saturating_duration_since(self.since);
            watching.report(now, Ended::Failed(failure), latency);
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

/// The part of the request that the hash balancer keeps together; empty when the request has none.
fn hashed_part<'a>(x: &'a Exchange, hash_on: &HashOn) -> &'a [u8] {
    let target = &x.request.target;
    match hash_on {
        HashOn::ClientAddress => x.client_address().as_bytes(),
        HashOn::Host => x.request.authority.map_or(&[], |span| span.of(&x.head)),
        HashOn::Path => target.path.of(&x.head),
        HashOn::Target => x.request.target_text.of(&x.head),
        HashOn::Header(name) => x.request.field(&x.head, name).unwrap_or_default(),
        HashOn::Cookie(name) => {
            let cookies = x.request.field(&x.head, "cookie").unwrap_or_default();
            value_of(cookies, b';', name).unwrap_or_default()
        }
        HashOn::Query(name) => {
            let query = target
                .query
                .map_or::<&[u8], _>(&[], |span| span.of(&x.head));
            value_of(query, b'&', name).unwrap_or_default()
        }
    }
}

/// The value of `name` in a list of `name=value`.
fn value_of<'a>(list: &'a [u8], separator: u8, name: &str) -> Option<&'a [u8]> {
    let mut pairs = list
        .split(move |&byte| byte == separator)
        .map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
