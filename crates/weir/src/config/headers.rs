//! Names and values of header fields in a config.
//!
//! Refuses fields that the gateway writes itself: they frame the message or belong to one connection, and a wrong one
//! lets two parsers disagree on where a message ends.

use weir_gateway::settings::template::{Known, Template};
use weir_gateway::settings::{HeaderEdits, ResponseHeaders};
use weir_http::head::is_token_byte;
use weir_http::host;
use weir_http::variable::is_same_variable;

use super::declared::route::{ADD, ALWAYS, REMOVE, SET};
use super::entries::Entries;
use super::entry::Entry;
use super::template::{Scope, template};

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

/// `{ set = { name = "value" }, add = { name = "value" }, remove = ["name"] }`.
pub(super) fn edits(value: &Entry, parameters: &[String]) -> HeaderEdits {
    let Some(mut table) = value.table() else {
        return HeaderEdits::default();
    };
    let edits = changes(&mut table, Of::request(parameters));
    table.finish();
    edits
}

/// The same for answers, with `always = { name = "value" }` beside it.
pub(super) fn of_answers(value: &Entry, parameters: &[String]) -> ResponseHeaders {
    let Some(mut table) = value.table() else {
        return ResponseHeaders::default();
    };
    let of = Of::answer(parameters);
    let usual = changes(&mut table, of);
    let always = fields(table.named(&ALWAYS), of);
    table.finish();
    ResponseHeaders { usual, always }
}

/// What fields are for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    message: Message,
    scope: Scope<'a>,
}

impl<'a> Of<'a> {
    fn request(parameters: &'a [String]) -> Self {
        Self {
            message: Message::Request,
            scope: Scope {
                known: Known::WithRequest,
                only: None,
                parameters,
            },
        }
    }

    pub(super) fn answer(parameters: &'a [String]) -> Self {
        Self {
            message: Message::Response,
            scope: Scope {
                known: Known::WithAnswer,
                only: None,
                parameters,
            },
        }
    }
}

impl Of<'_> {
    fn value(self, item: &Entry) -> Option<Template> {
        item.parsed_template(|text| template(&value(text)?, self.scope))
    }
}

fn changes(table: &mut Entries, of: Of<'_>) -> HeaderEdits {
    let set = fields(table.named(&SET), of);
    let mut add = Vec::new();
    for (text, item) in table.named(&ADD) {
        let name = name_of(text, &item, of.message);
        if name.as_deref() == Some("host") {
            item.wrong("found \"host\", of which a request has one; expected it in \"set\"");
        } else if let Some((name, value)) = name.zip(of.value(&item)) {
            report_again(&item, &name, &set);
            add.push((name, value));
        }
    }
    let mut remove = Vec::new();
    let removed = table.optional(&REMOVE);
    for item in removed.and_then(|list| list.list()).unwrap_or_default() {
        let Some(name) = item.parsed(|text| name(text, of.message)) else {
            continue;
        };
        if name == "host" {
            item.wrong("found \"host\", but a request needs one; expected it in \"set\"");
        } else if !report_again(&item, &name, &set) {
            remove.push(name);
        }
    }
    HeaderEdits { set, add, remove }
}

/// Reports a name that is among those that are set.
fn report_again(item: &Entry, name: &str, set: &[(String, Template)]) -> bool {
    let other = set.iter().find(|(other, _)| is_same(other, name));
    if let Some((other, _)) = other {
        item.wrong(format!(
            "found \"{name}\", which is in \"set\" too{}, expected it only once",
            as_other(other, name)
        ));
    }
    other.is_some()
}

/// `{ name = "value" }`: names in lower case, each at most once.
pub(super) fn fields(entries: Vec<(&str, Entry)>, of: Of<'_>) -> Vec<(String, Template)> {
    by_name(entries, of.message, |name, item| {
        let value = of.value(item)?;
        let fixed = value.as_fixed().filter(|_| name == "host");
        if fixed.is_some_and(|text| host::name(text.as_bytes()).is_err()) {
            item.expected("a host such as \"app.example.com\" or \"app.example.com:8080\"");
        }
        Some(value)
    })
}

/// `{ name = … }`: what `read` makes of each. Names are in lower case, each at most once.
pub(super) fn by_name<T>(
    entries: Vec<(&str, Entry)>,
    message: Message,
    read: impl Fn(&str, &Entry) -> Option<T>,
) -> Vec<(String, T)> {
    let mut fields: Vec<(String, T)> = Vec::new();
    for (text, item) in entries {
        let Some(name) = name_of(text, &item, message) else {
            continue;
        };
        if let Some((other, _)) = fields.iter().find(|(other, _)| is_same(other, &name)) {
            item.wrong(format!(
                "found the field \"{name}\" again{}, expected it only once",
                as_other(other, &name)
            ));
            continue;
        }
        if let Some(value) = read(&name, &item) {
            fields.push((name, value));
        }
    }
    fields
}

/// The name of a field, which is the key of its entry.
fn name_of(text: &str, item: &Entry, message: Message) -> Option<String> {
    match name(text, message) {
        Ok(name) => Some(name),
        Err(complaint) => {
            item.wrong(format!("found the field {text:?}, {complaint}"));
            None
        }
    }
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

pub(super) fn name(text: &str, message: Message) -> Result<String, String> {
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
