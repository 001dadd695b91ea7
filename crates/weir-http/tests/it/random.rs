//! Random messages that are nearly right: bytes at random hardly ever get past the first line.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use weir_http::body::Framing;
use weir_http::head::HeadScan;
use weir_http::request::Progress;
use weir_http::{Body, Field, HeadLimits, RequestHead, Span};

use crate::corpus::{chunked_body, request_head, response_head};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 32 << 10,
    fields: 100,
};

/// Words of which heads are made, most of them right somewhere and wrong elsewhere.
const NAMES: [&str; 21] = [
    "Host",
    "host",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Upgrade",
    "TE",
    "Trailer",
    "Expect",
    "Keep-Alive",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "Proxy",
    "Via",
    "Date",
    "X-A",
    "x-b",
    "X_C",
    "Host ",
    " X",
    "",
];
const VALUES: [&str; 27] = [
    "a",
    "a",
    "b.example:80",
    "5",
    "0",
    "5, 5",
    "+5",
    "chunked",
    "Chunked",
    "chunked, chunked",
    "gzip, chunked",
    "identity",
    "close",
    "keep-alive",
    "Upgrade",
    "upgrade, X-A",
    "X-A, x-b",
    "Content-Length, Host",
    "TE, via",
    "websocket",
    "trailers",
    "100-continue",
    "\u{e9}",
    "a\u{b}",
    "a\rb",
    "a\r\n b",
    "",
];
const BLANKS: [&str; 6] = ["", " ", " ", " ", "\t ", "  "];
const LINE_ENDS: [&str; 8] = [
    "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r\r\n",
];
const REQUEST_LINES: [&str; 16] = [
    "GET / HTTP/1.1",
    "GET / HTTP/1.1",
    "GET /a?b HTTP/1.1",
    "POST /%61/../b HTTP/1.1",
    "HEAD http://a/x HTTP/1.1",
    "GET http://a HTTP/1.0",
    "OPTIONS * HTTP/1.1",
    "OPTIONS http://a HTTP/1.1",
    "PATCH //a/./b HTTP/1.0",
    "X-Y / HTTP/1.1",
    "CONNECT a:1 HTTP/1.1",
    "GET  / HTTP/1.1",
    "GET / HTTP/1.2",
    "GET /\u{e9} HTTP/1.1",
    "\r\nGET / HTTP/1.1",
    "GET /",
];
const STATUS_LINES: [&str; 14] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 103 Early Hints",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/1.1 999 x",
    "HTTP/1.1 200 caf\u{e9}\t!",
    "HTTP/2 200 OK",
    "HTTP/1.1  200 OK",
    "\r\nHTTP/1.1 200 OK",
];
const CHUNK_PARTS: [&str; 18] = [
    "1\r\nx\r\n",
    "1\r\nx\r\n",
    "00a\r\n0123456789\r\n",
    "2;a=b\r\n\r\n\r\n",
    "0\r\n",
    "0;z\r\n",
    "\r\n",
    "X: y\r\n",
    "Host: a\r\n",
    "Content-Length: 1\r\n",
    "3\r\nab\r\n",
    "1\r\nxy\r\n",
    "1\nx\r\n",
    "1 \r\nx\r\n",
    "ffffffffffffffff\r\n",
    "1;\n\r\nx\r\n",
    "GET / HTTP/1.1\r\n",
    ";",
];

/// Lines after a first one of `first_lines`, and the empty one.
fn nearly_a_head(first_lines: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let field = (
        select(&NAMES[..]),
        select(&BLANKS[..]),
        select(&VALUES[..]),
        select(&LINE_ENDS[..]),
    );
    (select(first_lines), vec(field, 0..6)).prop_map(|(first, fields)| {
        let mut head = format!("{first}\r\n");
        for (name, blanks, value, line_end) in fields {
            head.extend([name, ":", blanks, value, line_end]);
        }
        head.push_str("\r\n");
        head.into_bytes()
    })
}

/// A request head without a fault, its fields, and how its body is framed.
fn good_head() -> impl Strategy<Value = (String, Vec<(String, String)>, Framing)> {
    let name = "x-[!#$%&'*+.^_`|~0-9A-Za-z-]{0,12}";
    let value = "([!-~\u{a1}-\u{ff}]([ -~\t]{0,20}[!-~])?)?";
    let framing = prop_oneof![
        Just((None, Framing::Empty)),
        (1..u64::MAX >> 8).prop_map(|length| {
            let field = ("Content-Length".to_owned(), length.to_string());
            (Some(field), Framing::Length(length))
        }),
        Just((
            Some(("transfer-encoding".to_owned(), "chunked".to_owned())),
            Framing::Chunked
        )),
    ];
    let path = "/[a-z0-9/._~!$&'()*+,;=:@%-]{0,20}(\\?[a-z&=?]{0,9})?";
    let method = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,9}";
    let fields = vec((name, value), 0..20);
    (method, path, fields, framing, any::<Index>()).prop_map(
        |(method, path, mut fields, (framed_by, framing), at)| {
            fields.insert(0, ("Host".to_owned(), "a.example:80".to_owned()));
            if let Some(field) = framed_by {
                fields.insert(at.index(fields.len()), field);
            }
            (format!("{method} {path} HTTP/1.1"), fields, framing)
        },
    )
}

fn text_of(first_line: &str, fields: &[(String, String)], blanks: &str) -> Vec<u8> {
    let mut text = format!("{first_line}\r\n");
    for (name, value) in fields {
        text.extend([name, ":", blanks, value, blanks, "\r\n"]);
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// `text` with a byte inserted, one replaced, or one left out.
fn damaged(mut text: Vec<u8>, at: Index, byte: u8, how: u8) -> Vec<u8> {
    let at = at.index(text.len());
    match how % 3 {
        0 => text.insert(at, byte),
        1 => text[at] = byte,
        _ => drop(text.remove(at)),
    }
    text
}

fn any_damage() -> impl Strategy<Value = (Index, u8, u8)> {
    let byte = prop_oneof![any::<u8>(), select(&b"\r\n\t\0 :,;\x0b"[..])];
    (any::<Index>(), byte, any::<u8>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_heads_are_read_as_they_were_written(
        (line, fields, framing) in good_head(),
        blanks in select(&BLANKS[..]),
    ) {
        prop_assume!(!line.starts_with("CONNECT ") && !line.starts_with("TRACE "));
        let text = text_of(&line, &fields, blanks);
        request_head::check(&text);
        let mut head = RequestHead::default();
        let progress = head.parse(&text, &mut HeadScan::default(), LIMITS);
        prop_assert_eq!(progress, Ok(Progress::Complete(text.len())));
        prop_assert_eq!(head.framing, framing);
        let word = |span: Span| String::from_utf8(span.of(&text).to_vec()).unwrap();
        let pair = |field: &Field| (word(field.name), word(field.value));
        prop_assert_eq!(head.fields.iter().map(pair).collect::<Vec<_>>(), fields);
    }

    #[test]
    fn heads_with_one_wrong_byte_keep_the_promises(
        (line, fields, _) in good_head(),
        (at, byte, how) in any_damage(),
    ) {
        request_head::check(&damaged(text_of(&line, &fields, " "), at, byte, how));
        let response = text_of("HTTP/1.1 200 OK", &fields, " ");
        response_head::check(&damaged(response, at, byte, how));
    }

    #[test]
    fn requests_that_are_nearly_right_keep_the_promises(head in nearly_a_head(&REQUEST_LINES)) {
        request_head::check(&head);
    }

    #[test]
    fn responses_that_are_nearly_right_keep_the_promises(head in nearly_a_head(&STATUS_LINES)) {
        response_head::check(&head);
    }

    #[test]
    fn chunked_bodies_that_are_nearly_right_keep_the_promises(
        parts in vec(select(&CHUNK_PARTS[..]), 0..8),
        (at, byte, how) in any_damage(),
    ) {
        let body = [parts.concat().as_bytes(), b"0\r\n\r\n"].concat();
        chunked_body::check(&body);
        chunked_body::check(&damaged(body, at, byte, how));
    }

    #[test]
    fn what_was_cut_in_chunks_comes_back(pieces in vec(vec(any::<u8>(), 1..40), 0..6), step in 1..50_usize) {
        let mut encoded = Vec::new();
        for piece in &pieces {
            encoded.extend_from_slice(format!("{:X};x=\"y\"\r\n", piece.len()).as_bytes());
            encoded.extend_from_slice(piece);
            encoded.extend_from_slice(b"\r\n");
        }
        encoded.extend_from_slice(b"000\r\nX-Sum: 1\r\n\r\nGET");
        chunked_body::check(&encoded);
        let (mut body, mut content, mut taken) = (Body::new(Framing::Chunked), Vec::new(), 0);
        for piece in encoded.chunks(step) {
            taken += body.decode(piece, |data| content.extend_from_slice(data)).unwrap();
        }
        prop_assert_eq!(content, pieces.concat());
        prop_assert_eq!(taken, encoded.len() - "GET".len());
    }
}
