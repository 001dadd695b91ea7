//! The service of a route that defers: a request becomes one message or several, and is left with the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_gateway::service::{Ask, Reply, Service};
use weir_http::Fields;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::answer::{Refusal, refused};
use crate::clock;
use crate::inbox::{LETTER_BYTES_MAX, Letter, Part};
use crate::message::{Message, TooLong};
use crate::queue::Queue;
use crate::settings::{Deferral, KeySource};
use crate::shared::add;

/// Messages of one request.
const BATCH_MAX: usize = 10_000;
/// Bytes of a message besides its head and its route, about.
const ENVELOPE_BYTES: usize = 160;
/// Bytes of an `Idempotency-Key`.
const ID_BYTES_MAX: usize = 255;

/// An `Idempotency-Key` with what tells its route apart, and a hash of what was sent.
pub(crate) type Id = (Vec<u8>, u64);

/// The requests of the routes that defer to a queue in the same way.
#[derive(Debug)]
pub struct Deferring {
    queue: Arc<Queue>,
    deferral: Deferral,
    is_drained: AtomicBool,
}

impl Deferring {
    /// Has requests left with `queue`.
    pub fn new(queue: Arc<Queue>, deferral: Deferral) -> Self {
        queue.join();
        Self {
            queue,
            deferral,
            is_drained: AtomicBool::new(false),
        }
    }

    /// Its queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The messages of a request.
    fn letter(&self, mut ask: Ask) -> Result<(Vec<Part>, Option<Id>), Refusal> {
        let id = id_of(&ask)?;
        let expires_ms = self.deferral.ttl.map_or(0, |ttl| {
            clock::now_ms().saturating_add(ttl.as_millis() as u64)
        });
        let body = std::mem::take(&mut ask.body);
        let as_message = |head: &[u8], body: &[u8], part| {
            let key = self.key(&ask, body);
            let message = Message {
                scheme: ask.scheme,
                expires_ms,
                part,
                client: ask.client,
                peer: ask.peer,
                route: &ask.route,
                upstream: ask.upstream.as_deref().unwrap_or_default(),
                key: key.as_deref(),
                id: id.as_ref().map(|(id, content)| (&**id, *content)),
                head,
            };
            let mut bytes = Vec::with_capacity(96 + ask.route.len() + head.len());
            message.write(&mut bytes).map(|()| bytes)
        };
        let parts = if self.deferral.is_batch {
            if value_of(ask.fields(), "content-encoding").is_some() {
                return Err(Refusal::Encoded);
            }
            let lines = lines(&body).ok_or(Refusal::BadBatch)?;
            let count = lines.len() as u32;
            let each = ask.head.len() + ask.route.len() + ENVELOPE_BYTES;
            let bytes_max = (4 * self.body_bytes_max() as usize).min(LETTER_BYTES_MAX);
            if body.len() + lines.len() * each > bytes_max {
                return Err(Refusal::TooMuch);
            }
            let parts = lines.into_iter().enumerate().map(|(number, line)| {
                let head = head_of_line(&ask, line.len());
                let head = as_message(&head, line, (number as u32, count))?;
                Ok(Part {
                    head,
                    body: line.to_vec(),
                })
            });
            parts.collect::<Result<_, TooLong>>()
        } else {
            as_message(&ask.head, &body, (0, 1)).map(|head| vec![Part { head, body }])
        };
        parts.map(|parts| (parts, id)).map_err(|_| Refusal::TooLong)
    }

    /// What the message must not overtake.
    fn key(&self, ask: &Ask, body: &[u8]) -> Option<Vec<u8>> {
        match self.deferral.key.as_ref()? {
            KeySource::Field(name) => value_of(ask.fields(), name).map(<[u8]>::to_vec),
            KeySource::Parameter(name) => {
                let mut parameters = ask.parameters.iter();
                let found = parameters.find(|(own, _)| **own == **name);
                found.map(|(_, value)| value.as_bytes().to_vec())
            }
            KeySource::Pointer(pointer) => {
                let content: serde_json::Value = serde_json::from_slice(body).ok()?;
                let value = content.pointer(pointer)?;
                Some(
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned)
                        .into_bytes(),
                )
            }
        }
    }
}

impl Service for Deferring {
    fn body_bytes_max(&self) -> u64 {
        self.queue.settings().message_bytes_max
    }

    fn call(&self, ask: Ask) -> Reply {
        let (parts, id) = match self.letter(ask) {
            Ok(letter) => letter,
            Err(refusal) => return Reply::ready(refused(refusal)),
        };
        let (replier, reply) = Reply::later();
        let letter = Letter {
            parts,
            id,
            replier: Some(replier),
        };
        if self.queue.inbox().put(letter).is_ok() {
            return reply;
        }
        add(&self.queue.shared().counts.refused_busy, 1);
        Reply::ready(refused(Refusal::Busy))
    }

    fn drain(&self) {
        if !self.is_drained.swap(true, Ordering::AcqRel) {
            self.queue.leave();
        }
    }

    fn is_drained(&self) -> bool {
        self.queue.is_drained()
    }
}

impl Drop for Deferring {
    fn drop(&mut self) {
        self.drain();
    }
}

/// The `Idempotency-Key` of a request, with what tells its route apart, and a hash of what it sends.
fn id_of(ask: &Ask) -> Result<Option<Id>, Refusal> {
    let Some(key) = value_of(ask.fields(), "idempotency-key") else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > ID_BYTES_MAX {
        return Err(Refusal::BadId);
    }
    let mut id = Vec::with_capacity(ask.route.len() + 1 + key.len());
    id.extend(ask.route.as_bytes());
    id.push(0);
    id.extend(key);
    // Who does not say who he is in the same way is somebody else: he learns nothing of this request by its key.
    let who = value_of(ask.fields(), "authorization").unwrap_or_default();
    id.extend(xxh3_64(who).to_le_bytes());
    let mut hash = Xxh3::new();
    hash.update(
        ask.head
            .split(|&byte| byte == b'\r')
            .next()
            .unwrap_or_default(),
    );
    hash.update(b"\r");
    hash.update(&ask.body);
    Ok(Some((id, hash.digest())))
}

/// The value of the first field of this name.
fn value_of<'a>(fields: Fields<'a>, name: &str) -> Option<&'a [u8]> {
    fields.named(name.as_bytes()).next()
}

/// The lines that are not blank; `None` when there are none or too many.
fn lines(body: &[u8]) -> Option<Vec<&[u8]>> {
    let lines = body.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<_> = lines
        .filter(|line| !line.is_empty())
        .take(BATCH_MAX + 1)
        .collect();
    (1..=BATCH_MAX).contains(&lines.len()).then_some(lines)
}

/// The head of the request as a line of it has it: its own length, and JSON.
fn head_of_line(ask: &Ask, length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(ask.head.len() + 16);
    let mut rest = ask.head.split_inclusive(|&byte| byte == b'\n');
    head.extend(rest.next().unwrap_or_default());
    for line in rest {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        // One key for all of them would make the upstream take the first for each.
        let is_own = ["content-length", "content-type", "idempotency-key"];
        let is_own = is_own
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
        if line == b"\r\n" {
            head.extend(
                format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
                    .bytes(),
            );
        } else if !is_own {
            head.extend(line);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_lines() {
        assert_eq!(
            lines(b"{}\r\n\n  {\"a\":1} \n"),
            Some(vec![&b"{}"[..], b"{\"a\":1}"])
        );
        assert_eq!(lines(b"\n \n"), None);
        assert_eq!(
            lines(&b"1\n".repeat(BATCH_MAX)).map(|lines| lines.len()),
            Some(BATCH_MAX)
        );
        assert_eq!(lines(&b"1\n".repeat(BATCH_MAX + 1)), None);
    }
}
