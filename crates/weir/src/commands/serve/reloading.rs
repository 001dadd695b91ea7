//! Reads the config file again while the gateway runs: on request, or when the file has changed.
//!
//! One thread does it, so that signals are still heard. Requests that come while it is busy become one request.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_gateway::settings::{Level, MessageFormat, Server, Settings};
use weir_gateway::tell::tell;
use weir_gateway::{App, Control, Source, StartError};

use super::{fit_to_descriptors, say};
use crate::config::{self, Config, ConfigError, InProcess, Inputs};

/// How often watched files are checked. They are read once they look the same twice, since editors and `cp` write in
/// several steps.
const LOOK: Duration = Duration::from_millis(500);

/// A config file as the gateway's source of configurations.
#[derive(Debug, Clone)]
pub(in crate::commands) struct File {
    path: PathBuf,
    /// The flag that stands above what the file says.
    log_format: Option<MessageFormat>,
    /// Of the gateway that runs, whatever the file says meanwhile.
    workers: Option<usize>,
    /// All that was read, the last time.
    inputs: Arc<Mutex<Inputs>>,
    /// What was read last of services inside the process.
    services: Arc<Mutex<InProcess>>,
}

impl File {
    pub(in crate::commands) fn new(path: PathBuf) -> Self {
        Self {
            path,
            log_format: None,
            workers: None,
            inputs: Arc::default(),
            services: Arc::default(),
        }
    }

    /// The same with a flag that stands above what the file says.
    pub(super) fn with_format(mut self, format: Option<MessageFormat>) -> Self {
        self.log_format = format;
        self
    }

    /// The same for a gateway that has so many workers, until it ends.
    pub(super) fn with_workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Reads the file, and what it includes.
    pub(in crate::commands) fn load(&self) -> Result<Settings, ConfigError> {
        let mut inputs = Inputs::default();
        let settings = config::load(&self.path, &mut inputs);
        *self.inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
        let Config {
            mut settings,
            services,
        } = settings?;
        *self.services.lock().unwrap_or_else(PoisonError::into_inner) = services;
        if let Some(format) = self.log_format {
            settings.messages.format = format;
        }
        Ok(settings)
    }

    /// What to tell of a gateway that did not start with it.
    pub(in crate::commands) fn start_error(&self, error: StartError) -> anyhow::Error {
        config::start_error(error, &self.path)
    }

    /// The services of the configuration that was read last, whenever that is.
    pub(super) fn services(&self) -> Arc<Mutex<InProcess>> {
        Arc::clone(&self.services)
    }

    /// What to tell of settings that were read last.
    pub(in crate::commands) fn notes(&self, settings: &Settings) -> Vec<String> {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        config::notes::of(settings, &services)
    }

    fn inputs(&self) -> Inputs {
        let inputs = self.inputs.lock();
        inputs.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for File {
    fn read(&self) -> Result<Settings, String> {
        let mut settings = self.load().map_err(|error| error.to_string())?;
        let workers = self.workers.unwrap_or(settings.workers);
        fit_to_descriptors(&mut settings, workers).map_err(|error| format!("{error:#}"))?;
        for note in self.notes(&settings) {
            say(format_args!("note: {note}"));
        }
        Ok(settings)
    }

    fn explain(&self, error: StartError) -> String {
        format!("{:#}", self.start_error(error))
    }

    fn server(&self, text: &str) -> Result<Server, String> {
        config::server(text)
    }

    fn app(&self, json: &[u8]) -> Result<App, String> {
        config::guard::posted(json)
    }
}

/// The source of a gateway that was started from flags: there is nothing to read again.
#[derive(Debug)]
pub(in crate::commands) struct NoFile;

impl Source for NoFile {
    fn read(&self) -> Result<Settings, String> {
        Err("there is no config file to read again: weir was started from flags".to_owned())
    }

    fn explain(&self, error: StartError) -> String {
        error.to_string()
    }

    fn server(&self, text: &str) -> Result<Server, String> {
        config::server(text)
    }

    fn app(&self, json: &[u8]) -> Result<App, String> {
        config::guard::posted(json)
    }
}

/// Takes requests to reload.
pub(super) struct Reloader(SyncSender<()>);

impl Reloader {
    /// Starts the thread, which also watches all that `watched` was read from.
    pub(super) fn start(control: Arc<Control>, watched: Option<File>) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        std::thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || match watched {
                None => {
                    while asked.recv().is_ok() {
                        reload(&control);
                    }
                }
                Some(watched) => watch(&control, &asked, &watched),
            })?;
        Ok(Self(ask))
    }

    /// Asks for a reload. If one is waiting already, that one is enough.
    pub(super) fn ask(&self) {
        let _ = self.0.try_send(());
    }
}

fn watch(control: &Control, asked: &Receiver<()>, file: &File) {
    let mut pending = None;
    loop {
        match asked.recv_timeout(LOOK) {
            Ok(()) => reload(control),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let seen = file.inputs();
                let now = seen.now();
                // A missing file is most likely being renamed.
                if now == seen || !now.has(&file.path) {
                    pending = None;
                } else if pending.as_ref() == Some(&now) {
                    pending = None;
                    reload(control);
                } else {
                    pending = Some(now);
                }
            }
        }
    }
}

/// Reads the file, and tells the result: a message for each thing, since whoever collects messages takes line by line.
fn reload(control: &Control) {
    match control.reload() {
        Ok(changes) => {
            if changes.lines.is_empty() {
                say(format_args!("reloaded: nothing changed"));
            }
            for line in &changes.lines {
                say(format_args!("reloaded: {line}"));
            }
            for wait in changes.waits() {
                tell(Level::Warning, format_args!("reloaded: {wait}"));
            }
        }
        Err(error) => {
            for line in error.lines() {
                tell(
                    Level::Error,
                    format_args!("the configuration stays as it is: {line}"),
                );
            }
        }
    }
}
