//! What is served of an app: hosts, paths, methods, redirects, backends, and its breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::json;
use tungstenite::Message;

use super::{app, ask, post, take, taking_apps};
use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Directory, free_port, wait_until};
use crate::upgrade::websocket::{connect, echo};

fn origin() -> Origin {
    Origin::saying(([127, 0, 0, 1], 0).into(), "app")
}

#[test]
fn hosts_paths_methods_and_slashes() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    let mut posted = app("www.example.com", origin.address, "/");
    posted["paths"] = json!([
        "/users",
        "/user",
        "/user",
        "/user/:name",
        "/user/:name/card/",
        "/share/*file"
    ]);
    posted["methods"] = json!(["GET", "GET", "POST", "GET", "GET", "GET"]);
    take(&gateway, &posted);
    let table: [(&str, &str, &str, u16, Option<&str>); 20] = [
        ("GET", "www.example.com", "/users", 200, None),
        // guard's answer depends on the order in which these were posted.
        ("GET", "www.example.com", "/user", 200, None),
        ("POST", "www.example.com", "/user", 200, None),
        ("PUT", "www.example.com", "/user", 405, None),
        ("GET", "www.example.com", "/user/jane", 200, None),
        ("GET", "www.example.com", "/share/a/b", 200, None),
        ("GET", "www.example.com", "/share/", 200, None),
        ("GET", "www.example.com", "/nothing", 404, None),
        // guard redirects this to `//`.
        ("GET", "www.example.com", "/", 404, None),
        ("GET", "www.example.com", "/users/", 301, Some("/users")),
        (
            "GET",
            "www.example.com",
            "/users/?a=b&c",
            301,
            Some("/users?a=b&c"),
        ),
        (
            "POST",
            "www.example.com",
            "/users/?a=b",
            307,
            Some("/users?a=b"),
        ),
        (
            "DELETE",
            "www.example.com",
            "/user/jane/",
            307,
            Some("/user/jane"),
        ),
        ("GET", "www.example.com", "/user/jane/card/", 200, None),
        (
            "GET",
            "www.example.com",
            "/user/jane/card",
            301,
            Some("/user/jane/card/"),
        ),
        ("GET", "www.example.com", "/user/", 301, Some("/user")),
        ("GET", "WWW.example.com", "/user", 200, None),
        ("GET", "www.example.com:8080", "/user", 200, None),
        ("GET", "example.com", "/user", 404, None),
        ("GET", "a.www.example.com", "/user", 404, None),
    ];
    for (method, host, target, status, location) in table {
        let response = ask(&gateway, method, host, target);
        let found = (response.status, response.field("location"));
        assert_eq!(found, (status, location), "{method} {host}{target}");
        if status == 405 {
            assert_eq!(response.field("allow"), Some("GET, HEAD, POST"));
        }
    }
    // Posted again, it is another app.
    posted["disable_tsr"] = true.into();
    posted["paths"] = json!(["/users"]);
    posted["methods"] = json!(["GET"]);
    take(&gateway, &posted);
    for (target, status) in [("/users", 200), ("/users/", 404), ("/user", 404)] {
        assert_eq!(
            ask(&gateway, "GET", "www.example.com", target).status,
            status,
            "{target}"
        );
    }
}

/// guard's tree dies of these, or loses one of the paths.
#[test]
fn the_order_of_paths_has_no_consequences() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    for paths in [
        vec!["/users", "/user"],
        vec!["/doc", "/"],
        vec!["/", "/*x"],
        vec!["/user/", "/user/:name"],
        vec!["/user/me", "/user/:name"],
        vec!["/user/:name/card", "/user/:id/card/x", "/user/me/card"],
    ] {
        let mut reversed = paths.clone();
        reversed.reverse();
        for paths in [paths, reversed] {
            let mut posted = app("www.example.com", origin.address, "/");
            posted["paths"] = json!(paths);
            posted["methods"] = json!(vec!["GET"; paths.len()]);
            take(&gateway, &posted);
            for path in &paths {
                let target = path.replace([':', '*'], "");
                let response = ask(&gateway, "GET", "www.example.com", &target);
                assert_eq!(
                    (response.status, &*response.text()),
                    (200, "app"),
                    "{target} of {paths:?}"
                );
            }
        }
    }
}

#[test]
fn weights_and_dead_and_missing_backends() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let [a, b] = ["a", "b"].map(|name| Origin::saying(([127, 0, 0, 1], 0).into(), name));
    for (method, expected) in [("wrr", 60), ("rr", 40)] {
        let mut posted = app("www.example.com", a.address, "/");
        posted["backends"] = json!([a.address.to_string(), b.address.to_string()]);
        posted["weights"] = json!([3, 1]);
        posted["load_balance_method"] = method.into();
        take(&gateway, &posted);
        let mut connection = Connection::open(gateway.address);
        let mut of_a = 0;
        for _ in 0..80 {
            connection.send("GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
            of_a += usize::from(connection.response().text() == "a");
        }
        assert_eq!(of_a, expected, "{method}");
    }
    // Where guard answers an empty 200.
    take(
        &gateway,
        &app(
            "dead.example.com",
            ([127, 0, 0, 1], free_port()).into(),
            "/",
        ),
    );
    assert_eq!(ask(&gateway, "GET", "dead.example.com", "/").status, 502);
    take(
        &gateway,
        &json!({"name": "none.example.com", "paths": ["/"], "methods": ["GET"]}),
    );
    assert_eq!(ask(&gateway, "GET", "none.example.com", "/").status, 503);
}

/// An origin that answers with the status that it is told.
fn telling() -> (Origin, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let now = Arc::clone(&status);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let status = now.load(Ordering::SeqCst);
            peer.send(format!(
                "HTTP/1.1 {status} Told\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    (origin, status)
}

#[test]
fn the_breaker_goes_by_the_ratio_and_opens_with_the_fallback() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    for (kind, content, content_type, status) in [
        ("text", "calm", "text/plain", 500),
        ("json", "{\"calm\": true}", "application/json", 503),
        ("html", "<p>calm", "text/html", 429),
        ("html_file", "<p>calm", "text/html", 504),
    ] {
        let (origin, told) = telling();
        let mut posted = app("www.example.com", origin.address, "/");
        posted["fallback_type"] = kind.into();
        posted["fallback_content"] = content.into();
        if kind == "html_file" {
            let file = directory.write("sorry.html", content);
            posted["fallback_content"] = file.to_str().into();
        }
        // Nothing is left of the app before, and a file is read once.
        take(&gateway, &json!({"name": "www.example.com"}));
        take(&gateway, &posted);
        let _ = std::fs::remove_file(directory.file("sorry.html"));
        let mut connection = Connection::open(gateway.address);
        let mut ask = |status: u16| {
            told.store(status, Ordering::SeqCst);
            connection.send("GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
            connection.response()
        };
        // One failure opens guard's breaker, and a third of them.
        assert_eq!(ask(status).status, status);
        for _ in 0..30 {
            assert_eq!(ask(200).status, 200);
        }
        for _ in 0..20 {
            assert_eq!(
                ask(status).status,
                status,
                "less than half of all has failed"
            );
        }
        let mut open = None;
        for _ in 0..40 {
            let response = ask(status);
            if response.status == 429 && response.field("content-type") == Some(content_type) {
                open = Some(response);
                break;
            }
        }
        let open = open.expect("more than half has failed");
        assert_eq!(open.text(), content);
        assert!(open.field("retry-after").is_some());
    }
}

#[test]
fn other_routes_notice_nothing() {
    let directory = Directory::new();
    let (broken, told) = telling();
    told.store(500, Ordering::SeqCst);
    let tunnel = echo();
    let gateway = taking_apps(
        &directory,
        &format!(
            "[upstream.app]\nservers = [\"{}\"]\n[upstream.broken]\nservers = [\"{}\"]\n\
             [[route]]\npath = \"/chat\"\nupstream = \"app\"\n\
             [[route]]\npath = \"/broken\"\nupstream = \"broken\"\n\
             breaker = {{ min_requests = 2, open_for = \"600s\", open_for_max = \"600s\" }}\n",
            tunnel.address, broken.address
        ),
    );
    let other = origin();
    let (app_broken, app_told) = telling();
    app_told.store(500, Ordering::SeqCst);
    take(
        &gateway,
        &app("broken.example.com", app_broken.address, "/"),
    );
    let mut socket = connect(gateway.address);
    let status_of = |host: &str, path: &str| ask(&gateway, "GET", host, path).status;
    // Both breakers are open.
    wait_until("the breaker of the app is open", || {
        status_of("broken.example.com", "/") == 429
    });
    wait_until("the breaker of the route is open", || {
        status_of("test", "/broken") == 503
    });
    let asked = (broken.heads_waiting(), app_broken.heads_waiting());
    assert!(asked.0 > 0 && asked.1 > 0);
    for number in 0..20 {
        let path = format!("/{number}");
        take(&gateway, &app("www.example.com", other.address, &path));
        assert_eq!(status_of("www.example.com", &path), 200);
        assert_eq!(status_of("test", "/broken"), 503);
        assert_eq!(status_of("broken.example.com", "/"), 429);
        socket.send(Message::text(&*path)).expect("sent");
        assert_eq!(socket.read().expect("an echo"), Message::text(&*path));
    }
    assert_eq!(broken.heads_waiting() + app_broken.heads_waiting(), 0);
    let bad = post(
        &gateway,
        r#"{"name": "www.example.com", "paths": ["/"], "methods": []}"#,
    );
    assert_eq!(bad.status, 400);
    assert_eq!(
        status_of("www.example.com", "/19"),
        200,
        "what is refused changes nothing"
    );
}
