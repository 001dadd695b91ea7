//! `/v1`, carried out.

use bytes::Bytes;
use serde_json::{Value, json};
use weir_gateway::service::{Answer, Ask as Request, Reply};

use super::{Outcome, Store, content, failed};
use crate::api::{self, v1};
use crate::cell::Cell;
use crate::condition;
use crate::coordinator;
use crate::frame::{Ask, What};
use crate::placement::SLOTS;
use crate::tally::{Ended, Kind};
use crate::wall::unix_ms;

const OCTETS: &[u8] = b"application/octet-stream";
const JSON: &[u8] = b"application/json";

impl Store {
    pub(super) fn v1(&self, mut request: Request) -> Reply {
        let query = request.query().unwrap_or_default();
        let (path, fields) = (request.path(), request.fields());
        let at = (self.size(), unix_ms());
        match v1::parse(request.request.method, path, query, fields, at) {
            Err(refusal) => Reply::ready(refusal.answer()),
            Ok(v1::Call::Placement(key)) => Reply::ready(self.placement(key.as_deref())),
            Ok(v1::Call::Batch) => self.batch(&request.body),
            Ok(v1::Call::Range(range)) => self.range_of_all(range),
            Ok(v1::Call::One(mut ask)) => {
                if let Some(answer) = self.redirect(&request, &ask.key) {
                    return Reply::ready(answer);
                }
                if let What::Put { value, .. } = &mut ask.what {
                    *value = content(&mut request);
                }
                self.one(ask)
            }
        }
    }

    fn one(&self, ask: Ask) -> Reply {
        let (kind, condition) = (Kind::of(&ask.what), ask.condition.clone());
        let told = move |outcome| match (kind, outcome) {
            (Kind::Get, Ok(coordinator::Answer::Found(cell))) => found(cell.as_ref(), &condition),
            (kind, outcome) => told(kind, outcome),
        };
        if self.cluster.is_none()
            && kind == Kind::Get
            && let Some(cell) = self.shared.engine.at_hand(&ask.key)
        {
            let answer = told(Ok(coordinator::Answer::Found(Some(cell))));
            self.shared.tally.note(kind, Ended::of_read(answer.status));
            return Reply::ready(answer);
        }
        let (replier, reply) = Reply::later();
        let begun = self.shared.tally.begin(kind);
        let done = move |outcome| {
            let ended = Ended::of(&outcome);
            let answer = told(outcome);
            begun.end(match answer.status {
                412 => Ended::Unmet,
                _ => ended,
            });
            Some((replier, answer))
        };
        self.carry_out(ask, Box::new(done));
        reply
    }

    /// Which nodes there are, and which of them have a key.
    fn placement(&self, key: Option<&[u8]>) -> Answer {
        let layout = self.shared.layout();
        let map = &layout.now.map;
        let nodes = map.nodes().iter().map(|node| {
            json!({
                "id": node.id,
                "address": node.address,
                "is_up": self.is_up(node.id),
                "is_this": node.id == self.shared.me(),
            })
        });
        let mut placement = json!({
            "epoch": map.epoch(),
            "placement": map.rule().scheme.name(),
            "hash": map.rule().hash.name(),
            "slots": SLOTS,
            "replicas": layout.now.replicas,
            "nodes": nodes.collect::<Vec<_>>(),
        });
        if let Some(key) = key {
            let replicas = self.shared.usual_replicas(key);
            let address = |id: &u16| map.nodes().iter().find(|node| node.id == *id);
            let replicas = replicas.iter().filter_map(address);
            let replicas: Vec<Value> = replicas.map(|node| json!(node.address)).collect();
            placement["key"] = json!({ "replicas": replicas });
            if let Some(slot) = map.slot(key) {
                placement["key"]["slot"] = json!(slot.number());
            }
        }
        let text = format!("{placement:#}\n");
        Answer::new(200).with("Content-Type", JSON).content(text)
    }
}

/// What a read found, unless the client has it already.
fn found(cell: Option<&Cell>, condition: &condition::Condition) -> Answer {
    let now_ms = unix_ms();
    let Some((version, value)) = live(cell, now_ms) else {
        let is_unmet = condition.matches.is_some();
        return api::text(if is_unmet { 412 } else { 404 }, "there is no such key");
    };
    let tag = condition::tag(version);
    let first = condition::Condition {
        matches_none: None,
        ..condition.clone()
    };
    if !first.holds(cell, now_ms) {
        return Answer::new(412).with("ETag", tag);
    }
    if !condition.holds(cell, now_ms) {
        return Answer::new(304).with("ETag", tag);
    }
    let answer = Answer::new(200)
        .with("Content-Type", OCTETS)
        .with("ETag", tag);
    let answer = match cell.and_then(|cell| cell.expires_ms) {
        Some(expires_ms) => answer.with("Weir-Expires-Ms", expires_ms.to_string()),
        None => answer,
    };
    answer.content(value)
}

/// The version and the value of a cell, if it has one now.
pub(super) fn live(cell: Option<&Cell>, now_ms: u64) -> Option<(crate::version::Version, Bytes)> {
    let cell = cell?;
    Some((cell.version, cell.at(now_ms)?.clone()))
}

/// The status of what came of something, and what to say of it.
pub(super) fn status(kind: Kind, outcome: &coordinator::Answer) -> (u16, &'static str) {
    match (kind, outcome) {
        (Kind::Get, _) => (200, ""),
        (_, coordinator::Answer::Unmet(_)) => {
            (412, "the value is not the one that the condition names")
        }
        (_, coordinator::Answer::Conflict) => (
            503,
            "another write came in between, and this one may have reached a replica: read, and try again",
        ),
        (_, coordinator::Answer::TooFew) => (504, TOO_FEW),
        (Kind::Put, _) => (201, ""),
        (Kind::Delete, _) => (204, ""),
    }
}

pub(super) const TOO_FEW: &str = "too few replicas answered in time";

fn told(kind: Kind, outcome: Outcome) -> Answer {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return failed(&error),
    };
    let (status, why) = match (kind, &outcome) {
        (Kind::Get, _) => (504, TOO_FEW),
        _ => status(kind, &outcome),
    };
    let answer = if why.is_empty() {
        Answer::new(status)
    } else {
        api::text(status, why)
    };
    match outcome {
        coordinator::Answer::Written(version) if kind == Kind::Put => {
            answer.with("ETag", condition::tag(version))
        }
        coordinator::Answer::Unmet(cell) => match live(cell.as_ref(), unix_ms()) {
            Some((version, _)) => answer.with("ETag", condition::tag(version)),
            None => answer,
        },
        _ => answer,
    }
}
