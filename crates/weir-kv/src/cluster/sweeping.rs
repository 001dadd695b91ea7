//! When nodes have come or gone, a node takes away what it has of keys of which it is no replica any more: once all that are have them.
//!
//! It ends when nodes come or go again, and begins anew after that: a node may have to take something from here.
//!
//! Only what it had by the map of before, and what is older than the end of that: a request may say that more nodes than usual have a key.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::call::{Calls, NoAnswer};
use super::opening;
use crate::cell::Cell;
use crate::frame::{Page, Say, Span, value_bytes};
use crate::layout::Layout;
use crate::placement::Slot;

/// How long to wait for what is under way in the engine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a second that replicas are asked for.
const BYTES_PER_SECOND: u64 = 16 << 20;
/// Before another try, where a replica did not have something or did not answer; at first and at most.
const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Takes it away, on a thread, until nothing is left or it is dropped.
pub(super) struct Sweeping {
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeping {
    /// Begins, if there may be something.
    pub(super) fn start(calls: Calls) -> Option<Self> {
        let left = opening::left(&*calls.shared.engine);
        let told = |why: &String| eprintln!("kv: what other nodes have now stays here: {why}");
        let left = left.inspect_err(told).ok()?;
        if left.is_empty() || !calls.shared.is_member() {
            return None;
        }
        let has_ended: Arc<AtomicBool> = Arc::default();
        let (under_way, made) = mpsc::channel();
        let run = Run {
            calls,
            left,
            has_ended: Arc::clone(&has_ended),
            under_way,
        };
        let thread = std::thread::Builder::new().name("kv sweeping".to_owned());
        // Without a thread, it is done after the next start.
        let run = move || {
            run.run();
            drop(run);
            // Whoever ends this goes on with what is there then. A disk that hangs is not waited for without an end.
            let _ = made.recv_timeout(PATIENCE);
        };
        let thread = thread.spawn(run).ok()?;
        Some(Self {
            has_ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Sweeping {
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
    left: Vec<(u64, Layout)>,
    has_ended: Arc<AtomicBool>,
    /// Each removal has one, until the engine has made it.
    under_way: mpsc::Sender<()>,
}

impl Run {
    fn run(&self) {
        let (mut count, mut pause) = (0, PAUSE);
        loop {
            let kept = self.pass(&mut count);
            if self.is_over() {
                return;
            }
            if kept == 0 {
                break;
            }
            self.pause(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
        match opening::end_left(&*self.calls.shared.engine, &self.left) {
            Ok(()) if count > 0 => {
                eprintln!("kv: {count} keys that other nodes have now are taken away here");
            }
            Ok(()) => {}
            Err(why) => eprintln!("kv: what other nodes have now is looked for again: {why}"),
        }
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// It may be woken up before, and looks again then.
    fn pause(&self, time: Duration) {
        if !self.is_over() {
            std::thread::park_timeout(time);
        }
    }

    /// Goes through all that is here; how many keys are kept that are to go.
    fn pass(&self, count: &mut u64) -> u64 {
        let (mut from, mut kept) = (Bytes::new(), 0);
        while !self.is_over() {
            let span = Span { from, to: None };
            let me = self.calls.shared.me();
            let page = self.calls.ask_again(me, || Say::Scan(false, span.clone()));
            let Ok(Say::Page(Page { entries, next })) = page else {
                return kept + 1;
            };
            for (key, cell) in entries {
                if self.is_over() {
                    return kept + 1;
                }
                if self.is_to_go(&key, &cell) {
                    match self.take(key, &cell) {
                        Ok(()) => *count += 1,
                        Err(_) => kept += 1,
                    }
                }
            }
            match next {
                Some(next) => from = next,
                None => return kept,
            }
        }
        kept
    }

    fn is_to_go(&self, key: &[u8], cell: &Cell) -> bool {
        let (me, slot) = (self.calls.shared.me(), Slot::of(key));
        let was_here = |(until_ms, layout): &(u64, Layout)| {
            cell.version.unix_ms() < *until_ms && layout.now.replicas_of(slot).contains(&me)
        };
        !self.calls.shared.usual_replicas(key).contains(&me) && self.left.iter().any(was_here)
    }

    /// Takes a key away, if all replicas have this cell or a newer one. They get it, if not.
    fn take(&self, key: Bytes, cell: &Cell) -> Result<(), NoAnswer> {
        let began = Instant::now();
        let shared = &self.calls.shared;
        let (mut bytes, mut missing) = (0, Vec::new());
        for node in shared.usual_replicas(&key) {
            let found = self.calls.ask_again(node, || Say::Read(key.clone()))?;
            match found {
                Say::Found(Some(found)) if found.version >= cell.version => {
                    bytes += value_bytes(&found) as u64;
                }
                _ => missing.push(node),
            }
        }
        for node in &missing {
            let me = shared.me();
            if let Say::Found(Some(own)) = self.calls.ask_again(me, || Say::Read(key.clone()))? {
                self.calls
                    .ask_again(*node, || Say::Write(key.clone(), own.clone()))?;
            }
        }
        if !missing.is_empty() {
            return Err(NoAnswer::Silent);
        }
        let under_way = self.under_way.clone();
        let then = move |_| {
            drop(under_way);
            None
        };
        shared.engine.remove(key, cell.version, Box::new(then));
        let takes = Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND);
        self.pause(takes.saturating_sub(began.elapsed()));
        Ok(())
    }
}
