//! The way of a request, from its head to its log line. Nothing else knows the order of the steps.
//!
//! parse (behind us) → **route → admit → recall → choose → forward → remember → respond → account**

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Instant;

use tokio::time::timeout_at;
use weir_http::{Method, readings};

use crate::account::account;
use crate::cache::lead::Ask;
use crate::cache::refresh::Refresh;
use crate::cache::relief::First;
use crate::cache::remember::{Next, remember};
use crate::cache::{self, Recalled, recall, recall_again};
use crate::care::{self, fallback};
use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::{Failure, FallbackKind};
use crate::router::{Found, RouteKey, Router};
use crate::serving::{Cached, Forwarding, Serving};
use crate::settings::{Action, Fallback};
use crate::state::mirror::Copied;
use crate::state::snapshot::RouteState;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::upstream::bring::{self, Brought};
use crate::upstream::hedge::{self, Asked, How};
use crate::upstream::mirror::{self, Duplicate};
use crate::upstream::retry::{Attempts, Slot};
use crate::upstream::{linger, passing, relay, split, sticky};
use crate::{cors, local, respond, time};

/// Serves the request whose head was read into `x`.
pub(crate) async fn run(x: &mut Exchange, worker: &Rc<Worker>) -> After {
    let view = worker.view();
    x.timeouts = view.snapshot.timeouts;
    x.is_last = x.client.is_last();
    x.find_client(&view.snapshot.trusted_proxies);
    if !view.snapshot.own_cookies.is_empty() {
        x.take_own_cookies(&view.snapshot.own_cookies);
    }
    if let Some(rule) = &view.snapshot.request_id {
        x.find_id(rule, &view.snapshot.trusted_proxies);
    }
    let after = match route(x, &view) {
        Ok(route) => {
            let at = Serving::new(worker, &view, route);
            match serve(x, at).await {
                Ok(after) => after,
                Err(failure) => answer_instead(x, at, failure).await,
            }
        }
        Err(failure) => respond::failure(x, worker, &view, failure).await,
    };
    account(x, worker, &view);
    after
}

async fn serve(x: &mut Exchange, at: Serving<'_>) -> Result<After, Failure> {
    if let Some(cors) = cors::rule(x, at) {
        return Box::pin(cors::answer(x, at, cors)).await;
    }
    admit(x, at)?;
    match &at.route.settings.action {
        Action::Respond(fixed) => {
            x.upload.discard(&mut x.client)?;
            respond::fixed(x, at, fixed).await
        }
        Action::Redirect(to) => {
            x.upload.discard(&mut x.client)?;
            respond::redirect(x, at, to).await
        }
        Action::Serve(serve) => Box::pin(local::serve(x, at, serve)).await,
        Action::Forward(rule) => {
            split::choose_side(x, at);
            let by = at.by(x, rule);
            forward(x, by).await
        }
    }
}

/// Answers from the cache, or asks the upstream and lets the cache take what comes of it; a route without one only asks.
async fn forward(x: &mut Exchange, by: Forwarding<'_>) -> Result<After, Failure> {
    mirror::draw(x, by);
    let Some(on) = by.cached() else {
        return pass_on(x, by).await;
    };
    match recall(x, on, refresh).await? {
        Recalled::Answered(after) => Ok(after),
        Recalled::Ask(ask) => Box::pin(ask_and_remember(x, on, ask)).await,
    }
}

/// Asks the upstream, and sends the client what it says.
async fn pass_on(x: &mut Exchange, by: Forwarding<'_>) -> Result<After, Failure> {
    let mut slot = None;
    fetch(x, by, &mut slot).await?;
    invalidate(x, by).await;
    passing::respond(x, by, &mut slot).await
}

/// Finds the route. A path that is not in normal form is matched as what it stands for, and refused if another server could
/// take it for one of another route.
fn route(x: &mut Exchange, view: &View) -> Result<usize, Failure> {
    x.normalize_path()?;
    let snapshot = &view.snapshot;
    tell_choice(x, &snapshot.router);
    let asked = x.route_key();
    let find = |path: &str| match cors::find(x, snapshot, path) {
        Some(route) => Found::Route(route),
        None => snapshot.router.find(&RouteKey { path, ..asked }),
    };
    let found = find(asked.path);
    if !x.path_is_normal {
        let sent = x.request.target.path.of(&x.head);
        let is_same = |read: &[u8]| std::str::from_utf8(read).is_ok_and(|read| find(read) == found);
        readings::agree(sent, is_same).map_err(Failure::Request)?;
    }
    match found {
        Found::Route(route) => {
            x.facts.route = Some(route);
            tell(x, &snapshot.routes[route]);
            Ok(route)
        }
        Found::MethodNotAllowed(allow) => {
            let method_name = allow.split(", ").next().unwrap_or_default().as_bytes();
            let method = Method::of(method_name).unwrap_or_default();
            let served = RouteKey {
                method,
                method_name,
                ..asked
            };
            // A page reads this as it would read what another method is answered.
            if let Found::Route(route) = snapshot.router.find(&served) {
                tell(x, &snapshot.routes[route]);
            }
            Err(Failure::MethodNotAllowed)
        }
        Found::Nothing => Err(Failure::NoRoute),
    }
}

/// Every answer, also one for which there is no route, says which fields had a say in that.
fn tell_choice(x: &mut Exchange, router: &Router) {
    if router.may_choose_by_fields() {
        let names = router.chosen_by(&x.route_key()).join(", ");
        if !names.is_empty() {
            x.outgoing.told_by_field(b"Vary", names.as_bytes());
        }
    }
}

/// Every answer says what the route says of all.
fn tell(x: &mut Exchange, route: &RouteState) {
    x.outgoing.told_by(&route.lines);
    if let Some(cors) = &route.settings.cors {
        cors::tell(x, cors);
    }
}

/// Refuses what goes round in circles, what the route does not take, and who asks too often.
fn admit(x: &mut Exchange, at: Serving<'_>) -> Result<(), Failure> {
    // Before it could wait for the answer that it is meant to bring.
    if at.worker.shared.via.is_in(&x.request, &x.head) {
        return Err(Failure::LoopDetected);
    }
    let limits = &at.route.settings.limits;
    let rate_min = at.view.snapshot.body_rate;
    x.upload
        .admit(x.request.framing, limits.body_bytes, rate_min)?;
    care::rate::ask(x, at)
}

/// Gets a response head for the request, if the upstream may be asked now. Who has answered is in the slot then.
async fn fetch(x: &mut Exchange, by: Forwarding<'_>, slot: &mut Slot) -> Result<(), Failure> {
    x.pass = care::enter(x, by).await?;
    // It may have waited: for its body, for a place, for another one's answer, for an upstream that has failed.
    let is_first = by.rule.cache.is_none() && x.facts.failure.is_none();
    let now = match (x.pass.since(), x.facts.started) {
        (Some(since), _) if is_first => since,
        (None, Some(started)) if is_first && !x.upload.was_collected() => started,
        _ => time::now(),
    };
    if x.facts.is_mirrored {
        mirror::copy(x, by, false).into_iter().for_each(shadow);
    }
    let asked = attempt(x, by, now, slot).await;
    if x.facts.is_mirrored {
        mirror::copy(x, by, true).into_iter().for_each(shadow);
    }
    sticky::note(x, by, asked.is_ok());
    let mut pass = std::mem::take(&mut x.pass);
    pass.ended(x, &asked);
    if let Some(asked) = slot {
        asked.upstream.pass = pass;
    }
    asked
}

/// The same where the answer goes from hand to hand.
async fn fetch_owned(x: &mut Exchange, by: Forwarding<'_>) -> Result<Asked, Failure> {
    let mut slot = None;
    fetch(x, by, &mut slot).await?;
    slot.ok_or(Failure::UpstreamClosed)
}

/// Chooses an endpoint, asks it, and asks elsewhere while that is safe.
async fn attempt(
    x: &mut Exchange,
    by: Forwarding<'_>,
    mut now: Instant,
    slot: &mut Slot,
) -> Result<(), Failure> {
    relay::prepare(x, by)?;
    // A request that waits for its upstream holds no buffer of its client's.
    x.client.link.release(&by.worker.buffers);
    let mut attempts = Attempts::new(x, by);
    loop {
        x.pass.leave_endpoint();
        let chosen = match attempts.choose(x, now) {
            Ok(chosen) => chosen,
            Err(failure) => return attempts.end(x, slot, failure),
        };
        if x.upload.is_apart() {
            chosen.withdraw_probe();
        }
        let then = match relay::connect(x, by, &chosen, attempts.wants_fresh()).await {
            Ok(upstream) => {
                attempts.let_go(x);
                let asked = slot.insert(Asked { chosen, upstream });
                x.facts.was_sent = true;
                let how = hedge::ask(x, &mut attempts, asked).await;
                if how == How::Failed(Failure::ClientGone) {
                    if let Some(asked) = slot.take() {
                        linger::begin(x, by.worker, asked, by.rule.timeouts.response);
                    }
                    return Err(Failure::ClientGone);
                }
                attempts.after_asking(x, slot, how)
            }
            Err(failure) => attempts.after_connecting(failure, &chosen, (x, slot)),
        };
        match then {
            ControlFlow::Break(end) => return end,
            ControlFlow::Continue(()) => match attempts.ready(x).await {
                Ok(()) => {}
                Err(failure @ Failure::Shed(_)) => return attempts.end(x, slot, failure),
                Err(failure) => return Err(failure),
            },
        }
        now = time::now();
    }
}

/// A route without a cache may change what another one has stored.
async fn invalidate(x: &Exchange, by: Forwarding<'_>) {
    if !x.request.method.is_safe()
        && let Some(cache) = by.worker.shared.cache()
        && cache::invalidate::may_concern(x, by.view)
    {
        Box::pin(cache::invalidate::after(x, by.view, cache)).await;
    }
}

/// Forwards a request that could not be answered from the cache, and has the cache take what comes of it.
async fn ask_and_remember(
    x: &mut Exchange,
    on: Cached<'_>,
    mut ask: Ask,
) -> Result<After, Failure> {
    // Nobody is to be answered with what others have.
    let mut may_look_again = !x.client.is_nobody();
    loop {
        let others = ask.others(x).filter(|_| may_look_again);
        let ask_own = async |x: &mut Exchange| fetch_owned(x, on.by).await;
        let asked = match others {
            None => fetch_owned(x, on.by).await,
            Some(others) => match others.ask(x, on, &ask, ask_own).await? {
                First::Own(asked) => *asked,
                First::Answered(after) => return Ok(after),
                First::LookAgain => {
                    may_look_again = false;
                    drop(ask);
                    match recall_again(x, on, refresh).await? {
                        Recalled::Answered(after) => return Ok(after),
                        Recalled::Ask(other) => ask = other,
                    }
                    continue;
                }
            },
        };
        match remember(x, on, ask, asked).await? {
            Next::Answered(after) => return Ok(after),
            // Nobody is to have it, and its body may have no end: the connection is dropped.
            Next::Respond(..) if x.client.is_nobody() => return Ok(After::Abort),
            Next::Respond(asked) => return passing::respond(x, on.by, &mut Some(asked)).await,
            Next::AskAgain(other) => ask = other,
        }
        x.incoming.release(&on.worker.buffers);
    }
}

/// Answers a request that ended in `failure`. The failure stays in the log, beside the status that is sent.
async fn answer_instead(x: &mut Exchange, at: Serving<'_>, failure: Failure) -> After {
    let failure = at.worker.meaning_of(failure);
    let Some(fallback) =
        fallback::of(at.route).filter(|fallback| fallback::is_for(fallback, failure))
    else {
        return respond::failure(x, at.worker, at.view, failure).await;
    };
    x.facts.failure = Some(failure);
    // A request that goes well does not carry the state of a second one.
    match Box::pin(instead(x, at, fallback, failure)).await {
        Ok(after) => after,
        Err(failure) => respond::failure(x, at.worker, at.view, failure).await,
    }
}

/// The first answer that there is. The error is what the client is to be told when there is none: what went wrong first,
/// unless the client itself has left or failed since.
async fn instead(
    x: &mut Exchange,
    at: Serving<'_>,
    fallback: &Fallback,
    failure: Failure,
) -> Result<After, Failure> {
    let is_over = |tried: &Result<After, Failure>| !matches!(tried, Err(failure) if at.worker.meaning_of(*failure).is_of_service());
    if fallback.stale
        && let Some(on) = at.cached(x)
        && let Some(stored) = cache::fallback::find(x, on).await
    {
        let tried = cache::fallback::respond(x, on, &stored, failure).await;
        if is_over(&tried) {
            return fallback::count(x, at, FallbackKind::Stale, tried);
        }
    }
    if let Some(by) = at.elsewhere(x)
        && fallback::may_go_elsewhere(x, failure)
    {
        fallback::begin_again(x, at.worker);
        let tried = match by.cached() {
            // It is not answered with what is stored.
            Some(on) => ask_and_remember(x, on, Ask::Pass(None)).await,
            None => pass_on(x, by).await,
        };
        if is_over(&tried) {
            return fallback::count(x, at, FallbackKind::Upstream, tried);
        }
    }
    let Some(fixed) = &fallback.answer else {
        return Err(failure);
    };
    let tried = respond::fixed(x, at, fixed).await;
    fallback::count(x, at, FallbackKind::Fixed, tried)
}

/// Asks again for what is still used, with a client that is nobody: in a task of its own, which appears in no log and waits for
/// nobody. How it ends is told to those who wait, and shows in what is stored.
fn refresh(refresh: Box<Refresh>) {
    tokio::task::spawn_local(async move {
        let Refresh {
            mut asking,
            worker,
            view,
            ask,
        } = *refresh;
        if let Some(route) = asking.facts.route
            && let Some(on) = Serving::new(&worker, &view, route).cached(&asking)
        {
            let _ = ask_and_remember(&mut asking, on, ask).await;
        }
        asking.reset(&worker.buffers);
    });
}

/// Sends a copy of a request, in a task of its own that nobody waits for.
fn shadow(copy: Box<Duplicate>) {
    tokio::task::spawn_local(async move {
        let mut copy = *copy;
        let (worker, view) = (Rc::clone(&copy.worker), Rc::clone(&copy.view));
        let at = Serving::new(&worker, &view, copy.route);
        let Some(by) = at.route.mirror.as_deref() else {
            return;
        };
        let bounds = mirror::bounds(by);
        let brought = run_errand(
            &mut copy.asking,
            at.aside(&by.rule).asking(&by.asks),
            bounds,
        )
        .await;
        let copied = brought.map_or(Copied::Failed, |_| Copied::Answered);
        copy.in_flight.ended(worker.index, copied);
        copy.asking.reset(&worker.buffers);
    });
}

/// Makes a request for a service: asks its upstream as for a client, who is nobody, and keeps what it says. There is no cache
/// to ask, and no fallback: what others say is no answer to it.
pub(crate) async fn run_errand(
    x: &mut Exchange,
    by: Forwarding<'_>,
    bounds: bring::Bounds,
) -> Result<Brought, Failure> {
    let fetch = fetch_owned(x, by);
    let asked = match timeout_at(bounds.until.into(), fetch).await {
        Ok(asked) => asked?,
        Err(_) => return Err(Failure::ResponseTimeout),
    };
    // What a copy has changed, it has changed elsewhere.
    if by.care.is_some() {
        invalidate(x, by).await;
    }
    Ok(bring::answer(x, by, asked, bounds).await)
}

/// Answers a request whose head could not be read, and accounts for it.
pub(crate) async fn refuse(x: &mut Exchange, worker: &Rc<Worker>, failure: Failure) -> After {
    let view = worker.view();
    x.has_head = false;
    x.timeouts = view.snapshot.timeouts;
    let after = respond::failure(x, worker, &view, failure).await;
    account(x, worker, &view);
    after
}
