//! Why the laboratory could not do what it was asked. Each error is one line that also says what to do.

use std::fmt;
use std::io;

use crate::raw::RawError;

/// Why a run could not be made.
#[derive(Debug)]
pub enum LabError {
    /// A program is not installed; the Debian package contains it.
    MissingProgram {
        /// The program.
        program: &'static str,
        /// The package.
        package: &'static str,
    },
    /// A scenario needs CPU shares, and this system has none.
    NoCpuShares(String),
    /// A service did not come up.
    Service {
        /// Its name.
        name: String,
        /// What happened, with its last output.
        why: String,
    },
    /// What a service needs could not be fetched.
    Fetch(String),
    /// The service to be measured cannot be reached or does not answer well.
    Target {
        /// The name that the user gave.
        target: String,
        /// What happened.
        why: String,
    },
    /// The load could not be generated.
    Load(String),
    /// The events of a load could not be counted at one of their ends.
    Events {
        /// The service.
        name: String,
        /// What happened.
        why: String,
    },
    /// A rung cannot run, and why.
    Configuration(String),
    /// A file, directory or process could not be made: what was tried.
    System(String, io::Error),
    /// A profile could not be kept.
    Profile(String),
    /// Raw data could not be read or written.
    Raw(RawError),
    /// The user ended it before anything was measured.
    Stopped,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingProgram { program, package } => write!(
                f,
                "{program} is not installed: `apt install {package}`, or `make setup` in weir's repository"
            ),
            Self::NoCpuShares(why) => {
                write!(
                    f,
                    "this scenario limits CPU shares by cgroups, which is not possible here: {why}"
                )
            }
            Self::Service { name, why } => write!(f, "{name} did not start: {why}"),
            Self::Fetch(why) => write!(f, "what a service needs cannot be fetched: {why}"),
            Self::Target { target, why } => write!(f, "{target}: {why}"),
            Self::Load(why) => write!(f, "the load cannot be generated: {why}"),
            Self::Events { name, why } => {
                write!(f, "events cannot be counted at {name}: {why}")
            }
            Self::Configuration(why) | Self::Profile(why) => f.write_str(why),
            Self::System(what, cause) => write!(f, "cannot {what}: {cause}"),
            Self::Raw(cause) => cause.fmt(f),
            Self::Stopped => f.write_str("ended before anything was measured"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<RawError> for LabError {
    fn from(cause: RawError) -> Self {
        Self::Raw(cause)
    }
}

/// Says what was tried when the system refused it.
pub(crate) trait Tried<T> {
    /// `what` completes "cannot ...".
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|cause| LabError::System(what(), cause))
    }
}
