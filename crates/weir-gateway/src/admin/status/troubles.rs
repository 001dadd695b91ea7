//! What is wrong now, in sentences: what an operator who was woken up reads first.
//!
//! Now is the last ten seconds. What clients suffer from comes first, then what is wrong behind that nobody feels yet.

use serde::Serialize;
use weir_policy::limit::concurrency::Refusal;

use crate::admin::history::tally::Tally;
use crate::admin::status::routes::RouteStatus;
use crate::admin::status::shown::{Tone, percent, span};
use crate::admin::status::{EndpointStatus, Status, UpstreamStatus};
use crate::failure::{Failure, Fault};
use crate::service::{ConsumerStatus, DatabaseStatus, QueueStatus, StoreStanding, StoreStatus};

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Trouble {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// From this share of a route's requests on, its clients suffer.
const SHARE_BAD: f64 = 0.01;
/// More than this many sentences are read by nobody.
const TROUBLES_MAX: usize = 20;

impl Trouble {
    fn new(tone: Tone, text: String) -> Self {
        Self { tone, text }
    }
}

/// The worst first.
pub(super) fn of(status: &Status<'_>) -> Vec<Trouble> {
    let stuck = status.stuck.iter().map(|stuck| {
        let (worker, time) = (stuck.worker, span(stuck.for_ms));
        let text = format!("worker {worker} has not turned for {time}: its clients wait");
        Trouble::new(Tone::Bad, text)
    });
    let mut all: Vec<_> = stuck.collect();
    for route in &status.routes {
        let upstreams = status.upstreams.iter();
        let upstream = upstreams
            .clone()
            .find(|upstream| route.upstreams.first() == Some(&upstream.name));
        all.extend(of_route(route, upstream));
    }
    all.extend(status.upstreams.iter().flat_map(of_upstream));
    all.extend(status.queues.iter().flat_map(of_queue));
    all.extend(status.store.iter().flat_map(of_store));
    all.extend(status.databases.iter().filter_map(of_database));
    all.sort_by_key(|trouble| trouble.tone);
    all.truncate(TROUBLES_MAX);
    all
}

/// What a queue does not take or deliver, and what it has given up.
fn of_queue(queue: &QueueStatus) -> Vec<Trouble> {
    let name = &queue.name;
    let mut all = Vec::new();
    if let Some(why) = &queue.failed {
        let text = format!("queue {name} takes nothing: {why}");
        all.push(Trouble::new(Tone::Bad, text));
    }
    let does = ("delivers nothing", "deliveries to an upstream fail");
    all.extend(of_consumer(&format!("queue {name}"), does, &queue.upstream));
    for sink in &queue.sinks {
        let does = ("writes nothing", "writing fails");
        let name = format!("sink {name}/{}", sink.name);
        all.extend(of_consumer(&name, does, &sink.consumer));
    }
    all
}

/// A database that was away when weir started, and still is.
fn of_database(database: &DatabaseStatus) -> Option<Trouble> {
    let why = database.why.as_ref().filter(|_| !database.is_reached)?;
    let text = format!(
        "{} answers nothing until its database is there: {why}",
        database.of
    );
    Some(Trouble::new(Tone::Bad, text))
}

/// A disk that takes nothing, nodes that do not answer or have another map, what holds up a change of them, and what a repair could not see to.
fn of_store(store: &StoreStatus) -> Vec<Trouble> {
    let failing = store.failing.iter().map(|why| {
        let text = format!("store: this node writes nothing: {why}");
        Trouble::new(Tone::Bad, text)
    });
    let mut troubles: Vec<Trouble> = failing.collect();
    if store.standing == StoreStanding::Behind {
        let text = "store: this node has an older map than the others, and does nothing for clients: let it leave with --gone, and join again with an empty directory";
        troubles.push(Trouble::new(Tone::Bad, text.to_owned()));
    } else {
        troubles.extend(of_nodes(store));
    }
    let change = store.change.as_ref();
    if let Some(change) = change.filter(|change| !change.trouble.is_empty()) {
        let (epoch, why) = (change.epoch, &change.trouble);
        let text = format!("store: the change to epoch {epoch} is held up: {why}");
        troubles.push(Trouble::new(Tone::Warn, text));
    }
    let missing = store
        .repair
        .as_ref()
        .and_then(|repair| repair.missing.as_ref());
    if let Some(node) = missing {
        let text = format!("store: the last repair is not whole, since {node} did not answer");
        troubles.push(Trouble::new(Tone::Warn, text));
    }
    troubles
}

/// Nodes that do nothing of what they are asked.
fn of_nodes(store: &StoreStatus) -> Vec<Trouble> {
    let (all, replicas) = (store.nodes.len(), store.replicas);
    let missing: Vec<_> = store.nodes.iter().filter(|node| !node.is_up).collect();
    // With more of them, some slot has too few of its replicas.
    let is_bad = missing.len() >= replicas.div_ceil(2);
    let tone = if is_bad { Tone::Bad } else { Tone::Warn };
    let down = missing.iter().filter(|node| node.apart.is_none());
    let down: Vec<&str> = down.map(|node| node.address.as_str()).collect();
    let mut troubles = Vec::new();
    if !down.is_empty() {
        let (does, it) = match down.len() {
            1 => ("does", "it misses is kept for it"),
            _ => ("do", "they miss is kept for them"),
        };
        let then = if is_bad {
            "a part of the keys can be neither read nor written".to_owned()
        } else {
            format!("what {it}")
        };
        let (count, list) = (down.len(), down.join(", "));
        let text = format!("store: {count} of {all} nodes {does} not answer, {list}; {then}");
        troubles.push(Trouble::new(tone, text));
    }
    let apart = missing.iter().filter_map(|node| {
        let (address, why) = (&node.address, node.apart.as_ref()?);
        let text = format!("store: {address} is there, and counts as down: {why}");
        Some(Trouble::new(tone, text))
    });
    troubles.extend(apart);
    troubles
}

fn of_consumer(
    name: &str,
    (does_nothing, fails): (&str, &str),
    consumer: &ConsumerStatus,
) -> Vec<Trouble> {
    let oldest = consumer.oldest_ms.map(span).unwrap_or_default();
    let waiting = match consumer.waiting {
        1 => format!("1 message waits, for {oldest}"),
        count => format!("{count} messages wait, the oldest for {oldest}"),
    };
    let mut all = Vec::new();
    if let Some(why) = &consumer.stopped {
        let text = format!("{name} {does_nothing}: {why}; {waiting}");
        all.push(Trouble::new(Tone::Bad, text));
    } else if consumer.is_paused {
        let text = format!("{name} is paused; {waiting}");
        all.push(Trouble::new(Tone::Warn, text));
    } else if consumer.is_ill && consumer.waiting > 0 {
        let error = consumer.last_error.as_deref().unwrap_or("unknown");
        let text = format!("{name}: {fails}, {error}; {waiting}");
        all.push(Trouble::new(Tone::Warn, text));
    }
    if consumer.dead > 0 {
        let noun = if consumer.dead == 1 {
            "letter"
        } else {
            "letters"
        };
        let text = format!("{name} has {} dead {noun}", consumer.dead);
        all.push(Trouble::new(Tone::Warn, text));
    }
    all
}

/// What its clients were refused, and what failed.
fn of_route(route: &RouteStatus<'_>, upstream: Option<&UpstreamStatus<'_>>) -> Vec<Trouble> {
    let Some(now) = &route.now else {
        return Vec::new();
    };
    let requests = now.requests();
    if requests == 0 {
        return Vec::new();
    }
    let tone = |count: u64| {
        let share = count as f64 / requests as f64;
        if share < SHARE_BAD {
            Tone::Warn
        } else {
            Tone::Bad
        }
    };
    let mut all = Vec::new();
    let refused = now.refused();
    if let Some(why) = most(now, Failure::is_turned_away) {
        let cause = cause(why, route, upstream);
        let text = format!(
            "route {}: {} refused, {}: {cause}{}",
            route.route,
            share_of(refused, requests),
            why.name(),
            instead(now.fallbacks(), refused),
        );
        // A rate was set to refuse, and clients are not to be let through because of it.
        let is_meant = why == Failure::RateLimited;
        let tone = if is_meant { Tone::Warn } else { tone(refused) };
        all.push(Trouble::new(tone, text));
    }
    let failed = now.failed();
    if failed > 0 {
        let is_failure = |failure: Failure| {
            failure.fault() != Fault::Client && !failure.is_turned_away() && failure.status() >= 500
        };
        let cause = match most(now, is_failure) {
            Some(why) => format!("{}: {}", why.name(), cause(why, route, upstream)),
            None => answered(upstream),
        };
        let share = share_of(failed, requests);
        let text = format!("route {}: {share} failed, {cause}", route.route);
        all.push(Trouble::new(tone(failed), text));
    }
    all
}

/// The most frequent failure of a kind.
fn most(now: &Tally, is_it: impl Fn(Failure) -> bool) -> Option<Failure> {
    let failures = now.failures().into_iter();
    let failures = failures.filter(|(failure, _)| is_it(*failure));
    failures
        .max_by_key(|(_, count)| *count)
        .map(|(failure, _)| failure)
}

/// `37 % of the requests`, or `1 of 2 requests` where a share would say more than is known.
fn share_of(count: u64, requests: u64) -> String {
    if requests < 20 {
        format!("{count} of {requests} requests")
    } else {
        format!(
            "{} of the requests",
            percent(count as f64 / requests as f64)
        )
    }
}

fn instead(fallbacks: u64, refused: u64) -> &'static str {
    match fallbacks {
        0 => "",
        _ if fallbacks >= refused => "; the fallback answers",
        _ => "; the fallback answers some",
    }
}

/// What the operator is to look at.
fn cause(why: Failure, route: &RouteStatus<'_>, upstream: Option<&UpstreamStatus<'_>>) -> String {
    let name = upstream.map_or("its service", |upstream| upstream.name);
    let limit = upstream.and_then(|upstream| upstream.concurrency.as_ref());
    let full = || match limit {
        Some(limit) => format!("upstream {name} is at its limit of {}", limit.limit),
        None => format!("upstream {name} is at its limit"),
    };
    match why {
        Failure::RateLimited => "clients ask more often than its rate allows".to_owned(),
        Failure::BreakerOpen => breaker(route, name),
        Failure::Shed(Refusal::QueueFull) => full(),
        Failure::Shed(Refusal::WaitedTooLong) => {
            format!("{}, and who waits for a place waits too long", full())
        }
        Failure::Shed(Refusal::Displaced) => format!("{}, and newer requests go first", full()),
        Failure::Shed(Refusal::Outranked) => format!("{}, and higher priorities go first", full()),
        Failure::Shed(Refusal::StreamsFull) => {
            format!("upstream {name} has all the streams that it may have")
        }
        Failure::NoRoom => "the bodies of requests take all the memory that they may".to_owned(),
        Failure::NoEndpoint => format!("every endpoint of upstream {name} is drained"),
        Failure::ConnectFailed => format!("no endpoint of upstream {name} takes a connection"),
        Failure::ConnectTimeout => format!("upstream {name} accepts no connection in time"),
        Failure::NoSocket => "no socket, port or memory is left for a connection".to_owned(),
        Failure::UpstreamClosed => format!("upstream {name} closes connections before it answers"),
        Failure::ResponseTimeout => format!("upstream {name} does not answer in time"),
        Failure::Response(_) => format!("what upstream {name} answers is no valid HTTP"),
        Failure::ResponseCut => format!("upstream {name} breaks off its answers"),
        Failure::StoreFailed => {
            "what the cache has stored is damaged, or its disk does not answer".to_owned()
        }
        Failure::LoopDetected => format!("upstream {name} leads back to this gateway"),
        Failure::ServiceFailed => "its service has no answer".to_owned(),
        Failure::ServiceTimeout => "its service does not answer in time".to_owned(),
        Failure::ShutDown => "the time for draining was over".to_owned(),
        Failure::Request(_)
        | Failure::HeadTimeout
        | Failure::BodyTimeout
        | Failure::BodyTooLarge
        | Failure::ClientGone
        | Failure::NoRoute
        | Failure::MethodNotAllowed
        | Failure::OnlyIfCached => "clients are to blame".to_owned(),
    }
}

/// The breaker of the route, or else those of the endpoints.
fn breaker(route: &RouteStatus<'_>, upstream: &str) -> String {
    let mut breakers = route.breakers.iter();
    match breakers.find(|breaker| !breaker.is_closed()) {
        None => format!("the breakers of the endpoints of upstream {upstream} were open"),
        Some(breaker) => {
            let why = breaker.shown.why.as_deref();
            let why = why.map(|why| format!(" and {why}"));
            let word = &breaker.shown.word;
            let side = breaker.upstream.as_deref();
            let side = side.map_or_else(String::new, |name| format!(" for upstream {name}"));
            format!("its breaker{side} is {word}{}", why.unwrap_or_default())
        }
    }
}

/// Who answers 5xx.
fn answered(upstream: Option<&UpstreamStatus<'_>>) -> String {
    let Some(upstream) = upstream else {
        return "it is what the route answers".to_owned();
    };
    let errors =
        |endpoint: &&EndpointStatus<'_>| endpoint.now.as_ref().map_or(0, Tally::server_errors);
    let endpoints = upstream.endpoints.iter();
    let all: u64 = endpoints.clone().map(|endpoint| errors(&endpoint)).sum();
    let name = upstream.name;
    match endpoints.max_by_key(errors) {
        Some(worst)
            if upstream.endpoints.len() > 1 && errors(&worst) * 10 >= all * 9 && all > 0 =>
        {
            format!("answered with 5xx by {} of upstream {name}", worst.endpoint)
        }
        _ => format!("answered with 5xx by upstream {name}"),
    }
}

/// Endpoints that are not used, and those that answer badly though nobody feels it.
fn of_upstream(upstream: &UpstreamStatus<'_>) -> Vec<Trouble> {
    let name = upstream.name;
    let (all, endpoints) = (upstream.endpoints.len(), upstream.endpoints.iter());
    let is_up = |endpoint: &&EndpointStatus<'_>| endpoint.shown.tone != Tone::Bad;
    let up = endpoints.clone().filter(is_up).count();
    let mut troubles = Vec::new();
    if up == 0 && all > 1 {
        let text = format!("upstream {name}: none of its {all} endpoints is well");
        troubles.push(Trouble::new(Tone::Bad, text));
    }
    if upstream
        .ejection
        .as_ref()
        .is_some_and(|ejection| ejection.suspended)
    {
        let text = format!("upstream {name}: so many endpoints look bad that all are used");
        troubles.push(Trouble::new(Tone::Warn, text));
    }
    for endpoint in endpoints {
        let shown = &endpoint.shown;
        if shown.tone == Tone::Good && all > 1 {
            troubles.extend(bad_answers(name, endpoint));
        }
        if !matches!(shown.tone, Tone::Bad | Tone::Warn) {
            continue;
        }
        let rest = match (all, up) {
            (1, _) | (_, 0) => String::new(),
            _ => format!("; {up} of {all} endpoints serve"),
        };
        let why = shown.why.as_deref().unwrap_or_default();
        let text = format!(
            "upstream {name}: {} is {}, {why}{rest}",
            endpoint.endpoint, shown.word
        );
        let tone = if up == 0 { shown.tone } else { Tone::Warn };
        troubles.push(Trouble::new(tone, text));
    }
    troubles
}

/// An endpoint that is used, and answers with 5xx more often than not: retries may hide it.
fn bad_answers(upstream: &str, endpoint: &EndpointStatus<'_>) -> Option<Trouble> {
    let now = endpoint.now.as_ref()?;
    let (errors, all) = (now.server_errors(), now.requests());
    if errors * 2 <= all {
        return None;
    }
    let (label, share) = (endpoint.endpoint, share_of(errors, all));
    let text = format!("upstream {upstream}: {label} answers 5xx to {share}");
    Some(Trouble::new(Tone::Warn, text))
}
