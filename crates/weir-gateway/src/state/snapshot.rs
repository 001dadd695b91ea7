//! One configuration as the workers see it: immutable, shared, held by a request for its whole life.
//!
//! What is known about routes and endpoints outlives a configuration: it is kept in `Arc`s, and [`Snapshot::succeed`]
//! takes over those whose identity stays. Only that function decides this; workers find their own state (pools, loads)
//! by the same `Arc`s.

pub(crate) mod edited;
mod lines;
mod named;
mod routes;

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use weir_http::{HeadLimits, NamedFields};

pub(crate) use self::routes::RouteState;
use crate::names::Known;
use crate::router::Router;
use crate::settings::{
    AccessLog, ClientTimeouts, EndpointAddress, ErrorPages, RequestId, Server, ServerAddress,
    Settings, Upstream,
};
use crate::state::breaker::SharedBreaker;
use crate::state::budget::SharedBudget;
use crate::state::carried::carried;
use crate::state::endpoint::EndpointState;
use crate::state::gate::{Gate, Places};
use crate::state::listening::Listening;
use crate::state::log::LogLine;
use crate::state::opened::Opened;
use crate::state::snapshot::edited::Says;
use crate::state::sticky::{Homes, OwnCookies};
use crate::state::watch::Watch;

/// The data by which requests are decided.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Counts the configurations of this process, from 1.
    pub(crate) generation: u64,
    pub(crate) router: Router,
    pub(crate) routes: Vec<RouteState>,
    pub(crate) upstreams: Vec<UpstreamState>,
    /// Where connections are accepted.
    pub(crate) listeners: Vec<Arc<Listening>>,
    /// What clients read with errors, unless their route says otherwise.
    pub(crate) error_pages: ErrorPages,
    pub(crate) head_limits: HeadLimits,
    /// The fields of requests that any part of the configuration names.
    pub(crate) named_fields: NamedFields,
    pub(crate) own_cookies: OwnCookies,
    /// By what requests are known, if that is passed on.
    pub(crate) request_id: Option<RequestId>,
    /// What is said where there is no route.
    pub(crate) says: Says,
    pub(crate) log_line: Option<LogLine>,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) body_rate: u64,
    /// How lines of the access log look, and for how long they wait.
    pub(crate) access_log: Option<AccessLog>,
    /// Bytes of bodies held for slow clients, of all workers.
    pub(crate) held_body_bytes: u64,
    /// Idle upstream connections, of all workers.
    pub(crate) idle_connections: usize,
}

/// What was made for a configuration before it, because it can fail.
#[derive(Debug)]
pub(crate) struct Made<'a> {
    pub(crate) router: Router,
    pub(crate) names: &'a Known,
    pub(crate) listeners: Vec<Arc<Listening>>,
    pub(crate) services: &'a Opened,
}

/// An upstream and its endpoints.
#[derive(Debug)]
pub(crate) struct UpstreamState {
    pub(crate) settings: Upstream,
    pub(crate) endpoints: Vec<Endpoint>,
    /// The sum over all endpoints.
    pub(crate) weights: u64,
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) retry_budget: Arc<SharedBudget>,
    /// How clients come back to its endpoints, if they do.
    pub(crate) homes: Option<Box<Homes>>,
}

/// One destination for requests of an upstream: a server, or one of the addresses of a server's name.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The label in metrics, and the key for consistent hashing.
    pub(crate) label: String,
    pub(crate) address: EndpointAddress,
    pub(crate) weight: u32,
    /// Index into the upstream's servers.
    pub(crate) server: usize,
    pub(crate) breaker: Option<Arc<SharedBreaker>>,
    /// How many of its upstream's places are taken by requests to it, if there is a limit.
    pub(crate) places: Option<Arc<Places>>,
    pub(crate) state: Arc<EndpointState>,
}

impl Snapshot {
    /// The configuration that follows `before`, if there is one: what was known about routes and endpoints that stay is
    /// taken over.
    pub(crate) fn succeed(before: Option<&Self>, settings: &Settings, made: Made<'_>) -> Arc<Self> {
        let workers = settings.workers;
        let own_cookies = OwnCookies::of(settings);
        let upstream_before = |name: &str| {
            let mut all = before?.upstreams.iter();
            all.find(|upstream| upstream.settings.name == name)
        };
        let upstreams = settings.upstreams.iter().map(|upstream| {
            UpstreamState::succeed(
                upstream_before(&upstream.name),
                upstream,
                (made.names, &own_cookies),
                workers,
            )
        });
        let upstreams = upstreams.collect();
        Arc::new(Self {
            generation: before.map_or(1, |before| before.generation + 1),
            router: made.router,
            routes: routes::succeeding(before, settings, &own_cookies, made.services),
            upstreams,
            listeners: made.listeners,
            error_pages: settings.error_pages.clone(),
            head_limits: HeadLimits {
                bytes: settings.limits.header_bytes,
                fields: settings.limits.header_count.min(HeadLimits::FIELDS_CEILING),
            },
            named_fields: named::named_fields(settings),
            own_cookies,
            request_id: settings.all_routes.request_id.clone(),
            says: Says::of_none(&settings.all_routes),
            log_line: settings.access_log.as_ref().map(LogLine::new),
            timeouts: settings.timeouts,
            trusted_proxies: settings.trusted_proxies.clone(),
            body_rate: settings.limits.body_rate,
            access_log: settings.access_log.clone(),
            held_body_bytes: settings.limits.held_body_bytes,
            idle_connections: settings.limits.idle_connections,
        })
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let upstreams = self.upstreams.iter();
        upstreams.flat_map(|upstream| &upstream.endpoints)
    }

    /// Marks every endpoint of this configuration and of the one before: whether requests may still go there.
    pub(crate) fn mark_leaving(&self, before: &Self) {
        let staying: HashSet<_> = self.endpoints().map(|e| Arc::as_ptr(&e.state)).collect();
        for endpoint in before.endpoints() {
            if !staying.contains(&Arc::as_ptr(&endpoint.state)) {
                endpoint.state.leaves(true);
            }
        }
        for upstream in &self.upstreams {
            for endpoint in &upstream.endpoints {
                let is_draining = upstream.settings.servers[endpoint.server].is_draining;
                endpoint.state.leaves(is_draining);
            }
        }
    }
}

impl UpstreamState {
    /// The identity of an endpoint is its address, within the upstream of its name.
    fn succeed(
        before: Option<&Self>,
        settings: &Upstream,
        (names, own_cookies): (&Known, &OwnCookies),
        workers: usize,
    ) -> Self {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for (index, server) in settings.servers.iter().enumerate() {
            for (label, address) in addresses(server, names) {
                // Two names may share an address.
                if endpoints.iter().any(|other| other.address == address) {
                    continue;
                }
                let mut earlier = before.into_iter().flat_map(|before| &before.endpoints);
                let known = earlier.find(|endpoint| endpoint.address == address);
                let state = carried(known.map(|known| &known.state), || {
                    EndpointState::new(&settings.name, &label, workers)
                });
                endpoints.push(Endpoint {
                    label,
                    weight: server.weight,
                    server: index,
                    state,
                    breaker: SharedBreaker::succeed(
                        known.and_then(|known| known.breaker.as_ref()),
                        settings.care.breaker.as_ref(),
                    ),
                    places: known.and_then(|known| known.places.clone()),
                    address,
                });
            }
        }
        let gate = Gate::succeed(
            before.and_then(|before| before.gate.as_ref()),
            &settings.care,
            endpoints.len(),
        );
        for endpoint in &mut endpoints {
            endpoint.places = gate.as_ref().map(|gate| {
                let known = endpoint.places.take().filter(|places| places.are_of(gate));
                known.unwrap_or_else(|| Places::new(gate))
            });
        }
        let place_of = |endpoint: &Endpoint| {
            let mut earlier = before?.endpoints.iter();
            earlier.position(|known| known.address == endpoint.address)
        };
        let places: Vec<_> = endpoints.iter().map(place_of).collect();
        let homes = settings.sticky.as_deref();
        let homes = homes.map(|sticky| Homes::new(sticky, own_cookies, &settings.name, &endpoints));
        Self {
            gate,
            homes: homes.map(Box::new),
            watch: Watch::succeed(
                before.and_then(|before| before.watch.as_ref()),
                settings.care.ejection.as_ref(),
                &places,
            ),
            retry_budget: SharedBudget::succeed(
                before.map(|before| &before.retry_budget),
                settings.care.retry_budget,
            ),
            settings: settings.clone(),
            weights: endpoints
                .iter()
                .map(|endpoint| u64::from(endpoint.weight))
                .sum(),
            endpoints,
        }
    }
}

impl UpstreamState {
    /// Makes the changes that time alone causes, so that a silent endpoint is found even when no request asks.
    pub(crate) fn sweep(&self) {
        let is_up = |endpoint: &Endpoint| {
            let state = &endpoint.state;
            !state.is_leaving() && state.health.is_up()
        };
        let mut asked = self.endpoints.iter().filter(|it| is_up(it)).count();
        if let Some(watch) = &self.watch {
            watch.sweep(self.endpoints.iter().map(is_up), |endpoint, ejection| {
                let endpoint = &self.endpoints[endpoint];
                asked -= usize::from(is_up(endpoint));
                if let Some(places) = &endpoint.places {
                    places.give_up(ejection);
                }
            });
        }
        if let Some(gate) = &self.gate {
            // If no endpoint is well, all are in use.
            let all = self.endpoints.len();
            gate.follow(if asked == 0 { all } else { asked });
        }
    }
}

/// The endpoints of a server, by label.
fn addresses(server: &Server, names: &Known) -> Vec<(String, EndpointAddress)> {
    match &server.address {
        ServerAddress::Known(address) => vec![(server.label.clone(), address.clone())],
        ServerAddress::Name(host, port) => {
            let addresses = names.addresses(host).iter();
            let addresses = addresses.map(|&ip| std::net::SocketAddr::new(ip, *port));
            let labelled = addresses.map(|at| (at.to_string(), EndpointAddress::Tcp(at)));
            labelled.collect()
        }
    }
}
