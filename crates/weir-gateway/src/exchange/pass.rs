//! What a request holds that was let through to an upstream.

use std::time::{Duration, Instant};

use weir_policy::Outcome;

use crate::ended::{Ended, is_server_error};
use crate::exchange::Exchange;
use crate::exchange::ahead::Ahead;
use crate::failure::Failure;
use crate::state::breaker::Entered;
use crate::state::gate::{At, Place};
use crate::time;

/// When a client comes back that found no place. Nobody knows when there will be one, but a second is long for a queue.
pub(crate) const SHED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Leave to ask an upstream. The route's breaker is told how that ended once the head of the response is here; the place
/// is given back when all of the response has come, because until then the upstream is at work. A request that is no work
/// any more, because it waits for its client or has no end in sight, is set apart before.
///
/// It is moved with its request from hand to hand, so what it holds is boxed: where nobody was asked, there is nothing.
#[derive(Debug, Default)]
pub(crate) struct Pass(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    since: Instant,
    entered: Option<Entered>,
    place: Option<Place>,
    /// What the place says when all of the response has come. One that breaks off, or that its client leaves, says nothing:
    /// it may have been at work for as long as somebody listened.
    outcome: Outcome,
    has_left_place: bool,
    /// Whether it was set apart, so that how long it was held says nothing.
    was_apart: bool,
    /// The response that is read ahead of a slow client.
    ahead: Option<Ahead>,
}

impl Pass {
    pub(crate) fn new(since: Instant, entered: Option<Entered>, place: Option<Place>) -> Self {
        Self(Some(Box::new(Held {
            since,
            entered,
            place,
            outcome: Outcome::Ignored,
            has_left_place: false,
            was_apart: false,
            ahead: None,
        })))
    }

    /// Whether it has a place in the upstream.
    pub(crate) fn has_place(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.place.is_some())
    }

    /// When leave was given, if anybody was asked for it.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.as_ref().map(|held| held.since)
    }

    /// The upstream has answered, or has failed to.
    pub(crate) fn ended<T>(&mut self, x: &Exchange, asked: &Result<T, Failure>) {
        let Some(held) = &mut self.0 else { return };
        let (now, ended) = match asked {
            Ok(_) => (x.facts.answered_at, x.answered()),
            Err(failure) => (None, Ended::Failed(*failure)),
        };
        let now = now.unwrap_or_else(time::now);
        let latency = now.saturating_duration_since(held.since);
        if let Some(entered) = held.entered.take() {
            entered.report(now, ended, latency);
        }
        // Of a request that was repeated, part of the time it was taken for none of the upstream's doing.
        if !x.facts.was_repeated && !held.was_apart {
            held.outcome = ended.outcome(is_server_error, latency);
        }
    }

    /// The place is for the next, until another one is [taken](Pass::take): nothing is asked of the upstream meanwhile.
    /// Says whether there was one.
    pub(crate) fn give_place_back(&mut self) -> bool {
        let place = self.0.as_mut().and_then(|held| held.place.take());
        place.is_some()
    }

    /// Whether its place is for others, because the endpoint that it was at has been taken out.
    pub(crate) fn was_given_up(&self) -> bool {
        let place = self.0.as_ref().and_then(|held| held.place.as_ref());
        place.is_some_and(Place::was_given_up)
    }

    /// The place alone, for as long as the upstream is at work on what nobody waits for.
    pub(crate) fn leave_place(&mut self) -> Option<Place> {
        let held = self.0.as_mut()?;
        held.has_left_place = held.place.is_some();
        held.place.take()
    }

    /// Whether its place stays with what nobody waits for, so that it has none until it [takes](Pass::take) another.
    pub(crate) fn has_left_place(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.has_left_place)
    }

    /// Whether how long its place is taken says nothing of the upstream, because it has waited for the client.
    pub(crate) fn was_held_up(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|held| held.was_apart || held.outcome == Outcome::Ignored)
    }

    /// Whether it is no work for the upstream at present.
    pub(crate) fn is_apart(&self) -> bool {
        let place = self.0.as_ref().and_then(|held| held.place.as_ref());
        place.is_some_and(Place::is_apart)
    }

    /// The endpoint that it was at is not asked any more.
    pub(crate) fn leave_endpoint(&mut self) {
        if let Some(held) = &mut self.0
            && let Some(place) = &mut held.place
        {
            place.leave_endpoint();
        }
    }

    /// The request goes to an endpoint, which is counted as long as it has its place.
    pub(crate) fn stand_at(&mut self, at: At) {
        if let Some(held) = &mut self.0
            && let Some(place) = &mut held.place
        {
            place.stand_at(at);
        }
    }

    /// The upstream is asked again.
    pub(crate) fn take(&mut self, place: Place) {
        if let Some(held) = &mut self.0 {
            held.since = place.since();
            held.place = Some(place);
            held.has_left_place = false;
        }
    }

    /// The request is no work for the upstream at present. It is counted apart, and is no probe of a breaker.
    ///
    /// # Errors
    /// There is no room apart either, so that the request has to end.
    pub(crate) fn set_apart(&mut self) -> Result<(), Failure> {
        let Some(held) = &mut self.0 else {
            return Ok(());
        };
        held.was_apart = true;
        held.outcome = Outcome::Ignored;
        held.entered = None;
        held.place.as_mut().map_or(Ok(()), Place::set_apart)
    }

    /// It is work again.
    pub(crate) fn bring_back(&mut self) {
        let place = self.0.as_mut().and_then(|held| held.place.as_mut());
        if let Some(place) = place {
            place.bring_back();
        }
    }

    /// The response is read ahead of its client.
    pub(crate) fn read_ahead(&mut self, ahead: Ahead) {
        if let Some(held) = &mut self.0 {
            held.ahead = Some(ahead);
        }
    }

    /// How far it was, if it is.
    pub(crate) fn ahead(&mut self) -> Option<&mut Ahead> {
        self.0.as_mut()?.ahead.as_mut()
    }

    /// The response has to wait for its client. How long its place is taken says nothing any more about how fast the
    /// upstream is: clients that read slowly must not make an adaptive limit take it for slow.
    pub(crate) fn hold_up(&mut self) {
        if let Some(held) = &mut self.0 {
            held.outcome = Outcome::Ignored;
        }
    }

    /// All of the response is here: the upstream has done its part, whatever the client still has to read.
    pub(crate) fn finish(&mut self) {
        if let Some(held) = &mut self.0
            && let Some(mut place) = held.place.take()
        {
            place.will_say(held.outcome);
        }
    }
}

/// The request of `x` is no work for its upstream at present, see [`Pass::set_apart`].
pub(crate) fn set_apart(x: &mut Exchange, pass: &mut Pass) -> Result<(), Failure> {
    pass.set_apart()
        .inspect_err(|_| x.retry_after = Some(SHED_RETRY_AFTER))
}
