//! `[cache]` and the `cache` of a route: budgets, and what a route says beyond what its origin says.
//!
//! `cache = true` is the whole of it for an origin that says how long its responses last. What a key means stands in
//! `weir_cache::policy`; here is only how it is written.

use std::path::PathBuf;
use std::time::Duration;

use weir_cache::CachePolicy;
use weir_cache::policy::{Bypass, HostKey, KeyParts, QueryKey, StatusMatch};
use weir_cache::store_rule::may_be_stored;
use weir_gateway::settings::{CacheDisk, CacheStorage};
use weir_http::Method;

use super::declared::cache as declared;
use super::declared::forms::DIRECTORY;
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;

/// `[cache]`.
pub(super) fn storage(mut table: Entries) -> CacheStorage {
    let memory = table.size_bytes(&declared::STORAGE_MEMORY);
    let memory_bytes = memory.unwrap_or(declared::STORAGE_MEMORY.preset.bytes());
    let transient = table.size_bytes(&declared::TRANSIENT);
    let disk = table.section(&declared::DISK);
    let disk = disk.and_then(|mut disk| {
        let path = disk.required(&declared::DISK_PATH);
        let path = path.and_then(|value| {
            value.parsed(|text| match text {
                "" => Err(format!("expected {}", DIRECTORY.expected)),
                _ if text.contains('\0') => Err("expected a path without NUL".to_owned()),
                _ => Ok(PathBuf::from(text)),
            })
        });
        let size = disk.required(&declared::DISK_SIZE);
        let bytes = size.and_then(|value| {
            let bytes = value.size_bytes()?;
            // One object takes at most an eighth of RAM, and a quarter of the disk.
            if bytes < memory_bytes / 2 {
                value.expected("at least half of \"memory\", so that the disk takes every object that RAM takes");
                return None;
            }
            Some(bytes)
        });
        disk.finish();
        Some(CacheDisk {
            path: path?,
            bytes: bytes?,
        })
    });
    table.finish();
    let usual = CacheStorage::in_memory(memory_bytes);
    CacheStorage {
        transient_bytes: transient.unwrap_or(usual.transient_bytes),
        disk,
        ..usual
    }
}

/// The `cache` of a route to `upstream`.
pub(super) fn policy(value: &Entry, upstream: &str) -> Option<CachePolicy> {
    if let Some(is_on) = value.as_bool() {
        return is_on.then(CachePolicy::default);
    }
    if !value.is_table() {
        value.unexpected();
        return None;
    }
    let mut table = value.table()?;
    let mut policy = CachePolicy::default();
    if let Some(value) = table.optional(&declared::TTL) {
        policy.ttl.by_status = by_status(&value, StatusMatch::Usual);
    }
    if let Some(value) = table.optional(&declared::FORCE_TTL) {
        policy.ttl.forced = by_status(&value, StatusMatch::OfResource);
    }
    policy.stale_while_revalidate = table.duration(&declared::STALE_WHILE_REVALIDATE);
    policy.stale_if_error = table.duration(&declared::STALE_IF_ERROR);
    if let Some(span) = table.duration(&declared::STALE_IF_UNREACHABLE) {
        policy.stale_if_unreachable = span;
    }
    if let Some(key) = table.section(&declared::KEY) {
        policy.key = key_parts(key, upstream);
    }
    if let Some(value) = table.optional(&declared::BYPASS) {
        let items = value.list().unwrap_or_default();
        let read = |item: Entry| item.parsed(bypass);
        policy.bypass = items.into_iter().filter_map(read).collect();
    }
    if let Some(value) = table.optional(&declared::METHODS) {
        let items = value.list().unwrap_or_default();
        let methods: Vec<_> = items
            .into_iter()
            .filter_map(|item| item.choice(declared::METHOD_NAMES))
            .collect();
        policy.caches_post = methods.contains(&Method::Post);
    }
    let set_cookie = table.optional(&declared::SET_COOKIE);
    if let Some(choice) = set_cookie.and_then(|value| value.choice(declared::SET_COOKIES)) {
        policy.set_cookie = choice;
    }
    let request_cookie = table.optional(&declared::REQUEST_COOKIE);
    if let Some(choice) = request_cookie.and_then(|value| value.choice(declared::REQUEST_COOKIES)) {
        policy.request_cookie = choice;
    }
    if let Some(obeys) = table.boolean(&declared::OBEY_CLIENTS) {
        policy.obeys_clients = obeys;
    }
    if let Some(ignores) = table.boolean(&declared::IGNORE_LANGUAGE_ORDER) {
        policy.language_order_matters = !ignores;
    }
    bounds(&mut table, &mut policy);
    table.finish();
    Some(policy)
}

/// What is stored at all, how much of it, and when it is refreshed before its time.
fn bounds(table: &mut Entries, policy: &mut CachePolicy) {
    if let Some(uses) = table.integer(&declared::MIN_USES) {
        policy.uses_min = uses as u32;
    }
    if let Some(bytes) = table.size_bytes(&declared::MAX_OBJECT) {
        policy.body_bytes_max = bytes;
    }
    if let Some(count) = table.integer(&declared::MAX_VARIANTS) {
        policy.variants_max = count as usize;
    }
    policy.memory_bytes_max = table.size_bytes(&declared::MAX_MEMORY);
    if let Some(value) = table.optional(&declared::REFRESH_AHEAD) {
        policy.refresh_ahead_percent = value.share_percent();
    }
    policy.collapse_wait = table.duration(&declared::COLLAPSE_WAIT);
}

/// `"1d"`, which is for the statuses that are `unnamed`, or `{ 200 = "1d", 4xx = "1m", any = "10s" }`.
fn by_status(value: &Entry, unnamed: StatusMatch) -> Vec<(StatusMatch, Duration)> {
    if value.as_str().is_some() {
        let ttl = value.duration();
        return ttl.map(|ttl| (unnamed, ttl)).into_iter().collect();
    }
    if !value.is_table() {
        value.unexpected();
        return Vec::new();
    }
    let mut found = Vec::new();
    for (name, value) in value.named().unwrap_or_default() {
        match (status_match(name), value.duration()) {
            (Some(StatusMatch::Is(status)), _) if !may_be_stored(status) => {
                value.wrong(
                    "found a status that is never stored, because it tells of one request alone",
                );
            }
            (Some(status), Some(ttl)) => found.push((status, ttl)),
            (None, _) => {
                value.wrong("expected it for a status such as 404, for \"4xx\" or for \"any\"");
            }
            (_, None) => {}
        }
    }
    // The first that holds counts, so the narrow ones come first.
    found.sort_by_key(|(status, _)| match status {
        StatusMatch::Is(_) => 0,
        StatusMatch::Usual | StatusMatch::OfResource => 1,
        StatusMatch::Class(_) => 2,
        StatusMatch::Any => 3,
    });
    found
}

fn status_match(name: &str) -> Option<StatusMatch> {
    if name == "any" {
        return Some(StatusMatch::Any);
    }
    if let Some(hundreds) = name.strip_suffix("xx") {
        let hundreds: u8 = hundreds.parse().ok()?;
        return (2..=5)
            .contains(&hundreds)
            .then_some(StatusMatch::Class(hundreds));
    }
    let status: u16 = name.parse().ok()?;
    (200..600)
        .contains(&status)
        .then_some(StatusMatch::Is(status))
}

/// The name of an upstream as a key can have it: a name with a slash or a line end would else pass for other keys.
fn as_site(upstream: &str) -> String {
    let each = upstream.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    each.collect()
}

/// `{ host = false, query = true | false | "sorted" | [...], query_except = [...], headers = [...], cookies = [...] }`.
fn key_parts(mut table: Entries, upstream: &str) -> KeyParts {
    let mut parts = KeyParts::default();
    if table.boolean(&declared::KEY_HOST) == Some(false) {
        parts.host = HostKey::Upstream(as_site(upstream));
    }
    let query = table.optional(&declared::QUERY);
    if let Some(value) = &query {
        parts.query = match (value.as_bool(), value.as_str(), value.as_list()) {
            (Some(true), ..) => QueryKey::Whole,
            (Some(false), ..) => QueryKey::Ignored,
            (_, Some("sorted"), _) => QueryKey::Sorted,
            (.., Some(_)) => QueryKey::Only(names(value)),
            _ => {
                value.unexpected();
                QueryKey::Whole
            }
        };
    }
    if let Some(value) = table.optional(&declared::QUERY_EXCEPT) {
        if query.is_some() {
            value.wrong("found beside \"query\", expected only one of them");
        }
        parts.query = QueryKey::Except(names(&value));
    }
    if let Some(value) = table.optional(&declared::HEADERS) {
        parts.headers = names(&value);
        parts
            .headers
            .iter_mut()
            .for_each(|name| name.make_ascii_lowercase());
    }
    if let Some(value) = table.optional(&declared::COOKIES) {
        parts.cookies = names(&value);
    }
    table.finish();
    parts
}

fn names(value: &Entry) -> Vec<String> {
    let items = value.list().unwrap_or_default();
    let read = |item: Entry| {
        item.parsed(|text| {
            if is_token(text) {
                Ok(text.to_owned())
            } else {
                Err("expected a name".to_owned())
            }
        })
    };
    items.into_iter().filter_map(read).collect()
}

/// `header:NAME`, `header:NAME=VALUE`, `cookie:NAME` or `query:NAME`.
fn bypass(text: &str) -> Result<Bypass, String> {
    let wrong = || {
        "expected \"header:NAME\", \"header:NAME=VALUE\", \"cookie:NAME\" or \"query:NAME\""
            .to_owned()
    };
    let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (name, value) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (rest, None),
    };
    match (kind, value) {
        _ if !is_token(name) => Err(wrong()),
        ("header", value) => Ok(Bypass::Header(name.to_ascii_lowercase(), value)),
        ("cookie", None) => Ok(Bypass::Cookie(name.to_owned())),
        ("query", None) => Ok(Bypass::Query(name.to_owned())),
        _ => Err(wrong()),
    }
}
