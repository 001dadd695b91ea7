//! Replacing the configuration while the gateway runs.
//!
//! Every change comes through here, one after the other: a file that is read again, the admin listener, names with
//! other addresses. Whatever can fail is done first (names, listeners, directories). Then the workers get the new
//! configuration, and the change is complete when all have taken it up: no request that begins later sees the old one.
//! A change that fails changes nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::changes::Changes;
use crate::control::apps::{App, Apps};
use crate::lock::{lock, try_lock};
use crate::names::Names;
use crate::router::Router;
use crate::service::{Courier, Services};
use crate::settings::{CacheStorage, Server, Settings, Upstream, overlap};
use crate::start_error::StartError;
use crate::state::listening::Listening;
use crate::state::opened::{Opened, Retired};
use crate::state::shared::Shared;
use crate::state::snapshot::{Made, Snapshot};
use crate::state::storage::Cache;
use crate::time;

pub(crate) mod apps;
pub(crate) mod servers;

/// How long a change waits for a worker. A worker that is busy for longer takes it up later.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it checks whether workers have taken it up.
const POLL: Duration = Duration::from_millis(1);

/// Where the configuration comes from: the seam to the crate that knows files.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Reads the present configuration; the error is for the operator.
    fn read(&self) -> Result<Settings, String>;

    /// Explains to the operator why a configuration that was read cannot be put to work.
    fn explain(&self, error: StartError) -> String;

    /// Reads a server in the form it has in a configuration.
    fn server(&self, text: &str) -> Result<Server, String>;

    /// Reads an app of guard's; the error is for guard's client.
    fn app(&self, json: &[u8]) -> Result<App, String>;
}

/// The handle through which a running gateway is changed.
#[derive(Debug)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Arc<Names>,
    source: Box<dyn Source>,
    services: Box<dyn Services>,
    pub(crate) courier: Courier,
    apps: Option<Apps>,
    drain_ms: AtomicU64,
    /// Held while a file is read and put to work, so that an older file cannot overtake it.
    reloading: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The file as it was last read.
    file: Settings,
    /// The settings in use: the file, and later changes through the admin listener.
    current: Settings,
    /// The storage with which the cache was opened. It stays open when no route uses it any more.
    cache: Option<CacheStorage>,
    opened: Opened,
    retired: Retired,
}

/// What a gateway is given besides its settings.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) source: Box<dyn Source>,
    pub(crate) apps: Option<Apps>,
    pub(crate) services: Box<dyn Services>,
    pub(crate) courier: Courier,
    pub(crate) opened: Opened,
}

impl Control {
    pub(crate) fn new(
        shared: Arc<Shared>,
        names: Arc<Names>,
        given: Given,
        settings: &Settings,
    ) -> Arc<Self> {
        let control = Arc::new(Self {
            shared,
            names,
            source: given.source,
            services: given.services,
            courier: given.courier,
            apps: given.apps,
            drain_ms: AtomicU64::new(settings.timeouts.drain.as_millis() as u64),
            reloading: Mutex::new(()),
            state: Mutex::new(State {
                file: settings.clone(),
                current: settings.clone(),
                cache: settings.cache.clone(),
                opened: given.opened,
                retired: Retired::default(),
            }),
        });
        control.names.keep(settings);
        let changed = Arc::downgrade(&control);
        control.names.on_change(move || {
            if let Some(control) = changed.upgrade() {
                control.names_have_changed();
            }
        });
        control
    }

    /// Reads the configuration again and puts it to work; returns when every worker has taken it up. The error says
    /// what is wrong with it; then nothing has changed.
    pub fn reload(&self) -> Result<Changes, String> {
        let _one_at_a_time = lock(&self.reloading);
        let settings = self.source.read();
        let changes = settings.and_then(|settings| {
            self.apply(settings)
                .map_err(|error| self.source.explain(error))
        });
        let [applied, refused] = &self.shared.reloads;
        let count = if changes.is_ok() { applied } else { refused };
        count.fetch_add(1, Ordering::Relaxed);
        changes
    }

    fn apply(&self, file: Settings) -> Result<Changes, StartError> {
        let mut state = self.state_with_names(&file)?;
        let (mut next, mut notes) = state.with_edits(&file);
        apps::keep(&mut next, &state.current);
        let changes = Changes::between(&state.current, &next);
        let State {
            opened, retired, ..
        } = &mut *state;
        let opened = Opened::of(&next, opened, retired, (&*self.services, &self.courier))?;
        self.put_to_work_with(&mut state, next, &opened)?;
        state.file = file;
        notes.0.splice(0..0, changes.0);
        Ok(notes)
    }

    /// Locks the state. While it is locked, all names in `settings` have addresses.
    fn state_with_names(&self, settings: &Settings) -> Result<MutexGuard<'_, State>, StartError> {
        loop {
            // This may take long, and a name that changes meanwhile needs the lock.
            self.names.learn(settings).map_err(StartError::Names)?;
            let state = lock(&self.state);
            // Another change may have come between, and dropped them.
            if self.names.knows(settings) {
                return Ok(state);
            }
        }
    }

    /// Puts the same settings to work with the new addresses of names.
    fn names_have_changed(&self) {
        let mut state = lock(&self.state);
        let same = state.current.clone();
        // These settings worked before, and only addresses are new.
        let _ = self.put_to_work(&mut state, same);
    }

    /// Has every worker take up `next`, which names the same services as before, or leaves everything as it is.
    fn put_to_work(&self, state: &mut State, next: Settings) -> Result<(), StartError> {
        let opened = state.opened.clone();
        self.put_to_work_with(state, next, &opened)
    }

    /// The same for settings whose services are `opened`.
    fn put_to_work_with(
        &self,
        state: &mut State,
        next: Settings,
        opened: &Opened,
    ) -> Result<(), StartError> {
        let done = self.replace(state, next, opened);
        if done.is_err() {
            state.retired.take_over(opened, &state.opened);
        }
        // Names that are used no longer, or that only a refused configuration has.
        self.names.keep(&state.current);
        done
    }

    /// Everything that can fail comes first.
    fn replace(
        &self,
        state: &mut State,
        next: Settings,
        opened: &Opened,
    ) -> Result<(), StartError> {
        if self.shared.is_draining.load(Ordering::Relaxed) {
            return Err(StartError::Draining);
        }
        if let Some(key) = needs_restart(state, &next) {
            return Err(StartError::NeedsRestart(key));
        }
        let router = Router::new(&next.routes).map_err(StartError::Routes)?;
        let before = self.shared.snapshot();
        let Listeners { listeners, closing } = Listeners::of(&next, &before)?;
        if let (None, Some(storage)) = (&state.cache, &next.cache) {
            let cache = Cache::open(storage, &self.shared.slow.transient)?;
            // Only this code sets it, and `state.cache` says that it was not set.
            let _ = self.shared.cache.set(Arc::new(cache));
            state.cache.clone_from(&next.cache);
        }
        let names = self.names.known();
        let made = Made {
            router,
            names: &names,
            listeners,
            services: opened,
        };
        let snapshot = Snapshot::succeed(Some(&before), &next, made);
        for listening in &closing {
            listening.close();
        }
        self.shared
            .admission
            .adjust(&next.limits, &next.trusted_proxies);
        self.shared.current.send_replace(Arc::clone(&snapshot));
        self.wait_for_workers(snapshot.generation, &closing);
        // Not earlier: a worker that knows only the old endpoints must still find one.
        snapshot.mark_leaving(&before);
        drop(before);
        let opened_before = std::mem::replace(&mut state.opened, opened.clone());
        state.retired.take_over(&opened_before, opened);
        self.note_drain_timeout(&next);
        state.current = next;
        Ok(())
    }

    /// Waits until every worker uses `generation` and has stopped accepting on closing addresses.
    fn wait_for_workers(&self, generation: u64, closing: &[Arc<Listening>]) {
        let started = time::now();
        let is_taken_up = || {
            let mut workers = self.shared.taken_up.iter();
            workers.all(|taken_up| taken_up.load(Ordering::Acquire) >= generation)
                && closing.iter().all(|listening| listening.is_closed())
        };
        while !is_taken_up() && time::since(started) < PATIENCE {
            std::thread::sleep(POLL);
        }
    }

    /// Has services end what they do of their own accord, and says whether nothing is under way in them any more. A change that
    /// is under way keeps it from that for now: it is refused, and may take long until it knows.
    pub(crate) fn drain_services(&self) -> bool {
        let Some(mut state) = try_lock(&self.state) else {
            return false;
        };
        let opened = std::mem::take(&mut state.opened);
        state.retired.take_over(&opened, &Opened::default());
        state.retired.are_drained()
    }

    /// Drops the services that no configuration has any more, once they have ended.
    pub(crate) fn drop_ended_services(&self) {
        let ended = try_lock(&self.state).map(|mut state| state.retired.take_ended());
        drop(ended);
    }

    fn note_drain_timeout(&self, settings: &Settings) {
        let drain_ms = settings.timeouts.drain.as_millis() as u64;
        self.drain_ms.store(drain_ms, Ordering::Relaxed);
    }

    /// The deadline for draining that holds now.
    pub(crate) fn drain_timeout(&self) -> Duration {
        // Not behind the lock: a change that hangs must not keep the gateway from ending.
        Duration::from_millis(self.drain_ms.load(Ordering::Relaxed))
    }
}

/// The first key whose change a running gateway cannot take up.
fn needs_restart(state: &State, next: &Settings) -> Option<&'static str> {
    let current = &state.current;
    let admin_listens = |settings: &Settings| settings.admin.as_ref().map(|admin| admin.listen);
    let guard_file = |settings: &Settings| settings.admin.as_ref()?.guard_file.clone();
    let has_other_storage = |of: fn(&CacheStorage) -> CacheStorage| {
        let both = state.cache.as_ref().zip(next.cache.as_ref());
        both.is_some_and(|(opened, next)| of(opened) != of(next))
    };
    let only_budgets = |storage: &CacheStorage| CacheStorage {
        disk: None,
        ..storage.clone()
    };
    let only_memory = |storage: &CacheStorage| CacheStorage {
        transient_bytes: 0,
        disk: None,
        ..storage.clone()
    };
    [
        ("server.workers", current.workers != next.workers),
        (
            "admin.listen",
            admin_listens(current) != admin_listens(next),
        ),
        ("admin.guard_api", guard_file(current) != guard_file(next)),
        ("admin.token", current.admin != next.admin),
        ("access_log", current.access_log != next.access_log),
        ("cache.memory", has_other_storage(only_memory)),
        ("cache.transient", has_other_storage(only_budgets)),
        ("cache.disk", has_other_storage(CacheStorage::clone)),
    ]
    .into_iter()
    .find_map(|(key, is_changed)| is_changed.then_some(key))
}

/// Where a configuration accepts connections.
struct Listeners {
    /// All listeners; the added ones are bound.
    listeners: Vec<Arc<Listening>>,
    /// Listeners that only the configuration before has.
    closing: Vec<Arc<Listening>>,
}

impl Listeners {
    fn of(next: &Settings, before: &Snapshot) -> Result<Self, StartError> {
        let is_given_up = |address| {
            let mut earlier = before.listeners.iter();
            earlier.any(|listening| overlap(listening.configured, address))
        };
        let listener = |address: &_| {
            let mut earlier = before.listeners.iter();
            match earlier.find(|listening| listening.configured == *address) {
                Some(listening) => Ok(Arc::clone(listening)),
                None if is_given_up(*address) => Listening::bind_beside(*address, next.workers),
                None => Listening::bind(*address, next.workers),
            }
        };
        let listeners = next.listeners.iter().map(listener);
        let is_gone = |listening: &&Arc<Listening>| !next.listeners.contains(&listening.configured);
        Ok(Self {
            listeners: listeners.collect::<Result<_, _>>()?,
            closing: before.listeners.iter().filter(is_gone).cloned().collect(),
        })
    }
}

impl State {
    /// The settings of `file`. Where it has not changed an upstream, the changes through the admin listener are kept,
    /// with a note on each such upstream.
    fn with_edits(&self, file: &Settings) -> (Settings, Changes) {
        let named = |settings: &Settings, name: &str| -> Option<Upstream> {
            let mut all = settings.upstreams.iter();
            all.find(|upstream| upstream.name == name).cloned()
        };
        let (mut next, mut notes) = (file.clone(), Changes::default());
        for upstream in &mut next.upstreams {
            let name = &upstream.name;
            let (Some(was), Some(is)) = (named(&self.file, name), named(&self.current, name))
            else {
                continue;
            };
            if was.servers == is.servers {
                continue;
            }
            let what = if was == *upstream {
                upstream.servers = is.servers;
                "are kept, since the file says of it what it said before"
            } else {
                "are gone, since the file says something else of it"
            };
            let note = format!("upstream {name}: changes made through the admin listener {what}");
            notes.0.push(note);
        }
        (next, notes)
    }
}
