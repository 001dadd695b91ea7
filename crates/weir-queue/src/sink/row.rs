//! A message as a row: the value of each column.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::columns::{Source, fields, request_line};
use super::{Item, Origin};
use crate::message::Message;

/// What is in a column of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Nothing,
    Uuid(u128),
    Number(u64),
    /// Milliseconds since 1970.
    Time(u64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// JSON as it came, which is no string and not null.
    Json(&'a str),
}

/// A message whose parts are asked for.
pub(crate) struct Row<'a> {
    origin: &'a Origin,
    item: &'a Item,
    message: Message<'a>,
}

impl<'a> Row<'a> {
    /// `None` when a later version of weir has written the message.
    pub(crate) fn of(origin: &'a Origin, item: &'a Item) -> Option<Self> {
        Some(Self {
            origin,
            item,
            message: item.message()?,
        })
    }

    /// # Errors
    /// Its content is asked for a part, and is no JSON.
    pub(crate) fn value(&self, source: &'a Source) -> Result<Value<'a>, String> {
        let text = |bytes: &'a [u8]| Value::Text(String::from_utf8_lossy(bytes));
        let optional = |bytes: Option<&'a [u8]>| bytes.map_or(Value::Nothing, text);
        Ok(match source {
            Source::Id => Value::Uuid(self.origin.id(self.item.offset)),
            Source::Offset => Value::Number(self.item.offset),
            Source::Time => Value::Time(self.item.time_ms),
            Source::Queue => Value::Text((&*self.origin.queue).into()),
            Source::Route => Value::Text(self.message.route.into()),
            Source::Key => optional(self.message.key),
            Source::Method => text(self.line().0),
            Source::Path => text(self.line().1),
            Source::Client => Value::Text(self.message.client.to_string().into()),
            Source::Field(name) => optional(field(self.message.head, name.as_bytes())),
            Source::Body => Value::Bytes(&self.item.body),
            Source::Pointer(pointer) => part(&self.item.body, pointer)
                .map_err(|error| format!("its content is no JSON: {error}"))?,
        })
    }

    /// The method, and the path with its query.
    fn line(&self) -> (&'a [u8], &'a [u8]) {
        request_line(self.message.head)
    }
}

/// What a pointer leads to in a content (RFC 6901). Numbers stay as they were written: they may be larger than any that a processor
/// knows.
fn part<'a>(content: &'a [u8], pointer: &str) -> serde_json::Result<Value<'a>> {
    let mut found: &RawValue = serde_json::from_slice(content)?;
    for token in pointer.split('/').skip(1) {
        let inside = match found.get().as_bytes().first() {
            Some(b'{') => {
                let name = token.replace("~1", "/").replace("~0", "~");
                let mut members: HashMap<String, &RawValue> = serde_json::from_str(found.get())?;
                members.remove(&name)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(found.get())?;
                let is_index = token == "0" || !token.starts_with(['0', '+']);
                let index = token.parse::<usize>().ok().filter(|_| is_index);
                index.and_then(|index| items.get(index).copied())
            }
            _ => None,
        };
        let Some(inside) = inside else {
            return Ok(Value::Nothing);
        };
        found = inside;
    }
    Ok(match found.get() {
        "null" => Value::Nothing,
        text if text.starts_with('"') => Value::Text(serde_json::from_str::<String>(text)?.into()),
        other => Value::Json(other),
    })
}

/// The value of the first field of this name.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = fields(head);
    let found = fields.find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_what_was_written() {
        let content = br#"{"a": {"b/c~": [1, {"": 12345678901234567890.10}, null]}, "s": "x\ny", "a": {"b/c~": [true, [2]]}}"#;
        let said = |pointer| part(content, pointer).expect("it is JSON");
        assert_eq!(said("/s"), Value::Text("x\ny".into()));
        // The last of a name holds, as everywhere.
        assert_eq!(said("/a/b~1c~0/0"), Value::Json("true"));
        assert_eq!(said("/a/b~1c~0/1/0"), Value::Json("2"));
        for nowhere in [
            "/x",
            "/s/0",
            "/a/b~1c~0/2",
            "/a/b~1c~0/01",
            "/a/b~1c~0/+1",
            "/a/b~1c~0/-",
        ] {
            assert_eq!(said(nowhere), Value::Nothing, "{nowhere}");
        }
        let number = br#"[{"": 12345678901234567890.10}]"#;
        assert_eq!(
            part(number, "/0/").expect("JSON"),
            Value::Json("12345678901234567890.10")
        );
        assert_eq!(part(b"null", "").expect("JSON"), Value::Nothing);
        assert!(part(b"{", "/a").is_err());
        let deep = "[".repeat(1 << 20);
        assert!(part(deep.as_bytes(), "/0").is_err());
    }
}
