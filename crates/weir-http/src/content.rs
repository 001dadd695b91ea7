//! The fields of a response whose content a gateway encodes (RFC 9110 §8.4), or would encode for another client.
//!
//! Encoded content is another representation of the same resource. Fields about its bytes are left out (their length,
//! digests, ranges), a strong entity tag becomes weak, and `Vary` says that the next client may get another
//! representation. This module neither encodes nor decides whether to.

use crate::forward::{Edits, write_field};
use crate::{FieldName, Fields};

/// What is done with the content of a response on its way to a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content<'a> {
    /// It is never encoded, for any client.
    #[default]
    AsIs,
    /// It is not encoded for this client; others may get it encoded.
    Negotiated,
    /// There is no content: a 304 to a client that has an encoded form.
    Confirmed,
    /// It is encoded with the coding of this token.
    Encoded(&'a [u8]),
}

impl Content<'_> {
    /// Whether the response's own fields of this name are left out.
    pub fn replaces(self, id: FieldName, name: &[u8]) -> bool {
        match self {
            Self::AsIs => false,
            Self::Negotiated => id == FieldName::Vary,
            Self::Confirmed | Self::Encoded(_) => match id {
                FieldName::AcceptRanges
                | FieldName::ContentEncoding
                | FieldName::ContentLength
                | FieldName::ContentMd5
                | FieldName::Etag
                | FieldName::Vary => true,
                FieldName::Other => is_digest(name),
                _ => false,
            },
        }
    }

    /// Appends the lines that replace the response's own `fields`; `edits` may leave out some of them.
    pub fn write(self, fields: Fields<'_>, edits: Edits<'_>, out: &mut Vec<u8>) {
        if self == Self::AsIs {
            return;
        }
        if let Self::Encoded(token) = self {
            write_field(out, b"Content-Encoding", token);
        }
        if self != Self::Negotiated
            && let Some(tag) = fields.first(FieldName::Etag)
            && !edits.drops(b"etag")
        {
            out.extend_from_slice(b"ETag: ");
            write_weakened(tag, out);
            out.extend_from_slice(b"\r\n");
        }
        if !edits.drops(b"vary") {
            write_vary(fields, out);
        }
    }
}

/// Digests of the content, and of the representation with its coding (RFC 9530 §2 and §3; RFC 3230).
fn is_digest(name: &[u8]) -> bool {
    [&b"content-digest"[..], b"repr-digest", b"digest"]
        .iter()
        .any(|digest| name.eq_ignore_ascii_case(digest))
}

/// Appends the tag of an encoded form. The tag is weak, because the bytes are not those that the origin tagged (RFC
/// 9110 §8.8.3.3).
pub fn write_weakened(tag: &[u8], out: &mut Vec<u8>) {
    if !tag.starts_with(b"W/") {
        out.extend_from_slice(b"W/");
    }
    out.extend_from_slice(tag);
}

/// One line with all that the response varies on, and with `Accept-Encoding` once.
fn write_vary(fields: Fields<'_>, out: &mut Vec<u8>) {
    let is_coding = |name: &[u8]| name.eq_ignore_ascii_case(b"accept-encoding");
    out.extend_from_slice(b"Vary: ");
    for name in fields.elements(FieldName::Vary).filter(|n| !is_coding(n)) {
        out.extend_from_slice(name);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(b"Accept-Encoding\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HeadScan;
    use crate::{HeadLimits, Method, ResponseHead};

    fn written(lines: &str, content: Content<'_>, edits: Edits<'_>) -> String {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        let mut response = ResponseHead::default();
        let limits = HeadLimits {
            bytes: 1 << 10,
            fields: 20,
        };
        response
            .parse(
                head.as_bytes(),
                &mut HeadScan::default(),
                limits,
                Method::Get,
            )
            .expect("it is a head");
        let fields = response.view(head.as_bytes());
        let mut out = Vec::new();
        for (id, name, value) in fields.iter() {
            if !content.replaces(id, name) {
                write_field(&mut out, name, value);
            }
        }
        content.write(fields, edits, &mut out);
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn fields_about_the_bytes_are_removed() {
        let lines = "Content-Length: 5\r\nETag: \"a\"\r\nDigest: x\r\nRepr-Digest: x\r\nContent-Digest: x\r\n\
            Content-MD5: x\r\nAccept-Ranges: bytes\r\nServer: s";
        assert_eq!(
            written(lines, Content::Encoded(b"gzip"), Edits::default()),
            "Server: s\r\nContent-Encoding: gzip\r\nETag: W/\"a\"\r\nVary: Accept-Encoding\r\n"
        );
        assert_eq!(
            written(lines, Content::Confirmed, Edits::default()),
            "Server: s\r\nETag: W/\"a\"\r\nVary: Accept-Encoding\r\n"
        );
        assert_eq!(
            written(lines, Content::Negotiated, Edits::default()),
            format!("{lines}\r\nVary: Accept-Encoding\r\n")
        );
        assert_eq!(
            written(lines, Content::AsIs, Edits::default()),
            format!("{lines}\r\n")
        );
    }

    #[test]
    fn the_coding_is_in_vary_once() {
        for (own, expected) in [
            ("Server: s", "Accept-Encoding"),
            ("Vary: accept-encoding", "Accept-Encoding"),
            (
                "Vary: Origin,ACCEPT-Encoding\r\nVary: Cookie",
                "Origin, Cookie, Accept-Encoding",
            ),
            ("Vary: *", "*, Accept-Encoding"),
        ] {
            let out = written(own, Content::Negotiated, Edits::default());
            assert!(out.ends_with(&format!("Vary: {expected}\r\n")), "{out}");
            assert_eq!(out.matches("Vary").count(), 1, "{out}");
        }
    }

    #[test]
    fn tags_are_weak_and_a_route_has_the_last_word() {
        let weak = written("ETag: W/\"a\"", Content::Encoded(b"br"), Edits::default());
        assert!(weak.contains("ETag: W/\"a\"\r\n"), "{weak}");
        let edits = Edits {
            drops: &["etag".to_owned(), "vary".to_owned()],
            lines: b"",
        };
        let bare = written("ETag: \"a\"", Content::Encoded(b"br"), edits);
        assert_eq!(bare, "Content-Encoding: br\r\n");
    }
}
