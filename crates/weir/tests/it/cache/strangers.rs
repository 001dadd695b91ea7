//! Nobody is given what was meant for somebody else, however odd the request or the answer that came first.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use super::{caching, counting, patient};
use crate::harness::Gateway;
use crate::harness::client::{Response, get, send};
use crate::harness::origin::Origin;

fn ask(gateway: &Gateway, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    send(gateway.address, &request)
}

/// Answers with the lines of some fields as they came, in brackets.
fn echoing(vary: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let is_one = |name: &str| {
                ["origin", "cookie", "x-tenant", "accept-language", "accept"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            let lines = head.lines().filter_map(|line| line.split_once(':'));
            let values = lines.filter(|(name, _)| is_one(name));
            let values: Vec<_> = values
                .map(|(_, value)| format!("[{}]", value.trim()))
                .collect();
            let body = values.concat();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{vary}Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

/// A field, and two requests with other values of it, in lines.
const APART: [(&str, [&[&str]; 2]); 11] = [
    ("Origin", [&["https://a,"], &["https://a"]]),
    ("Origin", [&[",https://a"], &["https://a"]]),
    (
        "Origin",
        [&["https://a", "https://b"], &["https://a, https://b"]],
    ),
    ("Origin", [&["https://a", ""], &["https://a"]]),
    ("Origin", [&[""], &[]]),
    ("X-Tenant", [&["1,"], &["1"]]),
    ("X-Tenant", [&["1", "2"], &["1, 2"]]),
    ("Cookie", [&["tier=gold,"], &["tier=gold"]]),
    ("Cookie", [&["tier =gold"], &["tier=gold"]]),
    ("Cookie", [&["a=b", "tier=gold"], &["a=b; tier=gold"]]),
    ("Accept-Language", [&["de, en"], &["en, de"]]),
];

fn keep_apart(vary: &'static str, key: &str) {
    let origin = echoing(vary);
    let gateway = caching(origin.address, key);
    for (number, (name, requests)) in APART.into_iter().enumerate() {
        for _ in 0..2 {
            for lines in requests {
                let all = |form: &dyn Fn(&&str) -> String| {
                    let each: Vec<_> = lines.iter().map(form).collect();
                    each.concat()
                };
                let fields = all(&|value| format!("{name}: {value}\r\n"));
                let answer = ask(&gateway, &format!("/{number}"), &fields);
                let own = all(&|value| format!("[{value}]"));
                assert_eq!(answer.text(), own, "{name}: {requests:?}");
            }
        }
    }
    assert_eq!(origin.heads_waiting(), 2 * APART.len());
}

#[test]
fn variants_of_fields_are_compared_as_they_stand() {
    keep_apart(
        "Vary: Origin, X-Tenant, Cookie, Accept-Language\r\n",
        "true",
    );
}

#[test]
fn fields_and_cookies_of_the_key_are_compared_as_they_stand() {
    keep_apart(
        "",
        "{ key = { headers = [\"origin\", \"x-tenant\", \"accept-language\"], cookies = [\"tier\"] } }",
    );
}

#[test]
fn a_route_can_leave_the_order_of_languages_out() {
    for (cache, asked) in [("true", 2), ("{ ignore_language_order = true }", 1)] {
        let origin = echoing("Vary: Accept-Language\r\n");
        let gateway = caching(origin.address, cache);
        for order in ["de, en", "en,de", "de, en"] {
            ask(&gateway, "/", &format!("Accept-Language: {order}\r\n"));
        }
        assert_eq!(origin.heads_waiting(), asked, "{cache}");
    }
}

/// Answers with the status that the path begins with, and for a range beyond the end 416; with a number, one more each time.
fn failing() -> Origin {
    Origin::start(|mut peer, number| {
        for count in 0.. {
            let Some(head) = peer.head() else { return };
            let status = if head.contains("Range: bytes=") {
                "416"
            } else {
                &head[5..8]
            };
            let control = if head.contains("X-Mine") {
                "private"
            } else {
                "max-age=600"
            };
            let said = if head.contains("/unsaid") {
                ""
            } else {
                control
            };
            let body = format!("{number}.{count}");
            peer.send(format!(
                "HTTP/1.1 {status} What\r\nCache-Control: {said}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

#[test]
fn what_is_said_of_a_part_is_not_kept_as_the_whole() {
    let origin = failing();
    for cache in ["true", "{ force_ttl = { any = \"10m\" } }"] {
        let gateway = caching(origin.address, cache);
        // What is known to be shared with nobody is asked for as the client asks.
        ask(&gateway, "/200", "X-Mine: 1\r\n");
        assert_eq!(ask(&gateway, "/200", "Range: bytes=9-\r\n").status, 416);
        assert_eq!(ask(&gateway, "/200", "").status, 200, "{cache}");
    }
}

#[test]
fn a_forced_lifetime_is_for_what_tells_of_the_resource() {
    let is_kept = |gateway: &Gateway, target: &str| {
        let [one, other] = [(); 2].map(|()| ask(gateway, target, ""));
        assert_eq!(one.status.to_string(), target[1..4]);
        one.text() == other.text()
    };
    let origin = failing();
    let gateway = caching(
        origin.address,
        "{ force_ttl = \"10m\", stale_while_revalidate = \"10m\", stale_if_error = \"10m\" }",
    );
    for (status, expected) in [
        (200, true),
        (301, true),
        (404, true),
        (410, true),
        (400, false),
        (403, false),
        (431, false),
        (500, false),
        (503, false),
    ] {
        assert_eq!(
            is_kept(&gateway, &format!("/{status}/unsaid")),
            expected,
            "{status}"
        );
    }
    let gateway = caching(
        origin.address,
        "{ force_ttl = { 500 = \"10m\", 4xx = \"10m\" } }",
    );
    for (status, expected) in [
        (500, true),
        (403, true),
        (431, false),
        (200, false),
        (503, false),
    ] {
        assert_eq!(
            is_kept(&gateway, &format!("/{status}/unsaid")),
            expected,
            "{status}"
        );
    }
}

#[test]
fn what_cannot_be_read_as_a_whole_is_read_to_the_safe_side() {
    let cases = [
        ("Cache-Control: max-age=600", true),
        (
            "Cache-Control: max-age=600, x-private-hint, a=\"private\"",
            true,
        ),
        ("Cache-Control: public; max-age=600", true),
        ("Cache-Control: private; max-age=0", false),
        ("Cache-Control: x=\"y, private, no-store", false),
        ("Cache-Control: no-cache=\"a, b", false),
        ("Cache-Control: private=true", false),
        (
            "CDN-Cache-Control: no-store,\r\nCache-Control: max-age=600",
            false,
        ),
        (
            "CDN-Cache-Control: max-age=600,\r\nCache-Control: private",
            false,
        ),
    ];
    for (fields, is_kept) in cases {
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 0\r\n\r\n"
                ));
            }
        });
        // For a day, unless the origin objects.
        let gateway = caching(origin.address, "{ ttl = \"1d\" }");
        for _ in 0..2 {
            ask(&gateway, "/", "");
        }
        assert_eq!(origin.heads_waiting() == 1, is_kept, "{fields}");
    }
}

#[test]
fn a_body_asks_for_what_its_fields_say_it_is() {
    let origin = counting("max-age=60");
    let gateway = caching(origin.address, "{ methods = [\"POST\"] }");
    let post = |fields: &str| {
        let request =
            format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n{fields}\r\n1");
        send(gateway.address, &request).text()
    };
    let kinds = [
        "",
        "Content-Type: application/json\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "Content-Type: application/json\r\nContent-Language: de\r\n",
    ];
    for _ in 0..2 {
        for (at, fields) in kinds.iter().enumerate() {
            assert_eq!(post(fields), (at + 1).to_string(), "{fields}");
        }
    }
}

/// What a session begins with goes to the client that it is for, also when others waited for the same answer.
#[test]
fn a_cookie_is_for_the_client_that_it_was_set_for() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        // One answer a connection, so that its number is that of the answer.
        if peer.head().is_some() {
            let _ = wait.lock().expect("one at a time").recv();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nSet-Cookie: s={number}\r\nContent-Length: 1\r\n\r\nx"
            ));
        }
    });
    let gateway = patient(origin.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..3)
        .map(|_| thread::spawn(move || get(address, "/")))
        .collect();
    gateway.wait_for_metric("weir_cache_waits_total", 2);
    for _ in 0..4 {
        go.send(()).expect("the origin waits");
    }
    let mut answers: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().expect("it is answered"))
        .collect();
    answers.push(get(address, "/"));
    let cookies: HashSet<_> = answers
        .iter()
        .map(|answer| answer.field("set-cookie").expect("its own cookie"))
        .collect();
    assert_eq!(cookies.len(), 4, "{cookies:?}");
    let said = answers[3].field("cache-status");
    assert_eq!(said, Some("weir; fwd=uri-miss; detail=set-cookie"));
}

#[test]
fn a_page_for_one_with_cookies_is_not_for_others_because_of_a_date() {
    for (route, sent_by_origin) in [
        ("true", 4),
        ("{ request_cookie = \"store\" }", 1),
        ("{ ttl = \"1h\" }", 1),
    ] {
        let origin = Origin::answering(
            "HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 1\r\n\r\nx",
        );
        let gateway = caching(origin.address, route);
        let first = ask(&gateway, "/", "Cookie: session=1\r\n");
        let expected = if sent_by_origin > 1 {
            "weir; fwd=uri-miss; detail=request-cookie"
        } else {
            "weir; fwd=uri-miss; stored"
        };
        assert_eq!(first.field("cache-status"), Some(expected), "{route}");
        // Nobody asks for all of it in vain, now that it is known that nothing is stored.
        let part = ask(&gateway, "/", "Cookie: session=1\r\nRange: bytes=0-0\r\n");
        assert!(matches!(part.status, 200 | 206), "{route}");
        ask(&gateway, "/", "Cookie: session=2\r\n");
        ask(&gateway, "/", "");
        // What was stored for one without cookies answers all.
        ask(&gateway, "/", "Cookie: session=3\r\n");
        assert_eq!(origin.heads_waiting(), sent_by_origin, "{route}");
    }
}

/// A route that keeps cookies from the origin asks nothing in the name of one client.
#[test]
fn cookies_that_the_origin_does_not_get_tell_nobody_apart() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 1\r\n\r\nx",
    );
    let gateway = caching(
        origin.address,
        "true\nrequest_headers = { remove = [\"cookie\"] }",
    );
    for number in 0..3 {
        ask(&gateway, "/", &format!("Cookie: session={number}\r\n"));
    }
    assert_eq!(origin.heads_waiting(), 1);
}
