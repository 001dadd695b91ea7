//! Starting and ending a gateway. Sockets come first, then threads, so that a failed start leaves nothing behind.

mod checked;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_cache::store::Transient;

pub use self::checked::check;
use self::checked::have_files_of_their_own;
use self::workers::start_workers;
use crate::control::apps::Apps;
use crate::control::kept::{Kept, Loaded};
use crate::control::{Control, Given, Source};
use crate::names::Names;
use crate::router::Router;
use crate::service::{self, Courier, Parcels, Services};
use crate::settings::{CacheStorage, Level, LogTarget, Settings};
use crate::start_error::StartError;
use crate::state::admission::Admission;
use crate::state::listening::Listening;
use crate::state::log::LogWriter;
use crate::state::opened::{Opened, Retired};
use crate::state::shared::Shared;
use crate::state::slow::SlowClients;
use crate::state::snapshot::{Made, Snapshot};
use crate::state::storage::Cache;
use crate::supervision::{Supervision, WorkerFailed};
use crate::tell::tell;
use crate::time;
use crate::upstream::check;
use crate::{admin, own_upstream};

/// How often a draining gateway checks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// How long exchanges that were cut off may take to notice and report it, and how long the log may then take to be
/// written.
const CUT_OFF: Duration = Duration::from_secs(2);

/// How long requests in flight may take to end when a part of the gateway has failed.
const END: Duration = Duration::from_secs(5);

/// A running gateway. Dropping it does not end it; see [`Gateway::drain`].
#[derive(Debug)]
pub struct Gateway {
    control: Arc<Control>,
    workers: Vec<JoinHandle<()>>,
    log: Option<LogWriter>,
}

/// Opens the services, last of all that can fail for reasons that others know: it may read much. Gives back what they have for
/// workers.
fn open_services(
    settings: &Settings,
    services: &dyn Services,
    (courier, parcels): (&Courier, Vec<Parcels>),
) -> Result<(Opened, Vec<Parcels>), StartError> {
    let mut retired = Retired::default();
    match Opened::of(
        settings,
        &Opened::default(),
        &mut retired,
        (services, courier),
    ) {
        Ok(opened) => Ok((opened, parcels)),
        Err(error) => {
            // What was opened may deliver already, and waits for its errands until nobody can take them.
            drop(parcels);
            Err(error)
        }
    }
}

/// The settings with the changes of servers that were kept, and what to tell of them.
fn kept(settings: &Settings, source: &dyn Source) -> Result<Loaded, StartError> {
    let admin = settings.admin.as_ref();
    match admin.and_then(|admin| admin.changes_file.as_ref()) {
        Some(path) => Kept::load(path, source, settings),
        None => Ok(Loaded {
            settings: settings.clone(),
            notes: Vec::new(),
        }),
    }
}

/// Looks up the names of `kept`, the settings `file` with changes that were kept. A name that only the changes have must
/// not keep a gateway from starting, so they are done without then; the result is what holds.
fn learn(names: &Names, file: &Settings, kept: Settings) -> Result<Settings, StartError> {
    match names.learn(&kept) {
        Ok(()) => Ok(kept),
        Err(_) if kept.upstreams == file.upstreams => {
            names.learn(file).map_err(StartError::Names)?;
            Ok(kept)
        }
        Err(unresolved) => {
            names.learn(file).map_err(StartError::Names)?;
            let why = StartError::Names(unresolved);
            tell(
                Level::Warning,
                format_args!(
                    "the changes of servers that were kept are left out until the next start: {why}"
                ),
            );
            Ok(file.clone())
        }
    }
}

impl Gateway {
    /// Looks up names, binds every address, opens the log, and starts the workers. `source` is where another
    /// configuration comes from, and `services` are what its routes may name.
    pub fn start(
        settings: &Settings,
        source: Box<dyn Source>,
        services: Box<dyn Services>,
    ) -> Result<Self, StartError> {
        let guard_file = settings
            .admin
            .as_ref()
            .and_then(|admin| admin.guard_file.as_ref());
        let loaded = guard_file.map(|path| Apps::load(path, &*source, settings));
        let (apps, settings) = match loaded.transpose()? {
            Some((apps, settings)) => (Some(apps), &settings.clone()),
            None => (None, settings),
        };
        let file = settings;
        let router = Router::new(&file.routes).map_err(StartError::Routes)?;
        let names = Arc::<Names>::default();
        let kept = kept(file, &*source)?;
        let settings = &learn(&names, file, kept.settings.clone())?;
        own_upstream::refuse(settings, &names.known())?;
        have_files_of_their_own(settings)?;
        let listeners = settings.listeners.iter();
        let listeners = listeners.map(|&address| Listening::bind(address, settings.workers));
        let listeners = listeners.collect::<Result<_, _>>()?;
        let admin = settings.admin.as_ref().map(admin::bind).transpose()?;
        let log = start_log(settings, &Opened::default())?;
        let transient = Transient::new(CacheStorage::TRANSIENT_BYTES_MIN);
        let open = |storage| Cache::open(storage, &transient);
        let cache = settings.cache.as_ref().map(open).transpose()?;
        let (courier, parcels) = service::parcels(settings.workers);
        let (opened, parcels) = open_services(settings, &*services, (&courier, parcels))?;
        let log = match log {
            None => start_log(settings, &opened)?,
            started => started,
        };
        let made = Made {
            router,
            names: &names.known(),
            listeners,
            services: &opened,
        };
        let snapshot = Snapshot::succeed(None, settings, made);
        let admission = Admission::new(&settings.limits, &settings.trusted_proxies);
        let slow = SlowClients::new(transient);
        let shared = Arc::new(Shared::new(snapshot, settings.workers, admission, slow));
        if let Some(cache) = cache {
            // Nothing else has it yet.
            let _ = shared.cache.set(Arc::new(cache));
        }
        let threads = start_workers(settings, &shared, log.as_ref(), (&courier, parcels))?;
        check::start(Arc::clone(&shared)).map_err(StartError::Thread)?;
        let given = Given {
            source,
            apps,
            services,
            courier,
            opened,
        };
        given.services.decided(true);
        let control = Control::new(shared, names, given, (file, settings));
        control.keep_what_was_loaded(file, &kept.settings);
        for note in kept.notes {
            tell(Level::Info, format_args!("{note}"));
        }
        if let Some(admin) = admin {
            admin
                .serve(Arc::clone(&control))
                .map_err(StartError::Thread)?;
        }
        Ok(Self {
            control,
            workers: threads,
            log,
        })
    }

    /// Where clients connect, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let snapshot = self.control.shared.snapshot();
        let bound = snapshot.listeners.iter().map(|listening| listening.bound);
        bound.collect()
    }

    /// The handle through which the configuration is replaced.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Reopens the access log: for the handler of SIGUSR1.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.sink.reopen();
        }
    }

    /// Checks the workers: whether one has failed, so that this gateway should end. It also lets go of services that have ended.
    pub fn look(&self, supervision: &mut Supervision) -> Option<WorkerFailed> {
        self.control.drop_ended_services();
        let shared = &self.control.shared;
        let stands_still = |worker| shared.stuck().any(|(stuck, _)| stuck == worker);
        let workers = self.workers.iter().enumerate();
        supervision.look(workers.map(|(worker, thread)| {
            let has_ended = thread.is_finished() || shared.has_failed(worker);
            (has_ended, stands_still(worker))
        }))
    }

    /// How long a drain may take.
    pub fn drain_timeout(&self) -> Duration {
        self.control.drain_timeout()
    }

    /// For how long a gateway that is to end still accepts, see [`Gateway::drain`].
    pub fn drain_delay(&self) -> Duration {
        self.control.drain_delay()
    }

    /// Says that it will end, so that balancers notice, and goes on: for [`Gateway::drain_delay`], if its operator wants.
    pub fn leave(&self) {
        let shared = &self.control.shared;
        shared.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Stops accepting, lets accepted requests end, and returns when all did or the time for it is over. The access log is then
    /// complete, unless its reader has stopped. `wait` waits for as long as it is told, and may do what else there is to do.
    pub fn drain(self, wait: impl FnMut(Option<&Self>, Duration)) -> Drained {
        self.leave();
        let within = self.control.drain_timeout();
        self.drain_within(within, wait)
    }

    /// The same after a failure. Requests in flight get a few seconds, because nobody else is served until the process
    /// has been restarted.
    pub fn end(self, wait: impl FnMut(Option<&Self>, Duration)) -> Drained {
        let within = self.control.drain_timeout().min(END);
        self.drain_within(within, wait)
    }

    fn drain_within(
        self,
        drain_timeout: Duration,
        mut wait: impl FnMut(Option<&Self>, Duration),
    ) -> Drained {
        let shared = &self.control.shared;
        shared.is_draining.store(true, Ordering::Relaxed);
        // Everything that waits for another configuration wakes up.
        shared.current.send_modify(|_| {});
        self.control.courier.close();
        let started = time::now();
        let has_ended = || {
            let mut workers = self.workers.iter();
            let are_drained = self.control.drain_services();
            workers.all(JoinHandle::is_finished) && are_drained
        };
        let mut is_complete = true;
        while !has_ended() {
            if time::since(started) >= drain_timeout {
                shared.is_cut_off.store(true, Ordering::Relaxed);
            }
            if time::since(started) >= drain_timeout + CUT_OFF {
                is_complete = false;
                break;
            }
            wait(Some(&self), DRAIN_POLL);
        }
        for worker in self.workers.into_iter().filter(JoinHandle::is_finished) {
            // A worker that panicked has already said so.
            let _ = worker.join();
        }
        if let Some(LogWriter { sink, thread }) = self.log {
            drop(sink);
            let ended = time::now();
            // The disk, or the reader of the pipe, may be arbitrarily slow.
            let is_over = || thread.is_finished() && self.control.drain_services();
            while !is_over() && time::since(ended) < CUT_OFF {
                wait(None, DRAIN_POLL);
            }
        }
        let cut_off = &self.control.shared.cut_off;
        Drained {
            is_complete: is_complete && cut_off.requests() == 0,
            tunnels: cut_off.tunnels(),
        }
    }
}

/// What a drain has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Everything that was accepted has ended by itself, but for tunnels.
    pub is_complete: bool,
    /// Tunnels that were open when the time for draining was over.
    pub tunnels: u64,
}

/// Starts the log, unless it goes to a service that is not opened yet.
fn start_log(settings: &Settings, opened: &Opened) -> Result<Option<LogWriter>, StartError> {
    let Some(log) = &settings.access_log else {
        return Ok(None);
    };
    let (name, service) = match &log.target {
        LogTarget::Stdout => ("standard output".to_owned(), None),
        LogTarget::File(path) => (path.display().to_string(), None),
        LogTarget::Service(name) => match opened.named(name) {
            Some(service) => (name.clone(), Some(service)),
            None => return Ok(None),
        },
    };
    LogWriter::start(log, service, settings.workers)
        .map(Some)
        .map_err(|error| StartError::AccessLog(name, error))
}
