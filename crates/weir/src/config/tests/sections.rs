//! Mistakes in the sections about the process and its clients.

use super::{LISTENER, ROUTE, assert_problems};

#[test]
fn mistakes_in_sections_are_all_told() {
    assert_problems(&[LISTENER, ROUTE], BROKEN);
}

#[test]
fn mistakes_in_listeners_are_all_told() {
    assert_problems(&[ROUTE], BROKEN_LISTENERS);
}

const BROKEN_LISTENERS: &[&str] = &[r#"
[[listener]]
address = "127.0.0.1:8080"
[[listener]]
address = "127.0.0.1:8080"
#! listener[2].address: found "127.0.0.1:8080", expected an address that no other listener has
[[listener]]
#! listener[3].address: missing, expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
addres = "127.0.0.1:8081"
#! listener[3].addres: unknown key; did you mean "address"?
[[listener]]
address = ":8080"
#! listener[4].address: found ":8080", expected another port than that of the listener on 127.0.0.1:8080: 0.0.0.0 and [::] stand for all addresses of this machine
[[listener]]
address = "example.com:8083"
#! listener[5].address: found "example.com:8083", expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
[[listener]]
address = "127.0.0.1"
#! listener[6].address: found "127.0.0.1", expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
[[listener]]
address = 8084
#! listener[7].address: found the integer 8084, expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
"#];

const BROKEN: &[&str] = &[
    r#"
[cache]
memory = "1GiB"
disk = { path = "", size = "500MiB" }
#! cache.disk.path: found "", expected the path of a directory
#! cache.disk.size: found "500MiB", expected at least half of "memory", so that the disk takes every object that RAM takes
"#,
    r#"
[cache]
disk = { path = "x", sise = "1GiB" }
#! cache.disk.size: missing, expected a size such as "10GiB"
#! cache.disk.sise: unknown key; did you mean "size"?
"#,
    r#"
[serve]
#! serve: unknown key; did you mean "server"?
workers = 1
[compress]
#! compress: unknown key; expected one of "server", "listener", "admin", "log", "access_log", "request_id", "response_headers", "limits", "trusted_proxies", "timeouts", "cache", "dns", "error_pages", "upstream", "queue", "kv", "table", "route", "include"
memory = "1MiB"
"#,
    r#"
server = 2
#! server: found the integer 2, expected a table such as `[server]`
admin = 1
#! admin: found the integer 1, expected a table such as `[admin]`
access_log = "x"
#! access_log: found "x", expected a table such as `[access_log]`
limits = []
#! limits: found a list, expected a table such as `[limits]`
timeouts = "1s"
#! timeouts: found "1s", expected a table such as `[timeouts]`
upstream = "x"
#! upstream: found "x", expected a table such as `[upstream.app]`
"#,
    r#"
[server]
workers = 0
#! server.workers: found the integer 0, expected an integer from 1 to 1024
threads = 2
#! server.threads: unknown key; expected "workers"
"#,
    r"
server.workers = 1025
#! server.workers: found the integer 1025, expected an integer from 1 to 1024
",
    r#"
server.workers = "2"
#! server.workers: found "2", expected an integer from 1 to 1024
"#,
    r"
server.workers = -1
#! server.workers: found the integer -1, expected an integer from 1 to 1024
",
    r"
server.workers = 1.5
#! server.workers: found the number 1.5, expected an integer from 1 to 1024
",
    r"
server.workers = 99999999999999999999999
#! server.workers: found the integer 99999999999999999999999, expected an integer from 1 to 1024
",
    r#"
[admin]
#! admin.listen: missing, expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
"#,
    r#"
[admin]
listen = "0.0.0.0:9901"
#! admin.listen: found "0.0.0.0:9901", expected a loopback address such as "127.0.0.1:9901", or a "token" of at least 16 characters beside it, since other machines can reach this one
"#,
    r#"
[admin]
listen = "127.0.0.1:8080"
#! admin.listen: found "127.0.0.1:8080", expected an address that no listener has
"#,
    r#"
[admin]
listen = "[::1]:9901"
token = "short"
#! admin.token: found 5 characters, expected at least 16
litsen = 1
#! admin.litsen: unknown key; did you mean "listen"?
"#,
    r#"
[admin]
listen = "[::]:9901"
token = 12345678901234567890
#! admin.token: expected a string of at least 16 characters
"#,
    r#"
[admin]
listen = "127.0.0.1:9901"
token = "sixteen characters with blanks"
#! admin.token: found blanks or characters outside of ASCII, expected none
"#,
    r#"
[admin]
listen = 9901
#! admin.listen: found the integer 9901, expected an IP address and a port such as "127.0.0.1:8080" or ":8080"
token = ["x"]
#! admin.token: expected a string of at least 16 characters
"#,
    r#"
[admin]
listen = "127.0.0.1:9901"
guard_api = "yes"
#! admin.guard_api: found "yes", expected true or false
guard_file = "guard.json"
#! admin.guard_file: has a meaning only with guard_api = true, expected none here
"#,
    r#"
[admin]
listen = "127.0.0.1:9901"
guard_api = true
guard_file = ""
#! admin.guard_file: found "", expected the path of a file such as "guard.json"
"#,
    r#"
[log]
format = "logfmt"
#! log.format: found "logfmt", expected one of "text", "json"
level = "debug"
#! log.level: found "debug", expected one of "info", "warn", "error"
path = "weir.log"
#! log.path: unknown key; expected one of "format", "level"
"#,
    r#"
[access_log]
#! access_log.path: missing, expected the path of a file, or "-" for standard output
"#,
    r#"
[access_log]
path = ""
#! access_log.path: found "", expected the path of a file, or "-" for standard output
format = "jsn"
#! access_log.format: found "jsn", expected "combined", "json" or a text with variables such as "{client} {method} {path} {status}"; did you mean "json"?
buffer = "1B"
#! access_log.buffer: found "1B", expected a size from "1KiB" to "64MiB"
flush = "1ms"
#! access_log.flush: found "1ms", expected a duration from "100ms" to "5m"
level = 1
#! access_log.level: unknown key; expected one of "path", "queue", "format", "fields", "redact", "buffer", "flush"
"#,
    r#"
[access_log]
path = 3
#! access_log.path: found the integer 3, expected the path of a file, or "-" for standard output
format = "clf"
#! access_log.format: found "clf", expected "combined", "json" or a text with variables such as "{client} {method} {path} {status}"
buffer = "65MiB"
#! access_log.buffer: found "65MiB", expected a size from "1KiB" to "64MiB"
flush = "6m"
#! access_log.flush: found "6m", expected a duration from "100ms" to "5m"
"#,
    r#"
[access_log]
path = "a\u0000b"
#! access_log.path: found "a\0b", expected a path without NUL
format = true
#! access_log.format: found the boolean true, expected "combined", "json" or a text with variables such as "{client} {method} {path} {status}"
buffer = 1979-05-27
#! access_log.buffer: found the date or time 1979-05-27, expected a size such as "512", "16KiB", "1MiB" or "10GiB"
flush = 5
#! access_log.flush: found the integer 5, expected a duration such as "500ms", "2s", "1m" or "1h"
"#,
    r#"
[access_log]
path = "-"
buffer = "256k"
#! access_log.buffer: found "256k", expected a size such as "512", "16KiB", "1MiB" or "10GiB"; did you mean "256KiB"?
flush = "10 S"
#! access_log.flush: found "10 S", expected a duration such as "500ms", "2s", "1m" or "1h"; did you mean "10s"?
"#,
    r#"
[access_log]
path = "-"
format = "{clent} {status}"
#! access_log.format: found "{clent} {status}", but there is no variable "clent" here; did you mean "client"?
fields = ["time"]
redact = []
#! access_log.redact: found an empty list, expected names of parameters such as ["token"]
"#,
    r#"
[access_log]
path = "-"
fields = ["time"]
#! access_log.fields: has a meaning only with format = "json", expected none here
redact = "token"
#! access_log.redact: found "token", expected true, or the names of parameters such as ["token"]
"#,
    r#"
[access_log]
path = "-"
format = "json"
fields = ["time", "timee", "time", 5, "request_header:a b"]
#! access_log.fields[2]: found "timee", but there is no variable "timee" here; did you mean "time"?
#! access_log.fields[3]: found "time", expected each name only once
#! access_log.fields[4]: found the integer 5, expected the name of a variable such as "status"
#! access_log.fields[5]: found "request_header:a b", expected the name of a field behind the colon, as in "request_header:x-tenant"
redact = ["a", "", 1]
#! access_log.redact[2]: found "", expected the name of a parameter such as "token"
#! access_log.redact[3]: found the integer 1, expected the name of a parameter such as "token"
"#,
    r#"
[access_log]
path = "-"
format = "{client}\n{status}"
#! access_log.format: found "{client}\n{status}", expected one line, without control characters
[request_id]
header = "User-Agent"
#! request_id.header: found "User-Agent", which says something else, expected another field
trust = "proxy"
#! request_id.trust: found "proxy", expected one of "proxies", "any", "never"
respond = "yes"
#! request_id.respond: found "yes", expected true or false
"#,
    r#"
[access_log]
path = "-"
format = "json"
fields = []
#! access_log.fields: found an empty list, expected names such as ["time", "client", "status"]
[response_headers]
always = { host = "a", x-a = "{id}" }
#! response_headers.always.host: found the field "host", which belongs to requests, expected another field
#! response_headers.always.x-a: found "{id}", but there is no variable "id" here
"#,
    r#"
[access_log]
path = "-"
buffer = 100
#! access_log.buffer: found the integer 100, expected a size from "1KiB" to "64MiB"
"#,
    r#"
[limits]
connections = 0
#! limits.connections: found the integer 0, expected an integer from 1 to 4294967295
connections_per_address = 0
#! limits.connections_per_address: found the integer 0, expected an integer from 1 to 4294967295
header_bytes = "1000B"
#! limits.header_bytes: found "1000B", expected a size from "1KiB" to "64KiB"
header_count = 257
#! limits.header_count: found the integer 257, expected an integer from 1 to 256
held_bodies = "2000GiB"
#! limits.held_bodies: found "2000GiB", expected a size from "0B" to "1024GiB"
body = "-1"
#! limits.body: found "-1", expected a size such as "512", "16KiB", "1MiB" or "10GiB"
bodies = 1
#! limits.bodies: unknown key; expected one of "connections", "connections_per_address", "header_bytes", "header_count", "body", "body_rate", "held_bodies"
"#,
    r#"
[limits]
header_bytes = "65KiB"
#! limits.header_bytes: found "65KiB", expected a size from "1KiB" to "64KiB"
header_count = "many"
#! limits.header_count: found "many", expected an integer from 1 to 256
body = "99999999GiB"
#! limits.body: found "99999999GiB", expected a size from "0B" to "1048576GiB"
connections = {}
#! limits.connections: found a table, expected an integer from 1 to 4294967295
"#,
    r#"
[trusted_proxies]
networks = ["10.0.0.0/8", "10.0.0.1/8", "balancer", 10]
#! trusted_proxies.networks[2]: found "10.0.0.1/8", expected "10.0.0.0/8"
#! trusted_proxies.networks[3]: found "balancer", expected an IP address or a network such as "10.0.0.0/8" or "2001:db8::/32"
#! trusted_proxies.networks[4]: found the integer 10, expected an IP address or a network such as "10.0.0.0/8" or "2001:db8::/32"
"#,
    r#"
[timeouts]
head = "0s"
#! timeouts.head: found "0s", expected a duration above zero and at most "24h"
idle = "25h"
#! timeouts.idle: found "25h", expected a duration above zero and at most "24h"
body = 5
#! timeouts.body: found the integer 5, expected a duration such as "500ms", "2s", "1m" or "1h"
send = "5"
#! timeouts.send: found "5", expected a duration such as "500ms", "2s", "1m" or "1h"
drain_delay = "2h"
#! timeouts.drain_delay: found "2h", expected a duration from "0s" to "1h"
tunnel = "1.5"
#! timeouts.tunnel: found "1.5", expected a duration such as "500ms", "2s", "1m" or "1h"
drain = "-1s"
#! timeouts.drain: found "-1s", expected a duration such as "500ms", "2s", "1m" or "1h"
connect = "1s"
#! timeouts.connect: unknown key; expected one of "head", "idle", "body", "send", "tunnel", "drain_delay", "drain"
"#,
];
