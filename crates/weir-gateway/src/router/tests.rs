use super::*;
use crate::settings::{Action, Respond, RouteLimits};

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
        limits: RouteLimits::default(),
        action,
        app: None,
    }
}

fn find(routes: &[Route], host: &str, method: &str, path: &str) -> Result<usize, String> {
    let router = Router::new(routes).unwrap();
    let found = router.find(
        Some(host.as_bytes()),
        path,
        Method::of(method.as_bytes()).unwrap(),
        method.as_bytes(),
    );
    match found {
        Found::Route(index) => Ok(index),
        Found::MethodNotAllowed(allow) => Err(format!("405 {allow}")),
        Found::Nothing => Err("404".to_owned()),
    }
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
    assert_eq!(router.parameter(None, "/1/2/3", 0, "b"), Some("2/3"));
    assert_eq!(router.parameter(None, "/1/2/3", 1, "x"), Some("1"));
    assert_eq!(router.parameter(None, "/1/2/3", 1, "a"), None);
}
