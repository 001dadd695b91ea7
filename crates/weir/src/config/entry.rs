//! What stands at a declared key: the value, and the kind that bounds it.
//!
//! Each method wants one of the kinds that the key is declared as; another one is a mistake of the caller. As in
//! `value`, what is not of that kind is reported here and answered with `None`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;

use super::declared::Kind;
use super::entries::Entries;
use super::value::Value;

/// What can be switched on as it is, or with settings of one's own.
pub(super) enum Switch<'a> {
    /// Or a mistake, which has been reported.
    Off,
    On,
    Set(Entries<'a>),
}

/// A value and what may stand in its place.
pub(super) struct Entry<'a> {
    value: Value<'a>,
    kind: &'static Kind,
}

impl<'a> Entry<'a> {
    pub(super) fn new(value: Value<'a>, kind: &'static Kind) -> Self {
        Self { value, kind }
    }

    /// Reports a problem of this value.
    pub(super) fn wrong(&self, message: impl Into<String>) {
        self.value.wrong(message);
    }

    /// Reports that something else was expected here, for a reason that its kind does not know.
    pub(super) fn expected(&self, expected: &str) {
        self.value.expected(expected);
    }

    /// Reports that something of its kind was expected here.
    pub(super) fn unexpected(&self) {
        match self.kind {
            Kind::Integers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                self.expected(&format!("one of {}", numbers.join(", ")));
            }
            _ => self.expected(self.expectation()),
        }
    }

    /// The byte of the text at which the value begins.
    pub(super) fn at(&self) -> usize {
        self.value.at()
    }

    /// Where relative paths begin in the file that has the value.
    pub(super) fn directory(&self) -> &'a Path {
        self.value.directory()
    }

    /// The line on which the value begins.
    pub(super) fn line(&self) -> usize {
        self.value.line()
    }

    /// The text when the value is one; says nothing when it is not.
    pub(super) fn as_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The truth value when the value is one; says nothing when it is not.
    pub(super) fn as_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// The number when the value is a whole one that may stand here; says nothing when it is not.
    pub(super) fn as_integer(&self) -> Option<u64> {
        let number = self.value.as_integer()?;
        let may_stand_here = |kind: &Kind| match kind {
            Kind::Integer(range) => range.contains(&number),
            Kind::Integers(numbers) => numbers.contains(&number),
            _ => false,
        };
        let is_one = self.kind.alternatives().iter().any(may_stand_here);
        is_one.then_some(number)
    }

    /// Whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// A truth value.
    pub(super) fn boolean(&self) -> Option<bool> {
        self.find(|kind| matches!(kind, Kind::Boolean).then_some(()));
        self.value.boolean()
    }

    /// A whole number.
    pub(super) fn integer(&self) -> Option<u64> {
        let range = self.find(|kind| match kind {
            Kind::Integer(range) => Some(range),
            _ => None,
        });
        self.value.integer(range.clone())
    }

    /// A number, whole or not.
    pub(super) fn number(&self) -> Option<f64> {
        self.value.number(self.find(|kind| match kind {
            Kind::Number(range) => Some(range),
            _ => None,
        }))
    }

    /// A share between 0 and 1, in percent.
    pub(super) fn share_percent(&self) -> Option<u8> {
        self.find(|kind| matches!(kind, Kind::Share).then_some(()));
        self.value.share_percent()
    }

    /// A time.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.value.duration(self.find(|kind| match kind {
            Kind::Duration(range) => Some(range),
            _ => None,
        }))
    }

    /// A number of bytes.
    pub(super) fn size_bytes(&self) -> Option<u64> {
        self.value.size_bytes(self.find(|kind| match kind {
            Kind::Size(range) => Some(range),
            _ => None,
        }))
    }

    /// One of the declared words, which `names` gives a meaning.
    pub(super) fn choice<T: Clone>(&self, names: &[(&'static str, T)]) -> Option<T> {
        let words = self.find(|kind| match kind {
            Kind::Words(words) => Some(*words),
            _ => None,
        });
        let are_they = names.iter().map(|(name, _)| name).eq(words);
        assert!(are_they, "{words:?} are declared");
        self.value.choice(names)
    }

    /// A text.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.text(self.expectation())
    }

    /// What `parse` makes of a text. Its complaint follows `found "…", `.
    pub(super) fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.value.parsed(self.expectation(), parse)
    }

    /// The same for a text with variables in braces. Braces that came from outside stand for themselves.
    pub(super) fn parsed_template<T>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.value.parsed_template(self.expectation(), parse)
    }

    /// The items when the value is a list; says nothing when it is not.
    pub(super) fn as_list(&self) -> Option<Vec<Entry<'a>>> {
        let list = self.find(|kind| match kind {
            Kind::List(list) => Some(*list),
            _ => None,
        });
        let items = self.value.as_list()?.into_iter();
        Some(items.map(|item| Entry::new(item, &list.of)).collect())
    }

    /// The items of a list.
    pub(super) fn list(&self) -> Option<Vec<Entry<'a>>> {
        let items = self.as_list();
        if items.is_none() {
            let expected = self.find(|kind| match kind {
                Kind::List(list) => Some(list.expected),
                _ => None,
            });
            self.expected(&format!("a list of {expected}"));
        }
        items
    }

    /// A table with keys of its own.
    pub(super) fn table(&self) -> Option<Entries<'a>> {
        let section = self.find(|kind| match kind {
            Kind::Table(section) => Some(*section),
            _ => None,
        });
        let table = self.value.table(section.example)?;
        Some(Entries::new(table, section))
    }

    /// The entries of a table of free names, in the order of the file.
    pub(super) fn named(&self) -> Option<Vec<(&'a str, Entry<'a>)>> {
        let named = self.find(|kind| match kind {
            Kind::Named(named) => Some(*named),
            _ => None,
        });
        let entries = self.value.table(named.example)?.entries().into_iter();
        let entries = entries.map(|(name, value)| (name, Entry::new(value, &named.values)));
        Some(entries.collect())
    }

    /// `true`, `false` or a table.
    pub(super) fn switch(&self) -> Switch<'a> {
        match self.as_bool() {
            Some(true) => return Switch::On,
            Some(false) => return Switch::Off,
            None => {}
        }
        if self.is_table() {
            return self.table().map_or(Switch::Off, Switch::Set);
        }
        self.unexpected();
        Switch::Off
    }

    /// A table or a list as JSON.
    pub(super) fn json(&self) -> Option<Json> {
        if !self.is_table() && self.value.as_list().is_none() {
            self.unexpected();
            return None;
        }
        self.value.json()
    }

    /// What the first kind that `wanted` knows says.
    fn find<T>(&self, wanted: impl Fn(&'static Kind) -> Option<T>) -> T {
        let found = self.kind.alternatives().iter().find_map(wanted);
        found.unwrap_or_else(|| panic!("this is declared as {}", self.kind.noun()))
    }

    /// What to write here, when the declaration says so in words.
    fn expectation(&self) -> &'static str {
        match self.kind {
            Kind::Text(form) => form.expected,
            Kind::AnyOf(expected, _) | Kind::Json(expected) => expected,
            other => panic!("this is declared as {}", other.noun()),
        }
    }
}
