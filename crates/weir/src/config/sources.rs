//! The texts of a config file and of those that it includes, and the one table that they are together.
//!
//! Bytes are numbered through all texts, so that a value keeps its file and line wherever it is read.

mod glob;
mod merge;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Report};
use super::inputs::Inputs;
use super::suggest::quoted;
use super::{outside, regular, syntax, text_of};

/// How many files may include one another in a row.
const DEPTH_MAX: usize = 8;
/// All files together: as much as one file alone may have.
const BYTES_MAX: usize = 16 << 20;
const INCLUDE: &str = "include";

/// The texts, and what was wrong with including them.
pub(super) struct Sources {
    files: Vec<Source>,
    problems: Vec<(usize, String, String)>,
}

struct Source {
    name: String,
    /// Relative paths in it begin here.
    directory: PathBuf,
    text: String,
    /// The number of its first byte.
    begins: usize,
    /// Where it was included, but for the first.
    included_at: usize,
    identity: Option<(u64, u64)>,
}

impl Sources {
    /// Reads the file at `path` and what it includes, and notes in `inputs` what was read.
    ///
    /// # Errors
    /// The file itself cannot be read. What is wrong with those that are included is told by [`Sources::tree`].
    pub(super) fn read(
        path: &Path,
        variable: &dyn Fn(&str) -> Option<OsString>,
        inputs: &mut Inputs,
    ) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        inputs.note(path);
        let bytes = regular::whole(path).map_err(|cause| ConfigError::Unreadable {
            file: file.clone(),
            cause,
        })?;
        let text = text_of(&bytes, &file)?.to_owned();
        let mut reading = Reading::new(variable, inputs);
        reading.add(Some(path), file, text, 0, 0);
        Ok(reading.sources)
    }

    /// Takes `text` as the file called `name`, and reads what it includes.
    pub(super) fn of_text(
        text: &str,
        name: &str,
        variable: &dyn Fn(&str) -> Option<OsString>,
        inputs: &mut Inputs,
    ) -> Self {
        let mut reading = Reading::new(variable, inputs);
        reading.add(None, name.to_owned(), text.to_owned(), 0, 0);
        reading.sources
    }

    /// An empty report on all texts.
    pub(super) fn report(&self) -> Report {
        let mut report = Report::on_several();
        for (index, file) in self.files.iter().enumerate() {
            let name = (index > 0).then(|| file.name.clone());
            report.begin(name, file.begins, &file.text, &file.directory);
        }
        report
    }

    /// All texts as one table, without what includes them. What is no TOML, or cannot be included, is reported; then the
    /// table is a guess.
    pub(super) fn tree(&self, report: &Report) -> DeTable<'_> {
        for (at, key, message) in &self.problems {
            report.add(*at, key, message.as_str());
        }
        let mut files = self.files.iter();
        let mut parsed = || {
            let file = files.next()?;
            let mut table = syntax::parse_at(&file.text, file.begins, report).into_inner();
            let _ = table.remove(INCLUDE);
            Some(merge::moved(table, file.begins))
        };
        let mut tree = parsed().unwrap_or_default();
        while let Some(next) = parsed() {
            merge::merge(&mut tree, next, report, self.name());
        }
        tree
    }

    /// The byte at which the first file ends.
    pub(super) fn end(&self) -> usize {
        self.files[0].text.len()
    }

    /// The name of the first file.
    pub(super) fn name(&self) -> &str {
        &self.files[0].name
    }
}

struct Reading<'r> {
    variable: &'r dyn Fn(&str) -> Option<OsString>,
    inputs: &'r mut Inputs,
    sources: Sources,
    /// Of all texts.
    bytes: usize,
}

impl<'r> Reading<'r> {
    fn new(variable: &'r dyn Fn(&str) -> Option<OsString>, inputs: &'r mut Inputs) -> Self {
        let (files, problems) = (Vec::new(), Vec::new());
        Self {
            variable,
            inputs,
            sources: Sources { files, problems },
            bytes: 0,
        }
    }

    /// Adds a file that was included at byte `included_at`, and what it includes itself.
    fn add(
        &mut self,
        path: Option<&Path>,
        name: String,
        text: String,
        included_at: usize,
        depth: usize,
    ) {
        let directory = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let last = self.sources.files.last();
        // One more, so that the end of a text is not the beginning of the next.
        let begins = last.map_or(0, |last| last.begins + last.text.len() + 1);
        self.bytes += text.len();
        let included = includes(&text, begins);
        self.sources.files.push(Source {
            name,
            directory: directory.to_owned(),
            text,
            begins,
            included_at,
            identity: path.and_then(identity),
        });
        match included {
            Ok(patterns) => {
                for Pattern { at, key, text } in patterns {
                    if let Err(problem) = self.include(directory, (at, &text), depth) {
                        let message = format!("found {}, {problem}", quoted(&text));
                        self.sources.problems.push((at, key, message));
                    }
                }
            }
            Err((at, key)) => self.sources.problems.push((
                at,
                key,
                "expected a path such as \"conf.d/*.toml\", or a list of such paths".to_owned(),
            )),
        }
    }

    fn include(
        &mut self,
        directory: &Path,
        (at, pattern): (usize, &str),
        depth: usize,
    ) -> Result<(), String> {
        let pattern = outside::text(pattern, self.variable)?;
        if pattern.is_empty() || pattern.contains('\0') {
            return Err("expected the path of a file".to_owned());
        }
        let paths = glob::paths(directory, &pattern, self.inputs)?;
        for path in paths {
            self.include_one(&path, at, depth)?;
        }
        Ok(())
    }

    fn include_one(&mut self, path: &Path, at: usize, depth: usize) -> Result<(), String> {
        let name = path.display().to_string();
        self.inputs.note(path);
        let cannot = |why: &dyn std::fmt::Display| format!("cannot include {name}: {why}");
        let found = identity(path);
        let mut earlier = self.sources.files.iter();
        if let Some(earlier) = earlier.find(|file| found.is_some() && file.identity == found) {
            let report = self.sources.report();
            let first = self.sources.name();
            let why = match earlier.begins {
                0 => "it is the file that all of this is included into".to_owned(),
                _ => format!(
                    "it is included at {} already",
                    report.place(earlier.included_at, first)
                ),
            };
            return Err(cannot(&why));
        }
        if depth == DEPTH_MAX {
            return Err(cannot(&format!(
                "more than {DEPTH_MAX} files include one another in a row"
            )));
        }
        if self.sources.files.len() > glob::FOUND_MAX {
            return Err(cannot(&format!(
                "it is one of more than {}",
                glob::FOUND_MAX
            )));
        }
        let bytes = regular::whole(path).map_err(|error| cannot(&error))?;
        if self.bytes + bytes.len() > BYTES_MAX {
            return Err(cannot(&"all files together have more than 16 MiB"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| cannot(&"found bytes that are not UTF-8, expected text"))?;
        self.add(Some(path), name, text, at, depth + 1);
        Ok(())
    }
}

/// A pattern of files to include: the byte at which it stands, and the way to it.
struct Pattern {
    at: usize,
    key: String,
    text: String,
}

/// What a text includes. Or where something else stands, and the way to it.
fn includes(text: &str, begins: usize) -> Result<Vec<Pattern>, (usize, String)> {
    // What is no TOML is told when all texts are known.
    let document = syntax::parse(text, &Report::on(text));
    let Some(value) = document.get_ref().get(INCLUDE) else {
        return Ok(Vec::new());
    };
    let pattern = |value: &Spanned<DeValue<'_>>, key: String| {
        let at = begins + value.span().start;
        match value.get_ref().as_str() {
            Some(pattern) => Ok(Pattern {
                at,
                key,
                text: pattern.to_owned(),
            }),
            None => Err((at, key)),
        }
    };
    match value.get_ref().as_array() {
        None => Ok(vec![pattern(value, INCLUDE.to_owned())?]),
        Some(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(index, item)| pattern(item, format!("{INCLUDE}[{}]", index + 1)))
                .collect()
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
