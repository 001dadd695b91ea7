use super::*;

fn parse(text: &str, method: Method) -> Result<ResponseHead, Reject> {
    let mut head = ResponseHead::default();
    let limits = HeadLimits {
        bytes: 4096,
        fields: 100,
    };
    match head.parse(text.as_bytes(), &mut HeadScan::default(), limits, method)? {
        Progress::Complete(_) => Ok(head),
        Progress::Incomplete => panic!("incomplete: {text:?}"),
    }
}

/// Status line and fields, without the empty line; framing; whether the connection goes on.
#[rustfmt::skip]
const FRAMED: [(&str, Framing, bool); 9] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", Framing::Length(5), true),
    ("HTTP/1.1 200\r\nContent-Length: 0\r\n", Framing::Empty, true),
    ("HTTP/1.1 304 x\r\nContent-Length: 5\r\n", Framing::Empty, true),
    ("HTTP/1.1 204 x\r\n", Framing::Empty, true),
    ("HTTP/1.1 103 Early Hints\r\nLink: a\r\n", Framing::Empty, true),
    ("HTTP/1.1 200 OK\r\n", Framing::UntilClose, false),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", Framing::Chunked, true),
    ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n", Framing::Length(5), false),
    ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n", Framing::Length(5), true),
];

#[test]
fn framing_and_persistence() {
    for (text, framing, keep_alive) in FRAMED {
        let head = parse(&format!("{text}\r\n"), Method::Get).unwrap();
        assert_eq!(
            (head.framing, head.keep_alive),
            (framing, keep_alive),
            "{text:?}"
        );
        let head = parse(&format!("{text}\r\n"), Method::Head).unwrap();
        assert_eq!(head.framing, Framing::Empty, "{text:?} to HEAD");
    }
}

#[rustfmt::skip]
const REFUSED: [(&str, Reject); 14] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Reject::LengthAndEncoding),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Reject::EncodingInHttp10),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Reject::LengthRepeated),
    ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Reject::ObsFold),
    ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Reject::SpaceBeforeColon),
    ("HTTP/1.1 200 OK\nA: b\r\n\r\n", Reject::BareLf),
    ("HTTP/1.1 200 O\rK\r\n\r\n", Reject::StatusLine),
    ("HTTP/1.1 99 OK\r\n\r\n", Reject::StatusLine),
    ("HTTP/1.1 600 OK\r\n\r\n", Reject::StatusLine),
    ("HTTP/1.1 2000 OK\r\n\r\n", Reject::StatusLine),
    ("HTTP/2 200 OK\r\n\r\n", Reject::Version),
    ("HTTP/1.1\t200 OK\r\n\r\n", Reject::Version),
    ("\r\nHTTP/1.1 200 OK\r\n\r\n", Reject::StatusLine),
    ("\r\n\r\n", Reject::StatusLine),
];

#[test]
fn what_two_readers_could_split_differently_is_refused() {
    for (text, reject) in REFUSED {
        assert_eq!(parse(text, Method::Get).err(), Some(reject), "{text:?}");
    }
}
