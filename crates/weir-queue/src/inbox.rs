//! Where workers leave letters for the thread that commits them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_gateway::service::Replier;

use crate::deferral::Id;
use crate::shared::lock;

/// Bytes of letters that wait. A single one may have more, up to the second.
const WAITING_BYTES_MAX: usize = 32 << 20;
pub(crate) const LETTER_BYTES_MAX: usize = 48 << 20;
/// A request that is to be kept.
#[derive(Debug)]
pub(crate) struct Letter {
    /// Its messages: what the records are made of. At least one.
    pub(crate) parts: Vec<Part>,
    /// Its `Idempotency-Key` with what tells its route apart, and a hash of what was sent.
    pub(crate) id: Option<Id>,
    /// Who waits for it; nobody for lines of a log.
    pub(crate) replier: Option<Replier>,
}

/// A message as a record has it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Letter {
    /// What of it is refused with it: a request, or each line of a log.
    pub(crate) fn weight(&self) -> u64 {
        match self.replier {
            Some(_) => 1,
            None => self.parts.len() as u64,
        }
    }

    /// Bytes that it takes in the log.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.iter();
        parts
            .map(|part| weir_log::HEAD_BYTES + part.head.len() + part.body.len())
            .sum()
    }
}

/// What waits to be committed.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    came: Condvar,
    /// Bytes that wait or are being committed.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    letters: Vec<Letter>,
    is_closed: bool,
    is_woken: bool,
    /// Whether the thread sleeps until something comes.
    is_awaited: bool,
}

impl Waiting {
    fn is_idle(&self) -> bool {
        self.letters.is_empty() && !self.is_closed && !self.is_woken
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            came: Condvar::new(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Leaves a letter, unless too much waits already: then it is given back.
    pub(crate) fn put(&self, letter: Letter) -> Result<(), Letter> {
        let bytes = letter.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if bytes > LETTER_BYTES_MAX || (before > 0 && before + bytes > WAITING_BYTES_MAX) {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
            return Err(letter);
        }
        let mut waiting = lock(&self.waiting);
        waiting.letters.push(letter);
        let is_awaited = std::mem::take(&mut waiting.is_awaited);
        drop(waiting);
        if is_awaited {
            self.came.notify_one();
        }
        Ok(())
    }

    /// Has the thread look around although nothing has come.
    pub(crate) fn wake(&self) {
        lock(&self.waiting).is_woken = true;
        self.came.notify_one();
    }

    /// Nothing more comes: the thread ends when it has done what is here.
    pub(crate) fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.came.notify_one();
    }

    /// Letters of so many bytes were committed.
    pub(crate) fn done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether nothing waits and nothing is being committed.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) == 0
    }

    /// All that waits, as soon as there is something or the time is over; `None` when nothing comes any more.
    pub(crate) fn take(&self, within: Duration) -> Option<Vec<Letter>> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_idle() {
            waiting.is_awaited = true;
            let is_idle = |waiting: &mut Waiting| waiting.is_idle();
            let woken = self.came.wait_timeout_while(waiting, within, is_idle);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
            waiting.is_awaited = false;
        }
        waiting.is_woken = false;
        if waiting.letters.is_empty() && waiting.is_closed {
            return None;
        }
        Some(std::mem::take(&mut waiting.letters))
    }
}
