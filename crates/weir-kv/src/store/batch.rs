//! Many reads and writes in one request: lines of JSON, answered by a line each, in the same order.
//!
//! Each is carried out by itself, all at once. One that fails says so in its line, and keeps no other from being done.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_gateway::service::{Answer, Replier, Reply};

use super::v1::{Kind, TOO_FEW, live, status};
use super::{Outcome, Store, Told};
use crate::api::{KEY_BYTES_MAX, Refusal, v1};
use crate::condition::{self, Condition, Tags};
use crate::coordinator::{self, Quorum};
use crate::engine::EngineError;
use crate::frame::{Ask, What};
use crate::wall::unix_ms;

/// Lines of a batch.
const LINES_MAX: usize = 1000;
/// Bytes that are answered. Values behind that are not told.
const ANSWER_BYTES_MAX: usize = 64 << 20;
pub(super) const NDJSON: &[u8] = b"application/x-ndjson";

/// A line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    get: Option<String>,
    put: Option<String>,
    delete: Option<String>,
    value: Option<String>,
    base64: Option<String>,
    ttl: Option<String>,
    if_match: Option<String>,
    if_none_match: Option<String>,
}

impl Line {
    fn ask(self, quorum: Quorum, now_ms: u64) -> Result<Ask, Refusal> {
        let tags = |text: &Option<String>, is_weak| {
            let lines = text.iter().map(String::as_bytes);
            Tags::read(lines, is_weak)
        };
        let condition = Condition {
            matches: tags(&self.if_match, false),
            matches_none: tags(&self.if_none_match, true),
        };
        let condition = v1::check_condition(condition)?;
        let is_put = self.put.is_some();
        if !is_put && (self.value.is_some() || self.base64.is_some() || self.ttl.is_some()) {
            return Err(Refusal::bad("only a put has a value and a ttl"));
        }
        let (key, what) = match (self.get, self.put, self.delete) {
            (Some(key), None, None) => (key, What::Get),
            (None, None, Some(key)) => (key, What::Delete),
            (None, Some(key), None) => {
                let value = match (self.value, self.base64) {
                    (Some(text), None) => text.into_bytes(),
                    (None, Some(text)) => BASE64
                        .decode(text)
                        .map_err(|error| Refusal::bad(format!("base64 is none: {error}")))?,
                    _ => return Err(Refusal::bad("a put has either value or base64")),
                };
                let expires_ms = v1::expires_ms(self.ttl.as_deref(), now_ms)?;
                let value = value.into();
                (key, What::Put { value, expires_ms })
            }
            _ => return Err(Refusal::bad("expected one of get, put and delete")),
        };
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Refusal::bad(format!(
                "the key has {} bytes, and may have 1 to {KEY_BYTES_MAX}",
                key.len()
            )));
        }
        Ok(Ask {
            key: key.into(),
            what,
            quorum,
            condition,
        })
    }
}

/// A batch that is under way.
struct Batch {
    lines: Vec<Option<Value>>,
    bytes: usize,
    left: usize,
    replier: Option<Replier>,
}

impl Batch {
    /// One more line is answered; with the last one, the client is.
    fn set(&mut self, at: usize, line: Value, bytes: usize) -> Told {
        self.bytes += bytes;
        self.lines[at] = Some(if self.bytes > ANSWER_BYTES_MAX {
            json!({ "status": 503, "error": "the answers of this batch are too large; ask for fewer keys" })
        } else {
            line
        });
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        let mut text = Vec::with_capacity(self.bytes.min(ANSWER_BYTES_MAX));
        for line in self.lines.iter().flatten() {
            text.extend(line.to_string().bytes());
            text.push(b'\n');
        }
        let answer = Answer::new(200).with("Content-Type", NDJSON).content(text);
        Some((self.replier.take()?, answer))
    }
}

impl Store {
    /// All or nothing is read: a broken line is told before anything is done.
    pub(super) fn batch(&self, body: &[u8]) -> Reply {
        let asks = match read(body, Quorum::majority(self.shared.replicas)) {
            Ok(asks) if asks.is_empty() => Err(Refusal::bad("the batch has no lines")),
            asks => asks,
        };
        let asks = match asks {
            Ok(asks) => asks,
            Err(refusal) => return Reply::ready(refusal.answer()),
        };
        let (replier, reply) = Reply::later();
        let batch = Arc::new(Mutex::new(Batch {
            lines: asks.iter().map(|_| None).collect(),
            bytes: 0,
            left: asks.len(),
            replier: Some(replier),
        }));
        for (at, ask) in asks.into_iter().enumerate() {
            let (batch, kind, key) = (Arc::clone(&batch), Kind::of(&ask.what), ask.key.clone());
            let done = move |outcome| {
                let (line, bytes) = told(kind, &key, outcome);
                let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
                batch.set(at, line, bytes)
            };
            self.carry_out(ask, Box::new(done));
        }
        reply
    }
}

fn read(body: &[u8], quorum: Quorum) -> Result<Vec<Ask>, Refusal> {
    let now_ms = unix_ms();
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut asks = Vec::new();
    for (number, line) in lines {
        let at = |why: String| Refusal::bad(format!("line {}: {why}", number + 1));
        if asks.len() == LINES_MAX {
            return Err(at(format!("a batch has at most {LINES_MAX} lines")));
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| at(error.to_string()))?;
        asks.push(
            line.ask(quorum, now_ms)
                .map_err(|refusal| at(refusal.why))?,
        );
    }
    Ok(asks)
}

/// The line that tells of one, and bytes of it, about.
fn told(kind: Kind, key: &Bytes, outcome: Outcome) -> (Value, usize) {
    let mut line = json!({});
    put_key(&mut line, "key", key);
    let mut bytes = key.len() + 100;
    let mut refuse = |status: u16, why: &str| {
        line["status"] = json!(status);
        line["error"] = json!(why);
    };
    match outcome {
        Err(EngineError::Busy) => refuse(503, &EngineError::Busy.to_string()),
        Err(EngineError::Failed(why)) => refuse(503, &why),
        Ok(coordinator::Answer::Found(cell)) => match live(cell.as_ref(), unix_ms()) {
            None => line["status"] = json!(404),
            Some((version, value)) => {
                bytes += value.len();
                line["status"] = json!(200);
                line["etag"] = json!(condition::tag(version));
                put_value(&mut line, &value);
            }
        },
        Ok(coordinator::Answer::TooFew) => refuse(504, TOO_FEW),
        Ok(other) => {
            let (status, why) = status(kind, &other);
            line["status"] = json!(status);
            if !why.is_empty() {
                line["error"] = json!(why);
            }
            if let coordinator::Answer::Written(version) = other {
                line["etag"] = json!(condition::tag(version));
            }
        }
    }
    (line, bytes)
}

/// A value is `value` where it is text, and `base64` otherwise.
pub(super) fn put_value(line: &mut Value, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(text) => line["value"] = json!(text),
        Err(_) => line["base64"] = json!(BASE64.encode(value)),
    }
}

/// A key is text mostly; where it is not, it comes as `key_base64`.
pub(super) fn put_key(line: &mut Value, name: &str, key: &[u8]) {
    match std::str::from_utf8(key) {
        Ok(text) => line[name] = json!(text),
        Err(_) => line[format!("{name}_base64")] = json!(BASE64.encode(key)),
    }
}
