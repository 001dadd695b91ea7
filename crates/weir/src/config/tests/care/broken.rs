//! Mistakes in every key of refusing.

use std::fs;

use super::super::{LISTENER, assert_problems};
use super::TempDirectory;

const UPSTREAMS: &str =
    "upstream = { app.servers = [\"127.0.0.1:9001\"], backup.servers = [\"127.0.0.1:9002\"] }\n";
/// A route to `app`, which its keys follow.
const ROUTE: &str = "[[route]]\n";
const PATH: &str = "path = \"/{id}\"\n";
const TO_APP: &str = "upstream = \"app\"\n";

#[test]
fn mistakes_in_breakers_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAMS, ROUTE, PATH, TO_APP], BREAKERS);
}

#[test]
fn mistakes_in_rates_and_priorities_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAMS, ROUTE, PATH, TO_APP], RATES);
    assert_problems(
        &[LISTENER, UPSTREAMS, ROUTE, "path = \"/\"\n", TO_APP],
        RATES_OF_A_FIXED_PATH,
    );
}

#[test]
fn mistakes_in_retries_and_hedges_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAMS, ROUTE, PATH, TO_APP], RETRIES);
}

#[test]
fn mistakes_in_fallbacks_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAMS, ROUTE, PATH, TO_APP], FALLBACKS);
}

#[test]
fn mistakes_in_upstreams_that_refuse_are_all_told() {
    const ROUTES: &str = "route = [{ path = \"/\", upstream = \"app\", protect = false }]\n";
    const APP: &str = "[upstream.app]\n";
    const SERVERS: &str = "servers = [\"127.0.0.1:9001\"]\n";
    assert_problems(&[LISTENER, ROUTES, APP, SERVERS], OF_UPSTREAMS);
}

#[test]
fn care_has_a_meaning_only_with_an_upstream() {
    assert_problems(&[LISTENER, ROUTE, PATH], &[WITHOUT_UPSTREAM]);
}

#[test]
fn protection_is_not_asked_for_and_refused_at_once() {
    assert_problems(
        &[LISTENER],
        &[r#"
[upstream.app]
servers = ["127.0.0.1:9001"]
protect = false
[[route]]
path = "/"
upstream = "app"
protect = true
#! route[1].protect: found true, but the upstream has `protect = false`, expected both to say the same
[[route]]
path = "/x"
upstream = "app"
protect = "yes"
#! route[2].protect: found "yes", expected true or false
"#],
    );
}

#[test]
fn a_file_that_is_too_long_or_no_file_is_refused() {
    let directory = TempDirectory::new("broken");
    let long = directory.0.join("long.html");
    fs::write(&long, vec![b' '; (1 << 20) + 1]).expect("the directory is there");
    let unknown = directory.0.join("sorry.png");
    fs::write(&unknown, "x").expect("the directory is there");
    for (path, complaint) in [
        (&long, "expected a file of at most 1048576 bytes"),
        (
            &directory.0,
            "which cannot be read (it is a directory, not a file), expected the path of a file such as \"sorry.html\"",
        ),
        (
            &unknown,
            "expected a file that ends in .html, .json or .txt, or a \"content_type\" beside it",
        ),
    ] {
        let path = format!("{:?}", path.display().to_string());
        let problem = format!(
            "fallback.file = {path}\n#! route[1].fallback.file: found {path}, {complaint}\n"
        );
        assert_problems(&[LISTENER, UPSTREAMS, ROUTE, PATH, TO_APP], &[&problem]);
    }
}

const WITHOUT_UPSTREAM: &str = r#"
respond = {}
breaker = true
#! route[1].breaker: has no meaning with "respond", expected it only with "upstream" or "split"
priority = "low"
#! route[1].priority: has no meaning with "respond", expected it only with "upstream" or "split"
retry = 1
#! route[1].retry: has no meaning with "respond", expected it only with "upstream" or "split"
hedge = true
#! route[1].hedge: has no meaning with "respond", expected it only with "upstream" or "split"
fallback = {}
#! route[1].fallback: has no meaning with "respond", expected it only with "upstream" or "split"
protect = true
#! route[1].protect: has no meaning with "respond", expected it only with "upstream" or "split"
"#;

const BREAKERS: &[&str] = &[
    r#"
breaker = 0.5
#! route[1].breaker: found the number 0.5, expected true, false or a table such as `{ ratio = 0.5, open_for = "5s" }`
"#,
    r#"
[route.breaker]
ratio = 0
#! route[1].breaker.ratio: found the integer 0, expected a number from 0.01 to 1
window = "10ms"
#! route[1].breaker.window: found "10ms", expected a duration from "100ms" to "1h"
min_requests = 0
#! route[1].breaker.min_requests: found the integer 0, expected an integer from 1 to 1000000
open_for = "0s"
#! route[1].breaker.open_for: found "0s", expected a duration above zero and at most "24h"
open_for_max = "2d"
#! route[1].breaker.open_for_max: found "2d", expected a duration above zero and at most "24h"
consecutive = 1000001
#! route[1].breaker.consecutive: found the integer 1000001, expected an integer from 1 to 1000000
slow = 2
#! route[1].breaker.slow: found the integer 2, expected a duration such as "500ms", "2s", "1m" or "1h"
slow_ratio = 1.5
#! route[1].breaker.slow_ratio: found the number 1.5, expected a number from 0.01 to 1
probes = 17
#! route[1].breaker.probes: found the integer 17, expected an integer from 1 to 16
probe_successes = 0
#! route[1].breaker.probe_successes: found the integer 0, expected an integer from 1 to 1000
recovery = "2h"
#! route[1].breaker.recovery: found "2h", expected a duration from "0s" to "1h"
ration = 1
#! route[1].breaker.ration: unknown key; did you mean "ratio"?
"#,
    r#"
[route.breaker]
open_for = "10s"
open_for_max = "9s"
#! route[1].breaker.open_for_max: found "9s", expected at least "open_for", which is 10s
slow_ratio = 0.5
#! route[1].breaker.slow_ratio: has a meaning only with "slow", expected none here
statuses = "5xx"
#! route[1].breaker.statuses: found "5xx", expected a list of statuses such as ["5xx", "502-504", 429]
"#,
    r#"
[route.breaker]
open_for_max = "4s"
#! route[1].breaker.open_for_max: found "4s", expected at least "open_for", which is 5s
statuses = [
  100,
#! route[1].breaker.statuses[1]: found the integer 100, expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  "503",
#! route[1].breaker.statuses[2]: found "503", expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  "6xx",
#! route[1].breaker.statuses[3]: found "6xx", expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  "504-502",
#! route[1].breaker.statuses[4]: found "504-502", expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  "502-",
#! route[1].breaker.statuses[5]: found "502-", expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  true,
#! route[1].breaker.statuses[6]: found the boolean true, expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
  "5xx", "500-500", 429,
]
"#,
];

const RATES: &[&str] = &[
    r#"
rate = 100
#! route[1].rate: found the integer 100, expected a table such as `{ requests = 100, per = "1s" }`, or a list of such tables
priority = "urgent"
#! route[1].priority: found "urgent", expected one of "low", "normal", "high", "critical"
"#,
    r#"
rate = []
#! route[1].rate: found an empty list, expected at least one limit, or no "rate"
priority = 1
#! route[1].priority: found the integer 1, expected a priority such as "high", or a table such as `{ header = "x-priority" }`
"#,
    r#"
[route.rate]
#! route[1].rate.requests: missing, expected how many requests a key may make, such as 100
per = "0s"
#! route[1].rate.per: found "0s", expected a duration from "1ms" to "24h"
burst = 0
#! route[1].rate.burst: found the integer 0, expected an integer from 1 to 1000000
key = "client-adress"
#! route[1].rate.key: found "client-adress", expected one of "client-address", "route", "header:NAME" or "path:NAME"; did you mean "client-address"?
keys = 15
#! route[1].rate.keys: found the integer 15, expected an integer from 16 to 10000000
limit = 1
#! route[1].rate.limit: unknown key; expected one of "requests", "per", "burst", "key", "keys"
[route.priority]
#! route[1].priority.header: missing, expected the name of a request field such as "x-priority"
default = "hihg"
#! route[1].priority.default: found "hihg", expected one of "low", "normal", "high", "critical"; did you mean "high"?
"#,
    r#"
rate = [
  { requests = 0 },
#! route[1].rate[1].requests: found the integer 0, expected an integer from 1 to 1000000
  { requests = 1, key = "header:a b" },
#! route[1].rate[2].key: found "header:a b", expected the name of a request field such as "x-priority"
  { requests = 1, key = "path:name" },
#! route[1].rate[3].key: found "path:name", but the route's path has no parameter "name"; expected "id"
  { requests = 1, key = "route", keys = 16 },
#! route[1].rate[4].keys: has no meaning with key = "route", which is one key
  { requests = 5, key = "path:id" },
  { requests = 5, key = "path:id", per = "1s" },
#! route[1].rate[6]: found a table, expected each limit only once
  5,
#! route[1].rate[7]: found the integer 5, expected a table such as `{ requests = 100, per = "1s" }`
]
priority = { header = "x priority" }
#! route[1].priority.header: found "x priority", expected the name of a request field such as "x-priority"
"#,
];

const RATES_OF_A_FIXED_PATH: &[&str] = &[r#"
rate = { requests = 1, key = "path:id" }
#! route[1].rate.key: found "path:id", but the route's path has no parameter "id"
"#];

const RETRIES: &[&str] = &[
    r"
retry = 10
#! route[1].retry: found the integer 10, expected an integer from 0 to 9, or a table such as `{ attempts = 3 }`
hedge = 0.95
#! route[1].hedge: found the number 0.95, expected true, false or a table such as `{ quantile = 0.95 }`
",
    r"
retry = true
#! route[1].retry: found the boolean true, expected an integer from 0 to 9, or a table such as `{ attempts = 3 }`
",
    r"
retry = 18446744073709551615
#! route[1].retry: found the integer 18446744073709551615, expected an integer from 0 to 9, or a table such as `{ attempts = 3 }`
",
    r#"
[route.retry]
attempts = 0
#! route[1].retry.attempts: found the integer 0, expected an integer from 1 to 10
statuses = ["xx"]
#! route[1].retry.statuses[1]: found "xx", expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
per_try = "0s"
#! route[1].retry.per_try: found "0s", expected a duration above zero and at most "24h"
backoff = "61s"
#! route[1].retry.backoff: found "61s", expected a duration from "0s" to "1m"
backoff_max = "soon"
#! route[1].retry.backoff_max: found "soon", expected a duration such as "500ms", "2s", "1m" or "1h"
retries = 1
#! route[1].retry.retries: unknown key; expected one of "attempts", "statuses", "per_try", "backoff", "backoff_max"
[route.hedge]
quantile = 1
#! route[1].hedge.quantile: found the integer 1, expected a number from 0.5 to 0.999
min = "2m"
#! route[1].hedge.min: found "2m", expected a duration from "0s" to "1m"
max = 1
#! route[1].hedge.max: unknown key; expected one of "quantile", "min"
"#,
    r#"
retry = { backoff = "50ms", backoff_max = "10ms" }
#! route[1].retry.backoff_max: found "10ms", expected at least "backoff", which is 50ms
"#,
];

const FALLBACKS: &[&str] = &[
    r#"
fallback = "sorry"
#! route[1].fallback: found "sorry", expected a table such as `{ status = 503, body = "busy" }`
"#,
    r#"
fallback = {}
#! route[1].fallback: found nothing to fall back on, expected at least one of "stale", "upstream", "status", "body", "json", "file"
"#,
    r#"
fallback = { on = "refused" }
#! route[1].fallback: found nothing to fall back on, expected at least one of "stale", "upstream", "status", "body", "json", "file"
"#,
    r#"
[route.fallback]
on = "refsued"
#! route[1].fallback.on: found "refsued", expected one of "any", "refused", "failed"; did you mean "refused"?
status = 503
"#,
    r#"
cache = false
[route.fallback]
stale = true
#! route[1].fallback.stale: found true on a route that stores nothing, expected a "cache" beside "fallback"
upstream = "app"
#! route[1].fallback.upstream: found "app", expected another upstream than the route's own
status = 199
#! route[1].fallback.status: found the integer 199, expected an integer from 200 to 599
content_type = "text"
#! route[1].fallback.content_type: found "text", expected a media type such as "text/plain"
json = { error = "busy" }
body = "busy"
#! route[1].fallback.body: found beside "json", expected only one of them
file = "sorry.html"
#! route[1].fallback.file: found beside "json", expected only one of them
text = "x"
#! route[1].fallback.text: unknown key; expected one of "on", "stale", "upstream", "status", "content_type", "body", "json", "file"
"#,
    r#"
[route.fallback]
stale = 1
#! route[1].fallback.stale: found the integer 1, expected true or false
upstream = "bakcup"
#! route[1].fallback.upstream: there is no upstream "bakcup"; did you mean "backup"?
content_type = "text/plain"
#! route[1].fallback.content_type: has a meaning only with "body", "json" or "file", expected none here
"#,
    r"
[route.fallback]
upstream = 1
#! route[1].fallback.upstream: found the integer 1, expected the name of an upstream
body = 1
#! route[1].fallback.body: found the integer 1, expected a string
",
    r#"
[route.fallback]
json = "busy"
#! route[1].fallback.json: found "busy", expected a table or a list such as `{ error = "busy" }`
"#,
    r"
[route.fallback]
json = { a = nan, b = [9223372036854775808] }
#! route[1].fallback.json.a: found the number nan, expected a number that JSON has
#! route[1].fallback.json.b[1]: found the integer 9223372036854775808, expected a number that JSON has
",
    r#"
[route.fallback]
status = 204
body = "x"
#! route[1].fallback.body: found a body, expected none with status 204
"#,
    r#"
[route.fallback]
file = "no/such/sorry.html"
#! route[1].fallback.file: found "no/such/sorry.html", which cannot be read (No such file or directory (os error 2)), expected the path of a file such as "sorry.html"
"#,
];

const OF_UPSTREAMS: &[&str] = &[
    r#"
protect = 1
#! upstream.app.protect: found the integer 1, expected true or false
concurrency = 0
#! upstream.app.concurrency: found the integer 0, expected an integer from 1 to 1000000, "adaptive", false or a table such as `{ limit = 64, queue = 128 }`
ejection = "on"
#! upstream.app.ejection: found "on", expected true, false or a table such as `{ max = 0.5, eject_for = "5s" }`
breaker = "on"
#! upstream.app.breaker: found "on", expected true, false or a table such as `{ ratio = 0.5, open_for = "5s" }`
health = "http"
#! upstream.app.health: found "http", expected "tcp", or a table such as `{ path = "/healthz", interval = "2s" }`
retry_budget = 0.2
#! upstream.app.retry_budget: found the number 0.2, expected a table such as `{ ratio = 0.2, min_per_s = 3 }`
"#,
    r#"
[upstream.app.concurrency]
limit = "adaptiv"
#! upstream.app.concurrency.limit: found "adaptiv", expected an integer from 1 to 1000000, or "adaptive"
per_endpoint = 16
#! upstream.app.concurrency.per_endpoint: found beside `limit`, expected `limit`, for all endpoints together, or `per_endpoint`
queue = 65537
#! upstream.app.concurrency.queue: found the integer 65537, expected an integer from 0 to 65536
streams = -1
#! upstream.app.concurrency.streams: found the integer -1, expected an integer from 0 to 1000000
queue_target = "0ms"
#! upstream.app.concurrency.queue_target: found "0ms", expected a duration from "1ms" to "1m"
queue_interval = "2m"
#! upstream.app.concurrency.queue_interval: found "2m", expected a duration from "1ms" to "1m"
max = 1
#! upstream.app.concurrency.max: unknown key; expected one of "limit", "per_endpoint", "queue", "streams", "queue_target", "queue_interval"
[upstream.app.ejection]
max = 1.1
#! upstream.app.ejection.max: found the number 1.1, expected a number from 0 to 1
consecutive = 0
#! upstream.app.ejection.consecutive: found the integer 0, expected an integer from 1 to 1000000
window = "2h"
#! upstream.app.ejection.window: found "2h", expected a duration from "100ms" to "1h"
min_requests = -1
#! upstream.app.ejection.min_requests: found the integer -1, expected an integer from 1 to 1000000
share = 0.0
#! upstream.app.ejection.share: found the number 0.0, expected a number from 0.01 to 1
eject_for = "25h"
#! upstream.app.ejection.eject_for: found "25h", expected a duration above zero and at most "24h"
eject_for_max = 13
#! upstream.app.ejection.eject_for_max: found the integer 13, expected a duration such as "500ms", "2s", "1m" or "1h"
slow_factor = 1
#! upstream.app.ejection.slow_factor: found the integer 1, expected a number from 1.5 to 1000
slow_min = "2h"
#! upstream.app.ejection.slow_min: found "2h", expected a duration from "0s" to "1h"
slow_start = "2h"
#! upstream.app.ejection.slow_start: found "2h", expected a duration from "0s" to "1h"
sigma = 1.9
#! upstream.app.ejection.sigma: unknown key; expected one of "max", "consecutive", "window", "min_requests", "share", "eject_for", "eject_for_max", "slow_factor", "slow_min", "slow_start"
"#,
    r#"
concurrency = { queue_target = "20ms", queue_interval = "10ms" }
#! upstream.app.concurrency.queue_interval: found "10ms", expected at least "queue_target", which is 20ms
ejection = { eject_for_max = "4s" }
#! upstream.app.ejection.eject_for_max: found "4s", expected at least "eject_for", which is 5s
[upstream.app.breaker]
probes = 0
#! upstream.app.breaker.probes: found the integer 0, expected an integer from 1 to 16
[upstream.app.health]
#! upstream.app.health.path: missing, expected a path such as "/healthz", or `tcp = true`
interval = "50ms"
#! upstream.app.health.interval: found "50ms", expected a duration from "100ms" to "1h"
timeout = "0s"
#! upstream.app.health.timeout: found "0s", expected a duration above zero and at most "24h"
rise = 0
#! upstream.app.health.rise: found the integer 0, expected an integer from 1 to 100
fall = 101
#! upstream.app.health.fall: found the integer 101, expected an integer from 1 to 100
statuses = []
#! upstream.app.health.statuses: found an empty list, expected at least one status
body = ""
#! upstream.app.health.body: found "", expected a text that the answer contains
host = "a b"
#! upstream.app.health.host: found "a b", expected a host such as "app.internal"
port = 80
#! upstream.app.health.port: unknown key; expected one of "tcp", "path", "host", "statuses", "body", "interval", "timeout", "rise", "fall"
[upstream.app.retry_budget]
ratio = 11
#! upstream.app.retry_budget.ratio: found the integer 11, expected a number from 0 to 10
min_per_s = -1
#! upstream.app.retry_budget.min_per_s: found the integer -1, expected a number from 0 to 1000000
ttl = "2m"
#! upstream.app.retry_budget.ttl: found "2m", expected a duration from "1s" to "1m"
max = 1
#! upstream.app.retry_budget.max: unknown key; expected one of "ratio", "min_per_s", "ttl"
"#,
    r#"
health = { path = "healthz", statuses = [99], tcp = 1 }
#! upstream.app.health.path: found "healthz", expected a path such as "/healthz"
#! upstream.app.health.statuses[1]: found the integer 99, expected a status from 200 to 599, a class such as "5xx" or a range such as "502-504"
#! upstream.app.health.tcp: found the integer 1, expected true or false
"#,
    r#"
health = { path = "/a|b#c" }
#! upstream.app.health.path: found "/a|b#c", expected a path such as "/healthz"
"#,
    r#"
health = { tcp = true, path = "/", host = "h", statuses = [200], body = "ok" }
#! upstream.app.health.path: has no meaning with `tcp = true`, which asks for a connection alone
#! upstream.app.health.host: has no meaning with `tcp = true`, which asks for a connection alone
#! upstream.app.health.statuses: has no meaning with `tcp = true`, which asks for a connection alone
#! upstream.app.health.body: has no meaning with `tcp = true`, which asks for a connection alone
"#,
];
