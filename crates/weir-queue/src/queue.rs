//! A queue: its directory, its threads, and what can be asked of it.
//!
//! ```text
//! data/events/
//!   secret               what names of messages are proved with
//!   ended                there while nobody has it open, when all is on the disk
//!   log/                 the messages
//!   upstream/journal/    what has been delivered
//!   upstream/dead/       what was given up
//!   sinks/NAME/journal/  what a sink has written, and so on
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use weir_gateway::service::Courier;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
use weir_log::{Cursor, Error};

use crate::answer::Answers;
use crate::consumer::Consumer;
use crate::group::{Command, Group, Parts};
use crate::inbox::Inbox;
use crate::intake::Committer;
use crate::opening::{self, Opened, OpenedSink};
use crate::settings::Settings;
use crate::shared::{Shared, lock};
use crate::sink::{self, Connection, Origin, Sink, SinkSettings};

/// Commands that wait.
const COMMANDS_MAX: usize = 64;
const BUSY: &str = "the queue is busy; ask again in a moment";

/// A queue that is open.
#[derive(Debug)]
pub struct Queue {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    answers: Answers,
    origin: Origin,
    /// Of the log, for consumers that come later.
    cursor: Cursor,
    upstream: Arc<Consumer>,
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    sinks: Mutex<Vec<Open>>,
    /// Routes that defer to it.
    users: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A sink that is open.
#[derive(Debug)]
struct Open {
    settings: SinkSettings,
    consumer: Arc<Consumer>,
    commands: mpsc::Sender<Command>,
    thread: JoinHandle<()>,
}

/// What other settings need that the queue has not yet.
#[derive(Debug)]
pub struct Prepared {
    settings: Settings,
    sinks: Vec<OpenedSink>,
}

impl Queue {
    /// Opens the directory, and begins to deliver what is in it.
    ///
    /// # Errors
    /// Another process has it, the disk refuses, or what is there is damaged.
    pub fn open(settings: Settings, courier: &Courier) -> Result<Arc<Self>, Error> {
        let path = settings.path.clone();
        let opened = Opened::of(&settings)?;
        let answers = Answers::new(opened.secret);
        let origin = Origin::new(settings.name.clone(), &opened.secret);
        let cursor = opened.log.read_from(0);
        let shared = Shared::new(settings);
        let inbox = Arc::new(Inbox::new());
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let upstream = Arc::new(Consumer::default());
        shared.join(Arc::clone(&upstream));
        let group = Group::new(Parts {
            shared: Arc::clone(&shared),
            consumer: Arc::clone(&upstream),
            courier: courier.clone(),
            commands: asked,
            journal: opened.journal,
            known: opened.known,
            dead: opened.dead,
            ahead: cursor.another(0),
            behind: cursor.another(0),
        });
        let committer = Committer::new(
            Arc::clone(&shared),
            Arc::clone(&inbox),
            opened.log,
            opened.ids,
            answers.clone(),
        );
        let queue = Arc::new(Self {
            inbox,
            answers,
            origin,
            cursor,
            upstream,
            commands: Mutex::new(Some(commands)),
            sinks: Mutex::default(),
            users: AtomicUsize::new(0),
            threads: Mutex::default(),
            shared,
        });
        let failed = |error| opening::failed("start the threads of", &path, error);
        // Nothing is removed before everyone has said how far he is.
        for sink in opened.sinks {
            queue.start_sink(sink)?;
        }
        committer.publish();
        queue.start(committer, group).map_err(failed)?;
        Ok(queue)
    }

    fn start(&self, committer: Committer, group: Group) -> std::io::Result<()> {
        let name = self.shared.settings().name.clone();
        let commits = std::thread::Builder::new().name(format!("commit {name}"));
        let commits = commits.spawn(move || committer.run())?;
        lock(&self.threads).push(commits);
        let delivers = thread(format!("deliver {name}"), group.run())?;
        lock(&self.threads).push(delivers);
        Ok(())
    }

    /// Begins to write to a sink.
    fn start_sink(&self, opened: OpenedSink) -> Result<(), Error> {
        let settings = opened.settings.clone();
        let mark = opened.known.mark;
        let connection = Connection::new(&settings.destination, &self.origin, mark);
        let path = self.shared.settings().path.clone();
        let failed = |error| opening::failed("start a sink of", &path, error);
        let connection = connection.map_err(|why| failed(std::io::Error::other(why)))?;
        let consumer = Arc::new(Consumer {
            sink: Some(settings.name.clone()),
            ..Consumer::default()
        });
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let sink = Sink::new(sink::Parts {
            shared: Arc::clone(&self.shared),
            consumer: Arc::clone(&consumer),
            settings: settings.clone(),
            origin: self.origin.clone(),
            commands: asked,
            journal: opened.journal,
            known: opened.known,
            dead: opened.dead,
            cursor: self.cursor.another(0),
        });
        self.shared.join(Arc::clone(&consumer));
        let name = format!("sink {}", settings.name);
        let thread = thread(name, sink.run(connection)).map_err(failed)?;
        lock(&self.sinks).push(Open {
            settings,
            consumer,
            commands,
            thread,
        });
        Ok(())
    }

    /// Opens what other settings need, before it is known whether they will hold.
    ///
    /// # Errors
    /// As of [`Queue::open`].
    pub fn prepare(&self, settings: Settings) -> Result<Prepared, Error> {
        let open = lock(&self.sinks);
        let is_open = |sink: &&SinkSettings| open.iter().any(|own| own.settings.name == sink.name);
        let new = settings.sinks.iter().filter(|sink| !is_open(sink));
        let new = new.map(|sink| OpenedSink::of(&settings, sink.clone()));
        let sinks = new.collect::<Result<_, _>>()?;
        Ok(Prepared { settings, sinks })
    }

    /// Other settings hold from now on. Its directory stays. A sink that they do not name ends; one that they name goes on from where it
    /// is, whatever it writes to.
    pub fn follow(&self, prepared: Prepared) {
        let Prepared { settings, sinks } = prepared;
        self.shared.follow(settings.clone());
        let mut open = lock(&self.sinks);
        let is_named = |own: &mut Open| {
            let mut named = settings.sinks.iter();
            named.any(|sink| sink.name == own.settings.name)
        };
        let ended = open
            .extract_if(.., |own| !is_named(own))
            .collect::<Vec<_>>();
        for own in &mut *open {
            let mut named = settings.sinks.iter();
            let other = named.find(|sink| sink.name == own.settings.name);
            if let Some(other) = other.filter(|other| **other != own.settings) {
                own.settings = other.clone();
                *lock(&own.consumer.wanted) = Some(other.clone());
                own.consumer.wakes.notify_one();
            }
        }
        drop(open);
        for own in ended {
            self.shared.leave(&own.consumer);
            own.end();
        }
        for sink in sinks {
            let name = sink.settings.name.clone();
            if let Err(error) = self.start_sink(sink) {
                let queue = &settings.name;
                tell(
                    Level::Error,
                    format_args!("queue {queue}: its sink {name} does not start: {error}"),
                );
            }
        }
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
            for consumer in self.shared.consumers() {
                consumer.is_noted.store(false, Ordering::Release);
            }
            self.shared.is_kept.store(false, Ordering::Release);
            self.shared.is_draining.store(false, Ordering::Release);
            self.shared.wake_consumers();
        }
    }

    /// A route less does. After the last, nothing new is delivered.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.is_draining.store(true, Ordering::Release);
            self.shared.wake_consumers();
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
        let is_kept = self.shared.is_kept.load(Ordering::Acquire);
        let consumers = self.shared.consumers();
        let is_drained = consumers.iter().all(|consumer| consumer.is_drained());
        is_used || (is_drained && self.inbox.is_empty() && is_kept)
    }

    /// Asks something of the thread that delivers to upstreams, or of that of a sink.
    ///
    /// # Errors
    /// It has more to do than it can, or has ended.
    pub(crate) fn ask<T>(
        &self,
        sink: Option<&str>,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<oneshot::Receiver<T>, String> {
        let (sender, receiver) = oneshot::channel();
        let command = command(sender);
        match sink {
            None => self.command(command)?,
            Some(name) => {
                let sinks = lock(&self.sinks);
                let sink = sinks.iter().find(|sink| sink.settings.name == name);
                let sent = sink
                    .ok_or("the queue has no such sink")?
                    .commands
                    .try_send(command);
                sent.map_err(|_| BUSY)?;
            }
        }
        Ok(receiver)
    }

    /// The same for a command that brings along who is told.
    pub(crate) fn command(&self, command: Command) -> Result<(), String> {
        let commands = lock(&self.commands);
        let commands = commands.as_ref().ok_or("the queue has ended")?;
        Ok(commands.try_send(command).map_err(|_| BUSY)?)
    }

    /// What delivers to upstreams.
    pub(crate) fn upstream(&self) -> &Consumer {
        &self.upstream
    }
}

impl Open {
    /// It writes no more when this returns.
    fn end(self) {
        drop(self.commands);
        // One that panicked has said why.
        let _ = self.thread.join();
    }
}

/// Runs it on a thread of its own.
fn thread(
    name: String,
    running: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || runtime.block_on(running))
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.is_draining.store(true, Ordering::Release);
        self.inbox.close();
        lock(&self.commands).take();
        lock(&self.sinks).drain(..).for_each(Open::end);
        for thread in lock(&self.threads).drain(..) {
            // One that panicked has said why.
            let _ = thread.join();
        }
    }
}
