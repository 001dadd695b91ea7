//! Conditions, as tables.

use super::*;
use crate::stored_head::tests::stored;
use crate::test_heads::{get, ok};

const NOW: Timestamp = Timestamp::from_secs(784_111_777);
const EARLIER: &str = "Sun, 06 Nov 1994 08:00:00 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:30:00 GMT";

fn conditional(stored: &[&StoredHead]) -> String {
    let mut out = Vec::new();
    let has_any = write_conditional(stored, &mut out);
    assert_eq!(has_any, !out.is_empty());
    String::from_utf8(out).unwrap()
}

#[test]
fn requests_carry_what_is_stored() {
    let tag = stored(&["ETag: W/\"a\""]);
    let date = stored(&[&format!("Last-Modified: {EARLIER}")]);
    let both = stored(&["ETag: \"b\"", &format!("Last-Modified: {EARLIER}")]);
    let none = stored(&["Last-Modified: yesterday"]);
    assert_eq!(conditional(&[]), "");
    assert_eq!(conditional(&[&none]), "");
    assert_eq!(conditional(&[&tag]), "If-None-Match: W/\"a\"\r\n");
    assert_eq!(
        conditional(&[&date]),
        format!("If-Modified-Since: {EARLIER}\r\n")
    );
    let expected = format!("If-None-Match: \"b\"\r\nIf-Modified-Since: {EARLIER}\r\n");
    assert_eq!(conditional(&[&both]), expected);
    assert_eq!(
        conditional(&[&tag, &date, &both]),
        "If-None-Match: W/\"a\", \"b\"\r\n"
    );
}

/// RFC 9111 §4.3.3
#[test]
fn a_304_speaks_of_one_response() {
    let a = stored(&["ETag: \"a\"", "Date: Sun, 06 Nov 1994 08:49:37 GMT"]);
    let weak = stored(&["ETag: W/\"b\"", "Date: Sun, 06 Nov 1994 08:49:38 GMT"]);
    let newer_a = stored(&["ETag: \"a\"", "Date: Sun, 06 Nov 1994 08:49:39 GMT"]);
    let modified = format!("Last-Modified: {EARLIER}");
    let dated = stored(&[&modified]);
    let all = [&a, &weak, &newer_a, &dated];
    let of = |stored: &[&StoredHead], lines: &[&str]| select(stored, ok(lines).fields());
    assert_eq!(of(&all, &["ETag: \"a\""]), Some(2));
    assert_eq!(of(&all, &["ETag: W/\"b\""]), Some(1));
    assert_eq!(of(&all, &["ETag: \"b\""]), Some(1));
    assert_eq!(of(&all, &["ETag: \"c\""]), None);
    assert_eq!(of(&all, &[&modified]), Some(3));
    assert_eq!(of(&all, &[&format!("Last-Modified: {LATER}")]), None);
    assert_eq!(of(&all, &[]), None);
    assert_eq!(of(&[&a], &[]), Some(0));
    assert_eq!(of(&[&a], &["ETag: \"other\""]), None);
}

#[test]
fn conditions_of_clients_are_judged_in_order() {
    use Precondition::{ForOrigin, Holds, NotModified};
    let head = stored(&["ETag: \"a\"", &format!("Last-Modified: {EARLIER}")]);
    let since = |date: &str| format!("If-Modified-Since: {date}");
    let (early, late) = (since("Sun, 06 Nov 1994 07:59:59 GMT"), since(LATER));
    let same = since(EARLIER);
    let cases: [(&[&str], Precondition); 17] = [
        (&[], Holds),
        (&["Range: bytes=0-1"], Holds),
        (&["If-None-Match: \"a\""], NotModified),
        (&["If-None-Match: W/\"a\""], NotModified),
        (&["If-None-Match: *"], NotModified),
        (&["If-None-Match: \"x\", \"a\""], NotModified),
        (
            &["If-None-Match: \"x\"", "If-None-Match: \"a\""],
            NotModified,
        ),
        (&["If-None-Match: \"x\""], Holds),
        (&["If-None-Match: a"], Holds),
        (&["If-None-Match: \"x\"", &late], Holds),
        (&["If-None-Match: \"a\"", &early], NotModified),
        (&[&same], NotModified),
        (&[&late], NotModified),
        (&[&early], Holds),
        (&["If-Modified-Since: yesterday"], Holds),
        (&["If-Match: \"a\"", "If-None-Match: \"a\""], ForOrigin),
        (
            &["If-Unmodified-Since: Sun, 06 Nov 1994 08:00:00 GMT"],
            ForOrigin,
        ),
    ];
    for (lines, expected) in cases {
        let found = evaluate(Method::Get, get(lines).fields(), &head, NOW);
        assert_eq!(found, expected, "{lines:?}");
    }
    // Without `Last-Modified`, the date of the response is compared.
    let dated = stored(&["Date: Sun, 06 Nov 1994 08:49:30 GMT"]);
    let of = |date: &str| {
        let line = since(date);
        evaluate(Method::Head, get(&[&line]).fields(), &dated, NOW)
    };
    assert_eq!(of("Sun, 06 Nov 1994 08:49:30 GMT"), NotModified);
    assert_eq!(of("Sun, 06 Nov 1994 08:49:29 GMT"), Holds);
}

#[test]
fn tags_are_compared_in_two_ways() {
    let cases = [
        ("\"a\"", "\"a\"", true, true),
        ("W/\"a\"", "\"a\"", false, true),
        ("W/\"a\"", "W/\"a\"", false, true),
        ("\"a\"", "\"b\"", false, false),
        ("\"a\"", "\"A\"", false, false),
    ];
    for (a, b, strongly, weakly) in cases {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        assert_eq!(is_strongly_equal(a, b), strongly);
        assert_eq!(is_weakly_equal(a, b), weakly);
        assert_eq!(is_weakly_equal(b, a), weakly);
    }
}

#[test]
fn lists_have_tags() {
    let cases: [(&str, &[&str]); 6] = [
        ("", &[]),
        ("*", &["*"]),
        ("\"a\", W/\"b\",\"c,d\"", &["\"a\"", "W/\"b\"", "\"c,d\""]),
        ("\"a\\\", \"b\"", &["\"a\\\"", "\"b\""]),
        (" ,a b , c", &["a b", "c"]),
        ("\"a", &["\"a"]),
    ];
    for (list, expected) in cases {
        let found: Vec<_> = etags(list.as_bytes()).collect();
        let expected: Vec<_> = expected.iter().map(|tag| tag.as_bytes()).collect();
        assert_eq!(found, expected, "{list}");
    }
}

#[test]
fn head_tells_of_changes() {
    let own = stored(&["ETag: \"a\"", &format!("Last-Modified: {EARLIER}")]);
    let of = |lines: &[&str]| compare_head(&own, ok(lines).fields());
    assert_eq!(of(&[]), HeadMeans::Nothing);
    assert_eq!(of(&["Content-Length: 10"]), HeadMeans::Nothing);
    assert_eq!(of(&["ETag: \"a\""]), HeadMeans::Unchanged);
    assert_eq!(
        of(&["ETag: \"a\"", "Content-Length: 10"]),
        HeadMeans::Unchanged
    );
    assert_eq!(of(&["ETag: \"b\""]), HeadMeans::Changed);
    assert_eq!(of(&["Content-Length: 11"]), HeadMeans::Changed);
    assert_eq!(
        of(&[&format!("Last-Modified: {LATER}")]),
        HeadMeans::Changed
    );
    // What came must equal what is stored: having nothing to compare confirms nothing.
    let other_validator = format!("Last-Modified: {EARLIER}");
    for own in [&[][..], &[other_validator.as_str()]] {
        let means = compare_head(&stored(own), ok(&["ETag: \"a\""]).fields());
        assert_eq!(means, HeadMeans::Changed, "{own:?}");
    }
    let tagged = stored(&["ETag: \"a\""]);
    let dated = ok(&["ETag: \"a\"", &other_validator]);
    assert_eq!(compare_head(&tagged, dated.fields()), HeadMeans::Changed);
    let mut missing = own.clone();
    missing.meta.status = 404;
    assert_eq!(compare_head(&missing, ok(&[]).fields()), HeadMeans::Changed);
}
