use super::*;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 32 << 10,
    fields: 100,
};

fn parse(text: &str) -> Result<RequestHead, Reject> {
    let mut head = RequestHead::default();
    match head.parse(text.as_bytes(), &mut HeadScan::default(), LIMITS)? {
        Progress::Complete(bytes) => assert_eq!(bytes, text.len()),
        Progress::Incomplete => panic!("incomplete: {text:?}"),
    }
    Ok(head)
}

fn with(fields: &str) -> Result<RequestHead, Reject> {
    parse(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

#[test]
fn framing() {
    let cases = [
        ("", Ok(Framing::Empty)),
        ("Content-Length: 0\r\n", Ok(Framing::Empty)),
        ("Content-Length:\t5 \r\n", Ok(Framing::Length(5))),
        ("Transfer-Encoding: Chunked\r\n", Ok(Framing::Chunked)),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            Err(Reject::LengthRepeated),
        ),
        ("Content-Length: 5, 5\r\n", Err(Reject::LengthRepeated)),
        ("Content-Length: +5\r\n", Err(Reject::LengthInvalid)),
        ("Content-Length: -5\r\n", Err(Reject::LengthInvalid)),
        ("Content-Length: 0x5\r\n", Err(Reject::LengthInvalid)),
        ("Content-Length: 1 2\r\n", Err(Reject::LengthInvalid)),
        ("Content-Length: \r\n", Err(Reject::LengthInvalid)),
        (
            "Content-Length: 18446744073709551621\r\n",
            Err(Reject::LengthInvalid),
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            Err(Reject::LengthAndEncoding),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
            Err(Reject::LengthAndEncoding),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(Reject::EncodingNotChunked),
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n",
            Err(Reject::EncodingNotChunked),
        ),
        (
            "Transfer-Encoding: identity\r\n",
            Err(Reject::EncodingNotChunked),
        ),
        (
            "Transfer-Encoding: xchunked\r\n",
            Err(Reject::EncodingNotChunked),
        ),
        ("Transfer-Encoding: \r\n", Err(Reject::EncodingNotChunked)),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            Err(Reject::EncodingUnknown),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(
            with(fields).map(|head| head.framing),
            expected,
            "{fields:?}"
        );
    }
    let http10 = parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(http10.err(), Some(Reject::EncodingInHttp10));
}

#[test]
fn lines_that_two_parsers_could_read_in_two_ways() {
    let cases = [
        (
            "GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n",
            Reject::ObsFold,
        ),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Reject::ObsFold),
        (
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            Reject::SpaceBeforeColon,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", Reject::FieldName),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
            Reject::FieldName,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n",
            Reject::ControlByte,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n",
            Reject::ControlByte,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\x7f\r\n\r\n",
            Reject::ControlByte,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: b\rY: c\r\n\r\n",
            Reject::BareCr,
        ),
        ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", Reject::BareLf),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", Reject::BareCr),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET /\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET / HTTP/1.1x\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Reject::Version),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", Reject::Version),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", Reject::Target),
        (
            "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            Reject::MethodRefused,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
            Reject::Expectation,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).err(), Some(expected), "{text:?}");
    }
}

#[test]
fn authority() {
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", Err(Reject::HostMissing)),
        ("GET / HTTP/1.0\r\n\r\n", Ok(None)),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            Err(Reject::HostRepeated),
        ),
        ("GET / HTTP/1.1\r\nHost: \r\n\r\n", Err(Reject::HostInvalid)),
        (
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            Err(Reject::HostInvalid),
        ),
        ("GET http://A/ HTTP/1.1\r\nHost: a\r\n\r\n", Ok(Some("a"))),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            Err(Reject::HostDisagrees),
        ),
        ("GET http://b/ HTTP/1.0\r\n\r\n", Ok(Some("b"))),
    ];
    for (text, expected) in cases {
        let span = |s: Span| &text[s.start as usize..s.end as usize];
        assert_eq!(
            parse(text).map(|head| head.authority.map(span)),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn persistence() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive, Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        (
            "1.0",
            "Connection: keep-alive\r\nConnection: close\r\n",
            false,
        ),
    ];
    for (version, fields, expected) in cases {
        let head = parse(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).unwrap();
        assert_eq!(head.keep_alive, expected, "{version} {fields}");
    }
}

#[test]
fn upgrade_needs_the_connection_option() {
    assert!(
        with("Connection: Upgrade\r\nUpgrade: websocket\r\n")
            .unwrap()
            .upgrade
            .is_some()
    );
    assert!(with("Upgrade: websocket\r\n").unwrap().upgrade.is_none());
}

#[test]
fn two_protocols_to_upgrade_to_are_none() {
    let head = with("Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n").unwrap();
    assert!(head.upgrade.is_none());
}

#[test]
fn an_empty_line_that_arrives_in_halves_is_skipped_like_a_whole_one() {
    let mut head = RequestHead::default();
    let mut scan = HeadScan::default();
    assert_eq!(leading_empty_line(b"\r"), Ok(None));
    assert_eq!(
        head.parse(b"\r", &mut scan, LIMITS),
        Ok(Progress::Incomplete)
    );
    assert_eq!(leading_empty_line(b"\r\n"), Ok(Some(true)));
    // The caller has skipped it, and nothing else has arrived.
    assert_eq!(head.parse(b"", &mut scan, LIMITS), Ok(Progress::Incomplete));
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        head.parse(text, &mut scan, LIMITS),
        Ok(Progress::Complete(text.len()))
    );
}

#[test]
fn an_empty_line_is_no_request_line() {
    let text = "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(parse(text).err(), Some(Reject::RequestLine));
}

#[test]
fn a_connection_field_has_few_options() {
    assert!(with(&format!("Connection: {}a\r\n", "a,".repeat(15))).is_ok());
    let too_many = with(&format!("Connection: {}a\r\n", "a,".repeat(16)));
    assert_eq!(too_many.err(), Some(Reject::FieldValue));
}
