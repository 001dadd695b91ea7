//! What messages say, as tables.

use super::*;
use crate::test_heads::{get, ok};

fn says(directives: &[Directive]) -> Directives {
    let mut all = Directives::default();
    for &directive in directives {
        all.add(directive);
    }
    all
}

#[test]
fn max_age_is_read_in_every_spelling() {
    let cases: [(&[&str], Option<u32>); 21] = [
        (&[], None),
        (&["max-age=60"], Some(60)),
        (&["MaX-aGe=60"], Some(60)),
        (&["foo, max-age=60"], Some(60)),
        (&["max-age=\"60\""], Some(60)),
        (&["max-age=0060"], Some(60)),
        (&["max-age=2147483647"], Some(SECONDS_MAX - 1)),
        (&["max-age=2147483648"], Some(SECONDS_MAX)),
        (&["max-age=99999999999999999999999"], Some(SECONDS_MAX)),
        // Unreadable freshness means no freshness.
        (&["max-age"], Some(0)),
        (&["max-age="], Some(0)),
        (&["max-age=-1"], Some(0)),
        (&["max-age='60'"], Some(0)),
        (&["max-age=60.0"], Some(0)),
        (&["max-age=60s"], Some(0)),
        (&["max-age =60"], Some(0)),
        (&["max-age= 60"], Some(0)),
        (&["max-age=\"60"], Some(0)),
        // Of two, the shorter counts.
        (&["max-age=60, max-age=5"], Some(5)),
        (&["max-age=5", "max-age=60"], Some(5)),
        // Text inside a string is no directive.
        (&["a=\"max-age=60\", max-age=5"], Some(5)),
    ];
    for (lines, expected) in cases {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| format!("Cache-Control: {line}"))
            .collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let control = ResponseControl::of(ok(&lines).fields());
        assert_eq!(control.max_age, expected, "{lines:?}");
    }
}

#[test]
fn a_string_that_is_never_closed_ends_with_its_line() {
    let head = ok(&["Cache-Control: a=\"b", "Cache-Control: no-store"]);
    let control = ResponseControl::of(head.fields());
    assert!(control.says.has(Directive::NoStore));
}

#[test]
fn directives_may_be_about_some_fields_only() {
    let cases: [(&str, &[Directive], &[&str]); 11] = [
        ("no-cache", &[Directive::NoCache], &[]),
        ("no-cache=\"a, B\"", &[], &["a", "b"]),
        // This is not as it should be written, so it may mean anything; `private=true` names no field.
        ("no-cache=a", &[Directive::NoCache], &["a"]),
        ("private=true", &[Directive::Private], &[]),
        ("private=set-cookie", &[Directive::Private], &["set-cookie"]),
        ("no-cache=\"\"", &[Directive::NoCache], &[]),
        ("no-cache=\"a b\"", &[Directive::NoCache], &[]),
        ("private=\"Set-Cookie\"", &[], &["set-cookie"]),
        ("private, private=\"a\"", &[Directive::Private], &["a"]),
        ("no-cache=\"a\", private=\"b\"", &[], &["a", "b"]),
        ("no-store=\"a\"", &[Directive::NoStore], &[]),
    ];
    for (value, directives, withheld) in cases {
        let head = ok(&[&format!("Cache-Control: {value}")]);
        let control = ResponseControl::of(head.fields());
        assert_eq!(control.says, says(directives), "{value}");
        for name in ["a", "b", "set-cookie"] {
            let is_withheld = control.withholds(head.fields(), name.as_bytes());
            assert_eq!(is_withheld, withheld.contains(&name), "{value}: {name}");
        }
    }
}

/// A value that cannot be read as a whole says the words that stand in it.
#[test]
fn an_unreadable_value_forbids_what_it_may_have_meant_to_forbid() {
    use Directive::{MustUnderstand, NoCache, NoStore, Private};
    let cases: [(&[&str], &[Directive]); 31] = [
        (&["private; max-age=0"], &[Private]),
        (&["x=\"y, private, no-store"], &[Private, NoStore]),
        (&["no-cache=\"a, b"], &[NoCache]),
        (&["private=\"set-cookie"], &[Private]),
        (&["private="], &[Private]),
        (&["private max-age=60"], &[Private]),
        (&["max-age=60 No-Store"], &[NoStore]),
        (&["private: max-age=60"], &[Private]),
        (&["private/no-store"], &[Private, NoStore]),
        (&["private|no-store"], &[Private, NoStore]),
        (&["'private', max-age=60"], &[Private]),
        (&["\"private\", max-age=60"], &[Private]),
        (&["\"private, no-store\""], &[Private, NoStore]),
        (&["=private, max-age=60"], &[Private]),
        (&["private =\"a\""], &[Private]),
        (&["private\\, max-age=60"], &[Private]),
        (&["max-age=60;no-store"], &[NoStore]),
        (&["{private}"], &[Private]),
        (&["private\u{a0}"], &[Private]),
        (&["max-age=60", "a=\"b", "private\""], &[Private]),
        (&["a=\"b\\", "no-cache"], &[NoCache]),
        (&["a=\"b\"c, x=\"no-store\""], &[NoStore]),
        (&["no-store; must-understand"], &[NoStore]),
        (&["must-understand, no-store, ;"], &[NoStore]),
        (&["must-understand;"], &[]),
        (&["must-understand, a;"], &[MustUnderstand]),
        // Words that only begin or end alike are other words.
        (&["x-private-hint; max-age=60"], &[]),
        (&["no-stores; privately; no_cache"], &[]),
        (&["max-age=60;"], &[]),
        (&["private-ish=\"", "private_ish"], &[]),
        (&["nothing, \" at all"], &[]),
    ];
    for (lines, expected) in cases {
        let said = |name: &str| {
            let lines: Vec<_> = lines.iter().map(|line| format!("{name}: {line}")).collect();
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            ResponseControl::of(ok(&lines).fields()).says
        };
        assert_eq!(said("Cache-Control"), says(expected), "{lines:?}");
    }
}

#[test]
fn a_readable_value_means_what_it_says() {
    let cases = [
        "",
        ",, max-age=60 ,\t, public,",
        "x-private-hint, no-storage, private_=1",
        "foo=\"private\", bar=\"no-store, \\\"no-cache\\\"\"",
        "foo=private, bar=no-store",
        "no-cache=\"private\"",
        "max-age=\"60\", a='no-store'",
    ];
    let closes = |says: Directives| {
        let closing = [Directive::NoStore, Directive::NoCache, Directive::Private];
        closing.into_iter().any(|directive| says.has(directive))
    };
    for value in cases {
        let response = ok(&[&format!("Cache-Control: {value}")]);
        let says = ResponseControl::of(response.fields()).says;
        assert!(!closes(says), "{value}");
    }
    // Of two lines, neither completes the other.
    for (lines, expected) in [
        ([r#"a="b, private""#, "max-age=60"], false),
        ([r#"a="b"#, r#"c", private="d""#], true),
    ] {
        let lines = lines.map(|line| format!("Cache-Control: {line}"));
        let response = ok(&[&lines[0], &lines[1]]);
        assert_eq!(
            closes(ResponseControl::of(response.fields()).says),
            expected
        );
    }
}

/// RFC 9213 tells a cache to ignore an invalid targeted field. What it may have meant to forbid stays forbidden, and so
/// does what `Cache-Control` forbids.
#[test]
fn an_invalid_targeted_field_allows_nothing() {
    use Directive::{NoCache, NoStore, Private};
    let cases: [(&str, &str, &[Directive]); 10] = [
        ("no-store,", "max-age=60", &[NoStore]),
        ("Private", "max-age=60", &[Private]),
        ("private; max-age=0", "max-age=60", &[Private]),
        ("max-age=60 no-cache", "max-age=60", &[NoCache]),
        ("a=\"private, no-store", "max-age=60", &[Private, NoStore]),
        ("no-store;;", "must-understand, max-age=60", &[NoStore]),
        ("max-age=60,", "private", &[Private]),
        ("max-age=60,", "private; max-age=60", &[Private]),
        ("max-age=60,", "max-age=60", &[]),
        ("", "no-store", &[NoStore]),
    ];
    for (targeted, plain, expected) in cases {
        let head = ok(&[
            &format!("CDN-Cache-Control: {targeted}"),
            &format!("Cache-Control: {plain}"),
        ]);
        let control = ResponseControl::of(head.fields());
        let is_read = control.is_targeted;
        assert!(!is_read || targeted.starts_with("private;"), "{targeted}");
        assert_eq!(control.says, says(expected), "{targeted}: {plain}");
    }
}

#[test]
fn every_directive_of_responses() {
    use Directive as D;
    let value = "public, must-revalidate, PROXY-REVALIDATE, must-understand, no-transform, immutable, \
                 s-maxage=2, stale-while-revalidate=3, stale-if-error=4, only-if-cached";
    let control = ResponseControl::of(ok(&[&format!("Cache-Control: {value}")]).fields());
    let expected = ResponseControl {
        says: says(&[
            D::Public,
            D::MustRevalidate,
            D::ProxyRevalidate,
            D::MustUnderstand,
            D::NoTransform,
            D::Immutable,
        ]),
        max_age: None,
        s_maxage: Some(2),
        stale_while_revalidate: Some(3),
        stale_if_error: Some(4),
        is_targeted: false,
    };
    assert_eq!(control, expected);
}

#[test]
fn requests_ask_in_two_fields() {
    let of = |lines: &[&str]| RequestControl::of(get(lines).fields());
    let none = RequestControl::default();
    let no_cache = RequestControl {
        says: says(&[Directive::NoCache]),
        ..none
    };
    assert_eq!(of(&[]), none);
    assert_eq!(of(&["Pragma: no-cache"]), no_cache);
    assert_eq!(of(&["Pragma: foo, No-Cache"]), no_cache);
    assert_eq!(of(&["Pragma: no-cache", "Cache-Control: foo"]), none);
    assert_eq!(of(&["Cache-Control: no-cache"]), no_cache);
    let all =
        of(&["Cache-Control: max-age=1, min-fresh=2, stale-if-error=4, only-if-cached, no-store"]);
    let expected = RequestControl {
        says: says(&[Directive::OnlyIfCached, Directive::NoStore]),
        max_age: Some(1),
        min_fresh: Some(2),
        max_stale: None,
        stale_if_error: Some(4),
    };
    assert_eq!(all, expected);
    for value in ["no-cache; x", "\"no-cache\"", "max-age=60 no-cache"] {
        let asked = of(&[&format!("Cache-Control: {value}")]);
        assert!(asked.says.has(Directive::NoCache), "{value}");
    }
    let asked = of(&["Cache-Control: a=\"no-store"]);
    assert!(asked.says.has(Directive::NoStore));
    let stale = |value: &str| of(&[&format!("Cache-Control: {value}")]).max_stale;
    assert_eq!(stale("max-stale"), Some(MaxStale::Any));
    assert_eq!(stale("max-stale=5"), Some(MaxStale::Seconds(5)));
    assert_eq!(stale("max-stale=x"), Some(MaxStale::Seconds(0)));
    assert_eq!(stale("max-stale, max-stale=5"), Some(MaxStale::Seconds(5)));
}

/// RFC 9213 §2.1: with one error, the field counts as absent.
#[test]
fn the_targeted_field_is_read_strictly() {
    let of = |value: &str| {
        let head = ok(&[
            "Cache-Control: max-age=1",
            &format!("CDN-Cache-Control: {value}"),
        ]);
        ResponseControl::of(head.fields())
    };
    let valid = [
        ("max-age=60", Some(60)),
        (
            "max-age=60;x;y=\"a\";z=?0, b=(1 \"c\" d);e, f=:aGk=:, g=@12",
            Some(60),
        ),
        ("max-age=5, max-age=60", Some(60)),
        ("no-store", None),
        ("max-age=999999999999999", Some(SECONDS_MAX)),
        ("max-age=-5", Some(0)),
        ("max-age=1.5", Some(0)),
        ("max-age=\"60\"", Some(0)),
        ("max-age", Some(0)),
    ];
    for (value, max_age) in valid {
        let control = of(value);
        assert!(control.is_targeted, "{value}");
        assert_eq!(control.max_age, max_age, "{value}");
    }
    let invalid = [
        "",
        "max-age=60,",
        "Max-Age=60",
        "max-age=60 no-store",
        "max-age=1234567890123456",
        "max-age=",
        "max-age=60; ",
        "a=\"b",
        "a=\"\\b\"",
        "a=(1",
        "a=(1\"b\")",
        "a=?2",
        "a=@1.5",
        "max-age = 60",
        "=1",
    ];
    for value in invalid {
        let control = of(value);
        assert!(!control.is_targeted, "{value}");
        assert_eq!(control.max_age, Some(1), "{value}");
    }
    assert!(of("no-store, private").says.has(Directive::Private));
    assert!(!of("no-store=?0").says.has(Directive::NoStore));
    assert!(of("no-cache=\"a\"").says.has(Directive::NoCache));
}
