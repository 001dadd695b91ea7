//! Messages that were given up: a log of their own, from which they can be delivered after all.
//!
//! ```text
//!  head: 0        1        9          13       21       23                                      body: as the message had it
//!        ├────────┼────────┼──────────┼────────┼────────┼───────┬────────────┬───────┬─────────┐
//!        │ version│ offset │ attempts │ came ms│ length │ reason│ length (2) │ error │ message │
//!        └────────┴────────┴──────────┴────────┴────────┴───────┴────────────┴───────┴─────────┘
//! ```
//!
//! Numbers are little-endian. `offset` is the one that the message had, `came` its time, `message` its envelope. Version 1 had no `came`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use weir_log::{Cursor, Disk, Error, Log, Readable, Settings};

use crate::group::Kept;
use crate::message::Message;
use crate::ranges::Ranges;

const VERSION: u8 = 2;
/// Dead letters of a queue; a group that has as many stops until some are seen to.
pub(crate) const DEAD_MAX: usize = 100_000;
/// Dead letters that are shown without being asked for.
pub(crate) const DEAD_SHOWN: usize = 5;
/// A log of one segment that has as much is not worth another one.
const EMPTY_BYTES: u64 = 64 << 10;
/// Bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 500;

/// The dead letters of a group.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    log: Log,
    cursor: Cursor,
    /// Those that are there: their offsets in this log, and those that they had.
    there: BTreeMap<u64, u64>,
    /// By the offsets that they had.
    by_offset: BTreeMap<u64, u64>,
    /// Those that are there no longer.
    gone: Ranges,
}

/// Why a message was given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death<'a> {
    pub(crate) offset: u64,
    pub(crate) attempts: u32,
    /// When the message came.
    pub(crate) came_ms: u64,
    /// `refused`, `attempts`, `age` or `expired`.
    pub(crate) reason: &'a str,
    /// What its last attempt has come to.
    pub(crate) error: &'a str,
}

/// A dead letter, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// Its number among the dead letters.
    pub id: u64,
    /// The offset that it had.
    pub offset: u64,
    /// When it was given up, in milliseconds since 1970.
    pub time_ms: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// `refused`, `attempts`, `age` or `expired`.
    pub reason: String,
    /// What its last attempt has come to.
    pub error: String,
    /// The name of the route that it came by.
    pub route: String,
    /// The name of the upstream that it is for.
    pub upstream: String,
    /// What it is ordered by, if that is text.
    pub key: Option<String>,
    /// The first line of the request.
    pub request: String,
    /// Bytes of its content.
    pub bytes: usize,
}

impl DeadLetters {
    /// Opens the log; `gone` are those that are no longer there.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        (segment_bytes, seed): (u64, u64),
        gone: Vec<(u64, u64)>,
    ) -> Result<Self, Error> {
        let settings = Settings {
            segment_bytes,
            readable: Readable::Durable,
            seed,
        };
        let (mut log, _) = Log::open(disk, settings)?;
        let gone = Ranges::of(gone);
        // What the journal knows of letters that a crash of the machine took back.
        log.skip_to(gone.iter().last().map_or(0, |(_, end)| end))?;
        let cursor = log.read_from(log.first_offset());
        let mut letters = Self {
            log,
            cursor,
            there: BTreeMap::new(),
            by_offset: BTreeMap::new(),
            gone,
        };
        while let Some(record) = letters.cursor.read()? {
            if !letters.gone.contains(record.offset)
                && let Some((death, _)) = read(record.head)
            {
                letters.there.insert(record.offset, death.offset);
                letters.by_offset.insert(death.offset, record.offset);
            }
        }
        Ok(letters)
    }

    /// Takes a message, durably. Says which one of the same message is over with that.
    pub(crate) fn bury(
        &mut self,
        now_ms: u64,
        death: Death<'_>,
        (head, body): (&[u8], &[u8]),
    ) -> Result<Option<u64>, Error> {
        let error = death.error.as_bytes();
        let error = &error[..error.len().min(ERROR_BYTES_MAX)];
        let mut bytes = vec![VERSION];
        bytes.extend(death.offset.to_le_bytes());
        bytes.extend(death.attempts.to_le_bytes());
        bytes.extend(death.came_ms.to_le_bytes());
        for text in [death.reason.as_bytes(), error] {
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text);
        }
        bytes.extend(head);
        let id = self.log.append(now_ms, &bytes, body)?;
        self.log.write()?;
        self.log.sync()?;
        let before = self.by_offset.insert(death.offset, id);
        if let Some(before) = before {
            self.forget(before);
        }
        self.there.insert(id, death.offset);
        Ok(before)
    }

    /// They are no longer there: delivered after all, or dropped.
    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(offset) = self.there.get(&id).copied() {
            self.forget(id);
            if self.by_offset.get(&offset) == Some(&id) {
                self.by_offset.remove(&offset);
            }
        }
        let first = self.there.keys().next().copied();
        let next = self.log.next_offset();
        // The segment that is written stays, so when nothing is left there is another one. What stays because of an error goes with
        // the next one.
        if first.is_none() && self.log.bytes() > EMPTY_BYTES {
            let _ = self.log.skip_to(next + 1);
        }
        let needed = first.unwrap_or(self.log.next_offset());
        while matches!(self.log.drop_oldest(needed, 0, 0), Ok(Some(_))) {}
    }

    fn forget(&mut self, id: u64) {
        self.there.remove(&id);
        self.gone.insert(id, id + 1);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.there.len() >= DEAD_MAX
    }

    pub(crate) fn len(&self) -> usize {
        self.there.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Those that are no longer there.
    pub(crate) fn gone(&self) -> Vec<(u64, u64)> {
        self.gone.iter().collect()
    }

    /// Numbers from `after` on, of those that are there.
    pub(crate) fn ids(&self, from: u64) -> impl Iterator<Item = u64> {
        self.there.range(from..).map(|(&id, _)| id)
    }

    /// The number of the message that had this offset.
    pub(crate) fn of(&self, offset: u64) -> Option<u64> {
        self.by_offset.get(&offset).copied()
    }

    /// The offset that a message had, if it is there.
    pub(crate) fn offset(&self, id: u64) -> Option<u64> {
        self.there.get(&id).copied()
    }

    /// What is known of one.
    pub(crate) fn show(&mut self, id: u64) -> Result<Option<DeadLetter>, Error> {
        if !self.there.contains_key(&id) {
            return Ok(None);
        }
        self.cursor.go_to(id);
        let Some(record) = self.cursor.read()? else {
            return Ok(None);
        };
        let Some((death, message)) = read(record.head) else {
            return Ok(None);
        };
        let Some(message) = Message::read(message) else {
            return Ok(None);
        };
        let line = message.head.split(|&byte| byte == b'\r').next();
        Ok(Some(DeadLetter {
            id: record.offset,
            offset: death.offset,
            time_ms: record.time_ms,
            attempts: death.attempts,
            reason: death.reason.to_owned(),
            error: death.error.to_owned(),
            route: message.route.to_owned(),
            upstream: message.upstream.to_owned(),
            key: message
                .key
                .map(|key| String::from_utf8_lossy(key).into_owned()),
            request: String::from_utf8_lossy(line.unwrap_or_default()).into_owned(),
            bytes: record.body.len(),
        }))
    }

    /// So many from a number on, for whoever looks through them.
    pub(crate) fn page(&mut self, from: u64, count: usize) -> Result<Vec<DeadLetter>, String> {
        let ids: Vec<u64> = self.ids(from).take(count).collect();
        let letters = ids.into_iter().filter_map(|id| self.show(id).transpose());
        let letters: Result<_, Error> = letters.collect();
        letters.map_err(|error| error.to_string())
    }

    /// The newest, as far as they can be read.
    pub(crate) fn newest(&mut self, count: usize) -> Vec<DeadLetter> {
        let ids: Vec<u64> = self.there.keys().rev().take(count).copied().collect();
        let letters = ids.into_iter();
        letters
            .filter_map(|id| self.show(id).ok().flatten())
            .collect()
    }

    /// Those of these numbers, each once, or all.
    pub(crate) fn chosen(&self, ids: Option<Vec<u64>>) -> Result<Vec<u64>, String> {
        let Some(mut ids) = ids else {
            return Ok(self.ids(0).collect());
        };
        ids.sort_unstable();
        ids.dedup();
        match ids.iter().find(|id| !self.there.contains_key(id)) {
            Some(id) => Err(format!("there is no dead letter {id}")),
            None => Ok(ids),
        }
    }

    /// One that is to be delivered after all.
    pub(crate) fn exhume(&mut self, id: u64) -> Result<Option<Kept>, Error> {
        if !self.there.contains_key(&id) {
            return Ok(None);
        }
        self.cursor.go_to(id);
        let Some(record) = self.cursor.read()? else {
            return Ok(None);
        };
        Ok(read(record.head).map(|(death, message)| Kept {
            time_ms: if death.came_ms > 0 {
                death.came_ms
            } else {
                record.time_ms
            },
            head: message.to_vec(),
            body: record.body.to_vec(),
        }))
    }
}

/// What the head of a record says, and the envelope of the message.
fn read(head: &[u8]) -> Option<(Death<'_>, &[u8])> {
    let (&version, rest) = head.split_first()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (attempts, rest) = rest.split_first_chunk()?;
    let (came_ms, rest) = if version == 1 {
        (0, rest)
    } else {
        let (came_ms, rest) = rest.split_first_chunk()?;
        (u64::from_le_bytes(*came_ms), rest)
    };
    let (reason, rest) = text(rest)?;
    let (error, message) = text(rest)?;
    let death = Death {
        offset: u64::from_le_bytes(*offset),
        attempts: u32::from_le_bytes(*attempts),
        came_ms,
        reason,
        error,
    };
    matches!(version, 1 | VERSION).then_some((death, message))
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    // It may have been cut off within a character.
    let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    Some((valid, rest))
}
