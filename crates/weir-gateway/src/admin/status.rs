//! The state of the gateway as one JSON object: what the dashboard shows, and scripts may read.
//!
//! It has counts and no rates: whoever reads it twice can divide what was added by the time between, which `uptime_ms`
//! gives without the delays of the network.

mod cache;
pub(crate) mod care;

use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::metrics::{self, CLASSES, LATENCY_BOUNDS_US};
use crate::state::shared::Shared;
use crate::state::snapshot::{Endpoint, UpstreamState};

/// `{"uptime_ms", "connections", "workers", "stuck": [{"worker", "for_ms"}], "requests", "responses", "latency_bounds_us", "routes", "upstreams": [{"name",
/// "concurrency", "ejection", "endpoints": [{"endpoint", "up", "check", "place", "breaker", "requests", "responses",
/// "failures", "idle", "latency_counts"}]}], "transient": {"bytes", "bytes_max", "cut"}, "cache"}`
///
/// `stuck` are the workers that have not turned for two seconds, and for how long: they serve nobody.
///
/// What `cache` has stands in `status/cache.rs`; what `routes`, `concurrency`, `ejection`, `check`, `place` and `breaker`
/// have, in `status/care.rs`.
///
/// All counts are since the start, except for `connections`, those of clients, and `idle`, those kept to the endpoint:
/// they are open now. `requests` is the sum of `responses`, an object with a count for each of `1xx` to `5xx`; at the
/// top these are the answers to clients, at an endpoint its own. `failures` counts connections to the endpoint that
/// did not stand; `up` is false while it is passed over for that, or because of its checks. `latency_counts` has for each
/// of `latency_bounds_us` the responses that took at most so long and more than the bound before, and then those that
/// took longer than all.
pub(crate) fn write(shared: &Shared) -> String {
    let uptime_ms = shared.since_start().as_millis() as u64;
    write_at(shared, uptime_ms)
}

fn write_at(shared: &Shared, uptime_ms: u64) -> String {
    let responses = metrics::added(
        shared
            .metrics
            .iter()
            .map(|worker| worker.responses.counts()),
    );
    let snapshot = shared.snapshot();
    let now = Instant::now();
    let upstreams = snapshot.upstreams.iter().map(|upstream| {
        let endpoints =
            (0..upstream.endpoints.len()).map(|e| endpoint(upstream, e, uptime_ms, now));
        object([
            ("name", quoted(&upstream.settings.name)),
            ("concurrency", care::gate(upstream.gate.as_deref(), now)),
            ("ejection", care::watch(upstream.watch.as_deref())),
            ("endpoints", list(endpoints)),
        ])
    });
    let stuck = shared.stuck().map(|(worker, for_ms)| {
        object([
            ("worker", worker.to_string()),
            ("for_ms", for_ms.to_string()),
        ])
    });
    let mut text = object([
        ("uptime_ms", uptime_ms.to_string()),
        ("connections", shared.admission.open().to_string()),
        ("workers", shared.metrics.len().to_string()),
        ("stuck", list(stuck)),
        ("requests", responses.iter().sum::<u64>().to_string()),
        ("responses", by_class(responses)),
        ("latency_bounds_us", list(LATENCY_BOUNDS_US)),
        ("routes", care::routes(&snapshot.routes, now)),
        ("upstreams", list(upstreams)),
        ("transient", transient(shared)),
        ("cache", cache::write(shared)),
    ]);
    text.push('\n');
    text
}

/// What is held for clients and not stored, and how many were cut off for that.
fn transient(shared: &Shared) -> String {
    let slow = &shared.slow;
    object([
        ("bytes", slow.transient.bytes().to_string()),
        ("bytes_max", slow.transient.bytes_max().to_string()),
        ("cut", slow.cut.load(Ordering::Relaxed).to_string()),
    ])
}

fn endpoint(upstream: &UpstreamState, index: usize, uptime_ms: u64, now: Instant) -> String {
    let endpoint: &Endpoint = &upstream.endpoints[index];
    let tables = &endpoint.state.metrics;
    let responses = metrics::added(tables.iter().map(|table| table.responses.counts()));
    let latency = metrics::added(tables.iter().map(|table| table.latency.counts()));
    let is_up = endpoint.state.health.is_available(uptime_ms);
    let failures = tables.sum(|table| &table.connect_failures);
    object([
        ("endpoint", quoted(&endpoint.label)),
        ("up", is_up.to_string()),
        ("check", care::check(&endpoint.state)),
        ("place", care::place(upstream.watch.as_deref(), index, now)),
        ("breaker", care::breaker(endpoint.breaker.as_deref(), now)),
        ("requests", responses.iter().sum::<u64>().to_string()),
        ("responses", by_class(responses)),
        ("failures", failures.to_string()),
        ("idle", tables.sum(|table| &table.idle).to_string()),
        ("latency_counts", list(latency)),
    ])
}

fn by_class(counts: [u64; CLASSES.len()]) -> String {
    let counts = counts.map(|count| count.to_string());
    object(CLASSES.into_iter().zip(counts))
}

/// A JSON object of values that are JSON; the names need no escape.
pub(super) fn object<'n>(members: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let members = members.into_iter();
    let members = members.map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", joined(members))
}

/// A JSON array of values that are JSON.
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", joined(items))
}

fn joined(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for (index, item) in items.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{item}");
    }
    text
}

/// A JSON string (RFC 8259 §7).
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
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
        ClientTimeouts, Dns, EndpointAddress, HashOn, Limits, Server, ServerAddress, Settings,
        Upstream, UpstreamCare,
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
            idle_connections: 1,
            idle_timeout: Duration::from_secs(1),
            care: UpstreamCare::default(),
        };
        let settings = Settings {
            workers: 2,
            listeners: Vec::new(),
            admin: None,
            access_log: None,
            cache: None,
            trusted_proxies: Vec::new(),
            dns: Dns::default(),
            limits,
            timeouts: ClientTimeouts::default(),
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
        refusing.health.refused(Leave::Usual, 0, &mut random);
        refusing.metrics.of(0).connect_failures.add(1);
        refusing.health.checked(false);
        refusing.checked.ended(Err("it said \"no\"".to_owned()));
        let expected = concat!(
            r#"{"uptime_ms":300,"connections":0,"workers":2,"stuck":[],"requests":3,"#,
            r#""responses":{"1xx":0,"2xx":0,"3xx":0,"4xx":3,"5xx":0},"#,
            r#""latency_bounds_us":[100,250,500,1000,2500,5000,10000,25000,50000,100000,250000,500000,"#,
            r#"1000000,2500000,5000000,10000000,30000000,60000000],"#,
            r#""routes":[],"upstreams":[{"name":"\"app\"","concurrency":null,"ejection":null,"endpoints":["#,
            r#"{"endpoint":"127.0.0.1:9001","up":true,"check":null,"place":null,"breaker":null,"requests":3,"#,
            r#""responses":{"1xx":0,"2xx":3,"3xx":0,"4xx":0,"5xx":0},"failures":0,"idle":4,"#,
            r#""latency_counts":[1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"#,
            r#"{"endpoint":"127.0.0.1:9002","up":false,"check":{"up":false,"error":"it said \"no\""},"#,
            r#""place":null,"breaker":null,"requests":0,"#,
            r#""responses":{"1xx":0,"2xx":0,"3xx":0,"4xx":0,"5xx":0},"failures":1,"idle":0,"#,
            r#""latency_counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}],"#,
            r#""transient":{"bytes":0,"bytes_max":7,"cut":0},"cache":null}"#,
            "\n",
        );
        assert_eq!(write_at(&shared, 300), expected);
    }

    #[test]
    fn a_label_cannot_leave_its_string() {
        assert_eq!(
            quoted("a\"b\\c\nd\u{7f}é"),
            "\"a\\\"b\\\\c\\u000ad\u{7f}é\""
        );
    }
}
