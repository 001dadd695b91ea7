//! Pages of other origins: what browsers are told of every answer.

use crate::harness::Gateway;
use crate::harness::client::{self, Response};
use crate::harness::origin::Origin;

const APP: &str = "https://app.example.com";
const OTHER: &str = "https://a.example.org";

fn ask(gateway: &Gateway, line: &str, origin: Option<&str>, fields: &str) -> Response {
    let origin = origin.map_or_else(String::new, |origin| format!("Origin: {origin}\r\n"));
    let request = format!("{line} HTTP/1.1\r\nHost: test\r\n{origin}{fields}\r\n");
    client::send(gateway.address, &request)
}

fn told(response: &Response) -> Option<&str> {
    let told = response.fields("access-control-allow-origin");
    assert!(told.len() <= 1, "{}", response.head);
    told.first().copied()
}

/// It answers as if it were for one page alone, once; what it is asked for is stored.
fn start() -> (Origin, Gateway) {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nAccess-Control-Allow-Origin: https://old.example\r\n\
         Access_Control_Allow_Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{}\"]\n[upstream.none]\nservers = [\"127.0.0.1:1\"]\n\
         [[route]]\npath = \"/api/{{*rest}}\"\nmethods = [\"GET\", \"PUT\"]\nupstream = \"app\"\ncache = true\n\
         rate = {{ requests = 5, per = \"1h\", key = \"header:x-key\" }}\n\
         cors = {{ origins = [\"{APP}\", \"https://*.example.org\"], headers = [\"X-Key\"], expose = [\"X-B\"], credentials = true }}\n\
         [[route]]\npath = \"/api/{{*rest}}\"\nmethods = [\"DELETE\"]\nupstream = \"none\"\ncors = {{ origins = [\"*\"] }}\n\
         [[route]]\npath = \"/api/{{*rest}}\"\nmethods = [\"OPTIONS\"]\nrespond = {{ body = \"options\" }}\n\
         [[route]]\npath = \"/all\"\nrespond = {{ body = \"all\" }}\ncors = {{ origins = [\"*\"] }}\n",
        origin.address
    ));
    (origin, gateway)
}

#[test]
fn a_stored_answer_says_to_each_page_what_holds_for_it() {
    let (origin, gateway) = start();
    for (page, allowed) in [
        (None, None),
        (Some(APP), Some(APP)),
        (Some(OTHER), Some(OTHER)),
        (Some("https://old.example"), None),
        (Some("null"), None),
    ] {
        let answer = ask(&gateway, "GET /api/x", page, "");
        assert_eq!(answer.text(), "ok");
        assert_eq!(told(&answer), allowed, "{page:?}");
        let credentials = answer.field("access-control-allow-credentials");
        assert_eq!(credentials, allowed.map(|_| "true"), "{page:?}");
        let exposed = answer.field("access-control-expose-headers");
        assert_eq!(exposed, allowed.map(|_| "X-B"));
        assert_eq!(answer.fields("vary"), ["Origin"]);
        assert!(answer.field("access_control_allow_origin").is_none());
    }
    assert_eq!(origin.heads_waiting(), 1);
    // For every page there is, it is the same.
    for page in [None, Some(APP)] {
        let answer = ask(&gateway, "GET /all", page, "");
        assert_eq!((told(&answer), answer.field("vary")), (Some("*"), None));
    }
}

#[test]
fn a_browser_that_asks_first_is_answered_by_the_route_of_the_method() {
    let (origin, gateway) = start();
    let preflight = |page: &str, method: &str| {
        let asked = format!("Access-Control-Request-Method: {method}\r\n");
        ask(&gateway, "OPTIONS /api/x", Some(page), &asked)
    };
    let answer = preflight(APP, "PUT");
    assert_eq!((answer.status, told(&answer)), (204, Some(APP)));
    for (name, value) in [
        ("access-control-allow-methods", "GET, PUT"),
        ("access-control-allow-headers", "X-Key"),
        ("access-control-max-age", "600"),
        ("access-control-allow-credentials", "true"),
        ("vary", "Origin"),
    ] {
        assert_eq!(answer.field(name), Some(value), "{name}");
    }
    let answer = preflight("https://evil.example", "PUT");
    assert_eq!((answer.status, told(&answer)), (204, None));
    assert_eq!(answer.field("access-control-allow-methods"), None);
    let answer = preflight("https://evil.example", "DELETE");
    assert_eq!((answer.status, told(&answer)), (204, Some("*")));
    let methods = answer.field("access-control-allow-methods");
    assert_eq!(methods, Some("DELETE"));
    // Whatever is no question of a browser is a request like any other.
    assert_eq!(preflight(APP, "PATCH").text(), "options");
    assert_eq!(preflight(APP, "TRACE").text(), "options");
    assert_eq!(
        ask(&gateway, "OPTIONS /api/x", Some(APP), "").text(),
        "options"
    );
    assert_eq!(origin.heads_waiting(), 0);
}

/// Each route that has a rule is known by the methods that it names.
#[test]
fn a_question_goes_where_its_request_may_go() {
    let route = |condition: &str, name: &str| {
        let cors = match name {
            "" => String::new(),
            _ => format!("cors = {{ origins = [\"*\"], methods = [\"{name}\"] }}\n"),
        };
        format!("[[route]]\npath = \"/x\"\n{condition}\nrespond = {{ body = \"own\" }}\n{cors}")
    };
    let headers = |condition: &str| format!("headers = {{ {condition} }}");
    let beta = [route(&headers("X-Beta = \"1\""), "BETA"), route("", "")];
    let cookie = [route(&headers("Cookie = true"), "COOKIE"), route("", "")];
    let query = [route("query = { v = \"2\" }", "QUERY"), route("", "")];
    let silent = [route(&headers("X-Beta = true"), ""), route("", "ANY")];
    let absent = [route(&headers("X-New = false"), "ABSENT"), route("", "ANY")];
    let nested = [
        route(&headers("X-Beta = true, X-Old = true"), "BOTH"),
        route(&headers("X-Beta = true"), "BETA"),
        route("", "ANY"),
    ];
    for (routes, target, fields, answered) in [
        // Where conditions cannot hold, a route without a rule is not spoken for.
        (&beta[..], "/x", "x-betas", None),
        (&beta, "/x", "x-a, X-Beta", Some("BETA")),
        (&cookie, "/x", "", Some("COOKIE")),
        (&query, "/x", "", None),
        (&query, "/x?v=2", "", Some("QUERY")),
        (&silent, "/x", "x-beta", None),
        (&silent, "/x", "", Some("ANY")),
        (&absent, "/x", "x-new", Some("ANY")),
        (&absent, "/x", "", Some("ABSENT")),
        (&nested, "/x", "x-beta", Some("BETA")),
        (&nested, "/x", "x-old,x-beta", Some("BOTH")),
    ] {
        let text = routes.concat();
        let gateway = Gateway::start(&text);
        let line = format!("OPTIONS {target}");
        let asked = format!(
            "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: {fields}\r\n"
        );
        let answer = ask(&gateway, &line, Some(APP), &asked);
        let methods = answer.field("access-control-allow-methods");
        assert_eq!(methods, answered, "{target} {fields}");
        assert_eq!(answer.status, if answered.is_some() { 204 } else { 200 });
    }
}

#[test]
fn a_page_can_read_what_weir_refuses() {
    let (_origin, gateway) = start();
    // Questions count for no limit.
    for _ in 0..10 {
        let asked = "Access-Control-Request-Method: GET\r\nX-Key: 1\r\n";
        assert_eq!(
            ask(&gateway, "OPTIONS /api/x", Some(APP), asked).status,
            204
        );
    }
    let statuses: Vec<(u16, bool)> = (0..6)
        .map(|_| {
            let answer = ask(&gateway, "GET /api/x", Some(APP), "X-Key: 1\r\n");
            (answer.status, told(&answer) == Some(APP))
        })
        .collect();
    assert_eq!(statuses[..5], [(200, true); 5]);
    assert_eq!(statuses[5], (429, true));
    let answer = ask(&gateway, "DELETE /api/x", Some(APP), "");
    assert_eq!((answer.status, told(&answer)), (502, Some("*")));
    let answer = ask(&gateway, "PATCH /api/x", Some(APP), "");
    assert_eq!((answer.status, told(&answer)), (405, Some(APP)));
}
