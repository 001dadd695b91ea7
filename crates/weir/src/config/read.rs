//! A table of TOML whose keys are taken one by one, so that the ones nobody asked for can be told from the known.
//!
//! Every method that wants a type reports what it found instead and answers `None`, so a caller goes on with its
//! default and the whole file is checked in one run. Knows no key by name.

use toml::de::DeTable;

use super::error::Report;
use super::foreign;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::value::Value;

/// A table whose keys are taken one by one. [`Table::finish`] reports those that nobody asked for.
pub(super) struct Table<'a> {
    report: &'a Report,
    /// Where a missing key is reported.
    at: usize,
    key: String,
    entries: &'a DeTable<'a>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The table called `key`, which is empty for the whole file. What is missing in it is reported at byte `at`.
    pub(super) fn new(
        report: &'a Report,
        at: usize,
        key: String,
        entries: &'a DeTable<'a>,
    ) -> Self {
        Self {
            report,
            at,
            key,
            entries,
            asked: Vec::new(),
        }
    }

    /// The value of `key`, if there is one.
    pub(super) fn optional(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.asked.push(key);
        let value = self.entries.get(key)?;
        Some(Value::new(self.report, self.key_of(key), value))
    }

    /// The value of `key`; `expected` says what to write when it is missing.
    #[cfg(any(feature = "lab", feature = "load"))]
    pub(super) fn required(&mut self, key: &'static str, expected: &str) -> Option<Value<'a>> {
        let value = self.optional(key);
        if value.is_none() {
            self.wrong(key, format!("missing, expected {expected}"));
        }
        value
    }

    /// The table of `key`, if there is one; `example` shows what it looks like.
    #[cfg(any(feature = "lab", feature = "load"))]
    pub(super) fn section(&mut self, key: &'static str, example: &str) -> Option<Table<'a>> {
        self.optional(key)?.table(example)
    }

    /// The tables `[[key]]` in their order; `remedy` says what to add when there are none.
    pub(super) fn sections(&mut self, key: &'static str, remedy: &str) -> Vec<Table<'a>> {
        let Some(value) = self.optional(key) else {
            self.wrong(key, format!("missing, {remedy}"));
            return Vec::new();
        };
        let Some(items) = value.as_list() else {
            value.expected(&format!("`[[{key}]]` with two brackets on each side"));
            return Vec::new();
        };
        if items.is_empty() {
            value.wrong(format!("found an empty list, {remedy}"));
        }
        let example = format!("[[{key}]]");
        let tables = items.into_iter().filter_map(|item| item.table(&example));
        tables.collect()
    }

    /// All entries in the order of the file, for a table whose keys are free names.
    pub(super) fn entries(&self) -> Vec<(&'a str, Value<'a>)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut found = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let value = Value::new(self.report, self.key_of(name.get_ref()), value);
            found.push((&**name.get_ref(), value));
        }
        found
    }

    /// Reports a problem of the table itself (`key` empty) or of a key that is not there.
    pub(super) fn wrong(&self, key: &str, message: impl Into<String>) {
        let key = if key.is_empty() {
            self.key.clone()
        } else {
            self.key_of(key)
        };
        self.report.add(self.at, &key, message);
    }

    /// Reports every key that nobody asked for.
    #[cfg(any(feature = "lab", feature = "load"))]
    pub(super) fn finish(self) {
        self.finish_knowing(&self.asked);
    }

    /// Reports every key that is not one of `known`.
    pub(super) fn finish_knowing(&self, known: &[&'static str]) {
        for (name, _) in self.entries {
            if known.iter().any(|known| known == name.get_ref()) {
                continue;
            }
            let meant = nearest(name.get_ref(), known.iter().copied());
            let help = match (meant, foreign::hint(name.get_ref())) {
                (Some(meant), _) => did_you_mean(Some(meant)),
                (None, Some(hint)) => format!("; {hint}"),
                (None, None) => format!("; expected {}", one_of(known.iter().copied())),
            };
            let key = self.key_of(name.get_ref());
            self.report
                .add(name.span().start, &key, format!("unknown key{help}"));
        }
    }

    fn key_of(&self, name: &str) -> String {
        let name = written_key(name);
        if self.key.is_empty() {
            name
        } else {
            format!("{}.{name}", self.key)
        }
    }
}

/// A key as it is written, in quotes where TOML asks for them.
pub(super) fn written_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
