//! What a route says of its cache, and mistakes in it.

use std::time::Duration;

use weir_cache::CachePolicy;
use weir_cache::policy::{Bypass, HostKey, QueryKey, RequestCookie, SetCookie, StatusMatch};

use super::examples::forward;
use super::{LISTENER, UPSTREAM, assert_problems, valid};

fn policy(cache: &str) -> CachePolicy {
    let route = format!("route = [{{ path = \"/\", upstream = \"app\", cache = {cache} }}]");
    let settings = valid(&[LISTENER, UPSTREAM, &route].concat());
    assert!(settings.cache.is_some(), "there is somewhere to store");
    let policy = forward(&settings.routes[0]).cache.as_deref();
    policy.expect("a cache").clone()
}

#[test]
fn every_key_is_read() {
    let policy = policy(
        "{ ttl = { any = \"3s\", 404 = \"1m\", 4xx = \"2s\" }, force_ttl = \"1d\", stale_while_revalidate = \"10s\", \
         stale_if_error = \"1h\", stale_if_unreachable = \"0s\", refresh_ahead = 0.9, methods = [\"GET\", \"POST\"], \
         key = { host = false, query = [\"page\"], headers = [\"X-Tenant\"], cookies = [\"Tier\"] }, \
         bypass = [\"header:X-Fresh\", \"header:x-mode=live\", \"cookie:session\", \"query:nocache\"], \
         set_cookie = \"refuse\", obey_clients = false, ignore_language_order = true, min_uses = 2, max_object = \"1MiB\", max_variants = 7, \
         max_memory = \"2MiB\", request_cookie = \"store\" }",
    );
    let secs = Duration::from_secs;
    assert_eq!(
        policy.ttl.by_status,
        [
            (StatusMatch::Is(404), secs(60)),
            (StatusMatch::Class(4), secs(2)),
            (StatusMatch::Any, secs(3)),
        ]
    );
    assert_eq!(policy.ttl.forced, [(StatusMatch::OfResource, secs(86_400))]);
    assert!(!policy.language_order_matters);
    assert_eq!(policy.stale_while_revalidate, Some(secs(10)));
    assert_eq!(policy.stale_if_error, Some(secs(3600)));
    assert_eq!(policy.stale_if_unreachable, Duration::ZERO);
    assert_eq!(policy.refresh_ahead_percent, Some(90));
    assert!(
        policy.caches_post
            && policy.key.host == HostKey::Upstream("app".to_owned())
            && !policy.obeys_clients
    );
    assert_eq!(policy.key.query, QueryKey::Only(vec!["page".to_owned()]));
    assert_eq!(policy.key.headers, ["x-tenant"]);
    assert_eq!(policy.key.cookies, ["Tier"]);
    let header =
        |name: &str, value: Option<&str>| Bypass::Header(name.to_owned(), value.map(str::to_owned));
    assert_eq!(
        policy.bypass,
        [
            header("x-fresh", None),
            header("x-mode", Some("live")),
            Bypass::Cookie("session".to_owned()),
            Bypass::Query("nocache".to_owned()),
        ]
    );
    assert_eq!(policy.set_cookie, SetCookie::Refuse);
    assert_eq!(policy.request_cookie, RequestCookie::Store);
    assert_eq!((policy.uses_min, policy.variants_max), (2, 7));
    assert_eq!(policy.body_bytes_max, 1 << 20);
    assert_eq!(policy.memory_bytes_max, Some(2 << 20));
}

#[test]
fn a_forced_lifetime_can_name_statuses() {
    let secs = Duration::from_secs;
    let forced = policy("{ force_ttl = { any = \"3s\", 500 = \"1m\", 2xx = \"1h\" } }")
        .ttl
        .forced;
    assert_eq!(
        forced,
        [
            (StatusMatch::Is(500), secs(60)),
            (StatusMatch::Class(2), secs(3600)),
            (StatusMatch::Any, secs(3)),
        ]
    );
    let unsaid = policy("{ ttl = \"1m\" }");
    assert_eq!(unsaid.ttl.by_status, [(StatusMatch::Usual, secs(60))]);
    assert!(unsaid.ttl.forced.is_empty() && unsaid.language_order_matters);
}

#[test]
fn post_is_cached_only_where_it_is_named() {
    for (cache, caches_post) in [
        ("true", false),
        ("{ methods = [\"GET\", \"HEAD\"] }", false),
        ("{ methods = [\"POST\"] }", true),
    ] {
        assert_eq!(policy(cache).caches_post, caches_post, "{cache}");
    }
}

#[test]
fn each_form_of_the_query_is_read() {
    let names = || vec!["a".to_owned()];
    for (query, expected) in [
        ("query = true", QueryKey::Whole),
        ("query = false", QueryKey::Ignored),
        ("query = \"sorted\"", QueryKey::Sorted),
        ("query = [\"a\"]", QueryKey::Only(names())),
        ("query_except = [\"a\"]", QueryKey::Except(names())),
    ] {
        assert_eq!(
            policy(&format!("{{ key = {{ {query} }} }}")).key.query,
            expected
        );
    }
}

#[test]
fn what_clients_hold_follows_memory_unless_it_is_said() {
    for (table, memory, transient) in [
        ("cache = {}", 256 << 20, 64 << 20),
        ("cache = { memory = \"1GiB\" }", 1 << 30, 256 << 20),
        ("cache = { memory = \"8MiB\" }", 8 << 20, 16 << 20),
        ("cache = { transient = \"1MiB\" }", 256 << 20, 1 << 20),
    ] {
        let route = "route = [{ path = \"/\", upstream = \"app\" }]";
        let settings = valid(&[LISTENER, UPSTREAM, table, "\n", route].concat());
        let storage = settings.cache.expect("there is one");
        assert_eq!(
            (storage.memory_bytes, storage.transient_bytes),
            (memory, transient)
        );
    }
}

#[test]
fn mistakes_in_caches_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
[[route]]
path = "/"
upstream = "app"
cache = "yes"
#! route[1].cache: found "yes", expected true, false or a table such as `{ ttl = "1d" }`
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
[route.cache]
ttl = 5
#! route[1].cache.ttl: found the integer 5, expected a duration such as "1d", or durations by status such as `{ 200 = "1d", 404 = "1m", any = "10s" }`
force_ttl = "soon"
#! route[1].cache.force_ttl: found "soon", expected a duration such as "500ms", "2s", "1m" or "1h"
refresh_ahead = 1.5
#! route[1].cache.refresh_ahead: found the number 1.5, expected a share above 0 and below 1, such as 0.9
methods = ["GET", "Post", "PUT"]
#! route[1].cache.methods[2]: found "Post", expected one of "GET", "HEAD", "POST"; did you mean "POST"?
#! route[1].cache.methods[3]: found "PUT", expected one of "GET", "HEAD", "POST"
bypass = ["session"]
#! route[1].cache.bypass[1]: found "session", expected "header:NAME", "header:NAME=VALUE", "cookie:NAME" or "query:NAME"
set_cookie = "keep"
#! route[1].cache.set_cookie: found "keep", expected one of "store-if-origin-says", "store", "refuse"
request_cookie = "keep"
#! route[1].cache.request_cookie: found "keep", expected one of "store-if-said", "store", "refuse"
obey_clients = 1
#! route[1].cache.obey_clients: found the integer 1, expected true or false
ignore_language_order = "yes"
#! route[1].cache.ignore_language_order: found "yes", expected true or false
min_uses = 0
#! route[1].cache.min_uses: found the integer 0, expected an integer from 1 to 1000
max_object = "big"
#! route[1].cache.max_object: found "big", expected a size such as "512", "16KiB", "1MiB" or "10GiB"
max_variants = 0
#! route[1].cache.max_variants: found the integer 0, expected an integer from 1 to 1000
maximum = 1
#! route[1].cache.maximum: unknown key; expected one of "ttl", "force_ttl", "stale_while_revalidate", "stale_if_error", "stale_if_unreachable", "key", "bypass", "methods", "set_cookie", "request_cookie", "obey_clients", "ignore_language_order", "min_uses", "max_object", "max_variants", "max_memory", "refresh_ahead", "collapse_wait"
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
[route.cache]
ttl = { 99 = "1d", 2xy = "1d", 404 = 1 }
#! route[1].cache.ttl.99: expected it for a status such as 404, for "4xx" or for "any"
#! route[1].cache.ttl.2xy: expected it for a status such as 404, for "4xx" or for "any"
#! route[1].cache.ttl.404: found the integer 1, expected a duration such as "500ms", "2s", "1m" or "1h"
force_ttl = { 404 = "1m", 416 = "1m", 3 = "1s" }
#! route[1].cache.force_ttl.416: found a status that is never stored, because it tells of one request alone
#! route[1].cache.force_ttl.3: expected it for a status such as 404, for "4xx" or for "any"
key = { host = 1, query = "some", query_except = ["a"], headers = ["a b"], cookies = "c", more = 1 }
#! route[1].cache.key.host: found the integer 1, expected true or false
#! route[1].cache.key.query: found "some", expected true, false, "sorted" or a list of query parameters
#! route[1].cache.key.query_except: found beside "query", expected only one of them
#! route[1].cache.key.headers[1]: found "a b", expected a name
#! route[1].cache.key.cookies: found "c", expected a list of cookies
#! route[1].cache.key.more: unknown key; expected one of "host", "query", "query_except", "headers", "cookies"
"#,
    r#"
[cache]
memory = "1KiB"
#! cache.memory: found "1KiB", expected a size from "1MiB" to "16384GiB"
transient = "1KiB"
#! cache.transient: found "1KiB", expected a size from "1MiB" to "16384GiB"
disk = { path = "", size = "1" }
#! cache.disk.path: found "", expected the path of a directory
#! cache.disk.size: found "1", expected a size from "1MiB" to "1048576GiB"
sise = 1
#! cache.sise: unknown key; expected one of "memory", "transient", "disk"
[[route]]
path = "/"
upstream = "app"
"#,
];
