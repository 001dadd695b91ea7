//! Keys that a path cannot have: they are named in a batch of one line.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Value, json};
use weir_kv::client::{Entry, PutOptions, Written};
use weir_kv::condition::{self, Condition};
use weir_kv::version::Version;

use super::{Http, tags};

/// Whether a path may have this key. What servers on the way resolve, cut off or decode once more, a gateway refuses, or takes for
/// another key; this refuses rather more than that.
pub(super) fn fits_a_path(key: &[u8]) -> bool {
    let is_plain = |byte: &u8| !b"\0%;\\".contains(byte);
    let mut pieces = key.split(|byte| *byte == b'/');
    key.iter().all(is_plain) && pieces.all(|piece| !matches!(piece, b"" | b"." | b".."))
}

impl Http {
    pub(super) fn get_by_batch(&mut self, key: &[u8]) -> anyhow::Result<Option<Entry>> {
        let mut line = json!({});
        put_bytes(&mut line, ("get", "get_base64"), key);
        let told = self.line(&line, true)?;
        match status_of(&told) {
            200 => {
                let bytes = |name: &str| told[name].as_str();
                let value = match (bytes("value"), bytes("base64")) {
                    (Some(text), _) => Some(Bytes::copy_from_slice(text.as_bytes())),
                    (None, Some(base64)) => BASE64.decode(base64).ok().map(Bytes::from),
                    (None, None) => None,
                };
                Ok(Some(Entry {
                    value: value.with_context(|| self.is_no_store())?,
                    version: version(&told).with_context(|| self.is_no_store())?,
                    expires_ms: told["expires_ms"].as_u64(),
                }))
            }
            404 => Ok(None),
            status => Err(self.refused(status, error_of(&told))),
        }
    }

    pub(super) fn put_by_batch(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
    ) -> anyhow::Result<Written> {
        let mut line = json!({});
        put_bytes(&mut line, ("put", "put_base64"), key);
        put_bytes(&mut line, ("value", "base64"), value);
        if let Some(ttl) = options.ttl {
            line["ttl"] = json!(format!("{}ms", ttl.as_millis()));
        }
        self.write(line, &options.condition)
    }

    pub(super) fn delete_by_batch(
        &mut self,
        key: &[u8],
        condition: &Condition,
    ) -> anyhow::Result<Written> {
        let mut line = json!({});
        put_bytes(&mut line, ("delete", "delete_base64"), key);
        self.write(line, condition)
    }

    fn write(&mut self, mut line: Value, condition: &Condition) -> anyhow::Result<Written> {
        let conditions = [
            ("if_match", &condition.matches),
            ("if_none_match", &condition.matches_none),
        ];
        for (name, condition) in conditions {
            if let Some(condition) = condition {
                line[name] = json!(tags(condition));
            }
        }
        let told = self.line(&line, false)?;
        match (status_of(&told), version(&told)) {
            (201 | 204, version) => Ok(Written::Done(version.unwrap_or_default())),
            (412, version) => Ok(Written::Unmet(version.map(|version| Entry {
                value: Bytes::new(),
                version,
                expires_ms: None,
            }))),
            (status, _) => Err(self.refused(status, error_of(&told))),
        }
    }

    /// What is told of the only line of a batch.
    fn line(&mut self, line: &Value, is_read: bool) -> anyhow::Result<Value> {
        let body = format!("{line}\n");
        let answer = self.client.ask("POST", "/v1/batch", "", body.as_bytes());
        let answer = answer.map_err(|error| self.unanswered(&error, is_read))?;
        if answer.status != 200 {
            return Err(self.refused(answer.status, &answer.body));
        }
        serde_json::from_slice(&answer.body).with_context(|| self.is_no_store())
    }
}

fn put_bytes(line: &mut Value, (text, base64): (&str, &str), bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(bytes) => line[text] = json!(bytes),
        Err(_) => line[base64] = json!(BASE64.encode(bytes)),
    }
}

fn status_of(told: &Value) -> u16 {
    let status = told["status"].as_u64();
    status
        .and_then(|status| status.try_into().ok())
        .unwrap_or(0)
}

fn version(told: &Value) -> Option<Version> {
    condition::version_of(told["etag"].as_str()?.as_bytes())
}

fn error_of(told: &Value) -> &[u8] {
    told["error"].as_str().unwrap_or_default().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_change_in_a_path_is_not_put_there() {
        for (key, fits) in [
            (&b"a"[..], true),
            (b"user/7", true),
            (b"a b\xff?#&..c/.d", true),
            (b"a/../b", false),
            (b"..", false),
            (b"a/.", false),
            (b"a//b", false),
            (b"/a", false),
            (b"a/", false),
            (b"a\0", false),
            (b"%2e", false),
            (b"..;", false),
            (b"a\\b", false),
        ] {
            assert_eq!(fits_a_path(key), fits, "{}", key.escape_ascii());
        }
    }
}
