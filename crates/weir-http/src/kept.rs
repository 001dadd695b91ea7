//! The head of a request that is kept, and made again later.
//!
//! What belonged to the connection on which it came is left out (RFC 9110 §7.6.1), and the body's framing becomes its length
//! (RFC 9112 §6.3). What was said about the client before stays, so that forwarding it later says the same as forwarding it
//! now would.

use crate::body::Framing;
use crate::forward::{copy_fields, is_named_by_connection, write_field, write_target};
use crate::head::{Field, FieldName, Version};
use crate::request::Spelling;
use crate::{Method, RequestHead};

/// Appends the head to keep for `request`, whose own bytes `head` begins with. `path` is the path to ask for, without the
/// query, and `content_bytes` is the length of the body without its framing.
///
/// What is written is a head that [`RequestHead::parse`] reads, in the version of the request: one of HTTP/1.0 may have no
/// `Host`. One field more than the request had may be in it.
pub fn write(
    request: &RequestHead,
    head: &[u8],
    path: &[u8],
    content_bytes: usize,
    out: &mut Vec<u8>,
) {
    write_target(request, head, path, out);
    out.extend_from_slice(match request.version {
        Version::Http10 => b" HTTP/1.0\r\n",
        Version::Http11 => b" HTTP/1.1\r\n",
    });
    // An absolute target is kept in origin form, so `Host` alone carries its authority.
    let is_settled = request.spelling == Spelling::Settled;
    let has_own_host = request.known_field(FieldName::Host).is_some() && !is_settled;
    if let Some(authority) = request.authority.filter(|_| !has_own_host) {
        write_field(out, b"Host", authority.of(head));
    }
    let is_dropped = |field: &Field| match field.id {
        FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Http2Settings
        | FieldName::Te
        | FieldName::Trailer
        | FieldName::Upgrade
        | FieldName::Expect
        | FieldName::ContentLength
        | FieldName::TransferEncoding => true,
        FieldName::Host => is_settled,
        _ => {
            request.connection_names_fields && is_named_by_connection(head, &request.fields, field)
        }
    };
    let own = &head[..request.head_bytes];
    copy_fields(own, &request.fields, out, is_dropped);
    let has_body = request.framing != Framing::Empty;
    // A server may insist on a length where the method usually has a body (RFC 9110 §8.6).
    let wants_length = matches!(request.method, Method::Post | Method::Put | Method::Patch);
    if has_body || wants_length {
        write_field(out, b"Content-Length", content_bytes.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;
    use crate::head::HeadScan;
    use crate::request::Progress;

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 32 << 10,
        fields: HeadLimits::FIELDS_CEILING,
    };

    fn parsed(head: &str) -> (RequestHead, Vec<u8>) {
        let mut request = RequestHead::default();
        let progress = request.parse(head.as_bytes(), &mut HeadScan::default(), LIMITS);
        assert_eq!(progress, Ok(Progress::Complete(head.len())), "{head}");
        let mut bytes = head.as_bytes().to_vec();
        request.settle_authority(b"http", &mut bytes);
        (request, bytes)
    }

    fn kept(head: &str, content_bytes: usize) -> String {
        let (request, bytes) = parsed(head);
        let mut out = Vec::new();
        let path = request.target.path.of(&bytes);
        write(&request, &bytes, path, content_bytes, &mut out);
        String::from_utf8(out).expect("it was text")
    }

    #[test]
    fn what_belongs_to_the_connection_is_left_out() {
        for (head, content_bytes, expected) in [
            (
                "POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: 1\r\n\r\n",
                3,
                "POST /a?b=c HTTP/1.1\r\nHost: h\r\nX: 1\r\nContent-Length: 3\r\n\r\n",
            ),
            (
                "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\nExpect: 100-continue\r\n\r\n",
                70_000,
                "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n",
            ),
            (
                "GET http://H:80/a HTTP/1.1\r\nHost: H:80\r\nConnection: close, X\r\nX: 1\r\nY: 2\r\n\r\n",
                0,
                "GET /a HTTP/1.1\r\nHost: h\r\nY: 2\r\n\r\n",
            ),
            (
                "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
                0,
                "GET /ws HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
            ),
            ("GET / HTTP/1.0\r\n\r\n", 0, "GET / HTTP/1.0\r\n\r\n"),
            (
                "POST / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                0,
                "POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
                0,
                "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            ),
        ] {
            let written = kept(head, content_bytes);
            assert_eq!(written, expected, "{head}");
            // What was kept is kept as it is.
            assert_eq!(kept(&written, content_bytes), expected, "{head}");
        }
    }
}
