//! The primary key of a request (RFC 9111 §2): which requests can share a stored response at all.
//!
//! A key is text: the URL as the route sees it, and then, each in its own line, the other parts that the route adds.
//! Keys of one URL, of one host or under one path therefore share a prefix, and can be purged by it:
//!
//! ```text
//! http://www.example.com/a/b?x=1&y=2
//! upstream next
//! header accept-language:en
//! cookie tier=gold
//! route header x-beta="1"
//! body content-type:application/json
//! body 00c0ffee00c0ffee00c0ffee00c0ffee
//! ```
//!
//! A field or cookie that came several times has a line for each, and an absent one has a line with only its name. If
//! origins might split the cookie lines differently, the lines stand there as they came, in lines that begin with
//! `cookies`.
//!
//! Scheme and host are in the form in which the origin gets them, so all requests with one key ask for the same; an
//! empty path is a slash. Paths and queries stay as they were sent, with their escapes. An origin may distinguish
//! `/%61` from `/a`, and a cache that does not would serve one for the other. Names of parameters are decoded only to
//! find those that a route names.

use weir_http::{FieldName, Fields, Method, query};

use crate::policy::{Bypass, CachePolicy, HostKey, KeyParts, QueryKey};
use crate::vary;

/// How a request uses the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// GET and HEAD: they share stored responses.
    Get,
    /// POST on a route that caches POST: the key needs the digest of the body.
    PostByBody,
}

/// Why a request bypasses the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Its method.
    Method,
    /// It is a GET with a body: an origin that reads the body would give an answer that fits no other GET.
    Body,
    /// The route says so.
    Bypass,
}

impl Pass {
    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Body => "body",
            Self::Bypass => "bypass",
        }
    }
}

/// What a key is made from: the parts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// `http` or `https`: how the client connected.
    pub scheme: &'a [u8],
    /// The authority that the request is for, in normal form (see [`weir_http::host`]).
    pub authority: &'a [u8],
    /// The path that is requested, before the route removes a prefix.
    pub path: &'a [u8],
    /// The query as sent, without the question mark.
    pub query: Option<&'a [u8]>,
    /// The fields of the request.
    pub fields: Fields<'a>,
}

/// Whether a request uses the cache.
///
/// # Errors
/// Why it does not.
pub fn class(
    method: Method,
    has_body: bool,
    inputs: &Inputs<'_>,
    policy: &CachePolicy,
) -> Result<Class, Pass> {
    let class = match method {
        Method::Get | Method::Head if has_body => return Err(Pass::Body),
        Method::Get | Method::Head => Class::Get,
        Method::Post if policy.caches_post => Class::PostByBody,
        _ => return Err(Pass::Method),
    };
    if policy.bypass.iter().any(|rule| is_met(rule, inputs)) {
        return Err(Pass::Bypass);
    }
    Ok(class)
}

fn is_met(rule: &Bypass, inputs: &Inputs<'_>) -> bool {
    match rule {
        Bypass::Header(name, None) => inputs.fields.named(name.as_bytes()).next().is_some(),
        Bypass::Header(name, Some(value)) => inputs
            .fields
            .named(name.as_bytes())
            .any(|sent| sent == value.as_bytes()),
        Bypass::Cookie(name) => cookies(inputs.fields, name.as_bytes()).next().is_some(),
        Bypass::Query(name) => {
            query::pairs(inputs.query.unwrap_or_default()).any(|p| is_called(p, name))
        }
    }
}

/// Appends the key of a request.
pub fn write(parts: &KeyParts, inputs: &Inputs<'_>, body_digest: Option<u128>, out: &mut Vec<u8>) {
    write_url(parts, inputs, out);
    if let Some(name) = &parts.upstream {
        line(out, b"upstream ", name.as_bytes());
    }
    for name in &parts.headers {
        let id = FieldName::of(name.as_bytes());
        let values = inputs.fields.named(name.as_bytes());
        let is_alone = values.clone().nth(1).is_none();
        let mut values = values.peekable();
        if values.peek().is_none() {
            line(out, b"header ", name.as_bytes());
        }
        for value in values {
            line(out, b"header ", name.as_bytes());
            out.push(b':');
            vary::write_value(id, value, is_alone, true, out);
        }
    }
    if !parts.cookies.is_empty() {
        write_cookies(&parts.cookies, inputs.fields, out);
    }
    if !parts.route.is_empty() {
        line(out, b"route ", parts.route.as_bytes());
    }
    if let Some(digest) = body_digest {
        for (_, name, value) in inputs.fields.iter().filter(|field| describes_body(field.1)) {
            line(out, b"body ", name);
            let name_at = out.len() - name.len();
            out[name_at..].make_ascii_lowercase();
            out.push(b':');
            out.extend_from_slice(value);
        }
        line(out, b"body ", b"");
        for shift in (0..32).rev() {
            let digit = (digest >> (shift * 4)) as usize & 0xf;
            out.push(b"0123456789abcdef"[digit]);
        }
    }
}

fn write_cookies(names: &[String], fields: Fields<'_>, out: &mut Vec<u8>) {
    let lines = fields.all(FieldName::Cookie);
    if !is_read_alike(lines.clone()) {
        lines.for_each(|sent| line(out, b"cookies ", sent));
        return;
    }
    for name in names {
        let mut sent = cookies(fields, name.as_bytes()).peekable();
        if sent.peek().is_none() {
            line(out, b"cookie ", name.as_bytes());
        }
        // If there are several, an origin may read any of them: the first, the last, or all.
        for pair in sent {
            line(out, b"cookie ", pair);
            if !pair.contains(&b'=') {
                // It is there, but without even an empty value. No pair contains a semicolon.
                out.push(b';');
            }
        }
    }
}

/// Whether every origin finds the same cookies: there is at most one line, with "; " between pairs, and no other blanks
/// around pairs or in names (RFC 6265 §4.2.1).
fn is_read_alike<'h>(mut lines: impl Iterator<Item = &'h [u8]>) -> bool {
    let line = lines.next().unwrap_or_default();
    let is_alike = |(at, pair): (usize, &[u8])| {
        let pair = if at == 0 {
            Some(pair)
        } else {
            pair.strip_prefix(b" ")
        };
        let name = pair.and_then(|pair| pair.split(|&b| b == b'=').next());
        let is_plain = |name: &[u8]| !name.is_empty() && !name.iter().any(u8::is_ascii_whitespace);
        name.is_some_and(is_plain) && pair == pair.map(<[u8]>::trim_ascii_end)
    };
    let mut pairs = line.split(|&b| b == b';').enumerate();
    lines.next().is_none() && (line.is_empty() || pairs.all(is_alike))
}

/// Whether a field says what a body means (RFC 9110 §8.3 to §8.7): its type, coding, language, location and the like.
/// The same bytes as JSON and as a form, or gzipped and not, are different requests. The length follows from the bytes.
fn describes_body(name: &[u8]) -> bool {
    let start = name.get(..b"content-".len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(b"content-"))
        && FieldName::of(name) != FieldName::ContentLength
}

/// Precedes the name of an upstream in place of the host. No host can contain it: it would end userinfo, which requests
/// must not have (RFC 9110 §4.2.4).
pub const UPSTREAM_MARK: u8 = b'@';

/// Appends the first line of a key: the URL, with the upstream in place of the host if the parts say so.
pub fn write_url(parts: &KeyParts, inputs: &Inputs<'_>, out: &mut Vec<u8>) {
    out.extend(inputs.scheme.iter().map(u8::to_ascii_lowercase));
    out.extend_from_slice(b"://");
    if let HostKey::Upstream(name) = &parts.host {
        out.push(UPSTREAM_MARK);
        out.extend_from_slice(name.as_bytes());
    } else {
        out.extend_from_slice(inputs.authority);
    }
    out.extend_from_slice(if inputs.path.is_empty() {
        b"/"
    } else {
        inputs.path
    });
    if let Some(query) = inputs.query {
        write_query(&parts.query, query, out);
    }
}

/// Whether `key` is one of the keys of `url`, as [`write_url`] writes it.
pub fn is_of_url(key: &[u8], url: &[u8]) -> bool {
    key.strip_prefix(url)
        .is_some_and(|rest| matches!(rest, [] | [b'\n', ..]))
}

/// The URL of `key`.
pub fn url_of(key: &[u8]) -> &[u8] {
    key.split(|&b| b == b'\n').next().unwrap_or_default()
}

/// The path and query of `key`.
pub fn target_of(key: &[u8]) -> &[u8] {
    let url = url_of(key);
    let authority_at = url.windows(3).position(|three| three == b"://");
    let rest = &url[authority_at.map_or(0, |at| at + 3)..];
    let path_at = rest.iter().position(|&b| b == b'/');
    &rest[path_at.unwrap_or(rest.len())..]
}

/// With more parameters than this, they are not sorted: the query is part of the key as it was sent.
const PARAMETERS_MAX: usize = 64;

fn write_query(rule: &QueryKey, query: &[u8], out: &mut Vec<u8>) {
    let is_named = |names: &[String], p: &[u8]| names.iter().any(|name| is_called(p, name));
    match rule {
        QueryKey::Ignored => {}
        QueryKey::Whole => {
            out.push(b'?');
            out.extend_from_slice(query);
        }
        QueryKey::Sorted => write_sorted(query, |_| true, out),
        QueryKey::Only(names) => write_sorted(query, |p| is_named(names, p), out),
        QueryKey::Except(names) => write_sorted(query, |p| !is_named(names, p), out),
    }
}

/// The chosen parameters, sorted by name. Those with one name keep their order, which may mean something.
fn write_sorted(query: &[u8], chosen: impl Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let mut table: [&[u8]; PARAMETERS_MAX] = [b""; PARAMETERS_MAX];
    let mut count = 0;
    for parameter in query::pairs(query).filter(|p| chosen(p)) {
        let Some(place) = table.get_mut(count) else {
            out.push(b'?');
            out.extend_from_slice(query);
            return;
        };
        *place = parameter;
        count += 1;
    }
    // An insertion sort keeps the order of equals, without the memory that the library's stable sort takes.
    for end in 1..count {
        let mut at = end;
        while at > 0 && query::name(table[at]).lt(query::name(table[at - 1])) {
            table.swap(at, at - 1);
            at -= 1;
        }
    }
    for (at, parameter) in table[..count].iter().enumerate() {
        out.push(if at == 0 { b'?' } else { b'&' });
        out.extend_from_slice(parameter);
    }
}

fn is_called(parameter: &[u8], name: &str) -> bool {
    query::name(parameter).eq(name.bytes())
}

/// The pairs of the cookies called `name`, in order (RFC 6265 §4.2.1).
pub fn cookies<'h>(fields: Fields<'h>, name: &[u8]) -> impl Iterator<Item = &'h [u8]> {
    let pairs = fields
        .all(FieldName::Cookie)
        .flat_map(|line| line.split(|&b| b == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(move |pair| {
        let sent = pair.split(|&b| b == b'=').next().unwrap_or_default();
        sent.trim_ascii_end() == name
    })
}

/// Starts a line of the key. No part of a head contains a line end, so no part can look like another.
fn line(out: &mut Vec<u8>, kind: &[u8], name: &[u8]) {
    out.push(b'\n');
    out.extend_from_slice(kind);
    out.extend_from_slice(name);
}

#[cfg(test)]
mod tests;
