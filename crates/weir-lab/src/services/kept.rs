//! What services need from a package registry: fetched once, and kept in the user's cache.
//!
//! It is made beside its final place and renamed when it is complete, so an incomplete one is never used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::Lab;
use super::janitor::{DIRECTORY_PREFIX, Item};
use super::process::{Process, Start};
use crate::error::{LabError, Tried as _};

const POLL: Duration = Duration::from_millis(20);

/// The directory `name` of the cache; if there is none, `make` makes it at the path that it gets.
pub(super) fn directory(
    lab: &Lab,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), LabError>,
) -> Result<PathBuf, LabError> {
    let path = lab.cache().join(name);
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(lab.cache()).tried(|| format!("make {}", lab.cache().display()))?;
    let (kind, _) = name.split_once('-').unwrap_or((name, ""));
    let unfinished = format!("{DIRECTORY_PREFIX}{kind}-{}", std::process::id());
    let unfinished = lab.cache().join(unfinished);
    let item = Item::Directory(unfinished.clone());
    lab.janitor()
        .exists(&item)
        .tried(|| "tell the janitor".to_owned())?;
    let placed = make(&unfinished).and_then(|()| {
        // Another laboratory may have been faster; what it made is just as good.
        let renamed = fs::rename(&unfinished, &path);
        renamed
            .or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })
            .tried(|| format!("make {}", path.display()))
    });
    lab.remove(&item);
    placed.map(|()| path)
}

/// Runs a command to its end, in its own group like every process of the laboratory.
pub(super) fn run(lab: &Lab, command: &[String]) -> Result<(), LabError> {
    let start = Start {
        weir: lab.weir(),
        janitor: lab.janitor(),
        command,
        directory: lab.directory(),
        output: lab.directory().join("kept.txt"),
        join: None,
    };
    let mut process = Process::start(&start).tried(|| format!("start {}", command[0]))?;
    let status = loop {
        if let Some(status) = process
            .try_wait()
            .tried(|| format!("wait for {}", command[0]))?
        {
            break status;
        }
        if lab.is_stopped() {
            break ExitStatus::default();
        }
        std::thread::sleep(POLL);
    };
    let words = process.last_words();
    process.stop(Duration::ZERO, lab.janitor());
    if lab.is_stopped() {
        return Err(LabError::Stopped);
    }
    if !status.success() {
        return Err(LabError::Fetch(format!(
            "`{}` ended with {status}: {words}",
            command.join(" ")
        )));
    }
    Ok(())
}
