//! The lines of JSON that `/v1/range` and `/v1/batch` answer with.
//!
//! ```text
//! {"key": "a", "etag": "\"1-2-3\"", "value": "text"}         an entry
//! {"next": "b"}                                            where the rest of a range begins
//! ```
//!
//! What is no UTF-8 comes as base64: a key as `key_base64` or `next_base64`, a value as `base64`. So does a value with so many control
//! characters that their escapes would make it more than twice as long. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::condition;
use crate::version::Version;

/// A line of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A key, its version, and its value.
    Entry(Bytes, Version, Bytes),
    /// The answer ends here, and the rest of the range begins with this key.
    Next(Bytes),
}

impl Line {
    /// What it looks like.
    pub fn json(&self) -> Value {
        let mut line = json!({});
        match self {
            Self::Entry(key, version, value) => {
                put_key(&mut line, "key", key);
                line["etag"] = condition::tag(*version).into();
                put_value(&mut line, value);
            }
            Self::Next(key) => put_key(&mut line, "next", key),
        }
        line
    }

    /// Reads a line; `None` if it is another one.
    pub fn read(text: &[u8]) -> Option<Self> {
        let line: Value = serde_json::from_slice(text).ok()?;
        let bytes = |text: &str, base64: &str| match line[text].as_str() {
            Some(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            None => Some(BASE64.decode(line[base64].as_str()?).ok()?.into()),
        };
        if let Some(next) = bytes("next", "next_base64") {
            return Some(Self::Next(next));
        }
        let version = condition::version_of(line["etag"].as_str()?.as_bytes())?;
        let (key, value) = (bytes("key", "key_base64")?, bytes("value", "base64")?);
        Some(Self::Entry(key, version, value))
    }
}

pub(crate) fn put_value(line: &mut Value, value: &[u8]) {
    match text(value) {
        Some(text) => line["value"] = json!(text),
        None => line["base64"] = json!(BASE64.encode(value)),
    }
}

/// Bytes that a value takes in a line: at most twice as many as it has, and a few.
pub(crate) fn value_bytes(value: &[u8]) -> usize {
    match text(value) {
        Some(_) => escaped_bytes(value),
        None => base64::encoded_len(value.len(), true).unwrap_or(usize::MAX),
    }
}

/// A value as text, if it is some that does not grow too much.
fn text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    (escaped_bytes(value) <= 2 * value.len()).then_some(text)
}

/// Bytes of a text in JSON.
fn escaped_bytes(text: &[u8]) -> usize {
    let bytes = text.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum()
}

pub(crate) fn put_key(line: &mut Value, name: &str, key: &[u8]) {
    match std::str::from_utf8(key) {
        Ok(text) => line[name] = json!(text),
        Err(_) => line[format!("{name}_base64")] = json!(BASE64.encode(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let version = Version {
            time: 0x1a,
            node: 2,
            run: 3,
        };
        let [text, bytes] = [&b"a \" b"[..], b"\xff\0"].map(Bytes::from_static);
        for line in [
            Line::Entry(text.clone(), version, bytes.clone()),
            Line::Entry(bytes.clone(), version, text.clone()),
            Line::Entry(text.clone(), version, Bytes::new()),
            Line::Entry(
                text.clone(),
                version,
                Bytes::from_static(b"{\"a\":\"\\\n\"}"),
            ),
            Line::Entry(text.clone(), version, Bytes::from_static(b"a\0\0\0")),
            Line::Next(text),
            Line::Next(bytes),
        ] {
            assert_eq!(Line::read(line.json().to_string().as_bytes()), Some(line));
        }
        for other in [
            "",
            "{}",
            "[]",
            "{\"key\":\"a\",\"etag\":\"1\",\"value\":\"\"}",
        ] {
            assert_eq!(Line::read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn no_value_takes_much_more_than_twice_what_it_has() {
        for (value, is_text) in [
            (&b""[..], true),
            (b"plain", true),
            (b"{\"a\": \"\\\\\"}", true),
            (b"\r\n\t\x08\x0c", true),
            ("\u{e9}\u{7f}".as_bytes(), true),
            (b"color \x1b[0m", true),
            (b"\0", false),
            (b"\0\0\0a", false),
            (b"\xff", false),
            (&[0; 1000], false),
        ] {
            let mut line = json!({});
            put_value(&mut line, value);
            let name = if is_text { "value" } else { "base64" };
            let written = line[name].to_string();
            // Without the quotes.
            assert_eq!(written.len() - 2, value_bytes(value), "{written}");
            assert!(value_bytes(value) <= 2 * value.len() + 3, "{written}");
        }
    }
}
