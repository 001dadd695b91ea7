//! What is wrong with a config, told so that it can be mended without the manual.
//!
//! Collects problems, puts them in the order of the file and prints them. What counts as a problem is decided by the
//! readers of the sections.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;

/// So many problems are printed. Who has more has most likely given the wrong file.
const PROBLEMS_TOLD: usize = 100;

/// Why there are no settings. `Display` prints every problem, one a line.
#[derive(Debug)]
pub(crate) enum ConfigError {
    /// The file could not be read at all.
    Unreadable {
        /// As given by the user.
        file: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The text is wrong.
    Invalid {
        /// As given by the user.
        file: String,
        /// In the order of the lines; at least one.
        problems: Vec<Problem>,
    },
    /// The flags are wrong: whole sentences that begin with the flag; at least one.
    Flags(Vec<String>),
}

/// One mistake in the text.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Counted from 1.
    pub(crate) line: usize,
    /// The way to the key from the top of the file; entries of a list count from 1. Empty when no key is concerned.
    pub(crate) key: String,
    /// What was found and what was expected.
    pub(crate) message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, cause } => write!(f, "cannot read {file}: {cause}"),
            Self::Flags(problems) => f.write_str(&problems.join("\n")),
            Self::Invalid { file, problems } => {
                for (index, problem) in problems.iter().take(PROBLEMS_TOLD).enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    let Problem { line, key, message } = problem;
                    let colon = if key.is_empty() { "" } else { ": " };
                    write!(f, "{separator}{file}:{line}: {key}{colon}{message}")?;
                }
                match problems.len().saturating_sub(PROBLEMS_TOLD) {
                    0 => Ok(()),
                    more => write!(f, "\n{file}: and {more} more, {} in all", problems.len()),
                }
            }
        }
    }
}

// The text says the cause too, so there is no further source to be printed behind it.
impl Error for ConfigError {}

/// Collects the problems of one text. Readers share it and go on after a problem, so that all are found in one run.
pub(super) struct Report {
    /// The byte at which each line begins.
    line_starts: Vec<usize>,
    problems: RefCell<Vec<(usize, Problem)>>,
}

impl Report {
    /// An empty report on `text`.
    pub(super) fn on(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        // What follows the last line break is a line only when something stands there.
        let line_starts = after_breaks.filter(|start| *start < text.len());
        Self {
            line_starts: std::iter::once(0).chain(line_starts).collect(),
            problems: RefCell::default(),
        }
    }

    /// Adds the problem of `key` at byte `at` of the text.
    pub(super) fn add(&self, at: usize, key: &str, message: impl Into<String>) {
        let problem = Problem {
            line: self.line(at),
            key: key.to_owned(),
            message: message.into(),
        };
        self.problems.borrow_mut().push((at, problem));
    }

    /// The line, counted from 1, that holds byte `at`; the end of the text belongs to its last line.
    pub(super) fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// Whether nothing was wrong so far.
    pub(super) fn is_empty(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Everything that was added, in the order of the text.
    pub(super) fn into_error(self, file: &str) -> ConfigError {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|(at, _)| *at);
        ConfigError::Invalid {
            file: file.to_owned(),
            problems: problems.into_iter().map(|(_, problem)| problem).collect(),
        }
    }
}
