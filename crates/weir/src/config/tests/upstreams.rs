//! Mistakes in upstreams.

use super::{LISTENER, ROUTE, assert_problems};

#[test]
fn mistakes_in_upstreams_are_all_told() {
    assert_problems(&[LISTENER, ROUTE], BROKEN);
}

const BROKEN: &[&str] = &[
    r#"
[upstream.app]
#! upstream.app.servers: missing, expected a list of servers such as ["127.0.0.1:3000"]
balance = "roundrobin"
#! upstream.app.balance: found "roundrobin", expected one of "round-robin", "least-conn", "random", "p2c", "hash"; did you mean "round-robin"?
"#,
    r#"
[upstream.app]
servers = []
#! upstream.app.servers: found an empty list, expected at least one server
balance = "fastest"
#! upstream.app.balance: found "fastest", expected one of "round-robin", "least-conn", "random", "p2c", "hash"
tls = {}
#! upstream.app.tls: unknown key; weir speaks no TLS yet: keep what does beside it
ip_hash = true
#! upstream.app.ip_hash: unknown key; what says that here is balance = "hash" and hash_on = "client-address"
rest = 1
#! upstream.app.rest: unknown key; expected one of "servers", "balance", "hash_on", "sticky", "idle_connections", "idle_timeout", "protect", "concurrency", "ejection", "breaker", "health", "retry_budget"
"#,
    r#"
[upstream.app]
servers = "127.0.0.1:9001"
#! upstream.app.servers: found "127.0.0.1:9001", expected a list of servers such as ["127.0.0.1:3000"]
balance = 5
#! upstream.app.balance: found the integer 5, expected one of "round-robin", "least-conn", "random", "p2c", "hash"
"#,
    r#"
[upstream.app]
servers = [
  "127.0.0.1:9001",
  "127.0.0.1:9001",
#! upstream.app.servers[2]: found "127.0.0.1:9001", which is the same server as "127.0.0.1:9001", expected it only once
  { address = "http://127.0.0.1:9001", weight = 0 },
#! upstream.app.servers[3]: found "127.0.0.1:9001", which is the same server as "127.0.0.1:9001", expected it only once
#! upstream.app.servers[3].weight: found the integer 0, expected an integer from 1 to 1000
  { address = "127.0.0.1:9002", wieght = 5 },
#! upstream.app.servers[4].wieght: unknown key; did you mean "weight"?
  { weight = 1001 },
#! upstream.app.servers[5].address: missing, expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
#! upstream.app.servers[5].weight: found the integer 1001, expected an integer from 1 to 1000
  9003,
#! upstream.app.servers[6]: found the integer 9003, expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
  "localhost:9002",
  "LocalHost:9002",
#! upstream.app.servers[8]: found "LocalHost:9002", which is the same server as "localhost:9002", expected it only once
  "https://app.internal:443",
#! upstream.app.servers[9]: found "https://app.internal:443", but servers are spoken to in plain HTTP, expected a plain port
  "http://app.internal:80/path",
#! upstream.app.servers[10]: found "http://app.internal:80/path", expected a server without a path, which is the route's matter; did you mean "http://app.internal:80"?
  "ftp://app.internal:21",
#! upstream.app.servers[11]: found "ftp://app.internal:21", expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
  "app.internal",
#! upstream.app.servers[12]: found "app.internal", expected a host and a port, as in "127.0.0.1:3000"
  "app.internal:0",
#! upstream.app.servers[13]: found "app.internal:0", expected a port from 1 to 65535
  "127.0.0.1:0",
#! upstream.app.servers[14]: found "127.0.0.1:0", expected a port from 1 to 65535
  "app.internal:http",
#! upstream.app.servers[15]: found "app.internal:http", expected a port from 1 to 65535
  "app.internal:65536",
#! upstream.app.servers[16]: found "app.internal:65536", expected a port from 1 to 65535
  "app internal:80",
#! upstream.app.servers[17]: found "app internal:80", expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
  "::1:80",
#! upstream.app.servers[18]: found "::1:80", expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
  "unix:",
#! upstream.app.servers[19]: found "unix:", expected "unix:" and the path of a socket, 1 to 107 bytes
  "http://",
#! upstream.app.servers[20]: found "http://", expected a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock"
]
"#,
    r#"
[upstream.app]
servers = ["app.internal:1"]
hash_on = "path"
#! upstream.app.hash_on: has a meaning only with balance = "hash", expected none here
"#,
    r#"
[upstream.app]
servers = ["app.internal:1"]
balance = "p2c"
hash_on = "path"
#! upstream.app.hash_on: has a meaning only with balance = "hash", expected none here
"#,
    r#"
[upstream.app]
servers = ["app.internal:1"]
balance = "hsh"
#! upstream.app.balance: found "hsh", expected one of "round-robin", "least-conn", "random", "p2c", "hash"; did you mean "hash"?
hash_on = "pth"
#! upstream.app.hash_on: found "pth", expected one of "client-address", "host", "path", "target", "header:NAME", "cookie:NAME", "query:NAME"; did you mean "path"?
"#,
    r#"
upstream.app = { servers = ["app.internal:1"], balance = "hash", hash_on = "header:" }
#! upstream.app.hash_on: found "header:", expected a name after the colon
"#,
    r#"
upstream.app = { servers = ["app.internal:1"], balance = "hash", hash_on = "cookie:a b" }
#! upstream.app.hash_on: found "cookie:a b", expected a name after the colon
"#,
    r#"
upstream.app = { servers = ["app.internal:1"], balance = "hash", hash_on = "query:a=b" }
#! upstream.app.hash_on: found "query:a=b", expected a name after the colon
"#,
    r#"
upstream.app = { servers = ["app.internal:1"], balance = "hash", hash_on = "body:x" }
#! upstream.app.hash_on: found "body:x", expected one of "client-address", "host", "path", "target", "header:NAME", "cookie:NAME", "query:NAME"
"#,
    r#"
upstream.app = { servers = ["app.internal:1"], balance = "hash", hash_on = 1 }
#! upstream.app.hash_on: found the integer 1, expected one of "client-address", "host", "path", "target", "header:NAME", "cookie:NAME", "query:NAME"
"#,
    r#"
[upstream.app]
servers = ["app.internal:1"]
idle_connections = 65537
#! upstream.app.idle_connections: found the integer 65537, expected an integer from 0 to 65536
idle_timeout = "0s"
#! upstream.app.idle_timeout: found "0s", expected a duration above zero and at most "24h"
"#,
    r#"
[upstream."my app"]
#! upstream."my app": expected a name of letters, digits, "-", "_" and "."
servers = ["app.internal:1"]
[upstream.""]
#! upstream."": expected a name of letters, digits, "-", "_" and "."
servers = ["app.internal:1"]
"#,
    r#"
[[upstream]]
#! upstream: found a list, expected a table such as `[upstream.app]`
name = "app"
"#,
];
