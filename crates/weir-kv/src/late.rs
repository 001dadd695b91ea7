//! A service whose database may be away when weir starts: it answers that it is, until it is there.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use weir_gateway::service::{Ask, DatabaseStatus, Reply, Service};
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;

use crate::api;
use crate::database::OpenError;

/// How long to wait before it is tried again; it doubles with each time.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether nobody wants it any more.
const TICK: Duration = Duration::from_millis(50);

/// A service that is open, or is opened as soon as its database answers.
pub struct Late<S> {
    state: Arc<State<S>>,
    body_bytes_max: u64,
}

struct State<S> {
    /// Whose database it is.
    of: String,
    opened: OnceLock<S>,
    failed_tries: AtomicU64,
    /// What the last try has failed by.
    why: Mutex<Option<String>>,
    has_ended: AtomicBool,
}

impl<S> fmt::Debug for Late<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}

impl<S: Service + 'static> Late<S> {
    /// Opens a service; where its database is away, on a thread, again and again. `of` says whose database it is, and
    /// `body_bytes_max` is that of the service.
    ///
    /// # Errors
    /// Something is wrong that somebody has to see to.
    pub fn open<F>(of: String, body_bytes_max: u64, open: F) -> Result<Self, String>
    where
        F: Fn() -> Result<S, OpenError> + Send + 'static,
    {
        let state = Arc::new(State {
            of,
            opened: OnceLock::new(),
            failed_tries: AtomicU64::new(0),
            why: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        match open() {
            Ok(service) => state.stand(service),
            Err(error) if error.is_away => {
                let (of, why) = (&state.of, &error.why);
                tell(
                    Level::Warning,
                    format_args!("{of}: {why}; what is asked of it is 503 until it answers"),
                );
                state.note(error.why);
                let late = Arc::clone(&state);
                let thread = thread::Builder::new().name("late".to_owned());
                let thread = thread.spawn(move || late.open_again(open));
                thread.map_err(|error| format!("cannot start a thread: {error}"))?;
            }
            Err(error) => return Err(error.why),
        }
        Ok(Self {
            state,
            body_bytes_max,
        })
    }

    /// The service, once its database has been reached.
    pub fn opened(&self) -> Option<&S> {
        self.state.opened.get()
    }

    /// How it is about the database.
    pub fn status(&self) -> DatabaseStatus {
        let why = self
            .state
            .why
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        DatabaseStatus {
            of: self.state.of.clone(),
            is_reached: self.opened().is_some(),
            failed_tries: self.state.failed_tries.load(Ordering::Relaxed),
            why: why.clone(),
        }
    }
}

impl<S> State<S> {
    fn stand(&self, service: S) {
        // It is opened once.
        let _ = self.opened.set(service);
    }

    fn note(&self, why: String) {
        self.failed_tries.fetch_add(1, Ordering::Relaxed);
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// The thread.
    fn open_again(&self, open: impl Fn() -> Result<S, OpenError>) {
        let mut pause = PAUSE_MIN;
        loop {
            let mut waited = Duration::ZERO;
            while waited < pause {
                if self.has_ended.load(Ordering::Acquire) {
                    return;
                }
                thread::sleep(TICK);
                waited += TICK;
            }
            pause = (2 * pause).min(PAUSE_MAX);
            match open() {
                Ok(service) => {
                    tell(
                        Level::Info,
                        format_args!("{}: its database answers", self.of),
                    );
                    return self.stand(service);
                }
                // What is wrong with it may be mended there, as whatever keeps it away.
                Err(error) => self.note(error.why),
            }
        }
    }
}

impl<S: Service + 'static> Service for Late<S> {
    fn body_bytes_max(&self) -> u64 {
        self.body_bytes_max
    }

    fn call(&self, ask: Ask) -> Reply {
        if let Some(service) = self.opened() {
            return service.call(ask);
        }
        let why = self.status().why.unwrap_or_default();
        Reply::ready(api::busy(&format!("the database is away: {why}")))
    }

    fn drain(&self) {
        self.state.has_ended.store(true, Ordering::Release);
        if let Some(service) = self.opened() {
            service.drain();
        }
    }

    fn is_drained(&self) -> bool {
        self.opened().is_none_or(Service::is_drained)
    }
}

impl<S> Drop for Late<S> {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
    }
}
