//! Compression: what a client gets smaller, what it gets as it is, and that both are what the origin sent.

mod parts;
mod passing;
mod stored;

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::SocketAddr;

use crate::harness::Gateway;
use crate::harness::client::{self, Response};

/// The codings, as clients and responses call them.
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// A gateway in front of `origin` whose one route has `keys`.
fn gateway(origin: SocketAddr, keys: &str) -> Gateway {
    Gateway::start(&format!(
        "[server]\nworkers = 1\n[upstream.app]\nservers = [\"{origin}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n{keys}\n"
    ))
}

/// A GET with `fields`, each with its line end.
fn get(address: SocketAddr, fields: &str) -> Response {
    client::send(
        address,
        &format!("GET / HTTP/1.1\r\nHost: test\r\n{fields}\r\n"),
    )
}

fn accepting(address: SocketAddr, coding: &str) -> Response {
    get(address, &format!("Accept-Encoding: {coding}\r\n"))
}

/// Text of `bytes` bytes that no other number of bytes begins with.
fn text(bytes: usize) -> String {
    let mut text = format!("{bytes} bytes:\n");
    let mut number = 1_u64;
    while text.len() < bytes {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "line {} of the text", number >> 40);
    }
    text.truncate(bytes);
    text
}

/// The content of a response, which has to be encoded with `coding`.
fn decoded(response: &Response, coding: &str) -> String {
    assert_eq!(
        response.field("content-encoding"),
        Some(coding),
        "{}",
        response.head
    );
    decode(&response.body, coding)
}

fn decode(body: &[u8], coding: &str) -> String {
    let mut content = String::new();
    let read = match coding {
        "zstd" => {
            zstd::stream::read::Decoder::new(body).and_then(|mut d| d.read_to_string(&mut content))
        }
        "br" => brotli::Decompressor::new(body, 4096).read_to_string(&mut content),
        "gzip" => flate2::read::GzDecoder::new(body).read_to_string(&mut content),
        other => panic!("no decoder for {other}"),
    };
    read.expect("it can be decoded");
    content
}

/// The value of `Vary`, of which there is one line.
fn vary(response: &Response) -> Option<&str> {
    let lines = response.fields("vary");
    assert!(lines.len() <= 1, "{}", response.head);
    lines.first().copied()
}
