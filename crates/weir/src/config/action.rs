//! What a route does: forward to an upstream, redirect, or respond by itself.
//!
//! A route does exactly one of them, and keys that only shape another one are mistakes, not silently without effect.

use std::ops::RangeInclusive;

use weir_gateway::settings::{Action, Forward, HeaderEdits, Redirect, Respond, UpstreamTimeouts};

use super::care::Around;
use super::file::deadline;
use super::headers::{self, Message, is_token};
use super::pattern::{self, LOCATION_EXPECTED, PathPattern};
use super::read::Table;
use super::suggest::one_of;
use super::upstream::Upstreams;
use super::value::Value;
use super::{cache, care, compress};

const ACTIONS: [&str; 3] = ["upstream", "redirect", "respond"];
const ONLY_WITH_UPSTREAM: [&str; 15] = [
    "strip_prefix",
    "request_headers",
    "response_headers",
    "timeout",
    "request_buffer",
    "response_buffer",
    "cache",
    "compress",
    "upgrade",
    "breaker",
    "priority",
    "retry",
    "hedge",
    "fallback",
    "protect",
];
/// Bodies held for slow clients. More than this is not for memory.
const BUFFER: RangeInclusive<u64> = 0..=64 << 20;
const REDIRECT_STATUSES: [u64; 5] = [301, 302, 303, 307, 308];
/// Statuses of fixed answers.
pub(super) const RESPOND_STATUSES: RangeInclusive<u64> = 200..=599;
/// TOML is UTF-8, so a body from a config is too.
pub(super) const CONTENT_TYPE_DEFAULT: &str = "text/plain; charset=utf-8";

/// Reads the action of a route; `path` is `None` when it had a mistake.
pub(super) fn read(
    table: &mut Table,
    path: Option<&PathPattern>,
    upstreams: &mut Upstreams,
) -> Option<Action> {
    let mut chosen: Vec<(&str, Value)> = ACTIONS
        .into_iter()
        .filter_map(|key| Some((key, table.optional(key)?)))
        .collect();
    chosen.sort_by_key(|(_, value)| value.at());
    let [(key, value), others @ ..] = chosen.as_slice() else {
        table.wrong("", format!("found no action, expected {}", one_of(ACTIONS)));
        take_forward_keys(table);
        return None;
    };
    for (_, other) in others {
        other.wrong(format!(
            "found beside \"{key}\", expected exactly {}",
            one_of(ACTIONS)
        ));
    }
    if !others.is_empty() {
        take_forward_keys(table);
        return None;
    }
    if *key == "upstream" {
        return forward(table, value, path, upstreams).map(Action::Forward);
    }
    for forward_value in take_forward_keys(table) {
        forward_value.wrong(format!(
            "has no meaning with \"{key}\", expected it only with \"upstream\""
        ));
    }
    if *key == "redirect" {
        redirect(value, path).map(Action::Redirect)
    } else {
        respond(value).map(Action::Respond)
    }
}

/// What clients may upgrade to when the route does not say.
pub(super) fn default_upgrades() -> Vec<String> {
    vec!["websocket".to_owned()]
}

fn take_forward_keys<'a>(table: &mut Table<'a>) -> Vec<Value<'a>> {
    let taken = ONLY_WITH_UPSTREAM.into_iter();
    taken.filter_map(|key| table.optional(key)).collect()
}

fn forward(
    table: &mut Table,
    upstream: &Value,
    path: Option<&PathPattern>,
    upstreams: &mut Upstreams,
) -> Option<Forward> {
    let name = upstream.text("the name of an upstream");
    let index = name.and_then(|name| match upstreams.index(name) {
        Ok(index) => Some(index),
        Err(complaint) => {
            upstream.wrong(complaint);
            None
        }
    });
    let strip_prefix = table.optional("strip_prefix");
    let strip_prefix = strip_prefix.zip(path).and_then(|(value, path)| {
        value.parsed("a prefix of the path", |text| {
            pattern::prefix(text, &path.text)
        })
    });
    let mut edits = |key, message| {
        let value = table.optional(key);
        value.map_or_else(HeaderEdits::default, |value| {
            headers::edits(&value, message)
        })
    };
    let request_headers = edits("request_headers", Message::Request);
    let response_headers = edits("response_headers", Message::Response);
    let timeouts = table.section("timeout", "{ response = \"30s\" }");
    let timeouts = timeouts.map_or_else(UpstreamTimeouts::default, upstream_timeouts);
    let mut buffer = |key| {
        let value = table.optional(key);
        value.and_then(|value| value.size_bytes(&BUFFER))
    };
    let request_buffer = buffer("request_buffer");
    let response_buffer = buffer("response_buffer");
    let cache = table.optional("cache");
    // A cache with mistakes in it is meant to be one.
    let has_cache = cache
        .as_ref()
        .is_some_and(|value| value.as_bool() != Some(false));
    let cache = cache.and_then(|value| cache::policy(&value, name.unwrap_or_default()));
    let compress = table.optional("compress");
    let compress = compress.and_then(|value| compress::policy(&value, &response_headers));
    let upgrade = table.optional("upgrade");
    let upgrade = upgrade.map_or_else(default_upgrades, |value| upgrades(&value));
    let around = Around {
        upstreams,
        upstream: index,
        has_cache,
    };
    let care = care::route(table, &around);
    protect(table, upstreams, index);
    Some(Forward {
        upstream: index?,
        strip_prefix,
        request_headers,
        response_headers,
        timeouts,
        request_buffer: request_buffer.unwrap_or(Forward::REQUEST_BUFFER),
        response_buffer: response_buffer.unwrap_or(Forward::RESPONSE_BUFFER),
        cache: cache.map(Box::new),
        compress: compress.map(Box::new),
        upgrade,
        care: Box::new(care),
    })
}

/// `protect = true`: the upstream is protected, for all of its routes.
fn protect(table: &mut Table, upstreams: &mut Upstreams, index: Option<usize>) {
    let Some(value) = table.optional("protect") else {
        return;
    };
    if value.boolean() == Some(true)
        && let Some(index) = index
        && let Err(complaint) = upstreams.protect(index)
    {
        value.wrong(complaint);
    }
}

fn upstream_timeouts(mut table: Table) -> UpstreamTimeouts {
    let default = UpstreamTimeouts::default();
    let timeouts = UpstreamTimeouts {
        connect: deadline(&mut table, "connect", default.connect),
        response: deadline(&mut table, "response", default.response),
        idle: deadline(&mut table, "idle", default.idle),
    };
    table.finish();
    timeouts
}

fn upgrades(value: &Value) -> Vec<String> {
    let items = value
        .list("protocols such as [\"websocket\"]")
        .unwrap_or_default();
    let protocol = |item: Value| item.parsed("a protocol such as \"websocket\"", upgrade);
    items.into_iter().filter_map(protocol).collect()
}

/// A protocol and perhaps its version (RFC 9110 §7.8).
fn upgrade(text: &str) -> Result<String, String> {
    let (name, version) = text.split_once('/').unwrap_or((text, "1"));
    if !is_token(name) || !is_token(version) {
        return Err("expected a protocol such as \"websocket\"".to_owned());
    }
    let protocol = text.to_ascii_lowercase();
    // In an h2c tunnel a client sends requests that no route and no limit of the gateway ever sees.
    if protocol == "h2c" {
        return Err(
            "expected another protocol: requests inside of h2c would bypass every route".to_owned(),
        );
    }
    Ok(protocol)
}

/// `{ to = "/new/{rest}", status = 301 }`.
fn redirect(value: &Value, path: Option<&PathPattern>) -> Option<Redirect> {
    let mut table = value.table("{ to = \"/new\" }")?;
    let to = table.required("to", LOCATION_EXPECTED);
    // Without a sound path nobody knows which parameters there are.
    let location = to.zip(path).and_then(|(value, path)| {
        value.parsed(LOCATION_EXPECTED, |text| {
            pattern::location(text, &path.parameters)
        })
    });
    let status = table.optional("status").map_or(Some(301), |value| {
        let status = value
            .as_integer()
            .filter(|status| REDIRECT_STATUSES.contains(status));
        if status.is_none() {
            value.expected("one of 301, 302, 303, 307, 308");
        }
        status
    });
    table.finish();
    Some(Redirect {
        status: status? as u16,
        location: location?,
    })
}

/// `{ status = 200, body = "...", content_type = "text/plain", headers = { name = "value" } }`.
fn respond(value: &Value) -> Option<Respond> {
    let mut table = value.table("{ status = 200, body = \"text\" }")?;
    let status = table.optional("status");
    let status = status.map_or(Some(200), |value| value.integer(RESPOND_STATUSES));
    let body_value = table.optional("body");
    let body = body_value.as_ref().and_then(|value| value.text("a string"));
    let body = body.unwrap_or_default();
    let status = status.map(|status| status as u16);
    if let Some(value) = &body_value
        && !body.is_empty()
    {
        refuse_body_with(status, value);
    }
    let content_type_value = table.optional("content_type");
    let content_type = content_type_value.as_ref();
    let content_type = content_type.and_then(|value| value.parsed(MEDIA_TYPE_EXPECTED, media_type));
    let headers = table.section("headers", headers::FIELDS_EXAMPLE);
    let mut headers =
        headers.map_or_else(Vec::new, |table| headers::fields(&table, Message::Response));
    let is_given_as_field = headers.iter().any(|(name, _)| name == "content-type");
    match (content_type, content_type_value) {
        (_, Some(value)) if is_given_as_field => {
            value.wrong(
                "found beside a field \"content-type\" in \"headers\", expected it only once",
            );
        }
        (Some(given), _) => headers.push(("content-type".to_owned(), given)),
        (None, None) if !is_given_as_field && !body.is_empty() => {
            headers.push(("content-type".to_owned(), CONTENT_TYPE_DEFAULT.to_owned()));
        }
        (None, _) => {}
    }
    table.finish();
    Some(Respond {
        status: status?,
        body: body.as_bytes().to_vec(),
        headers,
    })
}

/// Reports a body where there can be none.
pub(super) fn refuse_body_with(status: Option<u16>, body: &Value) {
    if let Some(status @ (204 | 304)) = status {
        body.wrong(format!("found a body, expected none with status {status}"));
    }
}

/// What the type of a body looks like.
pub(super) const MEDIA_TYPE_EXPECTED: &str = "a media type such as \"text/plain\"";

/// Reads a media type and perhaps its parameters.
pub(super) fn media_type(text: &str) -> Result<String, String> {
    let (name, _parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_sound = name
        .trim_end()
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if !is_sound {
        return Err(format!("expected {MEDIA_TYPE_EXPECTED}"));
    }
    headers::value(text)
}
