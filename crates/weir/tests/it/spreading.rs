//! Requests that are spread over several upstreams or copied to another one, and clients that come back to where they were.

mod mirror;
mod sessions;
mod split;

use std::net::SocketAddr;

use crate::harness::client::{self, Response};
use crate::harness::origin::Origin;

/// An origin that answers every request with its name, and with whatever fields besides.
fn origin(name: &'static str, fields: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let length = name.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{name}"
            ));
        }
    })
}

/// A GET with this `Cookie`, if any.
fn ask(gateway: SocketAddr, path: &str, cookie: &str) -> Response {
    let cookie = match cookie {
        "" => String::new(),
        cookie => format!("Cookie: {cookie}\r\n"),
    };
    client::send(
        gateway,
        &format!("GET {path} HTTP/1.1\r\nHost: test\r\n{cookie}\r\n"),
    )
}

/// The cookie that an answer sets, without its attributes.
fn set_cookie(response: &Response) -> Option<String> {
    let set = response.field("set-cookie")?;
    let (pair, attributes) = set.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    // No cache in front of the gateway hands it to others.
    let control = response.fields("cache-control");
    assert_eq!(control.last(), Some(&"private"), "{}", response.head);
    Some(pair.to_owned())
}
