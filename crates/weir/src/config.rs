//! From a config file, or a few flags, to valid [`Settings`].
//!
//! This is the only place that knows TOML. Whatever is wrong with a file is said here, all of it at once, with the
//! line, the key, what was found and what was expected; the gateway takes the result without checking it again.
//! Nothing here opens a socket or starts a thread. What only shows when the settings are put to work, such as a name of
//! a server that does not resolve, is found by the gateway, and [`place`] says where it stands in the file.
//!
//! - [`mod@file`]: the sections of a file, in the order of the reference; the upstreams and routes in [`upstream`],
//!   [`route`] and [`action`]
//! - [`cache`], [`compress`]: `[cache]` and what routes say of it; what they compress
//! - [`care`]: what routes and upstreams do so that no service is broken by its load
//! - [`guard`]: the JSON of guard, another breaker
//! - [`scenario`]: the files of `weir lab`, read by the same means
//! - [`mix`]: the requests of `weir load`, read by the same means
//! - [`regular`]: files, and nothing that only looks like one
//! - [`declared`]: every key with its kind, range and default; `schema` tells editors
//! - [`entries`], [`entry`]: what stands at declared keys
//! - [`syntax`], [`read`], [`value`]: from text to values that know their line and key
//! - [`address`], [`headers`], [`pattern`], [`units`]: what a single text may look like
//! - [`error`], [`suggest`], [`place`]: how a mistake is told

mod action;
mod address;
mod cache;
mod care;
mod compress;
mod declared;
mod entries;
mod entry;
mod error;
mod file;
pub(crate) mod guard;
mod headers;
#[cfg(feature = "load")]
pub(crate) mod mix;
mod pattern;
mod place;
mod read;
pub(crate) mod regular;
mod route;
#[cfg(feature = "lab")]
pub(crate) mod scenario;
pub(crate) mod schema;
mod suggest;
mod syntax;
#[cfg(test)]
mod tests;
pub(crate) mod units;
mod upstream;
mod value;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use weir_gateway::StartError;
use weir_gateway::settings::{
    AccessLog, Action, ClientTimeouts, Dns, Forward, HeaderEdits, HostPattern, Limits, LogTarget,
    Route, RouteLimits, Server, Settings, UpstreamTimeouts,
};

pub(crate) use self::error::ConfigError;

use self::declared::file::FILE;
use self::entries::Entries;
use self::error::Report;
use self::read::Table;

/// Reads the file at `path`.
pub(crate) fn load(path: &Path) -> Result<Settings, ConfigError> {
    let file_name = path.display().to_string();
    let bytes = regular::whole(path).map_err(|cause| ConfigError::Unreadable {
        file: file_name.clone(),
        cause,
    })?;
    let text = text_of(&bytes, &file_name)?;
    let settings = parse(text, &file_name)?;
    if let Some(problem) = is_written_to(path, &settings)
        && let Some(error) = place::of(&problem, text, &file_name)
    {
        return Err(error);
    }
    Ok(settings)
}

/// Whether the file that the settings are from is one that they have written to.
fn is_written_to(path: &Path, settings: &Settings) -> Option<StartError> {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let is_it = |other: &Path| identity(other) == identity(path) && identity(path).is_some();
    if let Some(AccessLog {
        target: LogTarget::File(log),
        ..
    }) = &settings.access_log
        && is_it(log)
    {
        let error = std::io::Error::other("it is the config file");
        return Some(StartError::AccessLog(log.display().to_string(), error));
    }
    let apps = settings.admin.as_ref()?.guard_file.as_ref()?;
    let why = || StartError::Apps(format!("{}: it is the config file", apps.display()));
    is_it(apps).then(why)
}

/// What to tell the user of `error`, which kept a gateway from starting with the file at `path`.
pub(crate) fn start_error(error: StartError, path: &Path) -> anyhow::Error {
    let bytes = regular::whole(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match place::of(&error, &text, &path.display().to_string()) {
        Some(problem) => problem.into(),
        None => error.into(),
    }
}

/// Reads a server as it stands in the list of an upstream.
pub(crate) fn server(text: &str) -> Result<Server, String> {
    upstream::single_server(text)
}

/// What `weir serve --listen ADDRESS --to SERVER` means, and `--protect` beside it: every request goes to the servers,
/// nothing is logged.
pub(crate) fn from_flags(
    listen: SocketAddr,
    to: &[String],
    protect: bool,
) -> Result<Settings, ConfigError> {
    let mut upstream = upstream::from_flags(to).map_err(ConfigError::Flags)?;
    if protect {
        upstream.care = care::upstream::protected();
    }
    let limits = Limits::default();
    let every_route = RouteLimits {
        rates: Vec::new(),
        body_bytes: limits.body_bytes,
    };
    let forward = Forward {
        upstream: 0,
        strip_prefix: None,
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        timeouts: UpstreamTimeouts::default(),
        request_buffer: Forward::REQUEST_BUFFER,
        response_buffer: Forward::RESPONSE_BUFFER,
        cache: None,
        compress: None,
        upgrade: action::default_upgrades(),
        care: Box::default(),
    };
    Ok(Settings {
        workers: file::worker_per_core(),
        listeners: vec![listen],
        admin: None,
        access_log: None,
        trusted_proxies: Vec::new(),
        cache: None,
        dns: Dns::default(),
        limits,
        timeouts: ClientTimeouts::default(),
        upstreams: vec![upstream],
        routes: vec![Route {
            name: "/{*rest}".to_owned(),
            host: HostPattern::Any,
            path: "/{*rest}".to_owned(),
            methods: None,
            limits: every_route,
            action: Action::Forward(forward),
            app: None,
        }],
    })
}

/// Reads the text of a config file; `file_name` begins every line of the error.
///
/// A text that is not TOML is reported as that alone: with half of it misread, complaints about its meaning would
/// mislead more than they help.
pub(crate) fn parse(text: &str, file_name: &str) -> Result<Settings, ConfigError> {
    let report = Report::on(text);
    let document = syntax::parse(text, &report);
    if !report.is_empty() {
        return Err(report.into_error(file_name));
    }
    // What a file lacks is reported at its end, where it can be added.
    let root = Table::new(&report, text.len(), String::new(), document.get_ref());
    let settings = file::settings(Entries::new(root, &FILE));
    if report.is_empty() {
        Ok(settings)
    } else {
        Err(report.into_error(file_name))
    }
}

/// The bytes of a file as text.
fn text_of<'b>(bytes: &'b [u8], file_name: &str) -> Result<&'b str, ConfigError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        // What is left of the text with the broken bytes replaced has the same lines up to there.
        let report = Report::on(&String::from_utf8_lossy(bytes));
        report.add(at, "", "found bytes that are not UTF-8, expected text");
        report.into_error(file_name)
    })
}
