//! Responses that are compressed while they pass, and those that are not.

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::{CODINGS, accepting, decode, decoded, gateway, get, text, vary};
use crate::harness::client::{self, Connection};
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Directory, tool};

const TEXT: &str = "Content-Type: text/plain\r\n";

/// An origin that frames `body` the way that the path names: `/length`, `/chunks` or `/close`.
fn framing_origin(fields: &'static str, body: String) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains(" /length") {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}",
                    body.len()
                ));
            } else if head.contains(" /chunks") {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\n{fields}Trailer: Digest\r\nTransfer-Encoding: chunked\r\n\r\n"
                ));
                for piece in body.as_bytes().chunks(7000) {
                    send_chunk(&mut peer, piece);
                }
                peer.send("0\r\nDigest: sha-256=x\r\n\r\n");
            } else {
                peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}"));
                return;
            }
        }
    })
}

fn send_chunk(peer: &mut Peer, piece: &[u8]) {
    peer.send(format!("{:x}\r\n", piece.len()));
    peer.send(piece);
    peer.send("\r\n");
}

#[test]
fn every_framing_in_every_coding_to_every_client() {
    let fields = "Content-Type: text/html; charset=utf-8\r\nETag: \"v1\"\r\nContent-MD5: x\r\n\
        Content-Digest: x\r\nRepr-Digest: x\r\nAccept-Ranges: bytes\r\nVary: Origin\r\n";
    let body = text(150_000);
    let origin = framing_origin(fields, body.clone());
    let gateway = gateway(origin.address, "compress = true");
    for coding in CODINGS {
        for path in ["/length", "/chunks", "/close"] {
            for version in ["1.1", "1.0"] {
                let response = client::send(
                    gateway.address,
                    &format!(
                        "GET {path} HTTP/{version}\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n"
                    ),
                );
                let what = format!("{coding} {path} {version}: {}", response.head);
                assert_eq!(decoded(&response, coding), body, "{what}");
                assert!(response.body.len() < body.len() / 2, "{what}");
                assert_eq!(response.field("etag"), Some("W/\"v1\""), "{what}");
                assert_eq!(vary(&response), Some("Origin, Accept-Encoding"), "{what}");
                let chunked = (version == "1.1").then_some("chunked");
                assert_eq!(response.field("transfer-encoding"), chunked, "{what}");
                for gone in [
                    "content-length",
                    "content-md5",
                    "content-digest",
                    "repr-digest",
                    "accept-ranges",
                    "trailer",
                ] {
                    assert_eq!(response.field(gone), None, "{what}");
                }
            }
        }
    }
    gateway.wait_for_metric("weir_compress_responses_total{coding=\"br\"}", 6);
    assert_eq!(
        gateway.metric("weir_compress_bytes_total{of=\"passing\",direction=\"in\"}"),
        18 * body.len() as u64
    );
}

/// RFC 9110 §6.5: the trailers that hold for the encoded content too are passed on behind it.
#[test]
fn trailers_come_behind_a_compressed_body() {
    let body = text(20_000);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\n"
            ));
            send_chunk(&mut peer, body.as_bytes());
            peer.send("0\r\nX-Sum: 1\r\nContent-Digest: sha-256=:x:\r\nX-More: 2\r\n\r\n");
        }
    });
    let gateway = gateway(origin.address, "compress = true");
    for (version, end) in [
        ("1.1", &b"\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"[..]),
        ("1.0", b""),
    ] {
        let mut connection = Connection::open(gateway.address);
        connection.send(format!(
            "GET / HTTP/{version}\r\nHost: test\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        let mut response = Vec::new();
        let read = connection.stream.read_to_end(&mut response);
        read.expect("the gateway closes");
        let text = response.escape_ascii();
        assert!(
            text.to_string().contains("Content-Encoding: gzip"),
            "{text}"
        );
        assert!(response.ends_with(end), "{text}");
        let has_trailers = response.windows(5).any(|bytes| bytes == b"X-Sum");
        assert_eq!(has_trailers, version == "1.1", "{text}");
    }
}

#[test]
fn a_connection_goes_on_after_a_compressed_response() {
    let body = text(40_000);
    let origin = framing_origin(TEXT, body.clone());
    let gateway = gateway(origin.address, "compress = true");
    let mut connection = Connection::open(gateway.address);
    for path in ["/length", "/chunks", "/length"] {
        connection.send(format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        assert_eq!(decoded(&connection.response(), "gzip"), body);
    }
}

/// What a response is like, what the client says, and what it is told to vary on.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
);

const NEGOTIATED: Option<&str> = Some("Accept-Encoding");
const UNCHANGED: [Case; 15] = [
    ("200", TEXT, "", NEGOTIATED),
    ("200", TEXT, "Accept-Encoding: identity\r\n", NEGOTIATED),
    ("200", TEXT, "Accept-Encoding: deflate\r\n", NEGOTIATED),
    (
        "200",
        TEXT,
        "Accept-Encoding: gzip;q=0, br;q=0.0, *;q=0\r\n",
        NEGOTIATED,
    ),
    (
        "200",
        TEXT,
        "Accept-Encoding: identity, gzip;q=0.9\r\n",
        NEGOTIATED,
    ),
    (
        "200",
        TEXT,
        "Accept-Encoding: gzip\r\nCache-Control: no-transform\r\n",
        NEGOTIATED,
    ),
    (
        "200",
        "Content-Type: image/png\r\n",
        "Accept-Encoding: gzip\r\n",
        None,
    ),
    ("200", "", "Accept-Encoding: gzip\r\n", None),
    (
        "200",
        "Content-Type: text/event-stream\r\n",
        "Accept-Encoding: gzip\r\n",
        None,
    ),
    (
        "200",
        "Content-Type: text/css\r\nContent-Encoding: x\r\n",
        "Accept-Encoding: gzip\r\n",
        None,
    ),
    (
        "200",
        "Content-Type: text/css\r\nCache-Control: a, no-transform\r\n",
        "Accept-Encoding: gzip\r\n",
        None,
    ),
    (
        "206",
        "Content-Type: text/css\r\nContent-Range: bytes 0-4999/9000\r\n",
        "Accept-Encoding: gzip\r\nRange: bytes=0-4999\r\n",
        None,
    ),
    (
        "200",
        "Content-Type: application/pdf\r\n",
        "Accept-Encoding: gzip\r\n",
        None,
    ),
    (
        "200",
        "Content-Type: text/css\r\nVary: accept-encoding\r\n",
        "",
        NEGOTIATED,
    ),
    (
        "200",
        "Content-Type: text/css\r\nVary: A\r\nVary: B\r\n",
        "",
        Some("A, B, Accept-Encoding"),
    ),
];

#[test]
fn some_responses_pass_as_they_are() {
    let answer = Mutex::new(String::new());
    let body = text(5000);
    let answer: &'static Mutex<String> = Box::leak(Box::new(answer));
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(answer.lock().expect("nobody panicked").as_str());
        }
    });
    let gateway = gateway(origin.address, "compress = true");
    for (status, fields, asked, expected) in UNCHANGED {
        *answer.lock().expect("nobody panicked") = format!(
            "HTTP/1.1 {status} X\r\nETag: \"1\"\r\n{fields}Content-Length: 5000\r\n\r\n{body}"
        );
        let response = get(gateway.address, asked);
        let what = format!("{fields} to {asked}: {}", response.head);
        assert_eq!(response.text(), body, "{what}");
        assert_eq!(response.field("content-length"), Some("5000"), "{what}");
        assert_eq!(response.field("etag"), Some("\"1\""), "{what}");
        assert!(
            !["gzip", "br", "zstd"].contains(&response.field("content-encoding").unwrap_or("")),
            "{what}"
        );
        if expected.is_some() {
            assert_eq!(vary(&response), expected, "{what}");
        } else {
            assert!(
                !response.fields("vary").concat().contains("Encoding"),
                "{what}"
            );
        }
    }
}

#[test]
fn small_bodies_pass_as_they_are_however_they_are_framed() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let body = text(1023);
            // In one piece: what comes later is not waited for to learn how long it is.
            peer.send(if head.contains(" /length") {
                format!("HTTP/1.1 200 OK\r\n{TEXT}Content-Length: 1023\r\n\r\n{body}")
            } else {
                format!("HTTP/1.1 200 OK\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\n3ff\r\n{body}\r\n0\r\n\r\n")
            });
        }
    });
    let gateway = gateway(origin.address, "compress = true");
    for path in ["/length", "/chunks"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
        let response = client::send(gateway.address, &request);
        assert_eq!(
            response.field("content-encoding"),
            None,
            "{}",
            response.head
        );
        assert_eq!((response.text(), vary(&response)), (text(1023), None));
    }
}

#[test]
fn a_route_says_which_codings_and_types() {
    let body = text(300);
    let origin = framing_origin("Content-Type: application/pdf\r\n", body.clone());
    let keys = "compress = { codings = [\"gzip\"], types = [\"application/pdf\"], min_bytes = 200, level = { gzip = 9 } }";
    let gateway = gateway(origin.address, keys);
    let ask = |accepted: &str| {
        let request =
            format!("GET /length HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {accepted}\r\n\r\n");
        client::send(gateway.address, &request)
    };
    assert_eq!(decoded(&ask("br, zstd, gzip;q=0.1"), "gzip"), body);
    assert_eq!(ask("br, zstd").text(), body);
}

#[test]
fn an_answer_to_head_has_the_head_of_a_get() {
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nETag: \"1\"\r\nContent-Length: 5000\r\n\r\n");
            if head.starts_with("GET") {
                peer.send(text(5000));
            }
        }
    });
    let gateway = gateway(origin.address, "compress = true");
    let mut connection = Connection::open(gateway.address);
    let request = " / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: br\r\n\r\n";
    connection.send(format!("HEAD{request}"));
    let head = connection.response_to("HEAD").expect("an answer");
    connection.send(format!("GET{request}"));
    let get = connection.response();
    for name in [
        "content-encoding",
        "etag",
        "vary",
        "content-length",
        "content-type",
    ] {
        assert_eq!(head.field(name), get.field(name), "{}", head.head);
    }
    assert_eq!(head.field("content-encoding"), Some("br"));
}

#[test]
fn what_has_come_is_not_held_back() {
    for coding in CODINGS {
        let (go_on, is_read) = channel();
        let is_read = Mutex::new(is_read);
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
                for number in 0..5 {
                    send_chunk(&mut peer, piece(number).as_bytes());
                    // The next piece is sent when the client has read this one, and never otherwise.
                    let read = is_read.lock().expect("nobody panicked").recv();
                    assert_eq!(read, Ok(number));
                }
                peer.send("0\r\n\r\n");
            }
        });
        let gateway = gateway(origin.address, "compress = true");
        let mut connection = Connection::open(gateway.address);
        connection.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n"
        ));
        connection.until(b"\r\n\r\n");
        let (mut encoded, mut expected) = (Vec::new(), String::new());
        for number in 0..5 {
            expected.push_str(&piece(number));
            while decoded_so_far(&encoded, coding) != expected {
                let size = connection.line();
                let size = usize::from_str_radix(&size, 16).expect("a size");
                assert!(size > 0, "{coding} ended early");
                encoded.extend(connection.exactly(size));
                assert_eq!(connection.line(), "");
            }
            go_on.send(number).expect("the origin waits");
        }
    }
}

fn piece(number: u32) -> String {
    format!("piece {number}\n")
}

/// What a decoder has made of the beginning of a stream.
fn decoded_so_far(encoded: &[u8], coding: &str) -> String {
    let mut decoder: Box<dyn std::io::Read> = match coding {
        "zstd" => Box::new(zstd::stream::read::Decoder::new(encoded).expect("a decoder")),
        "br" => Box::new(brotli::Decompressor::new(encoded, 4096)),
        _ => Box::new(flate2::read::MultiGzDecoder::new(encoded)),
    };
    let mut content = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = decoder.read(&mut buffer) {
        content.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(content).expect("it is text")
}

#[test]
fn a_response_that_breaks_off_does_not_end_cleanly() {
    for coding in CODINGS {
        let origin = Origin::start(|mut peer, _| {
            let Some(head) = peer.head() else { return };
            let is_announced = head.contains(" /length");
            let framing = if is_announced {
                "Content-Length: 90000"
            } else {
                "Transfer-Encoding: chunked"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{framing}\r\n\r\n"
            ));
            if is_announced {
                peer.send(text(50_000));
            } else {
                send_chunk(&mut peer, text(50_000).as_bytes());
            }
        });
        let gateway = gateway(origin.address, "compress = true");
        for (path, version) in [("/length", "1.1"), ("/chunks", "1.1"), ("/length", "1.0")] {
            let mut connection = Connection::open(gateway.address);
            connection.send(format!(
                "GET {path} HTTP/{version}\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n"
            ));
            let mut got = Vec::new();
            let end = connection.stream.read_to_end(&mut got);
            let error = end.expect_err("it ends in a reset");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            assert!(!got.ends_with(b"0\r\n\r\n"), "{path} {coding}");
        }
        gateway.wait_for_metric("weir_failures_total{fault=\"upstream\"", 3);
    }
}

#[test]
fn clients_that_leave_take_their_encoders_with_them() {
    let body = text(3_000_000);
    let origin = framing_origin(TEXT, body.clone());
    let gateway = gateway(origin.address, "compress = true");
    let request = "GET /length HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n";
    // More than a worker has at once.
    for _ in 0..300 {
        let mut connection = Connection::open(gateway.address);
        connection.send(request);
        connection.until(b"\r\n\r\n");
    }
    assert_eq!(
        decoded(&client::send(gateway.address, request), "gzip"),
        body
    );
    assert_eq!(
        gateway.metric("weir_compress_refused_total{of=\"passing\"}"),
        0
    );
}

#[test]
fn beyond_a_number_of_streams_responses_pass_as_they_are() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 5000\r\n\r\n");
            peer.send(text(4000));
            // The rest never comes.
            peer.head();
        }
    });
    let keys = "compress = true\n[cache]\ntransient = \"1GiB\"";
    let gateway = gateway(origin.address, keys);
    let begin = || {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
        let head = String::from_utf8(connection.until(b"\r\n\r\n")).expect("a head");
        (connection, head.contains("Content-Encoding: gzip"))
    };
    let streams: Vec<_> = (0..257).map(|_| begin()).collect();
    assert!(streams[..256].iter().all(|(_, is_encoded)| *is_encoded));
    assert!(!streams[256].1);
    assert_eq!(
        gateway.metric("weir_compress_refused_total{of=\"passing\"}"),
        1
    );
}

#[test]
fn a_304_has_the_tag_that_the_client_has() {
    let origin =
        Origin::answering("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nRepr-Digest: x\r\n\r\n");
    let gateway = gateway(origin.address, "compress = true");
    for (asked, tag, varies) in [
        ("\"1\"", "\"1\"", None),
        ("W/\"1\"", "W/\"1\"", Some("Accept-Encoding")),
        ("\"0\", W/\"1\"", "W/\"1\"", Some("Accept-Encoding")),
    ] {
        let fields = format!("Accept-Encoding: gzip\r\nIf-None-Match: {asked}\r\n");
        let response = get(gateway.address, &fields);
        assert_eq!(response.status, 304);
        assert_eq!(response.field("etag"), Some(tag), "{asked}");
        assert_eq!(vary(&response), varies, "{asked}");
        assert_eq!(response.field("repr-digest").is_none(), varies.is_some());
        assert!(
            origin
                .next_head()
                .contains(&format!("If-None-Match: {asked}\r\n"))
        );
    }
}

#[test]
fn clients_that_others_wrote_can_read_it() {
    let body = text(70_000);
    let origin = framing_origin(TEXT, body.clone());
    let gateway = gateway(origin.address, "compress = true");
    let url = format!("http://{}/length", gateway.address);
    for coding in CODINGS {
        let field = format!("Accept-Encoding: {coding}");
        let run = tool::run("curl", &["-sS", "--compressed", "-H", &field, &url]);
        assert_eq!(run.stdout, body, "{coding}");
    }
    let directory = Directory::new();
    let encoded = accepting(gateway.address, "gzip");
    assert_eq!(decode(&encoded.body, "gzip"), body);
    let file = directory.write("encoded.gz", &encoded.body);
    let script = "import gzip, sys; sys.stdout.write(gzip.open(sys.argv[1], 'rt').read())";
    let run = tool::run("python3", &["-c", script, file.to_str().expect("UTF-8")]);
    assert_eq!(run.stdout, body);
}
