//! Which requests go where: hosts, paths, methods, redirects, fixed responses, stripping and changing fields.

mod conditions;
mod cors;
mod error_pages;
mod fields;
mod hosts;
mod paths;
mod rewrite;

use crate::harness::client::{self, Connection, Response};
use crate::harness::origin::Origin;
use crate::harness::{App, Gateway};

/// A route that answers with `body`.
fn answering(keys: &str, body: &str) -> String {
    format!("[[route]]\n{keys}\nrespond = {{ body = \"{body}\" }}\n")
}

/// Asks for `path` as `host`.
fn ask(gateway: &Gateway, host: &str, path: &str) -> Response {
    client::send(
        gateway.address,
        &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
}

#[test]
fn the_most_specific_host_wins() {
    let routes = [
        answering("path = \"/\"", "any"),
        answering("path = \"/\"\nhost = \"*.example.com\"", "wildcard"),
        answering(
            "path = \"/\"\nhost = \"*.b.example.com\"",
            "longer wildcard",
        ),
        answering("path = \"/\"\nhost = \"www.example.com\"", "exact"),
        answering("path = \"/only-any\"", "any"),
        answering("path = \"/\"\nhost = \"[::1]\"", "address"),
    ];
    let reversed: String = routes.iter().rev().map(String::as_str).collect();
    for config in [routes.concat(), reversed] {
        let gateway = Gateway::start(&config);
        for (host, path, expected) in [
            ("www.example.com", "/", "exact"),
            ("WWW.Example.COM:8080", "/", "exact"),
            ("a.example.com", "/", "wildcard"),
            ("a.c.example.com", "/", "wildcard"),
            ("a.b.example.com", "/", "longer wildcard"),
            ("example.com", "/", "any"),
            ("evil-example.com", "/", "any"),
            ("www.example.com.evil.test", "/", "any"),
            ("[::1]:80", "/", "address"),
            ("www.example.com", "/only-any", "any"),
        ] {
            assert_eq!(ask(&gateway, host, path).text(), expected, "{host} {path}");
        }
        assert_eq!(
            client::send(gateway.address, "GET / HTTP/1.0\r\n\r\n").text(),
            "any"
        );
    }
}

#[test]
fn the_most_specific_path_wins_whatever_the_order_in_the_file() {
    let routes = [
        answering("path = \"/{*rest}\"", "rest"),
        answering("path = \"/api/{*rest}\"", "api rest"),
        answering("path = \"/api/{id}\"", "api id"),
        answering("path = \"/api/list\"", "api list"),
        answering("path = \"/api/{id}/items\"", "items"),
        answering("path = \"/deep/{*rest}\"", "deep"),
    ];
    let reversed: String = routes.iter().rev().map(String::as_str).collect();
    for config in [routes.concat(), reversed] {
        let gateway = Gateway::start(&config);
        for (path, expected) in [
            ("/", "rest"),
            ("/anything/at/all", "rest"),
            ("/api", "rest"),
            ("/api/", "api rest"),
            ("/api/list", "api list"),
            ("/api/listing", "api id"),
            ("/api/7", "api id"),
            ("/api/7/items", "items"),
            ("/api/7/others", "api rest"),
            ("/api/list?a=/api/7", "api list"),
            ("/deep/", "deep"),
        ] {
            assert_eq!(ask(&gateway, "test", path).text(), expected, "{path}");
        }
    }
}

#[test]
fn unknown_paths_are_404_and_unknown_methods_405_with_allow() {
    let gateway = Gateway::start(
        &[
            answering("path = \"/read\"\nmethods = [\"GET\"]", "read"),
            answering("path = \"/both\"\nmethods = [\"GET\"]", "got"),
            answering(
                "path = \"/both\"\nmethods = [\"PUT\", \"DELETE\"]",
                "changed",
            ),
            answering("path = \"/post\"\nmethods = [\"POST\"]", "posted"),
        ]
        .concat(),
    );
    let mut connection = Connection::open(gateway.address);
    for (method, path, status, allow) in [
        ("GET", "/read", 200, None),
        ("HEAD", "/read", 200, None),
        ("POST", "/read", 405, Some("GET, HEAD")),
        ("PROPFIND", "/read", 405, Some("GET, HEAD")),
        ("PUT", "/both", 200, None),
        ("POST", "/both", 405, Some("GET, HEAD, PUT, DELETE")),
        ("HEAD", "/post", 405, Some("POST")),
        ("GET", "/nowhere", 404, None),
        ("get", "/read", 405, Some("GET, HEAD")),
    ] {
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        ));
        let response = connection.response_to(method).expect("an answer");
        assert_eq!(response.status, status, "{method} {path}");
        let mut allowed: Vec<_> = response
            .field("allow")
            .map(|allow| allow.split(", ").collect())
            .unwrap_or_default();
        let mut expected: Vec<_> = allow
            .map(|allow| allow.split(", ").collect())
            .unwrap_or_default();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{method} {path}");
    }
}

#[test]
fn redirects_take_parameters_and_the_query_along() {
    let gateway = Gateway::start(
        "[[route]]\npath = \"/old/{*rest}\"\nredirect = { to = \"/new/{rest}\" }\n\
         [[route]]\npath = \"/users/{id}/{tab}\"\nredirect = { to = \"https://{tab}.example.com/u?id={id}\", status = 308 }\n\
         [[route]]\npath = \"/home\"\nredirect = { to = \"/\", status = 302 }\n\
         [[route]]\npath = \"/secure/{*rest}\"\nredirect = { to = \"https://{host}{path}\" }\n",
    );
    let mut connection = Connection::open(gateway.address);
    for (path, status, location) in [
        ("/old/a/b", 301, "/new/a/b"),
        ("/old/a?x=1&y=2", 301, "/new/a?x=1&y=2"),
        ("/old/", 301, "/new/"),
        ("/old/a%20b", 301, "/new/a%20b"),
        // What the path says in another way means the same.
        ("/old//evil.test/", 301, "/new/evil.test/"),
        ("/old/%0d%0aSet-Cookie:x", 301, "/new/%0D%0ASet-Cookie:x"),
        (
            "/users/7/posts?x=1",
            308,
            "https://posts.example.com/u?id=7",
        ),
        ("/home?a", 302, "/?a"),
        ("/secure/./a%2Db?x", 301, "https://test/secure/a-b?x"),
        (
            "/secure//evil.test/",
            301,
            "https://test/secure//evil.test/",
        ),
    ] {
        let response = connection.get(path);
        assert_eq!(
            (response.status, response.field("location")),
            (status, Some(location)),
            "{path}"
        );
        assert_eq!(response.field("content-length"), Some("0"));
    }
}

#[test]
fn fixed_responses_say_what_the_config_says() {
    let gateway = Gateway::start(
        "[[route]]\npath = \"/hello\"\nrespond = { status = 418, body = \"hello world\", headers = { x-a = \"1\" } }\n\
         [[route]]\npath = \"/json\"\nrespond = { body = \"{}\", content_type = \"application/json\" }\n\
         [[route]]\npath = \"/empty\"\nrespond = { status = 204 }\n",
    );
    let mut connection = Connection::open(gateway.address);
    let hello = connection.get("/hello");
    assert_eq!((hello.status, hello.text().as_str()), (418, "hello world"));
    assert_eq!(
        hello.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(hello.field("x-a"), Some("1"));
    assert!(hello.field("date").is_some());

    // HEAD is GET without the body: the same fields, and the next response right behind them.
    connection.send("HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = connection.response_to("HEAD").expect("an answer");
    assert_eq!(
        (head.status, head.field("content-length")),
        (418, Some("11"))
    );

    let json = connection.get("/json");
    assert_eq!(json.field("content-type"), Some("application/json"));
    let empty = connection.get("/empty");
    assert_eq!((empty.status, empty.field("content-length")), (204, None));

    // A request body that nobody wants is read past.
    connection.send("POST /hello HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nGET ");
    assert_eq!(connection.response().status, 418);
    assert_eq!(connection.get("/json").text(), "{}");
}

#[test]
fn a_stripped_prefix_is_stripped_however_it_is_spelt() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/api/{{*rest}}\"\nupstream = \"app\"\nstrip_prefix = \"/api\"\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n",
        origin.address
    ));
    let mut connection = Connection::open(gateway.address);
    for (sent, forwarded) in [
        ("/api/users?a=b", "/users?a=b"),
        ("/api/", "/"),
        ("/api/a%20b", "/a%20b"),
        // To the letter, where the prefix stands so and nothing has to be resolved.
        ("/api/%7Eme/a%2fb?c", "/%7Eme/a%2fb?c"),
        ("/%61pi/%7Eme", "/~me"),
        ("/api//%7Eme", "/~me"),
        ("/%61pi/users", "/users"),
        ("//api/users", "/users"),
        ("/api//users", "/users"),
        ("/x/../api/users", "/users"),
        ("/./api/./users?/../x", "/users?/../x"),
        ("/api/x/../../api/users", "/users"),
        ("http://test/api/users", "/users"),
        // Not below the prefix, and so as they were sent.
        ("/apis/users", "/apis/users"),
        ("/api", "/api"),
        ("/x//y/%7Eme", "/x//y/%7Eme"),
        // But dot segments lead nowhere else upstream than here.
        ("/api/../users", "/users"),
        ("/x/%2e%2E/y/%7Eme/.", "/y/~me/"),
    ] {
        assert_eq!(connection.get(sent).status, 200, "{sent}");
        let head = origin.next_head();
        assert_eq!(head.split(' ').nth(1), Some(forwarded), "{sent}");
    }
}

#[test]
fn fields_are_set_and_removed_in_both_directions() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nServer: secret/1.0\r\nX-Keep: 1\r\nCache-Control: no-store\r\n\
         cache-control: private\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n\
         request_headers = {{ set = {{ host = \"inner.test\", X-Api-Key = \"k\", x-forwarded-proto = \"https\" }}, remove = [\"cookie\", \"via\"] }}\n\
         response_headers = {{ set = {{ cache-control = \"max-age=60\" }}, remove = [\"Server\", \"via\"] }}\n",
        origin.address
    ));
    let response = client::send(
        gateway.address,
        "GET / HTTP/1.1\r\nHost: outer.test\r\nx-api-key: forged\r\nCookie: a=b\r\nCOOKIE: c=d\r\nAccept: */*\r\n\r\n",
    );
    assert_eq!(response.fields("cache-control"), ["max-age=60"]);
    assert_eq!(response.fields("x-keep"), ["1"]);
    assert!(response.fields("server").is_empty() && response.fields("via").is_empty());

    let head = origin.next_head().to_ascii_lowercase();
    for present in [
        "\r\nhost: inner.test\r\n",
        "\r\nx-api-key: k\r\n",
        "\r\naccept: */*\r\n",
        "\r\nx-forwarded-host: outer.test\r\n",
        "\r\nx-forwarded-proto: https\r\n",
    ] {
        assert_eq!(head.matches(present).count(), 1, "{present:?} in {head}");
    }
    for absent in ["forged", "cookie", "via:", "proto: http\r"] {
        assert!(!head.contains(absent), "{absent:?} in {head}");
    }
}

/// What a client puts into a variable makes no other host of a request than one, and never none.
#[test]
fn a_host_of_variables_is_a_host() {
    let origin = Origin::answering("HTTP/1.1 204 No Content\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n\
         request_headers.set = {{ host = \"{{request_header:x-host}}\", x-a = \"1\" }}\n",
        origin.address
    ));
    for (sent, host) in [
        ("X-Host: inner.test:8080\r\n", "inner.test:8080"),
        ("", "outer.test"),
        ("X-Host: a b\r\n", "outer.test"),
        ("X-Host: a/b@c\r\n", "outer.test"),
        ("X-Host:\r\n", "outer.test"),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: outer.test\r\n{sent}\r\n");
        assert_eq!(client::send(gateway.address, &request).status, 204);
        let head = origin.next_head().to_ascii_lowercase();
        let hosts: Vec<_> = head
            .lines()
            .filter(|line| line.starts_with("host:"))
            .collect();
        assert_eq!(hosts, [format!("host: {host}")], "{sent:?}");
        assert!(head.contains("\r\nx-a: 1\r\n"), "{head}");
    }
}

/// A path that is spelt differently and means the same takes the same route.
#[test]
fn no_spelling_of_a_path_passes_by_its_route() {
    let app = App::start("a");
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/admin/{{*rest}}\"\nrespond = {{ status = 403 }}\n\
         [[route]]\npath = \"/admin\"\nrespond = {{ status = 403 }}\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n",
        app.address
    ));
    let mut connection = Connection::open(gateway.address);
    for path in [
        "/admin",
        "/admin/",
        "/admin/x",
        "/x/../admin",
        "/%61dmin",
        "/%61%64%6D%69%6e",
        "//admin",
        "///admin//x",
        "/./admin",
        "/admin/.",
        "/x/%2e%2e/admin",
        "/x/.%2E/admin/x",
        "/x/y/../../admin",
        "/admin?x",
        "http://test/x/../admin",
        "http://test//admin",
    ] {
        assert_eq!(connection.get(path).status, 403, "{path}");
    }
    // And a path that only looks like it goes where it means.
    for path in ["/admin/../healthz", "/administrator", "/x/admin"] {
        let response = connection.get(path);
        assert_eq!(response.field("x-served-by"), Some("a"), "{path}");
    }
    for path in ["/../admin", "/x/../../admin", "/%", "/%4", "/%zz", "/%00"] {
        assert_eq!(client::get(gateway.address, path).status, 400, "{path}");
    }
}
