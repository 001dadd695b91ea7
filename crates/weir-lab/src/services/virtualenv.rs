//! A private virtualenv for a Python service, made once and kept in the user's cache.
//!
//! It is made beside its final place and renamed when it is complete, so an incomplete one is never used. Packages
//! come from the registry that pip is configured for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Lab;
use super::janitor::{DIRECTORY_PREFIX, Item};
use super::process::{Process, Start};
use super::recipe::find_program;
use crate::error::{LabError, Tried as _};

const GUNICORN: &str = "gunicorn==23.0.0";
const POLL: Duration = Duration::from_millis(20);

/// gunicorn and the packages that a service needs.
pub(super) fn with_gunicorn(packages: &[String]) -> Vec<String> {
    let gunicorn = std::iter::once(GUNICORN.to_owned());
    gunicorn.chain(packages.iter().cloned()).collect()
}

/// The virtualenv with these packages; makes it if it does not exist.
pub(crate) fn prepare(lab: &Lab, packages: &[String]) -> Result<PathBuf, LabError> {
    let python = find_program("python3").unwrap_or_else(|| "python3".into());
    let path = lab.cache().join(name(&python, packages));
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(lab.cache()).tried(|| format!("make {}", lab.cache().display()))?;
    let unfinished = format!("{DIRECTORY_PREFIX}venv-{}", std::process::id());
    let unfinished = lab.cache().join(unfinished);
    let item = Item::Directory(unfinished.clone());
    lab.janitor()
        .exists(&item)
        .tried(|| "tell the janitor".to_owned())?;
    let made = make(lab, &python, packages, &unfinished);
    let placed = made.and_then(|()| {
        // Another laboratory may have been faster; its virtualenv is just as good.
        let renamed = fs::rename(&unfinished, &path);
        renamed
            .or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })
            .tried(|| format!("make {}", path.display()))
    });
    lab.remove(&item);
    placed.map(|()| path)
}

fn make(lab: &Lab, python: &Path, packages: &[String], unfinished: &Path) -> Result<(), LabError> {
    let text = |path: &Path| path.display().to_string();
    let venv = [text(python), "-m".into(), "venv".into(), text(unfinished)];
    run(lab, &venv)?;
    let mut install = vec![text(&unfinished.join("bin/python"))];
    install.extend(
        [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        .map(String::from),
    );
    install.extend(packages.iter().cloned());
    run(lab, &install)
}

/// Runs a command to its end, in its own group like every process of the laboratory.
fn run(lab: &Lab, command: &[String]) -> Result<(), LabError> {
    let start = Start {
        weir: lab.weir(),
        janitor: lab.janitor(),
        command,
        directory: lab.directory(),
        output: lab.directory().join("virtualenv.txt"),
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
            break std::process::ExitStatus::default();
        }
        std::thread::sleep(POLL);
    };
    let words = process.last_words();
    process.stop(Duration::ZERO, lab.janitor());
    if lab.is_stopped() {
        return Err(LabError::Stopped);
    }
    if !status.success() {
        return Err(LabError::Virtualenv(format!(
            "`{}` ended with {status}: {words}",
            command.join(" ")
        )));
    }
    Ok(())
}

/// A name that contains the Python version and the packages, so another version gets another virtualenv.
fn name(python: &Path, packages: &[String]) -> String {
    let version = Command::new(python).arg("-V").output();
    let version = version.map(|output| {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .replace(' ', "-")
    });
    let mut name = format!("venv-{}", version.unwrap_or_default());
    for package in packages {
        name.push('-');
        name.extend(package.chars().map(|c| {
            if c.is_ascii_alphanumeric() || "=.".contains(c) {
                c
            } else {
                '_'
            }
        }));
    }
    name
}
