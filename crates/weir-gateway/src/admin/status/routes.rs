//! The routes' part of `/status`. Routes of one name are counted together, and told of together.

use std::time::Instant;

use serde::Serialize;

use crate::admin::history::tally::Tally;
use crate::admin::history::{History, MINUTE_MS, NOW_MS, Subject};
use crate::admin::status::care::BreakerStatus;
use crate::admin::status::minute::RouteMinute;
use crate::admin::status::{NamedCounts, by_class};
use crate::metrics;
use crate::settings::Action;
use crate::state::snapshot::{RouteState, Snapshot};

/// The routes of one name.
#[derive(Debug, Serialize)]
pub(super) struct RouteStatus<'s> {
    pub(super) route: &'s str,
    /// Where their requests are sent; none where the gateway answers itself.
    pub(super) upstreams: Vec<&'s str>,
    /// Whether they have a cache.
    pub(super) caches: bool,
    pub(super) breakers: Vec<BreakerStatus>,
    /// The sum of `responses`.
    requests: u64,
    responses: NamedCounts,
    /// `None`: it is not followed, or not yet.
    minute: Option<RouteMinute>,
    /// The last ten seconds.
    #[serde(skip)]
    pub(super) now: Option<Tally>,
}

/// In the order of the configuration.
pub(super) fn read<'s>(
    snapshot: &'s Snapshot,
    history: &History,
    now: Instant,
) -> Vec<RouteStatus<'s>> {
    let mut all: Vec<RouteStatus<'s>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for route in &snapshot.routes {
        let name = &*route.settings.name;
        let place = *places.entry(name).or_insert(all.len());
        if place == all.len() {
            all.push(RouteStatus::new(route, history));
        }
        let status = &mut all[place];
        status.caches |= route.answers.is_some();
        let breakers = route.breakers();
        let breakers = breakers.map(|(upstream, breaker)| {
            let mut shown = BreakerStatus::read(breaker, now);
            shown.upstream = upstream.map(str::to_owned);
            shown
        });
        status.breakers.extend(breakers);
        for upstream in asked(route, snapshot) {
            if !status.upstreams.contains(&upstream) {
                status.upstreams.push(upstream);
            }
        }
    }
    for status in &mut all {
        let subject = Subject::Route(status.route.to_owned());
        let minute = history.of(&subject, MINUTE_MS);
        status.minute = minute.map(|tally| RouteMinute::of(&tally, status.caches));
    }
    all
}

/// The upstreams that a route forwards to.
fn asked<'s>(route: &'s RouteState, snapshot: &'s Snapshot) -> Vec<&'s str> {
    let Action::Forward(rule) = &route.settings.action else {
        return Vec::new();
    };
    match &route.split {
        Some(split) => split.sides.iter().map(|side| &*side.name).collect(),
        None => vec![&*snapshot.upstreams[rule.upstream].settings.name],
    }
}

impl<'s> RouteStatus<'s> {
    fn new(route: &'s RouteState, history: &History) -> Self {
        let tables = route.metrics.iter();
        let responses = metrics::added(tables.map(|table| table.requests.counts()));
        let name = &*route.settings.name;
        Self {
            route: name,
            upstreams: Vec::new(),
            caches: false,
            breakers: Vec::new(),
            requests: responses.iter().sum(),
            responses: by_class(responses),
            minute: None,
            now: history.of(&Subject::Route(name.to_owned()), NOW_MS),
        }
    }
}
