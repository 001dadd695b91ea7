//! Mistakes in the choice of requests: hosts, paths, methods, and routes that want the same.

use super::{LISTENER, UPSTREAM, assert_problems};

#[test]
fn mistakes_in_the_choice_of_requests_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
[[route]]
#! route[1].path: missing, expected a path such as "/", "/users/{id}" or "/api/{*rest}"
#! route[1]: found no action, expected one of "upstream", "redirect", "respond"
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
#! route[10].host: found "https://example.com", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "[::1]:80" },
#! route[11].host: found "[::1]:80", expected a host without a port; did you mean "[::1]"?
  { path = "/", upstream = "app", host = "" },
#! route[12].host: found "", expected a host such as "www.example.com" or "*.example.com"
  { path = "/", upstream = "app", host = "WWW.example.com." },
#! route[13].host: found "WWW.example.com.", expected a host without a dot at its end; did you mean "www.example.com"?
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
];
