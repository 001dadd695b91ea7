//! How requests become messages: workers leave them, one thread commits them together and answers.
//!
//! ```text
//! worker ─┐                    ┌─ append ─ write ─ fdatasync ─┐
//! worker ─┼─► letters, bounded ┤   all that are there         ├─► 202 to each
//! worker ─┘                    └──────────────────────────────┘
//! ```
//!
//! While the disk is busy, letters gather, and the next commit takes them all. So a queue whose disk takes a millisecond for a sync
//! takes as many requests as come in that time with each. No worker waits for a disk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_gateway::service::{Answer, Replier};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Error, Log, Readable};

use crate::answer::{Accepted, Answers, Refusal, refused};
use crate::clock;
use crate::ids::{Ids, Kept, Seen};
use crate::inbox::{Inbox, Letter};
use crate::opening::{Ended, segment_bytes};
use crate::settings::{Durability, Settings};
use crate::shared::{Shared, add, lock};

/// How often what nobody needs is removed, and what was written is made durable for those who did not wait for that.
const TICK: Duration = Duration::from_secs(1);
/// The longest that a commit waits for others, when the one before had several.
const COMPANY_MAX: Duration = Duration::from_millis(1);
/// Messages are told of one kind of refusal once in this time.
const TELL_EVERY_MS: u64 = 60_000;

/// The thread that commits.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    log: Log,
    ids: Ids,
    answers: Answers,
    /// How many letters the commit before had, and how long its sync took.
    company: usize,
    sync_time: Duration,
    /// The last write has failed: nothing is acknowledged before it is written, whatever the durability.
    is_suspect: bool,
    /// The directory says that everything is on the disk.
    is_resting: bool,
    /// When it was last told that requests are refused.
    told_ms: u64,
}

/// What a letter has come to, if the commit succeeds.
struct Due {
    replier: Option<Replier>,
    /// As of [`Letter::weight`].
    weight: u64,
    accepted: Accepted,
    id: Option<Vec<u8>>,
}

impl Due {
    /// Its `Idempotency-Key` and the offset that is known under it, if there is one.
    fn take_id(&mut self) -> Option<(Vec<u8>, u64)> {
        let first = self.accepted.first;
        self.id.take().map(|id| (id, first))
    }
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox>,
        log: Log,
        ids: Ids,
        answers: Answers,
    ) -> Self {
        Self {
            shared,
            inbox,
            log,
            ids,
            answers,
            company: 0,
            sync_time: Duration::ZERO,
            is_suspect: false,
            is_resting: false,
            told_ms: 0,
        }
    }

    /// The offset behind the last message.
    pub(crate) fn written(&self) -> u64 {
        self.log.written()
    }

    /// Commits until the inbox is closed.
    pub(crate) fn run(mut self) {
        let mut ticked_ms = clock::now_ms();
        while let Some(mut letters) = self.inbox.take(TICK) {
            let settings = self.shared.settings();
            let is_fewer = (1..self.company).contains(&letters.len());
            if is_fewer && settings.durability == Durability::Group {
                // Others are on their way, as many as the time before perhaps.
                std::thread::sleep((self.sync_time / 2).min(COMPANY_MAX));
                letters.extend(self.inbox.take(Duration::ZERO).into_iter().flatten());
            }
            self.company = letters.len();
            if !letters.is_empty() {
                let bytes = letters.iter().map(Letter::bytes).sum();
                self.commit(&settings, letters);
                self.inbox.done(bytes);
            }
            if self.shared.is_draining.load(Ordering::Acquire) {
                self.rest(&settings);
            }
            let now_ms = clock::now_ms();
            if now_ms.abs_diff(ticked_ms) >= TICK.as_millis() as u64 {
                ticked_ms = now_ms;
                self.tick(&settings, now_ms);
            }
        }
        let settings = self.shared.settings();
        self.rest(&settings);
    }

    /// Has everything on the disk, and says so there: it may be that nothing more comes.
    fn rest(&mut self, settings: &Settings) {
        match self.log.write().and_then(|()| self.log.sync()) {
            Ok(()) if !self.is_resting => {
                self.is_resting = true;
                Ended::put(&settings.path);
            }
            Ok(()) => {}
            Err(error) => self.note_failure(&error),
        }
        self.publish();
        self.shared.is_kept.store(true, Ordering::Release);
    }

    /// Something has come after all.
    fn wake(&mut self, settings: &Settings) {
        if std::mem::take(&mut self.is_resting) {
            // If it cannot be removed, what a crash takes back is not left out.
            let _ = Ended::take(&settings.path);
        }
    }

    /// Keeps letters, and answers them when they are kept as the settings say.
    fn commit(&mut self, settings: &Settings, letters: Vec<Letter>) {
        self.wake(settings);
        let now_ms = clock::now_ms();
        self.log.set_readable(readable(settings.durability));
        self.log.set_segment_bytes(segment_bytes(settings));
        let begins = self.log.next_offset();
        let mut due = Vec::with_capacity(letters.len());
        for letter in letters {
            self.append(settings, now_ms, letter, &mut due);
        }
        let ends = self.log.next_offset();
        let is_early = settings.durability == Durability::Memory && !self.is_suspect;
        let mut ids = Vec::new();
        if is_early {
            let mut due = std::mem::take(&mut due);
            ids.extend(due.iter_mut().filter_map(Due::take_id));
            self.accept(settings, due);
        }
        let written = self.log.write();
        let kept = match settings.durability {
            Durability::Memory | Durability::Os => written,
            Durability::Group | Durability::Each => written.and_then(|()| self.sync()),
        };
        add(&self.shared.counts.commits, 1);
        self.is_suspect = kept.is_err();
        // Who is answered may look at once.
        self.show();
        match kept {
            Ok(()) => self.accept(settings, due),
            Err(error) => {
                if is_early {
                    self.lose(begins..ends, ids);
                }
                self.refuse(settings, begins, due, &error);
            }
        }
        self.publish();
    }

    /// Appends the messages of a letter, or answers it at once.
    fn append(&mut self, settings: &Settings, now_ms: u64, letter: Letter, due: &mut Vec<Due>) {
        let since_ms = now_ms.saturating_sub(settings.id_window.as_millis() as u64);
        let id = letter.id.as_ref();
        match id.map(|(id, content)| self.ids.look(id, *content, since_ms)) {
            None | Some(Seen::Never) => {}
            Some(Seen::Before(kept)) => {
                let accepted = Accepted {
                    first: kept.first,
                    count: kept.count,
                    is_new: false,
                };
                due.push(Due {
                    weight: letter.weight(),
                    replier: letter.replier,
                    accepted,
                    id: None,
                });
                return;
            }
            Some(Seen::Another) => {
                answer(letter.replier, refused(Refusal::OtherContent));
                return;
            }
        }
        if let Some(refusal) = self.refusal(settings, now_ms, &letter) {
            self.tell_refusal(now_ms, refusal);
            answer(letter.replier, refused(refusal));
            return;
        }
        let first = self.log.next_offset();
        let count = letter.parts.len() as u32;
        let weight = letter.weight();
        for part in &letter.parts {
            if let Err(error) = self.log.append(now_ms, &part.head, &part.body) {
                // What was appended of it before stays: it is delivered, and whoever sent it sends it again.
                self.note_failure(&error);
                add(&self.shared.counts.refused_disk, weight);
                answer(letter.replier, refused(Refusal::Disk));
                return;
            }
        }
        let id = letter.id.map(|(id, content)| {
            let kept = Kept {
                first,
                count,
                content,
                time_ms: now_ms,
            };
            self.ids.insert(&id, kept, since_ms);
            id
        });
        let accepted = Accepted {
            first,
            count,
            is_new: true,
        };
        due.push(Due {
            replier: letter.replier,
            weight,
            accepted,
            id,
        });
    }

    /// Why a letter is not taken now.
    fn refusal(&mut self, settings: &Settings, now_ms: u64, letter: &Letter) -> Option<Refusal> {
        let counts = &self.shared.counts;
        let oldest_ms = self.shared.oldest_ms();
        let is_old = |age: Duration| now_ms.saturating_sub(oldest_ms) > age.as_millis() as u64;
        if oldest_ms > 0 && settings.age_max.is_some_and(is_old) {
            add(&counts.refused_old, letter.weight());
            return Some(Refusal::Old);
        }
        let beside = self.shared.dead_bytes() + self.shared.bytes_beside();
        let needed = (self.log.pending_bytes() + letter.bytes()) as u64 + beside;
        let consumed = self.shared.consumed();
        let bytes_max = settings.bytes_max.saturating_sub(needed);
        while self.log.bytes() > bytes_max {
            // The segment that is written stays, so where all of it is consumed there is another one.
            let next = self.log.next_offset();
            if consumed >= next && self.log.first_offset() < next {
                let _ = self.log.skip_to(next + 1);
            }
            if !matches!(self.log.drop_oldest(consumed, bytes_max, 0), Ok(Some(_))) {
                add(&counts.refused_full, letter.weight());
                self.shared.wants_room.store(true, Ordering::Release);
                return Some(Refusal::Full);
            }
        }
        None
    }

    /// Messages that were acknowledged in memory are lost. Nobody else gets their offsets, which somebody knows.
    fn lose(&mut self, lost: Range<u64>, ids: Vec<(Vec<u8>, u64)>) {
        add(&self.shared.counts.lost, lost.end - lost.start);
        for (id, first) in ids {
            self.ids.remove(&id, first);
        }
        // What fails now fails again with the next commit, and is told.
        let _ = self.log.skip_to(lost.end);
    }

    fn accept(&self, settings: &Settings, due: Vec<Due>) {
        let counts = &self.shared.counts;
        let (mut accepted, mut duplicates) = (0, 0);
        let answers = due.into_iter().filter_map(|due| {
            if due.accepted.is_new {
                accepted += u64::from(due.accepted.count);
            } else {
                duplicates += 1;
            }
            let replier = due.replier?;
            Some((replier, self.answers.accepted(&settings.name, due.accepted)))
        });
        Replier::answer_all(answers);
        add(&counts.accepted, accepted);
        add(&counts.duplicates, duplicates);
    }

    /// The commit that has begun with this offset has failed.
    fn refuse(&mut self, settings: &Settings, begins: u64, due: Vec<Due>, error: &Error) {
        self.note_failure(error);
        let refused_of = due.iter().map(|due| due.weight);
        add(&self.shared.counts.refused_disk, refused_of.sum());
        for due in due {
            let Accepted { first, .. } = due.accepted;
            if let Some(id) = &due.id {
                self.ids.remove(id, first);
            }
            // One that was kept before is kept still.
            let said = if first < begins {
                self.answers.accepted(&settings.name, due.accepted)
            } else {
                refused(Refusal::Disk)
            };
            answer(due.replier, said);
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        add(&self.shared.counts.syncs, 1);
        let began = clock::monotonic();
        let synced = self.log.sync();
        self.sync_time = began.elapsed();
        synced
    }

    /// Once a second.
    fn tick(&mut self, settings: &Settings, now_ms: u64) {
        if self.log.durable() < self.log.written()
            && let Err(error) = self.sync()
        {
            self.note_failure(&error);
        }
        let consumed = self.shared.consumed();
        let before_ms = now_ms.saturating_sub(settings.keep.as_millis() as u64);
        // One a second is more than comes; a commit waits for no more than that.
        if let Err(error) = self.log.drop_oldest(consumed, u64::MAX, before_ms) {
            self.note_failure(&error);
        }
        self.publish();
    }

    /// Shows others where the log is, and wakes those who consume it.
    pub(crate) fn publish(&self) {
        self.show();
        self.shared.wake_consumers();
    }

    fn show(&self) {
        let counts = &self.shared.counts;
        let readable = match readable(self.shared.settings().durability) {
            Readable::Written => self.log.written(),
            Readable::Durable => self.log.durable(),
        };
        counts.readable.store(readable, Ordering::Release);
        counts.next.store(self.log.written(), Ordering::Release);
        counts.durable.store(self.log.durable(), Ordering::Relaxed);
        counts.bytes.store(self.log.bytes(), Ordering::Relaxed);
    }

    fn note_failure(&mut self, error: &Error) {
        let name = &self.shared.settings().name;
        if let Error::HasFailed = error {
            return;
        }
        let now_ms = clock::now_ms();
        if self.log.has_failed() {
            let why = format!(
                "{error}; nothing is taken until a restart, which finds out what is on the disk"
            );
            tell(Level::Error, format_args!("queue {name}: {why}"));
            *lock(&self.shared.failed) = Some(why);
        } else if now_ms.saturating_sub(self.told_ms) >= TELL_EVERY_MS {
            self.told_ms = now_ms;
            tell(
                Level::Error,
                format_args!("queue {name}: {error}; requests are refused"),
            );
        }
    }

    fn tell_refusal(&mut self, now_ms: u64, refusal: Refusal) {
        if now_ms.saturating_sub(self.told_ms) < TELL_EVERY_MS {
            return;
        }
        self.told_ms = now_ms;
        let name = &self.shared.settings().name;
        let why = match refusal {
            Refusal::Old => "its oldest message waits for longer than \"max_age\"",
            _ => "it has reached its \"size\"",
        };
        tell(
            Level::Warning,
            format_args!("queue {name} takes nothing: {why}"),
        );
    }
}

/// Tells whoever waits, if anybody does.
fn answer(replier: Option<Replier>, answer: Answer) {
    if let Some(replier) = replier {
        replier.answer(answer);
    }
}

/// What deliveries may see.
pub(crate) fn readable(durability: Durability) -> Readable {
    match durability {
        Durability::Memory | Durability::Os => Readable::Written,
        Durability::Group | Durability::Each => Readable::Durable,
    }
}
