//! Choosing an endpoint. In which order of preference they are asked is weir-policy's to say (`balance/preference.rs`); here is
//! what is known of them, and what is taken of the one that is found. Whether another one is asked after it is `retry.rs`'s
//! to say.

use std::time::Instant;

use weir_policy::balance::preference::{
    Candidate, Declined, Known, Nobody, Purpose, Search, Standing,
};
use weir_policy::balance::{Method as BalanceMethod, Pick, hash_key};
use weir_policy::ejection::Ejection;
use weir_policy::limit::concurrency::Refusal;

use crate::exchange::Exchange;
use crate::exchange::pass::SHED_RETRY_AFTER;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::state::breaker::Entered;
use crate::state::gate::At;
use crate::state::health::Leave;
use crate::upstream::chosen::{Chosen, Reporters, Which};
use crate::upstream::part::part;
use crate::upstream::room::Room;
use crate::upstream::sticky;

/// Which endpoints of its upstream one request is for.
#[derive(Debug)]
pub(super) struct Choice {
    upstream: usize,
    hash: u64,
    /// The endpoint that its client comes back to.
    home: Option<usize>,
    /// What is asked for, as far as endpoints are compared by it.
    kind: u64,
    /// Endpoints that could not be connected to.
    unreachable: Vec<usize>,
    /// Endpoints that have seen the request: others go before them.
    asked: Vec<usize>,
}

impl Choice {
    pub(super) fn new(x: &Exchange, by: Forwarding<'_>) -> Self {
        let state = by.upstream();
        let settings = &state.settings;
        let is_hashed = settings.balance == BalanceMethod::Hash;
        let hash = if is_hashed {
            hash_key(part(x, &settings.hash_on).unwrap_or_default())
        } else {
            0
        };
        let is_watched = state.watch.is_some();
        let path = || hash_key(x.request.target.path.of(&x.head));
        // Reading and writing the same are not alike.
        let method = || hash_key(&[x.request.method as u8]);
        Self {
            upstream: by.rule.upstream,
            hash,
            home: sticky::home(x, by),
            kind: if is_watched {
                path().wrapping_add(method()).wrapping_add(hash)
            } else {
                0
            },
            unreachable: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The endpoint to ask next.
    pub(super) fn next(
        &self,
        x: &mut Exchange,
        by: Forwarding<'_>,
        now: Instant,
    ) -> Result<Chosen, Failure> {
        let found = self.find(by, now, (Purpose::Request, x.pass.is_apart()));
        let (chosen, at) = found.map_err(|nobody| match nobody {
            Nobody::Full => {
                x.retry_after = Some(SHED_RETRY_AFTER);
                Failure::Shed(Refusal::QueueFull)
            }
            Nobody::Open(after) => {
                x.retry_after = Some(after);
                Failure::BreakerOpen
            }
            Nobody::Left if self.unreachable.is_empty() => Failure::NoEndpoint,
            Nobody::Left => Failure::ConnectFailed,
        })?;
        if let Some(at) = at {
            x.pass.stand_at(at);
        }
        Ok(chosen)
    }

    /// An endpoint to ask besides, if there is another one that is well.
    pub(super) fn besides(&self, by: Forwarding<'_>, now: Instant) -> Option<(Chosen, Option<At>)> {
        self.find(by, now, (Purpose::Copy, false)).ok()
    }

    /// No connection stood to this endpoint. Says whether there are others.
    pub(super) fn note_unreachable(&mut self, chosen: &Chosen) -> bool {
        self.unreachable.push(chosen.endpoint);
        self.unreachable.len() < chosen.siblings()
    }

    /// This endpoint has seen the request.
    pub(super) fn note_asked(&mut self, chosen: &Chosen) {
        self.asked.push(chosen.endpoint);
    }

    fn find(
        &self,
        by: Forwarding<'_>,
        now: Instant,
        (purpose, is_apart): (Purpose, bool),
    ) -> Result<(Chosen, Option<At>), Nobody> {
        let upstream = &by.view.snapshot.upstreams[self.upstream];
        let watch = upstream.watch.as_ref();
        let mut watched = watch.map(|watch| watch.look());
        let now = watched.as_ref().map_or(now, |watched| watched.looked);
        let mut balancer = by.view.upstreams[self.upstream].balancer.borrow_mut();
        let random = &mut *by.worker.random.borrow_mut();
        let observed = Observed {
            choice: self,
            by,
            ejection: watched.as_ref().map(|watched| &watched.ejection),
            room: Room::new(upstream, is_apart),
            now,
            now_ms: by.worker.deadlines.now_ms(),
            draw: random.f64(),
        };
        let mut pick = Pick {
            now,
            random,
            hash: self.hash,
        };
        let mut search = Search::new(purpose, &self.asked).at_home(self.home);
        let (endpoint, taken) = loop {
            let candidate = search.next(&mut balancer, &mut pick, &observed)?;
            match observed.take(candidate) {
                Ok(taken) => break (candidate.endpoint, taken),
                Err(why) => search.decline(candidate.endpoint, why),
            }
        };
        let watching = watch
            .zip(watched.as_mut())
            .map(|(watch, watched)| watched.start(watch, endpoint, self.kind, now));
        drop((watched, balancer));
        let which = Which {
            upstream: self.upstream,
            endpoint,
            kind: self.kind,
        };
        let told = Reporters::of(taken.entered, watching);
        Ok((
            Chosen::new(by.view, which, taken.leave, now, told),
            taken.at,
        ))
    }
}

/// What is known of the endpoints at the moment of a choice.
struct Observed<'a> {
    choice: &'a Choice,
    by: Forwarding<'a>,
    ejection: Option<&'a Ejection>,
    room: Room<'a>,
    now: Instant,
    now_ms: u64,
    /// Between 0 and 1: who is let back in by degrees admits the request below its share.
    draw: f64,
}

/// What a request takes of the endpoint that it asks.
struct Taken {
    at: Option<At>,
    leave: Leave,
    entered: Option<Entered>,
}

impl Known for Observed<'_> {
    fn standing(&self, endpoint: usize) -> Standing {
        if self.choice.unreachable.contains(&endpoint) {
            return Standing::Unreachable;
        }
        let upstream = &self.by.view.upstreams[self.choice.upstream];
        let state = &upstream.endpoints[endpoint].state;
        if state.is_leaving() {
            return Standing::Leaving;
        }
        let admits = |ejection: &Ejection| ejection.admits(endpoint, self.now, self.draw);
        match state.health.standing(self.now_ms) {
            Standing::Well if !self.ejection.is_none_or(admits) => Standing::StandsOut,
            standing => standing,
        }
    }

    fn is_trusted(&self, endpoint: usize) -> bool {
        let upstream = &self.by.view.upstreams[self.choice.upstream];
        upstream.endpoints[endpoint].state.health.is_trusted()
    }

    fn has_room(&self, endpoint: usize) -> bool {
        self.room.is_at(endpoint)
    }

    fn is_room_fixed(&self) -> bool {
        self.room.is_fixed()
    }

    fn is_from_before(&self) -> bool {
        !self.by.worker.is_current(self.by.view)
    }
}

impl Observed<'_> {
    /// Takes what the endpoint has to give. Its place is given back when it declines.
    fn take(&self, candidate: Candidate) -> Result<Taken, Declined> {
        let Candidate { endpoint, is_well } = candidate;
        let at = self.room.take(endpoint).ok_or(Declined::Full)?;
        let upstream = &self.by.view.snapshot.upstreams[self.choice.upstream];
        let endpoint = &upstream.endpoints[endpoint];
        let leave = if is_well {
            let attempt = self.by.rule.timeouts.connect;
            let leave = endpoint.state.health.leave(self.now_ms, attempt);
            leave.ok_or(Declined::Tried)?
        } else {
            Leave::Usual
        };
        let breaker = endpoint.breaker.as_ref();
        let entered = breaker.map(|breaker| breaker.enter(self.now)).transpose();
        let entered = entered.map_err(|refused| Declined::Open(refused.retry_after))?;
        Ok(Taken { at, leave, entered })
    }
}
