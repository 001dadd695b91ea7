//! Clients that ask and do not read, or ask and leave: what they make the gateway hold stays within its budgets, those that
//! read get what they ask for meanwhile, and afterwards the memory is free.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::caching;
use super::purge::purge;
use crate::harness::client::{Connection, get, send};
use crate::harness::origin::Origin;
use crate::harness::pattern::write_pattern;
use crate::harness::{Directory, Gateway, PATIENCE, wait_until};

const MIB: u64 = 1 << 20;
/// Bytes that the gateway may hold for nobody in particular: code, stacks, buffers of connections.
const CONSTANT: u64 = 28 * MIB;
/// And for a response that passes.
const PASSING: u64 = 64 << 10;

/// A client whose kernel takes next to nothing for it, and that reads nothing.
fn deaf(address: SocketAddr, path: &str, fields: &str) -> Connection {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are sockets");
    socket.set_recv_buffer_size(4096).expect("it can be small");
    socket
        .connect(&address.into())
        .expect("the gateway accepts");
    let mut client = Connection::on(socket.into());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    client
}

/// An origin of which every path is `length` bytes, or as many as its name says.
fn large(length: u64) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let length = if head.starts_with("GET /small") {
                100
            } else {
                length
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n"
            ));
            if write_pattern(&mut peer.stream, 0..length).is_err() {
                return;
            }
        }
    })
}

/// Watches how much memory the gateway has at most until `condition` holds.
fn most_until(gateway: &Gateway, what: &str, mut condition: impl FnMut() -> bool) -> u64 {
    let mut most = 0;
    wait_until(what, || {
        most = most.max(gateway.process.resident_bytes());
        condition()
    });
    most
}

#[test]
fn large_objects_that_nobody_reads() {
    const OBJECT: u64 = 3 * MIB;
    const CLIENTS: u64 = 60;
    let (memory, transient) = (32 * MIB, 8 * MIB);
    let origin = large(OBJECT);
    let gateway = Gateway::start(&format!(
        "[cache]\nmemory = \"32MiB\"\ntransient = \"8MiB\"\n[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        origin.address
    ));
    assert_eq!(get(gateway.address, "/small").body.len(), 100);
    let before = gateway.process.resident_bytes();
    let bound = before + memory + transient + CONSTANT;

    let asks = |client| deaf(gateway.address, &format!("/{client}"), "");
    let clients: Vec<_> = (0..CLIENTS).map(asks).collect();
    // One that reads is served all the while, from the cache and past it.
    let mut number = 0;
    let mut reads = || {
        number += 1;
        assert_eq!(get(gateway.address, "/small").body.len(), 100);
        let large = get(gateway.address, &format!("/read/{}", number % 4));
        assert_eq!(large.body.len() as u64, OBJECT);
    };
    let cut = || gateway.metric("weir_slow_clients_cut_total");
    let most = most_until(&gateway, "somebody is cut off", || {
        reads();
        cut() > 0
    });
    // There is room again, and so it stays: all that is not stored fits.
    let later = most_until(&gateway, "there is room", || {
        reads();
        gateway.metric("weir_transient_bytes") <= transient
    });
    println!("{} MiB, {} MiB later", most / MIB, later / MIB);
    assert!(most.max(later) <= bound, "{} > {bound}", most.max(later));

    drop(clients);
    wait_until("nothing is held", || {
        gateway.metric("weir_transient_bytes") == 0
    });
    purge(&gateway, "{\"all\": true}");
    wait_until("the memory is free", || {
        gateway.process.resident_bytes() <= before + 16 * MIB
    });
}

/// What takes an encoder that there is no room for is sent as it is; when the slowest has been cut off, there is room again.
#[test]
fn compressed_answers_that_nobody_reads() {
    const CLIENTS: usize = 120;
    let transient = 4 * MIB;
    // One that does not end, and repeats itself no sooner than any encoder forgets.
    let mut random = fastrand::Rng::with_seed(1);
    let text: String = (0..8 * MIB).map(|_| random.alphanumeric()).collect();
    let chunk = |text: &str| format!("4000\r\n{text}\r\n");
    let chunks: Vec<String> = (0..text.len() / 0x4000)
        .map(|number| chunk(&text[number * 0x4000..][..0x4000]))
        .collect();
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            if head.starts_with("GET /short") {
                peer.send(format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000)));
                continue;
            }
            for chunk in chunks.iter().cycle() {
                if std::io::Write::write_all(&mut peer.stream, chunk.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "[cache]\ntransient = \"4MiB\"\n[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncompress = true\n",
        origin.address
    ));
    let short = || {
        let request =
            "GET /short HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAccept-Encoding: br\r\n\r\n";
        let response = send(gateway.address, request);
        assert_eq!(response.status, 200);
        response.field("content-encoding") == Some("br")
    };
    assert!(short());
    let before = gateway.process.resident_bytes();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let coding = ["zstd", "br", "gzip"][number % 3];
            deaf(
                gateway.address,
                "/",
                &format!("Accept-Encoding: {coding}\r\n"),
            )
        })
        .collect();
    let refused = || gateway.metric("weir_compress_refused_total{of=\"passing\"}");
    let cut = || gateway.metric("weir_slow_clients_cut_total");
    let mut most = most_until(&gateway, "the others pass as they are", || refused() > 90);
    most = most.max(most_until(&gateway, "somebody is cut off", || {
        short();
        cut() > 0
    }));
    wait_until("there is room for one that reads", short);
    let added = most - before;
    println!("{} MiB", added / MIB);
    let passing = CLIENTS as u64 * PASSING;
    assert!(added <= transient + passing + CONSTANT, "{added} bytes");
    drop(clients);
    wait_until("the memory is free", || {
        gateway.process.resident_bytes() <= before + 16 * MIB
    });
}

/// What little is missing of many answers is not waited for without end.
#[test]
fn many_ask_and_leave() {
    const CLIENTS: usize = 200;
    /// As many fills may go on that nobody reads.
    const UNREAD_MAX: usize = 64;
    /// What a gateway of two workers has open for itself, and for a few connections that are kept for later requests.
    const OWN_MAX: usize = 48;
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /whole") {
                peer.send(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\nx",
                );
                continue;
            }
            peer.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1000\r\n\r\nx",
            );
            // The rest never comes; this ends when the gateway closes.
            if peer.head().is_none() {
                return;
            }
        }
    });
    let gateway = caching(origin.address, "true");
    let asks = |number| {
        let mut client = Connection::open(gateway.address);
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: test\r\n\r\n"));
        client.until(b"\r\n\r\nx");
        client
    };
    // They leave together, however long it took all of them to ask.
    drop((0..CLIENTS).map(asks).collect::<Vec<_>>());
    let open = || gateway.process.descriptors();
    wait_until("most are given up", || open() <= UNREAD_MAX + OWN_MAX);
    assert_eq!(get(gateway.address, "/whole").text(), "x");
    wait_until("all are", || gateway.metric("weir_cache_unread_fills") == 0);
    wait_until("nothing is left open", || open() <= OWN_MAX);
    assert!(gateway.metric("weir_cache_unread_fills_refused_total") > 0);
}

/// Of what is to be refreshed, so much at once and no more; the rest is answered all the same.
#[test]
fn many_are_to_be_refreshed() {
    const KEYS: usize = 300;
    const REFRESHES_MAX: u64 = 256;
    let is_stuck = Arc::new(AtomicBool::new(false));
    let stuck = Arc::clone(&is_stuck);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            if stuck.load(Ordering::SeqCst) {
                let ends = Instant::now() + PATIENCE;
                while stuck.load(Ordering::SeqCst) && Instant::now() < ends {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            peer.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\nx",
            );
        }
    });
    let gateway = caching(origin.address, "{ stale_while_revalidate = \"600s\" }");
    let mut client = Connection::open(gateway.address);
    let mut ask_all = || {
        for number in 0..KEYS {
            assert_eq!(client.get(&format!("/{number}")).text(), "x");
        }
    };
    ask_all();
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    is_stuck.store(true, Ordering::SeqCst);
    ask_all();
    assert_eq!(gateway.metric("weir_cache_refreshes_total"), REFRESHES_MAX);
    let refused = gateway.metric("weir_cache_refreshes_refused_total");
    assert_eq!(refused, KEYS as u64 - REFRESHES_MAX);
    is_stuck.store(false, Ordering::SeqCst);
    // Those that were left out have their turn.
    wait_until("all are refreshed", || {
        ask_all();
        gateway.metric("weir_cache_refreshes_total") == KEYS as u64
    });
}

/// Without a cache as well: what the store has read for clients that do not take it.
#[test]
fn large_values_that_nobody_reads() {
    const VALUE: u64 = 6 * MIB;
    const CLIENTS: usize = 24;
    let directory = Directory::new();
    let gateway = Gateway::start(&format!(
        "[kv]\nengine = {{ path = \"{}\", memory = \"1MiB\" }}\n[[route]]\npath = \"/v1/{{*rest}}\"\nkv = true\n",
        directory.file("data").display()
    ));
    let value = vec![7; VALUE as usize];
    let head =
        format!("PUT /v1/kv/large HTTP/1.1\r\nHost: test\r\nContent-Length: {VALUE}\r\n\r\n");
    let mut client = Connection::open(gateway.address);
    client.send([head.as_bytes(), &value].concat());
    let put = client.response_to("PUT").expect("it answers");
    assert_eq!(put.status, 201);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| deaf(gateway.address, "/v1/kv/large", ""))
        .collect();
    let is_held = || gateway.metric("weir_transient_bytes") > VALUE;
    wait_until("it is known what they hold", is_held);
    wait_until("those who hold too much are cut off", || {
        // One that reads is served all the while.
        let large = get(gateway.address, "/v1/kv/large");
        assert!(large.body == value);
        let bytes = gateway.metric("weir_transient_bytes");
        bytes <= gateway.metric("weir_transient_bytes_max")
    });
    assert!(gateway.metric("weir_slow_clients_cut_total") > 0);
    drop(clients);
    wait_until("nothing is held", || {
        gateway.metric("weir_transient_bytes") == 0
    });
}
