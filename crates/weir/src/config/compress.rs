//! The `compress` of a route: which codings, of what, and how hard to try.
//!
//! `compress = true` is the whole of it for nearly everybody. What a key means stands in `weir_cache::negotiate`; here is
//! only how it is written.

use weir_cache::negotiate::{Coding, CompressPolicy, Levels};

use weir_gateway::settings::HeaderEdits;

use super::declared::compress::{
    BROTLI, CODING_NAMES, CODINGS, GZIP, LEVEL, MIN_BYTES, STORED_LEVEL, TYPES, ZSTD,
};
use super::declared::forms::PLAIN_MEDIA_TYPE;
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;

const CONTRADICTION: &str =
    "found beside \"content-encoding\" in \"response_headers\", expected only one of them";

/// The `compress` of a route that changes fields of its responses by `edits`.
pub(super) fn policy(value: &Entry, edits: &HeaderEdits) -> Option<CompressPolicy> {
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
        value.unexpected();
        return None;
    }
    let mut table = value.table()?;
    let mut policy = CompressPolicy::default();
    if let Some(value) = table.optional(&CODINGS) {
        policy.codings = codings(&value);
    }
    if let Some(value) = table.optional(&TYPES) {
        let items = value.list().unwrap_or_default().into_iter();
        policy.types = items.filter_map(|item| item.parsed(media_type)).collect();
    }
    if let Some(bytes) = table.size_bytes(&MIN_BYTES) {
        policy.body_bytes_min = bytes;
    }
    if let Some(section) = table.section(&LEVEL) {
        levels(section, &mut policy.streaming);
    }
    if let Some(section) = table.section(&STORED_LEVEL) {
        levels(section, &mut policy.stored);
    }
    table.finish();
    Some(policy)
}

fn codings(value: &Entry) -> Vec<Coding> {
    let items = value.list().unwrap_or_default();
    if items.is_empty() && value.as_list().is_some() {
        value.wrong("found an empty list, expected at least one coding, or `compress = false`");
    }
    let mut codings = Vec::new();
    for item in items {
        match item.choice(CODING_NAMES) {
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
        _ => Err(format!("expected {}", PLAIN_MEDIA_TYPE.expected)),
    }
}

fn levels(mut table: Entries, levels: &mut Levels) {
    for (key, level) in [
        (&ZSTD, &mut levels.zstd),
        (&BROTLI, &mut levels.brotli),
        (&GZIP, &mut levels.gzip),
    ] {
        if let Some(number) = table.integer(key) {
            *level = number as u8;
        }
    }
    table.finish();
}
