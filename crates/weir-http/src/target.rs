//! The request target in its four forms (RFC 9112 §3.2), and the path that routes are matched against.

use crate::head::Span;
use crate::{Method, Reject, host};

/// Where the parts of a target lie in the head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// The authority of the absolute form.
    pub authority: Option<Span>,
    /// The path; of the asterisk form, the asterisk. Empty for an absolute form that ends with its authority.
    pub path: Span,
    /// What follows the first question mark, which is not part of it.
    pub query: Option<Span>,
}

impl Target {
    /// Reads the target of a request, `head[span]`.
    ///
    /// # Errors
    /// [`Reject::Target`] for anything that is not origin-form, absolute-form with scheme http or https, or `*` for
    /// OPTIONS; [`Reject::HostInvalid`] for a bad authority.
    pub fn parse(head: &[u8], span: Span, method: Method) -> Result<Self, Reject> {
        let target = span.of(head);
        if !target.iter().all(|&b| b.is_ascii_graphic() && b != b'#') {
            return Err(Reject::Target);
        }
        match target {
            [b'/', ..] => Ok(Self::origin(head, span, None)),
            b"*" if method == Method::Options => Ok(Self {
                path: span,
                ..Self::default()
            }),
            _ => Self::absolute(head, span),
        }
    }

    fn absolute(head: &[u8], span: Span) -> Result<Self, Reject> {
        let target = span.of(head);
        let after_scheme = ["http://", "https://"]
            .iter()
            .find(|scheme| {
                target
                    .get(..scheme.len())
                    .is_some_and(|t| t.eq_ignore_ascii_case(scheme.as_bytes()))
            })
            .map(|scheme| scheme.len())
            .ok_or(Reject::Target)?;
        let rest = &target[after_scheme..];
        let authority_len = rest
            .iter()
            .position(|b| matches!(b, b'/' | b'?'))
            .unwrap_or(rest.len());
        let start = span.start + after_scheme as u32;
        let end = start + authority_len as u32;
        let authority = Span { start, end };
        host::name(authority.of(head))?;
        Ok(Self::origin(
            head,
            Span {
                start: end,
                end: span.end,
            },
            Some(authority),
        ))
    }

    fn origin(head: &[u8], span: Span, authority: Option<Span>) -> Self {
        match memchr::memchr(b'?', span.of(head)) {
            None => Self {
                authority,
                path: span,
                query: None,
            },
            Some(at) => {
                let mark = span.start + at as u32;
                let path = Span {
                    start: span.start,
                    end: mark,
                };
                Self {
                    authority,
                    path,
                    query: Some(Span {
                        start: mark + 1,
                        end: span.end,
                    }),
                }
            }
        }
    }
}

/// Whether [`normalize`] would change nothing: no escape, no empty segment, no segment that begins with a dot.
pub fn is_normal(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && memchr::memchr(b'%', path).is_none()
        && !path
            .windows(2)
            .any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'))
}

/// Writes the path that stands for `path` when routes are matched: escapes of unreserved characters decoded, empty
/// segments merged, dot segments removed (RFC 3986 §6.2.2). The request itself is forwarded as it came; without this,
/// `/x/../admin` or `/%61dmin` would pass by a route for `/admin` and mean it upstream.
///
/// # Errors
/// [`Reject::Target`] for a broken escape, an escaped NUL, and dot segments that lead above the root.
pub fn normalize(path: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
    out.clear();
    out.push(b'/');
    let decoded = decode_unreserved(path)?;
    let mut segments = decoded.split(|&b| b == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." => {
                let keep = out[..out.len() - 1]
                    .iter()
                    .rposition(|&b| b == b'/')
                    .ok_or(Reject::Target)?;
                out.truncate(keep + 1);
            }
            _ => {
                out.extend_from_slice(segment);
                if !last {
                    out.push(b'/');
                }
            }
        }
    }
    Ok(())
}

fn decode_unreserved(path: &[u8]) -> Result<Vec<u8>, Reject> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let [high, low, tail @ ..] = rest else {
            return Err(Reject::Target);
        };
        let digit = |b: &u8| char::from(*b).to_digit(16).ok_or(Reject::Target);
        let value = (digit(high)? << 4 | digit(low)?) as u8;
        if value == 0 {
            return Err(Reject::Target);
        }
        if value.is_ascii_alphanumeric() || b"-._~".contains(&value) {
            decoded.push(value);
        } else {
            decoded.extend_from_slice(&[b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]);
        }
        rest = tail;
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &str, method: Method) -> Result<(Option<&str>, &str, Option<&str>), Reject> {
        let bytes = target.as_bytes();
        let parsed = Target::parse(
            bytes,
            Span {
                start: 0,
                end: bytes.len() as u32,
            },
            method,
        )?;
        let text = |span: Span| &target[span.start as usize..span.end as usize];
        Ok((
            parsed.authority.map(text),
            text(parsed.path),
            parsed.query.map(text),
        ))
    }

    #[test]
    fn the_four_forms() {
        assert_eq!(parse("/", Method::Get), Ok((None, "/", None)));
        assert_eq!(parse("/a?b?c", Method::Get), Ok((None, "/a", Some("b?c"))));
        assert_eq!(
            parse("http://h:1/a?b", Method::Get),
            Ok((Some("h:1"), "/a", Some("b")))
        );
        assert_eq!(parse("HTTPS://h", Method::Get), Ok((Some("h"), "", None)));
        assert_eq!(
            parse("http://h?q", Method::Get),
            Ok((Some("h"), "", Some("q")))
        );
        assert_eq!(parse("*", Method::Options), Ok((None, "*", None)));
        for bad in [
            "*", "", "a", "h:80", "ftp://h/", "/a#b", "/a\u{e9}", "//", "http:/a",
        ] {
            let result = parse(bad, Method::Get);
            assert_eq!(result.is_err(), bad != "//", "{bad}: {result:?}");
        }
        assert_eq!(parse("http://u@h/", Method::Get), Err(Reject::HostInvalid));
    }

    #[test]
    fn paths_that_mean_the_same_match_the_same() {
        let cases = [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("//a///b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/%61dmin", "/admin"),
            ("/%2e%2E/a", "!"),
            ("/a/%2e%2e/b", "/b"),
            ("/a%2fb", "/a%2Fb"),
            ("/..", "!"),
            ("/a/../../b", "!"),
            ("/%", "!"),
            ("/%4", "!"),
            ("/%zz", "!"),
            ("/%00", "!"),
            ("/.well-known/x", "/.well-known/x"),
        ];
        for (path, expected) in cases {
            let mut out = Vec::new();
            let text = match normalize(path.as_bytes(), &mut out) {
                Ok(()) => std::str::from_utf8(&out).unwrap(),
                Err(_) => "!",
            };
            assert_eq!(text, expected, "{path}");
            assert!(
                !is_normal(path.as_bytes()) || text == path,
                "{path} is normal"
            );
        }
    }
}
