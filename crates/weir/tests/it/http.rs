//! HTTP/1.1 and 1.0 on both sides: persistence, framing, interim responses, fields, and upstreams that break the rules.

mod bodies;
mod broken;
mod connections;
mod heads;

use crate::harness::origin::Origin;

/// Answers each request with its target as the body; asserts nothing about the rest.
fn telling_targets() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if let Some(length) = field(&head, "content-length") {
                peer.body(length.parse().expect("a length"));
            }
            peer.send(ok(&target));
        }
    })
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The value of the field `name` of a head as the origin got it.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    fields(head, name).first().copied()
}

fn fields<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}
