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
use crate::control::kept::Kept;
use crate::control::merged::Edited;
use crate::lock::{lock, try_lock};
use crate::names::Names;
use crate::router::Router;
use crate::service::{
    Courier, Inside, OrderError, QueueOrder, QueueStatus, Services, StoreOrder, StoreStatus,
};
use crate::settings::{CacheStorage, Level, Server, Settings, Upstream, overlap};
use crate::start_error::StartError;
use crate::state::listening::Listening;
use crate::state::opened::{Opened, Retired};
use crate::state::shared::Shared;
use crate::state::snapshot::{Made, Snapshot};
use crate::state::storage::Cache;
use crate::tell::{self, tell};
use crate::{own_upstream, time};

pub(crate) mod apps;
mod held_back;
pub(crate) mod kept;
mod merged;
mod saved;
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
    admin_token: Mutex<Option<Arc<str>>>,
    pub(crate) kept: Option<Kept>,
    /// The upstreams of the file as it was last read. Not behind the lock of the state, which a change holds for as long as
    /// it takes.
    in_file: Mutex<Arc<[Upstream]>>,
    drain_ms: AtomicU64,
    drain_delay_ms: AtomicU64,
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
        (file, settings): (&Settings, &Settings),
    ) -> Arc<Self> {
        let admin = settings.admin.as_ref();
        let changes_file = admin.and_then(|admin| admin.changes_file.clone());
        let control = Arc::new(Self {
            shared,
            names,
            source: given.source,
            services: given.services,
            courier: given.courier,
            apps: given.apps,
            admin_token: Mutex::new(token_of(settings)),
            kept: changes_file.map(|path| Kept { path }),
            in_file: Mutex::new(file.upstreams.clone().into()),
            drain_ms: AtomicU64::new(settings.timeouts.drain.as_millis() as u64),
            drain_delay_ms: AtomicU64::new(settings.timeouts.drain_delay.as_millis() as u64),
            reloading: Mutex::new(()),
            state: Mutex::new(State {
                file: file.clone(),
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

    /// Reads the configuration again and puts it to work; returns when every worker has taken it up. What a gateway that runs
    /// cannot take up is named. The error says what is wrong with it; then nothing has changed.
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

    /// The queues that are open.
    pub(crate) fn queues(&self) -> Vec<QueueStatus> {
        self.services.queues()
    }

    /// Carries out what an operator asks of a queue. It may have to wait.
    pub(crate) fn order(
        &self,
        queue: &str,
        order: QueueOrder,
    ) -> Result<serde_json::Value, OrderError> {
        self.services.order(queue, order)
    }

    /// All services inside the process.
    pub(crate) fn inside(&self) -> Inside {
        Inside {
            queues: self.services.queues(),
            store: self.services.store(),
            databases: self.services.databases(),
        }
    }

    /// The store that is open.
    pub(crate) fn store(&self) -> Option<StoreStatus> {
        self.services.store()
    }

    /// Carries out what an operator asks of the store.
    pub(crate) fn store_order(&self, order: StoreOrder) -> Result<(), String> {
        self.services.store_order(order)
    }

    fn apply(&self, file: Settings) -> Result<Changes, StartError> {
        let mut state = self.state_with_names(&file)?;
        let (mut next, mut notes) = state.with_edits(&file);
        apps::keep(&mut next, &state.current);
        let waiting = held_back::hold_back(&mut next, &state.current, state.cache.as_ref())?;
        let changes = Changes::between(&state.current, &next);
        let State {
            opened, retired, ..
        } = &mut *state;
        let opened = Opened::of(&next, opened, retired, (&*self.services, &self.courier));
        let applied = opened.and_then(|opened| self.apply_with(&mut state, (&file, next), &opened));
        self.services.decided(applied.is_ok());
        applied?;
        *lock(&self.in_file) = file.upstreams.clone().into();
        state.file = file;
        let count = waiting.len() as u64;
        self.shared.waiting.store(count, Ordering::Relaxed);
        notes.lines.splice(0..0, changes.lines);
        notes.waiting = waiting;
        Ok(notes)
    }

    /// Keeps what is left of changes, and puts the configuration to work.
    fn apply_with(
        &self,
        state: &mut State,
        (file, next): (&Settings, Settings),
        opened: &Opened,
    ) -> Result<(), StartError> {
        let before = self.keep_what_is_left(file, &next)?;
        self.put_to_work_with(state, next, opened)
            .inspect_err(|_| self.keep_again(before.as_deref()))
    }

    /// Keeps the changes that a reload leaves, so that the others do not come back at a restart. The result is what was kept. It
    /// comes before the reload, which is not made if it fails: a restart in between reads the new file in any case.
    fn keep_what_is_left(
        &self,
        file: &Settings,
        next: &Settings,
    ) -> Result<Option<Vec<u8>>, StartError> {
        let kept = self.kept.as_ref();
        kept.map(|kept| kept.replace(file, next)).transpose()
    }

    /// Keeps what was kept `before` a reload that was not made.
    fn keep_again(&self, before: Option<&[u8]>) {
        let kept = self.kept.as_ref().zip(before);
        if let Some(Err(error)) = kept.map(|(kept, before)| kept.write(before)) {
            tell(
                Level::Error,
                format_args!("changes of servers are gone at the next start: {error}"),
            );
        }
    }

    /// Keeps what the start has left of the changes, so that the others do not come back. It serves without that.
    pub(crate) fn keep_what_was_loaded(&self, file: &Settings, loaded: &Settings) {
        if let Err(error) = self.keep_what_is_left(file, loaded) {
            tell(
                Level::Error,
                format_args!(
                    "changes of servers that are gone may come back at another start: {error}"
                ),
            );
        }
    }

    /// The upstreams of the file as it was last read.
    pub(crate) fn in_file(&self) -> Arc<[Upstream]> {
        Arc::clone(&lock(&self.in_file))
    }

    /// Locks the state. While it is locked, all names in `settings` have addresses, and none was the gateway's own.
    fn state_with_names(&self, settings: &Settings) -> Result<MutexGuard<'_, State>, StartError> {
        loop {
            // This may take long, and a name that changes meanwhile needs the lock.
            self.names.learn(settings).map_err(StartError::Names)?;
            own_upstream::refuse(settings, &self.names.known())?;
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
        tell::follow(next.messages);
        *lock(&self.admin_token) = token_of(&next);
        self.shared.current.send_replace(Arc::clone(&snapshot));
        self.wait_for_workers(snapshot.generation, &closing);
        // Not earlier: a worker that knows only the old endpoints must still find one.
        snapshot.mark_leaving(&before);
        drop(before);
        let opened_before = std::mem::replace(&mut state.opened, opened.clone());
        state.retired.take_over(&opened_before, opened);
        self.note_drain_timeouts(&next);
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

    fn note_drain_timeouts(&self, settings: &Settings) {
        let timeouts = &settings.timeouts;
        for (noted, timeout) in [
            (&self.drain_ms, timeouts.drain),
            (&self.drain_delay_ms, timeouts.drain_delay),
        ] {
            noted.store(timeout.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// What requests to the admin listener must have.
    pub(crate) fn admin_token(&self) -> Option<Arc<str>> {
        lock(&self.admin_token).clone()
    }

    /// How long the gateway accepts after it was told to end.
    pub(crate) fn drain_delay(&self) -> Duration {
        Duration::from_millis(self.drain_delay_ms.load(Ordering::Relaxed))
    }

    /// The deadline for draining that holds now.
    pub(crate) fn drain_timeout(&self) -> Duration {
        // Not behind the lock: a change that hangs must not keep the gateway from ending.
        Duration::from_millis(self.drain_ms.load(Ordering::Relaxed))
    }
}

fn token_of(settings: &Settings) -> Option<Arc<str>> {
    settings.admin.as_ref()?.token.as_deref().map(Arc::from)
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
    /// The settings of `file` with the changes through the admin listener that it leaves, and a note on each such upstream.
    fn with_edits(&self, file: &Settings) -> (Settings, Changes) {
        let (mut next, mut notes) = (file.clone(), Changes::default());
        for upstream in &mut next.upstreams {
            let name = &upstream.name;
            let both = kept::of_file(&self.file, name).zip(kept::of_file(&self.current, name));
            let Some((was, is)) = both.filter(|(was, is)| was.servers != is.servers) else {
                continue;
            };
            let edited = Edited {
                was: &was.servers,
                is: &is.servers,
            };
            let note = edited.merge_into(&mut upstream.servers);
            notes
                .lines
                .push(format!("upstream {}: {note}", upstream.name));
        }
        (next, notes)
    }
}
