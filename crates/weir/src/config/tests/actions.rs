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
#! route[1]: found no action, expected one of "upstream", "redirect", "respond"
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
#! route[1].upstream: found beside "respond", expected exactly one of "upstream", "redirect", "respond"
redirect = { to = "/" }
#! route[1].redirect: found beside "respond", expected exactly one of "upstream", "redirect", "respond"
"#,
    r#"
[[route]]
path = "/"
respond = {}
strip_prefix = "/"
#! route[1].strip_prefix: has no meaning with "respond", expected it only with "upstream"
request_headers = {}
#! route[1].request_headers: has no meaning with "respond", expected it only with "upstream"
response_headers = {}
#! route[1].response_headers: has no meaning with "respond", expected it only with "upstream"
timeout = {}
#! route[1].timeout: has no meaning with "respond", expected it only with "upstream"
request_buffer = 1
#! route[1].request_buffer: has no meaning with "respond", expected it only with "upstream"
response_buffer = 1
#! route[1].response_buffer: has no meaning with "respond", expected it only with "upstream"
upgrade = []
#! route[1].upgrade: has no meaning with "respond", expected it only with "upstream"
"#,
    r#"
[[route]]
path = "/"
redirect = { to = "/x" }
strip_prefix = "/"
#! route[1].strip_prefix: has no meaning with "redirect", expected it only with "upstream"
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
add = {}
#! route[1].request_headers.add: unknown key; expected one of "set", "remove"
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
