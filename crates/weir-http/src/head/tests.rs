//! Where heads end, and which names are known.

use super::*;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 64,
    fields: 2,
};

#[test]
fn the_end_is_found_however_the_bytes_arrive() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    for cut in 0..head.len() {
        let mut scan = HeadScan::default();
        let first = scan.end(&head[..cut], LIMITS).unwrap();
        let end = first.or_else(|| scan.end(head, LIMITS).unwrap());
        assert_eq!(end, Some(27), "cut at {cut}");
    }
}

/// A limit comes before a worse fault: a head that arrives whole gets the same verdict as one that arrives byte by
/// byte.
#[test]
fn bytes_beyond_the_limit_are_ignored() {
    let heads = [
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(64)),
        format!("GET / HTTP/1.1\r\na: {}\n\r\n", "b".repeat(64)),
        format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(42)),
    ];
    let expected = [
        Reject::TargetTooLong,
        Reject::HeadTooLarge,
        Reject::HeadTooLarge,
    ];
    for (head, reject) in heads.iter().zip(expected) {
        let whole = HeadScan::default().end(head.as_bytes(), LIMITS);
        assert_eq!(whole, Err(reject), "{head:?}");
        let mut scan = HeadScan::default();
        let pieces =
            (1..=head.len()).find_map(|cut| scan.end(&head.as_bytes()[..cut], LIMITS).err());
        assert_eq!(pieces, Some(reject), "{head:?}");
    }
    let fits = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(41));
    let end = HeadScan::default().end(fits.as_bytes(), LIMITS);
    assert_eq!(end, Ok(Some(LIMITS.bytes)));
}

#[test]
fn what_is_too_large_is_refused_before_it_is_complete() {
    let cases: [(&[u8], Reject); 4] = [
        (&[b'a'; 64], Reject::TargetTooLong),
        (
            b"GET / HTTP/1.1\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            Reject::HeadTooLarge,
        ),
        (
            b"GET / HTTP/1.1\r\na: b\r\na: b\r\na: b\r\n",
            Reject::TooManyFields,
        ),
        (b"GET / HTTP/1.1\nHost: a\r\n", Reject::BareLf),
    ];
    for (head, expected) in cases {
        assert_eq!(HeadScan::default().end(head, LIMITS), Err(expected));
    }
}
