//! What of a configuration only shows when it is put to work, looked for beforehand.

use std::io;

use super::kept;
use crate::control::Source;
use crate::control::apps::Apps;
use crate::names::Names;
use crate::router::Router;
use crate::settings::{LogTarget, Settings};
use crate::start_error::StartError;
use crate::{own_upstream, paths};

/// Finds mistakes in `settings` that only show when they are put to work, without starting anything that stays. It does
/// not ask whether an address is free: most likely the running gateway has it, and is about to get this file.
pub fn check(settings: &Settings, source: &dyn Source) -> Result<(), StartError> {
    let guard_file = settings
        .admin
        .as_ref()
        .and_then(|admin| admin.guard_file.as_ref());
    let loaded = guard_file.map(|path| Apps::load(path, source, settings));
    let with_apps = loaded.transpose()?.map(|(_, settings)| settings);
    let settings = with_apps.as_ref().unwrap_or(settings);
    let _ = kept(settings, source)?;
    Router::new(&settings.routes)
        .map(drop)
        .map_err(StartError::Routes)?;
    let names = Names::default();
    names.learn(settings).map_err(StartError::Names)?;
    own_upstream::refuse(settings, &names.known())?;
    have_files_of_their_own(settings)?;
    let cache = settings.cache.as_ref();
    let disk = cache.and_then(|cache| cache.disk.as_ref());
    let disk = disk.map(|disk| &disk.path);
    if let Some(log) = &settings.access_log
        && let LogTarget::File(path) = &log.target
    {
        paths::may_write(path)
            .map_err(|error| StartError::AccessLog(path.display().to_string(), error))?;
    }
    if let Some(path) = disk {
        paths::may_make_directory(path)
            .map_err(|error| StartError::Cache(path.display().to_string(), error.to_string()))?;
    }
    Ok(())
}

/// What is wrong with a file, as an error that knows which file it is.
type Wrong = fn(String) -> StartError;

/// Two writers to one file would break both outputs.
pub(super) fn have_files_of_their_own(settings: &Settings) -> Result<(), StartError> {
    let log = settings.access_log.as_ref();
    let log = log.and_then(|log| match &log.target {
        LogTarget::File(path) => Some(path),
        LogTarget::Stdout | LogTarget::Service(_) => None,
    });
    let admin = settings.admin.as_ref();
    let apps = admin.and_then(|admin| admin.guard_file.as_ref());
    let cache = settings.cache.as_ref();
    let disk = cache.and_then(|cache| cache.disk.as_ref());
    let disk = disk.map(|disk| paths::resolved(&disk.path));
    let is_of_cache = |path| {
        let disk = disk.as_ref();
        disk.is_some_and(|disk| disk.starts_with(paths::resolved(path)))
    };
    if let Some(path) = log.filter(|path| is_of_cache(path)) {
        let error = io::Error::other("the directory of the cache is there");
        return Err(StartError::AccessLog(path.display().to_string(), error));
    }
    let changes = admin.and_then(|admin| admin.changes_file.as_ref());
    let apps_file = apps.map(|path| (path, StartError::Apps as Wrong));
    let changes_file = changes.map(|path| (path, StartError::Changes as Wrong));
    for (path, wrong) in [apps_file, changes_file].into_iter().flatten() {
        let refuse = |why| Err(wrong(format!("{}: {why}", path.display())));
        if is_of_cache(path) {
            return refuse("the directory of the cache is there");
        }
        if log.is_some_and(|log| paths::resolved(log) == paths::resolved(path)) {
            return refuse("it is the access log");
        }
    }
    if let Some((apps, changes)) = apps.zip(changes)
        && paths::resolved(apps) == paths::resolved(changes)
    {
        let why = format!("{}: it is guard_file", changes.display());
        return Err(StartError::Changes(why));
    }
    Ok(())
}
