//! The client of a request behind trusted proxies, by `X-Forwarded-For`, and how it has connected, by `X-Forwarded-Proto`.
//!
//! Each proxy appends the address of its peer. So the list is true from its end to the first address that is no trusted
//! proxy; whoever has that address may have written everything before it. RFC 7239 §8.1 says the same of `Forwarded`.

use std::net::{IpAddr, SocketAddr};

use crate::fields::Fields;
use crate::head::FieldName;
use crate::host::Scheme;

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

/// How the client of the last proxy has connected, by `X-Forwarded-Proto` as that has written it. Another scheme than those of
/// HTTP says nothing.
pub fn scheme_behind(request: Fields<'_>) -> Option<Scheme> {
    let line = request.all(FieldName::XForwardedProto).next_back()?;
    let said = line.rsplit(|&byte| byte == b',').next()?.trim_ascii();
    let schemes = [Scheme::Http, Scheme::Https].into_iter();
    let mut said = schemes.filter(|scheme| said.eq_ignore_ascii_case(scheme.as_bytes()));
    said.next()
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

    #[test]
    fn the_last_proxy_says_how_its_client_has_connected() {
        use Scheme::{Http, Https};
        for (lines, expected) in [
            (&[][..], None),
            (&["https"], Some(Https)),
            (&["HTTP"], Some(Http)),
            (&["http, https "], Some(Https)),
            (&["https", "http"], Some(Http)),
            (&["https,"], None),
            (&["wss"], None),
            (&["https", "on"], None),
        ] {
            let found = with_lines(b"X-Forwarded-Proto", lines, scheme_behind);
            assert_eq!(found, expected, "{lines:?}");
        }
    }

    /// What is found in a request with these lines of a field.
    fn with_lines<T>(name: &[u8], lines: &[&str], find: impl FnOnce(Fields<'_>) -> T) -> T {
        let mut head = b"GET / HTTP/1.1\r\n".to_vec();
        for line in lines {
            crate::forward::write_field(&mut head, name, line.as_bytes());
        }
        let mut table = Vec::new();
        Fields::scan(&head, &mut table);
        find(Fields::new(&head, &table))
    }

    fn client(peer: &str, lines: &[&str]) -> String {
        let is_trusted = |address: IpAddr| {
            let text = address.to_string();
            text.starts_with("10.") || text == "::1"
        };
        let peer = peer.parse().unwrap();
        with_lines(b"X-Forwarded-For", lines, |request| {
            client_behind(request, peer, is_trusted).to_string()
        })
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
