//! Codings, as tables.

use super::*;
use crate::test_heads::{get, ok};

#[test]
fn clients_get_what_they_want_most() {
    use Coding::{Brotli, Gzip, Identity, Zstd};
    let preference = [Brotli, Zstd, Gzip];
    let cases = [
        (None, Identity),
        (Some(""), Identity),
        (Some("gzip"), Gzip),
        (Some("X-GZIP"), Gzip),
        (Some("gzip, deflate, br, zstd"), Brotli),
        (Some("gzip, br;q=0.9"), Gzip),
        (Some("gzip;q=0.5, zstd;q=0.5"), Zstd),
        (Some("gzip;q=0"), Identity),
        (Some("br;q=0, *"), Zstd),
        (Some("*;q=0"), Identity),
        (Some("*"), Brotli),
        (Some("identity, gzip;q=0.5"), Identity),
        (Some("identity;q=0.5, gzip"), Gzip),
        (Some("identity;q=0, gzip;q=0.001"), Gzip),
        (Some("gzip;q=2, br;q=x"), Brotli),
        (Some("deflate"), Identity),
        (Some("gzip ; q=0.123, br ;Q=0.124"), Brotli),
    ];
    for (value, expected) in cases {
        let line = value.map(|value| format!("Accept-Encoding: {value}"));
        let lines: Vec<_> = line.iter().map(String::as_str).collect();
        let accepted = Accepted::of(get(&lines).fields());
        assert_eq!(accepted.choose(&preference), expected, "{value:?}");
    }
    let accepted = Accepted::of(get(&["Accept-Encoding: br, *;q=0"]).fields());
    assert!(accepted.takes(Brotli) && !accepted.takes(Identity) && !accepted.takes(Gzip));
    assert_eq!(accepted.choose(&[Gzip]), Identity);
}

#[test]
fn some_responses_are_not_compressed() {
    type Case<'c> = (u16, &'c [&'c str], Option<u64>, Result<(), NotCompressed>);
    let text = "Content-Type: text/plain; charset=utf-8";
    let cases: [Case<'_>; 13] = [
        (200, &[text], Some(2000), Ok(())),
        (200, &[text], None, Ok(())),
        (404, &[text], Some(2000), Ok(())),
        (200, &[text], Some(1023), Err(NotCompressed::TooSmall)),
        (206, &[text], Some(2000), Err(NotCompressed::Status)),
        (304, &[text], None, Err(NotCompressed::Status)),
        (
            200,
            &[text, "Content-Encoding: gzip"],
            None,
            Err(NotCompressed::Encoded),
        ),
        (200, &[text, "Content-Encoding: identity"], None, Ok(())),
        (
            200,
            &[text, "Content-Range: bytes 0-1/2"],
            None,
            Err(NotCompressed::Encoded),
        ),
        (
            200,
            &[text, "Cache-Control: No-Transform"],
            None,
            Err(NotCompressed::NoTransform),
        ),
        (
            200,
            &[text, "CDN-Cache-Control: no-transform"],
            None,
            Err(NotCompressed::NoTransform),
        ),
        (
            200,
            &["Content-Type: image/png"],
            None,
            Err(NotCompressed::MediaType),
        ),
        (200, &[], None, Err(NotCompressed::MediaType)),
    ];
    let policy = CompressPolicy::default();
    for (status, lines, bytes, expected) in cases {
        let found = may_compress(status, ok(lines).fields(), bytes, &policy);
        assert_eq!(found, expected, "{status} {lines:?} {bytes:?}");
    }
    let named = CompressPolicy {
        types: vec!["application/x-mine".to_owned()],
        ..policy
    };
    let mine = ok(&["Content-Type: Application/X-Mine"]);
    assert_eq!(may_compress(200, mine.fields(), None, &named), Ok(()));
}

#[test]
fn media_types() {
    let good = [
        "text/html",
        "TEXT/CSS",
        "application/json",
        "application/ld+json",
        "image/svg+xml",
    ];
    let bad = [
        "image/png",
        "video/mp4",
        "application/zip",
        "text/event-stream",
        "font/woff2",
        "",
    ];
    assert!(
        good.iter()
            .all(|media_type| is_compressible(media_type.as_bytes()))
    );
    assert!(
        !bad.iter()
            .any(|media_type| is_compressible(media_type.as_bytes()))
    );
}
