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
//!   kafka/               instead of `upstream/`, where the queue lives in Kafka
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use weir_gateway::service::Courier;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;
#[cfg(feature = "kafka")]
use weir_log::Log;
use weir_log::{Cursor, Error};

use crate::answer::Answers;
use crate::claims::Claimed;
use crate::consumer::Consumer;
use crate::group::{Command, Group, Parts};
use crate::inbox::Inbox;
use crate::intake::Committer;
use crate::journal::Known;
use crate::opening::{self, Opened, OpenedSink};
use crate::settings::Settings;
use crate::shared::{Shared, lock};
use crate::sink::{self, Connection, Origin, Sink, SinkSettings};
#[cfg(feature = "kafka")]
use crate::topic::{self, Fetcher};

/// Commands that wait.
const COMMANDS_MAX: usize = 64;
const BUSY: &str = "the queue is busy; ask again in a moment";

/// A queue that is open.
#[derive(Debug)]
pub struct Queue {
    shared: Arc<Shared>,
    /// The same, of what is delivered: it is another log where the queue lives in Kafka.
    delivering: Arc<Shared>,
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
    fetches: Mutex<Option<JoinHandle<()>>>,
    /// Nothing more is fetched.
    is_closed: Arc<AtomicBool>,
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
        let shared = Shared::new(settings.clone());
        let (delivering, fetched) = match opened.fetched {
            Some(log) => {
                let fetched = Shared::new(settings);
                let _ = shared.beside.set(Arc::clone(&fetched));
                (fetched, Some(log))
            }
            None => (Arc::clone(&shared), None),
        };
        let source = fetched
            .as_ref()
            .map_or(cursor.another(0), |log| log.read_from(0));
        let claimed = fetched.is_some().then(Arc::<Claimed>::default);
        let inbox = Arc::new(Inbox::new());
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let upstream = Arc::new(Consumer::default());
        delivering.join(Arc::clone(&upstream));
        let group = Group::new(Parts {
            shared: Arc::clone(&delivering),
            consumer: Arc::clone(&upstream),
            courier: courier.clone(),
            claimed: claimed.clone(),
            commands: asked,
            journal: opened.journal,
            known: opened.known,
            dead: opened.dead,
            ahead: source.another(0),
            behind: source,
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
            fetches: Mutex::default(),
            is_closed: Arc::default(),
            delivering,
            shared,
        });
        let failed = |error| opening::failed("start the threads of", &path, error);
        let ends = committer.written();
        queue.shared.counts.next.store(ends, Ordering::Relaxed);
        // Nothing is removed before everyone has said how far he is.
        for sink in opened.sinks {
            queue.start_sink(sink)?;
        }
        committer.publish();
        queue.start(committer, group).map_err(failed)?;
        #[cfg(feature = "kafka")]
        if let Some((log, claimed)) = fetched.zip(claimed) {
            queue.start_fetching(log, claimed).map_err(failed)?;
        }
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

    /// Begins to fetch what is to be delivered.
    #[cfg(feature = "kafka")]
    fn start_fetching(&self, log: Log, claimed: Arc<Claimed>) -> std::io::Result<()> {
        let queue = self.shared.settings();
        let Some(settings) = queue.topic.clone() else {
            return Ok(());
        };
        let fetcher = Fetcher::new(topic::Parts {
            settings,
            shared: Arc::clone(&self.delivering),
            log,
            claimed,
            is_closed: Arc::clone(&self.is_closed),
            member: self.origin.member(),
        });
        let thread = std::thread::Builder::new().name(format!("fetch {}", queue.name));
        *lock(&self.fetches) = Some(thread.spawn(move || fetcher.run())?);
        Ok(())
    }

    /// Begins to write to a sink.
    fn start_sink(&self, opened: OpenedSink) -> Result<(), Error> {
        let settings = opened.settings.clone();
        let mark = opened.known.mark;
        let is_new = opened.known == Known::default();
        let ends = self.shared.counts.next.load(Ordering::Relaxed);
        let replayed_until = if is_new { ends } else { 0 };
        let connection = Connection::new(&settings, &self.origin, mark);
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
            left_out: opened.left_out,
            replayed_until,
        });
        self.shared.join(Arc::clone(&consumer));
        let name = format!("sink {}", settings.name);
        let thread = thread(name, sink.run(connection)).map_err(|error| {
            self.shared.leave(&consumer);
            failed(error)
        })?;
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
        if settings.topic != self.shared.settings().topic {
            let error = std::io::Error::other("it is read when weir starts, so restart it");
            return Err(opening::failed("change `kafka` of", &settings.path, error));
        }
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
        self.delivering.follow(settings.clone());
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
            for shared in [&self.shared, &self.delivering] {
                for consumer in shared.consumers() {
                    consumer.is_noted.store(false, Ordering::Release);
                }
                shared.is_kept.store(false, Ordering::Release);
                shared.is_draining.store(false, Ordering::Release);
                shared.wake_consumers();
            }
        }
    }

    /// A route less does. After the last, nothing new is delivered.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            for shared in [&self.shared, &self.delivering] {
                shared.is_draining.store(true, Ordering::Release);
                shared.wake_consumers();
            }
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
        let is_kept = |shared: &Shared| shared.is_kept.load(Ordering::Acquire);
        // What is delivered of a topic is kept when it is committed.
        let is_kept = is_kept(&self.shared) && is_kept(&self.delivering);
        let consumers = self.shared.consumers();
        let is_drained = consumers.iter().all(|consumer| consumer.is_drained());
        let is_drained = is_drained && self.upstream.is_drained();
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

    /// The same to whoever knows how far the messages of this log are: where the queue lives in Kafka, that is who produces them.
    pub(crate) fn command_of(&self, command: Command) -> Result<(), String> {
        if self.shared.settings().topic.is_none() {
            return self.command(command);
        }
        let sinks = lock(&self.sinks);
        let mut sinks = sinks.iter();
        let topic = sinks.find(|sink| sink.settings.name == Settings::TOPIC);
        let topic = topic.ok_or("the queue has ended")?;
        Ok(topic.commands.try_send(command).map_err(|_| BUSY)?)
    }

    /// What delivers to upstreams.
    pub(crate) fn upstream(&self) -> &Consumer {
        &self.upstream
    }

    /// What that knows.
    pub(crate) fn delivering(&self) -> &Shared {
        &self.delivering
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
        self.delivering.is_draining.store(true, Ordering::Release);
        self.inbox.close();
        lock(&self.commands).take();
        lock(&self.sinks).drain(..).for_each(Open::end);
        // One that panicked has said why.
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
        // It commits what was delivered until now.
        self.is_closed.store(true, Ordering::Release);
        if let Some(fetches) = lock(&self.fetches).take() {
            let _ = fetches.join();
        }
    }
}
