//! A configuration with the state that one worker keeps for it: pools of connections, and balancers.
//!
//! A new configuration takes what it needs from the view before. The state of an endpoint is shared by all views that
//! have it. So a request that began under an old one counts, and gives its connection back, where the newer ones look.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_policy::balance::{Balancer, Finished};

use crate::metrics::{ByClass, EndpointMetrics, RouteMetrics, WorkerMetrics};
use crate::settings::EndpointAddress;
use crate::state::endpoint::EndpointState;
use crate::state::pool::{Pool, PoolLimits};
use crate::state::snapshot::{Endpoint, Snapshot, UpstreamState};

/// A snapshot with the state that a worker keeps for it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) upstreams: Vec<LocalUpstream>,
    pub(crate) metrics: Arc<WorkerMetrics>,
    worker: usize,
    /// Idle connections in all pools of the worker.
    idle_total: Rc<Cell<usize>>,
}

/// What a worker keeps for an upstream.
#[derive(Debug)]
pub(crate) struct LocalUpstream {
    pub(crate) balancer: Rc<RefCell<Balancer>>,
    pub(crate) endpoints: Vec<Rc<LocalEndpoint>>,
}

/// What a worker keeps for an endpoint.
#[derive(Debug)]
pub(crate) struct LocalEndpoint {
    pub(crate) address: EndpointAddress,
    pub(crate) state: Arc<EndpointState>,
    pub(crate) pool: Pool,
    seat: RefCell<Seat>,
    worker: usize,
}

/// Where requests in flight to an endpoint are counted: in the balancer of the newest configuration that has it.
#[derive(Debug)]
struct Seat {
    balancer: Rc<RefCell<Balancer>>,
    index: usize,
}

impl View {
    /// What `worker`, one of `workers`, keeps for `snapshot`. What it kept `before` for endpoints that are gone is
    /// closed.
    pub(crate) fn succeed(
        before: Option<&Self>,
        snapshot: &Arc<Snapshot>,
        metrics: &Arc<WorkerMetrics>,
        (worker, workers): (usize, usize),
    ) -> Self {
        let idle_total = before.map_or_else(Rc::default, |before| Rc::clone(&before.idle_total));
        let idle_total_max = (snapshot.idle_connections / workers).max(1);
        let upstreams = snapshot.upstreams.iter().map(|upstream| {
            let limits = PoolLimits {
                connections: upstream.settings.idle_connections,
                idle_timeout: upstream.settings.idle_timeout,
                total: idle_total_max,
            };
            let before = before.and_then(|before| before.upstream(&upstream.settings.name));
            let pool = || Pool::new(limits, &idle_total);
            LocalUpstream::succeed(before, upstream, worker, limits, pool)
        });
        let view = Self {
            upstreams: upstreams.collect(),
            snapshot: Arc::clone(snapshot),
            metrics: Arc::clone(metrics),
            worker,
            idle_total: Rc::clone(&idle_total),
        };
        for local in before.into_iter().flat_map(Self::endpoints) {
            if !view.endpoints().any(|staying| Rc::ptr_eq(staying, local)) {
                local.pool.close();
            }
        }
        view
    }

    fn upstream(&self, name: &str) -> Option<(&UpstreamState, &LocalUpstream)> {
        let mut all = self.snapshot.upstreams.iter().zip(&self.upstreams);
        all.find(|(upstream, _)| upstream.settings.name == name)
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Rc<LocalEndpoint>> {
        let upstreams = self.upstreams.iter();
        upstreams.flat_map(|upstream| &upstream.endpoints)
    }

    /// What this worker counts for a route.
    pub(crate) fn route_metrics(&self, route: usize) -> &RouteMetrics {
        self.snapshot.routes[route].metrics.of(self.worker)
    }

    /// The same for one of its upstreams, where it has several.
    pub(crate) fn side_metrics(&self, route: usize, side: usize) -> Option<&ByClass> {
        let split = self.snapshot.routes[route].split.as_deref()?;
        Some(&split.sides[side].metrics.of(self.worker).requests)
    }

    /// The upstream that a request of a route with several was for.
    pub(crate) fn side_name(&self, route: Option<usize>, side: Option<usize>) -> Option<&str> {
        let split = self.snapshot.routes[route?].split.as_deref()?;
        Some(&split.sides[side?].name)
    }

    /// Closes all idle upstream connections.
    pub(crate) fn close_idle(&self) {
        self.endpoints().for_each(|endpoint| endpoint.pool.clear());
    }
}

impl LocalUpstream {
    fn succeed(
        before: Option<(&UpstreamState, &Self)>,
        upstream: &UpstreamState,
        worker: usize,
        limits: PoolLimits,
        pool: impl Fn() -> Pool,
    ) -> Self {
        let place_of = |endpoint: &Endpoint| {
            let (_, local) = before?;
            let is_it = |local: &Rc<LocalEndpoint>| Arc::ptr_eq(&local.state, &endpoint.state);
            local.endpoints.iter().position(is_it)
        };
        let places: Vec<_> = upstream.endpoints.iter().map(place_of).collect();
        let balancer = succeeding_balancer(before, upstream, &places);
        let seated = upstream.endpoints.iter().zip(&places).enumerate();
        let endpoints = seated.map(|(index, (endpoint, place))| {
            let seat = Seat {
                balancer: Rc::clone(&balancer),
                index,
            };
            if let Some((local, place)) = before.map(|(_, local)| local).zip(*place) {
                let endpoint = &local.endpoints[place];
                endpoint.pool.adjust(limits);
                *endpoint.seat.borrow_mut() = seat;
                return Rc::clone(endpoint);
            }
            Rc::new(LocalEndpoint {
                address: endpoint.address.clone(),
                state: Arc::clone(&endpoint.state),
                pool: pool(),
                seat: RefCell::new(seat),
                worker,
            })
        });
        Self {
            endpoints: endpoints.collect(),
            balancer,
        }
    }
}

/// The balancer goes on unless something has changed that it depends on.
fn succeeding_balancer(
    before: Option<(&UpstreamState, &LocalUpstream)>,
    upstream: &UpstreamState,
    places: &[Option<usize>],
) -> Rc<RefCell<Balancer>> {
    let method = upstream.settings.balance;
    let endpoints = upstream.endpoints.iter();
    let endpoints: Vec<_> = endpoints.map(|e| (e.label.as_str(), e.weight)).collect();
    let Some((state, local)) = before else {
        return Rc::new(RefCell::new(Balancer::new(method, &endpoints)));
    };
    let same = |(index, place): (usize, &Option<usize>)| {
        let (old, new) = (state.endpoints.get(index), &upstream.endpoints[index]);
        let is_alike = old.is_some_and(|old| old.weight == new.weight && old.label == new.label);
        *place == Some(index) && is_alike
    };
    let is_unchanged = state.settings.balance == method
        && state.endpoints.len() == places.len()
        && places.iter().enumerate().all(same);
    if is_unchanged {
        return Rc::clone(&local.balancer);
    }
    let balancer = local.balancer.borrow();
    Rc::new(RefCell::new(balancer.succeed(method, &endpoints, places)))
}

impl LocalEndpoint {
    /// What this worker counts for the endpoint.
    pub(crate) fn metrics(&self) -> &EndpointMetrics {
        self.state.metrics.of(self.worker)
    }

    /// One more request is in flight there.
    pub(crate) fn started(&self) {
        let seat = self.seat.borrow();
        seat.balancer.borrow_mut().on_start(seat.index);
        self.metrics().in_flight.add(1);
    }

    /// One request fewer is in flight there.
    pub(crate) fn finished(&self, how: Finished) {
        let seat = self.seat.borrow();
        seat.balancer.borrow_mut().on_finish(seat.index, how);
        self.metrics().in_flight.sub(1);
    }
}
