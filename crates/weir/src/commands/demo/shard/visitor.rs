//! The client of the demo: it writes numbers that grow, reads them at other nodes, and remembers what was acknowledged.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::commands::client::{Answer, Client};

const KEYS: usize = 200;

/// What is known of a key.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// The last number that a node has acknowledged.
    acknowledged: u64,
    /// The last one that was sent. It may be there or not.
    sent: u64,
}

impl Known {
    /// Whether a value may be there now; without one, 404 was the answer.
    fn allows(self, value: Option<u64>) -> bool {
        match value {
            None => self.acknowledged == 0,
            Some(number) => (self.acknowledged..=self.sent).contains(&number),
        }
    }
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Taken {
    pub(super) written: u64,
    pub(super) read: u64,
    /// Requests that were sent to another node, since one did not do them.
    pub(super) elsewhere: u64,
    /// Requests that no node did.
    pub(super) failed: u64,
    /// Reads of something older than what was acknowledged before.
    pub(super) wrong: u64,
    pub(super) slowest: Duration,
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.written += other.written;
        self.read += other.read;
        self.elsewhere += other.elsewhere;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// What a look at all keys has found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) keys: usize,
    /// Keys that do not have what was acknowledged, or could not be read.
    pub(super) lost: u64,
}

/// Asks one node after the other.
pub(super) struct Visitor {
    nodes: Vec<Client>,
    keys: Vec<Known>,
    turn: usize,
}

impl Visitor {
    pub(super) fn new(nodes: Vec<Client>) -> Self {
        Self {
            nodes,
            keys: vec![Known::default(); KEYS],
            turn: 0,
        }
    }

    /// Writes a key, or reads the one that was written last, at the next node.
    fn go_on(&mut self) -> Taken {
        let (is_write, key) = (self.turn.is_multiple_of(2), self.turn / 2 % KEYS);
        let began = Instant::now();
        let mut taken = Taken::default();
        let answer = if is_write {
            self.keys[key].sent += 1;
            let number = self.keys[key].sent.to_string();
            self.ask("PUT", key, number.as_bytes(), &mut taken)
        } else {
            self.ask("GET", key, b"", &mut taken)
        };
        self.turn += 1;
        taken.slowest = began.elapsed();
        match answer {
            None => taken.failed += 1,
            Some(_) if is_write => {
                self.keys[key].acknowledged = self.keys[key].sent;
                taken.written += 1;
            }
            Some(answer) => {
                taken.read += 1;
                taken.wrong += u64::from(!self.keys[key].allows(number(&answer)));
            }
        }
        taken
    }

    /// As clients of a store do, another node is asked when one does not do it.
    fn ask(&mut self, method: &str, key: usize, body: &[u8], taken: &mut Taken) -> Option<Answer> {
        let count = self.nodes.len();
        for attempt in 0..count {
            taken.elsewhere += u64::from(attempt > 0);
            let node = &mut self.nodes[(self.turn + attempt) % count];
            let answer = node.ask(method, &target(key), "", body).ok();
            let is_done = |answer: &Answer| answer.status < 500;
            if let Some(answer) = answer.filter(is_done) {
                return Some(answer);
            }
        }
        None
    }

    /// Reads all keys through each of these nodes.
    pub(super) fn check(&mut self, nodes: &[usize]) -> Checked {
        let written = (0..KEYS).filter(|&key| self.keys[key].sent > 0);
        let mut checked = Checked::default();
        for key in written {
            let known = self.keys[key];
            let is_there = nodes.iter().all(|&node| {
                let answer = self.nodes[node].ask("GET", &target(key), "", b"");
                let answer = answer.ok().filter(|answer| answer.status < 500);
                answer.is_some_and(|answer| known.allows(number(&answer)))
            });
            checked.keys += 1;
            checked.lost += u64::from(!is_there);
        }
        checked
    }
}

fn target(key: usize) -> String {
    format!("/v1/kv/demo/{key:03}")
}

/// The number that was read; something else is none that was written.
fn number(answer: &Answer) -> Option<u64> {
    let text = std::str::from_utf8(&answer.body).ok();
    let number = text.and_then(|text| text.parse().ok());
    (answer.status == 200).then(|| number.unwrap_or(u64::MAX))
}

/// A visitor that asks at a steady pace until this is finished.
pub(super) struct Traffic {
    /// Nothing is sent on this: when it closes, the thread ends.
    flow: SyncSender<Infallible>,
    /// Of the last second, and of all.
    taken: Arc<Mutex<(Taken, Taken)>>,
    thread: JoinHandle<Visitor>,
}

impl Traffic {
    pub(super) fn start(visitor: Visitor, rate: u32) -> std::io::Result<Self> {
        let (flow, ended) = sync_channel(0);
        let taken = Arc::<Mutex<(Taken, Taken)>>::default();
        let noted = Arc::clone(&taken);
        let thread = thread::Builder::new().name("traffic".to_owned());
        let thread = thread.spawn(move || visit(visitor, rate, &ended, &noted))?;
        Ok(Self {
            flow,
            taken,
            thread,
        })
    }

    /// What was done in the last second.
    pub(super) fn take(&self) -> Taken {
        std::mem::take(&mut lock(&self.taken).0)
    }

    pub(super) fn in_all(&self) -> Taken {
        lock(&self.taken).1
    }

    /// Ends it; who has asked, and what was done in all.
    pub(super) fn finish(self) -> (Visitor, Taken) {
        drop(self.flow);
        let visitor = self.thread.join().expect("the traffic does not panic");
        (visitor, lock(&self.taken).1)
    }
}

fn visit(
    mut visitor: Visitor,
    rate: u32,
    ended: &Receiver<Infallible>,
    noted: &Mutex<(Taken, Taken)>,
) -> Visitor {
    let period = Duration::from_secs(1) / rate;
    let mut due = Instant::now();
    let is_over = |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
    while !is_over(due.saturating_duration_since(Instant::now())) {
        let taken = visitor.go_on();
        let mut noted = lock(noted);
        noted.0.add(taken);
        noted.1.add(taken);
        drop(noted);
        due = (due + period).max(Instant::now());
    }
    visitor
}

fn lock(taken: &Mutex<(Taken, Taken)>) -> MutexGuard<'_, (Taken, Taken)> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_must_be_there_and_what_was_sent_may_be() {
        let known = |acknowledged, sent| Known { acknowledged, sent };
        for (known, value, is_allowed) in [
            (known(0, 0), None, true),
            (known(0, 1), None, true),
            (known(0, 1), Some(1), true),
            (known(1, 1), None, false),
            (known(2, 3), Some(1), false),
            (known(2, 3), Some(2), true),
            (known(2, 3), Some(3), true),
            (known(2, 3), Some(u64::MAX), false),
        ] {
            assert_eq!(known.allows(value), is_allowed, "{known:?} {value:?}");
        }
    }
}
