//! What is kept, what a hit sends, what a 304 changes, and the form on disk.

use std::time::Duration;

use super::*;
use crate::store_rule::Answered;
use crate::test_heads::{get, ok};
use weir_http::Method;

const NOW: Timestamp = Timestamp::from_secs(784_111_777);
const NO_EDITS: Edits<'_> = Edits {
    drops: &[],
    lines: b"",
};

fn at(now: Timestamp) -> Exchanged {
    Exchanged {
        request_time: now,
        response_time: now,
    }
}

fn stored_for(request: &[&str], response: &[&str]) -> StoredHead {
    let lines = [response, &["Cache-Control: max-age=60"]].concat();
    let (request, response) = (get(request), ok(&lines));
    let policy = CachePolicy::default();
    let answered = Answered {
        method: Method::Get,
        is_keyed_by_body: false,
        target: b"/",
        authority: b"h",
        request: request.fields(),
        has_cookies: request.fields().has(weir_http::FieldName::Cookie),
        status: 200,
        response: response.fields(),
        body_bytes: Some(10),
        exchanged: at(NOW),
    };
    let meta = store_rule::decide(&answered, &policy).expect("the test's response is stored");
    let arrived = Arrived {
        status_text: b"200 OK",
        version: Version::Http11,
        response: response.fields(),
        request: request.fields(),
        has_cookies: request.fields().has(weir_http::FieldName::Cookie),
        selecting: request.fields(),
    };
    let mut head = StoredHead::new(&arrived, meta, &policy);
    head.complete(10);
    head
}

/// A stored 200 with these lines, fresh for a minute, of ten bytes.
pub(crate) fn stored(response: &[&str]) -> StoredHead {
    stored_for(&[], response)
}

fn text(head: &StoredHead) -> String {
    String::from_utf8(head.lines().to_vec()).unwrap()
}

fn freshened(head: &StoredHead, lines: &[&str], now: Timestamp) -> StoredHead {
    let (request, response) = (get(&[]), ok(lines));
    let arrived = Arrived {
        status_text: b"",
        version: Version::Http11,
        response: response.fields(),
        request: request.fields(),
        has_cookies: request.fields().has(weir_http::FieldName::Cookie),
        selecting: request.fields(),
    };
    head.freshened(&arrived, at(now), &CachePolicy::default())
}

#[test]
fn what_belongs_to_a_connection_is_not_kept() {
    let head = stored(&[
        "Connection: a, b",
        "A: 1",
        "b: 2",
        "C: 3",
        "Keep-Alive: 1",
        "Proxy-Authenticate: 1",
        "Proxy-Authentication-Info: 1",
        "Proxy-Authorization: 1",
        "Proxy-Connection: 1",
        "TE: 1",
        "Trailer: 1",
        "Upgrade: 1",
        "Age: 5",
        "Content-Length: 10",
        "Set-Cookie: a=b",
        "Set-Cookie2: a=b",
        "Cache-Control: public, no-cache=\"d\", private=\"e\"",
        "D: 4",
        "E: 5",
    ]);
    let expected = "HTTP/1.1 200 OK\r\nC: 3\r\nSet-Cookie: a=b\r\nSet-Cookie2: a=b\r\n\
                    Cache-Control: public, no-cache=\"d\", private=\"e\"\r\nCache-Control: max-age=60\r\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 weir\r\nContent-Length: 10\r\n";
    assert_eq!(text(&head), expected);
    assert_eq!(head.meta.initial_age, Duration::from_secs(5));
    assert_eq!(
        head.fields().first(FieldName::ContentLength),
        Some(&b"10"[..])
    );
    assert_eq!(head.body_bytes(), Some(10));
}

#[test]
fn a_hit_is_a_copy_and_an_age() {
    let head = stored(&["A: 1", "B: 2"]);
    let later = NOW.after(Duration::from_millis(3500));
    let mut out = Vec::new();
    head.write(later, NO_EDITS, &mut out);
    assert_eq!(head.status_text(), b"200 OK");
    let status_line = b"HTTP/1.1 200 OK\r\n";
    assert_eq!(
        [&status_line[..], &out].concat(),
        [head.lines(), b"Age: 3\r\n"].concat()
    );
    let edits = Edits {
        drops: &["a".to_owned(), "b".to_owned(), "via".to_owned()],
        lines: b"b: 9\r\n",
    };
    let mut out = Vec::new();
    head.write(later, edits, &mut out);
    let out = String::from_utf8(out).unwrap();
    assert!(out.starts_with("Cache-Control: max-age=60\r\n"));
    assert!(out.ends_with("Content-Length: 10\r\nb: 9\r\nAge: 3\r\n") && !out.contains("Via"));
}

#[test]
fn a_304_has_no_fields_that_describe_content() {
    let head = stored(&[
        "ETag: \"a\"",
        "Last-Modified: Sun, 06 Nov 1994 08:49:36 GMT",
        "Content-Type: text/plain",
        "Content-Language: de",
        "Content-Location: /x",
        "Vary: a",
        "Access-Control-Allow-Origin: *",
    ]);
    let mut out = Vec::new();
    head.write_not_modified(NOW, NO_EDITS, &mut out);
    let expected = "ETag: \"a\"\r\nContent-Location: /x\r\nVary: a\r\n\
                    Access-Control-Allow-Origin: *\r\nCache-Control: max-age=60\r\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nVia: 1.1 weir\r\nAge: 0\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// RFC 9111 §3.2: all fields but those that describe the stored bytes.
#[test]
fn a_304_updates() {
    let before = [
        "ETag: \"a\"",
        "Content-Type: a/a",
        "Content-Encoding: x",
        "Content-MD5: x",
        "Content-Range: x",
        "A: 1",
        "A: 2",
        "B: 1",
    ];
    let head = stored(&before);
    let later = NOW.after(Duration::from_secs(100));
    let new = freshened(
        &head,
        &[
            "Cache-Control: max-age=5",
            "ETag: \"b\"",
            "Content-Type: b/b",
            "Content-Encoding: y",
            "Content-MD5: y",
            "Content-Range: y",
            "Content-Length: 99",
            "A: 3",
            "C: 1",
            "Connection: D",
            "D: 1",
            "Keep-Alive: 1",
            "Age: 2",
        ],
        later,
    );
    let expected = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Encoding: x\r\nContent-MD5: x\r\n\
                    Content-Range: x\r\nB: 1\r\nVia: 1.1 weir\r\nContent-Length: 10\r\n\
                    Cache-Control: max-age=5\r\nContent-Type: b/b\r\nA: 3\r\nC: 1\r\n\
                    Date: Sun, 06 Nov 1994 08:51:17 GMT\r\n";
    assert_eq!(text(&new), expected);
    assert_eq!(new.meta.lifetime, Duration::from_secs(5));
    assert_eq!(new.meta.initial_age, Duration::from_secs(2));
    assert_eq!(new.meta.response_time, later);
    assert_eq!(new.body_bytes(), Some(10));
    // What it does not say stays as it was, except for the time.
    let same = freshened(&head, &[], later);
    assert_eq!(same.meta.lifetime, Duration::from_secs(60));
    assert!(same.meta.is_fresh(later));
    assert_eq!(same.fields().all(FieldName::CacheControl).count(), 1);
}

#[test]
fn a_confirmation_has_cookies_for_one_client() {
    let head = stored(&[
        "Cache-Control: public",
        "Set-Cookie: a=1",
        "B: 2",
        "Set-Cookie: c=3",
    ]);
    assert!(head.with_cookies_of(ok(&["B: 3"]).fields()).is_none());
    let confirmation = ok(&["Set-Cookie: a=4", "Set-Cookie: d=5"]);
    let own = head
        .with_cookies_of(confirmation.fields())
        .expect("it has cookies");
    let fields = own.fields();
    assert_eq!(
        fields.all(FieldName::SetCookie).collect::<Vec<_>>(),
        [b"a=4", b"d=5"]
    );
    assert!(
        text(&own).starts_with("HTTP/1.1 200 OK\r\nCache-Control: public\r\nB: 2\r\n"),
        "{}",
        text(&own)
    );
    assert_eq!(own.body_bytes(), head.body_bytes());
}

#[test]
fn variants_remember_their_request() {
    let head = stored_for(&["A: 1"], &["Vary: A"]);
    assert_eq!(head.secondary(), b"a:1\n");
}

fn on_disk(head: &StoredHead) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    head.write_bytes(&mut bytes);
    bytes.split_off(6)
}

#[test]
fn the_form_on_disk_is_read_again() {
    let plain = stored(&[]);
    let full = stored_for(
        &["A: 1"],
        &[
            "Vary: A, b",
            "ETag: \"a\"",
            "Last-Modified: Sun, 06 Nov 1994 08:49:36 GMT",
            "Cache-Control: s-maxage=9, stale-while-revalidate=5, stale-if-error=6, no-transform",
        ],
    );
    for head in [plain, full] {
        let again = StoredHead::from_bytes(&on_disk(&head)).unwrap();
        assert_eq!(again.meta, head.meta);
        assert_eq!(again.lines(), head.lines());
        assert_eq!(again.secondary(), head.secondary());
        assert_eq!(again.body_bytes(), head.body_bytes());
        assert!(again.fields().iter().eq(head.fields().iter()));
        assert_eq!(on_disk(&again), on_disk(&head));
    }
}

/// Changed bytes are either refused or give a valid head; nothing panics.
#[test]
fn changed_bytes_are_refused_or_harmless() {
    let head = stored_for(&["A: 1"], &["Vary: A", "ETag: \"a\""]);
    let bytes = on_disk(&head);
    for end in 0..bytes.len() {
        assert!(
            StoredHead::from_bytes(&bytes[..end]).is_err(),
            "{end} bytes"
        );
    }
    let mut refused = 0;
    for at in 0..bytes.len() {
        for value in [0, 1, b'\r', b'\n', b':', b' ', 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            match StoredHead::from_bytes(&changed) {
                Err(_) => refused += 1,
                Ok(read) => assert_eq!(on_disk(&read), changed, "byte {at} as {value}"),
            }
        }
    }
    assert!(refused > bytes.len(), "{refused} refused");
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(
        StoredHead::from_bytes(&longer).unwrap_err(),
        Corrupt::Length
    );
    let mut later_version = bytes;
    later_version[3] = 2;
    assert_eq!(
        StoredHead::from_bytes(&later_version).unwrap_err(),
        Corrupt::Form
    );
}
