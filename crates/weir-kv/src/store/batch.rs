//! Many reads and writes in one request: lines of JSON, answered by a line each, in the same order.
//!
//! Each is carried out by itself, and the order is not promised. One that fails says so in its line, and keeps no other from
//! being done. None begins after the client has been answered, or has left: a write that begins takes a version that wins over what
//! was written before.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use weir_gateway::service::{Answer, Content, Replier, Reply};

use super::jobs::{Busy, ROOM_BYTES, Room};
use super::pieces::{NDJSON, PIECE_BYTES, feed};
use super::v1::{TOO_FEW, live, status};
use super::{Doer, Outcome, Store, status_of};
use crate::api::line::{put_key, put_value, value_bytes};
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
const ANSWER_BYTES_MAX: usize = ROOM_BYTES;
/// How long after its beginning a batch begins lines. Among several nodes, one may take two seconds, and its client is to have its answer
/// before the gateway gives up, which is after five.
const BEGINS: Duration = Duration::from_millis(2500);
const BEGINS_ALONE: Duration = Duration::from_secs(4);
/// When it is answered, whatever is known by then.
const ENDS: Duration = Duration::from_millis(4700);

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
        if what == What::Get && !condition.is_none() {
            return Err(Refusal::bad("only a write has a condition"));
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

/// What came of a line.
enum Came {
    /// It has not begun, since it was too late for that.
    Late,
    /// There is no room for its value.
    Large,
    /// It began, and nobody says what came of it.
    Unknown,
    Told(Outcome),
}

/// A batch that is under way.
struct Batch {
    doer: Doer,
    room: Arc<Room>,
    begins_until: Instant,
    ends_at: Instant,
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
        let (doer, now) = (self.doer(), Instant::now());
        let begins = match doer.asker {
            Some(_) => BEGINS,
            None => BEGINS_ALONE,
        };
        let batch = Batch {
            doer,
            room: self.jobs.room(),
            begins_until: now + begins,
            ends_at: now + ENDS,
        };
        match self
            .jobs
            .begin("kv batch", move || batch.run(asks, replier))
        {
            Ok(()) => reply,
            Err(Busy) => Reply::ready(api::busy("too many batches and ranges are under way")),
        }
    }
}

impl Batch {
    fn run(self, asks: Vec<Ask>, replier: Replier) {
        let text = self.carry_out(asks, &replier);
        let answer = Answer::new(200).with("Content-Type", NDJSON);
        if text.len() <= PIECE_BYTES {
            return replier.answer(answer.content(text));
        }
        // This thread, and what it holds, is counted until the client has taken it.
        let (feeder, content) = Content::pieces(Some(text.len() as u64));
        replier.answer(Answer { content, ..answer });
        if feed(&feeder, text) {
            // A client that has left is told nothing.
            let _ = feeder.finish_blocking();
        }
    }

    /// Carries out some at once, and the next ones when these are answered. Values are large, and nobody knows how large.
    fn carry_out(&self, asks: Vec<Ask>, replier: &Replier) -> Vec<u8> {
        let (mut text, mut asks) = (Vec::new(), asks.into_iter());
        loop {
            let window: Vec<Ask> = asks.by_ref().take(WINDOW).collect();
            if window.is_empty() || replier.has_left() {
                return text;
            }
            let lines = window.iter();
            let lines: Vec<(Kind, Bytes)> = lines
                .map(|ask| (Kind::of(&ask.what), ask.key.clone()))
                .collect();
            for ((kind, key), came) in lines.into_iter().zip(self.begin(window)) {
                let came = match came {
                    Came::Told(outcome) if text.len() + bytes(&outcome) > ANSWER_BYTES_MAX => {
                        Came::Large
                    }
                    came => came,
                };
                let line = told(kind, &key, came);
                serde_json::to_writer(&mut text, &line)
                    .expect("a value is JSON, and memory takes it");
                text.push(b'\n');
            }
        }
    }

    /// Begins some, if it is not too late, and waits for what comes of them.
    fn begin(&self, window: Vec<Ask>) -> Vec<Came> {
        let left = self.begins_until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return window.iter().map(|_| Came::Late).collect();
        }
        let until_ms = Some(unix_ms() + left.as_millis() as u64);
        let (tell, told) = mpsc::channel();
        let mut came = Vec::with_capacity(window.len());
        for (at, ask) in window.into_iter().enumerate() {
            if ask.what == What::Get && self.room.is_full() {
                came.push(Came::Large);
                continue;
            }
            came.push(Came::Unknown);
            let begun = self.doer.shared.tally.begin(Kind::of(&ask.what));
            let (tell, room) = (tell.clone(), Arc::clone(&self.room));
            let done = move |outcome| {
                begun.end(Ended::of(&outcome));
                let _ = tell.send((at, fit(outcome, &room)));
                None
            };
            let ask = Ask { until_ms, ..ask };
            self.doer.carry_out(ask, Box::new(done));
        }
        drop(tell);
        let left = || self.ends_at.saturating_duration_since(Instant::now());
        // It ends also when what was to tell is dropped.
        while let Ok((at, outcome)) = told.recv_timeout(left()) {
            came[at] = outcome;
        }
        came
    }
}

/// Bytes that the value of an outcome takes in its line.
fn bytes(outcome: &Outcome) -> usize {
    match outcome {
        Ok(coordinator::Answer::Found(Some(cell))) => cell.value.as_deref().map_or(0, value_bytes),
        _ => 0,
    }
}

/// An outcome without what there is no room for, and without what no line tells.
fn fit(mut outcome: Outcome, room: &Room) -> Came {
    match &mut outcome {
        Ok(coordinator::Answer::Found(Some(cell))) => {
            let bytes = cell.value.as_ref().map_or(0, Bytes::len);
            if !room.take(bytes) {
                return Came::Large;
            }
        }
        Ok(coordinator::Answer::Unmet(Some(cell))) => {
            cell.value = cell.value.take().map(|_| Bytes::new());
        }
        _ => {}
    }
    Came::Told(outcome)
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
        // To serde, an array of as many elements is such a line, too.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(at("expected an object of JSON".to_owned()));
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| at(error.to_string()))?;
        asks.push(
            line.ask(quorum, now_ms)
                .map_err(|refusal| at(refusal.why))?,
        );
    }
    Ok(asks)
}

/// The line that tells of one.
fn told(kind: Kind, key: &Bytes, came: Came) -> Value {
    let mut line = json!({});
    put_key(&mut line, "key", key);
    let mut refuse = |status: u16, why: &str| {
        line["status"] = json!(status);
        line["error"] = json!(why);
    };
    let outcome = match came {
        Came::Late => {
            refuse(503, LATE);
            return line;
        }
        Came::Large => {
            refuse(503, LARGE);
            return line;
        }
        Came::Unknown => {
            refuse(
                504,
                if kind == Kind::Get {
                    NO_ANSWER
                } else {
                    UNKNOWN
                },
            );
            return line;
        }
        Came::Told(Err(error)) => {
            refuse(status_of(&error), &error.to_string());
            return line;
        }
        Came::Told(Ok(outcome)) => outcome,
    };
    let now_ms = unix_ms();
    match outcome {
        coordinator::Answer::Found(cell) => match live(cell.as_ref(), now_ms) {
            None => line["status"] = json!(404),
            Some((version, value)) => {
                line["status"] = json!(200);
                line["etag"] = json!(condition::tag(version));
                if let Some(expires_ms) = cell.and_then(|cell| cell.expires_ms) {
                    line["expires_ms"] = json!(expires_ms);
                }
                put_value(&mut line, &value);
            }
        },
        coordinator::Answer::TooFew => refuse(504, TOO_FEW),
        other => {
            let (status, why) = status(kind, &other);
            line["status"] = json!(status);
            if !why.is_empty() {
                line["error"] = json!(why);
            }
            let version = match &other {
                coordinator::Answer::Written(version) => Some(*version),
                coordinator::Answer::Unmet(cell) => {
                    live(cell.as_ref(), now_ms).map(|(version, _)| version)
                }
                _ => None,
            };
            if let Some(version) = version {
                line["etag"] = json!(condition::tag(version));
            }
        }
    }
    line
}

const LATE: &str = "not begun, since the batch has taken too long: send it again";
const LARGE: &str = "there is no room for it in this answer: ask for fewer keys, or again later";
const NO_ANSWER: &str = "there was no answer in time";
const UNKNOWN: &str = "there was no answer in time, and it is unknown whether it was written";
