//! The way of a request, from its head to its log line. Nothing else knows the order of the steps.
//!
//! parse (behind us) → **route → admit → recall → choose → forward → remember → respond → account**

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Instant;

use weir_http::{readings, target};

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
use crate::router::Found;
use crate::serving::Cached;
use crate::settings::{Action, Fallback, Forward, RouteLimits};
use crate::state::snapshot::RouteState;
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::upstream::choose::Chosen;
use crate::upstream::hedge::{self, Asked, How};
use crate::upstream::retry::Attempts;
use crate::upstream::{answer, linger, relay};
use crate::{respond, time};

/// Serves the request whose head was read into `x`.
pub(crate) async fn run(x: &mut Exchange, worker: &Rc<Worker>) -> After {
    let view = worker.view();
    x.timeouts = view.snapshot.timeouts;
    x.is_last = x.client.is_last();
    x.find_client(&view.snapshot.trusted_proxies);
    let after = match serve(x, worker, &view).await {
        Ok(after) => after,
        Err(failure) => answer_instead(x, worker, &view, failure).await,
    };
    account(x, worker, &view);
    after
}

async fn serve(x: &mut Exchange, worker: &Rc<Worker>, view: &Rc<View>) -> Result<After, Failure> {
    let route = &view.snapshot.routes[route(x, view)?].settings;
    admit(x, view, &route.limits)?;
    match &route.action {
        Action::Respond(fixed) => respond::fixed(x, worker, fixed).await,
        Action::Redirect(redirect) => respond::redirect(x, worker, view, redirect).await,
        Action::Forward(rule) => {
            if let Some(on) = cached(worker, view, rule) {
                return match recall(x, on, refresh).await? {
                    Recalled::Answered(after) => Ok(after),
                    Recalled::Ask(ask) => Box::pin(ask_and_remember(x, on, ask)).await,
                };
            }
            let (chosen, upstream) = forward(x, worker, view, rule).await?;
            invalidate(x, worker, view).await;
            answer::respond(x, worker, rule, &chosen, upstream).await
        }
    }
}

/// Finds the route. A path that is not in normal form is matched as what it stands for, and refused if another server could
/// take it for one of another route.
fn route(x: &mut Exchange, view: &View) -> Result<usize, Failure> {
    let path = x.request.target.path.of(&x.head);
    x.path_is_normal = target::is_normal(path);
    if !x.path_is_normal {
        let path = if path == b"*" || path.is_empty() {
            b"/"
        } else {
            path
        };
        target::normalize(path, &mut x.normal_path).map_err(Failure::Request)?;
    }
    let authority = x.request.authority.map(|span| span.of(&x.head));
    let method_name = x.request.method_name.of(&x.head);
    let router = &view.snapshot.router;
    let find = |path: &str| router.find(authority, path, x.request.method, method_name);
    let found = find(x.path());
    if !x.path_is_normal {
        let is_same = |read: &[u8]| std::str::from_utf8(read).is_ok_and(|read| find(read) == found);
        readings::agree(path, is_same).map_err(Failure::Request)?;
    }
    match found {
        Found::Route(route) => {
            x.facts.route = Some(route);
            Ok(route)
        }
        Found::MethodNotAllowed(_) => Err(Failure::MethodNotAllowed),
        Found::Nothing => Err(Failure::NoRoute),
    }
}

/// Refuses what the route does not take, and who asks too often.
fn admit(x: &mut Exchange, view: &View, limits: &RouteLimits) -> Result<(), Failure> {
    let rate_min = view.snapshot.body_rate;
    x.upload
        .admit(x.request.framing, limits.body_bytes, rate_min)?;
    care::rate::ask(x, view)
}

/// Gets a response head for the request, if the upstream may be asked now.
async fn forward(
    x: &mut Exchange,
    worker: &Worker,
    view: &Rc<View>,
    rule: &Forward,
) -> Result<(Chosen, relay::Upstream), Failure> {
    x.pass = care::enter(x, worker, view, rule).await?;
    // It may have waited: for its body, for a place, for another one's answer, for an upstream that has failed.
    let is_first = rule.cache.is_none() && x.facts.failure.is_none();
    let now = match (x.pass.since(), x.facts.started) {
        (Some(since), _) if is_first => since,
        (None, Some(started)) if is_first && !x.upload.was_collected() => started,
        _ => time::now(),
    };
    let asked = attempt(x, worker, view, rule, now).await;
    let mut pass = std::mem::take(&mut x.pass);
    pass.ended(x, &asked);
    let (chosen, mut upstream) = asked?;
    upstream.pass = pass;
    Ok((chosen, upstream))
}

/// Chooses an endpoint, asks it, and asks elsewhere while that is safe.
async fn attempt(
    x: &mut Exchange,
    worker: &Worker,
    view: &Rc<View>,
    rule: &Forward,
    mut now: Instant,
) -> Result<(Chosen, relay::Upstream), Failure> {
    relay::prepare(x, view, rule)?;
    // A request that waits for its upstream holds no buffer of its client's.
    x.client.input.release(&worker.buffers);
    let mut attempts = Attempts::new(x, worker, view, rule);
    loop {
        x.pass.leave_endpoint();
        let chosen = match attempts.choose(x, now) {
            Ok(chosen) => chosen,
            Err(failure) => return attempts.end(failure),
        };
        if x.upload.is_apart() {
            chosen.withdraw_probe();
        }
        let then = match relay::connect(x, rule, &chosen, attempts.wants_fresh()).await {
            Ok(upstream) => {
                attempts.let_go(x);
                let mut asked = Asked { chosen, upstream };
                match hedge::ask(x, &mut attempts, &mut asked).await {
                    How::Failed(Failure::ClientGone) => {
                        linger::begin(x, worker, asked, rule.timeouts.response);
                        return Err(Failure::ClientGone);
                    }
                    how => attempts.after_asking(x, asked, how),
                }
            }
            Err(failure) => attempts.after_connecting(failure, &chosen),
        };
        match then {
            ControlFlow::Break(end) => return end,
            ControlFlow::Continue(()) => match attempts.ready(x).await {
                Ok(()) => {}
                Err(failure @ Failure::Shed(_)) => return attempts.end(failure),
                Err(failure) => return Err(failure),
            },
        }
        now = time::now();
    }
}

/// Forwards a request by `rule`, which may be another one than its route's, and passes on what comes of it, past what is
/// stored.
async fn pass(
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    rule: &Forward,
) -> Result<After, Failure> {
    if let Some(on) = cached(worker, view, rule) {
        return ask_and_remember(x, on, Ask::Pass(None)).await;
    }
    let (chosen, upstream) = forward(x, worker, view, rule).await?;
    invalidate(x, worker, view).await;
    answer::respond(x, worker, rule, &chosen, upstream).await
}

/// A route without a cache may change what another one has stored.
async fn invalidate(x: &Exchange, worker: &Worker, view: &View) {
    if !x.request.method.is_safe()
        && let Some(cache) = worker.shared.cache()
        && cache::invalidate::may_concern(x, view)
    {
        Box::pin(cache::invalidate::after(x, view, cache)).await;
    }
}

/// The cache of a route that has one.
fn cached_of<'a>(
    worker: &'a Rc<Worker>,
    view: &'a Rc<View>,
    route: &'a RouteState,
) -> Option<Cached<'a>> {
    match &route.settings.action {
        Action::Forward(rule) => cached(worker, view, rule),
        Action::Redirect(_) | Action::Respond(_) => None,
    }
}

/// The route's cache, if it has one.
fn cached<'a>(worker: &'a Rc<Worker>, view: &'a Rc<View>, rule: &'a Forward) -> Option<Cached<'a>> {
    Some(Cached {
        worker,
        view,
        rule,
        policy: rule.cache.as_deref()?,
        cache: worker.shared.cache()?,
    })
}

/// Forwards a request that could not be answered from the cache, and has the cache take what comes of it.
async fn ask_and_remember(
    x: &mut Exchange,
    on: Cached<'_>,
    mut ask: Ask,
) -> Result<After, Failure> {
    // Nobody is to be answered with what others have.
    let mut may_look_again = !x.client.stream.is_nobody();
    loop {
        let others = ask.others(x).filter(|_| may_look_again);
        let ask_own = async |x: &mut Exchange| forward(x, on.worker, on.view, on.rule).await;
        let asked = match others {
            None => forward(x, on.worker, on.view, on.rule).await,
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
            Next::Respond(..) if x.client.stream.is_nobody() => return Ok(After::Abort),
            Next::Respond(chosen, upstream) => {
                return answer::respond(x, on.worker, on.rule, &chosen, upstream).await;
            }
            Next::AskAgain(other) => ask = other,
        }
        x.incoming.release(&on.worker.buffers);
    }
}

/// Answers a request that ended in `failure`. The failure stays in the log, beside the status that is sent.
async fn answer_instead(
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    failure: Failure,
) -> After {
    let failure = worker.meaning_of(failure);
    let route = x.facts.route.map(|route| &view.snapshot.routes[route]);
    let found = route.and_then(|route| Some((route, fallback::of(route)?)));
    let Some((route, fallback)) = found.filter(|(_, fallback)| fallback::is_for(fallback, failure))
    else {
        return respond::failure(x, worker, view, failure).await;
    };
    x.facts.failure = Some(failure);
    // A request that goes well does not carry the state of a second one.
    let instead = Box::pin(instead(x, worker, view, (route, fallback), failure)).await;
    match instead {
        Ok(after) => after,
        Err(failure) => respond::failure(x, worker, view, failure).await,
    }
}

/// The first answer that there is. The error is what the client is to be told when there is none: what went wrong first,
/// unless the client itself has left or failed since.
async fn instead(
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    (route, fallback): (&RouteState, &Fallback),
    failure: Failure,
) -> Result<After, Failure> {
    let is_over = |tried: &Result<After, Failure>| !matches!(tried, Err(failure) if worker.meaning_of(*failure).is_of_service());
    if fallback.stale
        && let Some(on) = cached_of(worker, view, route)
        && let Some(stored) = cache::fallback::find(x, on).await
    {
        let tried = cache::fallback::respond(x, on, &stored, failure).await;
        if is_over(&tried) {
            return fallback::count(x, view, FallbackKind::Stale, tried);
        }
    }
    if let Some(rule) = route.elsewhere.as_deref()
        && fallback::may_go_elsewhere(x, failure)
    {
        fallback::begin_again(x, worker);
        let tried = pass(x, worker, view, rule).await;
        if is_over(&tried) {
            return fallback::count(x, view, FallbackKind::Upstream, tried);
        }
    }
    let Some(fixed) = &fallback.answer else {
        return Err(failure);
    };
    let tried = respond::fixed(x, worker, fixed).await;
    fallback::count(x, view, FallbackKind::Fixed, tried)
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
        let _ = refresh_by(&mut asking, &worker, &view, ask).await;
        asking.reset(&worker.buffers);
    });
}

async fn refresh_by(
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    ask: Ask,
) -> Result<After, Failure> {
    let route = x.facts.route.ok_or(Failure::NoRoute)?;
    let on = cached_of(worker, view, &view.snapshot.routes[route]).ok_or(Failure::NoRoute)?;
    ask_and_remember(x, on, ask).await
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
