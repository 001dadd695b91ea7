//! A queue: its directory, its threads, and what can be asked of it.
//!
//! ```text
//! data/events/
//!   secret             what names of messages are proved with
//!   log/               the messages
//!   upstream/journal/  what has been delivered
//!   upstream/dead/     what was given up
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use weir_gateway::service::Courier;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Directory, Disk, Error, Log};

use crate::answer::Answers;
use crate::clock;
use crate::dead::DeadLetters;
use crate::group::{Command, Group, Parts};
use crate::ids::{Ids, Kept};
use crate::intake::{Committer, Inbox, readable};
use crate::journal::Journal;
use crate::message::Message;
use crate::settings::Settings;
use crate::shared::{Shared, lock};
use crate::token::{Secret, random};

/// A segment is such a part of what a queue may have, so that what was delivered makes room little by little.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the log that are read for the `Idempotency-Key`s in it when a queue is opened.
const IDS_READ_MAX: u64 = 256 << 20;
/// Commands that wait.
const COMMANDS_MAX: usize = 64;

/// A queue that is open.
#[derive(Debug)]
pub struct Queue {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    answers: Answers,
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    /// Routes that defer to it.
    users: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Queue {
    /// Opens the directory, and begins to deliver what is in it.
    ///
    /// # Errors
    /// Another process has it, the disk refuses, or what is there is damaged.
    pub fn open(settings: Settings, courier: &Courier) -> Result<Arc<Self>, Error> {
        let path = settings.path.display().to_string();
        let failed = |doing| {
            let name = path.clone();
            move |error| Error::Io { doing, name, error }
        };
        let seed = || {
            random()
                .map(u64::from_le_bytes)
                .map_err(failed("make random numbers for"))
        };
        let directory = |name: &str| -> Result<Arc<dyn Disk>, Error> {
            Ok(Arc::new(Directory::open(&settings.path.join(name))?))
        };
        let log_settings = weir_log::Settings {
            segment_bytes: (settings.bytes_max / SEGMENTS)
                .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
            readable: readable(settings.durability),
            seed: seed()?,
        };
        // The first of them keeps other processes out.
        let (mut log, recovered) = Log::open(directory("log")?, log_settings)?;
        let secret = Secret::of(&settings.path).map_err(failed("keep a secret in"))?;
        let (journal, known) = Journal::open(directory("upstream/journal")?, seed()?)?;
        let dead = DeadLetters::open(directory("upstream/dead")?, seed()?, known.gone.clone())?;
        // What a crash of the machine took back may have been delivered before: its offsets are not given again.
        log.skip_to(known.end())?;
        if recovered.torn_bytes > 0 {
            tell(
                Level::Info,
                format_args!(
                    "queue {}: {} bytes at the end of its log were not written whole and are left out; nobody was told that they are kept",
                    settings.name, recovered.torn_bytes
                ),
            );
        }
        let ids = ids_of(&log, &settings)?;
        let (ahead, behind) = (log.read_from(0), log.read_from(0));
        let answers = Answers::new(&settings.name, secret);
        let shared = Shared::new(settings);
        let inbox = Arc::new(Inbox::new());
        let committer = Committer::new(
            Arc::clone(&shared),
            Arc::clone(&inbox),
            log,
            ids,
            answers.clone(),
        );
        committer.publish();
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let group = Group::new(Parts {
            shared: Arc::clone(&shared),
            courier: courier.clone(),
            commands: asked,
            journal,
            known,
            dead,
            ahead,
            behind,
        });
        let queue = Arc::new(Self {
            inbox,
            answers,
            commands: Mutex::new(Some(commands)),
            users: AtomicUsize::new(0),
            threads: Mutex::default(),
            shared,
        });
        queue
            .start(committer, group)
            .map_err(failed("start the threads of"))?;
        Ok(queue)
    }

    fn start(&self, committer: Committer, group: Group) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let name = self.shared.settings().name.clone();
        let thread = |part: &str| std::thread::Builder::new().name(format!("{part} {name}"));
        let commits = thread("commit").spawn(move || committer.run())?;
        let delivers = thread("deliver").spawn(move || runtime.block_on(group.run()))?;
        lock(&self.threads).extend([commits, delivers]);
        Ok(())
    }

    /// Other settings hold from now on. Its directory stays.
    pub fn follow(&self, settings: Settings) {
        self.shared.follow(settings);
    }

    /// What it was told.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings()
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// A route more defers to it.
    pub(crate) fn join(&self) {
        if self.users.fetch_add(1, Ordering::AcqRel) == 0 {
            self.shared.is_draining.store(false, Ordering::Release);
            self.shared.delivers.notify_one();
        }
    }

    /// A route less does. After the last, nothing new is delivered.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.is_draining.store(true, Ordering::Release);
            self.shared.delivers.notify_one();
        }
    }

    /// Whether nothing is under way: neither to be kept, nor to be delivered.
    pub(crate) fn is_drained(&self) -> bool {
        let is_used = !self.shared.is_draining.load(Ordering::Acquire);
        let delivers = self.shared.counts.under_way.load(Ordering::Acquire) > 0;
        is_used || (!delivers && self.inbox.is_empty())
    }

    /// Asks something of the thread that delivers.
    ///
    /// # Errors
    /// It has more to do than it can, or has ended.
    pub(crate) fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<oneshot::Receiver<T>, String> {
        let (sender, receiver) = oneshot::channel();
        self.command(command(sender))?;
        Ok(receiver)
    }

    /// The same for a command that brings along who is told.
    pub(crate) fn command(&self, command: Command) -> Result<(), String> {
        let commands = lock(&self.commands);
        let commands = commands.as_ref().ok_or("the queue has ended")?;
        let sent = commands.try_send(command);
        sent.map_err(|_| "the queue is busy; ask again in a moment".to_owned())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.is_draining.store(true, Ordering::Release);
        self.inbox.close();
        lock(&self.commands).take();
        for thread in lock(&self.threads).drain(..) {
            // It has said why, if it panicked.
            let _ = thread.join();
        }
    }
}

/// The `Idempotency-Key`s of the window, as far back as reading does not take long.
fn ids_of(log: &Log, settings: &Settings) -> Result<Ids, Error> {
    let mut ids = Ids::default();
    let now_ms = clock::now_ms();
    let since_ms = now_ms.saturating_sub(settings.id_window.as_millis() as u64);
    let mut cursor = log.read_from(log.first_offset());
    cursor.go_to_time(since_ms)?;
    let mut read: u64 = 0;
    let mut batch: Option<(Vec<u8>, Kept)> = None;
    while let Some(record) = cursor.read()? {
        read += (record.head.len() + record.body.len()) as u64;
        if read > IDS_READ_MAX {
            break;
        }
        let Some(message) = Message::read(record.head) else {
            continue;
        };
        let Some((id, content)) = message.id else {
            continue;
        };
        let (number, count) = message.part;
        if number == 0 {
            let kept = Kept {
                first: record.offset,
                count,
                content,
                time_ms: record.time_ms,
            };
            batch = Some((id.to_vec(), kept));
        }
        // Half of a batch was never acknowledged.
        if number + 1 == count
            && let Some((id, kept)) = batch.take()
        {
            ids.insert(&id, kept, since_ms);
        }
    }
    Ok(ids)
}

/// Whether there is a queue in this directory.
pub fn is_queue(path: &Path) -> bool {
    path.join("log").is_dir()
}
