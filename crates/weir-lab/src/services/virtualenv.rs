//! A private virtualenv for a Python service. Packages come from the registry that pip is configured for.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::recipe::find_program;
use super::{Lab, kept};
use crate::error::LabError;

const GUNICORN: &str = "gunicorn==23.0.0";

/// gunicorn and the packages that a service needs.
pub(super) fn with_gunicorn(packages: &[String]) -> Vec<String> {
    let gunicorn = std::iter::once(GUNICORN.to_owned());
    gunicorn.chain(packages.iter().cloned()).collect()
}

/// The virtualenv with these packages; makes it if it does not exist.
pub(super) fn prepare(lab: &Lab, packages: &[String]) -> Result<PathBuf, LabError> {
    let python = find_program("python3").unwrap_or_else(|| "python3".into());
    kept::directory(lab, &name(&python, packages), |path| {
        make(lab, &python, packages, path)
    })
}

fn make(lab: &Lab, python: &Path, packages: &[String], unfinished: &Path) -> Result<(), LabError> {
    let text = |path: &Path| path.display().to_string();
    let venv = [text(python), "-m".into(), "venv".into(), text(unfinished)];
    kept::run(lab, &venv)?;
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
    kept::run(lab, &install)
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
