//! What the page is written from. What stands behind a lock is read once, so that workers wait as little as can be for it, and
//! metrics that belong together agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weir_policy::breaker::Status;
use weir_policy::ejection;
use weir_policy::limit::concurrency;

use crate::metrics::{CacheMetrics, Counter, PerWorker, RouteMetrics, WorkerMetrics};
use crate::service::{DatabaseStatus, Inside, QueueStatus, StoreStatus};
use crate::settings::{Action, Forward};
use crate::state::breaker::SharedBreaker;
use crate::state::shared::Shared;
use crate::state::snapshot::{Endpoint, Snapshot};
use crate::state::storage::TierCounts;
use crate::time;

/// The counts of a gateway under one configuration.
pub(super) struct Counted<'s> {
    pub(super) shared: &'s Shared,
    pub(super) snapshot: &'s Snapshot,
    /// Routes may share a name, as those of one path for different methods do: they are counted together.
    pub(super) routes: BTreeMap<&'s str, &'s PerWorker<RouteMetrics>>,
    /// Those of the routes that have a cache.
    caching: BTreeSet<&'s str>,
    /// By what they are labelled with: a route, or an upstream and an endpoint.
    pub(super) breakers: Vec<(Vec<&'s str>, BreakerCounts)>,
    /// The limit of each upstream that has one.
    pub(super) limits: Vec<(&'s str, concurrency::Status)>,
    /// Each upstream whose endpoints are compared.
    pub(super) watched: Vec<Watched<'s>>,
    pub(super) tiers: Vec<TierCounts>,
    pub(super) queues: Vec<QueueStatus>,
    pub(super) store: Option<StoreStatus>,
    pub(super) databases: Vec<DatabaseStatus>,
}

/// The breakers of one route or endpoint.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct BreakerCounts {
    /// Of the worst of them; the greater, the worse.
    pub(super) state: u64,
    /// Of all of them.
    pub(super) openings: u64,
}

/// How the endpoints of one upstream compare.
pub(super) struct Watched<'s> {
    pub(super) upstream: &'s str,
    pub(super) is_suspended: bool,
    pub(super) endpoints: Vec<(&'s str, ejection::Status)>,
}

impl<'s> Counted<'s> {
    pub(super) fn read(shared: &'s Shared, snapshot: &'s Snapshot, inside: Inside) -> Self {
        let now = time::now();
        let routes = snapshot.routes.iter();
        let caching = routes.clone().filter(|route| route.answers.is_some());
        let limits = snapshot.upstreams.iter().filter_map(|upstream| {
            let gate = upstream.gate.as_ref()?;
            Some((upstream.settings.name.as_str(), gate.status(now)))
        });
        let tiers = shared.cache().map(|cache| cache.tier_counts());
        Self {
            shared,
            snapshot,
            routes: routes
                .map(|route| (route.settings.name.as_str(), &*route.metrics))
                .collect(),
            caching: caching.map(|route| &*route.settings.name).collect(),
            breakers: breakers(snapshot, now),
            limits: limits.collect(),
            watched: watched(snapshot, now),
            tiers: tiers.unwrap_or_default(),
            queues: inside.queues,
            store: inside.store,
            databases: inside.databases,
        }
    }

    /// A count added up over the workers.
    pub(super) fn sum(&self, of: fn(&WorkerMetrics) -> &Counter) -> u64 {
        let workers = self.shared.metrics.iter();
        workers.map(|worker| of(worker).read()).sum()
    }

    /// The routes that have a cache, or had one and used it, with the tables of the workers that did.
    pub(super) fn cached_routes(&self) -> impl Iterator<Item = (&'s str, Vec<&'s CacheMetrics>)> {
        self.routes.iter().filter_map(|(route, tables)| {
            let tables: Vec<_> = tables
                .iter()
                .filter_map(RouteMetrics::cache_if_used)
                .collect();
            let is_caching = || self.caching.contains(route);
            (!tables.is_empty() || is_caching()).then_some((*route, tables))
        })
    }

    /// Every endpoint, with its labels.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = ([&'s str; 2], &'s Endpoint)> {
        endpoints(self.snapshot)
    }

    /// Whether there is a route that forwards in this way.
    pub(super) fn has_rule(&self, is_so: impl Fn(&Forward) -> bool) -> bool {
        let mut routes = self.snapshot.routes.iter();
        routes.any(|route| match &route.settings.action {
            Action::Forward(rule) => is_so(rule),
            Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => false,
        })
    }
}

fn endpoints(snapshot: &Snapshot) -> impl Iterator<Item = ([&str; 2], &Endpoint)> {
    snapshot.upstreams.iter().flat_map(|upstream| {
        let name = upstream.settings.name.as_str();
        let endpoints = upstream.endpoints.iter();
        endpoints.map(move |endpoint| ([name, endpoint.label.as_str()], endpoint))
    })
}

fn watched(snapshot: &Snapshot, now: Instant) -> Vec<Watched<'_>> {
    let watched = snapshot.upstreams.iter().filter_map(|upstream| {
        let watch = upstream.watch.as_ref()?;
        let endpoints = upstream.endpoints.iter().enumerate();
        let endpoints = endpoints.map(|(index, it)| (it.label.as_str(), watch.status(index, now)));
        Some(Watched {
            upstream: &upstream.settings.name,
            is_suspended: watch.is_suspended(),
            endpoints: endpoints.collect(),
        })
    });
    watched.collect()
}

/// First those of routes.
fn breakers(snapshot: &Snapshot, now: Instant) -> Vec<(Vec<&str>, BreakerCounts)> {
    let add = |counts: &mut BreakerCounts, breaker: &SharedBreaker| {
        counts.state = counts.state.max(badness(breaker.status(now)));
        counts.openings += breaker.openings();
    };
    let mut of_routes: BTreeMap<&str, BreakerCounts> = BTreeMap::new();
    for route in &snapshot.routes {
        for (_, breaker) in route.breakers() {
            add(of_routes.entry(&route.settings.name).or_default(), breaker);
        }
    }
    let mut of_endpoints: BTreeMap<[&str; 2], BreakerCounts> = BTreeMap::new();
    for (labels, endpoint) in endpoints(snapshot) {
        if let Some(breaker) = &endpoint.breaker {
            add(of_endpoints.entry(labels).or_default(), breaker);
        }
    }
    let of_routes = of_routes.into_iter();
    let of_routes = of_routes.map(|(route, counts)| (vec![route], counts));
    let of_endpoints = of_endpoints.into_iter();
    let of_endpoints = of_endpoints.map(|(labels, counts)| (labels.to_vec(), counts));
    of_routes.chain(of_endpoints).collect()
}

/// How bad a state is, so that the largest of several says that something is wrong.
fn badness(status: Status) -> u64 {
    match status {
        Status::Closed(_) => 0,
        Status::Recovering { .. } => 1,
        Status::HalfOpen { .. } => 2,
        Status::Open { .. } => 3,
    }
}
