//! Mistakes in redirects and fixed responses.

use super::{LISTENER, UPSTREAM, assert_problems};

#[test]
fn mistakes_in_answers_are_all_told() {
    assert_problems(&[LISTENER, UPSTREAM], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
[[route]]
path = "/"
redirect = "/new"
#! route[1].redirect: found "/new", expected a table such as `{ to = "/new" }`
"#,
    r#"
[[route]]
path = "/"
redirect = {}
#! route[1].redirect.to: missing, expected a path such as "/new/{rest}" or a URL such as "https://example.com/"
"#,
    r#"
[[route]]
path = "/a/{rest}"
[route.redirect]
to = "/{rst}"
#! route[1].redirect.to: found "/{rst}", but there is no variable "rst" here; did you mean "rest"?
status = 300
#! route[1].redirect.status: found the integer 300, expected one of 301, 302, 303, 307, 308
code = 1
#! route[1].redirect.code: unknown key; expected one of "to", "status"
"#,
    r#"
[[route]]
path = "/"
redirect.to = 1
#! route[1].redirect.to: found the integer 1, expected a path such as "/new/{rest}" or a URL such as "https://example.com/"
redirect.status = "301"
#! route[1].redirect.status: found "301", expected one of 301, 302, 303, 307, 308
"#,
    r#"
route = [
  { path = "/a/{*rest}", redirect.to = "/{*rest}" },
#! route[1].redirect.to: found "/{*rest}", but there is no variable "*rest" here; did you mean "rest"?
  { path = "/b/{*rest}", redirect.to = "/{other}" },
#! route[2].redirect.to: found "/{other}", but there is no variable "other" here; expected one of "rest", "scheme", "host", "path"
  { path = "/c/{*rest}", redirect.to = "new" },
#! route[3].redirect.to: found "new", expected a path such as "/new/{rest}" or a URL such as "https://example.com/"
  { path = "/d/{*rest}", redirect.to = "" },
#! route[4].redirect.to: found "", expected a path such as "/new/{rest}" or a URL such as "https://example.com/"
  { path = "/e/{*rest}", redirect.to = "/a b" },
#! route[5].redirect.to: found "/a b", expected a path such as "/new/{rest}" or a URL such as "https://example.com/"
  { path = "/f/{*rest}", redirect.to = "/{rest" },
#! route[6].redirect.to: found "/{rest", expected every "{" to be closed by a "}", and "{{" for one that stands for itself
  { path = "/g/{*rest}", redirect.to = "/rest}" },
#! route[7].redirect.to: found "/rest}", expected every "{" to be closed by a "}", and "}}" for one that stands for itself
  { path = "/h/{*rest}", redirect.to = "/a}{rest}" },
#! route[8].redirect.to: found "/a}{rest}", expected every "{" to be closed by a "}", and "}}" for one that stands for itself
  { path = "/i/{*rest}", redirect.to = "/{{rest}}" },
#! route[9].redirect.to: found "/{{rest}}", expected single braces around variables, and all others as %7B and %7D
  { path = "/j/{*rest}", redirect.to = "https://{hst}/{rest}" },
#! route[10].redirect.to: found "https://{hst}/{rest}", but there is no variable "hst" here; did you mean "host"?
  { path = "/k/{*rest}", redirect.to = "https://{host}/{path}" },
#! route[11].redirect.to: found "https://{host}/{path}", expected no "/" before {path}, which begins with one
]
"#,
    r#"
[[route]]
path = "/"
respond = 200
#! route[1].respond: found the integer 200, expected a table such as `{ status = 200, body = "text" }`
"#,
    r#"
[[route]]
path = "/"
[route.respond]
status = 199
#! route[1].respond.status: found the integer 199, expected an integer from 200 to 599
body = 1
#! route[1].respond.body: found the integer 1, expected a string
content_type = "text"
#! route[1].respond.content_type: found "text", expected a media type such as "text/plain"
type = "x"
#! route[1].respond.type: unknown key; expected one of "status", "body", "content_type", "headers"
headers = "x"
#! route[1].respond.headers: found "x", expected a table such as `{ x-a = "1" }`
"#,
    r#"
[[route]]
path = "/"
respond.status = 600
#! route[1].respond.status: found the integer 600, expected an integer from 200 to 599
"#,
    r#"
[[route]]
path = "/"
respond.status = 204
respond.body = "x"
#! route[1].respond.body: found a body, expected none with status 204
"#,
    r#"
[[route]]
path = "/"
respond.status = 304
respond.body = "x"
#! route[1].respond.body: found a body, expected none with status 304
"#,
    r#"
[[route]]
path = "/"
[route.respond]
body = "x"
content_type = "a/b\n"
#! route[1].respond.content_type: found "a/b\n", expected a value without control characters
[route.respond.headers]
Connection = "close"
#! route[1].respond.headers.Connection: found the field "Connection", which the gateway writes itself, expected another field
host = "x"
#! route[1].respond.headers.host: found the field "host", which belongs to requests, expected another field
x = "\t"
#! route[1].respond.headers.x: found "\t", expected a value without control characters
"#,
    r#"
[[route]]
path = "/"
[route.respond]
content_type = "text/html"
#! route[1].respond.content_type: found beside a field "content-type" in "headers", expected it only once
headers = { Content-Type = "text/plain" }
"#,
];
