use proptest::prelude::*;

use super::*;

fn normal(authority: &str, scheme: &str) -> Result<String, Reject> {
    let read = Authority::parse(authority.as_bytes())?;
    let mut out = Vec::new();
    read.write_normal(scheme.as_bytes(), &mut out);
    let text = String::from_utf8(out).unwrap();
    let is_normal = read.is_normal(scheme.as_bytes());
    assert_eq!(is_normal, text == authority, "{scheme} {authority}");
    Ok(text)
}

#[test]
fn one_form_for_all_spellings() {
    let cases = [
        ("a", "a", "a"),
        ("a:", "a", "a"),
        ("a.", "a", "a"),
        ("a.:80", "a", "a:80"),
        ("a:80", "a", "a:80"),
        ("a:443", "a:443", "a"),
        ("a:080", "a", "a:80"),
        ("a:00443", "a:443", "a"),
        ("a:0", "a:0", "a:0"),
        ("a:00", "a:0", "a:0"),
        (
            "WWW.Example.COM.:8080",
            "www.example.com:8080",
            "www.example.com:8080",
        ),
        ("127.0.0.1.:1", "127.0.0.1:1", "127.0.0.1:1"),
        ("a_b-c:65535", "a_b-c:65535", "a_b-c:65535"),
        // Escapes stay, because no server decodes them.
        ("%61.test", "%61.test", "%61.test"),
        ("%4A", "%4a", "%4a"),
        ("[::1]", "[::1]", "[::1]"),
        ("[::1]:80", "[::1]", "[::1]:80"),
        ("[::1]:", "[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]", "[::1]"),
        ("[2001:DB8::00a]:81", "[2001:db8::a]:81", "[2001:db8::a]:81"),
        ("[1:2:3::5:6:7:8]", "[1:2:3:0:5:6:7:8]", "[1:2:3:0:5:6:7:8]"),
        (
            "[::ffff:7f00:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:127.0.0.1]",
        ),
        (
            "[abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd]:1",
            "[abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd]:1",
            "[abcd:abcd:abcd:abcd:abcd:abcd:abcd:abcd]:1",
        ),
    ];
    for (authority, http, https) in cases {
        assert_eq!(
            normal(authority, "http").as_deref(),
            Ok(http),
            "{authority}"
        );
        assert_eq!(
            normal(authority, "https").as_deref(),
            Ok(https),
            "{authority}"
        );
    }
}

#[test]
fn what_is_no_authority() {
    let bad = [
        "",
        ":80",
        ".",
        "..",
        ".a",
        "a..",
        "a..b",
        ".:80",
        "a b",
        "a,b",
        "u@a",
        "a:80:80",
        "a:8x",
        "a:+1",
        "a:65536",
        "a:99999",
        "a:123456",
        "a:000080",
        "[::1",
        "[]",
        "[:::]",
        "[1]",
        "[::1]x",
        "[::1].",
        "[::1%25eth0]",
        "[v1.a]",
        "a/b",
        "a\\b",
        "a]",
        "\u{e9}",
    ];
    for authority in bad {
        assert_eq!(
            normal(authority, "http"),
            Err(Reject::HostInvalid),
            "{authority}"
        );
    }
}

#[test]
fn the_name_alone() {
    for (authority, expected) in [
        ("a:80", "a"),
        ("A.b.", "A.b"),
        ("[::1]:80", "[::1]"),
        ("127.0.0.1:1", "127.0.0.1"),
    ] {
        assert_eq!(name(authority.as_bytes()), Ok(expected.as_bytes()));
    }
}

#[test]
fn the_same_on_the_web() {
    let cases = [
        ("a", "A.:443", true),
        ("a:80", "a:443", true),
        ("a:81", "a:081", true),
        ("[::1]", "[0::1]:80", true),
        ("a:81", "a", false),
        ("a", "b", false),
        ("[::1]", "a", false),
    ];
    for (one, other, expected) in cases {
        let [one, other] = [one, other].map(|text| Authority::parse(text.as_bytes()).unwrap());
        assert_eq!(
            one.is_same_on_the_web(&other),
            expected,
            "{one:?} {other:?}"
        );
    }
}

proptest! {
    /// A normal form is an authority in normal form, of the same host.
    #[test]
    fn normal_forms_stay(text in r"([A-Za-z0-9%_.-]{1,12}|\[[0-9a-fA-F:]{2,20}\])(:[0-9]{0,5})?") {
        for scheme in ["http", "https"] {
            if let Ok(first) = normal(&text, scheme) {
                prop_assert_eq!(normal(&first, scheme), Ok(first.clone()));
                let names = [&text, &first].map(|text| name(text.as_bytes()).unwrap().to_ascii_lowercase());
                prop_assert!(names[0] == names[1] || text.starts_with('['));
            }
        }
    }
}
