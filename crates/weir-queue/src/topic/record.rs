//! A record as a message: the request that its headers carry.

use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use weir_http::Scheme;

use crate::message::Message;

/// What a record says of its request, as a message has it. One that weir has not produced has no route.
pub(super) fn envelope(record: &BorrowedMessage<'_>, content_bytes: usize) -> Vec<u8> {
    let headers = record.headers();
    let headers = headers.iter().flat_map(|headers| headers.iter());
    let (mut method, mut path) = (&b"POST"[..], &b"/"[..]);
    let mut own = [""; 6];
    let names = [
        "weir-route",
        "weir-upstream",
        "weir-client",
        "weir-peer",
        "weir-scheme",
        "weir-expires-ms",
    ];
    let mut fields = Vec::new();
    for header in headers {
        let value = header.value.unwrap_or_default();
        match header.key {
            ":method" => method = value,
            ":path" => path = value,
            // As it is here, whatever it was.
            "content-length" => {}
            // What an upstream tells a message by that comes again: its offset here is another one each time.
            "weir-id" => fields.extend([b"weir-id: ", value, b"\r\n"].concat()),
            key if key.starts_with("weir-") => {
                if let Some(at) = names.iter().position(|name| *name == key) {
                    own[at] = std::str::from_utf8(value).unwrap_or_default();
                }
            }
            key => {
                fields.extend([key.as_bytes(), b": ", value, b"\r\n"].concat());
            }
        }
    }
    let [route, upstream, client, peer, scheme, expires_ms] = own;
    let mut head = [method, b" ", path, b" HTTP/1.1\r\n", &fields].concat();
    head.extend(format!("content-length: {content_bytes}\r\n\r\n").bytes());
    let unsaid = Message::of_nobody(route, &head);
    let message = Message {
        scheme: if scheme == "https" {
            Scheme::Https
        } else {
            Scheme::Http
        },
        expires_ms: expires_ms.parse().unwrap_or(0),
        client: client.parse().unwrap_or(unsaid.client),
        peer: peer.parse().unwrap_or(unsaid.peer),
        upstream,
        key: record.key(),
        ..unsaid
    };
    let mut envelope = Vec::with_capacity(head.len() + 128);
    // What is too long for a message is one that says nothing, and becomes a dead letter.
    match message.write(&mut envelope) {
        Ok(()) => envelope,
        Err(_) => nothing(),
    }
}

/// What a message has of a record that says nothing: it becomes a dead letter.
pub(super) fn nothing() -> Vec<u8> {
    let head = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
    let message = Message::of_nobody("", head);
    let mut envelope = Vec::with_capacity(96);
    // Nothing of it is long.
    let _ = message.write(&mut envelope);
    envelope
}
