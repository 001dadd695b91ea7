//! Which requests share what is stored: parts of the key, requests that pass by, and POST by its body.

use std::sync::{Arc, Barrier};
use std::thread;

use super::{caching, counting};
use crate::harness::Gateway;
use crate::harness::client::{self, Connection, get};
use crate::harness::origin::Origin;

/// What a route says of its key, and two requests (target, and fields in lines of their own) that share what is stored
/// or do not.
const SHARING: &[(&str, [&str; 2], bool)] = &[
    ("{}", ["/a?b=1", "/a?b=1"], true),
    ("{}", ["/a?b=1", "/a?b=2"], false),
    ("{}", ["/a", "/b"], false),
    (
        "{}",
        ["/a\nHost: one.example", "/a\nHost: two.example"],
        false,
    ),
    (
        "{}",
        ["/a\nCookie: tier=gold", "/a\nCookie: tier=tin"],
        true,
    ),
    (
        "{ host = false }",
        ["/a\nHost: one.example", "/a\nHost: two.example"],
        true,
    ),
    ("{ query = false }", ["/a?b=1", "/a?b=2"], true),
    ("{ query = \"sorted\" }", ["/a?b=1&c=2", "/a?c=2&b=1"], true),
    ("{ query = \"sorted\" }", ["/a?b=1&c=2", "/a?b=1"], false),
    (
        "{ query = [\"page\"] }",
        ["/a?page=1&utm=x", "/a?utm=y&page=1"],
        true,
    ),
    ("{ query = [\"page\"] }", ["/a?page=1", "/a?page=2"], false),
    (
        "{ query_except = [\"utm\"] }",
        ["/a?page=1&utm=x", "/a?utm=y&page=1"],
        true,
    ),
    (
        "{ query_except = [\"utm\"] }",
        ["/a?page=1", "/a?page=2"],
        false,
    ),
    (
        "{ headers = [\"X-Tenant\"] }",
        ["/a\nX-Tenant: one", "/a\nx-tenant: one"],
        true,
    ),
    (
        "{ headers = [\"X-Tenant\"] }",
        ["/a\nX-Tenant: one", "/a\nX-Tenant: two"],
        false,
    ),
    (
        "{ headers = [\"X-Tenant\"] }",
        ["/a\nX-Tenant:", "/a"],
        false,
    ),
    (
        "{ cookies = [\"tier\"] }",
        ["/a\nCookie: tier=gold; id=1", "/a\nCookie: id=2; tier=gold"],
        true,
    ),
    (
        "{ cookies = [\"tier\"] }",
        ["/a\nCookie: tier=gold", "/a\nCookie: tier=tin"],
        false,
    ),
];

#[test]
fn requests_share_what_the_parts_of_their_keys_say() {
    let origin = counting("max-age=60");
    let routes: Vec<_> = SHARING
        .iter()
        .enumerate()
        .map(|(at, (key, ..))| {
            format!(
                "[[route]]\npath = \"/{at}/{{*rest}}\"\nupstream = \"app\"\ncache = {{ key = {key} }}\n"
            )
        })
        .collect();
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n{}",
        origin.address,
        routes.concat()
    ));
    for (at, (key, requests, is_shared)) in SHARING.iter().enumerate() {
        let [one, other] = requests.map(|request| {
            let (target, fields) = request.split_once('\n').unwrap_or((request, "Y: z"));
            let host = if fields.contains("Host:") {
                ""
            } else {
                "Host: test\r\n"
            };
            client::send(
                gateway.address,
                &format!("GET /{at}{target} HTTP/1.1\r\n{host}{fields}\r\n\r\n"),
            )
            .text()
        });
        assert_eq!(one == other, *is_shared, "{key}: {requests:?}");
    }
}

#[test]
fn hosts_left_out_of_the_key_mix_no_upstreams() {
    let origins = [speaking(), counting("max-age=60")];
    let routes: Vec<_> = ["a", "b"]
        .iter()
        .zip(&origins)
        .map(|(name, origin)| {
            format!(
                "[upstream.{name}]\nservers = [\"{}\"]\n[[route]]\nhost = \"*.{name}.example\"\npath = \"/{{*rest}}\"\nupstream = \"{name}\"\ncache = {{ key = {{ host = false }} }}\n",
                origin.address
            )
        })
        .collect();
    let gateway = Gateway::start(&routes.concat());
    let ask = |host: &str| {
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}.example\r\n\r\n");
        client::send(gateway.address, &request).text()
    };
    for _ in 0..2 {
        assert_eq!(ask("one.a"), "en tin-");
        assert_eq!(ask("two.a"), "en tin-");
        assert_eq!(ask("one.b"), "1");
        assert_eq!(ask("two.b"), "1");
    }
    assert_eq!(origins[0].heads_waiting(), 1);
}

#[test]
fn what_passes_by_is_neither_taken_from_the_cache_nor_stored() {
    let origin = counting("max-age=60");
    let gateway = caching(
        origin.address,
        "{ bypass = [\"header:x-fresh\", \"header:x-mode=live\", \"cookie:session\", \"query:nocache\"] }",
    );
    let ask = |target: &str, field: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n{field}\r\n");
        client::send(gateway.address, &request).text()
    };
    assert_eq!(ask("/", ""), "1");
    for (expected, field) in [
        ("2", "X-Fresh: whatever\r\n"),
        ("3", "X-Mode: live\r\n"),
        ("4", "Cookie: a=b; session=1\r\n"),
    ] {
        assert_eq!(ask("/", field), expected, "{field}");
        assert_eq!(ask("/", ""), "1");
    }
    assert_eq!(ask("/", "X-Mode: usual\r\nCookie: sessions=1\r\n"), "1");
    assert_eq!(ask("/?nocache", ""), "5");
    assert_eq!(ask("/?nocache=1", ""), "6");
    assert_eq!(ask("/?nocaches", ""), "7");
    assert_eq!(ask("/?nocaches", ""), "7");
    gateway.wait_for_metric("weir_cache_passed_total", 5);
}

/// An origin that answers with the language and the tier it is asked for, and varies on the language.
fn speaking() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let language = if head.contains("Accept-Language: de") {
                "de"
            } else {
                "en"
            };
            let tier = if head.contains("tier=gold") {
                "gold"
            } else {
                "tin-"
            };
            peer.send(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: 7\r\n\r\n{language} {tier}"));
        }
    })
}

#[test]
fn fields_that_the_origin_does_not_get_choose_nothing() {
    const GERMAN: &str = "Accept-Language: de\r\nCookie: tier=gold\r\n";
    let origin = speaking();
    let gateway = caching(origin.address, "{ key = { cookies = [\"tier\"] } }");
    let ask = |fields: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
        client::send(gateway.address, &request)
    };
    for (named, expected) in [
        ("close, accept-language", "en gold"),
        ("Cookie", "de tin-"),
        ("keep-alive, TE, x-other", "de gold"),
    ] {
        let named = ask(&format!("Connection: {named}\r\n{GERMAN}"));
        assert_eq!(named.text(), expected);
        assert_eq!(
            named.field("cache-status"),
            Some("weir; fwd=bypass"),
            "{}",
            named.head
        );
    }
    assert_eq!(ask(GERMAN).text(), "de gold");
    // What every gateway removes chooses nothing, so these find what is stored.
    for usual in ["close", "keep-alive", "TE, close", "Keep-Alive"] {
        let hit = ask(&format!("Connection: {usual}\r\nTE: trailers\r\n{GERMAN}"));
        let said = hit.field("cache-status").unwrap_or_default();
        assert!(said.starts_with("weir; hit"), "{usual}: {}", hit.head);
        assert_eq!(hit.text(), "de gold");
    }
}

#[test]
fn only_an_upgrade_that_is_passed_on_passes_by() {
    let origin = counting("max-age=60");
    let gateway = caching(origin.address, "true");
    let ask = |protocol: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        );
        client::send(gateway.address, &request).text()
    };
    assert_eq!(get(gateway.address, "/").text(), "1");
    assert_eq!(ask("h2c"), "1");
    assert_eq!(ask("websocket"), "2");
}

fn post(connection: &mut Connection, body: &str) -> String {
    connection.send(format!(
        "POST /query HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    connection.response().text()
}

#[test]
fn a_post_passes_by_unless_the_route_names_it() {
    let origin = counting("max-age=60");
    for cache in ["true", "{ methods = [\"GET\", \"HEAD\"] }"] {
        let gateway = caching(origin.address, cache);
        let mut connection = Connection::open(gateway.address);
        assert_ne!(post(&mut connection, "a"), post(&mut connection, "a"));
    }
}

#[test]
fn a_post_that_is_named_is_found_by_its_body() {
    let origin = counting("max-age=60");
    let gateway = caching(
        origin.address,
        "{ methods = [\"GET\", \"HEAD\", \"POST\"] }",
    );
    let mut connection = Connection::open(gateway.address);
    let long = "x".repeat(60_000);
    for _ in 0..2 {
        assert_eq!(post(&mut connection, "a"), "1");
        assert_eq!(post(&mut connection, "b"), "2");
        assert_eq!(post(&mut connection, ""), "3");
        assert_eq!(post(&mut connection, &long), "4");
        assert_eq!(connection.get("/query").text(), "5");
    }
    // The body may come later than the head, and the next request at once.
    connection.send("POST /query HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\n");
    connection.send("bGET /query HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(connection.response().text(), "2");
    assert_eq!(connection.response().text(), "5");
    gateway.wait_for_metric("weir_cache_hits_total", 7);
    // Too large, of unknown length, or not sent before it is asked for.
    let large = "x".repeat(70_000);
    assert_ne!(post(&mut connection, &large), post(&mut connection, &large));
    for fields in [
        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        "Content-Length: 1\r\nExpect: 100-continue\r\n\r\na",
    ] {
        let before = origin.heads_waiting();
        connection.send(format!("POST /query HTTP/1.1\r\nHost: test\r\n{fields}"));
        assert_eq!(connection.response().status, 200);
        assert_eq!(
            (before > 0, origin.heads_waiting()),
            (before > 0, 1),
            "{fields}"
        );
    }
}

#[test]
fn a_body_that_does_not_come_is_waited_for_as_long_as_any() {
    let origin = counting("max-age=60");
    let gateway = Gateway::start(&format!(
        "[timeouts]\nbody = \"200ms\"\n[upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = {{ methods = [\"POST\"] }}\n",
        origin.address
    ));
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\na");
    assert_eq!(connection.response().status, 408);
    assert!(connection.is_closed());
    assert_eq!(origin.heads_waiting(), 0);
}

#[test]
fn posts_with_one_body_wait_for_one_answer() {
    const CLIENTS: usize = 20;
    let origin = counting("max-age=60");
    let gateway = caching(
        origin.address,
        "{ methods = [\"GET\", \"HEAD\", \"POST\"] }",
    );
    let (address, together) = (gateway.address, Arc::new(Barrier::new(CLIENTS)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let together = Arc::clone(&together);
            thread::spawn(move || {
                let mut connection = Connection::open(address);
                together.wait();
                (
                    post(&mut connection, "same"),
                    post(&mut connection, "other"),
                )
            })
        })
        .collect();
    let answers: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().expect("it is answered"))
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_ne!(answers[0].0, answers[0].1);
    assert_eq!(origin.heads_waiting(), 2);
}

#[test]
fn a_stale_post_is_asked_again_without_conditions() {
    let origin = counting("max-age=0, stale-while-revalidate=60");
    let gateway = caching(
        origin.address,
        "{ methods = [\"POST\"], stale_while_revalidate = \"60s\" }",
    );
    let mut connection = Connection::open(gateway.address);
    assert_eq!(post(&mut connection, "a"), "1");
    assert_eq!(post(&mut connection, "a"), "2");
    for head in origin.heads() {
        assert!(!head.contains("If-"), "{head}");
    }
    assert_eq!(get(gateway.address, "/query").text(), "3");
}
