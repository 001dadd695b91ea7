//! Changes of servers that outlive the process: the file of `admin.changes_file`.
//!
//! With the servers of an upstream that were changed stands what the config file said of them then. If it says something else at
//! the next start, both are merged (`merged.rs`), and what is dropped is told.
//!
//! ```text
//! {"upstreams": {"app": {"file": [SERVER, …], "now": [SERVER, …]}}}
//! SERVER: {"server": "127.0.0.1:9001", "weight": 1, "draining": false}
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::control::merged::Edited;
use crate::control::{Source, saved};
use crate::settings::{Server, Settings, Upstream};
use crate::start_error::StartError;

/// Where the changes are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    upstreams: BTreeMap<String, Changed>,
}

/// An upstream whose servers were changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    file: Vec<SavedServer>,
    now: Vec<SavedServer>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedServer {
    server: String,
    weight: u32,
    draining: bool,
}

/// What was kept, put into the settings of a config file.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// What to tell.
    pub(crate) notes: Vec<String>,
}

impl Kept {
    /// Reads the changes at `path` into `settings`, those of the config file.
    pub(crate) fn load(
        path: &Path,
        source: &dyn Source,
        settings: &Settings,
    ) -> Result<Loaded, StartError> {
        let wrong = |what: String| StartError::Changes(format!("{}: {what}", path.display()));
        let text = saved::read(path).map_err(|error| wrong(error.to_string()))?;
        let (mut next, mut notes) = (settings.clone(), Vec::new());
        if text.trim_ascii().is_empty() {
            return Ok(Loaded {
                settings: next,
                notes,
            });
        }
        let file: File = serde_json::from_slice(&text).map_err(|error| {
            wrong(format!(
                "these are no changes that weir has kept ({error}); remove the file to do without them"
            ))
        })?;
        for (name, changed) in file.upstreams {
            let mut upstreams = next.upstreams.iter_mut();
            let Some(upstream) = upstreams.find(|upstream| upstream.name == name) else {
                notes.push(format!(
                    "upstream {name}: changes made through the admin listener are gone with it"
                ));
                continue;
            };
            let read = |saved: &[SavedServer]| {
                let servers = saved.iter().map(|saved| saved.read(source));
                servers.collect::<Result<Vec<_>, _>>().map_err(wrong)
            };
            let (was, is) = (read(&changed.file)?, read(&changed.now)?);
            if is.is_empty() {
                return Err(wrong(format!("upstream {name}: it has no server")));
            }
            let edited = Edited { was: &was, is: &is };
            let note = edited.merge_into(&mut upstream.servers);
            notes.push(format!("upstream {name}: {note}"));
        }
        Ok(Loaded {
            settings: next,
            notes,
        })
    }

    /// Keeps what `now` has changed of `file` in the place of what was kept, which is the result. A file that says so already is
    /// not written.
    pub(crate) fn replace(&self, file: &Settings, now: &Settings) -> Result<Vec<u8>, StartError> {
        let text = text(file, now).map_err(|error| self.unwritten(&error))?;
        let before = saved::read(&self.path).map_err(|error| self.unwritten(&error))?;
        let is_nothing = before.is_empty() && text == NOTHING;
        if before != text && !is_nothing {
            self.write(&text)?;
        }
        Ok(before)
    }

    /// Keeps `text`, durably.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), StartError> {
        let written = saved::draft(&self.path, text).and_then(|draft| self.publish(&draft));
        written.map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, error: &io::Error) -> StartError {
        let path = self.path.display();
        StartError::Changes(format!("cannot write {path}: {error}"))
    }

    /// Writes what `now` has changed of `file` beside the changes that are kept.
    pub(crate) fn draft(&self, file: &Settings, now: &Settings) -> io::Result<PathBuf> {
        saved::draft(&self.path, &text(file, now)?)
    }

    /// Keeps what was drafted, durably.
    pub(crate) fn publish(&self, draft: &Path) -> io::Result<()> {
        saved::publish(&self.path, draft)
    }
}

/// A file without changes.
const NOTHING: &[u8] = b"{\"upstreams\":{}}\n";

/// What `now` has changed of `file`, in the form of the file of changes.
fn text(file: &Settings, now: &Settings) -> io::Result<Vec<u8>> {
    let changed = now.upstreams.iter().filter_map(|now| {
        let file = of_file(file, &now.name)?;
        let changed = Changed {
            file: all(&file.servers),
            now: all(&now.servers),
        };
        (changed.file != changed.now).then(|| (now.name.clone(), changed))
    });
    let file = File {
        upstreams: changed.collect(),
    };
    let mut text = serde_json::to_vec(&file).map_err(io::Error::other)?;
    text.push(b'\n');
    Ok(text)
}

/// What the config file says of an upstream.
pub(super) fn of_file<'s>(file: &'s Settings, upstream: &str) -> Option<&'s Upstream> {
    file.upstreams.iter().find(|other| other.name == upstream)
}

fn all(servers: &[Server]) -> Vec<SavedServer> {
    let servers = servers.iter().map(|server| SavedServer {
        server: server.label.clone(),
        weight: server.weight,
        draining: server.is_draining,
    });
    servers.collect()
}

impl SavedServer {
    fn read(&self, source: &dyn Source) -> Result<Server, String> {
        let server = source.server(&self.server);
        let server = server.map_err(|error| format!("found {:?}, {error}", self.server))?;
        Ok(Server {
            weight: self.weight,
            is_draining: self.draining,
            ..server
        })
    }
}
