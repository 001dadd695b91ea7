//! Choosing an endpoint, and whether to try again after one did not answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_policy::balance::{Finished, Method as BalanceMethod, Pick, hash_key};

use crate::care::Ended;
use crate::care::breaker::Entered;
use crate::care::watch::Watching;
use crate::connection::Client;
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::metrics::EndpointMetrics;
use crate::settings::{Forward, HashOn};
use crate::snapshot::Endpoint;
use crate::upstream::health::Leave;
use crate::upstream::pool::Pool;
use crate::upstream::relay::Upstream;
use crate::view::{LocalEndpoint, View};
use crate::worker::Worker;

/// The attempts to get one request answered.
#[derive(Debug)]
pub(crate) struct Attempts {
    upstream: usize,
    hash: u64,
    /// Endpoints that could not be connected to.
    unreachable: Vec<usize>,
    /// Whether it was sent again after a connection from the pool was found dead, and after a fresh one died. Each may
    /// happen once; attempts to connect, which no endpoint notices, are not counted.
    was_stale: bool,
    was_dropped: bool,
}

impl Attempts {
    pub(crate) fn new(client: &Client, x: &Exchange, view: &View, rule: &Forward) -> Self {
        let settings = &view.snapshot.upstreams[rule.upstream].settings;
        let is_hashed = settings.balance == BalanceMethod::Hash;
        let hash = if is_hashed {
            hash_key(hashed_part(client, x, &settings.hash_on))
        } else {
            0
        };
        Self {
            upstream: rule.upstream,
            hash,
            unreachable: Vec::new(),
            was_stale: false,
            was_dropped: false,
        }
    }

    /// The endpoint to ask next: one that is thought well, or whose wait is over and that this request may try. When
    /// there is none, any that was not tried yet: an answer may come from an endpoint thought dead, and will not come
    /// from here. But where breakers are open, that is what they are for.
    pub(crate) fn choose(
        &mut self,
        x: &mut Exchange,
        worker: &Worker,
        view: &Rc<View>,
        rule: &Forward,
        now: Instant,
    ) -> Result<Chosen, Failure> {
        let endpoints = &view.upstreams[self.upstream].endpoints;
        let upstream = &view.snapshot.upstreams[self.upstream];
        let watch = upstream.watch.as_ref();
        let mut watched = watch.map(|watch| watch.look());
        let now_ms = worker.deadlines.now_ms();
        let mut balancer = view.upstreams[self.upstream].balancer.borrow_mut();
        let random = &mut *worker.random.borrow_mut();
        let draw = random.f64();
        let mut pick = Pick {
            now,
            random,
            hash: self.hash,
        };
        let mut shut = Shut::default();
        loop {
            let is_untried = |index: usize| {
                !self.unreachable.contains(&index) && !shut.endpoints.contains(&index)
            };
            let may_ask = |index: usize| is_untried(index) && !endpoints[index].state.is_leaving();
            let stands_out = |index: usize| {
                let watched = watched.as_ref();
                watched.is_some_and(|watched| !watched.ejection.admits(index, now, draw))
            };
            let is_well = |index: usize| {
                may_ask(index)
                    && endpoints[index].state.health.is_available(now_ms)
                    && !stands_out(index)
            };
            let well = balancer.pick(&mut pick, is_well);
            let mut index = well.or_else(|| balancer.pick(&mut pick, may_ask));
            if index.is_none() && !worker.is_current(view) {
                // Under way since before a change of the configuration, and knows nobody that stays.
                index = balancer.pick(&mut pick, is_untried);
            }
            let Some(index) = index else { break };
            let health = &endpoints[index].state.health;
            let leave = match well {
                // Without leave, another request has just begun to try this one, which makes it unavailable.
                Some(_) => match health.leave(now_ms, rule.timeouts.connect) {
                    Some(leave) => leave,
                    None => continue,
                },
                None => Leave::Usual,
            };
            let breaker = upstream.endpoints[index].breaker.as_ref();
            let entered = match breaker.map(|breaker| breaker.enter(now)).transpose() {
                Ok(entered) => entered,
                Err(refused) => {
                    shut.add(index, refused.retry_after);
                    continue;
                }
            };
            let watching = watch
                .zip(watched.as_mut())
                .map(|(watch, watched)| watched.start(watch, index, now));
            drop((watched, balancer));
            let told = Told { entered, watching };
            return Ok(Chosen::new(view, (self.upstream, index), leave, now, told));
        }
        Err(
            if shut.endpoints.is_empty() && self.unreachable.is_empty() {
                Failure::NoEndpoint
            } else if shut.endpoints.is_empty() {
                Failure::ConnectFailed
            } else {
                x.retry_after = shut.retry_after;
                Failure::BreakerOpen
            },
        )
    }

    /// Whether the next connection must not be one from the pool.
    pub(crate) fn wants_fresh(&self) -> bool {
        self.was_stale || self.was_dropped
    }

    /// After a connection did not stand, any other endpoint may be asked: nothing was sent.
    pub(crate) fn after_connecting(
        &mut self,
        failure: Failure,
        chosen: &Chosen,
        worker: &Worker,
    ) -> Option<Failure> {
        if failure == Failure::NoSocket {
            // What is kept for later is no use when there is nothing for now.
            chosen.view.close_idle();
            return Some(failure);
        }
        chosen.refused(failure, worker);
        self.unreachable.push(chosen.endpoint);
        let has_others = self.unreachable.len()
            < chosen.view.snapshot.upstreams[self.upstream]
                .endpoints
                .len();
        if has_others { None } else { Some(failure) }
    }

    /// After a connection ended without a byte of response: `None` when the request may be sent again, which takes that
    /// every byte that was sent is still here.
    ///
    /// A connection from the pool has most likely died of old age, so once it is sent again if none of it was sent, or
    /// if acting on it twice is like acting on it once (RFC 9112 §9.3.1). When a fresh connection dies the endpoint may
    /// well have acted on it, so that is repeated, once, only for methods that change nothing (RFC 9110 §9.2.1).
    pub(crate) fn after_asking(
        &mut self,
        failure: Failure,
        x: &Exchange,
        asked: &Upstream,
        chosen: &Chosen,
    ) -> Option<Failure> {
        let ended_silently = failure == Failure::UpstreamClosed && !asked.has_answered;
        // Dying of old age is no fault of the endpoint.
        if failure.fault() == Fault::Upstream && !(asked.is_reused && ended_silently) {
            chosen.failed(failure);
        }
        let is_unheard = asked.bytes_sent == 0;
        let (is_harmless, was_repeated) = if asked.is_reused {
            let is_harmless = is_unheard || x.request.method.is_idempotent();
            (is_harmless, &mut self.was_stale)
        } else {
            (
                is_unheard || x.request.method.is_safe(),
                &mut self.was_dropped,
            )
        };
        let was_repeated = std::mem::replace(was_repeated, true);
        if ended_silently && is_harmless && x.upload.is_unsent() && !was_repeated {
            None
        } else {
            Some(failure)
        }
    }
}

/// Endpoints whose breakers are open.
#[derive(Default)]
struct Shut {
    endpoints: Vec<usize>,
    /// When the first of them may be asked again.
    retry_after: Option<Duration>,
}

impl Shut {
    fn add(&mut self, endpoint: usize, retry_after: Duration) {
        self.endpoints.push(endpoint);
        let earlier = self.retry_after.unwrap_or(retry_after);
        self.retry_after = Some(earlier.min(retry_after));
    }
}

/// Who is told how asking an endpoint ended.
#[derive(Debug, Default)]
struct Told {
    entered: Option<Entered>,
    watching: Option<Watching>,
}

impl Told {
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
    /// When it was chosen.
    since: Instant,
    finished: Cell<Finished>,
    told: RefCell<Told>,
}

impl Chosen {
    fn new(
        view: &Rc<View>,
        (upstream, endpoint): (usize, usize),
        leave: Leave,
        since: Instant,
        told: Told,
    ) -> Self {
        let local = Rc::clone(&view.upstreams[upstream].endpoints[endpoint]);
        local.started();
        Self {
            view: Rc::clone(view),
            local,
            upstream,
            endpoint,
            leave,
            since,
            finished: Cell::new(Finished::Abandoned),
            told: RefCell::new(told),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.view.snapshot.upstreams[self.upstream].endpoints[self.endpoint]
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.local.pool
    }

    pub(crate) fn metrics(&self) -> &EndpointMetrics {
        self.local.metrics()
    }

    /// Whether the endpoint refused before and has to prove itself.
    pub(crate) fn is_trial(&self) -> bool {
        self.leave == Leave::Trial
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
        self.told.take().tell(now, Ended::answered(x), latency);
    }

    /// The endpoint did not do its part.
    fn failed(&self, failure: Failure) {
        let now = Instant::now();
        self.finished.set(Finished::Failed { now });
        let latency = now.saturating_duration_since(self.since);
        self.told.take().tell(now, Ended::Failed(failure), latency);
    }

    fn refused(&self, failure: Failure, worker: &Worker) {
        self.metrics().connect_failures.add(1);
        self.failed(failure);
        self.local.state.health.refused(
            self.leave,
            worker.deadlines.now_ms(),
            &mut worker.random.borrow_mut(),
        );
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.local.finished(self.finished.get());
    }
}

/// The part of the request that the hash balancer keeps together; empty when the request has none.
fn hashed_part<'a>(client: &'a Client, x: &'a Exchange, hash_on: &HashOn) -> &'a [u8] {
    let target = &x.request.target;
    match hash_on {
        HashOn::ClientAddress => client.address.as_bytes(),
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
