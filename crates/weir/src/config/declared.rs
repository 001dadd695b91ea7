//! What a config file may say: every key, once, with its kind, its range, its default and a line of doc.
//!
//! Plain data, read by three. The readers of the sections take bounds, expectations and the names of keys from it
//! (`entries`, `entry`), so a key that is not declared cannot be read. `weir check --schema` is made of it
//! (`schema`), and so are the tables of `docs/reference/` (`tests/documentation`).
//!
//! What a text must look like beyond its pattern is known to the parser of that text; what keys mean together is known
//! to the reader of the section.

pub(crate) mod cache;
pub(crate) mod care;
pub(crate) mod clients;
pub(crate) mod compress;
pub(crate) mod cookie;
pub(crate) mod engine;
pub(crate) mod file;
pub(crate) mod forms;
pub(crate) mod kind;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod queue;
pub(crate) mod route;
pub(crate) mod server;
pub(crate) mod sink;
pub(crate) mod table;
pub(crate) mod upstream;

use std::time::Duration;

pub(crate) use self::kind::{Form, Kind, List, Named, words};

use super::suggest::quoted;
use super::units::{show_duration, show_size};

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    /// As written.
    pub(crate) name: &'static str,
    /// What may stand there.
    pub(crate) kind: Kind,
    /// What holds when nothing stands there.
    pub(crate) preset: Preset,
    /// What it means: a line of Markdown, whose links are those of the reference.
    pub(crate) doc: &'static str,
}

/// The keys of a table.
#[derive(Debug)]
pub(crate) struct Section {
    /// What such a table looks like, for those who wrote something else.
    pub(crate) example: &'static str,
    /// The keys in the order in which they are told. The reference has a table for each group.
    pub(crate) groups: &'static [&'static [&'static Key]],
    /// Which of the keys must be there.
    pub(crate) needs: Needs,
}

/// What a table must have besides its required keys.
#[derive(Debug)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// Exactly one of these.
    OneOf(&'static [&'static Key]),
    /// At least one of these.
    AnyOf(&'static [&'static Key]),
}

/// What holds when a key is not there.
#[derive(Debug)]
pub(crate) enum Preset {
    /// Nothing does: it must be there. The text says what to write.
    Required(&'static str),
    /// What these words say: none, off, something that depends on other keys.
    Said(&'static str),
    /// This value.
    Boolean(bool),
    /// This value.
    Integer(u64),
    /// This value.
    Number(f64),
    /// So many bytes.
    Size(u64),
    /// So long.
    Duration(Duration),
    /// This string.
    Text(&'static str),
    /// The value that this TOML describes, a list or a table.
    Toml(&'static str),
}

impl Key {
    /// Whether both are one declaration. Two tables may have keys of one name that differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Section {
    /// Every key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.groups.iter().copied().flatten().copied()
    }

    /// Whether `key` is one of its keys.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.keys().any(|own| own.is(key))
    }
}

impl Preset {
    /// As it would be written in a file; `None` if it is no value.
    pub(crate) fn toml(&self) -> Option<String> {
        Some(match self {
            Self::Required(_) | Self::Said(_) => return None,
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Size(bytes) => quoted(&show_size(*bytes)),
            Self::Duration(time) => quoted(&show_duration(*time)),
            Self::Text(text) => quoted(text),
            Self::Toml(text) => (*text).to_owned(),
        })
    }

    /// The time of a preset that is one.
    pub(crate) const fn duration(&self) -> Duration {
        match self {
            Self::Duration(time) => *time,
            _ => panic!("the default is declared as no duration"),
        }
    }

    /// The bytes of a preset that is a size.
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Size(bytes) => *bytes,
            _ => panic!("the default is declared as no size"),
        }
    }

    /// The number of a preset that is a whole one.
    pub(crate) const fn integer(&self) -> u64 {
        match self {
            Self::Integer(number) => *number,
            _ => panic!("the default is declared as no integer"),
        }
    }

    /// The number of a preset that is one.
    pub(crate) const fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            _ => panic!("the default is declared as no number"),
        }
    }

    /// The text of a preset that is one.
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Text(text) => text,
            _ => panic!("the default is declared as no text"),
        }
    }
}
