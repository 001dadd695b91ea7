use super::*;

/// Statuses read from `input` in pieces of `step` bytes, and whether the connection stays open after each.
fn read(input: &[u8], step: usize) -> Result<Vec<(u16, bool)>, Reject> {
    let (mut reader, mut seen) = (ResponseReader::default(), SeenHead::default());
    let mut found = Vec::new();
    for mut piece in input.chunks(step) {
        while !piece.is_empty() {
            if let Some(meaning) = reader.read(&mut piece, Method::Get, &mut seen)? {
                found.push((meaning.status, meaning.keep_alive));
            }
        }
    }
    Ok(found)
}

#[test]
fn responses_in_any_pieces() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n";
    let closing = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let input = [ok, ok, chunked, ok, interim, interim, closing].concat();
    let expected = [
        (200, true),
        (200, true),
        (404, true),
        (200, true),
        (204, true),
        (204, true),
        (503, false),
    ];
    for step in [1, 2, 3, 7, 40, input.len()] {
        assert_eq!(
            read(input.as_bytes(), step),
            Ok(expected.to_vec()),
            "by {step}"
        );
    }
}

/// The last head is reused only for the same method: the answer to HEAD has no body.
#[test]
fn a_head_seen_before_means_the_same_for_the_same_method_only() {
    let mut seen = SeenHead::default();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let mut reader = ResponseReader::default();
    assert_eq!(
        reader.read(&mut &head[..], Method::Get, &mut seen),
        Ok(None)
    );
    let mut reader = ResponseReader::default();
    let answered = reader.read(&mut &head[..], Method::Head, &mut seen);
    assert!(answered.is_ok_and(|meaning| meaning.is_some()));
}

#[test]
fn what_is_no_response_is_refused() {
    for input in [
        "SSH-2.0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz",
    ] {
        assert!(read(input.as_bytes(), 1).is_err(), "{input}");
        assert!(read(input.as_bytes(), input.len()).is_err(), "{input}");
    }
}

#[test]
fn only_a_body_without_length_may_end_with_the_connection() {
    for (input, ends) in [
        ("HTTP/1.1 200 OK\r\n\r\nuntil", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", false),
        ("HTTP/1.1 200 OK\r\n", false),
        ("", false),
    ] {
        let (mut reader, mut seen) = (ResponseReader::default(), SeenHead::default());
        let read = reader.read(&mut input.as_bytes(), Method::Get, &mut seen);
        assert_eq!(read, Ok(None), "{input}");
        assert_eq!(reader.end().is_some(), ends, "{input}");
    }
}
