//! The access log: where lines go, how they look, and what is left out of them.

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::template::{Template, Variable};

/// The access log: where it goes and how long lines wait in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// File or standard output.
    pub target: LogTarget,
    /// The shape of a line.
    pub format: LogFormat,
    /// What a line does not say of the queries of URLs.
    pub redact: Redact,
    /// A worker hands its lines over when it has collected this many bytes.
    pub buffer_bytes: usize,
    /// It also hands them over after this long. To a terminal it does so line by line.
    pub flush: Duration,
}

/// Where log lines end up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// `"-"` in the config.
    Stdout,
    /// Appended to; reopened on SIGUSR1.
    File(PathBuf),
    /// Handed to the service of this name.
    Service(String),
}

/// The shape of an access log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined log format of Apache httpd and nginx.
    Combined,
    /// One JSON object a line, with these members where they have a value.
    Json(Vec<Variable>),
    /// A text of its own; what has no value is a hyphen.
    Text(Template),
}

/// What is left out of the URLs in a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Redact {
    /// Nothing.
    #[default]
    Nothing,
    /// Everything behind the first `?` or `#`.
    Queries,
    /// The values of the parameters of these names.
    Parameters(Vec<String>),
}
