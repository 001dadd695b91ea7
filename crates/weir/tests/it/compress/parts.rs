//! A client that has lost its connection asks for the rest of what it holds: what it puts together is one form of the response.

use std::net::SocketAddr;

use super::{decode, decoded, gateway, get, text};
use crate::harness::client::Response;
use crate::harness::origin::Origin;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// An origin that sends the part that is asked for if `If-Range` is its tag or its date, as nginx does.
fn origin(body: String) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let fields = format!(
                "Content-Type: text/plain\r\nETag: \"1\"\r\nLast-Modified: {DATE}\r\nAccept-Ranges: bytes\r\n"
            );
            let line = |name: &str| {
                let mut lines = head.lines();
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            let holds = line("If-Range").is_none_or(|said| said == DATE || said == "\"1\"");
            let first = line("Range").filter(|_| holds).map(|range| {
                let first = range.trim_start_matches("bytes=").trim_end_matches('-');
                first.parse::<usize>().expect("the rest from a byte on")
            });
            let (status, part, range) = match first {
                Some(first) => {
                    let (last, length) = (body.len() - 1, body.len());
                    let range = format!("Content-Range: bytes {first}-{last}/{length}\r\n");
                    ("206 Partial Content", &body[first..], range)
                }
                None => ("200 OK", &body[..], String::new()),
            };
            let length = part.len();
            peer.send(format!(
                "HTTP/1.1 {status}\r\n{fields}{range}Content-Length: {length}\r\n\r\n{part}"
            ));
        }
    })
}

/// What a client makes of it that got the first 100 bytes of `before` and then asked for the rest.
fn resumed(address: SocketAddr, before: &Response, fields: &str) -> (u16, String) {
    let rest = get(address, &format!("Range: bytes=100-\r\n{fields}"));
    let (bytes, form) = if rest.status == 206 {
        ([&before.body[..100], &rest.body].concat(), before)
    } else {
        (rest.body.clone(), &rest)
    };
    let text = match form.field("content-encoding") {
        Some(coding) => decode(&bytes, coding),
        None => String::from_utf8(bytes).expect("text"),
    };
    (rest.status, text)
}

#[test]
fn a_part_is_never_put_to_bytes_of_another_form() {
    let body = text(40_000);
    for cache in ["", "\ncache = true"] {
        let origin = origin(body.clone());
        let gateway = gateway(origin.address, &format!("compress = true{cache}"));
        let address = gateway.address;
        let accepts = "Accept-Encoding: gzip\r\n";
        let compressed = get(address, accepts);
        assert_eq!(decoded(&compressed, "gzip"), body);
        for condition in [DATE, "W/\"1\""] {
            let fields = format!("{accepts}If-Range: {condition}\r\n");
            let whole = resumed(address, &compressed, &fields);
            assert_eq!(whole, (200, body.clone()), "{condition}");
        }
        let plain = get(address, "");
        assert_eq!(plain.text(), body);
        // Its strong tag is that of the bytes as they are, whatever the client accepts.
        for accepts in [accepts, ""] {
            let fields = format!("{accepts}If-Range: \"1\"\r\n");
            let rest = resumed(address, &plain, &fields);
            assert_eq!(rest, (206, body.clone()));
        }
    }
    // Nobody who accepts none can hold a compressed form, and where none is made a date is as good as the origin says.
    for route in ["compress = true", ""] {
        let origin = origin(body.clone());
        let gateway = gateway(origin.address, route);
        let accepts = if route.is_empty() { "gzip" } else { "identity" };
        let fields = format!("Accept-Encoding: {accepts}\r\n");
        let plain = get(gateway.address, &fields);
        let fields = format!("{fields}If-Range: {DATE}\r\n");
        let rest = resumed(gateway.address, &plain, &fields);
        assert_eq!(rest, (206, body.clone()));
    }
}
