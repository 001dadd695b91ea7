//! The `compress` of a route: which codings, of what, and how hard to try.
//!
//! `compress = true` is the whole of it for nearly everybody. What a key means stands in `weir_cache::negotiate`; here is
//! only how it is written.

use std::ops::RangeInclusive;

use weir_cache::negotiate::{Coding, CompressPolicy, Levels};

use weir_gateway::settings::HeaderEdits;

use super::headers::is_token;
use super::read::Table;
use super::value::Value;

const EXPECTED: &str = "true, false or a table such as `{ codings = [\"br\", \"gzip\"] }`";
const CONTRADICTION: &str =
    "found beside \"content-encoding\" in \"response_headers\", expected only one of them";
const CODINGS: [(&str, Coding); 3] = [
    ("zstd", Coding::Zstd),
    ("br", Coding::Brotli),
    ("gzip", Coding::Gzip),
];
const MIN_BYTES: RangeInclusive<u64> = 0..=1 << 30;
const LEVEL_EXAMPLE: &str = "{ gzip = 6 }";
/// From 20 on, Zstandard needs a window that decoders of the coding need not have (RFC 9659).
const ZSTD_LEVELS: RangeInclusive<u64> = 1..=19;
const BROTLI_LEVELS: RangeInclusive<u64> = 0..=11;
const GZIP_LEVELS: RangeInclusive<u64> = 1..=9;

/// The `compress` of a route that changes fields of its responses by `edits`.
pub(super) fn policy(value: &Value, edits: &HeaderEdits) -> Option<CompressPolicy> {
    if value.as_bool() == Some(false) {
        return None;
    }
    let set = edits.set.iter().map(|(name, _)| name);
    if edits
        .remove
        .iter()
        .chain(set)
        .any(|name| name == "content-encoding")
    {
        value.wrong(CONTRADICTION);
    }
    if value.as_bool().is_some() {
        return Some(CompressPolicy::default());
    }
    if !value.is_table() {
        value.expected(EXPECTED);
        return None;
    }
    let mut table = value.table(EXPECTED)?;
    let mut policy = CompressPolicy::default();
    if let Some(value) = table.optional("codings") {
        policy.codings = codings(&value);
    }
    if let Some(value) = table.optional("types") {
        let items = value.list("media types such as [\"application/geo+json\"]");
        let read =
            |item: Value| item.parsed("a media type such as \"application/pdf\"", media_type);
        policy.types = items
            .unwrap_or_default()
            .into_iter()
            .filter_map(read)
            .collect();
    }
    let min_bytes = table.optional("min_bytes");
    if let Some(bytes) = min_bytes.and_then(|value| value.size_bytes(&MIN_BYTES)) {
        policy.body_bytes_min = bytes;
    }
    if let Some(section) = table.section("level", LEVEL_EXAMPLE) {
        levels(section, &mut policy.streaming);
    }
    if let Some(section) = table.section("stored_level", LEVEL_EXAMPLE) {
        levels(section, &mut policy.stored);
    }
    table.finish();
    Some(policy)
}

fn codings(value: &Value) -> Vec<Coding> {
    let expected = "codings such as [\"zstd\", \"br\", \"gzip\"]";
    let items = value.list(expected).unwrap_or_default();
    if items.is_empty() && value.as_list().is_some() {
        value.wrong("found an empty list, expected at least one coding, or `compress = false`");
    }
    let mut codings = Vec::new();
    for item in items {
        match item.choice(&CODINGS) {
            Some(coding) if codings.contains(&coding) => item.expected("each coding only once"),
            Some(coding) => codings.push(coding),
            None => {}
        }
    }
    codings
}

/// A type and a subtype, without parameters.
fn media_type(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) && subtype != "*" => {
            Ok(text.to_ascii_lowercase())
        }
        _ => Err("expected a media type such as \"application/pdf\"".to_owned()),
    }
}

fn levels(mut table: Table, levels: &mut Levels) {
    for (key, range, level) in [
        ("zstd", ZSTD_LEVELS, &mut levels.zstd),
        ("br", BROTLI_LEVELS, &mut levels.brotli),
        ("gzip", GZIP_LEVELS, &mut levels.gzip),
    ] {
        let value = table.optional(key);
        if let Some(number) = value.and_then(|value| value.integer(range)) {
            *level = number as u8;
        }
    }
    table.finish();
}
