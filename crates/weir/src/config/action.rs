//! What a route does: forward to an upstream, redirect, or respond by itself.
//!
//! A route does exactly one of them, and keys that only shape another one are mistakes, not silently without effect.

use std::time::Duration;

use weir_gateway::settings::template::Template;
use weir_gateway::settings::{
    Action, Forward, Redirect, Respond, ResponseHeaders, Serve, UpstreamTimeouts,
};

use super::care::Around;
use super::declared::forms::MEDIA_TYPE_EXPECTED;
use super::declared::kv::KV;
use super::declared::table::COLLECT;
use super::declared::{Key, care as declared_care, queue as declared_queue, route as declared};
use super::entries::Entries;
use super::entry::Entry;
use super::headers::{self, Of, is_token};
use super::in_process::InProcess;
use super::pattern::{self, PathPattern};
use super::route::rewrite;
use super::route::spread::Destination;
use super::suggest::one_of;
use super::upstream::Upstreams;
use super::{cache, care, compress};

/// TOML is UTF-8, so a body from a config is too.
pub(super) const CONTENT_TYPE_DEFAULT: &str = "text/plain; charset=utf-8";

/// Reads the action of a route; `path` is `None` when it had a mistake.
pub(super) fn read(
    table: &mut Entries,
    path: Option<&PathPattern>,
    says: &ResponseHeaders,
    (upstreams, services): (&mut Upstreams, &mut InProcess),
) -> Option<Action> {
    let defer = table.optional(&declared_queue::DEFER);
    let actions = || one_of(declared::ACTIONS.iter().map(|key| key.name));
    let mut chosen: Vec<(&Key, Entry)> = declared::ACTIONS
        .iter()
        .filter_map(|key| Some((*key, table.optional(key)?)))
        .collect();
    chosen.sort_by_key(|(_, value)| value.at());
    if chosen.is_empty()
        && let Some(defer) = &defer
    {
        return for_sinks_alone(table, defer, path, services);
    }
    let [(key, value), others @ ..] = chosen.as_slice() else {
        table.wrong_as_a_whole(format!("found no action, expected {}", actions()));
        take_forward_keys(table);
        return None;
    };
    for (_, other) in others {
        other.wrong(format!(
            "found beside \"{}\", expected exactly {}",
            key.name,
            actions()
        ));
    }
    if !others.is_empty() {
        take_forward_keys(table);
        return None;
    }
    if let Some(defer) = defer {
        return deferred(
            table,
            &defer,
            (*key, value),
            (path, says),
            (upstreams, services),
        );
    }
    let to = if key.is(&declared::UPSTREAM) {
        Some(Destination::one(value, upstreams))
    } else if key.is(&declared::split::SPLIT) {
        Some(Destination::several(value, upstreams))
    } else {
        None
    };
    if let Some(to) = to {
        return forward(table, &to, (path, says), upstreams).map(Action::Forward);
    }
    for forward_value in take_forward_keys(table) {
        forward_value.wrong(format!(
            "has no meaning with \"{}\", expected it only with \"upstream\" or \"split\"",
            key.name
        ));
    }
    if key.is(&KV) {
        return services.kv(value).map(Action::Serve);
    }
    if key.is(&COLLECT) {
        return services.collect(value).map(Action::Serve);
    }
    if key.is(&declared::REDIRECT) {
        redirect(value, path).map(Action::Redirect)
    } else {
        respond(value, parameters(path)).map(Action::Respond)
    }
}

/// Requests that an upstream gets later.
fn deferred(
    table: &mut Entries,
    defer: &Entry,
    (key, value): (&Key, &Entry),
    (path, says): (Option<&PathPattern>, &ResponseHeaders),
    (upstreams, services): (&mut Upstreams, &mut InProcess),
) -> Option<Action> {
    if !key.is(&declared::UPSTREAM) {
        take_forward_keys(table);
        defer.wrong(format!(
            "has no meaning with \"{}\", expected it only with \"upstream\"",
            key.name
        ));
        return None;
    }
    for other in declared::NOT_DEFERRED {
        if let Some(other) = table.optional(other) {
            other.wrong("has no meaning with \"defer\": nobody waits for the answer");
        }
    }
    let serve = services.defer(defer, path);
    let to = Destination::one(value, upstreams);
    let delivery = forward(table, &to, (path, says), upstreams)?;
    Some(Action::Serve(Serve {
        delivery: Some(Box::new(Forward {
            upgrade: Vec::new(),
            ..delivery
        })),
        ..serve?
    }))
}

/// Requests that no upstream gets: they are for the sinks of their queue.
fn for_sinks_alone(
    table: &mut Entries,
    defer: &Entry,
    path: Option<&PathPattern>,
    services: &mut InProcess,
) -> Option<Action> {
    let without_meaning = declared::NOT_DEFERRED.iter();
    let mut without_meaning: Vec<Entry> = without_meaning
        .filter_map(|key| table.optional(key))
        .collect();
    without_meaning.extend(take_forward_keys(table));
    for other in without_meaning {
        other.wrong("has no meaning without \"upstream\"");
    }
    let serve = services.defer(defer, path)?;
    if !services.has_sink(&serve) {
        defer.wrong(
            "its queue has no sink, so an upstream must get the requests; expected \"upstream\" beside it, or a [queue.NAME.sink.NAME]",
        );
        return None;
    }
    Some(Action::Serve(serve))
}

/// The parameters of a path, as far as they are known.
pub(super) fn parameters(path: Option<&PathPattern>) -> &[String] {
    path.map_or(&[], |path| &path.parameters)
}

/// What clients may upgrade to when the route does not say.
pub(super) fn default_upgrades() -> Vec<String> {
    vec!["websocket".to_owned()]
}

/// The values of keys that mean something only with an upstream.
fn take_forward_keys<'a>(table: &mut Entries<'a>) -> Vec<Entry<'a>> {
    let keys = declared::FORWARD.iter().chain(declared_care::OF_ROUTE);
    keys.filter_map(|key| table.optional(key)).collect()
}

fn forward(
    table: &mut Entries,
    to: &Destination,
    (path, says): (Option<&PathPattern>, &ResponseHeaders),
    upstreams: &mut Upstreams,
) -> Option<Forward> {
    let split = to.split(table, upstreams);
    let (strip_prefix, rewrite) = other_path(table, path);
    let request_headers = table.optional(&declared::REQUEST_HEADERS);
    let mut request_headers = request_headers
        .map(|value| headers::edits(&value, parameters(path)))
        .unwrap_or_default();
    let mirror = to.mirror(table, upstreams, &mut request_headers);
    let timeouts = table.section(&declared::TIMEOUT);
    let timeouts = timeouts.map_or_else(UpstreamTimeouts::default, upstream_timeouts);
    let request_buffer = table.size_bytes(&declared::REQUEST_BUFFER);
    let response_buffer = table.size_bytes(&declared::RESPONSE_BUFFER);
    let cache = table.optional(&declared::CACHE);
    // A cache with mistakes in it is meant to be one.
    let has_cache = cache
        .as_ref()
        .is_some_and(|value| value.as_bool() != Some(false));
    let cache = cache.and_then(|value| cache::policy(&value, to.name.unwrap_or_default()));
    let compress = table.optional(&declared::COMPRESS);
    let compress = compress.and_then(|value| compress::policy(&value, &says.usual));
    let upgrade = table.optional(&declared::UPGRADE);
    let upgrade = upgrade.map_or_else(default_upgrades, |value| upgrades(&value));
    let around = Around {
        upstreams,
        to,
        has_cache,
    };
    let care = care::route(table, &around);
    protect(table, upstreams, to);
    Some(Forward {
        upstream: to.upstream()?,
        split,
        mirror,
        strip_prefix,
        rewrite,
        request_headers,
        timeouts,
        request_buffer: request_buffer.unwrap_or(Forward::REQUEST_BUFFER),
        response_buffer: response_buffer.unwrap_or(Forward::RESPONSE_BUFFER),
        cache: cache.map(Box::new),
        compress: compress.map(Box::new),
        upgrade,
        care: Box::new(care),
    })
}

/// `strip_prefix` or `rewrite`.
fn other_path(
    table: &mut Entries,
    path: Option<&PathPattern>,
) -> (Option<String>, Option<Box<Template>>) {
    let rewrite = table.optional(&declared::rewrite::REWRITE);
    let strip_prefix = table.optional(&declared::STRIP_PREFIX);
    if let (Some(value), Some(_)) = (&rewrite, &strip_prefix) {
        value.wrong("found beside \"strip_prefix\", expected only one of them");
    }
    // Without a sound path nobody knows what it has.
    let strip_prefix = strip_prefix
        .zip(path)
        .and_then(|(value, path)| value.parsed(|text| pattern::prefix(text, &path.text)));
    let rewrite = rewrite.zip(path).and_then(|(value, path)| {
        value.parsed_template(|text| rewrite::path(text, &path.parameters))
    });
    (strip_prefix, rewrite.map(Box::new))
}

/// `protect = true`: the upstreams are protected, for all of their routes.
fn protect(table: &mut Entries, upstreams: &mut Upstreams, to: &Destination) {
    let Some(value) = table.optional(&declared_care::PROTECT_BY_ROUTE) else {
        return;
    };
    if value.boolean() != Some(true) {
        return;
    }
    let shares = to.shares.iter();
    let mut complaints = shares.filter_map(|share| upstreams.protect(share.upstream).err());
    if let Some(complaint) = complaints.next() {
        value.wrong(complaint);
    }
}

fn upstream_timeouts(mut table: Entries) -> UpstreamTimeouts {
    let default = UpstreamTimeouts::default();
    let mut deadline =
        |key: &'static Key, default: Duration| table.duration(key).unwrap_or(default);
    let timeouts = UpstreamTimeouts {
        connect: deadline(&declared::CONNECT, default.connect),
        response: deadline(&declared::RESPONSE, default.response),
        idle: deadline(&declared::IDLE, default.idle),
    };
    table.finish();
    timeouts
}

fn upgrades(value: &Entry) -> Vec<String> {
    let items = value.list().unwrap_or_default().into_iter();
    items.filter_map(|item| item.parsed(upgrade)).collect()
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
fn redirect(value: &Entry, path: Option<&PathPattern>) -> Option<Redirect> {
    let mut table = value.table()?;
    let to = table.required(&declared::TO);
    // Without a sound path nobody knows which parameters there are.
    let location = to.zip(path).and_then(|(value, path)| {
        value.parsed_template(|text| pattern::location(text, &path.parameters))
    });
    let usual = declared::REDIRECT_STATUS.preset.integer();
    let status = table.optional(&declared::REDIRECT_STATUS);
    let status = status.map_or(Some(usual), |value| {
        let status = value.as_integer();
        if status.is_none() {
            value.unexpected();
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
fn respond(value: &Entry, parameters: &[String]) -> Option<Respond> {
    let mut table = value.table()?;
    let usual = declared::ANSWER_STATUS.preset.integer();
    let status = table.optional(&declared::ANSWER_STATUS);
    let status = status.map_or(Some(usual), |value| value.integer());
    let body_value = table.optional(&declared::BODY);
    let body = body_value.as_ref().and_then(Entry::text);
    let body = body.unwrap_or_default();
    let status = status.map(|status| status as u16);
    if let Some(value) = &body_value
        && !body.is_empty()
    {
        refuse_body_with(status, value);
    }
    let content_type_value = table.optional(&declared::CONTENT_TYPE);
    let content_type = content_type_value.as_ref();
    let content_type = content_type.and_then(|value| value.parsed(media_type));
    let mut headers = headers::fields(table.named(&declared::HEADERS), Of::answer(parameters));
    let is_given_as_field = headers.iter().any(|(name, _)| name == "content-type");
    match (content_type, content_type_value) {
        (_, Some(value)) if is_given_as_field => {
            value.wrong(
                "found beside a field \"content-type\" in \"headers\", expected it only once",
            );
        }
        (Some(given), _) => headers.push(("content-type".to_owned(), Template::fixed(given))),
        (None, None) if !is_given_as_field && !body.is_empty() => {
            let usual = Template::fixed(CONTENT_TYPE_DEFAULT);
            headers.push(("content-type".to_owned(), usual));
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
pub(super) fn refuse_body_with(status: Option<u16>, body: &Entry) {
    if let Some(status @ (204 | 304)) = status {
        body.wrong(format!("found a body, expected none with status {status}"));
    }
}

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
