//! Adding, weighting, draining and removing servers while the gateway runs.
//!
//! Such a change is a configuration like any other. It lasts until the process ends, or until a file is read
//! that changes the upstream.

use std::fmt;

use crate::changes::Changes;
use crate::control::Control;
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
    /// No upstream has this name.
    NoUpstream(String),
    /// The upstream has no such server.
    NoServer(String),
    /// An upstream needs at least one server.
    LastServer,
    /// The request makes no sense.
    Invalid(String),
    /// The request makes sense, but the change does not work.
    Refused(String),
}

impl Control {
    /// Applies `edit` to the server `text` of an upstream. Returns when every worker has taken it up.
    pub(crate) fn edit_server(
        &self,
        upstream: &str,
        text: &str,
        edit: Edit,
    ) -> Result<Changes, EditError> {
        let refused = |error: StartError| EditError::Refused(error.to_string());
        let server = self.source.server(text);
        let server = server.map_err(|error| {
            let error = format!("server: found \"{text}\", {error}");
            EditError::Invalid(error)
        })?;
        let edited = |settings: &Settings| edited(settings, upstream, &server, edit);
        // Most likely nothing changes while its name is looked up.
        let draft = edited(&lock(&self.state).current)?;
        let mut state = self.state_with_names(&draft).map_err(refused)?;
        let next = edited(&state.current)?;
        let changes = Changes::between(&state.current, &next);
        self.put_to_work(&mut state, next).map_err(refused)?;
        Ok(changes)
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
    let mut upstreams = settings.upstreams.iter_mut();
    let found = upstreams.find(|candidate| candidate.name == upstream);
    let servers = match found {
        Some(found) => &mut found.servers,
        None => return Err(EditError::NoUpstream(upstream.to_owned())),
    };
    let place = servers.iter().position(|s| s.address == server.address);
    let missing = || EditError::NoServer(server.label.clone());
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
            Self::NoUpstream(name) => write!(f, "there is no upstream \"{name}\""),
            Self::NoServer(label) => write!(f, "the upstream has no server \"{label}\""),
            Self::LastServer => f.write_str(
                "an upstream has at least one server: add another one first, or drain this one",
            ),
            Self::Invalid(reason) | Self::Refused(reason) => f.write_str(reason),
        }
    }
}
