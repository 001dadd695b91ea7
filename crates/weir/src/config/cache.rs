//! `[cache]` and the `cache` of a route: budgets, and what a route says beyond what its origin says.
//!
//! `cache = true` is the whole of it for an origin that says how long its responses last. What a key means stands in
//! `weir_cache::policy`; here is only how it is written.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use weir_cache::CachePolicy;
use weir_cache::policy::{Bypass, HostKey, KeyParts, QueryKey, SetCookie, StatusMatch};
use weir_cache::store_rule::may_be_stored;
use weir_gateway::settings::{CacheDisk, CacheStorage};
use weir_http::Method;

use super::headers::is_token;
use super::read::Table;
use super::value::Value;

const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 44;
const DISK_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 50;
const OBJECT_BYTES: RangeInclusive<u64> = 0..=1 << 50;
const SPAN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10 * 365 * 86_400);
const USES_MAX: u64 = 1000;
const VARIANTS_MAX: u64 = 1000;

const CACHE_EXPECTED: &str = "true, false or a table such as `{ ttl = \"1d\" }`";
const TTL_EXPECTED: &str = "a duration such as \"1d\", or durations by status such as `{ 200 = \"1d\", 404 = \"1m\", any = \"10s\" }`";
const METHODS: [(&str, Method); 3] = [
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
];
const METHODS_EXPECTED: &str = "methods such as [\"GET\", \"HEAD\", \"POST\"]";
const BYPASS_EXPECTED: &str =
    "conditions such as [\"header:authorization\", \"cookie:session\", \"query:nocache\"]";

/// `[cache]`.
pub(super) fn storage(mut table: Table) -> CacheStorage {
    let memory = table.optional("memory");
    let memory = memory.and_then(|value| value.size_bytes(&MEMORY_BYTES));
    let memory_bytes = memory.unwrap_or(CacheStorage::MEMORY_BYTES);
    let transient = table.optional("transient");
    let transient = transient.and_then(|value| value.size_bytes(&MEMORY_BYTES));
    let disk = table.section("disk", "{ path = \"cache\", size = \"10GiB\" }");
    let disk = disk.and_then(|mut disk| {
        let expected = "the path of a directory";
        let path = disk.required("path", expected);
        let path = path.and_then(|value| {
            value.parsed(expected, |text| match text {
                "" => Err(format!("expected {expected}")),
                _ if text.contains('\0') => Err("expected a path without NUL".to_owned()),
                _ => Ok(PathBuf::from(text)),
            })
        });
        let size = disk.required("size", "a size such as \"10GiB\"");
        let bytes = size.and_then(|value| {
            let bytes = value.size_bytes(&DISK_BYTES)?;
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
pub(super) fn policy(value: &Value, upstream: &str) -> Option<CachePolicy> {
    if let Some(is_on) = value.as_bool() {
        return is_on.then(CachePolicy::default);
    }
    if !value.is_table() {
        value.expected(CACHE_EXPECTED);
        return None;
    }
    let mut table = value.table(CACHE_EXPECTED)?;
    let mut policy = CachePolicy::default();
    if let Some(value) = table.optional("ttl") {
        policy.ttl.by_status = by_status(&value, StatusMatch::Usual);
    }
    if let Some(value) = table.optional("force_ttl") {
        policy.ttl.forced = by_status(&value, StatusMatch::OfResource);
    }
    policy.stale_while_revalidate = span(&mut table, "stale_while_revalidate");
    policy.stale_if_error = span(&mut table, "stale_if_error");
    if let Some(span) = span(&mut table, "stale_if_unreachable") {
        policy.stale_if_unreachable = span;
    }
    if let Some(key) = table.section("key", "{ query = [\"page\"], headers = [\"x-tenant\"] }") {
        policy.key = key_parts(key, upstream);
    }
    if let Some(value) = table.optional("bypass") {
        let items = value.list(BYPASS_EXPECTED).unwrap_or_default();
        let read = |item: Value| item.parsed("a condition such as \"cookie:session\"", bypass);
        policy.bypass = items.into_iter().filter_map(read).collect();
    }
    if let Some(value) = table.optional("methods") {
        let items = value.list(METHODS_EXPECTED).unwrap_or_default();
        let methods: Vec<_> = items
            .into_iter()
            .filter_map(|item| item.choice(&METHODS))
            .collect();
        policy.caches_post = methods.contains(&Method::Post);
    }
    let choices = [
        ("store-if-origin-says", SetCookie::StoreIfOriginSays),
        ("store", SetCookie::Store),
        ("refuse", SetCookie::Refuse),
    ];
    let set_cookie = table.optional("set_cookie");
    if let Some(choice) = set_cookie.and_then(|value| value.choice(&choices)) {
        policy.set_cookie = choice;
    }
    if let Some(obeys) = table
        .optional("obey_clients")
        .and_then(|value| value.boolean())
    {
        policy.obeys_clients = obeys;
    }
    if let Some(ignores) = table
        .optional("ignore_language_order")
        .and_then(|value| value.boolean())
    {
        policy.language_order_matters = !ignores;
    }
    bounds(&mut table, &mut policy);
    table.finish();
    Some(policy)
}

/// What is stored at all, how much of it, and when it is refreshed before its time.
fn bounds(table: &mut Table, policy: &mut CachePolicy) {
    if let Some(uses) = table
        .optional("min_uses")
        .and_then(|value| value.integer(1..=USES_MAX))
    {
        policy.uses_min = uses as u32;
    }
    let max_object = table.optional("max_object");
    if let Some(bytes) = max_object.and_then(|value| value.size_bytes(&OBJECT_BYTES)) {
        policy.body_bytes_max = bytes;
    }
    let variants = table.optional("max_variants");
    if let Some(count) = variants.and_then(|value| value.integer(1..=VARIANTS_MAX)) {
        policy.variants_max = count as usize;
    }
    let max_memory = table.optional("max_memory");
    policy.memory_bytes_max = max_memory.and_then(|value| value.size_bytes(&MEMORY_BYTES));
    if let Some(value) = table.optional("refresh_ahead") {
        policy.refresh_ahead_percent = value.share_percent();
    }
    policy.collapse_wait = span(table, "collapse_wait");
}

fn span(table: &mut Table, key: &'static str) -> Option<Duration> {
    table.optional(key).and_then(|value| value.duration(&SPAN))
}

/// `"1d"`, which is for the statuses that are `unnamed`, or `{ 200 = "1d", 4xx = "1m", any = "10s" }`.
fn by_status(value: &Value, unnamed: StatusMatch) -> Vec<(StatusMatch, Duration)> {
    if value.as_str().is_some() {
        let ttl = value.duration(&SPAN);
        return ttl.map(|ttl| (unnamed, ttl)).into_iter().collect();
    }
    if !value.is_table() {
        value.expected(TTL_EXPECTED);
        return Vec::new();
    }
    let Some(table) = value.table(TTL_EXPECTED) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in table.entries() {
        match (status_match(name), value.duration(&SPAN)) {
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
fn key_parts(mut table: Table, upstream: &str) -> KeyParts {
    let mut parts = KeyParts::default();
    let host = table.optional("host").and_then(|value| value.boolean());
    if host == Some(false) {
        parts.host = HostKey::Upstream(as_site(upstream));
    }
    let query = table.optional("query");
    if let Some(value) = &query {
        parts.query = match (value.as_bool(), value.as_str(), value.as_list()) {
            (Some(true), ..) => QueryKey::Whole,
            (Some(false), ..) => QueryKey::Ignored,
            (_, Some("sorted"), _) => QueryKey::Sorted,
            (.., Some(_)) => QueryKey::Only(names(value, "query parameters")),
            _ => {
                value.expected("true, false, \"sorted\" or a list of query parameters");
                QueryKey::Whole
            }
        };
    }
    if let Some(value) = table.optional("query_except") {
        if query.is_some() {
            value.wrong("found beside \"query\", expected only one of them");
        }
        parts.query = QueryKey::Except(names(&value, "query parameters"));
    }
    if let Some(value) = table.optional("headers") {
        parts.headers = names(&value, "field names");
        parts
            .headers
            .iter_mut()
            .for_each(|name| name.make_ascii_lowercase());
    }
    if let Some(value) = table.optional("cookies") {
        parts.cookies = names(&value, "cookies");
    }
    table.finish();
    parts
}

fn names(value: &Value, of_what: &str) -> Vec<String> {
    let items = value.list(of_what).unwrap_or_default();
    let read = |item: Value| {
        item.parsed("a name", |text| {
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
