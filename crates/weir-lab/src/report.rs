//! The report of a run: Markdown for a repository, and one HTML file that needs nothing else.
//!
//! Both are made from the raw data and the profiles beside it, and from nothing else: no clock and no unseeded
//! randomness. So a report made again is the same to the byte. Nothing is measured here.
//!
//! `summary` turns raw data into numbers; `verdict`, `tables` and `overload` turn numbers into words and cells, and
//! `plot` into pictures. `markdown` and `html` lay them out and escape whatever comes from data.

mod backlog;
mod estimate;
mod facts;
mod html;
mod incident;
mod markdown;
mod number;
mod overload;
mod plot;
mod profiles;
mod summary;
mod tables;
mod verdict;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::raw::{RawError, Run};

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// For a repository.
    pub markdown: PathBuf,
    /// For a browser.
    pub html: PathBuf,
}

/// Why there is no report.
#[derive(Debug)]
pub enum ReportError {
    /// The raw data cannot be read.
    Raw(RawError),
    /// There is raw data, but nothing was measured.
    Empty(PathBuf),
    /// A profile cannot be read: the file and what is wrong.
    Profile(PathBuf, String),
    /// A file of the report cannot be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(error) => error.fmt(f),
            Self::Empty(directory) => {
                write!(
                    f,
                    "{}: nothing was measured, so there is nothing to report",
                    directory.display()
                )
            }
            Self::Profile(path, problem) => {
                write!(f, "{} is not a profile: {problem}", path.display())
            }
            Self::Write(path, cause) => write!(f, "cannot write {}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for ReportError {}

/// Writes `report.md` and `report.html` into `directory`, from the raw data and the profiles that are there.
pub fn write(directory: &Path) -> Result<Written, ReportError> {
    let run = Run::read(directory).map_err(ReportError::Raw)?;
    let profiles = profiles::read(directory)?;
    let groups = summary::groups(&run);
    if groups.iter().all(|group| group.rows.is_empty()) {
        return Err(ReportError::Empty(directory.to_owned()));
    }
    let written = Written {
        markdown: directory.join("report.md"),
        html: directory.join("report.html"),
    };
    let save = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
    };
    save(
        &written.markdown,
        markdown::render(&run, &groups, &profiles),
    )?;
    save(&written.html, html::render(&run, &groups, &profiles))?;
    Ok(written)
}
