//! The configuration of guard (github.com/jiajunhuang/guard), a circuit breaker and proxy in Go: its JSON, and the config
//! that says the same.
//!
//! There is one way from the one to the other, which `weir import guard` and `[admin] guard_api` share: an app becomes the
//! text of an upstream and its routes, and that text is read as any config is. `docs/guard.md` says where weir does not do
//! as guard does.
//!
//! - [`app`]: one app, and what guard itself refuses
//! - [`mod@plan`]: what its fields mean here, and what weir refuses besides
//! - [`text`]: the config

mod app;
mod plan;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;

use serde_json::{Map, Value};
use weir_gateway::App as Posted;

use self::app::App;
use self::plan::Plan;
use super::parse;

pub(crate) use self::app::Mistake;

/// The config for what a file of guard's holds: all of its apps, as guard saves them, or a single one, as it is posted. The
/// error has all that is wrong, a line each.
pub(crate) fn import(json: &[u8], file_name: &str) -> Result<String, String> {
    let (plans, mut problems) = plans(json).map_err(|error| format!("{file_name}: {error}"))?;
    let mut by_host: HashMap<&str, &str> = HashMap::new();
    for plan in &plans {
        if let Some(other) = by_host.insert(&plan.host, &plan.name) {
            problems.push(format!(
                "app {:?}: name: the host is that of app {other:?} too, expected another one: ports do not tell hosts apart",
                plan.name
            ));
        }
    }
    if !problems.is_empty() {
        let lines = problems.iter().map(|line| format!("{file_name}: {line}"));
        return Err(lines.collect::<Vec<_>>().join("\n"));
    }
    let text = text::whole(&plans, file_name);
    match parse(&text, "the config made of it") {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("{file_name}: {error}")),
    }
}

/// What a posted app means; the error is what guard would say, and where guard would say nothing, our own.
pub(crate) fn posted(json: &[u8]) -> Result<Posted, String> {
    let json: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let Value::Object(mut fields) = json else {
        return Err("expected an object".to_owned());
    };
    // As guard does, and unlike an import: what it does not know, it does not look at.
    let app = App::take(&mut fields).map_err(|mistake| mistake.to_string())?;
    let app = app.checked().map_err(|mistake| mistake.to_string())?;
    let plan = Plan::of(&app).map_err(|mistakes| {
        let mistakes = mistakes.iter().map(ToString::to_string);
        mistakes.collect::<Vec<_>>().join("; ")
    })?;
    if plan.routes.is_empty() {
        return Ok(Posted {
            json: app.to_json(),
            name: app.name,
            upstreams: Vec::new(),
            routes: Vec::new(),
        });
    }
    let text = text::posted(&plan);
    let config = parse(&text, &plan.name).map_err(|error| error.to_string())?;
    let settings = config.settings;
    let mut upstreams = settings.upstreams;
    for upstream in &mut upstreams {
        // No name in a config file has a colon.
        upstream.name = format!("guard:{}", app.name);
    }
    let mut routes = settings.routes;
    for route in &mut routes {
        route.app = Some(app.name.as_str().into());
    }
    Ok(Posted {
        json: app.to_json(),
        name: app.name,
        upstreams,
        routes,
    })
}

/// The plans of all apps that are sound, and what is wrong with the others.
fn plans(json: &[u8]) -> Result<(Vec<Plan>, Vec<String>), String> {
    let json: Value = serde_json::from_slice(json).map_err(|error| format!("no JSON: {error}"))?;
    let Value::Object(mut fields) = json else {
        return Err(
            "expected an object: an app of guard, or {\"apps\": {…}} as guard saves them"
                .to_owned(),
        );
    };
    let apps = match fields.remove("apps") {
        None => vec![(None, Value::Object(fields))],
        Some(Value::Object(apps)) => {
            let named = apps.into_iter().map(|(name, app)| (Some(name), app));
            named.collect()
        }
        Some(_) => return Err("apps: expected an object with an app under each name".to_owned()),
    };
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in apps {
        let told_as = key
            .clone()
            .or_else(|| Some(value.get("name")?.as_str()?.to_owned()));
        let told_as = told_as.map_or_else(String::new, |name| format!("app {name:?}: "));
        match plan(key, value) {
            Ok(plan) => plans.push(plan),
            Err(mistakes) => {
                let lines = mistakes
                    .iter()
                    .map(|mistake| format!("{told_as}{}", mistake.with_field()));
                problems.extend(lines);
            }
        }
    }
    Ok((plans, problems))
}

/// The plan of an app; `key` is what it is saved under.
fn plan(key: Option<String>, value: Value) -> Result<Plan, Vec<Mistake>> {
    let Value::Object(mut fields) = value else {
        return Err(vec![Mistake::new("", "expected an object")]);
    };
    let app = App::take(&mut fields).map_err(|mistake| vec![mistake])?;
    let app = named(app, key)?;
    let mut mistakes: Vec<_> = unknown(&fields).collect();
    match app.check() {
        Ok(()) => match Plan::of(&app) {
            Ok(plan) if mistakes.is_empty() => return Ok(plan),
            Ok(_) => {}
            Err(others) => mistakes.extend(others),
        },
        Err(mistake) => mistakes.push(mistake),
    }
    Err(mistakes)
}

/// guard goes by the name under which an app is saved.
fn named(app: App, key: Option<String>) -> Result<App, Vec<Mistake>> {
    match key {
        Some(key) if app.name.is_empty() => Ok(App { name: key, ..app }),
        Some(key) if app.name != key => {
            let what = format!(
                "found {:?}, expected {key:?}, under which it is saved",
                app.name
            );
            Err(vec![Mistake::new("name", what)])
        }
        _ => Ok(app),
    }
}

fn unknown(fields: &Map<String, Value>) -> impl Iterator<Item = Mistake> {
    let names = fields.keys().map(String::as_str);
    names.map(|name| {
        let meant = super::suggest::nearest(name, App::FIELDS);
        let meant = super::suggest::did_you_mean(meant);
        Mistake::new(name, format!("guard has no such field{meant}"))
    })
}
