use super::*;

fn parse(target: &str, method: Method) -> Result<(Option<&str>, &str, Option<&str>), Reject> {
    let bytes = target.as_bytes();
    let parsed = Target::parse(
        bytes,
        Span {
            start: 0,
            end: bytes.len() as u32,
        },
        method,
    )?;
    let text = |span: Span| &target[span.start as usize..span.end as usize];
    Ok((
        parsed.authority.map(text),
        text(parsed.path),
        parsed.query.map(text),
    ))
}

#[test]
fn the_four_forms() {
    assert_eq!(parse("/", Method::Get), Ok((None, "/", None)));
    assert_eq!(parse("/a?b?c", Method::Get), Ok((None, "/a", Some("b?c"))));
    assert_eq!(
        parse("http://h:1/a?b", Method::Get),
        Ok((Some("h:1"), "/a", Some("b")))
    );
    assert_eq!(parse("HTTPS://h", Method::Get), Ok((Some("h"), "", None)));
    assert_eq!(
        parse("http://h?q", Method::Get),
        Ok((Some("h"), "", Some("q")))
    );
    assert_eq!(parse("*", Method::Options), Ok((None, "*", None)));
    for bad in [
        "*", "", "a", "h:80", "ftp://h/", "/a#b", "/a\u{e9}", "//", "http:/a",
    ] {
        let result = parse(bad, Method::Get);
        assert_eq!(result.is_err(), bad != "//", "{bad}: {result:?}");
    }
    assert_eq!(parse("http://u@h/", Method::Get), Err(Reject::HostInvalid));
}

#[test]
fn paths_that_mean_the_same_match_the_same() {
    let cases = [
        ("/", "/"),
        ("/a/b/", "/a/b/"),
        ("//a///b", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/%61dmin", "/admin"),
        ("/%2e%2E/a", "!"),
        ("/a/%2e%2e/b", "/b"),
        ("/a%2fb", "/a%2Fb"),
        ("/..", "!"),
        ("/a/../../b", "!"),
        ("/%", "!"),
        ("/%4", "!"),
        ("/%zz", "!"),
        ("/%00", "!"),
        ("/.well-known/x", "/.well-known/x"),
    ];
    for (path, expected) in cases {
        let mut out = Vec::new();
        let text = match normalize(path.as_bytes(), &mut out) {
            Ok(()) => std::str::from_utf8(&out).unwrap(),
            Err(_) => "!",
        };
        assert_eq!(text, expected, "{path}");
        assert!(
            !is_normal(path.as_bytes()) || text == path,
            "{path} is normal"
        );
    }
}

#[test]
fn a_path_is_forwarded_as_sent_unless_it_has_dot_segments() {
    let cases = [
        ("/a/b", "/a/b"),
        ("/a%2fb/%7Eme//c", "/a%2fb/%7Eme//c"),
        ("/.a/..b/.../%2e%2e%2e/c.", "/.a/..b/.../%2e%2e%2e/c."),
        ("/a/../b%7e", "/b~"),
        ("/a/.", "/a/"),
        ("/a/%2E%2e/b", "/b"),
        ("/a/.%2e", "/"),
    ];
    for (sent, expected) in cases {
        let mut normal = Vec::new();
        normalize(sent.as_bytes(), &mut normal).unwrap();
        let found = forwarded(sent.as_bytes(), &normal);
        assert_eq!(std::str::from_utf8(found), Ok(expected), "{sent}");
    }
}

#[test]
fn a_prefix_is_cut_off_the_sent_path_or_its_normal_form() {
    let cases = [
        ("/api", "/api/users", "/users"),
        ("/api/", "/api/users", "/users"),
        ("/api", "/api", "/"),
        ("/api", "/api/", "/"),
        // The prefix matches to the letter, and nothing has to be resolved: escapes stay.
        ("/api", "/api/%7Eme/a%2fb%20c", "/%7Eme/a%2fb%20c"),
        ("/api", "/api/.x/%2e%2e%2e", "/.x/%2e%2e%2e"),
        // The prefix is spelled differently.
        ("/api", "/%61pi/%7Eme", "/~me"),
        ("/api", "//api/%7Eme", "/~me"),
        // Something has to be resolved, and may lead out of the prefix and back into it.
        ("/api", "/api//%7Eme", "/~me"),
        ("/api", "/api/x/../%7Eme", "/~me"),
        ("/api", "/api/./%7Eme/.", "/~me/"),
        ("/api", "/api/x/%2e%2E/../api/%7Eme", "/~me"),
        ("/a", "/a/../a/a", "/a"),
        // Outside the prefix.
        ("/api", "/apis/x", "/apis/x"),
        ("/api", "/api%2fx", "/api%2fx"),
        ("/api", "/api/../%7Eme", "/~me"),
        ("/", "/x//y", "/x/y"),
    ];
    for (prefix, sent, expected) in cases {
        let mut normal = Vec::new();
        normalize(sent.as_bytes(), &mut normal).unwrap();
        let found = strip_prefix(prefix, sent.as_bytes(), &normal);
        assert_eq!(std::str::from_utf8(found), Ok(expected), "{prefix} {sent}");
    }
}
