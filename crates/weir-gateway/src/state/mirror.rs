//! Copies of a route's requests to another upstream: how many there may be, and what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::metrics::{Counter, PerWorker};
use crate::settings::template::Template;
use crate::settings::{Action, Forward, Mirror, RequestId, Route, RouteCare};
use crate::state::carried::carried;
use crate::state::snapshot::edited::{self, Edited};

/// The copies of one route's requests.
#[derive(Debug)]
pub(crate) struct MirrorState {
    pub(crate) settings: Mirror,
    /// How a copy is forwarded.
    pub(crate) rule: Forward,
    /// What is changed of its fields.
    pub(crate) asks: Edited,
    /// What goes on under another configuration.
    pub(crate) known: Arc<Known>,
}

/// What is known of the copies of a route, as long as it is there.
#[derive(Debug)]
pub(crate) struct Known {
    in_flight: AtomicU32,
    pub(crate) metrics: PerWorker<MirrorMetrics>,
}

/// What becomes of a request that was to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// The copy was answered, with whatever status.
    Answered,
    /// It was refused by what protects the upstream, or failed there.
    Failed,
    /// It was not sent: too many are under way.
    Busy,
    /// It was not sent: its body was too large, or did not come whole.
    Body,
}

impl Copied {
    pub(crate) const ALL: [Self; 4] = [Self::Answered, Self::Failed, Self::Busy, Self::Body];

    /// The name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Busy => "dropped_busy",
            Self::Body => "dropped_body",
        }
    }
}

/// What one worker counts of the copies of one route.
#[derive(Debug, Default)]
pub(crate) struct MirrorMetrics([Counter; Copied::ALL.len()]);

impl MirrorMetrics {
    pub(crate) fn of(&self, copied: Copied) -> &Counter {
        &self.0[copied as usize]
    }
}

impl MirrorState {
    /// The mirror of `route`, if it has one.
    pub(crate) fn succeed(
        before: Option<&Self>,
        (route, id): (&Route, Option<&RequestId>),
        workers: usize,
    ) -> Option<Box<Self>> {
        let Action::Forward(rule) = &route.action else {
            return None;
        };
        let mirror = rule.mirror.as_deref()?;
        let rule = rule_of(rule, mirror);
        Some(Box::new(Self {
            asks: edited::asks(&rule.request_headers, id),
            rule,
            settings: mirror.clone(),
            known: carried(before.map(|before| &before.known), || Known {
                in_flight: AtomicU32::new(0),
                metrics: PerWorker::new(workers),
            }),
        }))
    }

    /// Room for one more copy, if there is.
    pub(crate) fn enter(&self) -> Option<InFlight> {
        let most = self.settings.in_flight;
        let in_flight = &self.known.in_flight;
        let entered = in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < most).then_some(count + 1)
        });
        entered.ok().map(|_| InFlight(Arc::clone(&self.known)))
    }
}

/// A copy that is under way. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Known>);

impl InFlight {
    /// Counts what became of it, on `worker`.
    pub(crate) fn ended(&self, worker: usize, copied: Copied) {
        self.0.metrics.of(worker).of(copied).add(1);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The rule of a copy: once, without cache or fallback, and marked.
fn rule_of(rule: &Forward, mirror: &Mirror) -> Forward {
    let mut rule = Forward {
        upstream: mirror.upstream,
        split: None,
        mirror: None,
        cache: None,
        compress: None,
        upgrade: Vec::new(),
        care: Box::<RouteCare>::default(),
        ..rule.clone()
    };
    let set = &mut rule.request_headers.set;
    set.retain(|(name, _)| name != Mirror::FIELD);
    set.push((Mirror::FIELD.to_owned(), Template::fixed("1")));
    rule
}
