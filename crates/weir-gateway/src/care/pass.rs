//! What a request holds that was let through to an upstream.

use std::time::Instant;

use weir_policy::Outcome;

use super::breaker::Entered;
use super::gate::Place;
use super::{Ended, is_server_error};
use crate::exchange::Exchange;
use crate::failure::Failure;

/// Leave to ask an upstream. The route's breaker is told how that ended once the head of the response is here; the place
/// is given back when all of the response has come, because until then the upstream is at work.
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
}

impl Pass {
    pub(crate) fn new(since: Instant, entered: Option<Entered>, place: Option<Place>) -> Self {
        Self(Some(Box::new(Held {
            since,
            entered,
            place,
            outcome: Outcome::Ignored,
        })))
    }

    /// When leave was given, if anybody was asked for it.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.as_ref().map(|held| held.since)
    }

    /// The upstream has answered, or has failed to.
    pub(crate) fn ended<T>(&mut self, x: &Exchange, asked: &Result<T, Failure>) {
        let Some(held) = &mut self.0 else { return };
        let (now, ended) = match asked {
            Ok(_) => (x.facts.answered_at, Ended::answered(x)),
            Err(failure) => (None, Ended::Failed(*failure)),
        };
        let now = now.unwrap_or_else(Instant::now);
        let latency = now.saturating_duration_since(held.since);
        if let Some(entered) = held.entered.take() {
            entered.report(now, ended, latency);
        }
        // Of a request that was repeated, part of the time it was taken for none of the upstream's doing.
        if !x.facts.was_repeated {
            held.outcome = ended.outcome(is_server_error, latency);
        }
    }

    /// The response has to wait for its client. How long its place is taken says nothing any more about how fast the
    /// upstream is: clients that read slowly must not make an adaptive limit take it for slow.
    pub(crate) fn is_held_up(&mut self) {
        if let Some(held) = &mut self.0 {
            held.outcome = Outcome::Ignored;
        }
    }

    /// All of the response is here: the upstream has done its part, whatever the client still has to read.
    pub(crate) fn is_over(&mut self) {
        if let Some(held) = self.0.take()
            && let Some(mut place) = held.place
        {
            place.will_say(held.outcome);
        }
    }
}
