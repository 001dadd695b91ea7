//! Many reads and writes in one request: lines of JSON, answered by a line each, in the same order.
//!
//! Each is carried out by itself, and the order is not promised. One that fails says so in its line, and keeps no other from
//! being done.

use std::sync::mpsc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_gateway::service::{Answer, Reply};

use super::jobs::Busy;
use super::pieces::NDJSON;
use super::v1::{TOO_FEW, live, status};
use super::{Doer, Outcome, Store, status_of};
use crate::api::line::{put_key, put_value};
use crate::api::{self, KEY_BYTES_MAX, Refusal, v1};
use crate::condition::{self, Condition};
use crate::coordinator::{self, Quorum};
use crate::frame::{Ask, What};
use crate::tally::{Ended, Kind};
use crate::wall::unix_ms;

/// Lines of a batch.
const LINES_MAX: usize = 1000;
/// Those that are under way at once.
const WINDOW: usize = 16;
/// Bytes that are answered, about. What would be read behind that is not.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    get: Option<String>,
    get_base64: Option<String>,
    put: Option<String>,
    put_base64: Option<String>,
    delete: Option<String>,
    delete_base64: Option<String>,
    value: Option<String>,
    base64: Option<String>,
    ttl: Option<String>,
    if_match: Option<String>,
    if_none_match: Option<String>,
}

/// A put without its value.
const PUT: What = What::Put {
    value: Bytes::new(),
    expires_ms: None,
};

impl Line {
    fn ask(self, quorum: Quorum, now_ms: u64) -> Result<Ask, Refusal> {
        let tags = |name: &str, text: &Option<String>, is_weak| {
            let lines = text.iter().map(String::as_bytes);
            v1::tags(name, lines, is_weak)
        };
        let condition = Condition {
            matches: tags("if_match", &self.if_match, false)?,
            matches_none: tags("if_none_match", &self.if_none_match, true)?,
        };
        let condition = v1::check_condition(condition)?;
        let keys = [
            (What::Get, self.get, self.get_base64),
            (PUT, self.put, self.put_base64),
            (What::Delete, self.delete, self.delete_base64),
        ];
        let mut keys = keys.into_iter().flat_map(|(what, text, base64)| {
            let text = text.map(|text| Ok(Bytes::from(text)));
            let base64 = base64.map(|base64| v1::decoded_base64(&base64));
            let keys = [text, base64].into_iter().flatten();
            keys.map(move |key| (what.clone(), key))
        });
        let (Some((mut what, key)), None) = (keys.next(), keys.next()) else {
            return Err(Refusal::bad("expected one of get, put and delete"));
        };
        let key = key?;
        let ttl = self.ttl.as_deref();
        match (&mut what, self.value, self.base64) {
            (What::Put { value, expires_ms }, Some(text), None) => {
                *value = text.into();
                *expires_ms = v1::expires_ms(ttl, now_ms)?;
            }
            (What::Put { value, expires_ms }, None, Some(base64)) => {
                let decoded = BASE64.decode(base64);
                let broken = |error| Refusal::bad(format!("base64 is none: {error}"));
                *value = decoded.map_err(broken)?.into();
                *expires_ms = v1::expires_ms(ttl, now_ms)?;
            }
            (What::Put { .. }, ..) => {
                return Err(Refusal::bad("a put has either value or base64"));
            }
            (_, None, None) if ttl.is_none() => {}
            _ => return Err(Refusal::bad("only a put has a value and a ttl")),
        }
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Refusal::bad(format!(
                "the key has {} bytes, and may have 1 to {KEY_BYTES_MAX}",
                key.len()
            )));
        }
        Ok(Ask {
            key,
            what,
            quorum,
            condition,
            until_ms: None,
        })
    }
}

impl Store {
    /// All or nothing is read: a broken line is told before anything is done.
    pub(super) fn batch(&self, body: &[u8]) -> Reply {
        let asks = match read(body, Quorum::majority(self.shared.replication())) {
            Ok(asks) if asks.is_empty() => Err(Refusal::bad("the batch has no lines")),
            asks => asks,
        };
        let asks = match asks {
            Ok(asks) => asks,
            Err(refusal) => return Reply::ready(refusal.answer()),
        };
        let (replier, reply) = Reply::later();
        let doer = self.doer();
        let run = move || replier.answer(carry_out(&doer, asks));
        match self.jobs.begin("kv batch", run) {
            Ok(()) => reply,
            Err(Busy) => Reply::ready(api::busy("too many batches and ranges are under way")),
        }
    }
}

/// Carries out some at once, and the next ones when these are answered. Values are large, and nobody knows how large.
fn carry_out(doer: &Doer, asks: Vec<Ask>) -> Answer {
    let mut text: Vec<u8> = Vec::new();
    let mut asks = asks.into_iter().peekable();
    while asks.peek().is_some() {
        let (answers, answered) = mpsc::channel();
        let mut window = Vec::with_capacity(WINDOW);
        for (at, ask) in asks.by_ref().take(WINDOW).enumerate() {
            window.push((Kind::of(&ask.what), ask.key.clone(), None));
            let is_refused = text.len() > ANSWER_BYTES_MAX && ask.what == What::Get;
            if is_refused {
                continue;
            }
            let answers = answers.clone();
            let begun = doer.shared.tally.begin(Kind::of(&ask.what));
            let done = move |outcome| {
                begun.end(Ended::of(&outcome));
                let _ = answers.send((at, outcome));
                None
            };
            doer.carry_out(ask, Box::new(done));
        }
        drop(answers);
        for (at, outcome) in answered {
            window[at].2 = Some(outcome);
        }
        for (kind, key, outcome) in window {
            let line = told(kind, &key, outcome);
            serde_json::to_writer(&mut text, &line).expect("a value is JSON, and memory takes it");
            text.push(b'\n');
        }
    }
    Answer::new(200).with("Content-Type", NDJSON).content(text)
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

/// The line that tells of one. What has no outcome was not read.
fn told(kind: Kind, key: &Bytes, outcome: Option<Outcome>) -> Value {
    let mut line = json!({});
    put_key(&mut line, "key", key);
    let mut refuse = |status: u16, why: &str| {
        line["status"] = json!(status);
        line["error"] = json!(why);
    };
    match outcome {
        None => refuse(
            503,
            "what this batch has answered so far is too large; ask for fewer keys",
        ),
        Some(Err(error)) => refuse(status_of(&error), &error.to_string()),
        Some(Ok(coordinator::Answer::Found(cell))) => match live(cell.as_ref(), unix_ms()) {
            None => line["status"] = json!(404),
            Some((version, value)) => {
                line["status"] = json!(200);
                line["etag"] = json!(condition::tag(version));
                put_value(&mut line, &value);
            }
        },
        Some(Ok(coordinator::Answer::TooFew)) => refuse(504, TOO_FEW),
        Some(Ok(other)) => {
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
    line
}
