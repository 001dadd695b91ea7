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
        "Foo, accept-language , foo",
        &["Accept-Language: en;q=0.5, DE"],
    );
    assert_eq!(
        key.escape_ascii().to_string(),
        "accept-language:de,en;q=0.5\\nfoo\\n"
    );
    assert!(names(&key).eq([&b"accept-language"[..], b"foo"]));
    assert_eq!(names(b"").count(), 0);
}

#[test]
fn requests_that_select_the_same() {
    let cases: [(&str, &[&str], &[&str]); 17] = [
        ("", &["Foo: 1"], &["Foo: 2"]),
        ("Foo", &["Foo: 1"], &["Foo: 1", "Bar: 2"]),
        ("Foo", &["foo: 1"], &["FOO: 1"]),
        ("Foo", &[], &["Bar: 2"]),
        (
            "Foo, Bar, Baz",
            &["Foo: 1", "Baz: 3"],
            &["Baz: 3", "Foo: 1"],
        ),
        ("Foo", &["Foo: 1, 2"], &["Foo: 1", "Foo: 2"]),
        ("Foo", &["Foo: 1,2"], &["Foo:  1 ,\t2 "]),
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
            &["Accept-Language: en; q=0.50"],
            &["Accept-Language: en;Q=0.5"],
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
            &["Accept: a/b, c/d;q=0.1"],
            &["Accept: c/d; q=0.10, a/b;q=1.000"],
        ),
        ("Accept", &["Accept: "], &["Accept: ,"]),
        ("Cookie", &["Cookie: a=b; c=d"], &["Cookie: a=b; c=d"]),
    ];
    for (vary, a, b) in cases {
        assert!(selects(vary, a, b), "{vary}: {a:?} {b:?}");
        assert!(selects(vary, b, a), "{vary}: {b:?} {a:?}");
    }
}

#[test]
fn requests_that_select_another() {
    let cases: [(&str, &[&str], &[&str]); 13] = [
        ("Foo", &["Foo: 1"], &["Foo: 2"]),
        ("Foo", &["Foo: 1"], &[]),
        ("Foo", &["Foo: "], &[]),
        ("Foo", &["Foo: a"], &["Foo: A"]),
        ("Foo", &["Foo: 1, 2"], &["Foo: 2, 1"]),
        ("Foo", &["Foo: 1 2"], &["Foo: 1,2"]),
        ("Foo", &["Foo: \"a,b\""], &["Foo: \"a, b\""]),
        ("Foo, Bar", &["Foo: 1", "Bar: 2"], &["Foo: 2", "Bar: 1"]),
        ("Foo, Bar", &["Foo: 1"], &["Bar: 1"]),
        ("Accept", &["Accept: a/b;v=A"], &["Accept: a/b;v=a"]),
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
        ("Cookie", &["Cookie: a=b"], &["Cookie: a=c"]),
    ];
    for (vary, a, b) in cases {
        assert!(!selects(vary, a, b), "{vary}: {a:?} {b:?}");
        assert!(!selects(vary, b, a), "{vary}: {b:?} {a:?}");
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
