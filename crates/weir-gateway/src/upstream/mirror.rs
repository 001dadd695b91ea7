//! Copies of requests to another upstream, whose answers nobody gets: to see how a new version does under the load of the old one.
//!
//! What is copied is what is forwarded, so the other upstream has the load of the first: nothing that a cache has answered or a
//! limit has refused, and each request once, however often it is tried. A copy is a request of its own, of a client who is nobody, on
//! connections, limits and breakers of the other upstream. Nothing waits for it: it is made of what is here anyway, and where it does
//! not fit, it is dropped and counted. A request that is a copy itself is not copied again, so no circle of gateways goes on.

use std::rc::Rc;
use std::time::Duration;

use weir_http::body::Framing;
use weir_http::kept;

use crate::connection::Client;
use crate::deadline::TICK;
use crate::exchange::Exchange;
use crate::serving::Forwarding;
use crate::settings::Mirror;
use crate::state::mirror::{Copied, InFlight, MirrorState};
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;
use crate::upstream::bring::Bounds;
use crate::upstream::relay::passes_upgrade;

/// An answer that goes on beyond this is cut off with its connection.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// What a copy has beyond its time until it is broken off, see `errands.rs`.
const SLACK: Duration = Duration::from_millis(3 * TICK.as_millis() as u64);

/// A copy that is to be sent.
pub(crate) struct Duplicate {
    pub(crate) asking: Exchange,
    pub(crate) worker: Rc<Worker>,
    pub(crate) view: Rc<View>,
    /// By whose mirror.
    pub(crate) route: usize,
    pub(crate) in_flight: InFlight,
}

/// How long a copy may take that begins now, and how much of its answer is read.
pub(crate) fn bounds(mirror: &MirrorState) -> Bounds {
    Bounds {
        bytes_max: ANSWER_BYTES_MAX,
        is_kept: false,
        until: time::now() + mirror.rule.timeouts.response + SLACK,
    }
}

/// Draws whether the request is to be copied once it is forwarded. If so, its body is copied as it comes.
pub(crate) fn draw(x: &mut Exchange, by: Forwarding<'_>) {
    let Some(MirrorState { settings, .. }) = by.mirror() else {
        return;
    };
    let method = x.request.method_name.of(&x.head);
    let is_meant = settings.methods.iter().any(|own| own.as_bytes() == method)
        && x.request.field(&x.head, Mirror::FIELD).is_none()
        && !passes_upgrade(x, by.rule)
        && by.worker.random.borrow_mut().f64() < settings.share;
    if !is_meant {
        return;
    }
    x.facts.is_mirrored = true;
    let framing = x.request.framing;
    if framing != Framing::Empty {
        let claim = by.worker.claim();
        x.upload.record(framing, settings.body_bytes, claim);
    }
}

/// Makes the copy of a request that is being forwarded, if it is to have one and all of it is here. It may be later: then it is
/// asked for again, the `last` time when the upstream has been asked.
pub(crate) fn copy(x: &mut Exchange, by: Forwarding<'_>, is_last: bool) -> Option<Box<Duplicate>> {
    let mirror = by.mirror()?;
    let route = x.facts.route?;
    let framing = x.request.framing;
    let ended = |copied| mirror.known.metrics.of(by.worker.index).of(copied).add(1);
    let Some((body, claim)) = x.upload.take_recorded(framing) else {
        if is_last {
            x.facts.is_mirrored = false;
            ended(Copied::Body);
        }
        return None;
    };
    x.facts.is_mirrored = false;
    let Some(in_flight) = mirror.enter() else {
        ended(Copied::Busy);
        return None;
    };
    let mut head = Vec::new();
    kept::write(
        &x.request,
        &x.head,
        x.forwarded_path(),
        body.len(),
        &mut head,
    );
    let nobody = Client::nobody(x.client.address, x.scheme(), &by.worker.deadlines);
    let mut asking = Exchange::new(nobody);
    let claim = claim.unwrap_or_else(|| by.worker.claim());
    if !asking.take_kept(&head, body, claim) || asking.normalize_path().is_err() {
        ended(Copied::Body);
        return None;
    }
    asking.timeouts = x.timeouts;
    asking.facts.route = Some(route);
    asking.client_is_as_in(x);
    asking.id_is_as_in(x, by.view, by.worker);
    Some(Box::new(Duplicate {
        asking,
        worker: Rc::clone(by.worker),
        view: Rc::clone(by.view),
        route,
        in_flight,
    }))
}
