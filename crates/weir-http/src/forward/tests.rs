use std::sync::LazyLock;

use super::*;
use crate::head::{HeadLimits, HeadScan};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 4096,
    fields: 100,
};

static VIA: LazyLock<ViaName> = LazyLock::new(|| ViaName::new("weir-1"));
static NONE: NamedFields = NamedFields::NONE;

fn request<'a>(text: &'a str, change: impl FnOnce(&mut RequestRewrite<'a>)) -> String {
    let mut head = RequestHead::default();
    head.parse(text.as_bytes(), &mut HeadScan::default(), LIMITS)
        .unwrap();
    let mut rewrite = RequestRewrite {
        path: head.target.path.of(text.as_bytes()),
        client_address: b"10.0.0.1",
        scheme: Scheme::Http,
        default_host: b"up:80",
        upgrade: false,
        conditions: None,
        wants_whole: false,
        via: &VIA,
        edits: Edits::default(),
        named: &NONE,
    };
    change(&mut rewrite);
    let mut out = Vec::new();
    write_request(&head, text.as_bytes(), &rewrite, &mut out);
    String::from_utf8(out).unwrap()
}

const OWN: &str = "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nVia: 1.1 weir-1\r\n";

#[test]
fn end_to_end_fields_stay_and_hop_by_hop_fields_go() {
    let sent = request(
        "GET /x?y HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop, Host\r\nAccept: */*\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
         Proxy: evil\r\nX-Forwarded-Proto: https\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nB: c\r\n\r\n",
        |_| {},
    );
    assert_eq!(
        sent,
        format!("GET /x?y HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nB: c\r\n{OWN}\r\n")
    );
}

#[test]
fn nothing_passes_for_a_field_of_the_gateway() {
    let sent = request(
        "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 1\r\nx-forwarded_proto: https\r\nContent_Length: 5\r\nMy_Own: 1\r\n\r\n",
        |_| {},
    );
    assert_eq!(
        sent,
        format!("GET / HTTP/1.1\r\nHost: a\r\nMy_Own: 1\r\n{OWN}\r\n")
    );
}

#[test]
fn a_request_that_comes_back_is_known() {
    for (fields, has_passed) in [
        ("", false),
        ("Via: 1.1 weir-1\r\n", true),
        ("Via: 1.0 before, 1.1 weir-1 (a comment)\r\n", true),
        ("Via: 1.0 before\r\nvia: 1.1\tweir-1\r\n", true),
        ("Via: 1.1 weir\r\n", false),
        ("Via: 1.1 weir-12, 1.1 weir-2\r\n", false),
        ("Via: weir-1\r\n", false),
        ("X-Via: 1.1 weir-1\r\n", false),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        // One head takes the place of another on a connection.
        let mut head = RequestHead::default();
        for text in ["GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 x\r\n\r\n", &text] {
            head.parse(text.as_bytes(), &mut HeadScan::default(), LIMITS)
                .unwrap();
        }
        assert_eq!(VIA.is_in(&head, text.as_bytes()), has_passed, "{fields:?}");
    }
    let sent = request("GET / HTTP/1.1\r\nHost: a\r\n\r\n", |_| {});
    let mut head = RequestHead::default();
    head.parse(sent.as_bytes(), &mut HeadScan::default(), LIMITS)
        .unwrap();
    assert!(VIA.is_in(&head, sent.as_bytes()));
}

#[test]
fn forwarded_for_grows_at_its_end() {
    let sent = request(
        "GET / HTTP/1.1\r\nX-Forwarded-For: 1\r\nHost: a\r\nX-Forwarded-For: 2\r\n\r\n",
        |_| {},
    );
    let own = OWN.replace("10.0.0.1", "1, 2, 10.0.0.1");
    assert_eq!(sent, format!("GET / HTTP/1.1\r\nHost: a\r\n{own}\r\n"));
}

#[test]
fn targets_are_sent_in_origin_form() {
    let sent = request("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n", |_| {});
    assert!(
        sent.starts_with("GET /?q HTTP/1.1\r\nHost: a\r\n"),
        "{sent}"
    );
    let sent = request("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", |_| {});
    assert!(sent.starts_with("OPTIONS * HTTP/1.1\r\n"), "{sent}");
    let sent = request("GET /api/x HTTP/1.0\r\n\r\n", |how| how.path = b"/x");
    assert_eq!(
        sent,
        "GET /x HTTP/1.1\r\nHost: up:80\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: http\r\nVia: 1.0 weir-1\r\n\r\n"
    );
}

#[test]
fn upgrades_and_trailers_are_announced_again() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let sent = request(text, |how| how.upgrade = true);
    assert_eq!(
        sent,
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n{OWN}Connection: upgrade\r\n\r\n"
        )
    );
    let text = text.replace("Connection: Upgrade", "X: y\r\nConnection: Upgrade, X");
    let sent_with_hop_by_hop = request(&text, |how| how.upgrade = true);
    assert_eq!(sent_with_hop_by_hop, sent);
    let sent = request("GET / HTTP/1.1\r\nHost: a\r\nTE: Trailers\r\n\r\n", |_| {});
    assert_eq!(
        sent,
        format!("GET / HTTP/1.1\r\nHost: a\r\n{OWN}TE: trailers\r\nConnection: TE\r\n\r\n")
    );
}

#[test]
fn a_route_has_the_last_word() {
    let drops = ["accept", "via", "host", "x-forwarded-for"].map(str::to_owned);
    let sent = request(
        "GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\nB: c\r\n\r\n",
        |how| {
            how.edits = Edits {
                drops: &drops,
                lines: b"host: b\r\nx-forwarded-for: 0\r\n",
            };
        },
    );
    assert_eq!(
        sent,
        "GET / HTTP/1.1\r\nB: c\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nhost: b\r\nx-forwarded-for: 0\r\n\r\n"
    );
}

#[test]
fn lines_that_are_written_already_are_taken_off_again() {
    let drops = ["a".to_owned(), "x-b".to_owned()];
    let edits = Edits {
        drops: &drops,
        lines: b"",
    };
    for (head, expected) in [
        ("A: 1\r\nX_B: 2\r\nC: a: 3\r\na: 4\r\n", "C: a: 3\r\n"),
        ("C: 1\r\n", "C: 1\r\n"),
        ("a:\r\n", ""),
        ("", ""),
    ] {
        let mut out = format!("a: b\r\n{head}").into_bytes();
        edits.drop_lines(&mut out, 6);
        assert_eq!(out, format!("a: b\r\n{expected}").as_bytes(), "{head}");
    }
}

fn lines(text: &str, client_version: Version) -> String {
    let mut head = ResponseHead::default();
    head.parse(
        text.as_bytes(),
        &mut HeadScan::default(),
        LIMITS,
        Method::Get,
    )
    .unwrap();
    let rewrite = ResponseRewrite {
        end: End::of(head.framing, client_version),
        date_line: b"Date: now\r\n",
        content: Content::AsIs,
        edits: Edits::default(),
    };
    let mut out = Vec::new();
    write_response(&head, text.as_bytes(), &rewrite, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_for_the_whole_has_no_range() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-\r\nIf-Range: \"1\"\r\nIf-Match: \"2\"\r\n\r\n";
    let sent = request(text, |rewrite| rewrite.wants_whole = true);
    let whole = format!("GET / HTTP/1.1\r\nHost: a\r\nIf-Match: \"2\"\r\n{OWN}\r\n");
    assert_eq!(sent, whole);
    assert!(request(text, |_| {}).contains("Range: bytes=1-\r\nIf-Range: \"1\"\r\n"));
}

#[test]
fn only_trailers_that_are_still_true_are_sent() {
    let came = b"X-Sum: 1\r\nContent-Digest: 2\r\nETag: \"3\"\r\nA: 4\r\nKeep-Alive: 5\r\n";
    let remove = ["a".to_owned()];
    let edits = Edits {
        drops: &remove,
        lines: b"",
    };
    for (content, expected) in [
        (
            Content::AsIs,
            "X-Sum: 1\r\nContent-Digest: 2\r\nETag: \"3\"\r\n",
        ),
        (Content::Encoded(b"gzip"), "X-Sum: 1\r\n"),
    ] {
        let mut out = Vec::new();
        write_trailers(came, content, edits, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn responses() {
    use Version::{Http10, Http11};
    let cases = [
        (
            "HTTP/1.0 200 Fine\r\nContent-Length: 1\r\nDate: then\r\nKeep-Alive: 1\r\n\r\n",
            Http11,
            "Content-Length: 1\r\nDate: then\r\nVia: 1.0 weir\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: A\r\nA: b\r\n\r\n",
            Http10,
            "Content-Length: 1\r\nDate: now\r\nVia: 1.1 weir\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n",
            Http11,
            "Trailer: A\r\nDate: now\r\nVia: 1.1 weir\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n",
            Http10,
            "Date: now\r\nVia: 1.1 weir\r\n",
        ),
        (
            "HTTP/1.1 200\r\n\r\n",
            Http11,
            "Date: now\r\nVia: 1.1 weir\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nDate: then\r\nConnection: Date\r\n\r\n",
            Http11,
            "Content-Length: 1\r\nDate: now\r\nVia: 1.1 weir\r\n",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
            Http11,
            "Link: a\r\n",
        ),
        (
            "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
            Http11,
            "Date: now\r\nVia: 1.1 weir\r\n",
        ),
    ];
    for (text, version, expected) in cases {
        assert_eq!(lines(text, version), expected, "{text}");
    }
}
