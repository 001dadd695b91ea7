//! The second copy of a request: an exchange of its own, whose client is nobody, as part of the task of the first.
//!
//! It tells its endpoint how it did, and holds a place in the upstream beside that of the request. Dropping it gives all
//! of that back. It never touches the exchange of the first before it has won.

use crate::connection::Client;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::outgoing::Told;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::state::gate::Place;
use crate::state::worker::Worker;
use crate::time;
use crate::upstream::chosen::Chosen;
use crate::upstream::hedge::{Asked, How};
use crate::upstream::relay::{self, Upstream};
use crate::upstream::retry::{Attempts, is_wanting};

/// The second copy, which is on its own.
pub(super) struct Second {
    chosen: Chosen,
    x: Box<Exchange>,
    /// In the upstream, beside that of the request.
    place: Option<Place>,
}

/// The second copy with a good answer.
pub(super) struct Won {
    chosen: Chosen,
    upstream: Upstream,
    x: Box<Exchange>,
    place: Option<Place>,
}

impl Second {
    /// Makes a copy of the request, unless something speaks against it.
    pub(super) fn begin(x: &Exchange, attempts: &mut Attempts<'_>, first: &Chosen) -> Option<Self> {
        if x.outgoing.told() != Told::Nothing {
            return None;
        }
        let by = attempts.by;
        let now = time::now();
        attempts.choice.note_asked(first);
        let (chosen, at) = attempts.choice.besides(by, now)?;
        let gate = by.upstream().gate.as_ref();
        let mut place = match gate {
            Some(gate) => Some(gate.enter_at_once(now)?),
            None => None,
        };
        if let (Some(place), Some(at)) = (&mut place, at) {
            place.stand_at(at);
        }
        if !attempts.spend(first) {
            return None;
        }
        attempts.has_hedged = true;
        attempts.choice.note_asked(&chosen);
        chosen.metrics().hedges.add(1);
        let nobody = Client::nobody(x.client.address, x.scheme(), &by.worker.deadlines);
        let mut own = Box::new(Exchange::new(nobody));
        own.request.method = x.request.method;
        own.request.version = x.request.version;
        own.timeouts = x.timeouts;
        own.forwarded.clone_from(&x.forwarded);
        Some(Self {
            chosen,
            x: own,
            place,
        })
    }

    /// `None` when no good answer comes of it.
    pub(super) async fn run(self, by: Forwarding<'_>) -> Option<Box<Won>> {
        let Self {
            chosen,
            mut x,
            place,
        } = self;
        let mut upstream = match relay::connect(&x, by, &chosen, false).await {
            Ok(upstream) => upstream,
            Err(failure) => {
                if failure != Failure::NoSocket {
                    chosen.refused(failure);
                }
                return None;
            }
        };
        let head = async {
            relay::send(&mut x, by, &mut upstream).await?;
            let mut never = Due::never();
            relay::head(&mut x, by, &mut upstream, &mut never).await
        };
        if let Err(failure) = head.await {
            chosen.asked_in_vain(failure, &upstream);
            return None;
        }
        if is_wanting(&x, by.rule) {
            chosen.answered(&mut x);
            return None;
        }
        Some(Box::new(Won {
            chosen,
            upstream,
            x,
            place,
        }))
    }
}

impl Won {
    /// The exchange goes on with this answer, and with who has given it in the place of `first`.
    pub(super) fn instead(self, first: &mut Asked, x: &mut Exchange, worker: &Worker) -> How {
        let Self {
            chosen,
            upstream,
            x: mut own,
            place,
        } = self;
        // The first one's place goes on with this one: it leaves its endpoint before the other place is for the next.
        let mut place = place;
        if let Some(at) = place.as_mut().and_then(Place::take_endpoint) {
            x.pass.stand_at(at);
        }
        drop(place);
        std::mem::swap(&mut x.incoming, &mut own.incoming);
        std::mem::swap(&mut x.response, &mut own.response);
        own.reset(&worker.buffers);
        chosen.metrics().hedges_won.add(1);
        chosen.answered(x);
        *first = Asked { chosen, upstream };
        How::Answered
    }
}
