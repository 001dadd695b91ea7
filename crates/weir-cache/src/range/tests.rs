//! Ranges, as tables, of a body of ten bytes.

use weir_http::Content;

use super::*;
use crate::stored_head::tests::stored;
use crate::test_heads::get;

const NOW: Timestamp = Timestamp::from_secs(784_111_777);
const NO_EDITS: Edits<'_> = Edits {
    drops: &[],
    lines: b"",
};

fn one(first: u64, last: u64) -> Wanted {
    Wanted::One(ByteRange { first, last })
}

#[test]
fn ranges_are_resolved() {
    use Wanted::{Unsatisfiable, Whole};
    let cases = [
        ("bytes=0-1", one(0, 1)),
        ("Bytes=0-1", one(0, 1)),
        ("bytes=1-", one(1, 9)),
        ("bytes=-1", one(9, 9)),
        ("bytes=-20", one(0, 9)),
        ("bytes=0-99999999999999999999999", one(0, 9)),
        ("bytes= 0-0 ,", one(0, 0)),
        ("bytes=9-9", one(9, 9)),
        ("bytes=2-3, 10-11", one(2, 3)),
        ("bytes=10-", Unsatisfiable),
        ("bytes=-0", Unsatisfiable),
        ("bytes=10-11, -0", Unsatisfiable),
        ("bytes=", Whole),
        ("bytes", Whole),
        ("lines=0-1", Whole),
        ("bytes=1-0", Whole),
        ("bytes=a-b", Whole),
        ("bytes=-", Whole),
        ("bytes=+1-2", Whole),
        ("bytes=0-1, x", Whole),
        ("bytes=0-5, 5-9", Whole),
        ("bytes=0-, -1", Whole),
    ];
    for (range, expected) in cases {
        assert_eq!(parse(range.as_bytes(), 10), expected, "{range}");
    }
    assert_eq!(parse(b"bytes=0-", 0), Unsatisfiable);
    let Wanted::Many(ranges) = parse(b"bytes=8-, 0-0,2-3", 10) else {
        panic!("several ranges");
    };
    let found: Vec<_> = ranges.each().iter().map(|r| (r.first, r.last)).collect();
    assert_eq!(found, [(8, 9), (0, 0), (2, 3)]);
    let many = |count: usize| {
        let specs: Vec<_> = (0..count).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
        parse(format!("bytes={}", specs.join(",")).as_bytes(), 1000)
    };
    assert!(matches!(many(RANGES_MAX), Wanted::Many(_)));
    assert_eq!(many(RANGES_MAX + 1), Whole);
}

#[test]
fn ranges_can_be_conditional() {
    let strong = stored(&[
        "ETag: \"a\"",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Last-Modified: Sun, 06 Nov 1994 08:49:36 GMT",
    ]);
    let weak = stored(&[
        "ETag: W/\"a\"",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
    ]);
    let of = |head: &StoredHead, lines: &[&str]| {
        let lines = [&["Range: bytes=0-1"], lines].concat();
        resolve(Method::Get, get(&lines).fields(), head, 10, NOW)
    };
    assert_eq!(of(&strong, &[]), one(0, 1));
    assert_eq!(of(&strong, &["If-Range: \"a\""]), one(0, 1));
    assert_eq!(of(&strong, &["If-Range: \"b\""]), Wanted::Whole);
    assert_eq!(of(&strong, &["If-Range: W/\"a\""]), Wanted::Whole);
    assert_eq!(of(&weak, &["If-Range: W/\"a\""]), Wanted::Whole);
    let date = "If-Range: Sun, 06 Nov 1994 08:49:36 GMT";
    assert_eq!(of(&strong, &[date]), one(0, 1));
    let negotiated = strong.with_content(Content::Negotiated, Some(10));
    assert_eq!(of(&negotiated, &["If-Range: \"a\""]), one(0, 1));
    assert_eq!(of(&negotiated, &[date]), Wanted::Whole);
    assert_eq!(
        of(&strong, &["If-Range: Sun, 06 Nov 1994 08:49:37 GMT"]),
        Wanted::Whole
    );
    assert_eq!(
        of(&weak, &["If-Range: Sun, 06 Nov 1994 08:49:37 GMT"]),
        Wanted::Whole
    );
    assert_eq!(of(&strong, &["Range: bytes=2-3"]), Wanted::Whole);
    let head = get(&["Range: bytes=0-1"]);
    let of_head = resolve(Method::Head, head.fields(), &strong, 10, NOW);
    assert_eq!(of_head, Wanted::Whole);
}

#[test]
fn a_range_has_a_head() {
    let head = stored(&["Content-Type: text/plain", "A: 1"]);
    let mut out = Vec::new();
    let range = ByteRange { first: 2, last: 4 };
    write_single(
        &head,
        range,
        10,
        head.meta.response_time,
        NO_EDITS,
        &mut out,
    );
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("Content-Type: text/plain\r\nA: 1\r\n"));
    assert!(text.ends_with("Content-Range: bytes 2-4/10\r\nContent-Length: 3\r\nAge: 0\r\n"));
    assert_eq!(text.matches("Content-Length").count(), 1);
    let mut out = Vec::new();
    let drops = ["date".to_owned(), "x-a".to_owned()];
    write_unsatisfiable(10, NOW, NO_EDITS, &mut out);
    let expected =
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Range: bytes */10\r\nContent-Length: 0\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let edits = Edits {
        drops: &drops,
        lines: b"x-a: 1\r\n",
    };
    let mut out = Vec::new();
    write_unsatisfiable(10, NOW, edits, &mut out);
    let expected = "Content-Range: bytes */10\r\nx-a: 1\r\nContent-Length: 0\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn several_ranges_are_as_long_as_announced() {
    for lines in [&["Content-Type: text/plain"][..], &[]] {
        let head = stored(lines);
        for (range, body_bytes) in [("bytes=0-0,99-", 1000_u64), ("bytes=1-9, 10-10, -5", 100)] {
            let Wanted::Many(ranges) = parse(range.as_bytes(), body_bytes) else {
                panic!("several ranges");
            };
            let multipart = Multipart::new(&head, &ranges, body_bytes, 7);
            let mut out = Vec::new();
            for &range in ranges.each() {
                multipart.write_part_head(range, &mut out);
                out.resize(out.len() + range.bytes() as usize, b'x');
            }
            multipart.write_end(&mut out);
            assert_eq!(multipart.content_bytes(), out.len() as u64);
            let mut top = Vec::new();
            multipart.write_head(NOW, NO_EDITS, &mut top);
            let top = String::from_utf8(top).unwrap();
            let length = format!("\r\nContent-Length: {}\r\n", out.len());
            assert!(top.contains(&length) && top.contains("multipart/byteranges; boundary=7000"));
            assert!(!top.contains("text/plain"));
        }
    }
}
