//! A node takes what it gets when nodes come or go: of each key of which it becomes a replica, the newest cell that the replicas of
//! before have.
//!
//! All nodes of before are asked which versions they have, page by page; what is newer than what this node has is copied. Any of them
//! that does not answer holds it up, since it alone may have something. What is copied twice does no harm.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::call::{Calls, NoAnswer};
use super::merged::Merged;
use crate::frame::{Moved, Page, Say, Span, Why, value_bytes};
use crate::layout::Layout;
use crate::placement::Slot;
use crate::version::Version;

/// Bytes a second that are copied.
const BYTES_PER_SECOND: u64 = 16 << 20;
/// Bytes of a cell besides its key and value, about.
const CELL_BYTES: u64 = 64;
/// Keys that are copied at once.
const BATCH: usize = 64;
/// How long to wait before a node is asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often one that is busy is asked again.
const WAIT: Duration = Duration::from_secs(3);

/// Takes it, on a thread, until it has all of it or is dropped.
pub(super) struct Moving {
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A key, the newest version of it, and who has that.
type Wanted = (Bytes, Version, u16);

impl Moving {
    /// Begins, and tells how far it is.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(calls: Calls, told: Arc<Mutex<Moved>>) -> Result<Self, String> {
        let has_ended: Arc<AtomicBool> = Arc::default();
        let run = Run {
            layout: Layout::clone(&calls.shared.layout()),
            calls,
            told,
            has_ended: Arc::clone(&has_ended),
        };
        let thread = std::thread::Builder::new().name("kv moving".to_owned());
        let thread = thread.spawn(move || run.run());
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self {
            has_ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Run {
    calls: Calls,
    layout: Layout,
    told: Arc<Mutex<Moved>>,
    has_ended: Arc<AtomicBool>,
}

/// Why it goes no further for now.
struct Trouble(String);

impl Run {
    fn run(self) {
        self.tell(|told| told.has_begun = true);
        let me = self.calls.shared.me();
        if !Slot::all().any(|slot| self.layout.gains(me, slot)) {
            return self.tell(|told| told.is_done = true);
        }
        let mut from = Bytes::new();
        while !self.is_over() {
            match self.go_on(&mut from) {
                Ok(()) => {
                    self.tell(|told| {
                        told.is_done = !self.is_over();
                        told.trouble.clear();
                    });
                    return;
                }
                Err(Trouble(why)) => {
                    self.tell(|told| told.trouble = why);
                    std::thread::park_timeout(PAUSE);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Takes what there is from a key on, which goes on with what has been taken.
    fn go_on(&self, from: &mut Bytes) -> Result<(), Trouble> {
        let me = self.calls.shared.me();
        let gone = self.layout.next.as_ref().map(|next| &next.gone[..]);
        let gone = gone.unwrap_or_default();
        let nodes = self.layout.now.map.nodes().iter().map(|node| node.id);
        let nodes = nodes.filter(|node| !gone.contains(node));
        let span = Span {
            from: from.clone(),
            to: None,
        };
        // None of them may be missing.
        let mut merged = Merged::new(nodes, &span, 1);
        let mut wanted: Vec<Wanted> = Vec::with_capacity(BATCH);
        while !self.is_over() {
            self.fill(&mut merged)?;
            let Some((key, cell, node)) = merged.next_of() else {
                return self.copy(&wanted);
            };
            self.tell(|told| told.looked_at += 1);
            if self.layout.gains(me, Slot::of(&key)) {
                wanted.push((key.clone(), cell.version, node));
            }
            if wanted.len() == BATCH {
                self.copy(&wanted)?;
                wanted.clear();
                *from = key;
            }
        }
        Ok(())
    }

    /// Asks nodes for their next pages, all at once.
    fn fill(&self, merged: &mut Merged) -> Result<(), Trouble> {
        let wanted = merged.wanted();
        let scans = wanted.into_iter().map(|(node, span)| {
            let say = Say::Scan(false, span.clone());
            (node, span, self.calls.begin(node, say))
        });
        let scans: Vec<_> = scans.collect();
        for (node, span, begun) in scans {
            let answer = begun.and_then(|begun| begun.recv_timeout(WAIT).ok());
            let page: Page = match answer {
                Some(Say::Page(page)) => page,
                _ => match self
                    .calls
                    .ask_again(node, || Say::Scan(false, span.clone()))
                {
                    Ok(Say::Page(page)) => page,
                    other => return Err(self.trouble(node, other.err())),
                },
            };
            let filled = merged.fill(node, Some(page));
            filled.map_err(|_| self.trouble(node, None))?;
        }
        Ok(())
    }

    /// Copies what is newer there than here, many at once.
    fn copy(&self, wanted: &[Wanted]) -> Result<(), Trouble> {
        let (began, me) = (Instant::now(), self.calls.shared.me());
        let own = self.ask_all(wanted, |(key, ..)| (me, Say::Read(key.clone())))?;
        let is_here = |(wanted, own): (&Wanted, Say)| {
            let is_new = matches!(own, Say::Found(Some(cell)) if cell.version >= wanted.1);
            (!is_new).then(|| wanted.clone())
        };
        let missing: Vec<Wanted> = wanted.iter().zip(own).filter_map(is_here).collect();
        let found = self.ask_all(&missing, |(key, _, node)| (*node, Say::Read(key.clone())))?;
        let (mut bytes, mut writes) = (0, Vec::new());
        for ((key, version, node), found) in missing.into_iter().zip(found) {
            match found {
                Say::Found(Some(cell)) if cell.version >= version => {
                    bytes += CELL_BYTES + (key.len() + value_bytes(&cell)) as u64;
                    writes.push((key, cell));
                }
                // It has been forgotten meanwhile, or taken away there: others are looked at again.
                _ => return Err(self.trouble(node, None)),
            }
        }
        self.ask_all(&writes, |(key, cell)| {
            (me, Say::Write(key.clone(), cell.clone()))
        })?;
        self.tell(|told| {
            told.copied += writes.len() as u64;
            told.bytes += bytes;
            told.trouble.clear();
        });
        let takes = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        std::thread::park_timeout(takes.saturating_sub(began.elapsed()));
        Ok(())
    }

    /// What nodes answer, who are asked at once, and again where they are busy.
    fn ask_all<T>(&self, all: &[T], ask: impl Fn(&T) -> (u16, Say)) -> Result<Vec<Say>, Trouble> {
        let begun = all.iter().map(|one| {
            let (node, say) = ask(one);
            self.calls.begin(node, say)
        });
        let begun: Vec<_> = begun.collect();
        let mut answers = Vec::with_capacity(all.len());
        for (one, begun) in all.iter().zip(begun) {
            let answer = match begun.and_then(|begun| begun.recv_timeout(WAIT).ok()) {
                Some(answer) if !matches!(answer, Say::Refused(..)) => answer,
                _ if self.is_over() => return Err(Trouble(String::new())),
                _ => {
                    let node = ask(one).0;
                    let again = self.calls.ask_again(node, || ask(one).1);
                    again.map_err(|why| self.trouble(node, Some(why)))?
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    fn trouble(&self, node: u16, why: Option<NoAnswer>) -> Trouble {
        let address = self.layout.node(node);
        let address = address.map_or_else(|| node.to_string(), |node| node.address.into());
        Trouble(match why {
            Some(NoAnswer::Refused(Why::Busy, _)) => format!("{address} is busy"),
            Some(NoAnswer::Refused(_, text)) => format!("{address} refuses: {text}"),
            Some(NoAnswer::Silent) | None => format!("{address} does not answer"),
        })
    }

    fn tell(&self, what: impl FnOnce(&mut Moved)) {
        what(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
