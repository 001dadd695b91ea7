//! What in a sound file is most likely not what was meant: told, and taken as it stands.

mod variables;

use weir_gateway::settings::{Action, Forward, HostPattern, Route, Settings, Upstream};
use weir_policy::limit::concurrency::Limit;
use weir_policy::limit::queue;

use super::{InProcess, InProcessService};

/// What to tell of the settings, each in a sentence.
pub(crate) fn of(settings: &Settings, services: &InProcess) -> Vec<String> {
    let mut notes = Vec::new();
    idle_queues(services, &mut notes);
    idle_store(services, &mut notes);
    idle_tables(services, &mut notes);
    deferred_reads(settings, services, &mut notes);
    lone_paths(&settings.routes, &mut notes);
    idle_upstreams(settings, &mut notes);
    short_queues(settings, &mut notes);
    trusted_clients(settings, &mut notes);
    variables::foreign(settings, &mut notes);
    variables::in_bodies(settings, &mut notes);
    variables::ids_without_a_log(settings, &mut notes);
    notes
}

/// Paths that end with a slash, which is a prefix to nginx, where nothing serves what is below them by name.
fn lone_paths(routes: &[Route], notes: &mut Vec<String>) {
    let is_lone = |route: &&Route| {
        let is_below = |other: &Route| {
            let has_host = other.host == route.host || other.host == HostPattern::Any;
            has_host && other.path.len() > route.path.len() && other.path.starts_with(&route.path)
        };
        route.path.ends_with('/') && !routes.iter().any(is_below)
    };
    for Route { name, path, .. } in routes.iter().filter(is_lone) {
        notes.push(format!(
            "the route {name:?} serves the path {path:?} alone, and nothing below it; for both write path = \"{path}{{*rest}}\""
        ));
    }
}

/// Queues that no request gets into, and out of which nothing is delivered.
fn idle_queues(services: &InProcess, notes: &mut Vec<String>) {
    let is_used = |name: &str| {
        let mut services = services.services.values();
        services.any(|service| {
            matches!(service, InProcessService::Defer(queue, _) | InProcessService::Log(queue) if queue == name)
        })
    };
    for name in services.queues.keys().filter(|name| !is_used(name)) {
        notes.push(format!(
            "no route defers to the queue {name:?}: what waits in it stays there; one does with defer = {name:?}"
        ));
    }
}

/// A store that nobody asks.
fn idle_store(services: &InProcess, notes: &mut Vec<String>) {
    let is_used = |service: &InProcessService| matches!(service, InProcessService::Kv);
    if services.kv.is_some() && !services.services.values().any(is_used) {
        notes.push("no route asks the store of [kv]; one does with kv = true".to_owned());
    }
}

/// Tables that nothing is kept in.
fn idle_tables(services: &InProcess, notes: &mut Vec<String>) {
    let is_used = |name: &str| {
        let mut services = services.services.values();
        services.any(|service| matches!(service, InProcessService::Collect(table) if table == name))
    };
    for name in services.tables.keys().filter(|name| !is_used(name)) {
        notes.push(format!(
            "no route collects into the table {name:?}; one does with collect = {{ table = {name:?} }}"
        ));
    }
}

/// Routes that defer requests whose answer is all that a client wants of them.
fn deferred_reads(settings: &Settings, services: &InProcess, notes: &mut Vec<String>) {
    let defers = |route: &&Route| match &route.action {
        Action::Serve(serve) => {
            let service = services.services.get(&serve.service);
            let has_reads = route.methods.as_ref();
            let has_reads = has_reads.is_none_or(|methods| methods.iter().any(|own| own == "GET"));
            matches!(service, Some(InProcessService::Defer(..))) && has_reads
        }
        _ => false,
    };
    for Route { name, .. } in settings.routes.iter().filter(defers) {
        notes.push(format!(
            "the route {name:?} defers GET too, whose answer is 202 then; methods = [\"POST\"] leaves it out"
        ));
    }
}

/// Upstreams that no request can reach.
fn idle_upstreams(settings: &Settings, notes: &mut Vec<String>) {
    if settings
        .admin
        .as_ref()
        .is_some_and(|admin| admin.guard_file.is_some())
    {
        // A posted app may name any.
        return;
    }
    let rules = settings
        .routes
        .iter()
        .filter_map(|route| route.action.rule());
    let used: Vec<usize> = rules.flat_map(Forward::upstreams).collect();
    let idle = settings.upstreams.iter().enumerate();
    for (_, upstream) in idle.filter(|(index, _)| !used.contains(index)) {
        let name = &upstream.name;
        notes.push(format!(
            "no route sends anything to the upstream {name:?}; one does with upstream = {name:?}"
        ));
    }
}

/// Queues that are longer on paper than they will ever be.
fn short_queues(settings: &Settings, notes: &mut Vec<String>) {
    for Upstream { name, care, .. } in &settings.upstreams {
        let Some(concurrency) = care.concurrency.filter(|_| !care.is_limited_per_endpoint) else {
            continue;
        };
        let waiters = concurrency.queue.waiters_max;
        if let Limit::Fixed(limit) = concurrency.limit
            && waiters != queue::Settings::default().waiters_max
            && waiters > limit.div_ceil(2) as usize
        {
            let half = limit.div_ceil(2);
            notes.push(format!(
                "upstream {name:?}: concurrency.queue is {waiters}, and no more than half of limit ever wait, which is {half}"
            ));
        }
    }
}

/// Networks that have everybody in them: then everybody says of himself who he is.
fn trusted_clients(settings: &Settings, notes: &mut Vec<String>) {
    let networks = settings.trusted_proxies.iter();
    for all in networks.filter(|network| network.prefix_len() == 0) {
        notes.push(format!(
            "trusted_proxies.networks has {all}, so every client chooses its own address in X-Forwarded-For, for the log, rate and \
             hash_on; name the proxies alone"
        ));
    }
}
