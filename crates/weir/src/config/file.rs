//! The sections of a config file, top to bottom: which keys there are, their bounds and their defaults.
//!
//! The upstreams and the routes have files of their own. A value that is wrong has been reported by the reader that
//! refused it; the default stands in for it, so that the rest of the file is checked too.

use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use weir_gateway::settings::{
    AccessLog, Action, Admin, CacheStorage, ClientTimeouts, Dns, Limits, LogFormat, LogTarget,
    PerAddress, Route, Settings, overlap,
};

use super::address::{
    self, LISTEN_EXPECTED, NAME_SERVER_EXPECTED, NETWORK_EXPECTED, NETWORKS_EXPECTED,
};
use super::read::Table;
use super::value::Value;
use super::{cache, route, units, upstream};

const WORKERS_MAX: u64 = 1024;
const TOKEN_CHARS_MIN: usize = 16;
const GUARD_FILE_DEFAULT: &str = "guard.json";
const LOG_BUFFER_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 20;
const LOG_BUFFER_BYTES_DEFAULT: u64 = 256 << 10;
const LOG_FLUSH: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);
const LOG_FLUSH_DEFAULT: Duration = Duration::from_secs(10);
const HEADER_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 10;
const HEADER_COUNT_MAX: u64 = weir_http::HeadLimits::FIELDS_CEILING as u64;

const BODY_RATE: RangeInclusive<u64> = 0..=1 << 30;
/// At 0 nothing is held but what fits into one buffer.
const HELD_BODIES: RangeInclusive<u64> = 0..=1 << 40;

/// Every deadline of the file.
pub(super) const DEADLINE: RangeInclusive<Duration> =
    units::ABOVE_ZERO..=Duration::from_secs(24 * 3600);
/// Every bound on a body: a pebibyte, which is as good as none.
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1 << 50;

/// Reads the whole file.
pub(super) fn settings(mut root: Table) -> Settings {
    let workers = root
        .section("server", "[server]")
        .map_or_else(worker_per_core, server);
    let listeners = listeners(&mut root);
    let admin = root
        .section("admin", "[admin]")
        .and_then(|table| admin(table, &listeners));
    let access_log = root
        .section("access_log", "[access_log]")
        .and_then(access_log);
    let limits = root
        .section("limits", "[limits]")
        .map_or_else(Limits::default, limits);
    let trusted_proxies = root
        .section("trusted_proxies", "[trusted_proxies]")
        .map_or_else(Vec::new, trusted_proxies);
    let timeouts = root.section("timeouts", "[timeouts]");
    let timeouts = timeouts.map_or_else(ClientTimeouts::default, client_timeouts);
    let cache = root.section("cache", "[cache]").map(cache::storage);
    let dns = root.section("dns", "[dns]").map_or_else(Dns::default, dns);
    let mut upstreams = upstream::all(&mut root);
    // All routes may be posted.
    let takes_apps = admin
        .as_ref()
        .is_some_and(|admin| admin.guard_file.is_some());
    let has_routes = root.entries().iter().any(|(key, _)| *key == "route");
    let routes = if has_routes || !takes_apps {
        route::all(&mut root, &mut upstreams, &limits)
    } else {
        Vec::new()
    };
    root.finish();
    let is_cached =
        |route: &Route| matches!(&route.action, Action::Forward(rule) if rule.cache.is_some());
    let cache = cache.or_else(|| {
        let usual = CacheStorage::in_memory(CacheStorage::MEMORY_BYTES);
        routes.iter().any(is_cached).then_some(usual)
    });
    Settings {
        workers,
        listeners,
        admin,
        access_log,
        trusted_proxies,
        limits,
        timeouts,
        cache,
        dns,
        upstreams: upstreams.settings,
        routes,
    }
}

/// The default of `server.workers`.
pub(super) fn worker_per_core() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn server(mut table: Table) -> usize {
    let workers = table.optional("workers");
    let workers = workers.and_then(|value| value.integer(1..=WORKERS_MAX));
    table.finish();
    workers.map_or_else(worker_per_core, |workers| workers as usize)
}

fn listeners(root: &mut Table) -> Vec<SocketAddr> {
    let remedy = r#"add `[[listener]]` and below it `address = "127.0.0.1:8080"`"#;
    let mut listeners: Vec<SocketAddr> = Vec::new();
    for mut table in root.sections("listener", remedy) {
        if let Some(value) = table.required("address", LISTEN_EXPECTED)
            && let Some(address) = value.socket_address()
        {
            if listeners.contains(&address) {
                value.expected("an address that no other listener has");
            } else if let Some(other) = listeners.iter().find(|other| overlap(**other, address)) {
                value.expected(&expected_beside(*other));
            }
            listeners.push(address);
        }
        table.finish();
    }
    listeners
}

/// What is expected of an address beside one that it is a part of, or the other way round.
fn expected_beside(other: SocketAddr) -> String {
    format!(
        "another port than that of the listener on {other}: 0.0.0.0 and [::] stand for all addresses of this machine"
    )
}

fn admin(mut table: Table, listeners: &[SocketAddr]) -> Option<Admin> {
    let listen_value = table.required("listen", LISTEN_EXPECTED);
    let token_value = table.optional("token");
    let guard_file = guard_file(&mut table);
    table.finish();
    let token = token_value.as_ref().and_then(token);
    let listen_value = listen_value?;
    let listen = listen_value.socket_address()?;
    if !listen.ip().to_canonical().is_loopback() && token_value.is_none() {
        listen_value.expected(&format!(
            "a loopback address such as \"127.0.0.1:{}\", or a \"token\" of at least {TOKEN_CHARS_MIN} characters \
             beside it, since other machines can reach this one",
            listen.port()
        ));
    }
    if listeners.contains(&listen) {
        listen_value.expected("an address that no listener has");
    } else if let Some(other) = listeners.iter().find(|other| overlap(**other, listen)) {
        listen_value.expected(&expected_beside(*other));
    }
    Some(Admin {
        listen,
        token,
        guard_file,
    })
}

/// Where the apps of guard's interface are kept, when it is on.
fn guard_file(table: &mut Table) -> Option<PathBuf> {
    const EXPECTED: &str = "the path of a file such as \"guard.json\"";
    let is_on = table.optional("guard_api");
    let is_on = is_on.and_then(|value| value.boolean()).unwrap_or(false);
    let Some(value) = table.optional("guard_file") else {
        return is_on.then(|| PathBuf::from(GUARD_FILE_DEFAULT));
    };
    let path = value.parsed(EXPECTED, |text| {
        let is_path = !text.is_empty() && !text.contains('\0');
        is_path
            .then(|| PathBuf::from(text))
            .ok_or_else(|| format!("expected {EXPECTED}"))
    });
    if !is_on {
        value.wrong("has a meaning only with guard_api = true, expected none here");
    }
    path.filter(|_| is_on)
}

/// A token is never repeated in a message: messages end up in terminals and build logs.
fn token(value: &Value) -> Option<String> {
    let Some(text) = value.as_str() else {
        value.wrong(format!(
            "expected a string of at least {TOKEN_CHARS_MIN} characters"
        ));
        return None;
    };
    let chars = text.chars().count();
    if chars < TOKEN_CHARS_MIN {
        value.wrong(format!(
            "found {chars} characters, expected at least {TOKEN_CHARS_MIN}"
        ));
        return None;
    }
    // Anything else cannot be sent in an `Authorization` field.
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        value.wrong("found blanks or characters outside of ASCII, expected none");
        return None;
    }
    Some(text.to_owned())
}

fn access_log(mut table: Table) -> Option<AccessLog> {
    let path_expected = "the path of a file, or \"-\" for standard output";
    let path = table.required("path", path_expected);
    let target = path.and_then(|value| {
        value.parsed(path_expected, |text| match text {
            "-" => Ok(LogTarget::Stdout),
            "" => Err(format!("expected {path_expected}")),
            _ if text.contains('\0') => Err("expected a path without NUL".to_owned()),
            _ => Ok(LogTarget::File(PathBuf::from(text))),
        })
    });
    let format = table.optional("format");
    let formats = [("combined", LogFormat::Combined), ("json", LogFormat::Json)];
    let format = format.and_then(|value| value.choice(&formats));
    let buffer = table.optional("buffer");
    let buffer_bytes = buffer.and_then(|value| value.size_bytes(&LOG_BUFFER_BYTES));
    let flush = table.optional("flush");
    let flush = flush.and_then(|value| value.duration(&LOG_FLUSH));
    table.finish();
    Some(AccessLog {
        target: target?,
        format: format.unwrap_or(LogFormat::Combined),
        buffer_bytes: buffer_bytes.unwrap_or(LOG_BUFFER_BYTES_DEFAULT) as usize,
        flush: flush.unwrap_or(LOG_FLUSH_DEFAULT),
    })
}

fn limits(mut table: Table) -> Limits {
    const CONNECTIONS: RangeInclusive<u64> = 1..=u32::MAX as u64;
    let mut limits = Limits::default();
    let connections = table.optional("connections");
    if let Some(count) = connections.and_then(|value| value.integer(CONNECTIONS)) {
        limits.connections = count as usize;
    }
    let per_address = table.optional("connections_per_address");
    if let Some(count) = per_address.and_then(|value| value.integer(CONNECTIONS)) {
        limits.connections_per_address = PerAddress::Every(count as u32);
    }
    let header_bytes = table.optional("header_bytes");
    if let Some(bytes) = header_bytes.and_then(|value| value.size_bytes(&HEADER_BYTES)) {
        limits.header_bytes = bytes as usize;
    }
    let header_count = table.optional("header_count");
    if let Some(count) = header_count.and_then(|value| value.integer(1..=HEADER_COUNT_MAX)) {
        limits.header_count = count as usize;
    }
    let body = table.optional("body");
    if let Some(bytes) = body.and_then(|value| value.size_bytes(&BODY_BYTES)) {
        limits.body_bytes = bytes;
    }
    let body_rate = table.optional("body_rate");
    if let Some(bytes) = body_rate.and_then(|value| value.size_bytes(&BODY_RATE)) {
        limits.body_rate = bytes;
    }
    let held_bodies = table.optional("held_bodies");
    if let Some(bytes) = held_bodies.and_then(|value| value.size_bytes(&HELD_BODIES)) {
        limits.held_body_bytes = bytes;
    }
    table.finish();
    limits
}

fn client_timeouts(mut table: Table) -> ClientTimeouts {
    let default = ClientTimeouts::default();
    let timeouts = ClientTimeouts {
        head: deadline(&mut table, "head", default.head),
        idle: deadline(&mut table, "idle", default.idle),
        body: deadline(&mut table, "body", default.body),
        send: deadline(&mut table, "send", default.send),
        tunnel: deadline(&mut table, "tunnel", default.tunnel),
        drain: deadline(&mut table, "drain", default.drain),
    };
    table.finish();
    timeouts
}

fn trusted_proxies(mut table: Table) -> Vec<IpNet> {
    let list = table.required("networks", NETWORKS_EXPECTED);
    table.finish();
    let items = list.as_ref().and_then(|list| list.list(NETWORKS_EXPECTED));
    let network = |item: &Value| item.parsed(NETWORK_EXPECTED, address::network);
    let items = items.unwrap_or_default();
    items.iter().filter_map(network).collect()
}

fn dns(mut table: Table) -> Dns {
    let list = table.required("servers", "a list of name servers such as [\"10.0.0.2\"]");
    table.finish();
    let items = list.as_ref().and_then(|list| {
        let items = list.list("name servers such as [\"10.0.0.2\"]")?;
        if items.is_empty() {
            list.wrong("found an empty list, expected at least one name server");
        }
        Some(items)
    });
    let items = items.unwrap_or_default();
    let server = |item: &Value| item.parsed(NAME_SERVER_EXPECTED, address::name_server);
    Dns {
        servers: items.iter().filter_map(server).collect(),
    }
}

/// The deadline `key` of a table.
pub(super) fn deadline(table: &mut Table, key: &'static str, default: Duration) -> Duration {
    let value = table.optional(key);
    let deadline = value.and_then(|value| value.duration(&DEADLINE));
    deadline.unwrap_or(default)
}
