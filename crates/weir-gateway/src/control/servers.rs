//! Adding, weighting, draining and removing servers while the gateway runs.
//!
//! Such a change is a configuration like any other. It lasts until a file is read that says something else of the
//! server (`merged.rs`), and ends with the process unless it is `kept`.

use std::{fmt, fs, io};

use crate::changes::Changes;
use crate::control::{Control, State, kept};
use crate::lock::lock;
use crate::settings::{Server, Settings};
use crate::start_error::StartError;

/// The range of weights, as in the file.
pub(crate) const WEIGHT_MAX: u32 = 1000;

/// What happens to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    /// It exists, with this weight, and is not drained.
    Put { weight: u32 },
    /// It exists already; what is `None` stays as it is.
    Change {
        weight: Option<u32>,
        is_draining: Option<bool>,
    },
    /// It exists no longer.
    Remove,
}

/// Why a server stays as it was.
#[derive(Debug)]
pub(crate) enum EditError {
    /// No upstream has this name; these there are.
    NoUpstream(String, Vec<String>),
    /// The upstream has no such server; these it has.
    NoServer(String, Vec<String>),
    /// An upstream needs at least one server.
    LastServer,
    /// The request makes no sense.
    Invalid(String),
    /// The request makes sense, but the change does not work.
    Refused(String),
    /// The change could not be kept, so it was not made.
    Unkept(String),
}

impl Control {
    /// Applies `edit` to the server `text` of an upstream. Returns when every worker has taken it up.
    pub(crate) fn edit_server(
        &self,
        upstream: &str,
        text: &str,
        edit: Edit,
    ) -> Result<Changes, EditError> {
        let server = self.source.server(text);
        let server = server.map_err(|error| {
            let error = format!("server: found \"{text}\", {error}");
            EditError::Invalid(error)
        })?;
        self.change_servers(|state| edited(&state.current, upstream, &server, edit))
    }

    /// Gives an upstream the servers that the file lists.
    pub(crate) fn reset_servers(&self, upstream: &str) -> Result<Changes, EditError> {
        self.change_servers(|state| {
            let mut next = state.current.clone();
            let in_file = kept::of_file(&state.file, upstream);
            let servers = servers_of(&mut next, upstream)?;
            if let Some(in_file) = in_file {
                servers.clone_from(&in_file.servers);
            }
            Ok(next)
        })
    }

    /// Makes a change, and keeps it where changes are kept. What cannot be kept is not made.
    fn change_servers(
        &self,
        change: impl Fn(&State) -> Result<Settings, EditError>,
    ) -> Result<Changes, EditError> {
        let refused = |error: StartError| EditError::Refused(error.to_string());
        // Most likely nothing changes while its name is looked up.
        let draft = change(&lock(&self.state))?;
        let mut state = self.state_with_names(&draft).map_err(refused)?;
        let next = change(&state)?;
        let changes = Changes::between(&state.current, &next);
        let Some(kept) = &self.kept else {
            self.put_to_work(&mut state, next).map_err(refused)?;
            return Ok(changes);
        };
        let unkept = |error: io::Error| {
            EditError::Unkept(format!(
                "cannot write {}: {error}; nothing has changed",
                kept.path.display()
            ))
        };
        let draft = kept.draft(&state.file, &next).map_err(unkept)?;
        let before = state.current.clone();
        if let Err(error) = self.put_to_work(&mut state, next) {
            let _ = fs::remove_file(&draft);
            return Err(refused(error));
        }
        if let Err(error) = kept.publish(&draft) {
            // These settings worked a moment ago, so they do again.
            let _ = self.put_to_work(&mut state, before);
            return Err(unkept(error));
        }
        Ok(changes)
    }
}

/// The servers of an upstream.
fn servers_of<'s>(
    settings: &'s mut Settings,
    upstream: &str,
) -> Result<&'s mut Vec<Server>, EditError> {
    let names = settings.upstreams.iter().map(|known| known.name.clone());
    let names = names.collect();
    let mut upstreams = settings.upstreams.iter_mut();
    let found = upstreams.find(|candidate| candidate.name == upstream);
    match found {
        Some(found) => Ok(&mut found.servers),
        None => Err(EditError::NoUpstream(upstream.to_owned(), names)),
    }
}

/// `settings` after the edit.
fn edited(
    settings: &Settings,
    upstream: &str,
    server: &Server,
    edit: Edit,
) -> Result<Settings, EditError> {
    let mut settings = settings.clone();
    let servers = servers_of(&mut settings, upstream)?;
    let place = servers.iter().position(|s| s.address == server.address);
    let labels: Vec<_> = servers.iter().map(|server| server.label.clone()).collect();
    let missing = || EditError::NoServer(server.label.clone(), labels);
    match (edit, place) {
        (Edit::Put { weight }, _) => {
            let server = Server {
                weight,
                is_draining: false,
                ..server.clone()
            };
            match place {
                Some(place) => servers[place] = server,
                None => servers.push(server),
            }
        }
        (
            Edit::Change {
                weight,
                is_draining,
            },
            place,
        ) => {
            let server = &mut servers[place.ok_or_else(missing)?];
            server.weight = weight.unwrap_or(server.weight);
            server.is_draining = is_draining.unwrap_or(server.is_draining);
        }
        (Edit::Remove, place) => {
            let place = place.ok_or_else(missing)?;
            if servers.len() == 1 {
                return Err(EditError::LastServer);
            }
            servers.remove(place);
        }
    }
    Ok(settings)
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUpstream(name, known) => {
                write!(f, "there is no upstream \"{name}\"; {}", listed(known))
            }
            Self::NoServer(label, known) => {
                let known = listed(known);
                write!(f, "the upstream has no server \"{label}\"; {known}")
            }
            Self::LastServer => f.write_str(
                "an upstream has at least one server: add another one first, or drain this one",
            ),
            Self::Invalid(reason) | Self::Refused(reason) | Self::Unkept(reason) => {
                f.write_str(reason)
            }
        }
    }
}

/// What there is instead.
fn listed(known: &[String]) -> String {
    match known {
        [] => "there is none".to_owned(),
        [only] => format!("there is \"{only}\""),
        several => format!("there are \"{}\"", several.join("\", \"")),
    }
}
