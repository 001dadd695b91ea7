//! What a request is served by.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use weir_cache::cache_status::Forwarded;
use weir_cache::collapse::Collapse;
use weir_cache::reuse::{self, OriginFailure};
use weir_cache::store::{Object, Share};
use weir_cache::{CachePolicy, RequestControl};
use weir_http::forward::Edits;

use crate::exchange::Exchange;
use crate::metrics::CacheMetrics;
use crate::settings::{Action, Forward};
use crate::state::fills::{Late, Remembered, Role, UNSHARED_FOR};
use crate::state::mirror::MirrorState;
use crate::state::snapshot::edited::Edited;
use crate::state::snapshot::{RouteState, UpstreamState};
use crate::state::split::OwnCare;
use crate::state::storage::Cache;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;

/// What a request is served by from its beginning to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serving<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    /// The configuration that it began under.
    pub(crate) view: &'a Rc<View>,
    pub(crate) route: &'a RouteState,
}

impl<'a> Serving<'a> {
    pub(crate) fn new(worker: &'a Rc<Worker>, view: &'a Rc<View>, route: usize) -> Self {
        let route = &view.snapshot.routes[route];
        Self {
            worker,
            view,
            route,
        }
    }

    /// Forwarding by the rule of the route; where it has several upstreams, to the one that `x` is for.
    pub(crate) fn by(self, x: &Exchange, rule: &'a Forward) -> Forwarding<'a> {
        let side = x.facts.side.zip(self.route.split.as_deref());
        let side = side.map(|(side, split)| &split.sides[side]);
        Forwarding {
            at: self,
            rule: side.map_or(rule, |side| &side.rule),
            asks: &self.route.asks,
            care: Some(side.map_or(&self.route.care, |side| &side.care)),
        }
    }

    /// Forwarding by another rule, which has no part in what is known of the route and its upstream.
    pub(crate) fn aside(self, rule: &'a Forward) -> Forwarding<'a> {
        Forwarding {
            at: self,
            rule,
            asks: &self.route.asks,
            care: None,
        }
    }

    /// What the head of an answer depends on.
    pub(crate) fn answering(self) -> (&'a Worker, &'a View) {
        (self.worker, self.view)
    }

    /// What is left out of the fields of its answers. [`Exchange::finish_head`] adds the others.
    pub(crate) fn drops(self) -> Edits<'a> {
        self.route.says.usual.drops()
    }

    /// Forwarding to the upstream of the route's fallback, if that names one, and another one than `x` was for.
    pub(crate) fn elsewhere(self, x: &Exchange) -> Option<Forwarding<'a>> {
        let rule = self.route.elsewhere.as_deref()?;
        let split = x.facts.side.zip(self.route.split.as_deref());
        let own = split.map(|(side, split)| split.sides[side].rule.upstream);
        (own != Some(rule.upstream)).then(|| self.aside(rule))
    }

    /// What the route's cache is asked by for `x`, if it has one.
    pub(crate) fn cached(self, x: &Exchange) -> Option<Cached<'a>> {
        match &self.route.settings.action {
            Action::Forward(rule) => self.by(x, rule).cached(),
            Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => None,
        }
    }
}

/// What a request is forwarded by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarding<'a> {
    at: Serving<'a>,
    pub(crate) rule: &'a Forward,
    /// What is changed of the request.
    pub(crate) asks: &'a Edited,
    /// What the route has of its own for this upstream. There is none for a fallback or a copy: what another upstream answers says
    /// nothing about the route's own.
    pub(crate) care: Option<&'a OwnCare>,
}

impl<'a> Forwarding<'a> {
    /// The same with other changes to the request.
    pub(crate) fn asking(self, asks: &'a Edited) -> Self {
        Self { asks, ..self }
    }

    pub(crate) fn upstream(&self) -> &'a UpstreamState {
        &self.view.snapshot.upstreams[self.rule.upstream]
    }

    /// Who gets copies of what is forwarded, if anybody does.
    pub(crate) fn mirror(&self) -> Option<&'a MirrorState> {
        self.care.and(self.route.mirror.as_deref())
    }

    /// What the cache is asked by, if the rule has one.
    pub(crate) fn cached(self) -> Option<Cached<'a>> {
        Some(Cached {
            policy: self.rule.cache.as_deref()?,
            cache: self.worker.shared.cache()?,
            by: self,
        })
    }
}

impl<'a> Deref for Forwarding<'a> {
    type Target = Serving<'a>;

    fn deref(&self) -> &Serving<'a> {
        &self.at
    }
}

/// What a request is forwarded by whose answers may be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cached<'a> {
    pub(crate) by: Forwarding<'a>,
    pub(crate) policy: &'a CachePolicy,
    pub(crate) cache: &'a Arc<Cache>,
}

impl<'a> Deref for Cached<'a> {
    type Target = Forwarding<'a>;

    fn deref(&self) -> &Forwarding<'a> {
        &self.by
    }
}

impl<'a> Cached<'a> {
    /// What this worker counts of the cache for the route.
    pub(crate) fn metrics(&self) -> &'a CacheMetrics {
        let route: &'a RouteState = self.route;
        route.metrics.of(self.worker.index).cache()
    }

    /// What the route may take of RAM.
    pub(crate) fn share(&self) -> Option<&'a Arc<Share>> {
        self.route.share.as_ref()
    }

    /// The time at which the request began.
    pub(crate) fn now(&self, x: &Exchange) -> weir_cache::Timestamp {
        let started = x.facts.started.unwrap_or_else(time::now);
        self.worker.clock.timestamp(started)
    }

    /// The time after something was waited for.
    pub(crate) fn time(&self) -> weir_cache::Timestamp {
        self.worker.clock.timestamp(time::now())
    }

    pub(crate) fn may_be_stale(
        &self,
        x: &Exchange,
        stale: &Object,
        failure: OriginFailure,
    ) -> bool {
        let control = RequestControl::of(x.request.view(&x.head));
        stale.stored_head().is_some_and(|head| {
            reuse::may_serve_on_failure(&head.meta, &control, self.policy, failure, self.time())
        })
    }

    /// Whether the request waits for another one or others for it, and of neither, when it must not be shared.
    /// One that is `late` is asked for in the place of another one.
    pub(crate) fn place(
        &self,
        x: &Exchange,
        control: &RequestControl,
        forwarded: Forwarded,
        collapse: Collapse,
        late: Option<Late>,
    ) -> Role {
        use weir_cache::control::Directive;
        if let Some(late) = late {
            return Role::Leads(self.cache.fills.instead_of(late, &x.recall.key));
        }
        let wants_own = self.policy.obeys_clients
            && (control.says.has(Directive::NoStore) || control.says.has(Directive::NoCache));
        let is_alone = wants_own
            || !collapse.may_join()
            || forwarded == Forwarded::Request
            || self.is_unshared(x)
            || x.request
                .view(&x.head)
                .has(weir_http::FieldName::Authorization);
        if is_alone {
            Role::Leads(self.cache.fills.alone(&x.recall.key))
        } else {
            self.cache.fills.enter(&x.recall.fill_key)
        }
    }

    /// Whether all of a response is asked for, so that it can be stored, and not what the client alone wants of it.
    pub(crate) fn asks_for_all(&self, x: &Exchange) -> bool {
        !self.is_unshared(x)
    }

    /// Whether the last answer to the key was not for others.
    pub(crate) fn is_unshared(&self, x: &Exchange) -> bool {
        let (key, now) = (&x.recall.key, self.time());
        let holds = |noted: &Remembered| noted.holds(key, now, UNSHARED_FOR);
        holds(&self.cache.unshared)
            || (self.sends_cookies(x) && holds(&self.cache.unshared_with_cookies))
    }

    /// Whether the origin is sent the client's cookies.
    pub(crate) fn sends_cookies(&self, x: &Exchange) -> bool {
        x.request.view(&x.head).has(weir_http::FieldName::Cookie)
            && self.rule.request_headers.keeps("cookie")
    }
}
