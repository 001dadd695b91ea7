//! `headers` and `query` of a route.

use weir_gateway::settings::{Conditions, Wanted};

use crate::config::declared::route::conditions::{HEADERS_WANTED, QUERY_WANTED};
use crate::config::entries::Entries;
use crate::config::entry::Entry;
use crate::config::headers::{self, Message};

/// Reads both. What has a mistake in it has been reported, and is left out.
pub(super) fn read(table: &mut Entries) -> Conditions {
    let mut wanted_headers = headers::by_name(
        table.named(&HEADERS_WANTED),
        Message::Request,
        |name, item| {
            if name == "host" {
                item.wrong("found the field \"host\", expected the key \"host\" of the route");
                return None;
            }
            wanted(item, |text| {
                let value = headers::value(text)?;
                // A head is read without the blanks around a value.
                if value.trim() != value {
                    return Err("expected a value without blanks around it".to_owned());
                }
                Ok(value)
            })
        },
    );
    let mut wanted_query: Vec<(String, Wanted)> = Vec::new();
    for (name, item) in table.named(&QUERY_WANTED) {
        if name.is_empty() || name.contains(char::is_control) {
            item.wrong(format!(
                "found the parameter {name:?}, expected a name as it is read, not empty"
            ));
        } else if let Some(wanted) = wanted(&item, headers::value) {
            wanted_query.push((name.to_owned(), wanted));
        }
    }
    // Conditions are the same in any order.
    wanted_headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    wanted_query.sort_by(|(one, _), (other, _)| one.cmp(other));
    Conditions {
        headers: wanted_headers,
        query: wanted_query,
    }
}

fn wanted(item: &Entry, value: impl FnOnce(&str) -> Result<String, String>) -> Option<Wanted> {
    match item.as_bool() {
        Some(true) => Some(Wanted::Present),
        Some(false) => Some(Wanted::Absent),
        None => item.parsed(value).map(Wanted::Value),
    }
}
