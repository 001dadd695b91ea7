mod fields;

use super::*;
use crate::settings::{
    Action, Conditions, ErrorPages, Respond, ResponseHeaders, RouteLimits, Wanted,
};

mod oracle;

fn route(host: &str, path: &str, methods: &[&str]) -> Route {
    let host = match host.strip_prefix("*.") {
        Some(suffix) => HostPattern::Wildcard(suffix.to_owned()),
        None if host.is_empty() => HostPattern::Any,
        None => HostPattern::Exact(host.to_owned()),
    };
    let methods = (!methods.is_empty()).then(|| methods.iter().map(ToString::to_string).collect());
    let action = Action::Respond(Respond {
        status: 200,
        body: Vec::new(),
        headers: Vec::new(),
    });
    Route {
        name: path.to_owned(),
        host,
        path: path.to_owned(),
        methods,
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        limits: RouteLimits::default(),
        response_headers: ResponseHeaders::default(),
        action,
        app: None,
    }
}

fn find(routes: &[Route], host: &str, method: &str, path: &str) -> Result<usize, String> {
    found_by(&Router::new(routes).unwrap(), host, method, path, "")
}

/// Where a request leads; `rest` is the fields of its head, each in a line.
fn found_by(
    router: &Router,
    host: &str,
    method: &str,
    target: &str,
    rest: &str,
) -> Result<usize, String> {
    asking(host, method, target, rest, |asked| {
        match router.find(asked) {
            Found::Route(index) => Ok(index),
            Found::MethodNotAllowed(allow) => Err(format!("405 {allow}")),
            Found::Nothing => Err("404".to_owned()),
        }
    })
}

/// What `ask` makes of a request, whose fields are the lines of `rest`.
fn asking<T>(
    host: &str,
    method: &str,
    target: &str,
    rest: &str,
    ask: impl FnOnce(&RouteKey<'_>) -> T,
) -> T {
    let head = format!("{method} {target} HTTP/1.1\r\n{rest}\r\n");
    let mut table = Vec::new();
    Fields::scan(head.as_bytes(), &mut table);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (target, None),
    };
    ask(&RouteKey {
        authority: Some(host.as_bytes()),
        path,
        method: Method::of(method.as_bytes()).unwrap(),
        method_name: method.as_bytes(),
        fields: Fields::new(head.as_bytes(), &table),
        query,
    })
}

#[test]
fn the_most_specific_path_wins_in_any_order() {
    let mut routes: Vec<Route> = [
        "/{*rest}",
        "/{one}",
        "/{one}/{two}",
        "/users/{id}",
        "/users/me",
        "/users",
        "/users/{id}/posts",
        "/files/{*path}",
        "/user",
    ]
    .iter()
    .map(|path| route("", path, &[]))
    .collect();
    for turn in 0..routes.len() {
        routes.rotate_left(turn);
        let path = |request: &str| {
            find(&routes, "h", "GET", request).map(|index| routes[index].path.clone())
        };
        for (request, expected) in [
            ("/", "/{*rest}"),
            ("/users", "/users"),
            ("/user", "/user"),
            ("/users/", "/{*rest}"),
            ("/x", "/{one}"),
            ("/x/y", "/{one}/{two}"),
            ("/x/y/z", "/{*rest}"),
            ("/users/me", "/users/me"),
            ("/users/you", "/users/{id}"),
            ("/users/me/posts", "/users/{id}/posts"),
            ("/users/me/other", "/{*rest}"),
            ("/files/", "/files/{*path}"),
            ("/files/a/b", "/files/{*path}"),
            ("/files", "/{one}"),
        ] {
            assert_eq!(path(request), Ok(expected.to_owned()), "{request}");
        }
    }
}

#[test]
fn methods_are_matched_after_the_path() {
    let routes = [
        route("", "/a", &["GET"]),
        route("", "/a", &["POST", "PURGE"]),
        route("", "/{*rest}", &["PUT"]),
    ];
    for (method, path, expected) in [
        ("GET", "/a", Ok(0)),
        ("HEAD", "/a", Ok(0)),
        ("POST", "/a", Ok(1)),
        ("PURGE", "/a", Ok(1)),
        ("PUT", "/a", Err("405 GET, HEAD, POST, PURGE".to_owned())),
        ("PUT", "/", Ok(2)),
        ("GET", "/b", Err("405 PUT".to_owned())),
    ] {
        assert_eq!(
            find(&routes, "h", method, path),
            expected,
            "{method} {path}"
        );
    }
    assert_eq!(find(&routes[..1], "h", "GET", "/b"), Err("404".to_owned()));
}

#[test]
fn hosts_fall_back_from_exact_to_any() {
    let routes = [
        route("www.example.com", "/only", &["GET"]),
        route("*.example.com", "/{*rest}", &["GET"]),
        route("*.a.example.com", "/{*rest}", &[]),
        route("", "/only", &["POST"]),
    ];
    for (host, method, path, expected) in [
        ("www.example.com", "GET", "/only", Ok(0)),
        ("www.example.com:8080", "GET", "/only", Ok(0)),
        ("www.example.com", "GET", "/other", Ok(1)),
        ("www.example.com", "POST", "/only", Ok(3)),
        ("b.a.example.com", "PUT", "/", Ok(2)),
        ("example.com", "GET", "/", Err("404".to_owned())),
        ("other", "GET", "/only", Err("405 POST".to_owned())),
    ] {
        assert_eq!(
            find(&routes, host, method, path),
            expected,
            "{host} {method} {path}"
        );
    }
}

#[test]
fn parameters_keep_the_names_of_their_own_route() {
    let routes = [
        route("", "/{a}/{*b}", &["GET"]),
        route("", "/{x}/{*y}", &["POST"]),
    ];
    let router = Router::new(&routes).unwrap();
    assert_eq!(router.parameter("/1/2/3", 0, "b"), Some("2/3"));
    assert_eq!(router.parameter("/1/2/3", 1, "x"), Some("1"));
    assert_eq!(router.parameter("/1/2/3", 1, "a"), None);
}

/// A route that wants `conditions`, as `header NAME=VALUE` and `query NAME=VALUE`; the values `+` and `-` are presence and
/// absence.
fn wanting(path: &str, methods: &[&str], conditions: &[&str]) -> Route {
    let mut route = route("", path, methods);
    for condition in conditions {
        let (kind, rest) = condition.split_once(' ').unwrap();
        let (name, value) = rest.split_once('=').unwrap();
        let wanted = match value {
            "+" => Wanted::Present,
            "-" => Wanted::Absent,
            value => Wanted::Value(value.to_owned()),
        };
        let place = match kind {
            "header" => &mut route.conditions.headers,
            _ => &mut route.conditions.query,
        };
        place.push((name.to_owned(), wanted));
    }
    route
}

/// Method, target and fields, and where they lead.
type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    Result<usize, &'static str>,
);

#[test]
fn a_route_is_there_for_those_who_meet_its_conditions() {
    let routes = [
        wanting("/{*rest}", &[], &[]),
        wanting("/a", &["GET"], &[]),
        wanting("/a", &["GET"], &["header x-beta=1"]),
        wanting("/a", &["GET"], &["header x-beta=+"]),
        wanting("/a", &["GET"], &["query debug=1"]),
        wanting("/a", &["GET"], &["header x-beta=1", "query debug=1"]),
        wanting("/a", &["POST"], &["header x-beta=2"]),
        wanting("/b/{id}", &[], &["header x-beta=1"]),
        wanting("/b/{*rest}", &["GET"], &["query debug=+"]),
        wanting("/c/{*rest}", &[], &["header x-old=-"]),
    ];
    let cases: &[Case] = &[
        ("GET", "/a", &[], Ok(1)),
        ("GET", "/a", &["X-Beta: 1"], Ok(2)),
        ("GET", "/a", &["x-beta:   1 "], Ok(2)),
        ("GET", "/a", &["X-Beta: 2"], Ok(3)),
        ("GET", "/a", &["X-Beta:"], Ok(3)),
        // Of two values nobody knows which one counts.
        ("GET", "/a", &["X-Beta: 1", "X-Beta: 1"], Ok(3)),
        ("GET", "/a", &["X-Beta: 1, 2"], Ok(3)),
        // Scripts read it as the same. It is another field, which is not forwarded.
        ("GET", "/a", &["X_Beta: 1"], Ok(1)),
        ("GET", "/a?debug=1", &[], Ok(4)),
        ("GET", "/a?x&%64ebug=%31", &[], Ok(4)),
        ("GET", "/a?debug=1&debug=1", &[], Ok(1)),
        ("GET", "/a?Debug=1", &[], Ok(1)),
        // Conditions on fields count before those on parameters.
        ("GET", "/a?debug=1", &["X-Beta: 2"], Ok(3)),
        ("GET", "/a?debug=1", &["X-Beta: 1"], Ok(5)),
        ("POST", "/a", &["X-Beta: 2"], Ok(6)),
        // The path is there, and only for these methods.
        ("PUT", "/a", &["X-Beta: 2"], Err("405 POST, GET, HEAD")),
        ("POST", "/a", &["X-Beta: 1"], Err("405 GET, HEAD")),
        ("POST", "/a", &[], Err("405 GET, HEAD")),
        // It is not, where no condition holds: then less specific paths are tried.
        ("GET", "/b/1", &["X-Beta: 1"], Ok(7)),
        ("GET", "/b/1", &[], Ok(0)),
        ("GET", "/b/1?debug", &[], Ok(8)),
        ("PUT", "/b/1?debug", &[], Err("405 GET, HEAD")),
        ("GET", "/b/", &["X-Beta: 1"], Ok(0)),
        ("GET", "/c/1", &[], Ok(9)),
        ("GET", "/c/1", &["X-Old: 0"], Ok(0)),
    ];
    let router = Router::new(&routes).unwrap();
    for (method, target, fields, expected) in cases {
        let rest = [fields, &[""][..]].concat().join("\r\n");
        let found = found_by(&router, "h", method, target, &rest);
        assert_eq!(
            found,
            expected.map_err(str::to_owned),
            "{method} {target} {fields:?}"
        );
    }
}
