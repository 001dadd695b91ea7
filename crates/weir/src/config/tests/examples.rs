//! Sound configs and what they resolve to: the example of the documentation, and every key at once.

use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::template::{Part, Template, Variable};
use weir_gateway::settings::{
    Action, Cors, EndpointAddress, ErrorPage, ErrorPages, Forward, HashOn, HostPattern, LogFormat,
    LogTarget, OriginPattern, Origins, PerAddress, Redact, RequestId, Route, ServerAddress,
    TrustId,
};
use weir_policy::balance::Method;

use super::valid;

/// The example that the documentation shows.
pub(super) const DOCUMENTED: &str = r#"
[server]
workers = 2

[admin]
listen = "127.0.0.1:9901"

[[listener]]
address = "127.0.0.1:8080"

[access_log]
path = "access.log"
format = "combined"
buffer = "256KiB"
flush = "10s"

[upstream.app]
servers = ["127.0.0.1:9001", { address = "127.0.0.1:9002", weight = 5 }, "unix:app.sock"]
balance = "round-robin"
health = { path = "/healthz", interval = "2s" }

[[route]]
host = "www.example.com"
path = "/api/{*rest}"
methods = ["GET", "HEAD"]
upstream = "app"
timeout = { connect = "1s", response = "30s" }
breaker = { ratio = 0.3, window = "10s", min_requests = 20, open_for = "5s" }
fallback = { status = 429, content_type = "text/plain", body = "too many requests" }
"#;

/// Every key there is, none at its default.
pub(super) const EVERY_KEY: &str = r#"
[server]
workers = 3
[admin]
listen = "0.0.0.0:9901"
token = "0123456789abcdef"
[[listener]]
address = "127.0.0.1:8080"
[[listener]]
address = "[::1]:8080"
[log]
format = "json"
level = "warn"
[access_log]
path = "-"
format = "json"
fields = ["time", "request_header:Accept", "status"]
redact = ["token"]
buffer = 4096
flush = "0.5s"
[request_id]
header = "X-Trace"
trust = "any"
respond = true
[response_headers]
always = { strict-transport-security = "max-age=1" }
[limits]
connections = 10
connections_per_address = 5
header_bytes = "16KiB"
header_count = 50
body = "10MB"
[timeouts]
head = "1s"
idle = "2s"
body = "3s"
send = "4s"
tunnel = "24h"
drain_delay = "5s"
drain = "500ms"
[error_pages]
404 = { body = "gone", content_type = "text/html" }
[upstream.second]
servers = ["http://app.internal:80"]
concurrency = { limit = 64, queue = 128, queue_target = "5ms", queue_interval = "50ms" }
ejection = { max = 0.25, consecutive = 3, window = "10s", min_requests = 20, share = 0.5, eject_for = "1s", eject_for_max = "30s", slow_factor = 3, slow_min = "50ms", slow_start = "5s" }
breaker = { ratio = 0.3, window = "20s", min_requests = 7, open_for = "1s", open_for_max = "2s", consecutive = 4, slow = "500ms", slow_ratio = 0.9, statuses = [429, "5xx", "400-403"], probes = 16, probe_successes = 2, recovery = "0s" }
health = { path = "/healthz?full", interval = "500ms", timeout = "200ms", rise = 1, fall = 5, statuses = [204], body = "ok", host = "app.internal:80" }
retry_budget = { ratio = 0.5, min_per_s = 1.5, ttl = "5s" }
[upstream.first]
servers = ["localhost:9001"]
balance = "hash"
hash_on = "header:X-User"
idle_connections = 0
idle_timeout = "1m"
health = "tcp"
protect = true
[[route]]
name = "api"
host = "*.Example.com"
path = "/api/{version}/{*rest}"
methods = ["POST", "PURGE"]
headers = { X-Beta = "1", X-Old = false }
query = { debug = true }
error_pages = { 5xx = { json = { error = "down" }, replace_upstream = true }, 503 = { body = "busy" } }
upstream = "first"
strip_prefix = "/api"
request_headers = { set = { Host = "inner", X-A = "ä b" }, add = { X-Tenant = "{version} of {client}" }, remove = ["Cookie"] }
response_headers = { remove = ["server"], always = { X-Status = "{status}{{" } }
timeout = { connect = "100ms", response = "1.5s", idle = "1m" }
body_limit = "0"
request_buffer = "64KiB"
response_buffer = 0
upgrade = ["WebSocket", "irc/6.9"]
rate = [{ requests = 5, per = "1m", burst = 50, key = "header:X-Api-Key", keys = 1000 }, { requests = 6, key = "path:version" }]
breaker = true
priority = { header = "X-Priority", default = "low" }
retry = { attempts = 4, statuses = ["502-504", 500], per_try = "1s", backoff = "0s", backoff_max = "10ms" }
hedge = { quantile = 0.99, min = "5ms" }
fallback = { upstream = "second", status = 429, json = { error = ["busy", 1.5] } }
protect = true
[[route]]
path = "/old/{id}/{*rest}"
redirect = { to = "https://example.com/new/{rest}?id={id}", status = 308 }
[[route]]
path = "/teapot"
respond = { status = 418, body = "short", content_type = "text/html", headers = { Retry-After = "1" } }
[[route]]
path = "/empty"
respond.status = 204
[[route]]
path = "/v1/{rest}"
methods = ["GET"]
upstream = "first"
rewrite = "/v2/{rest}.json"
cors = { origins = ["https://app.example.com", "https://*.example.org:8443"], methods = ["PUT"], headers = ["X-A"], expose = ["X-B"], credentials = true, max_age = "1h" }
"#;

#[test]
fn the_documented_example() {
    let settings = valid(DOCUMENTED);
    assert_eq!(settings.workers, 2);
    let admin = settings.admin.expect("an admin listener");
    assert_eq!(admin.listen.to_string(), "127.0.0.1:9901");
    assert_eq!(admin.token, None);
    assert_eq!(settings.listeners, ["127.0.0.1:8080".parse().unwrap()]);

    let log = settings.access_log.expect("an access log");
    assert_eq!(log.target, LogTarget::File(PathBuf::from("access.log")));
    assert_eq!(log.format, LogFormat::Combined);
    assert_eq!(log.buffer_bytes, 256 << 10);
    assert_eq!(log.flush, Duration::from_secs(10));

    let [upstream] = settings.upstreams.as_slice() else {
        panic!("one upstream: {:?}", settings.upstreams);
    };
    assert_eq!(upstream.name, "app");
    assert_eq!(upstream.balance, Method::RoundRobin);
    let servers = upstream.servers.iter();
    let servers: Vec<_> = servers
        .map(|server| (server.label.as_str(), server.address.clone(), server.weight))
        .collect();
    let tcp = |text: &str| ServerAddress::Known(EndpointAddress::Tcp(text.parse().unwrap()));
    let unix = ServerAddress::Known(EndpointAddress::Unix(PathBuf::from("app.sock")));
    assert_eq!(
        servers,
        [
            ("127.0.0.1:9001", tcp("127.0.0.1:9001"), 1),
            ("127.0.0.1:9002", tcp("127.0.0.1:9002"), 5),
            ("unix:app.sock", unix, 1),
        ]
    );

    let [route] = settings.routes.as_slice() else {
        panic!("one route: {:?}", settings.routes);
    };
    assert_eq!(route.name, "www.example.com/api/{*rest}");
    assert_eq!(route.host, HostPattern::Exact("www.example.com".to_owned()));
    assert_eq!(route.path, "/api/{*rest}");
    assert_eq!(
        route.methods,
        Some(vec!["GET".to_owned(), "HEAD".to_owned()])
    );
    let forward = forward(route);
    assert_eq!(forward.upstream, 0);
    assert_eq!(forward.timeouts.connect, Duration::from_secs(1));
    assert_eq!(forward.timeouts.response, Duration::from_secs(30));
    assert_eq!(forward.timeouts.idle, Duration::from_secs(30));
}

#[test]
fn every_key_of_the_process_and_its_clients() {
    let settings = valid(EVERY_KEY);
    assert_eq!(settings.workers, 3);
    let listeners = ["127.0.0.1:8080", "[::1]:8080"].map(|text| text.parse().unwrap());
    assert_eq!(settings.listeners, listeners);
    let admin = settings.admin.expect("an admin listener");
    assert_eq!(admin.token.as_deref(), Some("0123456789abcdef"));
    let log = settings.access_log.expect("an access log");
    let members = [
        Variable::Time,
        Variable::RequestHeader("accept".to_owned()),
        Variable::Status,
    ];
    assert_eq!(log.redact, Redact::Parameters(vec!["token".to_owned()]));
    assert_eq!(
        (log.target, log.format),
        (LogTarget::Stdout, LogFormat::Json(members.to_vec()))
    );
    assert_eq!(
        (log.buffer_bytes, log.flush),
        (4096, Duration::from_millis(500))
    );

    let limits = settings.limits;
    assert_eq!(limits.connections, 10);
    assert_eq!(limits.connections_per_address, PerAddress::Every(5));
    assert_eq!(limits.header_bytes, 16 << 10);
    assert_eq!(limits.header_count, 50);
    assert_eq!(limits.body_bytes, 10_000_000);
    let timeouts = settings.timeouts;
    assert_eq!(timeouts.head, Duration::from_secs(1));
    assert_eq!(timeouts.idle, Duration::from_secs(2));
    assert_eq!(timeouts.body, Duration::from_secs(3));
    assert_eq!(timeouts.send, Duration::from_secs(4));
    assert_eq!(timeouts.tunnel, Duration::from_secs(24 * 3600));
    assert_eq!(timeouts.drain, Duration::from_millis(500));
}

#[test]
fn every_key_of_upstreams() {
    let settings = valid(EVERY_KEY);
    let names = settings
        .upstreams
        .iter()
        .map(|upstream| upstream.name.as_str());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["second", "first"],
        "the order of the file"
    );
    let plain = &settings.upstreams[0].servers[0];
    assert_eq!(plain.label, "app.internal:80");
    assert_eq!(
        plain.address,
        ServerAddress::Name("app.internal".to_owned(), 80)
    );
    let upstream = &settings.upstreams[1];
    assert_eq!(upstream.balance, Method::Hash);
    assert_eq!(upstream.hash_on, HashOn::Header("x-user".to_owned()));
    assert_eq!(upstream.idle_connections, 0);
    assert_eq!(upstream.idle_timeout, Duration::from_secs(60));
}

#[test]
fn every_key_of_forwarding() {
    let settings = valid(EVERY_KEY);
    let route = &settings.routes[0];
    assert_eq!(route.name, "api");
    assert_eq!(route.host, HostPattern::Wildcard("example.com".to_owned()));
    assert_eq!(
        route.methods,
        Some(vec!["POST".to_owned(), "PURGE".to_owned()])
    );
    let forward = forward(route);
    assert_eq!(forward.upstream, 1);
    assert_eq!(forward.strip_prefix.as_deref(), Some("/api"));
    let set = [("host", "inner"), ("x-a", "ä b")]
        .map(|(name, value)| (name.to_owned(), Template::fixed(value)));
    assert_eq!(forward.request_headers.set, set);
    assert_eq!(forward.request_headers.remove, ["cookie"]);
    let parts = |parts: Vec<Part>| Template { parts };
    let tenant = parts(vec![
        Part::Variable(Variable::Parameter("version".to_owned())),
        Part::Text(" of ".to_owned()),
        Part::Variable(Variable::Client),
    ]);
    assert_eq!(
        forward.request_headers.add,
        [("x-tenant".to_owned(), tenant)]
    );
    let says = &settings.routes[0].response_headers;
    assert_eq!(says.usual.remove, ["server"]);
    let status = parts(vec![
        Part::Variable(Variable::Status),
        Part::Text("{".to_owned()),
    ]);
    assert_eq!(says.always, [("x-status".to_owned(), status)]);
    let all = &settings.all_routes;
    let id = RequestId {
        field: "x-trace".to_owned(),
        trust: TrustId::Any,
        respond: true,
    };
    assert_eq!(all.request_id, Some(id));
    let lasting = Template::fixed("max-age=1");
    let lasting = [("strict-transport-security".to_owned(), lasting)];
    assert_eq!(all.response_headers.always, lasting);
    assert_eq!(forward.timeouts.connect, Duration::from_millis(100));
    assert_eq!(forward.timeouts.response, Duration::from_millis(1500));
    assert_eq!(forward.timeouts.idle, Duration::from_secs(60));
    assert_eq!(route.limits.body_bytes, 0);
    assert_eq!(
        (forward.request_buffer, forward.response_buffer),
        (64 << 10, 0)
    );
    assert_eq!(forward.upgrade, ["websocket", "irc/6.9"]);
}

#[test]
fn every_key_of_answers() {
    let settings = valid(EVERY_KEY);
    let Action::Redirect(redirect) = &settings.routes[1].action else {
        panic!("a redirect");
    };
    assert_eq!(redirect.status, 308);
    let text = |text: &str| Part::Text(text.to_owned());
    let parameter = |name: &str| Part::Variable(Variable::Parameter(name.to_owned()));
    assert_eq!(
        redirect.location.parts,
        [
            text("https://example.com/new/"),
            parameter("rest"),
            text("?id="),
            parameter("id"),
        ]
    );
    let fields = |pairs: &[(&str, &str)]| -> Vec<(String, Template)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), Template::fixed(*value));
        pairs.iter().map(owned).collect()
    };
    for (index, status, body, headers) in [
        (
            2,
            418,
            "short",
            fields(&[("retry-after", "1"), ("content-type", "text/html")]),
        ),
        (3, 204, "", Vec::new()),
    ] {
        let Action::Respond(respond) = &settings.routes[index].action else {
            panic!("a fixed response");
        };
        assert_eq!(respond.status, status);
        assert_eq!(respond.body, body.as_bytes());
        assert_eq!(respond.headers, headers);
    }
}

#[track_caller]
pub(super) fn forward(route: &Route) -> &Forward {
    let Action::Forward(forward) = &route.action else {
        panic!("should forward: {route:?}");
    };
    forward
}

#[test]
fn every_key_of_pages_and_other_paths() {
    let settings = valid(EVERY_KEY);
    let statuses = |pages: &ErrorPages| -> Vec<_> {
        let of = |page: &ErrorPage| (page.statuses.clone(), page.replaces_upstream);
        pages.pages.iter().map(of).collect()
    };
    assert_eq!(statuses(&settings.error_pages), [(404..=404, false)]);
    let page = &settings.error_pages.pages[0];
    assert_eq!(
        (&*page.body, &*page.content_type),
        (&b"gone"[..], "text/html")
    );
    // A status comes before its class, whatever the order in the file.
    let pages = &settings.routes[0].error_pages;
    assert_eq!(statuses(pages), [(503..=503, false), (500..=599, true)]);
    assert_eq!(&*pages.pages[1].body, br#"{"error":"down"}"#);
    let route = &settings.routes[4];
    assert_eq!(forward(route).rewrite.as_ref().unwrap().parts.len(), 3);
    let below = OriginPattern::Below("https://".to_owned(), ".example.org:8443".to_owned());
    assert_eq!(
        **route.cors.as_ref().unwrap(),
        Cors {
            origins: Origins::Listed(vec![
                OriginPattern::Exact("https://app.example.com".to_owned()),
                below,
            ]),
            methods: "PUT".to_owned(),
            headers: "X-A".to_owned(),
            expose: "X-B".to_owned(),
            credentials: true,
            max_age: Duration::from_secs(3600),
        }
    );
    // What the upstream says of it would be a second word.
    let removed = &route.response_headers.usual.remove;
    assert_eq!(removed.len(), 6, "{removed:?}");
}

#[test]
fn cors_goes_by_the_methods_of_its_route() {
    let text = "listener = [{ address = \"127.0.0.1:1\" }]\nroute = [\
        { path = \"/a\", methods = [\"GET\", \"POST\"], respond = {}, cors = { origins = [\"*\"] } }, \
        { path = \"/b\", respond = {}, cors = { origins = [\"*\"], methods = [\"*\"], headers = [] } }]\n";
    let routes = valid(text).routes;
    let cors = |index: usize| (**routes[index].cors.as_ref().unwrap()).clone();
    assert_eq!(cors(0).methods, "GET, POST");
    assert_eq!(cors(0).headers, "Content-Type");
    assert_eq!(cors(0).max_age, Duration::from_secs(600));
    assert_eq!(
        (cors(1).methods, cors(1).headers),
        ("*".to_owned(), String::new())
    );
}
