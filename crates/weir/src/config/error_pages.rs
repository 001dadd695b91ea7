//! `error_pages` of a route and of the file. Bodies are read here, once: what is answered when nothing works must not depend
//! on a disk.

use std::ops::RangeInclusive;

use weir_gateway::settings::{ErrorPage, ErrorPages};

use super::care::fallback::{Content, content};
use super::declared::route::error_pages::UPSTREAM_TOO;
use super::entry::Entry;

/// Reads the pages by their statuses.
pub(super) fn pages(named: Vec<(&str, Entry)>) -> ErrorPages {
    let mut pages: Vec<ErrorPage> = named.into_iter().filter_map(page).collect();
    // What is told of one status holds before what is told of its class.
    pages.sort_by_key(|page| page.statuses.end() - page.statuses.start());
    ErrorPages { pages }
}

fn page((name, value): (&str, Entry)) -> Option<ErrorPage> {
    let statuses = statuses(name);
    if statuses.is_none() {
        value.wrong(format!(
            "found the status {name:?}, expected one from 400 to 599, or \"4xx\" or \"5xx\""
        ));
    }
    let mut table = value.table()?;
    let content = content(&mut table);
    let replaces_upstream = table.boolean(&UPSTREAM_TOO);
    if matches!(content, Content::None) {
        value.wrong("found no page, expected one of \"body\", \"json\", \"file\"");
    }
    table.finish();
    let Content::Some {
        body, content_type, ..
    } = content
    else {
        return None;
    };
    Some(ErrorPage {
        statuses: statuses?,
        body: body.into(),
        content_type,
        replaces_upstream: replaces_upstream.unwrap_or(false),
    })
}

fn statuses(name: &str) -> Option<RangeInclusive<u16>> {
    match name {
        "4xx" => Some(400..=499),
        "5xx" => Some(500..=599),
        name if name.len() == 3 && name.bytes().all(|b| b.is_ascii_digit()) => {
            let status = name.parse().ok()?;
            (400..=599).contains(&status).then_some(status..=status)
        }
        _ => None,
    }
}
