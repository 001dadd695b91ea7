//! Makes replicas alike, whatever was missed: range by range, what two nodes have in common is compared by digests, and where they
//! differ, each gets what is newer on the other.
//!
//! Where all nodes are alike, what is deleted or has expired for long enough is forgotten by all of its replicas. Before that, it is
//! kept: a replica that has missed a deletion would bring the value back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_gateway::service::RepairStatus;

use super::Calls;
use super::call::NoAnswer;
use crate::cell::Cell;
use crate::frame::{Digest, Page, Say, Span, value_bytes};
use crate::wall::unix_ms;

/// Writes of the last moments may be under way still; they are not compared.
const SETTLED: Duration = Duration::from_secs(5);
/// Bytes a second that are sent to other nodes, or taken from them.
const BYTES_PER_SECOND: u64 = 16 << 20;
/// Bytes of a cell besides its key and value, about.
const CELL_BYTES: u64 = 64;

/// What a node does for its data now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// How often replicas are compared.
    pub repair: Duration,
    /// How long what is deleted is remembered at least. Hints are kept half as long.
    pub tombstones: Duration,
}

/// One run.
pub(super) struct Run<'r> {
    pub(super) calls: &'r Calls,
    /// How long what is deleted is kept.
    pub(super) kept: Duration,
    pub(super) told: &'r Mutex<RepairStatus>,
    pub(super) has_ended: &'r AtomicBool,
}

/// A node did not answer, by its address.
struct Missing(String);

/// Versions of keys.
type Versions = BTreeMap<Bytes, Cell>;

impl Run<'_> {
    /// From here on it is told of this run, and of no other.
    fn begin(&self) {
        self.tell(|told| {
            *told = RepairStatus {
                began_ms: unix_ms(),
                ..RepairStatus::default()
            }
        });
    }

    /// Goes through all keys that this node has in common with others.
    pub(super) fn run(&self) {
        let mut from = Bytes::new();
        let mut away = Vec::new();
        while !self.is_over() {
            // While nodes come or go, replicas are others every moment.
            if self.calls.shared.layout().next.is_some() {
                std::thread::sleep(TICK);
                continue;
            }
            match self.range(from, &mut away) {
                Ok(Some(next)) => from = next,
                Ok(None) => break,
                Err(Missing(node)) => {
                    self.tell(|told| told.missing = Some(node));
                    break;
                }
            }
        }
        self.tell(|told| told.ended_ms = unix_ms());
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Compares the next range with all others, and says where the one behind it begins. Nodes in `away` have not answered.
    fn range(&self, from: Bytes, away: &mut Vec<u16>) -> Result<Option<Bytes>, Missing> {
        let shared = &self.calls.shared;
        let before = (unix_ms().saturating_sub(SETTLED.as_millis() as u64)) << 16;
        let span = Span { from, to: None };
        let Page { entries, next } = self.page(shared.me(), &span)?;
        let mut own: Versions = entries.into_iter().collect();
        own.retain(|_, cell| cell.version.time < before);
        let span = Span { to: next, ..span };
        let (span, digests) = self.digests(span, before, away);
        own.retain(|key, _| span.to.as_ref().is_none_or(|end| key < end));
        for (node, digest) in digests {
            let mut ours = Digest::default();
            for (key, cell) in own.iter().filter(|(key, _)| shared.is_common(key, node)) {
                ours.add(key, cell);
            }
            self.tell(|told| told.compared += 1);
            if ours != digest
                && let Err(Missing(address)) = self.reconcile(node, span.clone(), &mut own, before)
            {
                self.miss(node, address, away);
            }
        }
        if away.is_empty() {
            self.forget(&own);
        }
        Ok(span.to)
    }

    /// What all others have of a range, which is as short as the shortest that any of them has looked at.
    fn digests(
        &self,
        mut span: Span,
        before: u64,
        away: &mut Vec<u16>,
    ) -> (Span, Vec<(u16, Digest)>) {
        let others: Vec<u16> = self.calls.shared.others().map(|node| node.id).collect();
        loop {
            let (mut digests, mut end) = (Vec::new(), span.to.clone());
            for &node in &others {
                if away.contains(&node) || end != span.to {
                    continue;
                }
                let digest = || Say::Digest(before, span.clone());
                if let Ok(Say::Digested(digest, next)) = self.calls.ask_again(node, digest) {
                    end = next.or(end);
                    digests.push((node, digest));
                } else {
                    let Missing(address) = self.missing(node);
                    self.miss(node, address, away);
                }
            }
            // Each time it is shorter, so it ends.
            if end == span.to {
                return (span, digests);
            }
            span.to = end;
        }
    }

    fn miss(&self, node: u16, address: String, away: &mut Vec<u16>) {
        self.tell(|told| told.missing = Some(address));
        away.push(node);
    }

    fn page(&self, node: u16, span: &Span) -> Result<Page, Missing> {
        match self
            .calls
            .ask_again(node, || Say::Scan(false, span.clone()))
        {
            Ok(Say::Page(page)) => Ok(page),
            _ => Err(self.missing(node)),
        }
    }

    fn missing(&self, node: u16) -> Missing {
        let node = self.calls.shared.layout().node(node);
        Missing(node.map_or_else(String::new, |node| node.address.into()))
    }

    /// Exchanges what is newer on one side, in a range. What this node takes is in `own` from then on: the next node has it as well.
    fn reconcile(
        &self,
        node: u16,
        span: Span,
        own: &mut Versions,
        before: u64,
    ) -> Result<(), Missing> {
        let shared = &self.calls.shared;
        let mut theirs = Versions::new();
        let mut rest = Some(span.from);
        while let Some(from) = rest {
            let to = span.to.clone();
            let page = self.page(node, &Span { from, to })?;
            theirs.extend(page.entries);
            rest = page.next;
        }
        theirs.retain(|key, cell| cell.version.time < before && shared.is_common(key, node));
        let (mut differs, me) = (false, shared.me());
        for (key, cell) in own.iter().filter(|(key, _)| shared.is_common(key, node)) {
            let known = theirs.get(key).map(|cell| cell.version);
            if known < Some(cell.version) && !self.is_over() {
                differs = true;
                if self.copy(key, (me, node))? {
                    self.tell(|told| told.sent += 1);
                }
            }
        }
        for (key, cell) in theirs {
            let known = own.get(&key).map(|cell| cell.version);
            if known < Some(cell.version) && !self.is_over() {
                differs = true;
                if self.copy(&key, (node, me))? {
                    self.tell(|told| told.received += 1);
                    own.insert(key, cell);
                }
            }
        }
        self.tell(|told| told.differed += u64::from(differs));
        Ok(())
    }

    /// Has a node take the cell that another one has now; whether it does.
    fn copy(&self, key: &Bytes, (from, to): (u16, u16)) -> Result<bool, Missing> {
        let began = Instant::now();
        let cell = match self.calls.ask_again(from, || Say::Read(key.clone())) {
            Ok(Say::Found(Some(cell))) => cell,
            // It has been forgotten meanwhile, or cannot be read: others can.
            Ok(Say::Found(None)) | Err(NoAnswer::Refused(..)) => return Ok(false),
            _ => return Err(self.missing(from)),
        };
        let bytes = CELL_BYTES + (key.len() + value_bytes(&cell)) as u64;
        let write = || Say::Write(key.clone(), cell.clone());
        let is_taken = match self.calls.ask_again(to, write) {
            Ok(Say::Written { .. }) => true,
            // One that is refused, as it is too far ahead of the clock there, keeps no other from being copied.
            Err(NoAnswer::Refused(..)) => false,
            _ => return Err(self.missing(to)),
        };
        let takes = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        std::thread::sleep(takes.saturating_sub(began.elapsed()));
        Ok(is_taken)
    }

    /// Has all nodes forget what is deleted for long enough, key by key. The first replica of a key does it.
    fn forget(&self, own: &Versions) {
        let shared = &self.calls.shared;
        let long_ago = unix_ms().saturating_sub(self.kept.as_millis() as u64);
        for (key, cell) in own.iter().filter(|(_, cell)| is_dead_since(cell, long_ago)) {
            let replicas = shared.usual_replicas(key);
            if replicas.first() != Some(&shared.me()) || self.is_over() {
                continue;
            }
            // All of them, not only the replicas: a write may have said that it goes to more nodes than usual.
            let mut others = shared.others().map(|node| node.id);
            let is_known = others.all(|node| self.know(node, key, cell, &replicas));
            // This node last: while it remembers, it tries again.
            let mut nodes = shared.others().map(|node| node.id).chain([shared.me()]);
            let is_forgotten = is_known
                && nodes.all(|node| {
                    let answer = self.calls.ask(node, Say::Drop(cell.version, key.clone()));
                    matches!(answer, Ok(Say::Written { newer: None, .. }))
                });
            self.tell(|told| told.forgotten += u64::from(is_forgotten));
        }
    }

    /// Whether a node has this cell; or nothing, where it is no replica. It gets the cell if it has an older one.
    fn know(&self, node: u16, key: &Bytes, cell: &Cell, replicas: &[u16]) -> bool {
        match self.calls.ask(node, Say::Read(key.clone())) {
            Ok(Say::Found(None)) if !replicas.contains(&node) => true,
            Ok(Say::Found(Some(own))) if own.version == cell.version => true,
            Ok(Say::Found(_)) => {
                // Whether it takes it is seen the next time.
                let _ = self.copy(key, (self.calls.shared.me(), node));
                false
            }
            _ => false,
        }
    }

    fn tell(&self, what: impl FnOnce(&mut RepairStatus)) {
        what(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a cell has had no value since this time or longer.
fn is_dead_since(cell: &Cell, unix_ms: u64) -> bool {
    let since_ms = match (&cell.value, cell.expires_ms) {
        (None, _) => cell.version.unix_ms(),
        (Some(_), Some(expires_ms)) => expires_ms,
        (Some(_), None) => return false,
    };
    since_ms < unix_ms
}

/// Repairs now and then, on a thread.
#[derive(Debug)]
pub(crate) struct Repairs {
    told: Arc<Mutex<RepairStatus>>,
    asked: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// When the first one begins, and another one after one that was not whole.
const SOON: Duration = Duration::from_secs(600);
/// How often it is looked whether it is time.
const TICK: Duration = Duration::from_millis(50);

impl Repairs {
    /// Repairs every so often, and when it is asked to.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(calls: Calls, upkeep: Upkeep) -> Result<Self, String> {
        let told: Arc<Mutex<RepairStatus>> = Arc::default();
        let asked: Arc<AtomicBool> = Arc::default();
        let has_ended: Arc<AtomicBool> = Arc::default();
        let thread = std::thread::Builder::new().name("kv repair".to_owned());
        let thread = {
            let (told, asked) = (Arc::clone(&told), Arc::clone(&asked));
            let has_ended = Arc::clone(&has_ended);
            thread.spawn(move || {
                let mut next = Instant::now() + upkeep.repair.min(SOON);
                while !has_ended.load(Ordering::Acquire) {
                    std::thread::park_timeout(TICK);
                    let is_asked = asked.load(Ordering::Acquire);
                    if Instant::now() < next && !is_asked {
                        continue;
                    }
                    let run = Run {
                        calls: &calls,
                        kept: upkeep.tombstones,
                        told: &told,
                        has_ended: &has_ended,
                    };
                    run.begin();
                    // Not before: who waits for the one that was asked for sees that it is under way.
                    asked.store(false, Ordering::Release);
                    run.run();
                    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_whole = told.missing.is_none();
                    let soon = upkeep.repair.min(SOON);
                    next = Instant::now() + if is_whole { upkeep.repair } else { soon };
                }
            })
        };
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self {
            told,
            asked,
            has_ended,
            thread: Some(thread),
        })
    }

    /// Has a repair begin; behind the one that is under way, if there is one.
    pub(crate) fn begin(&self) {
        self.asked.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Begins nothing any more, and goes no further with what is under way.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// What the last one has come to, or the one that is under way.
    pub(crate) fn status(&self) -> RepairStatus {
        // In this order: one that waits no more is in what is told.
        let is_waiting = self.asked.load(Ordering::Acquire);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        RepairStatus {
            is_waiting,
            ..told.clone()
        }
    }
}

impl Drop for Repairs {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
