//! From a config file, or a few flags, to valid [`Settings`].
//!
//! This is the only place that knows TOML. Whatever is wrong with a file is said here, all of it at once, with the
//! line, the key, what was found and what was expected; the gateway takes the result without checking it again.
//! Nothing here opens a socket or starts a thread. What only shows when the settings are put to work, such as a name of
//! a server that does not resolve, is found by the gateway, and [`place`] says where it stands in the file.
//!
//! - [`mod@file`]: the sections of a file, in the order of the reference; the upstreams and routes in [`upstream`],
//!   [`route`] and [`action`]
//! - [`mod@log`]: the access log and the ids of requests
//! - [`cache`], [`compress`]: `[cache]` and what routes say of it; what they compress
//! - [`error_pages`]: what clients read with errors
//! - [`care`]: what routes and upstreams do so that no service is broken by its load
//! - [`queue`]: where deferred requests wait, and the services that routes have by it
//! - [`guard`]: the JSON of guard, another breaker
//! - [`scenario`]: the files of `weir lab`, read by the same means
//! - [`mix`]: the requests of `weir load`, read by the same means
//! - [`regular`]: files, and nothing that only looks like one
//! - [`declared`]: every key with its kind, range and default; `schema` tells editors
//! - [`entries`], [`entry`]: what stands at declared keys
//! - [`sources`]: a file and those that it includes; [`outside`]: variables and files in values; [`inputs`]: what was read
//! - [`syntax`], [`read`], [`value`]: from text to values that know their line and key
//! - [`address`], [`headers`], [`pattern`], [`template`], [`units`]: what a single text may look like
//! - [`error`], [`suggest`], [`place`]: how a mistake is told; [`notes`]: what is none, and hardly meant

mod action;
mod address;
mod cache;
mod care;
mod compress;
mod cookie;
mod declared;
mod engine;
mod entries;
mod entry;
mod error;
mod error_pages;
mod file;
mod foreign;
pub(crate) mod guard;
mod headers;
mod in_process;
mod inputs;
mod kv;
mod log;
#[cfg(feature = "load")]
pub(crate) mod mix;
pub(crate) mod notes;
mod outside;
mod pattern;
mod place;
mod queue;
mod read;
pub(crate) mod regular;
mod route;
#[cfg(feature = "lab")]
pub(crate) mod scenario;
pub(crate) mod schema;
mod sink;
mod sources;
mod suggest;
mod syntax;
mod table;
mod template;
#[cfg(test)]
mod tests;
pub(crate) mod units;
mod upstream;
mod value;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_gateway::StartError;
use weir_gateway::settings::{
    AccessLog, Action, Admin, AllRoutes, ClientTimeouts, Conditions, Dns, ErrorPages, Forward,
    HeaderEdits, HostPattern, Limits, LogTarget, Messages, ResponseHeaders, Route, RouteLimits,
    Server, Settings, UpstreamTimeouts, overlap,
};

pub(crate) use self::address::{admin, listen};
pub(crate) use self::declared::server::MESSAGE_FORMATS;
pub(crate) use self::error::ConfigError;
pub(crate) use self::in_process::{InProcess, Service as InProcessService};
pub(crate) use self::inputs::Inputs;
pub(crate) use self::kv::StoreSettings;

use self::declared::file::FILE;
use self::entries::Entries;
use self::error::Report;
use self::outside::Surroundings;
use self::read::Table;
use self::sources::Sources;

/// What a file says: the settings of the gateway, and what is behind the services that they name.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) services: InProcess,
}

/// Reads the file at `path`, and notes in `inputs` what was read, even when something is wrong with it.
pub(crate) fn load(path: &Path, inputs: &mut Inputs) -> Result<Config, ConfigError> {
    let sources = Sources::read(path, &variable, inputs)?;
    let config = config_of(&sources, &variable, inputs)?;
    if let Some(problem) = is_written_to(inputs, &config.settings)
        && let Some(error) = place::of(&problem, &sources, &variable)
    {
        return Err(error);
    }
    Ok(config)
}

/// The `[admin]` of the file at `path`, whatever else is wrong with it. `None` if it has none that can be read.
pub(crate) fn admin_of(path: &Path) -> Option<Admin> {
    of_sections(path, file::admin_alone)?
}

/// The `[kv]` of the file at `path`, whatever else is wrong with it. `None` if it has none that can be read.
pub(crate) fn store_of(path: &Path) -> Option<StoreSettings> {
    of_sections(path, kv::store)?
}

/// How the file at `path` wants messages written, whatever else is wrong with it.
pub(crate) fn messages_of(path: &Path) -> Messages {
    of_sections(path, file::messages_alone).unwrap_or_default()
}

/// Whether a file that the settings are from is one that they have written to.
fn is_written_to(inputs: &Inputs, settings: &Settings) -> Option<StartError> {
    if let Some(AccessLog {
        target: LogTarget::File(log),
        ..
    }) = &settings.access_log
        && inputs.is_one(log)
    {
        let error = std::io::Error::other("it is the config file");
        return Some(StartError::AccessLog(log.display().to_string(), error));
    }
    let admin = settings.admin.as_ref()?;
    let own = |path: &Option<PathBuf>| {
        let path = path.as_ref().filter(|path| inputs.is_one(path))?;
        Some(format!("{}: it is the config file", path.display()))
    };
    let apps = own(&admin.guard_file).map(StartError::Apps);
    apps.or_else(|| own(&admin.changes_file).map(StartError::Changes))
}

/// What to tell the user of `error`, which kept a gateway from starting with the file at `path`.
pub(crate) fn start_error(error: StartError, path: &Path) -> anyhow::Error {
    let sources = Sources::read(path, &variable, &mut Inputs::default()).ok();
    let problem = sources.and_then(|sources| place::of(&error, &sources, &variable));
    match problem {
        Some(problem) => problem.into(),
        None => error.into(),
    }
}

/// A variable of the environment.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Reads a server as it stands in the list of an upstream.
pub(crate) fn server(text: &str) -> Result<Server, String> {
    upstream::single_server(text)
}

/// What `weir serve --listen ADDRESS --to SERVER` means, and `--protect` and `--admin` beside it: every request goes to the
/// servers, nothing is logged.
pub(crate) fn from_flags(
    listen: SocketAddr,
    to: &[String],
    protect: bool,
    admin: Option<SocketAddr>,
) -> Result<Settings, ConfigError> {
    let mut upstream = upstream::from_flags(to).map_err(ConfigError::Flags)?;
    if protect {
        upstream.care = care::upstream::protected();
    }
    if let Some(admin) = admin.filter(|admin| overlap(listen, *admin)) {
        let problem =
            format!("--admin: found \"{admin}\", expected another port than that of --listen");
        return Err(ConfigError::Flags(vec![problem]));
    }
    let limits = Limits::default();
    let every_route = RouteLimits {
        rates: Vec::new(),
        body_bytes: limits.body_bytes,
    };
    let forward = Forward {
        upstream: 0,
        split: None,
        mirror: None,
        strip_prefix: None,
        rewrite: None,
        request_headers: HeaderEdits::default(),
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
        admin: admin.map(|listen| Admin {
            listen,
            token: None,
            guard_file: None,
            changes_file: None,
        }),
        messages: Messages::default(),
        access_log: None,
        trusted_proxies: Vec::new(),
        cache: None,
        dns: Dns::default(),
        error_pages: ErrorPages::default(),
        limits,
        timeouts: ClientTimeouts::default(),
        upstreams: vec![upstream],
        all_routes: AllRoutes::default(),
        routes: vec![Route {
            name: "/{*rest}".to_owned(),
            host: HostPattern::Any,
            path: "/{*rest}".to_owned(),
            methods: None,
            conditions: Conditions::default(),
            cors: None,
            error_pages: ErrorPages::default(),
            limits: every_route,
            response_headers: ResponseHeaders::default(),
            action: Action::Forward(forward),
            app: None,
        }],
    })
}

/// Reads the text of a config file; `file_name` begins every line of the error.
///
/// A text that is not TOML is reported as that alone: with half of it misread, complaints about its meaning would
/// mislead more than they help.
pub(crate) fn parse(text: &str, file_name: &str) -> Result<Config, ConfigError> {
    let mut inputs = Inputs::default();
    let sources = Sources::of_text(text, file_name, &variable, &mut inputs);
    config_of(&sources, &variable, &mut inputs)
}

/// What `read` finds in the sections of the file at `path`. Mistakes are not told: whoever needs all of it does so.
fn of_sections<T>(path: &Path, read: impl FnOnce(&mut Entries<'_>) -> T) -> Option<T> {
    let inputs = &mut Inputs::default();
    let sources = Sources::read(path, &variable, inputs).ok()?;
    let report = sources.report();
    let mut tree = sources.tree(&report);
    let variable = &variable;
    let mut from = Surroundings { variable, inputs };
    let outside = outside::found(&tree, &report, &mut from);
    outside::put(&mut tree, &outside);
    let root = Table::new(&report, sources.end(), String::new(), &tree);
    Some(read(&mut Entries::new(root, &FILE)))
}

/// What the texts of a file say.
fn config_of(
    sources: &Sources,
    variable: &dyn Fn(&str) -> Option<OsString>,
    inputs: &mut Inputs,
) -> Result<Config, ConfigError> {
    let report = sources.report();
    let mut tree = sources.tree(&report);
    if !report.is_empty() {
        return Err(report.into_error(sources.name()));
    }
    let mut from = Surroundings { variable, inputs };
    let outside = outside::found(&tree, &report, &mut from);
    outside::put(&mut tree, &outside);
    report.hide(&outside);
    // What a file lacks is reported at its end, where it can be added.
    let root = Table::new(&report, sources.end(), String::new(), &tree);
    let config = file::config(Entries::new(root, &FILE));
    if report.is_empty() {
        Ok(config)
    } else {
        Err(report.into_error(sources.name()))
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
