//! Mistakes in what routes do, apart from the answers of weir's own.

use super::{LISTENER, UPSTREAM, assert_problems};

#[test]
fn mistakes_in_actions_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], BROKEN);
}

#[test]
fn a_route_to_nowhere_is_told_how_to_begin() {
    assert_problems(&[LISTENER], BROKEN_WITHOUT_UPSTREAM);
}

const BROKEN_WITHOUT_UPSTREAM: &[&str] = &[r#"
[[route]]
path = "/"
upstream = "app"
#! route[1].upstream: there is no upstream "app"; add `[upstream.app]` with its "servers"
"#];

const BROKEN: &[&str] = &[
    r#"
[[route]]
path = "/{id}"
upstream = "app"
request_headers.set = { x-a = "{id} {method}", x-b = "{idd}", x-c = "{status}", x-d = "{" }
#! route[1].request_headers.set.x-b: found "{idd}", but there is no variable "idd" here; did you mean "id"?
#! route[1].request_headers.set.x-c: found "{status}", but "status" is known only with the answer, after it is used here
#! route[1].request_headers.set.x-d: found "{", expected every "{" to be closed by a "}", and "{{" for one that stands for itself
request_headers.add = { x-a = "1", X-E = "2", te = "3" }
#! route[1].request_headers.add.x-a: found "x-a", which is in "set" too, expected it only once
#! route[1].request_headers.add.te: found the field "te", which the gateway writes itself, expected another field
request_headers.always = { x-a = "1" }
#! route[1].request_headers.always: unknown key; expected one of "set", "add", "remove"
response_headers.always = { x-a = "{bytes_sent}", connection = "close" }
#! route[1].response_headers.always.x-a: found "{bytes_sent}", but "bytes_sent" is known only when all is over, after it is used here
#! route[1].response_headers.always.connection: found the field "connection", which the gateway writes itself, expected another field
"#,
    r#"
[[route]]
#! route[1]: found no action, expected one of "upstream", "split", "redirect", "respond", "kv", "collect"
path = "/"
"#,
    r#"
[[route]]
path = "/"
upstream = "ap"
#! route[1].upstream: there is no upstream "ap"; did you mean "app"?
"#,
    r#"
[[route]]
path = "/"
upstream = "database"
#! route[1].upstream: there is no upstream "database"; expected "app"
"#,
    r#"
[[route]]
path = "/"
upstream = 1
#! route[1].upstream: found the integer 1, expected the name of an upstream
"#,
    r#"
[[route]]
path = "/"
strip_prefix = "/"
respond = {}
upstream = "app"
#! route[1].upstream: found beside "respond", expected exactly one of "upstream", "split", "redirect", "respond", "kv", "collect"
redirect = { to = "/" }
#! route[1].redirect: found beside "respond", expected exactly one of "upstream", "split", "redirect", "respond", "kv", "collect"
"#,
    r#"
[[route]]
path = "/"
respond = {}
strip_prefix = "/"
#! route[1].strip_prefix: has no meaning with "respond", expected it only with "upstream" or "split"
request_headers = {}
#! route[1].request_headers: has no meaning with "respond", expected it only with "upstream" or "split"
response_headers = {}
timeout = {}
#! route[1].timeout: has no meaning with "respond", expected it only with "upstream" or "split"
request_buffer = 1
#! route[1].request_buffer: has no meaning with "respond", expected it only with "upstream" or "split"
response_buffer = 1
#! route[1].response_buffer: has no meaning with "respond", expected it only with "upstream" or "split"
upgrade = []
#! route[1].upgrade: has no meaning with "respond", expected it only with "upstream" or "split"
"#,
    r#"
[[route]]
path = "/"
redirect = { to = "/x" }
strip_prefix = "/"
#! route[1].strip_prefix: has no meaning with "redirect", expected it only with "upstream" or "split"
"#,
    r#"
route = [
  { path = "/a/{id}", upstream = "app", strip_prefix = "a" },
#! route[1].strip_prefix: found "a", expected a prefix that begins with "/"
  { path = "/abc/{id}", upstream = "app", strip_prefix = "/ab" },
#! route[2].strip_prefix: found "/ab", expected whole leading segments of the path "/abc/{id}", without parameters; did you mean "/abc"?
  { path = "/b/{id}", upstream = "app", strip_prefix = "/b/{id}" },
#! route[3].strip_prefix: found "/b/{id}", expected whole leading segments of the path "/b/{id}", without parameters; did you mean "/b"?
  { path = "/c/{id}", upstream = "app", strip_prefix = "/other" },
#! route[4].strip_prefix: found "/other", expected whole leading segments of the path "/c/{id}", without parameters; did you mean "/c"?
  { path = "/d/{id}", upstream = "app", strip_prefix = "/d/x" },
#! route[5].strip_prefix: found "/d/x", expected whole leading segments of the path "/d/{id}", without parameters; did you mean "/d"?
  { path = "/e/{id}", upstream = "app", strip_prefix = "" },
#! route[6].strip_prefix: found "", expected a prefix that begins with "/"
  { path = "/f/{id}", upstream = "app", strip_prefix = 1 },
#! route[7].strip_prefix: found the integer 1, expected a prefix of the path
  { path = "/{id}", upstream = "app", strip_prefix = "/x" },
#! route[8].strip_prefix: found "/x", expected whole leading segments of the path "/{id}", without parameters
]
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
[route.request_headers]
remove = [
  "Host",
#! route[1].request_headers.remove[1]: found "host", but a request needs one; expected it in "set"
  "connection",
#! route[1].request_headers.remove[2]: found "connection", which the gateway writes itself, expected another field
  "x y",
#! route[1].request_headers.remove[3]: found "x y", expected a field name such as "x-request-id"
  "x-a",
#! route[1].request_headers.remove[4]: found "x-a", which is in "set" too, expected it only once
  1,
#! route[1].request_headers.remove[5]: found the integer 1, expected a field name
]
ad = {}
#! route[1].request_headers.ad: unknown key; did you mean "add"?
[route.request_headers.set]
X-A = "1"
x-a = "2"
#! route[1].request_headers.set.x-a: found the field "x-a" again, expected it only once
Content-Length = "3"
#! route[1].request_headers.set.Content-Length: found the field "Content-Length", which the gateway writes itself, expected another field
transfer-encoding = "chunked"
#! route[1].request_headers.set.transfer-encoding: found the field "transfer-encoding", which the gateway writes itself, expected another field
keep-alive = "1"
#! route[1].request_headers.set.keep-alive: found the field "keep-alive", which the gateway writes itself, expected another field
upgrade = "x"
#! route[1].request_headers.set.upgrade: found the field "upgrade", which the gateway writes itself, expected another field
te = "x"
#! route[1].request_headers.set.te: found the field "te", which the gateway writes itself, expected another field
trailer = "x"
#! route[1].request_headers.set.trailer: found the field "trailer", which the gateway writes itself, expected another field
proxy-connection = "x"
#! route[1].request_headers.set.proxy-connection: found the field "proxy-connection", which the gateway writes itself, expected another field
"x y" = "4"
#! route[1].request_headers.set."x y": found the field "x y", expected a field name such as "x-request-id"
x-b = "a\nb"
#! route[1].request_headers.set.x-b: found "a\nb", expected a value without control characters
x-c = 5
#! route[1].request_headers.set.x-c: found the integer 5, expected a string
host = "fine.example"
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
[route.request_headers]
set.host = "a/b"
#! route[1].request_headers.set.host: found "a/b", expected a host such as "app.example.com" or "app.example.com:8080"
add.host = "a"
#! route[1].request_headers.add.host: found "host", of which a request has one; expected it in "set"
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
request_headers = 1
#! route[1].request_headers: found the integer 1, expected a table such as `{ set = { x-a = "1" }, remove = ["x-b"] }`
[route.response_headers]
set.host = "x"
#! route[1].response_headers.set.host: found the field "host", which belongs to requests, expected another field
set.connection = "x"
#! route[1].response_headers.set.connection: found the field "connection", which the gateway writes itself, expected another field
remove = "x"
#! route[1].response_headers.remove: found "x", expected a list of field names
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
response_headers.set = 1
#! route[1].response_headers.set: found the integer 1, expected a table such as `{ x-a = "1" }`
response_headers.remove = ["HOST"]
#! route[1].response_headers.remove[1]: found "HOST", which belongs to requests, expected another field
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
timeout.connect = 5
#! route[1].timeout.connect: found the integer 5, expected a duration such as "500ms", "2s", "1m" or "1h"
timeout.response = "0ms"
#! route[1].timeout.response: found "0ms", expected a duration above zero and at most "24h"
timeout.idle = "2d"
#! route[1].timeout.idle: found "2d", expected a duration above zero and at most "24h"
timeout.conect = "1s"
#! route[1].timeout.conect: unknown key; did you mean "connect"?
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
timeout = "5s"
#! route[1].timeout: found "5s", expected a table such as `{ response = "30s" }`
request_buffer = "65MiB"
#! route[1].request_buffer: found "65MiB", expected a size from "0B" to "64MiB"
body_limit = "big"
#! route[1].body_limit: found "big", expected a size such as "512", "16KiB", "1MiB" or "10GiB"
upgrade = "websocket"
#! route[1].upgrade: found "websocket", expected a list of protocols such as ["websocket"]
"#,
    r#"
[[route]]
path = "/"
upstream = "app"
upgrade = [
  "h2c",
#! route[1].upgrade[1]: found "h2c", expected another protocol: requests inside of h2c would bypass every route
  "web socket",
#! route[1].upgrade[2]: found "web socket", expected a protocol such as "websocket"
  1,
#! route[1].upgrade[3]: found the integer 1, expected a protocol such as "websocket"
]
"#,
];

#[test]
fn mistakes_in_rewrite_cors_and_error_pages_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], OTHERS);
}

const OTHERS: &[&str] = &[
    r##"
route = [
  { path = "/a/{x}/{*rest}", upstream = "app", rewrite = "b/{rest}" },
#! route[1].rewrite: found "b/{rest}", expected a path such as "/v2/{rest}", of parameters of the route's path, beginning with "/"
  { path = "/b/{x}/{*rest}", upstream = "app", rewrite = "/b/{rst}" },
#! route[2].rewrite: found "/b/{rst}", but there is no variable "rst" here; did you mean "rest"?
  { path = "/c/{x}/{*rest}", upstream = "app", rewrite = "/b/{*rest}" },
#! route[3].rewrite: found "/b/{*rest}", expected a parameter without its star; did you mean "/b/{rest}"?
  { path = "/d/{x}/{*rest}", upstream = "app", rewrite = "/b?x={rest}" },
#! route[4].rewrite: found "/b?x={rest}", expected a path without "?" and "#"
  { path = "/e/{x}/{*rest}", upstream = "app", rewrite = "/b/.{rest}" },
#! route[5].rewrite: found "/b/.{rest}", expected more than dots beside a parameter
  { path = "/f/{x}/{*rest}", upstream = "app", rewrite = "/b/{rest}..{x}" },
#! route[6].rewrite: found "/b/{rest}..{x}", expected more than dots beside a parameter
  { path = "/g/{x}/{*rest}", upstream = "app", rewrite = "/b/%2{rest}" },
#! route[7].rewrite: found "/b/%2{rest}", expected a path without broken escapes and ".."
  { path = "/h/{x}/{*rest}", upstream = "app", rewrite = "/b/%25{rest}" },
#! route[8].rewrite: found "/b/%25{rest}", expected a path without escapes of escapes
  { path = "/i/{x}/{*rest}", upstream = "app", rewrite = "/b/../{rest}" },
#! route[9].rewrite: found "/b/../{rest}", expected a path in its normal form, in which requests are matched; did you mean "/x"?
  { path = "/j/{x}/{*rest}", upstream = "app", rewrite = "/{host}/{{x}}" },
#! route[10].rewrite: found "/{host}/{{x}}", but there is no variable "host" here; expected one of "x", "rest"
  { path = "/k/{x}/{*rest}", upstream = "app", rewrite = "/{x}", strip_prefix = "/k" },
#! route[11].rewrite: found beside "strip_prefix", expected only one of them
  { path = "/l/{x}/{*rest}", respond = {}, rewrite = "/{x}" },
#! route[12].rewrite: has no meaning with "respond", expected it only with "upstream" or "split"
  { path = "/m/{x}/{*rest}", upstream = "app", rewrite = "/b/{rest}/x{x}.json" },
]
"##,
    r#"
route = [
  { path = "/a", upstream = "app", cors = true },
#! route[1].cors: found the boolean true, expected a table such as `{ origins = ["https://app.example.com"] }`
  { path = "/b", upstream = "app", cors = {} },
#! route[2].cors.origins: missing, expected a list of origins such as ["https://app.example.com"]
  { path = "/c", upstream = "app", cors = { origins = [] } },
#! route[3].cors.origins: found an empty list, expected at least one origin, or no "cors"
  { path = "/d", upstream = "app", cors = { origins = ["*", "https://a.example"] } },
#! route[4].cors.origins[1]: found "*", expected "*" alone, or origins
  { path = "/e", upstream = "app", cors = { origins = ["*"], credentials = true } },
#! route[5].cors.origins: found "*" with "credentials", expected a list of origins: browsers refuse credentials for every page
  { path = "/f", upstream = "app", cors = { origins = ["https://a.example/"] } },
#! route[6].cors.origins[1]: found "https://a.example/", expected an origin such as "https://app.example.com" or "https://*.example.com", as browsers send it; did you mean "https://a.example"?
  { path = "/g", upstream = "app", cors = { origins = ["a.example", "HTTPS://A.example:443", "null", "https://*"] } },
#! route[7].cors.origins[1]: found "a.example", expected an origin such as "https://app.example.com" or "https://*.example.com", as browsers send it; did you mean "https://a.example"?
#! route[7].cors.origins[2]: found "HTTPS://A.example:443", expected an origin such as "https://app.example.com" or "https://*.example.com", as browsers send it; did you mean "https://a.example"?
#! route[7].cors.origins[3]: found "null", expected an origin such as "https://app.example.com" or "https://*.example.com": "null" is what any page can make its origin
#! route[7].cors.origins[4]: found "https://*", expected an origin such as "https://app.example.com" or "https://*.example.com", as browsers send it
  { path = "/h", upstream = "app", cors = { origins = ["http://localhost:5173", "http://[::1]:3000"], methods = ["get"], headers = ["a b", "*"], credentials = true } },
#! route[8].cors.methods[1]: found "get", expected methods in upper case; did you mean "GET"?
#! route[8].cors.headers[1]: found "a b", expected a field name such as "X-Request-Id"
#! route[8].cors.headers[2]: found "*" with "credentials", where it is the name of one and not any; expected names
  { path = "/i", upstream = "app", response_headers.set.Access-Control-Allow-Origin = "*", cors = { origins = ["*"], expose = ["*", "x"] } },
#! route[9].cors: found beside the field "access-control-allow-origin" that the route sets, expected only one of them
#! route[9].cors.expose[1]: found "*" beside others, expected it alone
]
"#,
    r#"
[response_headers]
set = { Access-Control-Allow-Origin = "*", X-A = "1" }
[[route]]
path = "/"
upstream = "app"
cors = { origins = ["*"] }
#! route[1].cors: found beside the field "access-control-allow-origin" that [response_headers] sets, expected only one of them
"#,
    r#"
[error_pages]
200 = { body = "x" }
#! error_pages.200: found the status "200", expected one from 400 to 599, or "4xx" or "5xx"
404 = { file = "/nowhere.html", replace_upstream = 1 }
#! error_pages.404.file: found "/nowhere.html", which cannot be read (No such file or directory (os error 2)), expected the path of a file such as "sorry.html"
#! error_pages.404.replace_upstream: found the integer 1, expected true or false
5xx = { content_type = "text/html" }
#! error_pages.5xx: found no page, expected one of "body", "json", "file"
#! error_pages.5xx.content_type: has a meaning only with "body", "json" or "file", expected none here
503 = { body = "x", json = {}, status = 200 }
#! error_pages.503.json: found beside "body", expected only one of them
#! error_pages.503.status: unknown key; expected one of "body", "json", "file", "content_type", "replace_upstream"
[[route]]
path = "/"
upstream = "app"
error_pages = 404
#! route[1].error_pages: found the integer 404, expected a table such as `{ 404 = { file = "404.html" } }`
"#,
];
