//! `fallback`: what a client gets whose request was refused or failed.
//!
//! A file is read here, once: what a gateway answers when nothing else works must not depend on a disk.

use weir_gateway::settings::template::Template;
use weir_gateway::settings::{Fallback, Respond};

use super::Around;
use crate::config::action::{CONTENT_TYPE_DEFAULT, media_type, refuse_body_with};
use crate::config::declared::Key;
use crate::config::declared::care::fallback::{
    BODY, CASES, CONTENT_TYPE, FILE, JSON, ON, STALE, STATUS, UPSTREAM,
};
use crate::config::declared::forms::ANSWER_FILE;
use crate::config::entries::Entries;
use crate::config::entry::Entry;
use crate::config::regular;

pub(in crate::config) const FILE_BYTES_MAX: u64 = 1 << 20;
const JSON_TYPE: &str = "application/json";
/// Unless the config says otherwise: it is the service that cannot answer, and it may later.
const STATUS_DEFAULT: u16 = 503;
const BODIES: [&Key; 3] = [&BODY, &JSON, &FILE];

/// Reads a fallback.
pub(super) fn read(value: &Entry, around: &Around) -> Option<Fallback> {
    let mut table = value.table()?;
    let on = table.optional(&ON);
    let on = on.and_then(|value| value.choice(CASES));
    let fallback = Fallback {
        on: on.unwrap_or_default(),
        stale: stale(&mut table, around),
        upstream: upstream(&mut table, around),
        answer: answer(&mut table),
    };
    if !table.has_besides(&ON) {
        value.wrong(
            "found nothing to fall back on, expected at least one of \"stale\", \"upstream\", \"status\", \"body\", \"json\", \"file\"",
        );
    }
    table.finish();
    Some(fallback)
}

fn stale(table: &mut Entries, around: &Around) -> bool {
    let Some(value) = table.optional(&STALE) else {
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

fn upstream(table: &mut Entries, around: &Around) -> Option<usize> {
    let value = table.optional(&UPSTREAM)?;
    let name = value.text()?;
    match around.upstreams.index(name) {
        Ok(index) if around.to.is_only(index) => {
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
fn answer(table: &mut Entries) -> Option<Respond> {
    let status_value = table.optional(&STATUS);
    let status = status_value.as_ref().map_or(Some(STATUS_DEFAULT), |value| {
        value.integer().map(|status| status as u16)
    });
    match content(table) {
        Content::None => {
            status_value?;
            Some(Respond {
                status: status?,
                body: Vec::new(),
                headers: Vec::new(),
            })
        }
        Content::Wrong => None,
        Content::Some {
            body,
            content_type,
            at,
        } => {
            if !body.is_empty() {
                refuse_body_with(status, &at);
            }
            Some(Respond {
                status: status?,
                body,
                headers: vec![("content-type".to_owned(), Template::fixed(content_type))],
            })
        }
    }
}

/// What a table says of a body.
pub(in crate::config) enum Content<'a> {
    /// Nothing.
    None,
    /// Something that is wrong and was reported.
    Wrong,
    /// A body and its type, and where it stands.
    Some {
        body: Vec<u8>,
        content_type: String,
        at: Entry<'a>,
    },
}

/// `content_type`, and one of `body`, `json` and `file`.
pub(in crate::config) fn content<'a>(table: &mut Entries<'a>) -> Content<'a> {
    let content_type_value = table.optional(&CONTENT_TYPE);
    let mut bodies: Vec<(&Key, Entry)> = BODIES
        .into_iter()
        .filter_map(|key| Some((key, table.optional(key)?)))
        .collect();
    bodies.sort_by_key(|(_, value)| value.at());
    let content_type = content_type_value.as_ref();
    let said = content_type.map(|value| value.parsed(media_type));
    let mut bodies = bodies.into_iter();
    let Some((key, value)) = bodies.next() else {
        if let Some(value) = &content_type_value {
            value.wrong(
                "has a meaning only with \"body\", \"json\" or \"file\", expected none here",
            );
        }
        return Content::None;
    };
    for (_, other) in bodies {
        other.wrong(format!(
            "found beside \"{}\", expected only one of them",
            key.name
        ));
    }
    let found = match key.name {
        "body" => value
            .text()
            .map(|text| (text.as_bytes().to_vec(), Some(CONTENT_TYPE_DEFAULT))),
        "json" => value
            .json()
            .map(|json| (json.to_string().into_bytes(), Some(JSON_TYPE))),
        _ => file(&value),
    };
    let Some((body, usual)) = found else {
        return Content::Wrong;
    };
    let content_type = match (said, usual) {
        (Some(said), _) => said,
        (None, Some(usual)) => Some(usual.to_owned()),
        (None, None) => {
            value.expected(
                "a file that ends in .html, .json or .txt, or a \"content_type\" beside it",
            );
            None
        }
    };
    match content_type {
        Some(content_type) => Content::Some {
            body,
            content_type,
            at: value,
        },
        None => Content::Wrong,
    }
}

/// What is in the file, and the type that its name says it has.
fn file(value: &Entry) -> Option<(Vec<u8>, Option<&'static str>)> {
    let directory = value.directory();
    value.parsed(|named| {
        let path = directory.join(named);
        let bytes = regular::beginning(&path, FILE_BYTES_MAX + 1).map_err(|error| {
            let expected = ANSWER_FILE.expected;
            match path.to_str() {
                Some(path) if path != named => {
                    format!("but {path} cannot be read ({error}), expected {expected}")
                }
                _ => format!("which cannot be read ({error}), expected {expected}"),
            }
        })?;
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
