//! Which requests select the same variant, as tables.

use std::time::Duration;

use super::*;
use crate::meta::{Demands, LifetimeSource};
use crate::test_heads::{get, ok};
use crate::time::Timestamp;

fn secondary(vary: &str, request: &[&str]) -> Vec<u8> {
    let (response, request) = (ok(&[&format!("Vary: {vary}")]), get(request));
    let mut out = Vec::new();
    write_secondary(response.fields(), request.fields(), false, &mut out);
    out
}

fn selects(vary: &str, stored: &[&str], asking: &[&str]) -> bool {
    let secondary = secondary(vary, stored);
    matches(&secondary, get(asking).fields(), false, &mut Vec::new())
}

#[test]
fn secondary_keys_are_readable() {
    let key = secondary(
        "Foo, accept-language , foo, Bar",
        &["Accept-Language: en;q=0.50, DE", "Bar: 1 , 2", "bar:"],
    );
    assert_eq!(
        key.escape_ascii().to_string(),
        "accept-language:de,en;q=0.5\\nbar:1 , 2\\nbar:\\nfoo\\n"
    );
    assert!(names(&key).eq([&b"accept-language"[..], b"bar", b"foo"]));
    assert_eq!(names(b"").count(), 0);
    assert!(is_secondary(&key) && is_secondary(b""));
    for broken in [
        &b"foo"[..],
        b"foo\nbar",
        b"\n",
        b":a\n",
        b"Foo:a\n",
        b"f oo:a\n",
    ] {
        assert!(!is_secondary(broken), "{}", broken.escape_ascii());
    }
}

#[test]
fn requests_that_select_the_same() {
    let cases: [(&str, &[&str], &[&str]); 16] = [
        ("", &["Foo: 1"], &["Foo: 2"]),
        ("Foo", &["Foo: 1"], &["Foo: 1", "Bar: 2"]),
        ("Foo", &["foo: 1"], &["FOO:  1\t"]),
        ("Foo", &[], &["Bar: 2"]),
        (
            "Foo, Bar, Baz",
            &["Foo: 1", "Baz: 3"],
            &["Baz: 3", "Foo: 1"],
        ),
        ("Foo", &["Foo: 1", "Foo: 2"], &["Foo: 1", "Foo: 2"]),
        ("Foo", &["Foo: \"a, b\""], &["Foo: \"a, b\""]),
        (
            "Accept-Language",
            &["Accept-Language: en, de"],
            &["Accept-Language: De,EN"],
        ),
        (
            "Accept-Language",
            &["Accept-Language: en;q=1"],
            &["Accept-Language: en"],
        ),
        (
            "Accept-Language",
            &["Accept-Language: en-GB; q=0.50, *;q=0."],
            &["Accept-Language: *;q=0,en-gb;Q=0.5"],
        ),
        (
            "Accept-Language",
            &["Accept-Language: en, en"],
            &["Accept-Language: en"],
        ),
        (
            "Accept-Encoding",
            &["Accept-Encoding: gzip, br"],
            &["Accept-Encoding: BR,gzip"],
        ),
        (
            "Accept-Charset",
            &["Accept-Charset: a, b"],
            &["Accept-Charset: b, a"],
        ),
        (
            "Accept",
            &["Accept: a/b;v=1 , c/*;q=0.1, */*;q=0.010"],
            &["Accept: a/b; v=1; q=1.000,c/*; q=0.10,*/* ;Q=0.01"],
        ),
        ("Accept", &["Accept: ,"], &["Accept: ,"]),
        ("Cookie", &["Cookie: a=b; c=d"], &["Cookie: a=b; c=d"]),
    ];
    for (vary, a, b) in cases {
        assert!(selects(vary, a, b), "{vary}: {a:?} {b:?}");
        assert!(selects(vary, b, a), "{vary}: {b:?} {a:?}");
    }
}

#[test]
fn requests_that_select_another() {
    let cases: [(&str, &[&str], &[&str]); 28] = [
        ("Foo", &["Foo: 1"], &["Foo: 2"]),
        ("Foo", &["Foo: 1"], &[]),
        ("Foo", &["Foo: "], &[]),
        ("Foo", &["Foo: a"], &["Foo: A"]),
        ("Foo", &["Foo: 1, 2"], &["Foo: 2, 1"]),
        ("Foo", &["Foo: 1 2"], &["Foo: 1,2"]),
        ("Foo", &["Foo: \"a,b\""], &["Foo: \"a, b\""]),
        // Values that an origin can distinguish are different, even if they are equal as
        // lists.
        ("Origin", &["Origin: https://a,"], &["Origin: https://a"]),
        ("Origin", &["Origin: ,https://a"], &["Origin: https://a"]),
        (
            "Origin",
            &["Origin: https://a", "Origin:"],
            &["Origin: https://a"],
        ),
        ("Origin", &["Origin:"], &["Origin: ,"]),
        ("Foo", &["Foo: 1, 2"], &["Foo: 1,2"]),
        ("Foo", &["Foo: 1, 2"], &["Foo: 1", "Foo: 2"]),
        ("Foo", &["Foo: 1"], &["Foo: 1", "Foo: 1"]),
        ("Foo", &["Foo: 1", "Foo: 2"], &["Foo: 2", "Foo: 1"]),
        ("Foo, Bar", &["Foo: 1", "Bar: 2"], &["Foo: 2", "Bar: 1"]),
        ("Foo, Bar", &["Foo: 1"], &["Bar: 1"]),
        ("Accept", &["Accept: a/b;v=A"], &["Accept: a/b;v=a"]),
        // Origins take the first of equals.
        ("Accept", &["Accept: a/b, c/d"], &["Accept: c/d, a/b"]),
        ("Accept", &["Accept: "], &["Accept: ,"]),
        (
            "Accept-Language",
            &["Accept-Language: en"],
            &["Accept-Language: en;q=0"],
        ),
        (
            "Accept-Language",
            &["Accept-Language: en"],
            &["Accept-Language: en-gb"],
        ),
        (
            "Accept-Encoding",
            &["Accept-Encoding: gzip", "Accept-Encoding: br"],
            &["Accept-Encoding: gzip, br"],
        ),
        ("Cookie", &["Cookie: a=b"], &["Cookie: a=c"]),
        ("Cookie", &["Cookie: a=b; c=d"], &["Cookie: a=b;c=d"]),
        ("Cookie", &["Cookie: a=b,"], &["Cookie: a=b"]),
        ("Cookie", &["Cookie: a=b, c"], &["Cookie: a=b,c"]),
        (
            "Cookie",
            &["Cookie: a=b", "Cookie: c=d"],
            &["Cookie: a=b, c=d"],
        ),
    ];
    for (vary, a, b) in cases {
        assert!(!selects(vary, a, b), "{vary}: {a:?} {b:?}");
        assert!(!selects(vary, b, a), "{vary}: {b:?} {a:?}");
    }
}

/// A value outside its grammar equals only itself.
#[test]
fn values_off_the_grammar_have_no_normal_form() {
    let cases = [
        ("Accept-Encoding", "gzip"),
        ("Accept-Language", "de"),
        ("Accept-Charset", "utf-8"),
        ("Accept", "text/html"),
    ];
    for (name, value) in cases {
        let line = |value: &str| format!("{name}: {value}");
        let plain = line(value);
        for off in [
            format!("{value},"),
            format!(",{value}"),
            format!("{value},,{value}"),
            format!("{value};q=1.0000"),
            format!("{value};q=1.1"),
            format!("{value};q=2"),
            format!("{value};q=.5"),
            format!("{value};q=0.5x"),
            format!("{value};q ="),
            format!("{value};q= 1"),
            format!("{value};"),
            format!("{value};q=1;q=1"),
            format!("{value};q=1;v=1"),
            format!("{value};v"),
            format!("{value} x"),
            format!("\"{value}\""),
            format!("{value};v=\"1\""),
        ] {
            let off = line(&off);
            assert!(!selects(name, &[&plain], &[&off]), "{off}");
            assert!(!selects(name, &[&off], &[&plain]), "{off}");
            assert!(selects(name, &[&off], &[&off]), "{off}");
        }
    }
    let others = [
        ("Accept-Language", "DE_at", "de_at"),
        ("Accept-Language", "de-", "DE-"),
        ("Accept-Language", "1a", "1A"),
        ("Accept-Language", "abcdefghi", "ABCDEFGHI"),
        ("Accept-Encoding", "gzip;v=1", "GZIP;v=1"),
        ("Accept", "text;q=0.50", "text;q=0.5"),
        ("Accept", "*/html;q=0.50", "*/html;q=0.5"),
        ("Accept", "a/b/c;q=0.50", "a/b/c;q=0.5"),
    ];
    for (name, one, other) in others {
        let [one, other] = [one, other].map(|value| format!("{name}: {value}"));
        assert!(!selects(name, &[&one], &[&other]), "{one} {other}");
    }
}

#[test]
fn the_order_of_languages_can_matter() {
    let (response, stored) = (
        ok(&["Vary: Accept-Language"]),
        get(&["Accept-Language: en, de"]),
    );
    let mut key = Vec::new();
    write_secondary(response.fields(), stored.fields(), true, &mut key);
    let mut scratch = Vec::new();
    let mut selects = |line: &str| matches(&key, get(&[line]).fields(), true, &mut scratch);
    assert!(selects("Accept-Language: EN,de"));
    assert!(!selects("Accept-Language: de, en"));
}

#[test]
fn long_lists_keep_their_order() {
    let list = |rotated: usize| {
        let names = (0..40).map(|n| format!("a{}", (n + rotated) % 40));
        format!("Accept-Encoding: {}", names.collect::<Vec<_>>().join(", "))
    };
    assert!(selects("Accept-Encoding", &[&list(0)], &[&list(0)]));
    assert!(!selects("Accept-Encoding", &[&list(0)], &[&list(1)]));
}

/// RFC 9111 §4.1: the latest `Date`.
#[test]
fn the_newest_of_those_selected_is_chosen() {
    let at = |date, response_time| Meta {
        status: 200,
        request_time: Timestamp::from_secs(response_time),
        response_time: Timestamp::from_secs(response_time),
        date: Timestamp::from_secs(date),
        last_modified: None,
        initial_age: Duration::ZERO,
        lifetime: Duration::ZERO,
        lifetime_source: LifetimeSource::Nobody,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: None,
        demands: Demands::default(),
    };
    let (one, two) = (secondary("Foo", &["Foo: 1"]), secondary("Foo", &["Foo: 2"]));
    let metas = [at(5, 9), at(7, 8), at(7, 9), at(9, 9)];
    let choose = |keys: &[&[u8]], asking: &[&str]| {
        let variants = keys.iter().copied().zip(&metas);
        super::choose(variants, get(asking).fields(), false, &mut Vec::new())
    };
    assert_eq!(choose(&[&one, &one, &one, &two], &["Foo: 1"]), Some(2));
    assert_eq!(choose(&[&one, &two, b"", &two], &["Foo: 1"]), Some(2));
    assert_eq!(choose(&[&one, &one], &["Foo: 3"]), None);
    assert_eq!(choose(&[], &[]), None);
}
