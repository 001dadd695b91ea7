//! The apps of guard's interface: routes that come from an admin request, and stay over a restart.
//!
//! An app is saved before it is answered for, by a file that takes the place of the one before in one step: whatever the
//! process dies of, the file has all of one state. Its form is guard's own, so that one of guard's can be taken over. What an
//! app means is the [`Source`]'s to say; this puts it beside what the config file says, which goes first where both serve a
//! request.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Map, Value, json};

use crate::control::{Control, Source};
use crate::lock::lock;
use crate::router;
use crate::settings::{Action, Route, Settings, Upstream};
use crate::start_error::StartError;

/// What an app means.
#[derive(Debug, Clone)]
pub struct App {
    /// What it is posted by again.
    pub name: String,
    /// As guard keeps it.
    pub json: Value,
    /// What its routes forward to, by index; their names are in no config file.
    pub upstreams: Vec<Upstream>,
    /// With [`Route::app`] set.
    pub routes: Vec<Route>,
}

/// Where apps are kept.
#[derive(Debug)]
pub(crate) struct Apps {
    path: PathBuf,
    /// What the file says.
    saved: Mutex<BTreeMap<String, Value>>,
    /// Held while an app is posted: one after the other.
    posting: Mutex<()>,
}

/// Why an app is not taken.
#[derive(Debug)]
pub(crate) enum AppError {
    /// What is posted makes no sense, or does not work.
    Bad(String),
    /// It could not be saved.
    Unsaved(String),
}

impl Apps {
    /// Reads what was saved; and `settings` with it. Without a file there are no apps.
    pub(crate) fn load(
        path: &Path,
        source: &dyn Source,
        settings: &Settings,
    ) -> Result<(Self, Settings), StartError> {
        let wrong = |what: String| StartError::Apps(format!("{}: {what}", path.display()));
        let is_file = fs::metadata(path).map(|found| found.is_file());
        let text = match is_file.and_then(|is_file| {
            if is_file {
                fs::read(path)
            } else {
                Err(io::Error::other("it is not a file"))
            }
        }) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mut settings = settings.clone();
        let mut saved = BTreeMap::new();
        for (name, app) in parsed(&text).map_err(wrong)? {
            let wrong = |what: String| wrong(format!("app {name:?}: {what}"));
            let json = app.to_string();
            // Where the file has come to serve the same, it goes first, as after a reload.
            let app = source.app(json.as_bytes()).map_err(wrong)?;
            adopt(&mut settings, &app.upstreams, &app.routes);
            let _ = saved.insert(name, app.json);
        }
        let apps = Self {
            path: path.to_owned(),
            saved: Mutex::new(saved),
            posting: Mutex::new(()),
        };
        Ok((apps, settings))
    }

    /// What was saved last, as a file has it.
    pub(crate) fn text(&self) -> Vec<u8> {
        text(&lock(&self.saved))
    }

    /// Writes what is to be saved, beside what is.
    fn draft(&self, apps: &BTreeMap<String, Value>) -> io::Result<PathBuf> {
        let mut name = self.path.clone().into_os_string();
        name.push(".draft");
        let draft = PathBuf::from(name);
        let mut file = File::create(&draft)?;
        file.write_all(&text(apps))?;
        file.sync_all()?;
        Ok(draft)
    }

    /// Puts a draft in the place of what is saved, for good.
    fn publish(&self, draft: &Path) -> io::Result<()> {
        let directory = self.path.parent().filter(|at| !at.as_os_str().is_empty());
        // What can fail of this comes before the new file is there.
        let directory = File::open(directory.unwrap_or(Path::new(".")))?;
        fs::rename(draft, &self.path)?;
        directory.sync_all()
    }
}

fn text(apps: &BTreeMap<String, Value>) -> Vec<u8> {
    let mut text = json!({ "apps": apps }).to_string().into_bytes();
    text.push(b'\n');
    text
}

/// The apps of a file, by name.
fn parsed(text: &[u8]) -> Result<Map<String, Value>, String> {
    if text.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    let mut file: Map<String, Value> =
        serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match file.remove("apps") {
        Some(Value::Object(apps)) => Ok(apps),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => Err("apps: expected an object with an app under each name".to_owned()),
    }
}

impl Control {
    /// The apps of guard's interface, where it is on.
    pub(crate) fn apps(&self) -> Option<&Apps> {
        self.apps.as_ref()
    }

    /// Puts the app that `json` describes in the place of the one of its name, if there is one. Returns when every worker
    /// has taken it up and it is saved.
    pub(crate) fn post_app(&self, apps: &Apps, json: &[u8]) -> Result<(), AppError> {
        let app = self.source.app(json).map_err(AppError::Bad)?;
        let bad = |error: StartError| match error {
            StartError::Draining => AppError::Unsaved(error.to_string()),
            error => AppError::Bad(error.to_string()),
        };
        let unsaved = |error: io::Error| {
            AppError::Unsaved(format!("cannot write {}: {error}", apps.path.display()))
        };
        let _one_at_a_time = lock(&apps.posting);
        let mut next_saved = lock(&apps.saved).clone();
        let _ = next_saved.insert(app.name.clone(), app.json.clone());
        let with_app = |settings: &Settings| -> Result<Settings, AppError> {
            let mut next = without(settings, &app.name);
            refuse_overlap(&next, &app).map_err(AppError::Bad)?;
            adopt(&mut next, &app.upstreams, &app.routes);
            Ok(next)
        };
        let named = with_app(&lock(&self.state).current)?;
        let mut state = self.state_with_names(&named).map_err(bad)?;
        let next = with_app(&state.current)?;
        // A disk that takes no draft changes nothing.
        let draft = apps.draft(&next_saved).map_err(unsaved)?;
        let before = state.current.clone();
        if let Err(error) = self.put_to_work(&mut state, next) {
            // It would be overwritten by the next, and is nothing that anybody should find.
            let _ = fs::remove_file(&draft);
            return Err(bad(error));
        }
        if let Err(error) = apps.publish(&draft) {
            // What is not saved is not to be served as if it were. It was put to work a moment ago, so it can be again.
            let _ = self.put_to_work(&mut state, before);
            return Err(unsaved(error));
        }
        *lock(&apps.saved) = next_saved;
        Ok(())
    }
}

/// `next` with the apps that `current` has.
pub(super) fn keep(next: &mut Settings, current: &Settings) {
    let routes = current.routes.iter().filter(|route| route.app.is_some());
    let routes: Vec<Route> = routes.cloned().collect();
    adopt(next, &current.upstreams, &routes);
}

/// Adds `routes` to `settings`, with those of `upstreams` that they forward to.
fn adopt(settings: &mut Settings, upstreams: &[Upstream], routes: &[Route]) {
    for route in routes {
        let mut route = route.clone();
        if let Some(rule) = route.action.rule_mut() {
            let upstream = &upstreams[rule.upstream];
            let known = settings.upstreams.iter();
            let known = known
                .map(|other| &other.name)
                .position(|name| *name == upstream.name);
            rule.upstream = known.unwrap_or_else(|| {
                settings.upstreams.push(upstream.clone());
                settings.upstreams.len() - 1
            });
        }
        settings.routes.push(route);
    }
}

/// `settings` without the routes of an app, and without what only these forward to.
fn without(settings: &Settings, app: &str) -> Settings {
    let is_of_app = |route: &Route| route.app.as_deref() == Some(app);
    let forwards_to = |route: &Route, index: usize| {
        let rule = route.action.rule();
        rule.is_some_and(|rule| rule.upstream == index)
    };
    let (gone, stays): (Vec<_>, Vec<_>) = settings.routes.iter().cloned().partition(is_of_app);
    let mut next = Settings {
        routes: stays,
        upstreams: Vec::new(),
        ..settings.clone()
    };
    let mut places = Vec::new();
    for (index, upstream) in settings.upstreams.iter().enumerate() {
        places.push(next.upstreams.len());
        if !gone.iter().any(|route| forwards_to(route, index)) {
            next.upstreams.push(upstream.clone());
        }
    }
    for route in &mut next.routes {
        if let Some(rule) = route.action.rule_mut() {
            rule.upstream = places[rule.upstream];
            if let Some(fallback) = &mut rule.care.fallback {
                fallback.upstream = fallback.upstream.map(|index| places[index]);
            }
        }
    }
    next
}

/// Two routes for one request would leave it open who gets it.
fn refuse_overlap(settings: &Settings, app: &App) -> Result<(), String> {
    for route in &app.routes {
        // A redirect is for what nobody serves.
        if matches!(route.action, Action::Redirect(_)) {
            continue;
        }
        let mut others = settings.routes.iter();
        if let Some(other) = others.find(|other| router::overlap(other, route)) {
            let whose = match &other.app {
                Some(app) => format!("the app {app}"),
                None => format!("the route {} of the config file", other.name),
            };
            return Err(format!(
                "{}{} is served by {whose} already",
                route.host, route.path
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_guards_is_read_and_anything_else_is_told() {
        for (text, apps) in [
            ("", Ok(0)),
            ("\n", Ok(0)),
            ("{}", Ok(0)),
            (r#"{"apps": null}"#, Ok(0)),
            (r#"{"apps": {}}"#, Ok(0)),
            (r#"{"apps": {"a": {}, "b": {}}}"#, Ok(2)),
            (r#"{"apps": []}"#, Err(())),
            (r#"{"apps": {"a": {}"#, Err(())),
            ("[]", Err(())),
        ] {
            let found = parsed(text.as_bytes()).map(|apps| apps.len());
            assert_eq!(found.map_err(|_| ()), apps, "{text}");
        }
    }
}
