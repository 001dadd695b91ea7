//! guard's JSON: what it becomes, and what is told of what cannot be had.

use weir_gateway::settings::{Action, HostPattern};

use super::{import, posted};

/// The app of guard's own documentation.
const DOCUMENTED: &str = r#"{"name": "www.example.com", "backends": ["127.0.0.1:80", "127.0.0.1:80", "127.0.0.1:80"],
    "weights": [5, 1, 1], "ratio": 0.3, "paths": ["/", "/doc"], "methods": ["GET", "GET"]}"#;

#[test]
fn the_documented_app_becomes_a_config() {
    let expected = r#"# What backends.json says to guard. docs/guard.md says what differs.

[[listener]]
address = "0.0.0.0:23456" # guard's -proxyAddr

[admin]
listen = "127.0.0.1:12345" # guard's -configAddr, for this machine alone: any other address takes a `token`
# guard_api = true # to go on taking POST /app

# www.example.com
# The weights [5, 1, 1] are left out: in guard only wrr heeds them, and the method is rr, since none is said.
[upstream."www.example.com"]
servers = [{ address = "127.0.0.1:80", weight = 3 }]
balance = "round-robin"

[[route]]
host = "www.example.com"
path = "/"
methods = ["GET"]
upstream = "www.example.com"
breaker = { ratio = 0.3, window = "10s", min_requests = 20, statuses = [429, "5xx"] }
fallback = { on = "refused", status = 429, content_type = "text/plain", body = "too many requests" }

[[route]]
host = "www.example.com"
path = "/doc"
methods = ["GET"]
upstream = "www.example.com"
breaker = { ratio = 0.3, window = "10s", min_requests = 20, statuses = [429, "5xx"] }
fallback = { on = "refused", status = 429, content_type = "text/plain", body = "too many requests" }

[[route]]
host = "www.example.com"
path = "/doc/"
methods = ["GET"]
redirect = { to = "/doc", status = 301 }

[[route]]
host = "www.example.com"
path = "/doc/"
methods = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]
redirect = { to = "/doc", status = 307 }
"#;
    assert_eq!(
        import(DOCUMENTED.as_bytes(), "backends.json").as_deref(),
        Ok(expected)
    );
    let saved = format!("{{\"apps\": {{\"www.example.com\": {DOCUMENTED}}}}}");
    assert_eq!(
        import(saved.as_bytes(), "backends.json").as_deref(),
        Ok(expected)
    );
}

/// The lines of an imported config that begin with one of `keys`.
#[track_caller]
fn lines(app: &str, keys: &[&str]) -> Vec<String> {
    let text = import(app.as_bytes(), "guard.json").unwrap_or_else(|error| panic!("{error}"));
    let lines = text
        .lines()
        .filter(|line| keys.iter().any(|key| line.starts_with(key)));
    lines.map(str::to_owned).collect()
}

#[test]
fn weights_are_those_of_wrr_and_backends_come_once() {
    let app = |method: &str, weights: &str| {
        format!(
            r#"{{"name": "a", "backends": ["127.0.0.1:1", "10.0.0.1", "127.0.0.1:1", "db:2"], "weights": {weights},
                "load_balance_method": "{method}", "paths": ["/"], "methods": ["get"]}}"#
        )
    };
    for (method, weights, expected) in [
        (
            "wrr",
            "[5, 2, 1, 1]",
            [
                r#"servers = [{ address = "127.0.0.1:1", weight = 6 }, { address = "10.0.0.1:80", weight = 2 }, "db:2"]"#,
                r#"balance = "round-robin""#,
            ],
        ),
        (
            "wrr",
            "[5, 0, 0, 0]",
            [
                r#"servers = [{ address = "127.0.0.1:1", weight = 5 }]"#,
                r#"balance = "round-robin""#,
            ],
        ),
        (
            "random",
            "[5, -2, 1, 1]",
            [
                r#"servers = [{ address = "127.0.0.1:1", weight = 2 }, "10.0.0.1:80", "db:2"]"#,
                r#"balance = "random""#,
            ],
        ),
    ] {
        assert_eq!(
            lines(&app(method, weights), &["servers", "balance"]),
            expected,
            "{method} {weights}"
        );
    }
}

#[test]
fn paths_have_their_methods_together_and_no_redirect_takes_a_request_from_a_path() {
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            r#"["/user", "/user", "/user/"]"#,
            r#"["GET", "post", "GET"]"#,
            &[
                r#"path = "/user""#,
                r#"methods = ["GET", "POST"]"#,
                r#"path = "/user/""#,
                r#"methods = ["GET"]"#,
            ],
        ),
        (
            r#"["/user/:name", "/user/me"]"#,
            r#"["GET", "GET"]"#,
            &[
                r#"path = "/user/{name}""#,
                r#"methods = ["GET"]"#,
                r#"path = "/user/me""#,
                r#"methods = ["GET"]"#,
                r#"path = "/user/{name}/""#,
                r#"methods = ["GET"]"#,
                r#"redirect = { to = "/user/{name}", status = 301 }"#,
                r#"path = "/user/{name}/""#,
                r#"methods = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]"#,
                r#"redirect = { to = "/user/{name}", status = 307 }"#,
                r#"path = "/user/me/""#,
                r#"methods = ["GET"]"#,
                r#"redirect = { to = "/user/me", status = 301 }"#,
                r#"path = "/user/me/""#,
                r#"methods = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]"#,
                r#"redirect = { to = "/user/me", status = 307 }"#,
            ],
        ),
        // The slash is the catch-all's.
        (
            r#"["/share/*file", "/share"]"#,
            r#"["GET", "GET"]"#,
            &[
                r#"path = "/share/{*file}""#,
                r#"methods = ["GET"]"#,
                r#"path = "/share""#,
                r#"methods = ["GET"]"#,
            ],
        ),
        (
            r#"["/", "/*x"]"#,
            r#"["GET", "PUT"]"#,
            &[
                r#"path = "/""#,
                r#"methods = ["GET"]"#,
                r#"path = "/{*x}""#,
                r#"methods = ["PUT"]"#,
            ],
        ),
        (
            r#"["/:a/", "/b"]"#,
            r#"["GET", "GET"]"#,
            &[
                r#"path = "/{a}/""#,
                r#"methods = ["GET"]"#,
                r#"path = "/b""#,
                r#"methods = ["GET"]"#,
                r#"path = "/{a}""#,
                r#"methods = ["GET"]"#,
                r#"redirect = { to = "/{a}/", status = 301 }"#,
                r#"path = "/{a}""#,
                r#"methods = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]"#,
                r#"redirect = { to = "/{a}/", status = 307 }"#,
            ],
        ),
        (
            r#"["/:a/:a/:b!"]"#,
            r#"["HEAD"]"#,
            &[
                r#"path = "/{a}/{a_}/{b_}""#,
                r#"methods = ["HEAD"]"#,
                r#"path = "/{a}/{a_}/{b_}/""#,
                r#"methods = ["GET"]"#,
                r#"redirect = { to = "/{a}/{a_}/{b_}", status = 301 }"#,
                r#"path = "/{a}/{a_}/{b_}/""#,
                r#"methods = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]"#,
                r#"redirect = { to = "/{a}/{a_}/{b_}", status = 307 }"#,
            ],
        ),
    ];
    for (paths, methods, expected) in cases {
        let app = format!(
            r#"{{"name": "a", "backends": ["127.0.0.1:1"], "weights": [1], "paths": {paths}, "methods": {methods}}}"#
        );
        assert_eq!(
            lines(&app, &["path", "methods", "redirect"]),
            expected,
            "{paths}"
        );
        let plain = app.replace(r#""name""#, r#""disable_tsr": true, "name""#);
        assert_eq!(lines(&plain, &["redirect"]), [""; 0], "{paths}");
    }
}

#[test]
fn fallbacks_are_of_four_kinds() {
    for (kind, content, expected) in [
        (
            "",
            "",
            r#"content_type = "text/plain", body = "too many requests" }"#,
        ),
        (
            "text",
            "so\\nbusy\\u007f",
            r#"content_type = "text/plain", body = "so\nbusy\u007F" }"#,
        ),
        (
            "json",
            "{\\\"a\\\": 1}",
            r#"content_type = "application/json", body = "{\"a\": 1}" }"#,
        ),
        (
            "html",
            "<p>",
            r#"content_type = "text/html", body = "<p>" }"#,
        ),
        (
            "html_file",
            "Cargo.toml",
            r#"content_type = "text/html", file = "Cargo.toml" }"#,
        ),
    ] {
        let app = format!(
            r#"{{"name": "a", "backends": ["127.0.0.1:1"], "weights": [1], "paths": ["/"], "methods": ["GET"],
                "fallback_type": "{kind}", "fallback_content": "{content}"}}"#
        );
        let line = lines(&app, &["fallback"]).concat();
        assert!(line.ends_with(expected), "{line}");
    }
}

/// What an import says of it, behind the name of the file.
const MISTAKES: [(&str, &str); 23] = [
    (
        "{",
        "no JSON: EOF while parsing an object at line 1 column 1",
    ),
    (
        "[]",
        "expected an object: an app of guard, or {\"apps\": {…}} as guard saves them",
    ),
    (
        r#"{"apps": []}"#,
        "apps: expected an object with an app under each name",
    ),
    (r#"{"apps": {"a": 1}}"#, "app \"a\": expected an object"),
    ("{}", "name: name is required"),
    (
        r#"{"name": 1}"#,
        "name: invalid type: integer `1`, expected a string",
    ),
    (
        r#"{"name": "a", "backends": ["b"], "weights": []}"#,
        "app \"a\": weights: backend and weight does not match",
    ),
    (
        r#"{"name": "a", "paths": ["/"], "methods": []}"#,
        "app \"a\": methods: path and method does not match",
    ),
    (
        r#"{"name": "a", "fallback_type": "xml"}"#,
        "app \"a\": fallback_type: bad fallback type",
    ),
    (
        r#"{"name": "a", "fallback_type": "html_file", "fallback_content": "/nowhere"}"#,
        "app \"a\": fallback_content: open /nowhere: no such file or directory",
    ),
    (
        r#"{"name": "a", "fallback_type": "html_file", "fallback_content": "/dev/zero"}"#,
        "app \"a\": fallback_content: open /dev/zero: it is a device, not a file",
    ),
    (
        r#"{"name": "a", "load_balance_method": "hash"}"#,
        "app \"a\": load_balance_method: bad load balance algorithm, only wrr, rr, random are support now",
    ),
    (
        r#"{"name": "a", "path": ["/"]}"#,
        "app \"a\": path: guard has no such field; did you mean \"paths\"?",
    ),
    (
        r#"{"apps": {"a": {"name": "b"}}}"#,
        "app \"a\": name: found \"b\", expected \"a\", under which it is saved",
    ),
    (
        r#"{"name": "a b"}"#,
        "app \"a b\": name: found \"a b\", expected a host such as \"www.example.com\"",
    ),
    (
        r#"{"name": "a", "ratio": 1.5}"#,
        "app \"a\": ratio: found 1.5, expected 0.01 to 1, or 0 for 0.3",
    ),
    (
        r#"{"name": "a", "backends": ["x:0"], "weights": [1]}"#,
        "app \"a\": backends[0]: found \"x:0\", expected a port from 1 to 65535",
    ),
    (
        r#"{"name": "a", "backends": ["x:1", "x:2"], "weights": [1, -1], "load_balance_method": "wrr"}"#,
        "app \"a\": weights[1]: found -1, expected 0 to 1000",
    ),
    (
        r#"{"name": "a", "paths": ["x"], "methods": ["GET"]}"#,
        "app \"a\": paths[0]: found \"x\", expected a path such as \"/\", \"/users/{id}\" or \"/api/{*rest}\", beginning with \"/\"; did you mean \"/x\"?",
    ),
    (
        r#"{"name": "a", "paths": ["/a_:b"], "methods": ["GET"]}"#,
        "app \"a\": paths[0]: found \"/a_:b\", expected a parameter to be a whole segment, unlike \"a_:b\"",
    ),
    (
        r#"{"name": "a", "paths": ["/"], "methods": ["FETCH"]}"#,
        "app \"a\": methods[0]: bad http method: FETCH",
    ),
    (
        r#"{"name": "a", "paths": ["/"], "methods": ["trace"]}"#,
        "app \"a\": methods[0]: TRACE and CONNECT are never served",
    ),
    (
        r#"{"apps": {"a:1": {"name": "a:1"}, "A": {"name": "A"}}}"#,
        "app \"a:1\": name: the host is that of app \"A\" too, expected another one: ports do not tell hosts apart",
    ),
];

#[test]
fn mistakes_name_the_file_the_app_and_the_field() {
    for (json, problem) in MISTAKES {
        let told = import(json.as_bytes(), "guard.json").expect_err(json);
        assert_eq!(told, format!("guard.json: {problem}"), "{json}");
    }
    let both =
        r#"{"apps": {"a": {"ratio": -1, "paths": [":"], "methods": ["get"]}, "b": {"name": "c"}}}"#;
    let told = import(both.as_bytes(), "guard.json").expect_err("three mistakes");
    let fields = [
        "app \"a\": ratio: ",
        "app \"a\": paths[0]: ",
        "app \"b\": name: ",
    ];
    assert_eq!(told.lines().count(), 3, "{told}");
    for (line, field) in told.lines().zip(fields) {
        assert!(line.starts_with(&format!("guard.json: {field}")), "{line}");
    }
}

#[test]
fn an_app_that_is_posted_becomes_routes_of_its_own() {
    let app = posted(DOCUMENTED.as_bytes()).expect("it is documented");
    assert_eq!(app.name, "www.example.com");
    assert_eq!(app.json["load_balance_method"], "rr");
    assert_eq!(app.json["fallback_content"], "too many requests");
    assert_eq!(app.upstreams[0].name, "guard:www.example.com");
    assert_eq!(app.routes.len(), 4);
    for route in &app.routes {
        assert_eq!(route.host, HostPattern::Exact("www.example.com".to_owned()));
        assert_eq!(route.app.as_deref(), Some("www.example.com"));
    }
    let Action::Forward(rule) = &app.routes[0].action else {
        panic!("it forwards");
    };
    let breaker = rule.care.breaker.as_ref().expect("it breaks");
    assert_eq!(breaker.breaker.failure_ratio, Some(0.3));
    let statuses = [200, 404, 429, 500, 502, 503, 504].map(|status| breaker.failures.has(status));
    assert_eq!(statuses, [false, false, true, true, true, true, true]);
    // What it is posted by again is what is saved.
    let again = posted(app.json.to_string().as_bytes()).expect("it was saved");
    assert_eq!((again.json, again.routes), (app.json, app.routes));
}

#[test]
fn an_app_without_paths_or_backends_is_taken_as_guard_takes_it() {
    let app = posted(br#"{"name": "a", "other": 1}"#).expect("guard takes it");
    assert!(app.routes.is_empty() && app.upstreams.is_empty());
    let app =
        posted(br#"{"name": "a", "paths": ["/x"], "methods": ["GET"]}"#).expect("guard takes it");
    assert!(app.upstreams.is_empty());
    assert!(matches!(&app.routes[0].action, Action::Respond(fixed) if fixed.status == 503));
}
