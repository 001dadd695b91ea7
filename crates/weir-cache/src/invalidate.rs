//! What an unsafe request makes invalid (RFC 9111 §4.4): its own target, and the targets in `Location` and
//! `Content-Location` of the answer, on the same host. The stores remove them.

use weir_http::host::Authority;
use weir_http::{FieldName, Fields, Method};

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Its method.
    pub method: Method,
    /// Its method as sent.
    pub method_name: &'a [u8],
    /// The authority it was for.
    pub authority: &'a [u8],
    /// Its path, with its query.
    pub target: &'a [u8],
    /// The status of the answer.
    pub status: u16,
    /// The fields of the answer.
    pub response: Fields<'a>,
}

/// The targets, as paths with queries, whose stored responses may not be used any more. There are none unless the
/// method may have changed something and the answer is no error.
pub fn targets(changed: &Changed<'_>) -> Vec<Vec<u8>> {
    let is_error = !(200..400).contains(&changed.status);
    if is_safe(changed.method, changed.method_name) || is_error {
        return Vec::new();
    }
    let named = [FieldName::Location, FieldName::ContentLocation]
        .into_iter()
        .filter_map(|id| changed.response.first(id))
        .filter_map(|location| same_origin_target(location, changed.authority, changed.target));
    let mut targets = vec![changed.target.to_vec()];
    for target in named {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// Whether a method is known to change nothing: those of RFC 9110, and the registered ones of RFC 3253, 4918, 5323 and
/// QUERY. All others may change something.
pub fn is_safe(method: Method, name: &[u8]) -> bool {
    method.is_safe()
        || matches!(
            name,
            b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY" | b"PRI" | b"TRACE"
        )
}

/// The path and query of the reference `location`, if it is on the host of the request. References to other hosts are
/// ignored: otherwise one site could empty the cache of another.
///
/// Schemes are not compared: behind a gateway that ends TLS, origins write `http` where clients see `https`.
pub fn same_origin_target(location: &[u8], authority: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let location = location.split(|&b| b == b'#').next().unwrap_or_default();
    let rest = match location {
        [b'/', b'/', rest @ ..] => Some(rest),
        _ => strip_scheme(location),
    };
    if let Some(rest) = rest {
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?'));
        let (host, path) = rest.split_at(end.unwrap_or(rest.len()));
        if !is_same_authority(host, authority) {
            return None;
        }
        return Some(match path {
            [b'/', ..] => path.to_vec(),
            path => [b"/", path].concat(),
        });
    }
    let base = target.split(|&b| b == b'?').next().unwrap_or_default();
    Some(match location {
        b"" => target.to_vec(),
        [b'/', ..] => location.to_vec(),
        [b'?', ..] => [base, location].concat(),
        _ => relative(base, location),
    })
}

/// A relative reference, merged with the base path, without dot segments (RFC 3986 §5.2.3, §5.2.4).
fn relative(base: &[u8], location: &[u8]) -> Vec<u8> {
    let directory = base
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(&b"/"[..], |at| &base[..=at]);
    let (path, query) = match location.iter().position(|&b| b == b'?') {
        Some(at) => location.split_at(at),
        None => (location, &b""[..]),
    };
    let mut merged = directory.to_vec();
    let mut segments = path.split(|&b| b == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => {
                let parent = merged[..merged.len() - 1].iter().rposition(|&b| b == b'/');
                merged.truncate(parent.map_or(1, |at| at + 1));
            }
            _ => {
                merged.extend_from_slice(segment);
                if segments.peek().is_some() {
                    merged.push(b'/');
                }
            }
        }
    }
    merged.extend_from_slice(query);
    merged
}

fn strip_scheme(location: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
        let (start, rest) = location.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Whether two authorities are the same; the default ports of both schemes do not count.
fn is_same_authority(a: &[u8], b: &[u8]) -> bool {
    match (Authority::parse(a), Authority::parse(b)) {
        (Ok(a), Ok(b)) => a.is_same_on_the_web(&b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_heads::response;

    #[test]
    fn references_on_the_same_host() {
        let cases = [
            ("/b", Some("/b")),
            ("/b?q#f", Some("/b?q")),
            ("b", Some("/x/b")),
            ("b/c?q", Some("/x/b/c?q")),
            ("./b", Some("/x/b")),
            ("../b", Some("/b")),
            ("../../../b/./c/..", Some("/b/")),
            ("?n", Some("/x/a?n")),
            ("", Some("/x/a?q=1")),
            ("http://h.example/b", Some("/b")),
            ("HTTPS://H.example:443", Some("/")),
            ("//h.example:80?n", Some("/?n")),
            ("http://H.example.:080/b", Some("/b")),
            ("http://h.example:/b", Some("/b")),
            ("http:///b", None),
            ("http://u@h.example/b", None),
            ("http://other.example/b", None),
            ("http://h.example:81/b", None),
            ("//h.example.other/b", None),
        ];
        for (location, expected) in cases {
            let found = same_origin_target(location.as_bytes(), b"h.example", b"/x/a?q=1");
            let expected = expected.map(|target| target.as_bytes().to_vec());
            assert_eq!(found, expected, "{location:?}");
        }
    }

    #[test]
    fn changes_invalidate_unless_they_fail() {
        let head = response("HTTP/1.1 200 OK\r\nLocation: /l\r\nContent-Location: c\r\n\r\n");
        let changed = |method, name: &'static str, status| {
            targets(&Changed {
                method,
                method_name: name.as_bytes(),
                authority: b"h",
                target: b"/t",
                status,
                response: head.fields(),
            })
        };
        let all = vec![b"/t".to_vec(), b"/l".to_vec(), b"/c".to_vec()];
        for (method, name) in [
            (Method::Post, "POST"),
            (Method::Put, "PUT"),
            (Method::Delete, "DELETE"),
            (Method::Patch, "PATCH"),
            (Method::Other, "M-SEARCH"),
        ] {
            for status in [200, 201, 204, 303] {
                assert_eq!(changed(method, name, status), all, "{name} {status}");
            }
            for status in [404, 500] {
                assert!(changed(method, name, status).is_empty(), "{name} {status}");
            }
        }
        for (method, name) in [
            (Method::Get, "GET"),
            (Method::Head, "HEAD"),
            (Method::Options, "OPTIONS"),
            (Method::Other, "PROPFIND"),
        ] {
            assert!(changed(method, name, 200).is_empty(), "{name}");
        }
    }
}
