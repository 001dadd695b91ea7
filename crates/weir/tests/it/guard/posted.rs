//! What is answered to whoever posts an app, or looks: guard's statuses and words.

use serde_json::Value;

use super::{app, ask, post, take, taking_apps};
use crate::harness::client::{ask_admin, send};
use crate::harness::origin::Origin;
use crate::harness::{Directory, Gateway};

fn origin() -> Origin {
    Origin::saying(([127, 0, 0, 1], 0).into(), "app")
}

/// An app, its status and what follows `bad configuration: `.
const POSTED: [(&str, u16, &str); 24] = [
    (
        r#"{"name":"www.example.com","backends":["127.0.0.1:80","127.0.0.1:80","127.0.0.1:80"],"weights":[5,1,1],"ratio":0.3,"paths":["/"],"methods":["GET"]}"#,
        200,
        "",
    ),
    (
        r#"{"name":"www.example.com","backends":["127.0.0.1:80","127.0.0.1:80","127.0.0.1:80"],"weights":[5,1],"ratio":0.3,"paths":["/"],"methods":["GET"]}"#,
        400,
        "backend and weight does not match",
    ),
    (
        r#""name":"www.example.com","backends":["127.0.0.1:80"],"weights":[5,1],"ratio":0.3,"paths":["/"],"methods":["GET"]}"#,
        400,
        "trailing characters at line 1 column 7",
    ),
    ("", 400, "EOF while parsing a value at line 1 column 0"),
    ("[]", 400, "expected an object"),
    ("{}", 400, "name is required"),
    (r#"{"name":null}"#, 400, "name is required"),
    (r#"{"name":"a"}"#, 200, ""),
    (r#"{"name":"a","nothing":"guard knows"}"#, 200, ""),
    (
        r#"{"name":"a","backends":["127.0.0.1:1"]}"#,
        400,
        "backend and weight does not match",
    ),
    (
        r#"{"name":"a","paths":["/"]}"#,
        400,
        "path and method does not match",
    ),
    (
        r#"{"name":"a","load_balance_method":"least"}"#,
        400,
        "bad load balance algorithm, only wrr, rr, random are support now",
    ),
    (r#"{"name":"a","load_balance_method":"wrr"}"#, 200, ""),
    (
        r#"{"name":"a","fallback_type":"xml"}"#,
        400,
        "bad fallback type",
    ),
    (
        r#"{"name":"a","fallback_type":"html_file","fallback_content":"/nowhere"}"#,
        400,
        "open /nowhere: no such file or directory",
    ),
    (
        r#"{"name":"a","fallback_type":"json","fallback_content":"{}"}"#,
        200,
        "",
    ),
    (
        r#"{"name":1}"#,
        400,
        "name: invalid type: integer `1`, expected a string",
    ),
    (
        r#"{"name":"a","weights":["1"],"backends":["127.0.0.1:1"]}"#,
        400,
        "weights: invalid type: string \"1\", expected i64",
    ),
    // What guard dies of, or takes and never serves.
    (
        r#"{"name":"a","paths":["/"],"methods":["FETCH"]}"#,
        400,
        "methods[0]: bad http method: FETCH",
    ),
    (
        r#"{"name":"a","paths":["/:"],"methods":["GET"]}"#,
        400,
        "paths[0]: found \"/:\", expected the name in \"{}\" to be of letters, digits, \"_\" and \"-\"",
    ),
    (
        r#"{"name":"a b"}"#,
        400,
        "name: found \"a b\", expected a host such as \"www.example.com\"",
    ),
    (
        r#"{"name":"a","ratio":3}"#,
        400,
        "ratio: found 3, expected 0.01 to 1, or 0 for 0.3",
    ),
    (
        r#"{"name":"a","backends":["127.0.0.1:99999"],"weights":[1]}"#,
        400,
        "backends[0]: found \"127.0.0.1:99999\", expected a port from 1 to 65535",
    ),
    (
        r#"{"name":"A","paths":["/","/user/:a","/user/:b","/user/","/*x"],"methods":["get","GET","Put","POST","DELETE"]}"#,
        200,
        "",
    ),
];

#[test]
fn every_app_is_answered_as_by_guard() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    for (app, status, problem) in POSTED {
        let response = post(&gateway, app);
        let expected = match status {
            200 => "success!".to_owned(),
            _ => format!("bad configuration: {problem}"),
        };
        assert_eq!(
            (response.status, response.text()),
            (status, expected),
            "{app}"
        );
        assert_eq!(
            response.field("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
}

#[test]
fn other_methods_are_405_and_other_paths_show_what_is_kept_but_for_weirs_own() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let origin = origin();
    take(&gateway, &app("www.example.com", origin.address, "/"));
    for method in ["GET", "PUT", "DELETE"] {
        let request = format!(
            "{method} /app HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            gateway.admin
        );
        let response = send(gateway.admin, &request);
        assert_eq!(
            (response.status, response.field("allow")),
            (405, Some("POST")),
            "{method}"
        );
    }
    for (method, path) in [
        ("GET", "/apps"),
        ("POST", "/whatever"),
        ("GET", "/app/"),
        ("GET", "/x?y"),
    ] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            gateway.admin
        );
        let response = send(gateway.admin, &request);
        assert_eq!(
            response.field("content-type"),
            Some("application/json"),
            "{path}"
        );
        let kept: Value = serde_json::from_slice(&response.body).expect("it is JSON");
        let kept = &kept["apps"]["www.example.com"];
        assert_eq!(
            (&kept["load_balance_method"], &kept["weights"][0]),
            (&"rr".into(), &1.into())
        );
    }
    let own = |path| ask_admin(gateway.admin, path);
    assert_eq!(own("/healthz").text(), "ok\n");
    assert!(
        own("/metrics")
            .text()
            .contains("weir_request_duration_seconds_count{route=\"www.example.com/\"")
    );
    assert_eq!(
        own("/").field("content-type"),
        Some("text/html; charset=utf-8")
    );
    let request = format!("GET /upstreams HTTP/1.1\r\nHost: {}\r\n\r\n", gateway.admin);
    let upstreams = send(gateway.admin, &request).text();
    assert!(upstreams.contains("guard:www.example.com"), "{upstreams}");
}

#[test]
fn without_the_key_nothing_is_taken() {
    let gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = {}\n");
    assert_eq!(post(&gateway, r#"{"name": "a"}"#).status, 405);
    assert_eq!(ask_admin(gateway.admin, "/app").status, 404);
}

#[test]
fn web_pages_of_others_can_neither_post_nor_look() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "");
    let app = r#"{"name": "a", "paths": ["/"], "methods": ["GET"]}"#;
    let ask = |path: &str, fields: &str| {
        let (length, admin) = (app.len(), gateway.admin);
        let fields = fields.replace("ADMIN", &admin.to_string());
        let request =
            format!("POST {path} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{app}");
        send(admin, &request).status
    };
    let json = "Content-Type: application/json\r\n";
    for (fields, status) in [
        (
            format!("Host: ADMIN\r\n{json}Origin: http://evil.example\r\n"),
            403,
        ),
        (
            format!("Host: ADMIN\r\n{json}Sec-Fetch-Site: cross-site\r\n"),
            403,
        ),
        (format!("Host: evil.example\r\n{json}"), 403),
        (
            "Host: ADMIN\r\nUser-Agent: Mozilla/5.0\r\nContent-Type: text/plain\r\n".to_owned(),
            415,
        ),
        ("Host: ADMIN\r\nReferer: http://ADMIN/\r\n".to_owned(), 415),
    ] {
        assert_eq!(ask("/app", &fields), status, "{fields}");
        if status == 403 {
            assert_eq!(ask("/other", &fields), 403, "{fields}");
        }
    }
    assert_eq!(super::ask(&gateway, "GET", "a", "/").status, 404);
    assert_eq!(ask("/app", &format!("Host: ADMIN\r\n{json}")), 200);
    assert_eq!(ask("/app", "Host: ADMIN\r\n"), 200, "as curl posts it");
}

#[test]
fn a_token_is_asked_for() {
    let directory = Directory::new();
    let gateway = taking_apps(&directory, "token = \"sesame-0123456789\"\n");
    assert_eq!(post(&gateway, r#"{"name": "a"}"#).status, 401);
    let request = format!(
        "POST /app HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer sesame-0123456789\r\nContent-Type: application/json\r\n\
         Content-Length: 13\r\n\r\n{{\"name\": \"a\"}}",
        gateway.admin
    );
    assert_eq!(send(gateway.admin, &request).text(), "success!");
}

#[test]
fn what_the_file_serves_stays_the_files() {
    let origin = origin();
    let directory = Directory::new();
    let gateway = taking_apps(
        &directory,
        "[[route]]\nname = \"mine\"\nhost = \"www.example.com\"\npath = \"/users/{id}\"\nrespond = { body = \"file\" }\n",
    );
    let overlapping = app("www.example.com", origin.address, "/users/:name");
    let response = post(&gateway, &overlapping.to_string());
    let expected = "bad configuration: www.example.com/users/{name} is served by the route mine of the config file already";
    assert_eq!((response.status, &*response.text()), (400, expected));
    take(&gateway, &app("www.example.com", origin.address, "/other"));
    assert_eq!(
        ask(&gateway, "GET", "www.example.com", "/users/1").text(),
        "file"
    );
    assert_eq!(
        ask(&gateway, "GET", "www.example.com", "/other").text(),
        "app"
    );
    // One host, two apps.
    let response = post(
        &gateway,
        &app("www.example.com:81", origin.address, "/other").to_string(),
    );
    let expected =
        "bad configuration: www.example.com/other is served by the app www.example.com already";
    assert_eq!((response.status, &*response.text()), (400, expected));
}
