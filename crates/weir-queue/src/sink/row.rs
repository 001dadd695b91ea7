//! A message as a row: the value of each column.

use std::borrow::Cow;

use serde_json::Value as Json;

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
    Json(Json),
}

/// A message whose parts are asked for.
pub(crate) struct Row<'a> {
    origin: &'a Origin,
    item: &'a Item,
    message: Message<'a>,
    /// The content, once it was looked into.
    content: Option<Result<Json, String>>,
}

impl<'a> Row<'a> {
    /// `None` when a later version of weir has written the message.
    pub(crate) fn of(origin: &'a Origin, item: &'a Item) -> Option<Self> {
        Some(Self {
            origin,
            item,
            message: item.message()?,
            content: None,
        })
    }

    /// # Errors
    /// Its content is asked for a part, and is no JSON.
    pub(crate) fn value(&mut self, source: &'a Source) -> Result<Value<'a>, String> {
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
            Source::Pointer(pointer) => {
                let body = &self.item.body;
                let content = self.content.get_or_insert_with(|| {
                    let read = serde_json::from_slice(body);
                    read.map_err(|error| format!("its content is no JSON: {error}"))
                });
                let content = content.as_ref().map_err(Clone::clone)?;
                let part = content.pointer(pointer);
                match part {
                    None | Some(Json::Null) => Value::Nothing,
                    Some(part) => Value::Json(part.clone()),
                }
            }
        })
    }

    /// The method, and the path with its query.
    fn line(&self) -> (&'a [u8], &'a [u8]) {
        request_line(self.message.head)
    }
}

/// The value of the first field of this name.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = fields(head);
    let found = fields.find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}
