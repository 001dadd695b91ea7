//! What must hold of every chunked body, whatever the bytes.

use weir_http::body::Framing;
use weir_http::{Body, Reject};

/// Panics if reading `data` as a chunked body breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let whole = read_in_pieces(data, data.len().max(1));
    for step in [1, 2, 3, 7, 64] {
        let pieces = read_in_pieces(data, step);
        assert_eq!(pieces.verdict, whole.verdict, "in pieces of {step}");
        // Up to a refusal, content may or may not have been handed out in the call that refuses.
        if whole.verdict.is_ok() {
            assert_eq!(pieces.content, whole.content, "in pieces of {step}");
        }
        assert_eq!(taken_only(data, step), pieces.verdict, "by take");
    }
    let Ok((taken, is_done)) = whole.verdict else {
        return;
    };
    if !is_done {
        assert_eq!(taken, data.len(), "all of a body that goes on is taken");
        return;
    }
    assert_eq!(
        by_lines(&data[..taken]).as_deref(),
        Some(whole.content.as_slice()),
        "a reader that works line by line finds the same content"
    );
    // What lies behind the body is not looked at, and nothing less than the body is one.
    let alone = read_in_pieces(&data[..taken], taken);
    assert_eq!(alone.verdict, Ok((taken, true)));
    let cut = read_in_pieces(&data[..taken - 1], taken);
    assert_eq!(cut.verdict, Ok((taken - 1, false)));
    check_encoded_again(&whole.content);
}

#[derive(Debug)]
struct Reading {
    /// How many bytes were taken and whether the body has ended.
    verdict: Result<(usize, bool), Reject>,
    content: Vec<u8>,
}

fn read_in_pieces(data: &[u8], step: usize) -> Reading {
    let mut content = Vec::new();
    let verdict = read(data, step, |body, piece| {
        body.decode(piece, |data| content.extend_from_slice(data))
    });
    Reading { verdict, content }
}

/// The reading of who passes the bytes on as they came.
fn taken_only(data: &[u8], step: usize) -> Result<(usize, bool), Reject> {
    read(data, step, Body::take)
}

fn read(
    data: &[u8],
    step: usize,
    mut take: impl FnMut(&mut Body, &[u8]) -> Result<usize, Reject>,
) -> Result<(usize, bool), Reject> {
    let mut body = Body::new(Framing::Chunked);
    let mut total = 0;
    for piece in data.chunks(step) {
        let was_done = body.is_done();
        let taken = take(&mut body, piece)?;
        assert!(taken <= piece.len(), "no more is taken than there is");
        assert!(taken == piece.len() || body.is_done());
        assert!(taken == 0 || !was_done, "nothing is taken after the end");
        assert_eq!(body.may_end_here(), body.is_done());
        total += taken;
    }
    Ok((total, body.is_done()))
}

/// A second opinion: the content of a complete body by the grammar of RFC 9112 §7.1, without any state between bytes.
fn by_lines(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let line = take_line(&mut rest)?;
        let size = line.split(|&b| b == b';').next()?;
        let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).ok()?;
        content.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
    while let [_, ..] = take_line(&mut rest)? {}
    rest.is_empty().then_some(content)
}

/// The line at the start of `rest`, which is left with what follows its CRLF.
fn take_line<'d>(rest: &mut &'d [u8]) -> Option<&'d [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

/// The content as one chunk is a body with that content.
fn check_encoded_again(content: &[u8]) {
    let mut encoded = Vec::new();
    if !content.is_empty() {
        encoded.extend_from_slice(format!("{:x}\r\n", content.len()).as_bytes());
        encoded.extend_from_slice(content);
        encoded.extend_from_slice(b"\r\n");
    }
    encoded.extend_from_slice(b"0\r\n\r\n");
    let again = read_in_pieces(&encoded, encoded.len());
    assert_eq!(again.verdict, Ok((encoded.len(), true)));
    assert_eq!(again.content, content);
}
