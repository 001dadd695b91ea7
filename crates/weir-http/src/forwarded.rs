//! The client of a request behind trusted proxies, by `X-Forwarded-For`.
//!
//! Each proxy appends the address of its peer. So the list is true from its end to the first address that is no trusted
//! proxy; whoever has that address may have written everything before it. RFC 7239 §8.1 says the same of `Forwarded`.

use std::net::{IpAddr, SocketAddr};

use crate::fields::Fields;
use crate::head::FieldName;

/// A longer list says nothing true.
const PROXIES_MAX: usize = 32;

/// The address of the client of `request`, which came from `peer`. It is the last address, with `peer` after the end of
/// the list, for which `is_trusted` is false. If all are trusted, it is the first one. If a trusted proxy wrote
/// something that is no address (`unknown`, or nothing), it is that proxy. At most 32 elements are read.
pub fn client_behind(
    request: Fields<'_>,
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer.to_canonical();
    let lines = request.all(FieldName::XForwardedFor).rev();
    let said = lines.flat_map(|line| line.rsplit(|&byte| byte == b','));
    for element in said.take(PROXIES_MAX) {
        if !is_trusted(client) {
            break;
        }
        // An empty element was written by a proxy that did not know its client. Skipping it, as lists are usually read
        // (RFC 9110 §5.6.1), would mean trusting what that client wrote.
        let Some(address) = address(element.trim_ascii()) else {
            break;
        };
        client = address.to_canonical();
    }
    client
}

/// An address as proxies write it: bare, or with a port and, if it is an IPv6 address, in brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']');
    let bare = text
        .parse()
        .or_else(|_| in_brackets().unwrap_or("").parse());
    bare.ok().or_else(|| {
        text.parse()
            .ok()
            .map(|with_port: SocketAddr| with_port.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let mut head = b"GET / HTTP/1.1\r\n".to_vec();
        for line in lines {
            crate::forward::write_field(&mut head, b"X-Forwarded-For", line.as_bytes());
        }
        let mut table = Vec::new();
        Fields::scan(&head, &mut table);
        let is_trusted = |address: IpAddr| {
            let text = address.to_string();
            text.starts_with("10.") || text == "::1"
        };
        let peer = peer.parse().unwrap();
        client_behind(Fields::new(&head, &table), peer, is_trusted).to_string()
    }

    #[test]
    fn what_a_client_writes_itself_is_not_believed() {
        let cases: [(&str, &[&str], &str); 16] = [
            ("1.1.1.1", &["2.2.2.2"], "1.1.1.1"),
            ("10.0.0.1", &["2.2.2.2"], "2.2.2.2"),
            ("10.0.0.1", &["10.9.9.9, 2.2.2.2"], "2.2.2.2"),
            ("10.0.0.1", &["3.3.3.3, 2.2.2.2, 10.0.0.2"], "2.2.2.2"),
            ("10.0.0.1", &["3.3.3.3", "2.2.2.2", "10.0.0.2"], "2.2.2.2"),
            ("10.0.0.1", &["3.3.3.3, 2.2.2.2, "], "10.0.0.1"),
            ("10.0.0.1", &["3.3.3.3", ""], "10.0.0.1"),
            ("10.0.0.1", &["3.3.3.3,, 2.2.2.2"], "2.2.2.2"),
            ("10.0.0.1", &["10.0.0.3,10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["2.2.2.2, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["2.2.2.2, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["2.2.2.2:8080"], "2.2.2.2"),
            ("::1", &["[2001:db8::1]:8080"], "2001:db8::1"),
            ("::1", &["2001:DB8::1, [::1]"], "2001:db8::1"),
            ("::ffff:10.0.0.1", &["::ffff:2.2.2.2"], "2.2.2.2"),
        ];
        for (peer, lines, expected) in cases {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
        let long = format!("2.2.2.2{}", ", 10.0.0.2".repeat(1_000));
        assert_eq!(client("10.0.0.1", &[&long]), "10.0.0.2");
    }
}
