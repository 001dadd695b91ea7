//! Deadlines and limits on what clients may use; whoever breaks one is refused, and nobody else notices.

mod leaving;

use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::tool::run_to_end;
use crate::harness::{Gateway, PATIENCE, wait_until};

/// A gateway in front of `origin` with further config.
fn gateway(origin: &Origin, keys: &str) -> Gateway {
    let forward = crate::harness::forward_everything(&[origin.address], "");
    Gateway::start(&format!("{keys}\n{forward}"))
}

fn answering() -> Origin {
    Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

#[test]
fn too_few_descriptors_to_serve_anybody_are_told_at_the_start() {
    let weir = env!("CARGO_BIN_EXE_weir");
    let flags = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--to",
        "http://127.0.0.1:1",
    ];
    for few in ["--nofile=20", "--nofile=300"] {
        let run = run_to_end("prlimit", &[&[few, weir][..], &flags].concat());
        assert_eq!(run.status.code(), Some(1), "{few}: {}", run.stderr);
        // Each worker needs eight: four for its runtime, and as many for sockets of listeners.
        let workers = std::thread::available_parallelism()
            .expect("it is known")
            .get();
        let told = format!("at least {} are needed", 320 + 8 * workers);
        assert!(run.stderr.contains(&told), "{few}: {}", run.stderr);
    }
}

/// An origin that reads bodies to their end before it answers.
fn reading() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_it = name.eq_ignore_ascii_case("content-length");
                is_it.then(|| value.parse().expect("a length"))
            });
            match length {
                Some(length) => drop(peer.body(length)),
                None if head.contains("chunked") => drop(peer.until(b"0\r\n\r\n")),
                None => {}
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

/// The gateway serves as ever, and holds no connection but the one that asks.
fn is_well(gateway: &Gateway) {
    assert_eq!(client::get(gateway.address, "/").text(), "ok");
    wait_until("no connection is left", || {
        let open =
            |worker| gateway.metric(&format!("weir_client_connections{{worker=\"{worker}\"}}"));
        open(0) + open(1) == 0
    });
}

/// So many requests failed for this reason by the fault of the client.
fn wait_for_failures(gateway: &Gateway, reason: &str, count: u64) {
    gateway.wait_for_metric(
        &format!("weir_failures_total{{fault=\"client\",reason=\"{reason}\"}}"),
        count,
    );
}

#[test]
fn a_slow_head_is_a_408() {
    let origin = answering();
    let gateway = gateway(&origin, "[timeouts]\nhead = \"300ms\"");
    for begun in ["G", "GET / HTTP/1.1\r\nHost: te", "\r\n"] {
        let mut connection = Connection::open(gateway.address);
        connection.send(begun);
        let response = connection.response();
        assert_eq!(
            (response.status, response.field("connection")),
            (408, Some("close"))
        );
        assert!(connection.is_closed());
    }
    wait_for_failures(&gateway, "head_timeout", 3);

    // Sending a byte now and then buys no time.
    let mut connection = Connection::open(gateway.address);
    let mut stream = connection.stream.try_clone().expect("a second handle");
    let trickle = std::thread::spawn(move || {
        while stream.write_all(b"a").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert_eq!(connection.response().status, 408);
    drop(connection);
    trickle.join().expect("the gateway closed");
    is_well(&gateway);
}

#[test]
fn a_slow_body_is_a_408() {
    let origin = reading();
    let gateway = gateway(&origin, "[timeouts]\nbody = \"300ms\"");
    for begun in [
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbod",
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
    ] {
        let mut connection = Connection::open(gateway.address);
        connection.send(begun);
        let response = connection.response();
        assert_eq!(
            (response.status, response.field("connection")),
            (408, Some("close")),
            "{begun}"
        );
        assert!(connection.is_closed());
    }
    wait_for_failures(&gateway, "body_timeout", 3);
    is_well(&gateway);
}

/// A body that never pauses for long but hardly moves holds an upstream connection all the same.
#[test]
fn a_body_that_trickles_is_a_408() {
    let origin = reading();
    let keys = "[limits]\nbody_rate = \"1KiB\"\n[timeouts]\nbody = \"500ms\"";
    let gateway = gateway(&origin, keys);
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n");
    let mut writer = connection.stream.try_clone().expect("a socket is shared");
    let trickle = std::thread::spawn(move || {
        // Twenty bytes a second, and an end in case nobody objects.
        (0..600).all(|_| {
            std::thread::sleep(Duration::from_millis(50));
            writer.write_all(b"x").is_ok()
        })
    });
    assert_eq!(connection.response().status, 408);
    drop(connection);
    assert!(!trickle.join().expect("it writes"), "it was cut off");
    wait_for_failures(&gateway, "body_timeout", 1);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = answering();
    let gateway = gateway(&origin, "[timeouts]\nidle = \"300ms\"");
    let mut connection = Connection::open(gateway.address);
    assert!(connection.is_closed(), "it never asked");
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").status, 200);
    assert!(connection.is_closed(), "it asked once");
    assert_eq!(
        gateway.metric("weir_requests_total{route=\"\""),
        0,
        "silence is no request"
    );
    is_well(&gateway);
}

#[test]
fn heads_over_a_limit_are_refused() {
    let origin = answering();
    let gateway = gateway(
        &origin,
        "[limits]\nheader_bytes = \"2KiB\"\nheader_count = 10",
    );
    let fields = |count: usize| {
        (0..count).fold(String::new(), |mut fields, number| {
            let _ = write!(fields, "x-{number}: 1\r\n");
            fields
        })
    };
    // With `Host`, a head of 35 bytes without the value of `a`.
    let bytes = |count: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: test\r\na: {}\r\n\r\n",
            "b".repeat(count - 35)
        )
    };
    for (request, status) in [
        (bytes(2048), 200),
        (bytes(2049), 431),
        (bytes(100_000), 431),
        (
            format!("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", fields(9)),
            200,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", fields(10)),
            431,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", fields(1000)),
            431,
        ),
        (
            format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", "a".repeat(1900)),
            200,
        ),
        (
            format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", "a".repeat(3000)),
            414,
        ),
        (format!("GET /{}", "a".repeat(100_000)), 414),
    ] {
        let mut connection = Connection::open(gateway.address);
        // What is refused need not be read to its end.
        let _ = connection.stream.write_all(request.as_bytes());
        let shown = &request[..request.len().min(60)];
        let response = connection.response();
        assert_eq!(response.status, status, "{} {shown}", request.len());
        if status == 200 {
            assert_eq!(connection.get("/").status, 200);
        } else {
            assert_eq!(response.field("connection"), Some("close"));
            assert!(connection.is_closed(), "{shown}");
        }
    }
    wait_for_failures(&gateway, "head_too_large", 2);
    wait_for_failures(&gateway, "too_many_fields", 2);
    wait_for_failures(&gateway, "target_too_long", 2);
    is_well(&gateway);
}

#[test]
fn bodies_over_the_limit_are_refused() {
    let origin = reading();
    let gateway = gateway(
        &origin,
        &format!(
            "[limits]\nbody = \"1000\"\n[[route]]\npath = \"/large\"\nupstream = \"large\"\nbody_limit = \"2000\"\n\
             [upstream.large]\nservers = [\"{}\"]",
            origin.address
        ),
    );
    let sized = |path: &str, count: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {count}\r\n\r\n{}",
            "b".repeat(count)
        )
    };
    // A chunk of 100 bytes has a line of 4 and a line end of 2; the last chunk has 5.
    let chunked = |count: usize| {
        let chunk = format!("64\r\n{}\r\n", "b".repeat(100));
        format!(
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            chunk.repeat(count)
        )
    };
    for (request, status) in [
        (sized("/", 1000), 200),
        (sized("/", 1001), 413),
        (sized("/large", 2000), 200),
        (sized("/large", 2001), 413),
        (chunked(9), 200),
        (chunked(10), 413),
        (chunked(100), 413),
        // Refused by its length alone, before a byte of it has come.
        (
            "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 999999999\r\n\r\n".to_owned(),
            413,
        ),
    ] {
        let mut connection = Connection::open(gateway.address);
        let _ = connection.stream.write_all(request.as_bytes());
        let shown = &request[..request.len().min(80)];
        assert_eq!(connection.response().status, status, "{shown}");
    }
    wait_for_failures(&gateway, "body_too_large", 5);

    // A body that grows over the limit while it is sent.
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut sending = connection.stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(
        move || {
            while sending.write_all(b"5\r\nhello\r\n").is_ok() {}
        },
    );
    let response = connection.response();
    assert_eq!(
        (response.status, response.field("connection")),
        (413, Some("close"))
    );
    drop(connection);
    sender.join().expect("the gateway closed");
    is_well(&gateway);
}

/// Connections beyond the limit are told 503 and closed; when one that was let in leaves, there is room again.
#[test]
fn connections_over_a_limit_are_refused() {
    let origin = answering();
    for limit in ["connections = 4", "connections_per_address = 4"] {
        let gateway = gateway(&origin, &format!("[limits]\n{limit}"));
        let settled = || {
            let open =
                |worker| gateway.metric(&format!("weir_client_connections{{worker=\"{worker}\"}}"));
            open(0) + open(1)
        };
        wait_until("the harness has left", || settled() == 0);
        // What the harness tried at the start may still be on its way, when a busy machine lets it wait for so long.
        let (mut let_in, mut early) = (Vec::new(), 0);
        while let_in.len() < 4 {
            let mut connection = Connection::open(gateway.address);
            match connection.get("/").status {
                200 => let_in.push(connection),
                _ => early += 1,
            }
            assert!(early < 100, "nobody is let in");
        }
        for _ in 0..10 {
            let mut refused = Connection::open(gateway.address);
            let response = refused.response();
            assert_eq!(
                (response.status, response.field("connection")),
                (503, Some("close"))
            );
            assert!(refused.is_closed());
        }
        let refused = gateway.metric("weir_client_connections_refused_total") - early;
        assert!((10..=12).contains(&refused), "{limit}: {refused}");
        for connection in &mut let_in {
            assert_eq!(connection.get("/").status, 200);
        }
        drop(let_in.pop());
        wait_until("its place is free", || settled() == 3);
        assert_eq!(client::get(gateway.address, "/").status, 200);
        drop(let_in);
        is_well(&gateway);
    }
}

/// A client that does not read is cut off once nothing could be written to it for `send`.
#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let (tell, ended) = channel();
    let origin = Origin::start(move |mut peer, _| {
        let Some(head) = peer.head() else { return };
        if !head.contains("/endless") {
            return peer
                .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
        let _ = peer
            .stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n");
        while peer.stream.write_all(&[b'x'; 1 << 14]).is_ok() {}
        let _ = tell.send(());
    });
    let gateway = gateway(&origin, "[timeouts]\nsend = \"300ms\"");
    let mut stream = TcpStream::connect(gateway.address).expect("the gateway accepts");
    stream
        .write_all(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
        .expect("the gateway reads");
    ended
        .recv_timeout(PATIENCE)
        .expect("the upstream connection is given up");
    wait_for_failures(&gateway, "client_gone", 1);
    // What the client then reads is not a complete response.
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    let mut buffer = [0; 1 << 14];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
    is_well(&gateway);
}
