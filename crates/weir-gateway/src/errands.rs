//! Errands of services: each is a request of its own, whose client is nobody.
//!
//! This is where the tasks of errands begin. An errand goes the way of a request from where the upstream is asked, and appears in no
//! access log. It is done by a route that the configuration of now has: durable records name routes and upstreams, and outlive
//! many configurations.

use std::rc::Rc;
use std::time::Duration;

use weir_http::variable::is_same_variable;

use crate::connection::{AddressText, Client};
use crate::deadline::TICK;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::router::Found;
use crate::service::{Answered, Errand, Outcome, Parcel, Parcels, Unanswered};
use crate::serving::Serving;
use crate::settings::template::Template;
use crate::settings::{Action, Forward, HeaderEdits};
use crate::state::snapshot::edited;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::upstream::bring::Bounds;
use crate::{story, time};

/// The most that is kept of an answer's content, whatever an errand says.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest that an errand may take, whatever it says.
const WITHIN_MAX: Duration = Duration::from_secs(24 * 3600);
/// What an errand has beyond its time until it is broken off: its deadline is noticed up to two ticks late, and what it waits
/// for ends by itself then.
const SLACK: Duration = Duration::from_millis(3 * TICK.as_millis() as u64);

/// Begins with every errand that comes.
pub(crate) async fn receive(mut parcels: Parcels, worker: Rc<Worker>) {
    while let Some(parcel) = parcels.recv().await {
        let worker = Rc::clone(&worker);
        tokio::task::spawn_local(async move { run(parcel, &worker).await });
    }
}

async fn run(mut parcel: Parcel, worker: &Rc<Worker>) {
    if !parcel.begin() {
        return;
    }
    let body = std::mem::take(&mut parcel.errand.body);
    let address = AddressText::new(parcel.errand.peer);
    let mut x = Exchange::new(Client::nobody(
        address,
        parcel.errand.scheme,
        &worker.deadlines,
    ));
    x.client_is(parcel.errand.client);
    let is_sound = x.take_kept(&parcel.errand.head, body, worker.claim())
        && parcel.errand.has_sound_fields()
        && x.normalize_path().is_ok();
    let outcome = if is_sound {
        deliver(&mut x, worker, &parcel.errand).await
    } else {
        unanswered("malformed_errand", true, &x)
    };
    x.reset(&worker.buffers);
    parcel.end(outcome);
}

/// Makes the request, by the route that has it delivered.
async fn deliver(x: &mut Exchange, worker: &Rc<Worker>, errand: &Errand) -> Outcome {
    let view = worker.view();
    x.timeouts = view.snapshot.timeouts;
    let Some((route, rule)) = route_of(x, &view, errand) else {
        return unanswered(Failure::NoRoute.name(), true, x);
    };
    x.facts.route = Some(route);
    let within = errand.within.min(WITHIN_MAX);
    let rule = rule_of(errand, rule, within);
    let at = Serving::new(worker, &view, route);
    let bounds = Bounds {
        bytes_max: errand.answer_bytes_max.min(ANSWER_BYTES_MAX),
        is_kept: true,
        until: time::now() + within + SLACK,
    };
    let asks = edited::asks(&rule.request_headers, view.snapshot.request_id.as_ref());
    let by = at.by(x, &rule).asking(&asks);
    match story::run_errand(x, by, bounds).await {
        Ok(brought) => Outcome::Answered(Answered {
            status: brought.status,
            lines: brought.lines,
            body: brought.body,
            is_whole: brought.is_whole,
        }),
        Err(failure) => {
            let failure = worker.meaning_of(failure);
            if worker.is_cut_off() {
                worker.shared.cut_off.request();
            }
            unanswered(failure.name(), !x.facts.was_sent, x)
        }
    }
}

/// How it is delivered: its own fields take the place of all others of their names, and whoever does not answer in its time has
/// failed.
fn rule_of(errand: &Errand, rule: &Forward, within: Duration) -> Forward {
    let mut rule = rule.clone();
    let is_own = |name: &str| {
        let mut own = errand.fields.iter();
        own.any(|(own, _)| is_same_variable(own.as_bytes(), name.as_bytes()))
    };
    let HeaderEdits { set, add, .. } = &mut rule.request_headers;
    set.retain(|(name, _)| !is_own(name));
    add.retain(|(name, _)| !is_own(name));
    let own = errand.fields.iter();
    set.extend(own.map(|(name, value)| (name.clone(), Template::fixed(value))));
    rule.timeouts.response = rule.timeouts.response.min(within);
    rule
}

fn unanswered(why: &'static str, is_unheard: bool, x: &Exchange) -> Outcome {
    Outcome::Unanswered(Unanswered {
        why,
        is_unheard,
        retry_after: x.retry_after,
    })
}

/// The route that has requests delivered to the upstream of the errand: of those with the name that it came by the one that would
/// take it now, or another of that name, or any.
fn route_of<'v>(x: &Exchange, view: &'v View, errand: &Errand) -> Option<(usize, &'v Forward)> {
    let snapshot = &view.snapshot;
    let delivery = |route: usize| {
        let Action::Serve(serve) = &snapshot.routes[route].settings.action else {
            return None;
        };
        let rule = serve.delivery.as_deref()?;
        let upstream = &snapshot.upstreams[rule.upstream].settings.name;
        (**upstream == *errand.upstream).then_some((route, rule))
    };
    let is_named =
        |&(route, _): &(usize, _)| *snapshot.routes[route].settings.name == *errand.route;
    let found = snapshot.router.find(&x.route_key());
    let by_request = match found {
        Found::Route(route) => delivery(route).filter(is_named),
        Found::MethodNotAllowed(_) | Found::Nothing => None,
    };
    let all = || (0..snapshot.routes.len()).filter_map(delivery);
    by_request
        .or_else(|| all().find(is_named))
        .or_else(|| all().next())
}
