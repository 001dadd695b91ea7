//! The apps of guard's interface: routes that come from an admin request and survive a restart.
//!
//! An app is saved before its request is answered, by a file that replaces the old one in one step. So the file holds
//! one complete state, however the process dies. Its form is guard's own, so that guard's file can be taken over. The
//! [`Source`] says what an app means. This module combines it with the config file, which goes first where both serve a
//! request.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Map, Value, json};

use crate::control::{Control, Source, saved};
use crate::lock::lock;
use crate::router;
use crate::settings::{Action, Route, Settings, Upstream};
use crate::start_error::StartError;

/// The meaning of an app.
#[derive(Debug, Clone)]
pub struct App {
    /// The name under which it is posted again.
    pub name: String,
    /// In the form that guard keeps.
    pub json: Value,
    /// The upstreams of its routes, by index; their names are in no config file.
    pub upstreams: Vec<Upstream>,
    /// Its routes, with [`Route::app`] set.
    pub routes: Vec<Route>,
}

/// Where apps are kept.
#[derive(Debug)]
pub(crate) struct Apps {
    path: PathBuf,
    /// The contents of the file.
    saved: Mutex<BTreeMap<String, Value>>,
    /// Held while an app is posted, so that only one is posted at a time.
    posting: Mutex<()>,
}

/// Why an app is refused.
#[derive(Debug)]
pub(crate) enum AppError {
    /// It makes no sense, or does not work.
    Bad(String),
    /// It could not be saved.
    Unsaved(String),
}

impl Apps {
    /// Reads the saved apps and adds them to `settings`. Without a file there are no apps.
    pub(crate) fn load(
        path: &Path,
        source: &dyn Source,
        settings: &Settings,
    ) -> Result<(Self, Settings), StartError> {
        let wrong = |what: String| StartError::Apps(format!("{}: {what}", path.display()));
        let text = saved::read(path).map_err(|error| wrong(error.to_string()))?;
        let mut settings = settings.clone();
        let mut saved = BTreeMap::new();
        for (name, app) in parsed(&text).map_err(wrong)? {
            let wrong = |what: String| wrong(format!("app {name:?}: {what}"));
            let json = app.to_string();
            // If the config file now serves the same, it goes first, as after a reload.
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

    /// The last saved state, in the form of the file.
    pub(crate) fn text(&self) -> Vec<u8> {
        text(&lock(&self.saved))
    }

    /// Writes what is to be saved into a file beside the saved one.
    fn draft(&self, apps: &BTreeMap<String, Value>) -> io::Result<PathBuf> {
        saved::draft(&self.path, &text(apps))
    }

    /// Replaces the saved file with a draft, durably.
    fn publish(&self, draft: &Path) -> io::Result<()> {
        saved::publish(&self.path, draft)
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
    /// The apps of guard's interface, if it is on.
    pub(crate) fn apps(&self) -> Option<&Apps> {
        self.apps.as_ref()
    }

    /// Adds the app that `json` describes, or replaces the one of the same name. Returns when every worker has taken it
    /// up and it is saved.
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
        // If the disk takes no draft, nothing changes.
        let draft = apps.draft(&next_saved).map_err(unsaved)?;
        let before = state.current.clone();
        if let Err(error) = self.put_to_work(&mut state, next) {
            // The next draft would overwrite it, but nobody should find it.
            let _ = fs::remove_file(&draft);
            return Err(bad(error));
        }
        if let Err(error) = apps.publish(&draft) {
            // An app that is not saved must not be served. The settings before worked a moment ago, so they do again.
            let _ = self.put_to_work(&mut state, before);
            return Err(unsaved(error));
        }
        *lock(&apps.saved) = next_saved;
        Ok(())
    }
}

/// Adds the apps of `current` to `next`.
pub(super) fn keep(next: &mut Settings, current: &Settings) {
    let routes = current.routes.iter().filter(|route| route.app.is_some());
    let routes: Vec<Route> = routes.cloned().collect();
    adopt(next, &current.upstreams, &routes);
}

/// Adds `routes` to `settings`, with the `upstreams` that they forward to.
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

/// `settings` without the routes of an app, and without upstreams that only these use.
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
            rule.each_upstream(|index| *index = places[*index]);
        }
    }
    next
}

/// With two routes for one request, it would be unclear which one serves it.
fn refuse_overlap(settings: &Settings, app: &App) -> Result<(), String> {
    for route in &app.routes {
        // A redirect only serves what no other route does.
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
