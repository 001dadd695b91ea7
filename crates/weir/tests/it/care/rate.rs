//! Rate limits: each key has its own, over all workers; clients are told; and what is remembered of keys is bounded.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Counting;
use crate::harness::client::{self, Connection, Response};
use crate::harness::{Gateway, forward_everything, tool};

fn gateway(origin: &Counting, rate: &str) -> Gateway {
    let forward = forward_everything(&[origin.origin.address], "");
    Gateway::start(&format!("{forward}rate = {rate}\n"))
}

fn ask_with(address: SocketAddr, path: &str, fields: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
    client::send(address, &request)
}

/// `r` and `t` of the `RateLimit` field.
fn limit(response: &Response) -> (u64, u64) {
    let field = response.field("ratelimit").expect("the field is there");
    let numbers = field
        .strip_prefix("\"default\";r=")
        .and_then(|rest| rest.split_once(";t="))
        .unwrap_or_else(|| panic!("{field}"));
    let number = |text: &str| text.parse().expect("a number");
    (number(numbers.0), number(numbers.1))
}

#[test]
fn each_key_has_its_own_and_is_told() {
    let origin = Counting::start();
    let gateway = gateway(
        &origin,
        "{ requests = 3, per = \"1h\", key = \"header:x-user\" }",
    );
    let ask = |user: &str| ask_with(gateway.address, "/", &format!("X-User: {user}\r\n"));
    for user in ["ann", "bob"] {
        for remaining in [2, 1, 0] {
            let response = ask(user);
            assert_eq!(response.status, 200);
            assert_eq!(
                response.field("ratelimit-policy"),
                Some("\"default\";q=3;w=3600")
            );
            assert_eq!(limit(&response).0, remaining);
        }
        let refused = ask(user);
        assert_eq!(refused.status, 429);
        assert_eq!(
            refused.field("ratelimit-policy"),
            Some("\"default\";q=3;w=3600")
        );
        let (remaining, reset) = limit(&refused);
        let wait: u64 = refused
            .field("retry-after")
            .expect("a time")
            .parse()
            .expect("a number");
        // The first of three comes back after a third of an hour.
        assert!((1_100..=1_200).contains(&wait), "{wait}");
        assert_eq!((remaining, reset), (0, wait));
        assert_eq!(refused.text(), "429 Too Many Requests: rate_limited\n");
    }
    // Those without the field are one key.
    for status in [200, 200, 200, 429] {
        assert_eq!(client::get(gateway.address, "/").status, status);
    }
    assert_eq!(origin.work.total(), 9);
}

#[test]
fn a_key_is_an_address_or_a_part_of_the_path() {
    let origin = Counting::start();
    let rate = |key: &str| format!("{{ requests = 1, per = \"1h\", key = \"{key}\" }}");
    let servers = format!(
        "[upstream.app]\nservers = [\"{}\"]\n",
        origin.origin.address
    );
    let route = |path: &str, key: &str| {
        format!(
            "[[route]]\npath = \"{path}\"\nupstream = \"app\"\nrate = {}\n",
            rate(key)
        )
    };
    let gateway = Gateway::start(&format!(
        "{servers}{}{}",
        route("/address", "client-address"),
        route("/items/{id}/{*rest}", "path:id"),
    ));
    for (last, status) in [(1, 200), (1, 429), (2, 200), (3, 200), (2, 429)] {
        let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
        assert_eq!(
            get_from(from, gateway.address, "/address"),
            status,
            "{from}"
        );
    }
    for (path, status) in [
        ("/items/1/a", 200),
        ("/items/1/b", 429),
        ("/items/2/a", 200),
        // The same in other letters.
        ("/items/%32/c", 429),
    ] {
        assert_eq!(client::get(gateway.address, path).status, status, "{path}");
    }
}

fn get_from(from: SocketAddr, to: SocketAddr, path: &str) -> u16 {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&from.into()).expect("all of 127/8 is ours");
    socket.connect(&to.into()).expect("the gateway accepts");
    Connection::on(TcpStream::from(socket)).get(path).status
}

#[test]
fn a_burst_is_counted_exactly_over_all_workers() {
    const BURST: usize = 200;
    let origin = Counting::start();
    let rate = format!("{{ requests = 1, per = \"24h\", burst = {BURST}, key = \"route\" }}");
    let gateway = gateway(&origin, &rate);
    let good = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(gateway.address);
                for _ in 0..50 {
                    match connection.get("/").status {
                        200 => drop(good.fetch_add(1, Ordering::Relaxed)),
                        429 => {}
                        status => panic!("{status}"),
                    }
                }
            });
        }
    });
    assert_eq!(good.into_inner(), BURST);
    assert_eq!(origin.work.total(), BURST as u64);
}

#[test]
fn every_limit_counts_and_the_tightest_is_told() {
    let origin = Counting::start();
    let gateway = gateway(
        &origin,
        "[{ requests = 5, per = \"1h\", key = \"route\" }, { requests = 2, per = \"1h\", key = \"header:x-user\" }]",
    );
    let ask = |user: &str| ask_with(gateway.address, "/", &format!("X-User: {user}\r\n"));
    let told = |response: &Response| (response.status, limit(response).0);
    for (user, expected) in [
        ("ann", (200, 1)),
        ("ann", (200, 0)),
        ("ann", (429, 0)),
        // The route has counted two of the three.
        ("bob", (200, 1)),
        ("bob", (200, 0)),
        ("eve", (200, 0)),
        ("eve", (429, 0)),
    ] {
        assert_eq!(told(&ask(user)), expected, "{user}");
    }
}

#[test]
fn what_comes_from_the_cache_counts_too() {
    let origin = Counting::start();
    let forward = forward_everything(&[origin.origin.address], "");
    let gateway = Gateway::start(&format!(
        "[cache]\nmemory = \"1MiB\"\n{forward}cache = {{ ttl = \"1h\" }}\nrate = {{ requests = 3, per = \"1h\", key = \"route\" }}\n"
    ));
    for expected in [(200, 2), (200, 1), (200, 0), (429, 0)] {
        let response = client::get(gateway.address, "/");
        assert_eq!((response.status, limit(&response).0), expected);
    }
    assert_eq!(origin.work.total(), 1);
}

/// The reference says 16 bytes for each key, and that there are never more keys than configured.
#[test]
fn a_flood_of_keys_costs_what_the_reference_says() {
    const KEYS: u64 = 1_000_000;
    let config = |keys: u64| {
        format!(
            "[[route]]\npath = \"/fixed\"\nrespond = {{}}\n[upstream.app]\nservers = [\"127.0.0.1:1\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n\
             rate = {{ requests = 1, per = \"24h\", key = \"header:x-user\", keys = {keys} }}\n"
        )
    };
    let resident_after = |keys: u64| {
        let gateway = Gateway::start(&config(keys));
        let url = format!("http://{}/", gateway.address);
        let arguments = [
            "load",
            &url,
            "-c",
            "32",
            "-n",
            "100000",
            "--header",
            "x-user: {uuid}",
            "--json",
            "-",
        ];
        tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments);
        assert_eq!(client::get(gateway.address, "/fixed").status, 200);
        gateway.process.resident_bytes()
    };
    let (few, many) = (resident_after(16), resident_after(KEYS));
    let cost = many.saturating_sub(few);
    println!("{KEYS} keys take {cost} bytes");
    // A hundred thousand keys touch every page of the table.
    assert!((10 << 20..=18 << 20).contains(&cost), "{cost}");
}

/// Behind a balancer each of its clients has a rate of its own, and none gets another one by what it writes.
#[test]
fn behind_a_trusted_proxy_rates_are_those_of_its_clients() {
    let origin = Counting::start();
    let forward = forward_everything(&[origin.origin.address], "");
    let rate = "rate = { requests = 1, per = \"1h\" }\n";
    let trusted = "[trusted_proxies]\nnetworks = [\"127.0.0.1\", \"10.0.0.0/8\"]\n";
    for (proxies, second) in [("", 429), (trusted, 200)] {
        let gateway = Gateway::start(&format!("{proxies}{forward}{rate}"));
        let ask = |said: &str| {
            let fields = format!("X-Forwarded-For: {said}\r\nX-Forwarded-Host: evil\r\n");
            ask_with(gateway.address, "/", &fields).status
        };
        assert_eq!(ask("192.0.2.1"), 200);
        let head = origin.origin.next_head();
        assert!(!head.contains("evil"), "{head}");
        assert!(
            head.contains("X-Forwarded-For: 192.0.2.1, 127.0.0.1\r\n"),
            "{head}"
        );
        assert_eq!(ask("192.0.2.2"), second);
        assert_eq!(
            ask("192.0.2.9, 192.0.2.1, 10.1.1.1"),
            429,
            "it says so itself"
        );
    }
}

#[test]
fn what_is_answered_here_has_limits_too() {
    let gateway = Gateway::start(
        "[[route]]\npath = \"/moved\"\nredirect = { to = \"/new\" }\nbody_limit = 3\n\
         rate = { requests = 4, per = \"1h\" }\n\
         [[route]]\npath = \"/fixed\"\nrespond = { body = \"x\" }\nbody_limit = 3\n\
         rate = { requests = 4, per = \"1h\" }\n",
    );
    for (path, status) in [("/moved", 301), ("/fixed", 200)] {
        let large = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
        );
        // What says that it is too large counts for nothing.
        assert_eq!(client::send(gateway.address, &large).status, 413);
        assert_eq!(client::send(gateway.address, &chunked).status, 413);
        for remaining in [2, 1, 0] {
            let answer = ask_with(gateway.address, path, "");
            assert_eq!(answer.status, status);
            assert_eq!(limit(&answer).0, remaining);
        }
        assert_eq!(ask_with(gateway.address, path, "").status, 429);
    }
}
