//! What an app of guard's means in weir's terms, and what weir refuses besides what guard does: what guard would have
//! taken for something else, would have died of, or could never have served.

use weir_gateway::settings::{HostPattern, ServerAddress};
use weir_http::host;

use super::app::{App, Mistake};
use crate::config::address;
use crate::config::pattern::{self, PathPattern};

/// What guard goes by, whatever `ratio` says, and what an app gets that says nothing.
const RATIO_DEFAULT: f64 = 0.3;
const RATIO_MIN: f64 = 0.01;
const WEIGHT_MAX: u64 = 1000;
const PORT_DEFAULT: &str = "80";
/// What guard knows, without those that weir serves to nobody.
pub(super) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
const METHODS_NEVER: [&str; 2] = ["CONNECT", "TRACE"];

/// An app that has a config.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) host: String,
    /// Labels and weights; none when the app has no backends.
    pub(super) servers: Vec<(String, u64)>,
    pub(super) balance: &'static str,
    pub(super) ratio: f64,
    pub(super) routes: Vec<Served>,
    pub(super) redirects: Vec<Redirected>,
    pub(super) fallback: Body,
    /// What a reader of the config should know.
    pub(super) notes: Vec<String>,
}

/// A path and the methods that are sent on.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) path: PathPattern,
    pub(super) methods: Vec<&'static str>,
}

/// A path that is another one but for the slash at its end.
#[derive(Debug, PartialEq)]
pub(super) struct Redirected {
    pub(super) from: String,
    pub(super) to: String,
}

/// What is answered while the breaker is open.
#[derive(Debug)]
pub(super) enum Body {
    Content(&'static str, String),
    File(String),
}

impl Plan {
    /// The plan of an app that guard would take; otherwise all that is wrong with it.
    pub(super) fn of(app: &App) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let mut notes = Vec::new();
        let host = host_of(app, &mut notes).unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            String::new()
        });
        let servers = servers(app, &mut mistakes, &mut notes);
        let ratio = match app.ratio {
            0.0 => RATIO_DEFAULT,
            ratio => ratio,
        };
        if !(RATIO_MIN..=1.0).contains(&ratio) {
            let what =
                format!("found {ratio}, expected {RATIO_MIN} to 1, or 0 for {RATIO_DEFAULT}");
            mistakes.push(Mistake::new("ratio", what));
        }
        let routes = routes(app, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let redirects = if app.disable_tsr {
            Vec::new()
        } else {
            redirects(&routes)
        };
        Ok(Self {
            name: app.name.clone(),
            host,
            servers,
            balance: match &*app.load_balance_method {
                "random" => "random",
                _ => "round-robin",
            },
            ratio,
            routes,
            redirects,
            fallback: fallback(app),
            notes,
        })
    }
}

/// The host of requests, which weir knows without a port and in lower case.
fn host_of(app: &App, notes: &mut Vec<String>) -> Result<String, Mistake> {
    let expected = || {
        let what = format!(
            "found {:?}, expected a host such as \"www.example.com\"",
            app.name
        );
        Mistake::new("name", what)
    };
    let name = host::name(app.name.as_bytes()).map_err(|_| expected())?;
    let name = std::str::from_utf8(name).map_err(|_| expected())?;
    let Ok(HostPattern::Exact(host)) = pattern::host(name) else {
        return Err(expected());
    };
    if host != app.name {
        notes.push(format!(
            "The name in guard is {:?}: hosts are matched without ports and in any case of letters here.",
            app.name
        ));
    }
    Ok(host)
}

/// The backends, each once.
fn servers(app: &App, mistakes: &mut Vec<Mistake>, notes: &mut Vec<String>) -> Vec<(String, u64)> {
    let mut servers: Vec<(String, ServerAddress, u64)> = Vec::new();
    // Nor does guard look at the weight of the only one.
    let heeds_weights = app.load_balance_method == "wrr" && app.backends.len() > 1;
    let has_weights = app.weights.iter().any(|weight| *weight != 1);
    if has_weights && !heeds_weights && app.backends.len() > 1 {
        let method = match &*app.load_balance_method {
            "" => "rr, since none is said",
            method => method,
        };
        notes.push(format!(
            "The weights {:?} are left out: in guard only wrr heeds them, and the method is {method}.",
            app.weights
        ));
    }
    for (index, (backend, &weight)) in app.backends.iter().zip(&app.weights).enumerate() {
        let weight = if heeds_weights { weight } else { 1 };
        let Some(weight) = u64::try_from(weight).ok().filter(|w| *w <= WEIGHT_MAX) else {
            let what = format!("found {weight}, expected 0 to {WEIGHT_MAX}");
            mistakes.push(Mistake::new(format!("weights[{index}]"), what));
            continue;
        };
        // As the client library of guard has it.
        let with_port = if backend.contains(':') {
            backend.clone()
        } else {
            format!("{backend}:{PORT_DEFAULT}")
        };
        let (label, address) = match address::server(&with_port) {
            Ok(server) => server,
            Err(complaint) => {
                let what = format!("found {backend:?}, {complaint}");
                mistakes.push(Mistake::new(format!("backends[{index}]"), what));
                continue;
            }
        };
        if weight == 0 {
            notes.push(format!("{backend} is left out: its weight is 0."));
            continue;
        }
        match servers.iter_mut().find(|(_, other, _)| *other == address) {
            Some((_, _, sum)) => *sum = (*sum + weight).min(WEIGHT_MAX),
            None => servers.push((label, address, weight)),
        }
    }
    let servers = servers.into_iter();
    servers.map(|(label, _, weight)| (label, weight)).collect()
}

/// The paths with all their methods, which guard has one by one.
fn routes(app: &App, mistakes: &mut Vec<Mistake>) -> Vec<Served> {
    let mut routes: Vec<Served> = Vec::new();
    for (index, (path, method)) in app.paths.iter().zip(&app.methods).enumerate() {
        let upper = method.to_ascii_uppercase();
        let method = METHODS.into_iter().find(|known| *known == upper);
        if method.is_none() {
            let what = if METHODS_NEVER.contains(&&*upper) {
                "TRACE and CONNECT are never served".to_owned()
            } else {
                format!("bad http method: {upper}")
            };
            mistakes.push(Mistake::new(format!("methods[{index}]"), what));
        }
        let path = pattern_of(path).map_err(|what| {
            let what = format!("found {path:?}, {what}");
            mistakes.push(Mistake::new(format!("paths[{index}]"), what));
        });
        let (Some(method), Ok(path)) = (method, path) else {
            continue;
        };
        // Paths that differ in the names of their parameters alone are one path.
        match routes
            .iter_mut()
            .find(|served| served.path.shape == path.shape)
        {
            Some(served) if served.methods.contains(&method) => {}
            Some(served) => served.methods.push(method),
            None => routes.push(Served {
                path,
                methods: vec![method],
            }),
        }
    }
    routes
}

/// `/user/:name/*rest` as `/user/{name}/{*rest}`.
fn pattern_of(path: &str) -> Result<PathPattern, String> {
    if path.contains(['{', '}']) {
        return Err("expected a path without braces, which are for parameters here".to_owned());
    }
    let mut taken: Vec<String> = Vec::new();
    let segment = |segment: &str| {
        let Some(name) = segment.strip_prefix([':', '*']) else {
            return if segment.contains([':', '*']) {
                Err(format!(
                    "expected a parameter to be a whole segment, unlike {segment:?}"
                ))
            } else {
                Ok(segment.to_owned())
            };
        };
        if name.contains([':', '*']) {
            return Err(format!("expected one parameter in {segment:?}"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut name = name.replace(|c| !is_plain(c), "_");
        // What a parameter is called has no consequences, as long as it is called something of its own.
        while !name.is_empty() && taken.contains(&name) {
            name.push('_');
        }
        taken.push(name.clone());
        let star = if segment.starts_with('*') { "*" } else { "" };
        Ok(format!("{{{star}{name}}}"))
    };
    let segments: Result<Vec<String>, String> = path.split('/').map(segment).collect();
    pattern::path(&segments?.join("/"))
}

/// Where guard redirects to a path with a slash more or less: unless another path of the app serves the request.
fn redirects(routes: &[Served]) -> Vec<Redirected> {
    let mut redirects: Vec<Redirected> = Vec::new();
    for served in routes {
        let to = &served.path.text;
        let from = match to.strip_suffix('/') {
            Some("") => continue,
            Some(without) => without.to_owned(),
            None if to.contains("{*") => continue,
            None => format!("{to}/"),
        };
        let is_served = routes.iter().any(|other| covers(&other.path.text, &from));
        if !is_served {
            redirects.push(Redirected {
                from,
                to: to.clone(),
            });
        }
    }
    redirects
}

/// Whether every path that `narrow` matches is one that `wide` matches.
fn covers(wide: &str, narrow: &str) -> bool {
    let mut narrow = narrow.split('/');
    for segment in wide.split('/') {
        if segment.starts_with("{*") {
            return true;
        }
        let covered = match narrow.next() {
            Some(other) if segment.starts_with('{') => !other.is_empty(),
            Some(other) => other == segment,
            None => false,
        };
        if !covered {
            return false;
        }
    }
    narrow.next().is_none()
}

fn fallback(app: &App) -> Body {
    let content = app.fallback_content.clone();
    match &*app.fallback_type {
        "json" => Body::Content("application/json", content),
        "html" => Body::Content("text/html", content),
        "html_file" => Body::File(content),
        _ if content.is_empty() => Body::Content("text/plain", "too many requests".to_owned()),
        _ => Body::Content("text/plain", content),
    }
}
