//! Names and values of header fields in a config.
//!
//! Refuses fields that the gateway writes itself: they frame the message or belong to one connection, and a wrong one
//! lets two parsers disagree on where a message ends.

use weir_gateway::settings::HeaderEdits;
use weir_http::head::is_token_byte;
use weir_http::variable::is_same_variable;

use super::declared::route::{REMOVE, SET};
use super::entry::Entry;

/// Fields of the connection or the framing (RFC 9110 §7.6.1, RFC 9112 §6).
const OWNED_BY_THE_GATEWAY: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Which message the fields are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Request,
    Response,
}

/// `{ set = { name = "value" }, remove = ["name"] }`.
pub(super) fn edits(value: &Entry, message: Message) -> HeaderEdits {
    let Some(mut table) = value.table() else {
        return HeaderEdits::default();
    };
    let set = fields(table.named(&SET), message);
    let mut remove = Vec::new();
    let removed = table.optional(&REMOVE);
    for item in removed.and_then(|list| list.list()).unwrap_or_default() {
        let Some(name) = item.parsed(|text| name(text, message)) else {
            continue;
        };
        if name == "host" {
            item.wrong("found \"host\", but a request needs one; expected it in \"set\"");
        } else if let Some((other, _)) = set.iter().find(|(other, _)| is_same(other, &name)) {
            item.wrong(format!(
                "found \"{name}\", which is in \"set\" too{}, expected it only once",
                as_other(other, &name)
            ));
        } else {
            remove.push(name);
        }
    }
    table.finish();
    HeaderEdits { set, remove }
}

/// `{ name = "value" }`: names in lower case, each at most once.
pub(super) fn fields(entries: Vec<(&str, Entry)>, message: Message) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for (text, item) in entries {
        let name = match name(text, message) {
            Ok(name) => name,
            Err(complaint) => {
                item.wrong(format!("found the field {text:?}, {complaint}"));
                continue;
            }
        };
        if let Some((other, _)) = fields.iter().find(|(other, _)| is_same(other, &name)) {
            item.wrong(format!(
                "found the field \"{name}\" again{}, expected it only once",
                as_other(other, &name)
            ));
            continue;
        }
        if let Some(value) = item.parsed(value) {
            fields.push((name, value));
        }
    }
    fields
}

/// Whether an upstream may take both names for one.
fn is_same(one: &str, other: &str) -> bool {
    is_same_variable(one.as_bytes(), other.as_bytes())
}

/// What to say of a name that was found as another one.
fn as_other(other: &str, name: &str) -> String {
    if other == name {
        String::new()
    } else {
        format!(" as \"{other}\", which scripts read as the same")
    }
}

/// Whether `text` is a token (RFC 9110 §5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Reads a value of a field.
pub(super) fn value(text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        return Err("expected a value without control characters".to_owned());
    }
    Ok(text.to_owned())
}

fn name(text: &str, message: Message) -> Result<String, String> {
    if !is_token(text) {
        return Err("expected a field name such as \"x-request-id\"".to_owned());
    }
    let name = text.to_ascii_lowercase();
    if OWNED_BY_THE_GATEWAY.iter().any(|own| is_same(own, &name)) {
        return Err("which the gateway writes itself, expected another field".to_owned());
    }
    if name == "host" && message == Message::Response {
        return Err("which belongs to requests, expected another field".to_owned());
    }
    Ok(name)
}
