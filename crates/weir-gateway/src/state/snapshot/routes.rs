//! The routes of a configuration, and what of each goes on in the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cache::store::Share;

use crate::metrics::{PerWorker, RouteMetrics};
use crate::service::Service;
use crate::settings::{Action, Forward, Route, Settings};
use crate::state::breaker::SharedBreaker;
use crate::state::carried::carried;
use crate::state::hedging::SharedHedge;
use crate::state::mirror::MirrorState;
use crate::state::opened::Opened;
use crate::state::rate::RateGate;
use crate::state::snapshot::edited::{self, Edited, Says};
use crate::state::snapshot::{Snapshot, lines};
use crate::state::split::{self, OwnCare, SplitState};
use crate::state::sticky::OwnCookies;
use crate::state::storage::share;

/// A route and what is known about it.
#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) settings: Route,
    /// What every answer of the route says.
    pub(crate) lines: Box<[u8]>,
    /// Its share of the cache's RAM.
    pub(crate) share: Option<Arc<Share>>,
    pub(crate) rates: Vec<Arc<RateGate>>,
    /// For its upstream; of a route with a split, each side has its own instead.
    pub(crate) care: OwnCare,
    pub(crate) split: Option<Box<SplitState>>,
    pub(crate) mirror: Option<Box<MirrorState>>,
    /// How a request is forwarded to the upstream of its fallback, if it has one.
    pub(crate) elsewhere: Option<Box<Forward>>,
    /// How long its upstream takes to answer, if requests wait for each other's answers.
    pub(crate) answers: Option<Arc<SharedHedge>>,
    /// What answers its requests, if a service does.
    pub(crate) service: Option<Arc<dyn Service>>,
    /// What is changed of the requests to its upstream.
    pub(crate) asks: Edited,
    /// What is changed of its answers.
    pub(crate) says: Says,
    /// Shared by the routes of one name.
    pub(crate) metrics: Arc<PerWorker<RouteMetrics>>,
}

/// The identity of a route is the set of requests it serves, which no two routes share. The identity of its counts is
/// its name, which is the label in metrics.
pub(super) fn succeeding(
    snapshot_before: Option<&Snapshot>,
    settings: &Settings,
    own_cookies: &OwnCookies,
    services: &Opened,
) -> Vec<RouteState> {
    let before = snapshot_before.map_or(&[][..], |before| &before.routes);
    let (workers, all) = (settings.workers, &settings.all_routes);
    let identity = |route: &Route| {
        (
            route.host.clone(),
            route.path.clone(),
            route.methods.clone(),
            route.conditions.clone(),
        )
    };
    let known: HashMap<_, &RouteState> = before
        .iter()
        .map(|state| (identity(&state.settings), state))
        .collect();
    let mut counted: HashMap<String, Arc<PerWorker<RouteMetrics>>> = before
        .iter()
        .map(|state| (state.settings.name.clone(), Arc::clone(&state.metrics)))
        .collect();
    let mut sides = split::counted(before);
    let routes = &settings.routes;
    let succeed = |route: &Route| {
        let route = &kept_apart(route);
        let before = known.get(&identity(route));
        let metrics = carried(counted.get(&route.name), || PerWorker::new(workers));
        counted.insert(route.name.clone(), Arc::clone(&metrics));
        let own_care = |upstream: &str| before?.care_for(upstream, snapshot_before?);
        RouteState {
            lines: lines::of(route),
            settings: route.clone(),
            share: share(route, before.and_then(|before| before.share.as_ref())),
            rates: RateGate::succeed(
                before.map_or(&[], |before| &before.rates),
                &route.limits.rates,
            ),
            care: OwnCare::of_route(
                route,
                &settings.upstreams,
                before.map(|it| &it.care),
                own_care,
            ),
            split: SplitState::succeed(
                route,
                &settings.upstreams,
                own_cookies,
                own_care,
                (&mut sides, workers),
            ),
            mirror: MirrorState::succeed(
                before.and_then(|before| before.mirror.as_deref()),
                (route, all.request_id.as_ref()),
                workers,
            ),
            elsewhere: elsewhere(route),
            answers: SharedHedge::succeed(
                before.and_then(|before| before.answers.as_ref()),
                is_caching(route).then_some(&USUAL_ANSWERS),
            ),
            service: services.of_route(route).cloned(),
            asks: route.action.rule().map_or_else(Edited::default, |rule| {
                edited::asks(&rule.request_headers, all.request_id.as_ref())
            }),
            says: Says::of(route, all),
            metrics,
        }
    };
    routes.iter().map(succeed).collect()
}

/// The route, whose requests have keys of their own where others of the same URL take another route.
fn kept_apart(route: &Route) -> Route {
    let mut route = route.clone();
    let conditions = route.conditions.text();
    if let Action::Forward(rule) = &mut route.action
        && let Some(policy) = &mut rule.cache
    {
        policy.key.route = conditions;
    }
    route
}

/// How long half of the answers take.
const USUAL_ANSWERS: weir_policy::hedge::Settings = weir_policy::hedge::Settings {
    quantile: 0.5,
    min: Duration::ZERO,
    samples_min: 0,
    half_life: Duration::from_secs(60),
};

fn is_caching(route: &Route) -> bool {
    matches!(&route.action, Action::Forward(rule) if rule.cache.is_some())
}

/// The rule of a route, with the upstream of its fallback.
fn elsewhere(route: &Route) -> Option<Box<Forward>> {
    let Action::Forward(rule) = &route.action else {
        return None;
    };
    let upstream = rule.care.fallback.as_ref()?.upstream?;
    let rule = rule.clone();
    Some(Box::new(Forward {
        upstream,
        split: None,
        mirror: None,
        ..rule
    }))
}

impl RouteState {
    /// What it has of its own for the upstream of this name, by the configuration that it is of.
    fn care_for(&self, upstream: &str, of: &Snapshot) -> Option<&OwnCare> {
        if let Some(split) = &self.split {
            let mut sides = split.sides.iter();
            return sides
                .find(|side| side.name == upstream)
                .map(|side| &side.care);
        }
        let rule = self.settings.action.rule()?;
        let own = &of.upstreams[rule.upstream].settings.name;
        (own == upstream).then_some(&self.care)
    }

    /// All breakers of its own, with the upstream of each that is not the only one.
    pub(crate) fn breakers(&self) -> impl Iterator<Item = (Option<&str>, &SharedBreaker)> {
        let own = self.care.breaker.as_deref().map(|breaker| (None, breaker));
        let sides = self.split.iter().flat_map(|split| &split.sides);
        let of_sides = sides.filter_map(|side| {
            let breaker = side.care.breaker.as_deref()?;
            Some((Some(side.name.as_str()), breaker))
        });
        own.into_iter().chain(of_sides)
    }
}
