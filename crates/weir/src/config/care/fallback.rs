//! `fallback`: what a client gets whose request was refused or failed.
//!
//! A file is read here, once: what a gateway answers when nothing else works must not depend on a disk.

use std::path::Path;

use weir_gateway::settings::{Fallback, FallbackOn, Respond};

use super::Around;
use crate::config::action::{
    CONTENT_TYPE_DEFAULT, MEDIA_TYPE_EXPECTED, RESPOND_STATUSES, media_type, refuse_body_with,
};
use crate::config::read::Table;
use crate::config::regular;
use crate::config::value::Value;

const EXAMPLE: &str = "{ status = 503, body = \"busy\" }";
const FILE_EXPECTED: &str = "the path of a file such as \"sorry.html\"";
pub(in crate::config) const FILE_BYTES_MAX: u64 = 1 << 20;
const JSON_EXPECTED: &str = "a table or a list such as `{ error = \"busy\" }`";
const JSON_TYPE: &str = "application/json";
/// Unless the config says otherwise: it is the service that cannot answer, and it may later.
const STATUS_DEFAULT: u16 = 503;
const BODIES: [&str; 3] = ["body", "json", "file"];

/// Reads a fallback.
pub(super) fn read(value: &Value, around: &Around) -> Option<Fallback> {
    let mut table = value.table(EXAMPLE)?;
    let on = table.optional("on");
    let on = on.and_then(|value| {
        value.choice(&[
            ("any", FallbackOn::Any),
            ("refused", FallbackOn::Refused),
            ("failed", FallbackOn::Failed),
        ])
    });
    let fallback = Fallback {
        on: on.unwrap_or_default(),
        stale: stale(&mut table, around),
        upstream: upstream(&mut table, around),
        answer: answer(&mut table),
    };
    let has_any = |table: &Table| table.entries().iter().any(|(key, _)| *key != "on");
    if !has_any(&table) {
        value.wrong(
            "found nothing to fall back on, expected at least one of \"stale\", \"upstream\", \"status\", \"body\", \"json\", \"file\"",
        );
    }
    table.finish();
    Some(fallback)
}

fn stale(table: &mut Table, around: &Around) -> bool {
    let Some(value) = table.optional("stale") else {
        return false;
    };
    let stale = value.boolean().unwrap_or(false);
    if stale && !around.has_cache {
        value.wrong(
            "found true on a route that stores nothing, expected a \"cache\" beside \"fallback\"",
        );
    }
    stale
}

fn upstream(table: &mut Table, around: &Around) -> Option<usize> {
    let value = table.optional("upstream")?;
    let name = value.text("the name of an upstream")?;
    match around.upstreams.index(name) {
        Ok(index) if around.upstream == Some(index) => {
            value.expected("another upstream than the route's own");
            None
        }
        Ok(index) => Some(index),
        Err(complaint) => {
            value.wrong(complaint);
            None
        }
    }
}

/// `status`, `content_type`, and one of `body`, `json` and `file`.
fn answer(table: &mut Table) -> Option<Respond> {
    let status_value = table.optional("status");
    let content_type_value = table.optional("content_type");
    let mut bodies: Vec<(&str, Value)> = BODIES
        .into_iter()
        .filter_map(|key| Some((key, table.optional(key)?)))
        .collect();
    bodies.sort_by_key(|(_, value)| value.at());
    let status = status_value.as_ref().map_or(Some(STATUS_DEFAULT), |value| {
        value.integer(RESPOND_STATUSES).map(|status| status as u16)
    });
    let content_type = content_type_value.as_ref();
    let said = content_type.map(|value| value.parsed(MEDIA_TYPE_EXPECTED, media_type));
    let Some((first, others)) = bodies.split_first() else {
        if let Some(value) = &content_type_value {
            value.wrong(
                "has a meaning only with \"body\", \"json\" or \"file\", expected none here",
            );
        }
        status_value?;
        return Some(Respond {
            status: status?,
            body: Vec::new(),
            headers: Vec::new(),
        });
    };
    let (key, value) = first;
    for (_, other) in others {
        other.wrong(format!("found beside \"{key}\", expected only one of them"));
    }
    let (body, usual) = match *key {
        "body" => (
            value.text("a string")?.as_bytes().to_vec(),
            Some(CONTENT_TYPE_DEFAULT),
        ),
        "json" => (json(value)?, Some(JSON_TYPE)),
        _ => file(value)?,
    };
    if !body.is_empty() {
        refuse_body_with(status, value);
    }
    let content_type = match (said, usual) {
        (Some(said), _) => said?,
        (None, Some(usual)) => usual.to_owned(),
        (None, None) => {
            value.expected(
                "a file that ends in .html, .json or .txt, or a \"content_type\" beside it",
            );
            return None;
        }
    };
    Some(Respond {
        status: status?,
        body,
        headers: vec![("content-type".to_owned(), content_type)],
    })
}

fn json(value: &Value) -> Option<Vec<u8>> {
    if !value.is_table() && value.as_list().is_none() {
        value.expected(JSON_EXPECTED);
        return None;
    }
    value.json().map(|json| json.to_string().into_bytes())
}

/// What is in the file, and the type that its name says it has.
fn file(value: &Value) -> Option<(Vec<u8>, Option<&'static str>)> {
    value.parsed(FILE_EXPECTED, |path| {
        let path = Path::new(path);
        let bytes = regular::beginning(path, FILE_BYTES_MAX + 1)
            .map_err(|error| format!("which cannot be read ({error}), expected {FILE_EXPECTED}"))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("expected a file of at most {FILE_BYTES_MAX} bytes"));
        }
        let usual = match path.extension().and_then(|extension| extension.to_str()) {
            Some("html" | "htm") => Some("text/html; charset=utf-8"),
            Some("json") => Some(JSON_TYPE),
            Some("txt") => Some(CONTENT_TYPE_DEFAULT),
            _ => None,
        };
        Ok((bytes, usual))
    })
}
