//! Mistakes in the choice of requests: hosts, paths, methods, and routes that want the same.

use crate::config::InProcess;
use weir_gateway::settings::Wanted;

use super::{LISTENER, UPSTREAM, assert_problems, parse, valid};

#[test]
fn mistakes_in_the_choice_of_requests_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
[[route]]
#! route[1].path: missing, expected a path such as "/", "/users/{id}" or "/api/{*rest}"
#! route[1]: found no action, expected one of "upstream", "split", "redirect", "respond", "kv", "collect"
host = "*"
#! route[1].host: found "*", expected a host such as "www.example.com" or "*.example.com", or no "host" for all of them
pth = "/"
#! route[1].pth: unknown key; did you mean "path"?
"#,
    r#"
[[route]]
path = 1
#! route[1].path: found the integer 1, expected a path such as "/", "/users/{id}" or "/api/{*rest}"
host = 1
#! route[1].host: found the integer 1, expected a host such as "www.example.com" or "*.example.com"
name = 2
#! route[1].name: found the integer 2, expected a name
methods = "GET"
#! route[1].methods: found "GET", expected a list of methods such as ["GET", "HEAD"]
upstream = "app"
"#,
    r##"
route = [
  { path = "", upstream = "app" },
#! route[1].path: found "", expected a path such as "/", "/users/{id}" or "/api/{*rest}", beginning with "/"
  { path = "users", upstream = "app" },
#! route[2].path: found "users", expected a path such as "/", "/users/{id}" or "/api/{*rest}", beginning with "/"; did you mean "/users"?
  { path = "http://x/", upstream = "app" },
#! route[3].path: found "http://x/", expected a path such as "/", "/users/{id}" or "/api/{*rest}", beginning with "/"
  { path = "/a?b", upstream = "app" },
#! route[4].path: found "/a?b", expected a path without "?" and "#"
  { path = "/a#b", upstream = "app" },
#! route[5].path: found "/a#b", expected a path without "?" and "#"
  { path = "/a b", upstream = "app" },
#! route[6].path: found "/a b", expected a path without blanks, everything but ASCII percent-encoded
  { path = "/ü", upstream = "app" },
#! route[7].path: found "/ü", expected a path without blanks, everything but ASCII percent-encoded
  { path = "/a//b", upstream = "app" },
#! route[8].path: found "/a//b", expected a path in its normal form, in which requests are matched; did you mean "/a/b"?
  { path = "/a/../b", upstream = "app" },
#! route[9].path: found "/a/../b", expected a path in its normal form, in which requests are matched; did you mean "/b"?
  { path = "/../b", upstream = "app" },
#! route[10].path: found "/../b", expected a path without broken escapes and ".."
  { path = "/%61", upstream = "app" },
#! route[11].path: found "/%61", expected a path in its normal form, in which requests are matched; did you mean "/a"?
  { path = "/%zz", upstream = "app" },
#! route[12].path: found "/%zz", expected a path without broken escapes and ".."
  { path = "/{a", upstream = "app" },
#! route[13].path: found "/{a", expected a closed pair of braces in "{a"
  { path = "/a}", upstream = "app" },
#! route[14].path: found "/a}", expected a closed pair of braces in "a}"
  { path = "/{a}{b}", upstream = "app" },
#! route[15].path: found "/{a}{b}", expected a parameter to be a whole segment, unlike "{a}{b}"
  { path = "/x{a}", upstream = "app" },
#! route[16].path: found "/x{a}", expected a parameter to be a whole segment, unlike "x{a}"
  { path = "/{a/b}", upstream = "app" },
#! route[17].path: found "/{a/b}", expected a closed pair of braces in "{a"
  { path = "/{}", upstream = "app" },
#! route[18].path: found "/{}", expected the name in "{}" to be of letters, digits, "_" and "-"
  { path = "/{*}", upstream = "app" },
#! route[19].path: found "/{*}", expected the name in "{*}" to be of letters, digits, "_" and "-"
  { path = "/{*rest}/x", upstream = "app" },
#! route[20].path: found "/{*rest}/x", expected "{*rest}" only at the end
  { path = "/{a}/{a}", upstream = "app" },
#! route[21].path: found "/{a}/{a}", expected the parameter "a" only once
  { path = "/{a b}", upstream = "app" },
#! route[22].path: found "/{a b}", expected a path without blanks, everything but ASCII percent-encoded
  { path = "/{a.b}", upstream = "app" },
#! route[23].path: found "/{a.b}", expected the name in "{a.b}" to be of letters, digits, "_" and "-"
  { path = "/{a}/{*a}", upstream = "app" },
#! route[24].path: found "/{a}/{*a}", expected the parameter "a" only once
  { path = "/{{a}}", upstream = "app" },
#! route[25].path: found "/{{a}}", expected a parameter to be a whole segment, unlike "{{a}}"
  { path = "/}a{", upstream = "app" },
#! route[26].path: found "/}a{", expected a parameter to be a whole segment, unlike "}a{"
  { path = "/a;b", upstream = "app" },
#! route[27].path: found "/a;b", expected a path without ";", "\", "%2F", "%5C" and escapes of escapes: servers read these in several ways, and requests for it are refused
  { path = "/a%2fb", upstream = "app" },
#! route[28].path: found "/a%2fb", expected a path without ";", "\", "%2F", "%5C" and escapes of escapes: servers read these in several ways, and requests for it are refused
]
"##,
    r#"
route = [
  { path = "/", upstream = "app", host = "example.com:8080" },
#! route[1].host: found "example.com:8080", expected a host without a port; did you mean "example.com"?
  { path = "/", upstream = "app", host = "*." },
#! route[2].host: found "*.", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "*" },
#! route[3].host: found "*", expected a host such as "www.example.com" or "*.example.com", or no "host" for all of them
  { path = "/", upstream = "app", host = "exa mple.com" },
#! route[4].host: found "exa mple.com", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "a..b" },
#! route[5].host: found "a..b", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "www.*.com" },
#! route[6].host: found "www.*.com", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "[::1" },
#! route[7].host: found "[::1", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "*.[::1]" },
#! route[8].host: found "*.[::1]", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "bücher.example" },
#! route[9].host: found "bücher.example", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "https://example.com" },
#! route[10].host: found "https://example.com", expected a host such as "www.example.com" or "*.example.com"; did you mean "example.com"?
  { path = "/", upstream = "app", host = "[::1]:80" },
#! route[11].host: found "[::1]:80", expected a host without a port; did you mean "[::1]"?
  { path = "/", upstream = "app", host = "" },
#! route[12].host: found "", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "WWW.example.com." },
#! route[13].host: found "WWW.example.com.", expected a host without a dot at its end; did you mean "www.example.com"?
  { path = "/", upstream = "app", host = "http://example.com:8080/x" },
#! route[14].host: found "http://example.com:8080/x", expected a host such as "www.example.com" or "*.example.com"; did you mean "example.com"?
  { path = "/", upstream = "app", host = "example.com/api" },
#! route[15].host: found "example.com/api", expected a host such as "www.example.com" or "*.example.com"; did you mean "example.com"?
  { path = "/", upstream = "app", host = ".example.com" },
#! route[16].host: found ".example.com", expected a host such as "www.example.com" or "*.example.com"; did you mean "*.example.com"?
  { path = "/", upstream = "app", host = "_" },
#! route[17].host: found "_", expected a host such as "www.example.com" or "*.example.com", or no "host" for all of them
]
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
name = ""
#! route[1].name: found "", expected a name: not empty, without control characters
methods = [
  "get",
#! route[1].methods[1]: found "get", expected methods in upper case; did you mean "GET"?
  "Post",
#! route[1].methods[2]: found "Post", expected methods in upper case; did you mean "POST"?
  "TRACE",
#! route[1].methods[3]: found "TRACE", expected another method: TRACE and CONNECT are never served
  "connect",
#! route[1].methods[4]: found "connect", expected another method: TRACE and CONNECT are never served
  "GE T",
#! route[1].methods[5]: found "GE T", expected a method such as "GET"
  "",
#! route[1].methods[6]: found "", expected a method such as "GET"
  1,
#! route[1].methods[7]: found the integer 1, expected a method such as "GET"
  "PUT",
  "PUT",
#! route[1].methods[9]: found "PUT", expected each method only once
]
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
methods = []
#! route[1].methods: found an empty list, expected at least one method, or no "methods" for all of them
"#,
    r#"
[[route]]
path = "/a/{x}"
methods = ["GET", "PUT"]
upstream = "app"
[[route]]
path = "/a/{y}"
methods = ["POST"]
upstream = "app"
[[route]]
path = "/a/{z}"
#! route[3].path: found "/a/{z}", which route[1] on line 4 serves too for HEAD, expected another path, host or method
methods = ["HEAD"]
upstream = "app"
[[route]]
host = "a.example"
path = "/a/{z}"
upstream = "app"
[[route]]
host = "A.example"
path = "/a/{x}"
#! route[5].path: found "/a/{x}", which route[4] on line 17 serves too for every method, expected another path, host or method
upstream = "app"
[[route]]
path = "/a/{w}"
#! route[6].path: found "/a/{w}", which route[1] on line 4 serves too for GET, PUT, expected another path, host or method
upstream = "ap"
#! route[6].upstream: there is no upstream "ap"; did you mean "app"?
[[route]]
path = "/a/{*x}"
upstream = "app"
[[route]]
path = "/a/{v}"
#! route[8].path: found "/a/{v}", which route[1] on line 4 serves too for PUT, expected another path, host or method
methods = ["PUT", "DELETE", "POST"]
upstream = "app"
"#,
    r#"
route = [
  { path = "/a", upstream = "app" },
  { path = "/a", upstream = "app", headers = { X-Beta = "1" } },
  { path = "/a", upstream = "app", headers = { X-Beta = "2" } },
  { path = "/a", upstream = "app", headers = { X-Beta = false } },
  { path = "/a", upstream = "app", headers = { x-beta = true } },
  { path = "/a", upstream = "app", headers = { X-Other = "1" }, methods = ["GET"] },
#! route[6].path: found "/a", which route[2] on line 5 serves too for GET, expected conditions that exclude each other, or one more of them on one of the two
  { path = "/a", upstream = "app", headers = { X-Other = "1", X-Beta = "1" } },
  { path = "/a", upstream = "app", query = { debug = "1" } },
  { path = "/a", upstream = "app", query = { debug = "2" } },
  { path = "/a", upstream = "app", query = { trace = "1" } },
#! route[10].path: found "/a", which route[8] on line 11 serves too for every method, expected conditions that exclude each other, or one more of them on one of the two
]
"#,
    r#"
[[route]]
path = "/a"
upstream = "app"
query = { "" = "1", a = 1, b = "\n" }
#! route[1].query."": found the parameter "", expected a name as it is read, not empty
#! route[1].query.a: found the integer 1, expected a value such as "1", or true for any, or false for none
#! route[1].query.b: found "\n", expected a value without control characters
[route.headers]
Host = "a"
#! route[1].headers.Host: found the field "host", expected the key "host" of the route
X-Beta = 1
#! route[1].headers.X-Beta: found the integer 1, expected a value such as "1", or true for any, or false for none
X-Own = " 1"
#! route[1].headers.X-Own: found " 1", expected a value without blanks around it
x_own = "1"
Connection = "close"
#! route[1].headers.Connection: found the field "Connection", which the gateway writes itself, expected another field
X-Two = "1"
X_TWO = "1"
#! route[1].headers.X_TWO: found the field "x_two" again as "x-two", which scripts read as the same, expected it only once
"#,
];

#[test]
fn conditions_are_read_in_any_order_and_named() {
    let text = format!(
        "{LISTENER}route = [{{ path = \"/a\", respond = {{}}, query = {{ \"a b\" = true }}, headers = {{ X-B = \"1\", X-A = false }} }}]\n"
    );
    let route = &valid(&text).routes[0];
    let conditions = &route.conditions;
    let header = |name: &str, wanted| (name.to_owned(), wanted);
    assert_eq!(
        conditions.headers,
        [
            header("x-a", Wanted::Absent),
            header("x-b", Wanted::Value("1".to_owned()))
        ]
    );
    assert_eq!(conditions.query, [("a b".to_owned(), Wanted::Present)]);
    assert_eq!(route.name, "/a header:x-a header:x-b query:a b");
    assert_eq!(
        conditions.text(),
        r#"header "x-a"=false header "x-b"="1" query "a b"=true"#
    );
}

/// Patterns of other programs, and what is told of each.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("/*", "/{*rest}", "%2A"),
    ("/api/*", "/api/{*rest}", "%2A"),
    ("/api/**", "/api/{*rest}", "%2A"),
    ("/api*", "/api/{*rest}", "%2A"),
    ("/api/*/users", "/api/{name}/users", "%2A"),
    ("/api/*splat", "/api/{*splat}", "%2A"),
    ("/static/*.js", "/static/{*rest}", "%2A"),
    ("/api/:id", "/api/{id}", "%3A"),
    ("/api/:id/posts/:post", "/api/{id}/posts/{post}", "%3A"),
    ("/api/:rest*", "/api/{*rest}", "%3A"),
    ("/api/:id([0-9]+)", "/api/{id}", "%3A"),
    ("/api/<id>", "/api/{id}", "%3C"),
    ("/api/<int:id>/x", "/api/{id}/x", "%3C"),
    ("/api/<path:rest>", "/api/{*rest}", "%3C"),
    ("/blog/[slug]", "/blog/{slug}", "%5B"),
    ("/blog/[...slug]", "/blog/{*slug}", "%5B"),
    ("/api/{id:int}", "/api/{id}", "%2A"),
    ("/files/{rest:path}", "/files/{*rest}", "%2A"),
    ("/files/{**rest}", "/files/{*rest}", "%2A"),
    ("/files/{rest...}", "/files/{*rest}", "%2A"),
    ("^/api", "/api/{*rest}", "regular expressions"),
    ("^/api/v[0-9]+/.*$", "/api/{*rest}", "regular expressions"),
    ("~ ^/api/", "/api/{*rest}", "regular expressions"),
    ("~* /api", "/api/{*rest}", "regular expressions"),
    ("^~ /static/", "/static/{*rest}", "begins with"),
    ("= /login", "/login", "exactly"),
    ("/api/(.*)", "/api/{*rest}", "regular expressions"),
    ("/api/[0-9]+/x", "/api/{name}/x", "regular expressions"),
];

#[test]
fn patterns_of_other_programs_are_told_with_what_they_are_here() {
    for (path, meant, expected) in FOREIGN {
        let text = format!("{LISTENER}route = [{{ path = \"{path}\", respond = {{}} }}]\n");
        let told = parse(&text).expect_err(path).to_string();
        assert!(
            told.ends_with(&format!("did you mean \"{meant}\"?")),
            "{told}"
        );
        assert!(told.contains(expected), "{told}");
        // What is meant is taken.
        valid(&text.replace(path, meant));
    }
}

#[test]
fn an_escape_stands_for_the_character_itself() {
    let text = format!(
        "{LISTENER}{UPSTREAM}route = [{{ path = \"/a%2Ab/%3Aid/%20/{{x}}\", strip_prefix = \"/a%2Ab\", upstream = \"app\" }}]\n"
    );
    let settings = valid(&text);
    let route = &settings.routes[0];
    assert_eq!(route.path, "/a*b/:id/%20/{x}");
    assert_eq!(route.name, "/a%2Ab/%3Aid/%20/{x}");
    let rule = route.action.rule().unwrap();
    assert_eq!(rule.strip_prefix.as_deref(), Some("/a*b"));
}

#[test]
fn a_path_that_others_would_take_for_a_prefix_is_noted() {
    let notes = |paths: &[&str]| {
        let routes: Vec<String> = paths
            .iter()
            .map(|path| format!("{{ path = \"{path}\", respond = {{}} }}"))
            .collect();
        let text = format!("{LISTENER}route = [{}]\n", routes.join(", "));
        crate::config::notes::of(&valid(&text), &InProcess::default())
    };
    assert_eq!(
        notes(&["/"]),
        [
            "the route \"/\" serves the path \"/\" alone, and nothing below it; for both write path = \"/{*rest}\""
        ]
    );
    for (paths, noted) in [
        (&["/", "/{*rest}"][..], 0),
        (&["/", "/about"], 0),
        (&["/api", "/{*rest}"], 0),
        (&["/api/", "/{*rest}"], 1),
        (&["/api/", "/api/{id}"], 0),
        (&["/{tenant}/"], 1),
    ] {
        assert_eq!(notes(paths).len(), noted, "{paths:?}");
    }
}

#[test]
fn what_is_most_likely_not_meant_is_noted() {
    let notes = |more: &str| {
        let settings = valid(&format!("{LISTENER}{more}"));
        crate::config::notes::of(&settings, &InProcess::default())
    };
    let route = "[[route]]\npath = \"/{*rest}\"\nrespond = { status = 200 }\n";
    let app = "[upstream.app]\nservers = [\"127.0.0.1:1\"]\n";
    assert_eq!(
        notes(&format!("{app}{route}")),
        ["no route sends anything to the upstream \"app\"; one does with upstream = \"app\""]
    );
    let headers = "[response_headers.always]\nx-a = \"$remote_addr:$http_x_b, $5 and {host}\"\nx-c = \"$hostess\"\n";
    assert_eq!(
        notes(&format!("{headers}{route}")),
        [
            "response_headers: the field \"x-a\" says \"$remote_addr\" to the letter; the variable is \"{client}\"",
            "response_headers: the field \"x-a\" says \"$http_x_b\" to the letter; the variable is \"{request_header:x-b}\"",
        ]
    );
    let told = "[response_headers.always]\nx-id = \"{request_id}\"\n";
    let log = |format: &str| format!("[access_log]\npath = \"-\"\n{format}\n{told}{route}");
    assert_eq!(notes(&log("")).len(), 1);
    assert_eq!(notes(&log("format = \"json\"")).len(), 1);
    assert!(
        notes(&log(
            "format = \"json\"\nfields = [\"time\", \"request_id\"]"
        ))
        .is_empty()
    );
    assert!(notes(&format!("{told}{route}")).is_empty());
    let bodies = "[error_pages]\n5xx = { body = \"{request_id} {5} {}\" }\n\
                  404 = { json = { path = \"{path}\" } }\n\
                  405 = { body = \"<script>f({path})</script>\", content_type = \"text/html\" }\n\
                  [[route]]\npath = \"/{*rest}\"\nrespond = { body = \"{host}\" }\n\
                  response_headers.set.x-b = \"$host\"\n";
    let rest = "to the letter; fields of an answer have variables, bodies have none";
    assert_eq!(
        notes(bodies),
        [
            "route \"/{*rest}\": the field \"x-b\" says \"$host\" to the letter; the variable is \"{host}\""
                .to_owned(),
            format!("error_pages.404 says \"{{path}}\" {rest}"),
            format!("error_pages.5xx says \"{{request_id}}\" {rest}"),
            format!("route \"/{{*rest}}\": the body says \"{{host}}\" {rest}"),
        ]
    );
    let queue = |keys: &str| {
        let keys = format!("concurrency = {{ limit = 9, {keys} }}\n");
        let to_it = "[[route]]\npath = \"/{*rest}\"\nupstream = \"app\"\n";
        notes(&format!("{app}{keys}{to_it}"))
    };
    for silent in ["", "queue = 5"] {
        assert!(queue(silent).is_empty(), "{silent}");
    }
    assert_eq!(
        queue("queue = 6"),
        [
            "upstream \"app\": concurrency.queue is 6, and no more than half of limit ever wait, which is 5"
        ]
    );
    let everybody = format!("trusted_proxies.networks = [\"10.0.0.0/8\", \"0.0.0.0/0\"]\n{route}");
    let told = notes(&everybody);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("trusted_proxies.networks has 0.0.0.0/0, so every client"));
}
