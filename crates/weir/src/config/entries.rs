//! A table of a config file whose keys are taken by their declarations.
//!
//! Only a declared key can be asked for, and whatever is not declared is told as unknown. The files of `weir lab` and
//! `weir load`, which are no config files, have no declaration: their readers take keys from a `read::Table` by name.

use std::time::Duration;

use super::declared::{Key, Kind, Preset, Section};
use super::entry::Entry;
use super::read::Table;

/// A table and what may stand in it. [`Entries::finish`] reports what may not.
pub(super) struct Entries<'a> {
    table: Table<'a>,
    section: &'static Section,
}

impl<'a> Entries<'a> {
    pub(super) fn new(table: Table<'a>, section: &'static Section) -> Self {
        Self { table, section }
    }

    /// What stands at `key`, if something does.
    pub(super) fn optional(&mut self, key: &'static Key) -> Option<Entry<'a>> {
        assert!(
            self.section.has(key),
            "{:?} is declared for another table",
            key.name
        );
        let value = self.table.optional(key.name)?;
        Some(Entry::new(value, &key.kind))
    }

    /// What stands at a key that must be there.
    pub(super) fn required(&mut self, key: &'static Key) -> Option<Entry<'a>> {
        let Preset::Required(expected) = key.preset else {
            panic!("{:?} is declared as a key that may be missing", key.name);
        };
        let entry = self.optional(key);
        if entry.is_none() {
            self.wrong(key, format!("missing, expected {expected}"));
        }
        entry
    }

    /// The table at `key`, if there is one.
    pub(super) fn section(&mut self, key: &'static Key) -> Option<Entries<'a>> {
        self.optional(key)?.table()
    }

    /// The tables `[[key]]` in their order.
    pub(super) fn sections(&mut self, key: &'static Key) -> Vec<Entries<'a>> {
        let Kind::Tables(section, remedy) = key.kind else {
            panic!("{:?} is declared as something else than tables", key.name);
        };
        let tables = self.table.sections(key.name, remedy).into_iter();
        tables.map(|table| Entries::new(table, section)).collect()
    }

    /// The entries of the table of free names at `key`, in the order of the file; none if there is no such table.
    pub(super) fn named(&mut self, key: &'static Key) -> Vec<(&'a str, Entry<'a>)> {
        let entry = self.optional(key);
        entry.and_then(|entry| entry.named()).unwrap_or_default()
    }

    /// The truth value at `key`.
    pub(super) fn boolean(&mut self, key: &'static Key) -> Option<bool> {
        self.optional(key)?.boolean()
    }

    /// The whole number at `key`.
    pub(super) fn integer(&mut self, key: &'static Key) -> Option<u64> {
        self.optional(key)?.integer()
    }

    /// The number of bytes at `key`.
    pub(super) fn size_bytes(&mut self, key: &'static Key) -> Option<u64> {
        self.optional(key)?.size_bytes()
    }

    /// The time at `key`.
    pub(super) fn duration(&mut self, key: &'static Key) -> Option<Duration> {
        self.optional(key)?.duration()
    }

    /// Whether something stands at a key other than `key`.
    pub(super) fn has_besides(&self, key: &'static Key) -> bool {
        let names = self.table.entries();
        names.iter().any(|(name, _)| *name != key.name)
    }

    /// Whether something stands at `key`.
    pub(super) fn has(&self, key: &'static Key) -> bool {
        let names = self.table.entries();
        names.iter().any(|(name, _)| *name == key.name)
    }

    /// Reports a problem of a key that is not there.
    pub(super) fn wrong(&self, key: &'static Key, message: impl Into<String>) {
        self.table.wrong(key.name, message);
    }

    /// Reports a problem of the table itself.
    pub(super) fn wrong_as_a_whole(&self, message: impl Into<String>) {
        self.table.wrong("", message);
    }

    /// Reports every key that is not declared.
    pub(super) fn finish(self) {
        let known: Vec<_> = self.section.keys().map(|key| key.name).collect();
        self.table.finish_knowing(&known);
    }
}
