//! The request target in its four forms (RFC 9112 §3.2), and the path that routes are matched against.

use crate::head::Span;
use crate::host::Authority;
use crate::{Method, Reject};

/// Where the parts of a target lie in the head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// The authority of the absolute form.
    pub authority: Option<Span>,
    /// The path; for the asterisk form, the asterisk. Empty for an absolute form that ends with its authority.
    pub path: Span,
    /// The query: what follows the first question mark.
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
        Authority::parse(authority.of(head))?;
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

/// Whether [`normalize`] would change nothing, and no server would: no escape, no empty segment, no segment that begins
/// with a dot, nothing that some servers take for a slash or for the end of a name.
pub fn is_normal(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && memchr::memchr3(b'%', b'\\', b';', path).is_none()
        && !path
            .windows(2)
            .any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'))
}

/// Writes the path that is matched against routes: escapes of unreserved characters are decoded, empty segments merged,
/// dot segments removed (RFC 3986 §6.2.2). Otherwise `/x/../admin` or `/%61dmin` would not match a route for `/admin`,
/// but would mean it upstream.
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

/// The path to send to an upstream, for a path `as_sent` whose normal form is `normal`. It is the path as sent, unless
/// that has dot segments: a server that does not resolve them would find another path than the matched one.
pub fn forwarded<'p>(as_sent: &'p [u8], normal: &'p [u8]) -> &'p [u8] {
    if has_dot_segment(as_sent) {
        normal
    } else {
        as_sent
    }
}

/// What is left of a path after `prefix`, which consists of whole segments. It is the rest of the path as sent, if that
/// begins with the prefix to the letter and has nothing to resolve. Otherwise it is the rest of the normal form, which
/// was matched. It always begins with a slash. A path outside the prefix is forwarded whole.
pub fn strip_prefix<'p>(prefix: &str, as_sent: &'p [u8], normal: &'p [u8]) -> &'p [u8] {
    fn rest<'p>(prefix: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
        match path.strip_prefix(prefix)? {
            [] => Some(b"/"),
            rest @ [b'/', ..] => Some(rest),
            _ => None,
        }
    }
    let prefix = prefix.trim_end_matches('/').as_bytes();
    let Some(normal_rest) = rest(prefix, normal) else {
        return forwarded(as_sent, normal);
    };
    let is_resolved = has_dot_segment(as_sent) || as_sent.windows(2).any(|pair| pair == b"//");
    match rest(prefix, as_sent) {
        Some(sent_rest) if !is_resolved => sent_rest,
        _ => normal_rest,
    }
}

/// Whether a segment is `.` or `..`, in any spelling.
fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|segment| {
        let mut rest = segment;
        let mut dots = 0;
        loop {
            rest = match rest {
                [] => return dots > 0,
                [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] if dots < 2 => rest,
                _ => return false,
            };
            dots += 1;
        }
    })
}

pub(crate) fn decode_unreserved(path: &[u8]) -> Result<Vec<u8>, Reject> {
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
        if is_unreserved(value) {
            decoded.push(value);
        } else {
            decoded.extend_from_slice(&[b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]);
        }
        rest = tail;
    }
    Ok(decoded)
}

/// Whether an escape of `byte` is redundant (RFC 3986 §2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests;
