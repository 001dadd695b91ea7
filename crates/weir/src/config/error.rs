//! What is wrong with a config, told so that it can be mended without the manual.
//!
//! Collects problems, puts them in the order of the files and prints them. What counts as a problem is decided by the
//! readers of the sections. No message repeats what came from a variable or a file: messages end up in terminals and
//! build logs.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::outside::Outside;

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
    /// The file in which it stands, when it is another one than the file that was named.
    pub(crate) file: Option<String>,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The way to the key from the top of the file; entries of a list count from 1. Empty when no key is concerned.
    pub(crate) key: String,
    /// What was found and what was expected.
    pub(crate) message: String,
    /// Whether the text is right, and a file that it names for a value cannot be read.
    pub(crate) is_elsewhere: bool,
}

impl ConfigError {
    /// Whether the text may be right, and the same text may do once files can be read that cannot now: a secret that is
    /// mounted late, a disk.
    pub(crate) fn is_elsewhere(&self) -> bool {
        match self {
            Self::Unreadable { cause, .. } => cause.raw_os_error().is_some(),
            Self::Invalid { problems, .. } => problems.iter().all(|it| it.is_elsewhere),
            Self::Flags(_) => false,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, cause } => write!(f, "cannot read {file}: {cause}"),
            Self::Flags(problems) => f.write_str(&problems.join("\n")),
            Self::Invalid { file, problems } => {
                for (index, problem) in problems.iter().take(PROBLEMS_TOLD).enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    let Problem {
                        line, key, message, ..
                    } = problem;
                    let file = problem.file.as_ref().unwrap_or(file);
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

/// Collects the problems of a text, or of several that are read as one. Readers share it and go on after a problem, so
/// that all are found in one run.
pub(super) struct Report {
    texts: Vec<Text>,
    /// What is not repeated.
    outside: RefCell<Vec<Outside>>,
    problems: RefCell<Vec<(usize, Problem)>>,
}

/// One of several texts, whose bytes are counted on.
struct Text {
    /// `None`: whoever asks for the error knows its name.
    file: Option<String>,
    /// The number of its first byte.
    begins: usize,
    /// The bytes at which its lines begin, from the beginning of the text.
    line_starts: Vec<usize>,
    directory: PathBuf,
}

impl Report {
    /// An empty report on `text`.
    pub(super) fn on(text: &str) -> Self {
        let mut report = Self::on_several();
        report.begin(None, 0, text, Path::new(""));
        report
    }

    /// An empty report on texts that follow.
    pub(super) fn on_several() -> Self {
        Self {
            texts: Vec::new(),
            outside: RefCell::default(),
            problems: RefCell::default(),
        }
    }

    /// Adds a text whose bytes have numbers from `begins`, which is more than any byte before has. Relative paths in it begin in
    /// `directory`.
    pub(super) fn begin(
        &mut self,
        file: Option<String>,
        begins: usize,
        text: &str,
        directory: &Path,
    ) {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        // What follows the last line break is a line only when something stands there.
        let line_starts = after_breaks.filter(|start| *start < text.len());
        self.texts.push(Text {
            file,
            begins,
            line_starts: std::iter::once(0).chain(line_starts).collect(),
            directory: directory.to_owned(),
        });
    }

    /// Where relative paths begin in the text that has byte `at`.
    pub(super) fn directory_of(&self, at: usize) -> &Path {
        let later = self.texts.partition_point(|text| text.begins <= at);
        &self.texts[later.max(1) - 1].directory
    }

    /// Repeats nothing of `outside` from now on.
    pub(super) fn hide(&self, outside: &[Outside]) {
        self.outside.borrow_mut().extend_from_slice(outside);
    }

    /// How the value at byte `at` is written, if what it stands for came from outside.
    pub(super) fn written(&self, at: usize) -> Option<String> {
        let outside = self.outside.borrow();
        let found = outside.iter().find(|outside| outside.at == at)?;
        Some(found.written.clone())
    }

    /// What a reader of texts with variables is to read of the value at byte `at`, if that came from outside.
    pub(super) fn literal(&self, at: usize) -> Option<String> {
        let outside = self.outside.borrow();
        let found = outside.iter().find(|outside| outside.at == at)?;
        Some(found.literal().to_owned())
    }

    /// Whether `message` repeats a part of what the value at byte `at` has from outside.
    pub(super) fn repeats_outside(&self, at: usize, message: &str) -> bool {
        let outside = self.outside.borrow();
        let mut here = outside.iter().filter(|outside| outside.at == at);
        here.any(|outside| outside.is_told_in(message))
    }

    /// Adds the problem of `key` at byte `at` of the text.
    pub(super) fn add(&self, at: usize, key: &str, message: impl Into<String>) {
        self.put(at, key, message.into(), false);
    }

    /// Adds that a file cannot be read which the value of `key` at byte `at` is in.
    pub(super) fn add_elsewhere(&self, at: usize, key: &str, message: String) {
        self.put(at, key, message, true);
    }

    fn put(&self, at: usize, key: &str, mut message: String, is_elsewhere: bool) {
        let outside = self.outside.borrow();
        if outside.iter().any(|it| it.at == at && it.is_missing()) {
            return;
        }
        for outside in &*outside {
            message = outside.hidden_in(message, at);
        }
        let problem = Problem {
            file: self.text(at).file.clone(),
            line: self.line(at),
            key: key.to_owned(),
            message,
            is_elsewhere,
        };
        self.problems.borrow_mut().push((at, problem));
    }

    /// The line, counted from 1, that holds byte `at`; the end of the text belongs to its last line.
    pub(super) fn line(&self, at: usize) -> usize {
        let text = self.text(at);
        let at = at - text.begins;
        text.line_starts.partition_point(|start| *start <= at)
    }

    /// The file and the line of byte `at`, `file` being the name of a text without one.
    pub(super) fn place(&self, at: usize, file: &str) -> String {
        let name = self.text(at).file.as_deref().unwrap_or(file);
        format!("{name}:{}", self.line(at))
    }

    fn text(&self, at: usize) -> &Text {
        let later = self.texts.partition_point(|text| text.begins <= at);
        &self.texts[later.max(1) - 1]
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
