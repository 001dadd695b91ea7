//! Which requests share a key, as tables.

use weir_http::host::Authority;

use super::*;
use crate::test_heads::get;

fn key_of(parts: &KeyParts, url: &str, lines: &[&str]) -> String {
    let head = get(lines);
    let (scheme, rest) = url.split_once("://").unwrap();
    let start = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(start);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (target, None),
    };
    let mut normal = Vec::new();
    let authority = Authority::parse(authority.as_bytes()).unwrap();
    authority.write_normal(scheme.as_bytes(), &mut normal);
    let asked = Inputs {
        scheme: scheme.as_bytes(),
        authority: &normal,
        path: path.as_bytes(),
        query,
        fields: head.fields(),
    };
    let mut out = Vec::new();
    write(parts, &asked, None, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn spellings_that_mean_the_same() {
    let parts = KeyParts::default();
    let cases = [
        ("http://a/b", "http://a/b"),
        ("HTTP://WWW.A:80/b", "http://www.a/b"),
        ("https://a:443/b", "https://a/b"),
        ("http://a:443/b", "http://a:443/b"),
        ("http://a:", "http://a/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://a?q", "http://a/?q"),
        // URLs that an origin may distinguish have different keys.
        ("http://a/B//c/../%61?", "http://a/B//c/../%61?"),
        ("http://a/?b=2&a=1", "http://a/?b=2&a=1"),
    ];
    for (url, expected) in cases {
        assert_eq!(key_of(&parts, url, &[]), expected, "{url}");
    }
}

#[test]
fn routes_choose_parameters() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let url = "http://a/?c=3&a=2&&b&a=1";
    let cases = [
        (QueryKey::Whole, "http://a/?c=3&a=2&&b&a=1"),
        (QueryKey::Sorted, "http://a/?a=2&a=1&b&c=3"),
        (QueryKey::Only(names(&["c", "a"])), "http://a/?a=2&a=1&c=3"),
        (QueryKey::Only(names(&["x"])), "http://a/"),
        (QueryKey::Except(names(&["a"])), "http://a/?b&c=3"),
        (QueryKey::Ignored, "http://a/"),
    ];
    for (query, expected) in cases {
        let parts = KeyParts {
            query,
            ..KeyParts::default()
        };
        assert_eq!(key_of(&parts, url, &[]), expected, "{:?}", parts.query);
    }
    let spelled = "http://a/?%62&%69d=2&a+b=1&id=1&%6=3&i%64=%33";
    let cases = [
        (
            QueryKey::Only(names(&["id", "a b", "%6"])),
            "http://a/?%6=3&a+b=1&%69d=2&id=1&i%64=%33",
        ),
        (
            QueryKey::Except(names(&["id", "b"])),
            "http://a/?%6=3&a+b=1",
        ),
    ];
    for (query, expected) in cases {
        let parts = KeyParts {
            query,
            ..KeyParts::default()
        };
        assert_eq!(key_of(&parts, spelled, &[]), expected, "{:?}", parts.query);
    }
    let many: Vec<_> = (0..=PARAMETERS_MAX)
        .rev()
        .map(|n| format!("p{n}"))
        .collect();
    let url = format!("http://a/?{}", many.join("&"));
    let parts = KeyParts {
        query: QueryKey::Sorted,
        ..KeyParts::default()
    };
    assert_eq!(key_of(&parts, &url, &[]), url);
}

#[test]
fn routes_choose_headers_and_cookies() {
    let parts = KeyParts {
        host: HostKey::Upstream("App".to_owned()),
        upstream: Some("next".to_owned()),
        headers: vec!["x-a".to_owned(), "x-b".to_owned()],
        cookies: vec!["tier".to_owned(), "none".to_owned()],
        ..KeyParts::default()
    };
    let lines = ["X-A: 1 , 2", "X-a: 3", "Cookie: a=b; tier=gold; tier=tin"];
    let key = key_of(&parts, "http://a/p", &lines);
    let expected = "http://@App/p\nupstream next\nheader x-a:1 , 2\nheader x-a:3\nheader x-b\ncookie tier=gold\ncookie tier=tin\ncookie none";
    assert_eq!(key, expected);
    let key = key.as_bytes();
    assert_eq!(url_of(key), b"http://@App/p");
    assert!(is_of_url(key, b"http://@App/p") && !is_of_url(key, b"http://@App/"));
    assert_eq!(target_of(key), b"/p");
}

/// Values of a field or cookie in the key that an origin may distinguish give different
/// keys.
#[test]
fn fields_and_cookies_of_the_key_are_taken_as_they_stand() {
    let parts = KeyParts {
        headers: vec!["origin".to_owned(), "accept-language".to_owned()],
        cookies: vec!["tier".to_owned()],
        ..KeyParts::default()
    };
    let cases: [&[&str]; 26] = [
        &[],
        &["Origin:"],
        &["Origin: https://a"],
        &["Origin: https://a,"],
        &["Origin: ,https://a"],
        &["Origin: https://a , https://b"],
        &["Origin: https://a,https://b"],
        &["Origin: https://a", "Origin: https://b"],
        &["Origin: https://a", "Origin:"],
        &["Accept-Language:"],
        &["Accept-Language: de, en"],
        &["Accept-Language: en, de"],
        &["Accept-Language: de, en,"],
        &["Accept-Language: de", "Accept-Language: en"],
        &["Cookie: tier"],
        &["Cookie: tier="],
        &["Cookie: tier=;"],
        &["Cookie: tier=gold"],
        &["Cookie: tier=\"gold\""],
        &["Cookie: tier=gold; tier"],
        &["Cookie: tier=gold; tier="],
        &["Cookie: tier =gold"],
        &["Cookie: tier= gold"],
        &["Cookie: x=y;tier=gold"],
        &["Cookie: x=y", "Cookie: tier=gold"],
        &["Cookie: =tier=gold"],
    ];
    let key = |lines: &[&str]| key_of(&parts, "http://a/", lines);
    for (at, one) in cases.iter().enumerate() {
        for other in &cases[..at] {
            assert_ne!(key(one), key(other), "{one:?} {other:?}");
        }
    }
    for (one, other) in [
        (
            "Accept-Language: de, EN;q=0.50",
            "Accept-Language: de,en; q=0.5",
        ),
        ("Cookie: a=b; tier=gold", "Cookie: tier=gold; c=d"),
        ("Cookie: a=b c, \"d\"", "Accept: text/html"),
    ] {
        assert_eq!(key(&[one]), key(&[other]), "{one} {other}");
    }
}

/// RFC 9110 §8: a body has no meaning without the fields that describe it.
#[test]
fn what_describes_a_body_is_part_of_its_key() {
    let key = |lines: &[&str]| {
        let head = get(lines);
        let asked = Inputs {
            scheme: b"http",
            authority: b"a",
            path: b"/",
            query: None,
            fields: head.fields(),
        };
        let mut out = Vec::new();
        write(&KeyParts::default(), &asked, Some(0xabc), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        key(&["Content-Length: 3", "CONTENT-Type: text/plain", "Accept: b"]),
        "http://a/\nbody content-type:text/plain\nbody 00000000000000000000000000000abc"
    );
    let cases: [&[&str]; 9] = [
        &[],
        &["Content-Type: application/json"],
        &["Content-Type: application/x-www-form-urlencoded"],
        &["Content-Type: application/json", "Content-Encoding: gzip"],
        &["Content-Type: application/json", "Content-Encoding:"],
        &["Content-Encoding: gzip"],
        &["Content-Language: de"],
        &["Content-Location: /b"],
        &["Content-Type: application/json", "Content-Type: text/plain"],
    ];
    for (at, one) in cases.iter().enumerate() {
        for other in &cases[..at] {
            assert_ne!(key(one), key(other), "{one:?} {other:?}");
        }
    }
}

#[test]
fn bodies_can_be_part_of_the_key() {
    let head = get(&[]);
    let asked = Inputs {
        scheme: b"http",
        authority: b"a",
        path: b"/",
        query: None,
        fields: head.fields(),
    };
    let mut out = Vec::new();
    write(&KeyParts::default(), &asked, Some(0xabc), &mut out);
    assert_eq!(out, b"http://a/\nbody 00000000000000000000000000000abc");
}

#[test]
fn some_requests_pass_by() {
    let policy = CachePolicy {
        bypass: vec![
            Bypass::Header("x-draft".to_owned(), None),
            Bypass::Header("x-mode".to_owned(), Some("test".to_owned())),
            Bypass::Cookie("session".to_owned()),
            Bypass::Query("nocache".to_owned()),
        ],
        ..CachePolicy::default()
    };
    let of = |lines: &[&str], query: Option<&str>| {
        let head = get(lines);
        let asked = Inputs {
            scheme: b"http",
            authority: b"a",
            path: b"/",
            query: query.map(str::as_bytes),
            fields: head.fields(),
        };
        class(Method::Get, false, &asked, &policy)
    };
    assert_eq!(
        of(&["X-Mode: live", "Cookie: a=session"], Some("a=nocache")),
        Ok(Class::Get)
    );
    assert_eq!(of(&["X-Draft: 1"], None), Err(Pass::Bypass));
    assert_eq!(of(&["X-Mode: test"], None), Err(Pass::Bypass));
    assert_eq!(of(&["Cookie: a=b;session=1"], None), Err(Pass::Bypass));
    assert_eq!(of(&[], Some("a&nocache=1")), Err(Pass::Bypass));
    assert_eq!(of(&[], Some("no%63ache")), Err(Pass::Bypass));

    let head = get(&[]);
    let asked = Inputs {
        scheme: b"http",
        authority: b"a",
        path: b"/",
        query: None,
        fields: head.fields(),
    };
    let plain = CachePolicy::default();
    let posts = CachePolicy {
        caches_post: true,
        ..CachePolicy::default()
    };
    assert_eq!(class(Method::Head, false, &asked, &plain), Ok(Class::Get));
    assert_eq!(class(Method::Get, true, &asked, &plain), Err(Pass::Body));
    assert_eq!(class(Method::Post, true, &asked, &plain), Err(Pass::Method));
    assert_eq!(
        class(Method::Post, true, &asked, &posts),
        Ok(Class::PostByBody)
    );
    assert_eq!(class(Method::Put, true, &asked, &posts), Err(Pass::Method));
}
