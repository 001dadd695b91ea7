//! The upstreams that share the requests of a route. Each has its own breaker and hedge, so that a new version that fails takes
//! nothing from the old one, and its own keys in the cache, so that nobody gets an answer of the other one.

use std::collections::HashMap;
use std::sync::Arc;

use weir_policy::balance::split;

use crate::metrics::{ByClass, PerWorker};
use crate::settings::{Action, Forward, Route, SplitBy, Upstream};
use crate::state::breaker::SharedBreaker;
use crate::state::carried::carried;
use crate::state::hedging::SharedHedge;
use crate::state::snapshot::RouteState;
use crate::state::sticky::{CookieText, OwnCookies};

/// How a route chooses among several upstreams, and what it knows of them.
#[derive(Debug)]
pub(crate) struct SplitState {
    pub(crate) split: split::Split,
    pub(crate) by: Option<SplitBy>,
    /// The cookie by which clients stay with a side, if they do by one.
    pub(crate) cookie: Option<CookieText>,
    pub(crate) sides: Vec<Side>,
}

/// One of the upstreams of a split.
#[derive(Debug)]
pub(crate) struct Side {
    /// The name of the upstream.
    pub(crate) name: String,
    /// The rule of the route, with this upstream.
    pub(crate) rule: Forward,
    pub(crate) care: OwnCare,
    /// Shared by the routes of one name, as those of the route are.
    pub(crate) metrics: Arc<PerWorker<SideMetrics>>,
}

/// What a route has of its own for an upstream that it asks.
#[derive(Debug, Default, Clone)]
pub(crate) struct OwnCare {
    pub(crate) breaker: Option<Arc<SharedBreaker>>,
    pub(crate) hedge: Option<Arc<SharedHedge>>,
}

/// What one worker counts for one side.
#[derive(Debug, Default)]
pub(crate) struct SideMetrics {
    pub(crate) requests: ByClass,
}

/// The counts of sides, by the names of route and upstream.
pub(crate) type Counted = HashMap<(String, String), Arc<PerWorker<SideMetrics>>>;

/// The counts of all sides of `routes`.
pub(crate) fn counted(routes: &[RouteState]) -> Counted {
    let split = routes
        .iter()
        .filter_map(|route| Some((route, route.split.as_deref()?)));
    let sides = split.flat_map(|(route, split)| {
        let name = &route.settings.name;
        split.sides.iter().map(move |side| {
            let labels = (name.clone(), side.name.clone());
            (labels, Arc::clone(&side.metrics))
        })
    });
    sides.collect()
}

impl OwnCare {
    /// That of a route to one upstream: what it had, or had for that upstream when it was split.
    pub(crate) fn of_route<'b>(
        route: &Route,
        upstreams: &[Upstream],
        before: Option<&'b Self>,
        of_upstream: impl Fn(&str) -> Option<&'b Self>,
    ) -> Self {
        let rule = route.action.rule().filter(|rule| rule.split.is_none());
        let of_side = rule.and_then(|rule| of_upstream(&upstreams[rule.upstream].name));
        Self::succeed(of_side.or(before), rule)
    }

    /// The care for `rule`: what was `before`, unless it has changed.
    pub(crate) fn succeed(before: Option<&Self>, rule: Option<&Forward>) -> Self {
        let care = rule.map(|rule| &rule.care);
        Self {
            breaker: SharedBreaker::succeed(
                before.and_then(|before| before.breaker.as_ref()),
                care.and_then(|care| care.breaker.as_ref()),
            ),
            hedge: SharedHedge::succeed(
                before.and_then(|before| before.hedge.as_ref()),
                care.and_then(|care| care.retry.hedge.as_ref()),
            ),
        }
    }
}

impl SplitState {
    /// The split of `route`, if it has one. `before` finds what was known of an upstream of this name on the route.
    pub(crate) fn succeed<'b>(
        route: &Route,
        upstreams: &[Upstream],
        own: &OwnCookies,
        before: impl Fn(&str) -> Option<&'b OwnCare>,
        (counted, workers): (&mut Counted, usize),
    ) -> Option<Box<Self>> {
        let Action::Forward(rule) = &route.action else {
            return None;
        };
        let split = rule.split.as_deref()?;
        let name = |upstream: usize| upstreams[upstream].name.as_str();
        let shares = split.shares.iter();
        let shares: Vec<_> = shares
            .map(|share| (name(share.upstream), share.weight))
            .collect();
        let sides = split.shares.iter().enumerate().map(|(index, share)| {
            let name = name(share.upstream).to_owned();
            let rule = rule_of(rule, share.upstream, (index > 0).then_some(&name));
            let metrics = counted
                .entry((route.name.clone(), name.clone()))
                .or_insert_with(|| carried(None, || PerWorker::new(workers)));
            Side {
                care: OwnCare::succeed(before(&name), Some(&rule)),
                rule,
                metrics: Arc::clone(metrics),
                name,
            }
        });
        Some(Box::new(Self {
            sides: sides.collect(),
            split: split::Split::new(&shares),
            cookie: match &split.by {
                Some(SplitBy::Cookie(cookie)) => Some(CookieText::new(cookie, own)),
                Some(SplitBy::Part(_)) | None => None,
            },
            by: split.by.clone(),
        }))
    }
}

/// The rule of the route for one of its upstreams, whose name is in its keys unless they are those of the route without a split:
/// a canary does not begin with a cold cache for all the others.
fn rule_of(rule: &Forward, upstream: usize, in_keys: Option<&String>) -> Forward {
    let mut rule = Forward {
        upstream,
        ..rule.clone()
    };
    if let Some(policy) = &mut rule.cache {
        policy.key.upstream = in_keys.cloned();
    }
    rule
}
