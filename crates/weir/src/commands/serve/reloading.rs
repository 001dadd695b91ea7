//! Reads the config file again while the gateway runs: on request, or when the file has changed.
//!
//! One thread does it, so that signals are still heard. Requests that come while it is busy become one request.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use weir_gateway::settings::{Server, Settings};
use weir_gateway::{App, Control, Source, StartError};

use super::{fit_to_descriptors, say};
use crate::config;

/// How often a watched file is checked. It is read once it looks the same twice, since editors and `cp` write in
/// several steps.
const LOOK: Duration = Duration::from_millis(500);

/// A config file as the gateway's source of configurations.
#[derive(Debug)]
pub(in crate::commands) struct File(pub(in crate::commands) PathBuf);

impl Source for File {
    fn read(&self) -> Result<Settings, String> {
        let mut settings = config::load(&self.0).map_err(|error| error.to_string())?;
        fit_to_descriptors(&mut settings).map_err(|error| format!("{error:#}"))?;
        Ok(settings)
    }

    fn explain(&self, error: StartError) -> String {
        format!("{:#}", config::start_error(error, &self.0))
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

/// A watched file, and how it looked before it was last read.
pub(super) struct Watched {
    path: PathBuf,
    seen: Option<Stamp>,
}

impl Watched {
    /// Must be called before the file is read, so that a later change is seen.
    pub(super) fn new(path: &Path) -> Self {
        let (path, seen) = (path.to_owned(), Stamp::of(path));
        Self { path, seen }
    }
}

/// Takes requests to reload.
pub(super) struct Reloader(SyncSender<()>);

impl Reloader {
    /// Starts the thread, which also watches `watched` if there is one.
    pub(super) fn start(control: Arc<Control>, watched: Option<Watched>) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        std::thread::Builder::new()
            .name("reload".to_owned())
            .spawn(move || match watched {
                None => {
                    while asked.recv().is_ok() {
                        reload(&control);
                    }
                }
                Some(watched) => watch(&control, &asked, watched),
            })?;
        Ok(Self(ask))
    }

    /// Asks for a reload. If one is waiting already, that one is enough.
    pub(super) fn ask(&self) {
        let _ = self.0.try_send(());
    }
}

fn watch(control: &Control, asked: &Receiver<()>, watched: Watched) {
    let Watched { path, mut seen } = watched;
    let mut pending = None;
    loop {
        match asked.recv_timeout(LOOK) {
            Ok(()) => {
                seen = Stamp::of(&path);
                reload(control);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = Stamp::of(&path);
                // A missing file is most likely being renamed.
                if now.is_none() || now == seen {
                    pending = None;
                } else if now == pending {
                    (seen, pending) = (now, None);
                    reload(control);
                } else {
                    pending = now;
                }
            }
        }
    }
}

/// Reads the file, and prints the result.
fn reload(control: &Control) {
    match control.reload() {
        Ok(changes) => say(format_args!("reloaded: {changes}")),
        Err(error) => say(format_args!("the configuration stays as it is:\n{error}")),
    }
}

/// Tells a changed file from an unchanged one. It also sees when another file took its name, or when a symbolic link
/// changed.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
