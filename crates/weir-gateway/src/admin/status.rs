//! The state of the gateway as one JSON object: what the dashboard shows, and scripts may read.
//!
//! Counts are since the start, and `minute` has those of the last one. What is wrong now stands in `troubles`, in words.
//!
//! - [`troubles`]: what is wrong, [`shown`]: how a state is called
//! - [`routes`], [`minute`], [`care`], [`cache`]: the parts

mod cache;
mod care;
mod minute;
mod routes;
mod shown;
mod troubles;

use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::{Serialize, Serializer};

use crate::admin::history::tally::Tally;
use crate::admin::history::{History, MINUTE_MS, NOW_MS, Subject};
use crate::admin::status::cache::CacheTotals;
use crate::admin::status::care::{BreakerStatus, Checks, Concurrency, EjectionStatus, Position};
use crate::admin::status::minute::{EndpointMinute, Minute, RouteMinute};
use crate::admin::status::routes::RouteStatus;
use crate::admin::status::shown::Shown;
use crate::admin::status::troubles::Trouble;
use crate::metrics::{self, CLASSES, LATENCY_BOUNDS_US};
use crate::service::{DatabaseStatus, Inside, QueueStatus, StoreStatus};
use crate::state::health::{Refusal, errno_name};
use crate::state::shared::Shared;
use crate::state::snapshot::{Endpoint, Snapshot, UpstreamState};
use crate::time;

/// All of it. Counts are since the start.
#[derive(Debug, Serialize)]
pub(super) struct Status<'s> {
    /// The process.
    pid: u32,
    uptime_ms: u64,
    /// Clients that are connected now.
    connections: usize,
    workers: usize,
    stuck: Vec<Stuck>,
    /// What is wrong now, the worst first.
    troubles: Vec<Trouble>,
    minute: Minute,
    /// The sum of `responses`.
    requests: u64,
    /// Answers to clients, from `1xx` to `5xx`.
    responses: NamedCounts,
    latency_bounds_us: [u64; LATENCY_BOUNDS_US.len()],
    routes: Vec<RouteStatus<'s>>,
    /// Requests that no route takes.
    unrouted: Option<RouteMinute>,
    upstreams: Vec<UpstreamStatus<'s>>,
    transient: TransientStatus,
    cache: Option<CacheTotals>,
    queues: Vec<QueueStatus>,
    /// `None` where no route has one.
    store: Option<StoreStatus>,
    /// Those of the store and of tables of activities.
    databases: Vec<DatabaseStatus>,
}

/// A worker that has not turned for two seconds: it serves nobody.
#[derive(Debug, Serialize)]
struct Stuck {
    worker: usize,
    for_ms: u64,
}

#[derive(Debug, Serialize)]
struct UpstreamStatus<'s> {
    name: &'s str,
    /// `None`: it takes any number of requests.
    concurrency: Option<Concurrency>,
    /// `None`: its endpoints are not compared.
    ejection: Option<EjectionStatus>,
    endpoints: Vec<EndpointStatus<'s>>,
}

#[derive(Debug, Serialize)]
struct EndpointStatus<'s> {
    endpoint: &'s str,
    /// False when its checks say so, and from the moment that it refused a connection until one stands.
    up: bool,
    shown: Shown,
    /// `None`: the last connection that was tried stood.
    refused: Option<Refused>,
    /// `None`: it was not checked yet.
    check: Option<Checks>,
    /// `None`: it is not compared with others.
    place: Option<Position>,
    breaker: Option<BreakerStatus>,
    /// The sum of `responses`.
    requests: u64,
    /// Its own answers.
    responses: NamedCounts,
    /// Connections to it that did not stand.
    failures: u64,
    /// Connections that are kept to it now.
    idle: u64,
    /// Requests on their way, tunnels included.
    in_flight: u64,
    /// `None`: it is not followed, or not yet.
    minute: Option<EndpointMinute>,
    #[serde(skip)]
    now: Option<Tally>,
    /// For each of `latency_bounds_us` the responses that took at most so long and more than the bound before, and then
    /// those that took longer than all.
    latency_counts: [u64; LATENCY_BOUNDS_US.len() + 1],
}

/// How an endpoint refused a connection.
#[derive(Debug, Serialize)]
struct Refused {
    error: String,
    ago_ms: u64,
    /// `None`: the next request tries it.
    remaining_ms: Option<u64>,
}

impl Refused {
    fn of(refusal: Refusal) -> Self {
        Self {
            error: errno_name(refusal.errno)
                .map_or_else(|| refusal.errno.to_string(), str::to_owned),
            ago_ms: refusal.ago_ms,
            remaining_ms: Some(refusal.wait_ms).filter(|&ms| ms > 0),
        }
    }
}

/// What is held for clients and not stored, how much may be, and how many clients were cut off for that.
#[derive(Debug, Serialize)]
struct TransientStatus {
    bytes: u64,
    bytes_max: u64,
    cut: u64,
}

/// An object with a count under each name, in this order.
#[derive(Debug)]
struct NamedCounts(Vec<(&'static str, u64)>);

impl Serialize for NamedCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'s> Status<'s> {
    /// The state under `snapshot`, which is the current one.
    pub(super) fn read(
        shared: &Shared,
        snapshot: &'s Snapshot,
        history: &History,
        inside: Inside,
    ) -> Self {
        let uptime_ms = shared.since_start().as_millis() as u64;
        let mut status = Self::read_at(shared, snapshot, history, uptime_ms);
        status.queues = inside.queues;
        status.store = inside.store;
        status.databases = inside.databases;
        status.troubles = troubles::of(&status);
        status
    }

    fn read_at(shared: &Shared, snapshot: &'s Snapshot, history: &History, uptime_ms: u64) -> Self {
        let now = time::now();
        let workers = shared.metrics.iter();
        let responses = metrics::added(workers.map(|worker| worker.responses.counts()));
        let stuck = shared.stuck();
        let slow = &shared.slow;
        let upstreams = snapshot.upstreams.iter();
        Self {
            pid: std::process::id(),
            uptime_ms,
            connections: shared.admission.open(),
            workers: shared.metrics.len(),
            stuck: stuck
                .map(|(worker, for_ms)| Stuck { worker, for_ms })
                .collect(),
            troubles: Vec::new(),
            minute: Minute::read(history),
            requests: responses.iter().sum(),
            responses: by_class(responses),
            latency_bounds_us: LATENCY_BOUNDS_US,
            routes: routes::read(snapshot, history, now),
            unrouted: history
                .of(&Subject::Unrouted, MINUTE_MS)
                .map(|tally| RouteMinute::of(&tally, false)),
            upstreams: upstreams
                .map(|upstream| UpstreamStatus::read(upstream, history, uptime_ms, now))
                .collect(),
            transient: TransientStatus {
                bytes: slow.transient.bytes(),
                bytes_max: slow.transient.bytes_max(),
                cut: slow.cut.load(Ordering::Relaxed),
            },
            cache: shared
                .cache()
                .map(|cache| CacheTotals::read(shared, snapshot, cache)),
            queues: Vec::new(),
            store: None,
            databases: Vec::new(),
        }
    }
}

impl<'s> UpstreamStatus<'s> {
    fn read(upstream: &'s UpstreamState, history: &History, uptime_ms: u64, now: Instant) -> Self {
        let places = 0..upstream.endpoints.len();
        Self {
            name: &upstream.settings.name,
            concurrency: upstream
                .gate
                .as_deref()
                .map(|gate| Concurrency::read(gate, now)),
            ejection: upstream.watch.as_deref().map(EjectionStatus::read),
            endpoints: places
                .map(|place| EndpointStatus::read(upstream, place, history, (uptime_ms, now)))
                .collect(),
        }
    }
}

impl<'s> EndpointStatus<'s> {
    fn read(
        upstream: &'s UpstreamState,
        place: usize,
        history: &History,
        (uptime_ms, now): (u64, Instant),
    ) -> Self {
        let endpoint: &Endpoint = &upstream.endpoints[place];
        let tables = &endpoint.state.metrics;
        let responses = metrics::added(tables.iter().map(|table| table.responses.counts()));
        let breaker = endpoint.breaker.as_deref();
        let watch = upstream.watch.as_deref();
        let subject = Subject::Endpoint {
            upstream: upstream.settings.name.clone(),
            endpoint: endpoint.label.clone(),
        };
        let minute = history.of(&subject, MINUTE_MS);
        let mut read = Self {
            endpoint: &endpoint.label,
            up: endpoint.state.health.is_up(),
            shown: Shown::good("up"),
            refused: endpoint.state.health.refusal(uptime_ms).map(Refused::of),
            check: Checks::read(&endpoint.state),
            place: watch.map(|watch| Position::read(watch, place, now)),
            breaker: breaker.map(|breaker| BreakerStatus::read(breaker, now)),
            requests: responses.iter().sum(),
            responses: by_class(responses),
            failures: tables.sum(|table| &table.connect_failures),
            idle: tables.sum(|table| &table.idle),
            in_flight: tables.sum(|table| &table.in_flight),
            minute: minute.as_ref().map(EndpointMinute::of),
            now: history.of(&subject, NOW_MS),
            latency_counts: metrics::added(tables.iter().map(|table| table.latency.counts())),
        };
        let is_draining = endpoint.state.is_leaving();
        read.shown = Shown::of_endpoint(&read, is_draining);
        read
    }
}

fn by_class(counts: [u64; CLASSES.len()]) -> NamedCounts {
    NamedCounts(CLASSES.into_iter().zip(counts).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use weir_cache::store::Transient;
    use weir_policy::balance::Method;

    use super::*;
    use crate::names::Known;
    use crate::router::Router;
    use crate::settings::{
        AllRoutes, ClientTimeouts, Dns, EndpointAddress, ErrorPages, HashOn, Limits, Messages,
        Server, ServerAddress, Settings, Upstream, UpstreamCare,
    };
    use crate::state::admission::Admission;
    use crate::state::health::Leave;
    use crate::state::opened::Opened;
    use crate::state::slow::SlowClients;
    use crate::state::snapshot::{Made, Snapshot};

    /// Two workers and one upstream, whose name needs an escape, with a server for each of `ports`.
    fn shared(ports: &[u16]) -> Shared {
        let server = |&port: &u16| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            Server {
                label: address.to_string(),
                address: ServerAddress::Known(EndpointAddress::Tcp(address)),
                weight: 1,
                is_draining: false,
            }
        };
        let limits = Limits::default();
        let admission = Admission::new(&limits, &[]);
        let upstream = Upstream {
            name: "\"app\"".to_owned(),
            servers: ports.iter().map(server).collect(),
            balance: Method::RoundRobin,
            hash_on: HashOn::Host,
            sticky: None,
            idle_connections: 1,
            idle_timeout: Duration::from_secs(1),
            care: UpstreamCare::default(),
        };
        let settings = Settings {
            workers: 2,
            listeners: Vec::new(),
            admin: None,
            messages: Messages::default(),
            access_log: None,
            cache: None,
            trusted_proxies: Vec::new(),
            dns: Dns::default(),
            error_pages: ErrorPages::default(),
            limits,
            timeouts: ClientTimeouts::default(),
            all_routes: AllRoutes::default(),
            upstreams: vec![upstream],
            routes: Vec::new(),
        };
        let (router, names) = (Router::default(), Known::default());
        let made = Made {
            router,
            names: &names,
            listeners: Vec::new(),
            services: &Opened::default(),
        };
        let snapshot = Snapshot::succeed(None, &settings, made);
        let slow = SlowClients::new(Transient::new(7));
        Shared::new(snapshot, 2, admission, slow)
    }

    #[test]
    fn the_counts_of_all_workers_are_added_and_nothing_else_is_said() {
        let shared = shared(&[9001, 9002]);
        let snapshot = shared.snapshot();
        let [busy, refusing] = [0, 1].map(|e| &snapshot.upstreams[0].endpoints[e].state);
        for (worker, latency_us) in [(0, 100), (0, 101), (1, 60_000_001)] {
            let endpoint = busy.metrics.of(worker);
            endpoint.responses.add(200);
            endpoint.latency.record(Duration::from_micros(latency_us));
            endpoint.idle.set(2);
            shared.metrics[worker].responses.add(404);
        }
        let mut random = fastrand::Rng::with_seed(1);
        refusing.health.refused(
            Leave::Usual,
            (0, rustix::io::Errno::CONNREFUSED),
            &mut random,
        );
        refusing.metrics.of(0).connect_failures.add(1);
        refusing.health.checked(false);
        refusing.checked.ended(Err("it said \"no\"".to_owned()));
        let expected = concat!(
            r#"{"pid":PID,"uptime_ms":300,"connections":0,"workers":2,"stuck":[],"troubles":[],"#,
            r#""minute":{"covers_ms":0,"seconds":[]},"requests":3,"#,
            r#""responses":{"1xx":0,"2xx":0,"3xx":0,"4xx":3,"5xx":0},"#,
            r#""latency_bounds_us":[100,250,500,1000,2500,5000,10000,25000,50000,100000,250000,500000,"#,
            r#"1000000,2500000,5000000,10000000,30000000,60000000],"#,
            r#""routes":[],"unrouted":null,"upstreams":[{"name":"\"app\"","concurrency":null,"ejection":null,"endpoints":["#,
            r#"{"endpoint":"127.0.0.1:9001","up":true,"shown":{"tone":"good","word":"up","why":null},"#,
            r#""refused":null,"check":null,"place":null,"breaker":null,"requests":3,"#,
            r#""responses":{"1xx":0,"2xx":3,"3xx":0,"4xx":0,"5xx":0},"failures":0,"idle":4,"in_flight":0,"minute":null,"#,
            r#""latency_counts":[1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"#,
            r#"{"endpoint":"127.0.0.1:9002","up":false,"#,
            r#""shown":{"tone":"bad","word":"down","why":"it said \"no\""},"#,
            r#""refused":{"error":"ECONNREFUSED","ago_ms":300,"remaining_ms":134},"#,
            r#""check":{"up":false,"error":"it said \"no\""},"#,
            r#""place":null,"breaker":null,"requests":0,"#,
            r#""responses":{"1xx":0,"2xx":0,"3xx":0,"4xx":0,"5xx":0},"failures":1,"idle":0,"in_flight":0,"minute":null,"#,
            r#""latency_counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}],"#,
            r#""transient":{"bytes":0,"bytes_max":7,"cut":0},"cache":null,"queues":[],"store":null,"databases":[]}"#,
        );
        let status = Status::read_at(&shared, &snapshot, &History::default(), 300);
        let expected = expected.replace("PID", &std::process::id().to_string());
        let written = serde_json::to_string(&status).expect("plain values have a JSON form");
        assert_eq!(written, expected);
    }
}
