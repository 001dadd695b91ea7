//! The sections of a config file, top to bottom. Which keys there are stands in `declared`.
//!
//! The upstreams and the routes have files of their own. A value that is wrong has been reported by the reader that
//! refused it; the default stands in for it, so that the rest of the file is checked too.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use weir_gateway::settings::{
    Action, Admin, AllRoutes, CacheStorage, ClientTimeouts, Dns, Limits, Messages, PerAddress,
    Route, Settings, overlap,
};

use super::declared::forms::{CHANGES_FILE, GUARD_FILE, TOKEN_CHARS_MIN};
use super::declared::route::error_pages::ERROR_PAGES;
use super::declared::{Form, Key, clients, file, server};
use super::entries::Entries;
use super::entry::Entry;
use super::log::{self, Beside};
use super::{Config, address, cache, error_pages, headers, kv, queue, route, table, upstream};

/// Reads the whole file.
pub(super) fn config(mut root: Entries) -> Config {
    let workers = root
        .section(&file::SERVER)
        .map_or_else(worker_per_core, workers);
    let listeners = listeners(&mut root);
    let admin = root
        .section(&file::ADMIN)
        .and_then(|table| admin(table, &listeners));
    let messages = messages_alone(&mut root);
    let all_routes = all_routes(&mut root);
    let access_log = root.section(&file::ACCESS_LOG);
    let limits = root
        .section(&file::LIMITS)
        .map_or_else(Limits::default, limits);
    let trusted_proxies = root
        .section(&file::TRUSTED_PROXIES)
        .map_or_else(Vec::new, trusted_proxies);
    let beside = Beside {
        has_ids: all_routes.request_id.is_some(),
        has_proxies: !trusted_proxies.is_empty(),
    };
    let timeouts = root.section(&file::TIMEOUTS);
    let timeouts = timeouts.map_or_else(ClientTimeouts::default, client_timeouts);
    let cache = root.section(&file::CACHE).map(cache::storage);
    let dns = root.section(&file::DNS).map_or_else(Dns::default, dns);
    let error_pages = error_pages::pages(root.named(&ERROR_PAGES));
    let mut upstreams = upstream::all(&mut root);
    let mut services = queue::all(&mut root);
    services.kv = kv::store(&mut root);
    services.tables = table::all(&mut root);
    let access_log = access_log.and_then(|table| log::access_log(table, beside, &mut services));
    // All routes may be posted.
    let takes_apps = admin
        .as_ref()
        .is_some_and(|admin| admin.guard_file.is_some());
    let routes = if root.has(&file::ROUTE) || !takes_apps {
        route::all(
            &mut root,
            (&mut upstreams, &mut services),
            &limits,
            &all_routes,
        )
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
    let settings = Settings {
        workers,
        listeners,
        admin,
        messages,
        access_log,
        trusted_proxies,
        limits,
        timeouts,
        cache,
        dns,
        error_pages,
        upstreams: upstreams.settings,
        all_routes,
        routes,
    };
    Config { settings, services }
}

/// Reads `[log]` and nothing else.
pub(super) fn messages_alone(root: &mut Entries) -> Messages {
    root.section(&file::LOG)
        .map_or_else(Messages::default, messages)
}

/// Reads `[admin]` and nothing else.
pub(super) fn admin_alone(root: &mut Entries) -> Option<Admin> {
    root.section(&file::ADMIN)
        .and_then(|table| admin(table, &[]))
}

fn all_routes(root: &mut Entries) -> AllRoutes {
    let edits = root.optional(&file::RESPONSE_HEADERS);
    let edits = edits.map(|value| headers::of_answers(&value, &[]));
    AllRoutes {
        request_id: root.section(&file::REQUEST_ID).map(log::request_id),
        response_headers: edits.unwrap_or_default(),
    }
}

/// The default of `server.workers`.
pub(super) fn worker_per_core() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn workers(mut table: Entries) -> usize {
    let workers = table.integer(&server::WORKERS);
    table.finish();
    workers.map_or_else(worker_per_core, |workers| workers as usize)
}

fn listeners(root: &mut Entries) -> Vec<SocketAddr> {
    let mut listeners: Vec<SocketAddr> = Vec::new();
    for mut table in root.sections(&file::LISTENER) {
        if let Some(value) = table.required(&server::ADDRESS)
            && let Some(address) = value.parsed(address::listen)
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

fn admin(mut table: Entries, listeners: &[SocketAddr]) -> Option<Admin> {
    let listen_value = table.required(&server::LISTEN);
    let token_value = table.optional(&server::TOKEN);
    let changes_file = table.optional(&server::CHANGES_FILE);
    let changes_file = changes_file.and_then(|value| path(&value, &CHANGES_FILE));
    let guard_file = guard_file(&mut table);
    table.finish();
    let token = token_value.as_ref().and_then(token);
    let listen_value = listen_value?;
    let listen = listen_value.parsed(address::listen)?;
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
        changes_file,
    })
}

/// Where the apps of guard's interface are kept, when it is on.
fn guard_file(table: &mut Entries) -> Option<PathBuf> {
    let is_on = table.boolean(&server::GUARD_API).unwrap_or(false);
    let Some(value) = table.optional(&server::GUARD_FILE) else {
        return is_on.then(|| PathBuf::from(server::GUARD_FILE.preset.text()));
    };
    let path = path(&value, &GUARD_FILE);
    if !is_on {
        value.wrong("has a meaning only with guard_api = true, expected none here");
    }
    path.filter(|_| is_on)
}

/// The path of a file.
fn path(value: &Entry, form: &Form) -> Option<PathBuf> {
    value.parsed(|text| {
        let is_path = !text.is_empty() && !text.contains('\0');
        is_path
            .then(|| PathBuf::from(text))
            .ok_or_else(|| format!("expected {}", form.expected))
    })
}

/// A token is never repeated in a message: messages end up in terminals and build logs.
pub(super) fn token(value: &Entry) -> Option<String> {
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

fn messages(mut table: Entries) -> Messages {
    let format = table.optional(&server::MESSAGE_FORMAT);
    let format = format.and_then(|value| value.choice(server::MESSAGE_FORMATS));
    let level = table.optional(&server::LEVEL);
    let level = level.and_then(|value| value.choice(server::LEVELS));
    table.finish();
    Messages {
        format: format.unwrap_or_default(),
        level_min: level.unwrap_or_default(),
    }
}

fn limits(mut table: Entries) -> Limits {
    let mut limits = Limits::default();
    if let Some(count) = table.integer(&clients::CONNECTIONS) {
        limits.connections = count as usize;
    }
    if let Some(count) = table.integer(&clients::CONNECTIONS_PER_ADDRESS) {
        limits.connections_per_address = PerAddress::Every(count as u32);
    }
    if let Some(bytes) = table.size_bytes(&clients::HEADER_BYTES) {
        limits.header_bytes = bytes as usize;
    }
    if let Some(count) = table.integer(&clients::HEADER_COUNT) {
        limits.header_count = count as usize;
    }
    if let Some(bytes) = table.size_bytes(&clients::BODY) {
        limits.body_bytes = bytes;
    }
    if let Some(bytes) = table.size_bytes(&clients::BODY_RATE) {
        limits.body_rate = bytes;
    }
    if let Some(bytes) = table.size_bytes(&clients::HELD_BODIES) {
        limits.held_body_bytes = bytes;
    }
    table.finish();
    limits
}

fn client_timeouts(mut table: Entries) -> ClientTimeouts {
    let default = ClientTimeouts::default();
    let mut deadline =
        |key: &'static Key, default: Duration| table.duration(key).unwrap_or(default);
    let timeouts = ClientTimeouts {
        head: deadline(&clients::HEAD, default.head),
        idle: deadline(&clients::IDLE, default.idle),
        body: deadline(&clients::BODY_PAUSE, default.body),
        send: deadline(&clients::SEND, default.send),
        tunnel: deadline(&clients::TUNNEL, default.tunnel),
        drain_delay: deadline(&clients::DRAIN_DELAY, default.drain_delay),
        drain: deadline(&clients::DRAIN, default.drain),
    };
    table.finish();
    timeouts
}

fn trusted_proxies(mut table: Entries) -> Vec<IpNet> {
    let list = table.required(&clients::NETWORKS);
    table.finish();
    let items = list.as_ref().and_then(Entry::list).unwrap_or_default();
    let network = |item: &Entry| item.parsed(address::network);
    items.iter().filter_map(network).collect()
}

fn dns(mut table: Entries) -> Dns {
    let list = table.required(&server::NAME_SERVERS);
    table.finish();
    let items = list.as_ref().and_then(|list| {
        let items = list.list()?;
        if items.is_empty() {
            list.wrong("found an empty list, expected at least one name server");
        }
        Some(items)
    });
    let items = items.unwrap_or_default();
    let server = |item: &Entry| item.parsed(address::name_server);
    Dns {
        servers: items.iter().filter_map(server).collect(),
    }
}
