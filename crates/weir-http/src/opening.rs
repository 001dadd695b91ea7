//! How a response begins and ends on its connection: what HTTP/1 adds to the lines of a head.
//!
//! A head is a status and its end-to-end lines, whether it comes from an upstream, a cache or the gateway itself. The
//! status line, the framing and `Connection` belong to one connection (RFC 9110 §7.6.1), and only this module writes
//! them.

use crate::body::Framing;
use crate::chunk::{begin_chunk, write_chunk};
use crate::head::Version;

/// How the client learns of the end of the body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By the head: it has a length, or there is no body.
    InHead,
    /// By the last chunk.
    Chunks,
    /// By closing the connection, as HTTP/1.0 does.
    Close,
}

impl End {
    /// How a client of `version` learns of the end of a body that came with `framing`.
    pub fn of(framing: Framing, version: Version) -> Self {
        match (framing, version) {
            (Framing::Empty | Framing::Length(_), _) => Self::InHead,
            (Framing::Chunked | Framing::UntilClose, Version::Http11) => Self::Chunks,
            (Framing::Chunked | Framing::UntilClose, Version::Http10) => Self::Close,
        }
    }

    /// The same for a body of unknown length.
    pub fn of_unknown_length(version: Version) -> Self {
        Self::of(Framing::UntilClose, version)
    }

    /// Whether the bytes of a body that came with `framing` are sent on as they came.
    pub fn passes(self, framing: Framing) -> bool {
        match framing {
            Framing::Chunked => self == Self::Chunks,
            Framing::UntilClose => self != Self::Chunks,
            Framing::Empty | Framing::Length(_) => true,
        }
    }

    /// Appends content as the client gets it.
    pub fn frame(self, content: &[u8], out: &mut Vec<u8>) {
        if self == Self::Chunks {
            write_chunk(content, out);
        } else {
            out.extend_from_slice(content);
        }
    }

    /// Appends what stands in front of content that is not copied and not empty. Returns what stands behind it.
    pub fn begin_piece(self, content_bytes: usize, out: &mut Vec<u8>) -> &'static [u8] {
        if self == Self::Chunks {
            begin_chunk(content_bytes, out);
            b"\r\n"
        } else {
            b""
        }
    }

    /// Appends what comes after the content, with `trailers` as lines where they can be sent (RFC 9112 §7.1.2).
    pub fn finish(self, trailers: &[u8], out: &mut Vec<u8>) {
        if self == Self::Chunks {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(trailers);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// What follows the lines of a final response's head.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// How the client learns of the end of the body.
    pub end: End,
    /// The version of the request.
    pub version: Version,
    /// Whether the connection goes on after this response.
    pub keep_alive: bool,
    /// Whether it becomes a tunnel instead (RFC 9110 §15.2.2).
    pub is_upgrade: bool,
}

impl Opening {
    /// Appends what comes after the lines, and ends the head.
    pub fn finish(self, out: &mut Vec<u8>) {
        if self.end == End::Chunks {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        out.extend_from_slice(self.connection_line());
        out.extend_from_slice(b"\r\n");
    }

    /// HTTP/1.1 persists by default (RFC 9112 §9.3).
    fn connection_line(self) -> &'static [u8] {
        match (self.is_upgrade, self.keep_alive, self.version) {
            (true, ..) => b"Connection: upgrade\r\n",
            (_, false, _) => b"Connection: close\r\n",
            (_, true, Version::Http10) => b"Connection: keep-alive\r\n",
            (_, true, Version::Http11) => b"",
        }
    }
}

/// Appends the status line of a response, interim or final. `status_text` is its status and the rest of the line, as in
/// `200 OK`.
pub fn begin(status_text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status_text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(opening: Opening) -> String {
        let mut out = Vec::new();
        begin(b"200 OK", &mut out);
        opening.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_a_connection_adds() {
        use Version::{Http10, Http11};
        let cases = [
            (End::InHead, Http11, true, ""),
            (End::InHead, Http10, true, "Connection: keep-alive\r\n"),
            (End::InHead, Http10, false, "Connection: close\r\n"),
            (End::Close, Http10, false, "Connection: close\r\n"),
            (End::Chunks, Http11, true, "Transfer-Encoding: chunked\r\n"),
            (
                End::Chunks,
                Http11,
                false,
                "Transfer-Encoding: chunked\r\nConnection: close\r\n",
            ),
        ];
        for (end, version, keep_alive, expected) in cases {
            let opening = Opening {
                end,
                version,
                keep_alive,
                is_upgrade: false,
            };
            assert_eq!(
                head(opening),
                format!("HTTP/1.1 200 OK\r\n{expected}\r\n"),
                "{opening:?}"
            );
        }
        let upgrade = Opening {
            end: End::InHead,
            version: Http11,
            keep_alive: false,
            is_upgrade: true,
        };
        assert_eq!(
            head(upgrade),
            "HTTP/1.1 200 OK\r\nConnection: upgrade\r\n\r\n"
        );
    }

    #[test]
    fn bodies_pass_where_both_sides_end_them_alike() {
        use Version::{Http10, Http11};
        let cases = [
            (Framing::Empty, Http11, End::InHead, true),
            (Framing::Length(1), Http10, End::InHead, true),
            (Framing::Chunked, Http11, End::Chunks, true),
            (Framing::Chunked, Http10, End::Close, false),
            (Framing::UntilClose, Http11, End::Chunks, false),
            (Framing::UntilClose, Http10, End::Close, true),
        ];
        for (framing, version, end, passes) in cases {
            assert_eq!(End::of(framing, version), end);
            assert_eq!(end.passes(framing), passes, "{framing:?} to {version:?}");
        }
        // This body is encoded on the way.
        assert_eq!(End::of_unknown_length(Http11), End::Chunks);
        assert_eq!(End::of_unknown_length(Http10), End::Close);
    }

    #[test]
    fn trailers_go_where_there_are_chunks() {
        let mut out = Vec::new();
        End::Chunks.frame(b"abc", &mut out);
        End::Chunks.frame(b"", &mut out);
        End::Chunks.finish(b"A: b\r\n", &mut out);
        assert_eq!(out, b"3\r\nabc\r\n0\r\nA: b\r\n\r\n");
        out.clear();
        End::Close.frame(b"abc", &mut out);
        End::Close.finish(b"A: b\r\n", &mut out);
        assert_eq!(out, b"abc");
    }
}
