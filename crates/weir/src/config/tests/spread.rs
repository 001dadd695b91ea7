//! What a route says of several upstreams, and an upstream of the clients that come back.

use std::time::Duration;

use weir_gateway::settings::{HashOn, Mirror, SameSite, Settings, SplitBy};

use super::examples::forward;
use super::{LISTENER, ROUTE, assert_problems, valid};

const UPSTREAMS: &str = r#"upstream = { stable.servers = ["127.0.0.1:9001"], next.servers = ["127.0.0.1:9002"], shadow.servers = ["127.0.0.1:9003"] }
"#;

fn with_route(keys: &str) -> Settings {
    valid(
        &[
            LISTENER,
            UPSTREAMS,
            "[[route]]\npath = \"/{*rest}\"\n",
            keys,
        ]
        .concat(),
    )
}

#[test]
fn a_split_and_a_mirror_are_what_they_say() {
    let settings = with_route("split = { stable = 95, next = 0.5, shadow = 0 }");
    let rule = forward(&settings.routes[0]);
    let split = rule.split.as_ref().expect("a split");
    let named = split.shares.iter().map(|share| {
        let name = settings.upstreams[share.upstream].name.as_str();
        (name, share.weight)
    });
    // In the order of the file, which says whose keys in the cache are the plain ones.
    assert_eq!(
        named.collect::<Vec<_>>(),
        [("stable", 95.0), ("next", 0.5), ("shadow", 0.0)]
    );
    assert_eq!(rule.upstream, split.shares[0].upstream);
    assert_eq!(split.by, None);

    let split_by = |sticky: &str| {
        let keys = format!("split = {{ stable = 1, next = 1 }}\nsticky = {sticky}");
        let settings = with_route(&keys);
        let split = forward(&settings.routes[0]).split.clone();
        split.expect("a split").by.expect("it is sticky")
    };
    let by_part = split_by(r#"{ hash_on = "header:X-User" }"#);
    assert_eq!(by_part, SplitBy::Part(HashOn::Header("x-user".to_owned())));
    let SplitBy::Cookie(cookie) = split_by(
        r#"{ cookie = "v", max_age = "30d", domain = "Example.com", same_site = "none" }"#,
    ) else {
        panic!("a cookie");
    };
    assert_eq!(
        (cookie.name.as_str(), cookie.same_site),
        ("v", SameSite::None)
    );
    assert_eq!(cookie.max_age, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(cookie.domain.as_deref(), Some("example.com"));

    let settings =
        with_route("upstream = \"stable\"\nmirror = { upstream = \"shadow\", share = 0.1 }");
    let rule = forward(&settings.routes[0]);
    let mirror = rule.mirror.as_ref().expect("a mirror");
    assert_eq!(settings.upstreams[mirror.upstream].name, "shadow");
    assert_eq!((mirror.share, mirror.body_bytes), (0.1, Mirror::BODY_BYTES));
    assert_eq!(mirror.methods, ["GET", "HEAD"]);
    // What is forwarded by itself does not look like a copy.
    assert_eq!(rule.request_headers.remove, [Mirror::FIELD]);
    assert_eq!(rule.split, None);
}

/// The upstream that a broken new version falls back to is the old one.
#[test]
fn a_split_may_fall_back_to_one_of_its_own() {
    let settings = with_route(
        "split = { stable = 1, next = 1 }\nfallback = { upstream = \"stable\" }\nprotect = true",
    );
    let fallback = forward(&settings.routes[0]).care.fallback.as_ref();
    assert!(fallback.expect("a fallback").upstream.is_some());
    let is_protected = |name: &str| {
        let mut upstreams = settings.upstreams.iter();
        let found = upstreams.find(|upstream| upstream.name == name);
        found.expect("an upstream").care.concurrency.is_some()
    };
    assert!(is_protected("stable") && is_protected("next") && !is_protected("shadow"));
}

#[test]
fn the_examples_of_the_reference_are_sound() {
    const ROUTING: &str = include_str!("../../../../../docs/reference/routing.md");
    const SESSIONS: &str = include_str!("../../../../../docs/reference/upstreams.md");
    let example = |page: &'static str, heading: &str| {
        let (_, part) = page.split_once(heading).expect("a heading");
        let (_, block) = part.split_once("```toml\n").expect("an example");
        block.split("```").next().expect("its end")
    };
    for heading in ["\n## Split\n", "\n## Mirror\n"] {
        let settings = valid(&[LISTENER, example(ROUTING, heading)].concat());
        let rule = forward(&settings.routes[0]);
        assert!(rule.split.is_some() || rule.mirror.is_some(), "{heading}");
    }
    let sessions = example(SESSIONS, "\n## Sticky sessions\n");
    let settings = valid(&[LISTENER, ROUTE, sessions].concat());
    assert!(settings.upstreams[0].sticky.is_some());
}

#[test]
fn mistakes_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAMS], BROKEN);
    assert_problems(&[LISTENER], BROKEN_UPSTREAMS);
}

const BROKEN: &[&str] = &[
    r#"
[[route]]
path = "/"
split = { stable = 0, next = 0 }
#! route[1].split: found shares that are all zero, expected one above zero
sticky = {}
#! route[1].sticky: found neither "cookie" nor "hash_on", expected one of them
mirror = { share = 2 }
#! route[1].mirror.upstream: missing, expected the name of an upstream
#! route[1].mirror.share: found the integer 2, expected a number from 0.0001 to 1
"#,
    r#"
[[route]]
path = "/"
split = {}
#! route[1].split: found no upstream, expected their shares as in `{ stable = 95, next = 5 }`
"#,
    r#"
[[route]]
path = "/"
split = { stable = -1, nxt = 5 }
#! route[1].split.stable: found the integer -1, expected a number from 0 to 1000000
#! route[1].split.nxt: there is no upstream "nxt"; did you mean "next"?
"#,
    r#"
[[route]]
path = "/"
split = "stable"
#! route[1].split: found "stable", expected a table such as `{ stable = 95, next = 5 }`
"#,
    r#"
[[route]]
path = "/"
upstream = "stable"
split = { next = 1 }
#! route[1].split: found beside "upstream", expected exactly one of "upstream", "split", "redirect", "respond", "kv", "collect"
"#,
    r#"
[[route]]
path = "/"
upstream = "stable"
sticky = { cookie = "a" }
#! route[1].sticky: has a meaning only with "split", expected none here; sessions that stay with a server are `sticky` of its [upstream.NAME]
mirror = { upstream = "stable", methods = ["get"], body = "1GiB", in_flight = 0 }
#! route[1].mirror.upstream: found "stable", expected another upstream than those that the route forwards to
#! route[1].mirror.methods[1]: found "get", expected methods in upper case; did you mean "GET"?
#! route[1].mirror.body: found "1GiB", expected a size from "0B" to "16MiB"
#! route[1].mirror.in_flight: found the integer 0, expected an integer from 1 to 100000
"#,
    r#"
[[route]]
path = "/"
respond = {}
mirror = { upstream = "shadow" }
#! route[1].mirror: has no meaning with "respond", expected it only with "upstream" or "split"
"#,
    r#"
[[route]]
path = "/"
split = { stable = 1, next = 1 }
sticky = { cookie = "a", hash_on = "host", max_age = "1ms", domain = "localhost", same_site = "some" }
#! route[1].sticky.hash_on: found beside "cookie", expected only one of them
#! route[1].sticky.max_age: found "1ms", expected a duration from "1s" to "9600h"
#! route[1].sticky.domain: found "localhost", expected a domain such as "example.com"
#! route[1].sticky.same_site: found "some", expected one of "lax", "strict", "none"
fallback = { upstream = "neither" }
#! route[1].fallback.upstream: there is no upstream "neither"; expected one of "stable", "next", "shadow"
"#,
    r#"
[[route]]
path = "/"
split = { stable = 1, next = 1 }
sticky = { hash_on = "body", max_age = "1h" }
#! route[1].sticky.hash_on: found "body", expected one of "client-address", "host", "path", "target", "header:NAME", "cookie:NAME", "query:NAME"
#! route[1].sticky.max_age: has a meaning only with "cookie", expected none here
"#,
];

const BROKEN_UPSTREAMS: &[&str] = &[r#"
[upstream.app]
servers = ["127.0.0.1:9001"]
sticky = { cookie = "weir", secret = "too short" }
#! upstream.app.sticky.secret: found 9 characters, expected a string of at least 16 characters
[upstream.other]
servers = ["127.0.0.1:9002"]
sticky = { cookie = "weir", secret = 5 }
#! upstream.other.sticky.cookie: found "weir", which the upstream "app" sets too, expected a name of its own
#! upstream.other.sticky.secret: expected a string of at least 16 characters
[upstream.third]
servers = ["127.0.0.1:9003"]
sticky = { max_age = "1h" }
#! upstream.third.sticky.cookie: missing, expected the name of a cookie such as "weir"
[upstream.fourth]
servers = ["127.0.0.1:9004"]
sticky = { cookie = "__Host-a" }
#! upstream.fourth.sticky.cookie: found "__Host-a", expected the name of a cookie such as "weir"
[[route]]
path = "/"
split = { app = 1, other = 1 }
sticky = { cookie = "weir" }
#! route[1].sticky.cookie: found "weir", which the upstream "app" sets too, expected a name of its own
"#];
