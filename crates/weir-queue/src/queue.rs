//! A queue: its directory, its threads, and what can be asked of it.
//!
//! ```text
//! data/events/
//!   secret             what names of messages are proved with
//!   ended              there while nobody has it open, when all is on the disk
//!   log/               the messages
//!   upstream/journal/  what has been delivered
//!   upstream/dead/     what was given up
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use weir_gateway::service::Courier;
use weir_log::Error;

use crate::answer::Answers;
use crate::group::{Command, Group, Parts};
use crate::inbox::Inbox;
use crate::intake::Committer;
use crate::opening::{self, Opened};
use crate::settings::Settings;
use crate::shared::{Shared, lock};

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
        let path = settings.path.clone();
        let Opened {
            log,
            journal,
            known,
            dead,
            ids,
            secret,
        } = Opened::of(&settings)?;
        let (ahead, behind) = (log.read_from(0), log.read_from(0));
        let answers = Answers::new(secret);
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
        let started = queue.start(committer, group);
        started.map_err(|error| opening::failed("start the threads of", &path, error))?;
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
            self.shared.is_noted.store(false, Ordering::Release);
            self.shared.is_kept.store(false, Ordering::Release);
            self.shared.is_draining.store(false, Ordering::Release);
            self.shared.delivers.notify_one();
        }
    }

    /// A route less does. After the last, nothing new is delivered.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.is_draining.store(true, Ordering::Release);
            self.shared.delivers.notify_one();
            self.inbox.wake();
        }
    }

    /// Whether a route defers to it.
    pub fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Whether nothing is under way: neither to be kept, nor to be delivered.
    pub(crate) fn is_drained(&self) -> bool {
        let is_used = !self.shared.is_draining.load(Ordering::Acquire);
        let delivers = self.shared.counts.under_way.load(Ordering::Acquire) > 0;
        let is_over = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let is_on_disk = is_over(&self.shared.is_noted) && is_over(&self.shared.is_kept);
        is_used || (!delivers && self.inbox.is_empty() && is_on_disk)
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
            // One that panicked has said why.
            let _ = thread.join();
        }
    }
}
