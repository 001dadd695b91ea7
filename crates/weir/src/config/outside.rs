//! Values that a config file takes from outside: `"${VARIABLE}"` in any string, and `{ file = "PATH" }` in place of one.
//!
//! The tree is walked along the declaration, which says where a table may stand, so that `{ file = … }` is told from a
//! table of weir's own, and where a number or a boolean is wanted. Keys are never from outside.
//!
//! What came from outside is never repeated: messages show what is written in the file.

mod search;
mod written;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) use self::search::found;
use self::written::{Piece, pieces};
use super::inputs::Inputs;
use super::suggest::quoted;

/// Shorter texts are no secrets, and would be found in every message.
const HIDDEN_CHARS_MIN: usize = 4;
/// A part of a value that is so long is one that was copied from there.
const PART_CHARS: usize = 6;

/// Where variables and files are.
pub(super) struct Surroundings<'s> {
    /// The value of an environment variable.
    pub(super) variable: &'s dyn Fn(&str) -> Option<OsString>,
    /// Notes the files that are read.
    pub(super) inputs: &'s mut Inputs,
}

/// A value of a config file that came from outside, in whole or in part.
#[derive(Clone)]
pub(super) struct Outside {
    /// The byte at which it stands.
    pub(super) at: usize,
    /// As it stands in the file, with defaults in place.
    pub(super) written: String,
    /// What it stands for.
    text: String,
    /// The same for a reader of texts with variables: braces that came from outside stand for themselves.
    literal: String,
    /// What of it must not be told.
    secrets: Vec<String>,
    /// Whether it came from a file, which is where secrets are.
    is_file: bool,
    wanted: Wanted,
}

/// What a text from outside becomes, by what may stand in its place.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Text,
    Boolean(bool),
    Number,
    /// It cannot be had, which was reported.
    Nothing,
}

/// Puts what was found in its place.
pub(super) fn put<'o>(tree: &mut DeTable<'o>, found: &'o [Outside]) {
    let by_place = found.iter().map(|outside| (outside.at, outside)).collect();
    for (_, value) in tree.iter_mut() {
        put_value(value, &by_place);
    }
}

fn put_value<'o>(value: &mut Spanned<DeValue<'o>>, found: &HashMap<usize, &'o Outside>) {
    let at = value.span().start;
    let is_file = only_file(value.get_ref()).is_some();
    match value.get_mut() {
        content @ DeValue::String(_) => {
            if let Some(outside) = found.get(&at) {
                *content = outside.value();
            }
        }
        content @ DeValue::Table(_) if is_file && found.get(&at).is_some_and(|it| it.is_file) => {
            *content = found[&at].value();
        }
        DeValue::Table(table) => {
            for (_, value) in table.iter_mut() {
                put_value(value, found);
            }
        }
        DeValue::Array(items) => {
            for item in items.iter_mut() {
                put_value(item, found);
            }
        }
        _ => {}
    }
}

/// A text with its variables in place, for readers that know no declaration.
pub(super) fn text(
    text: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<String, String> {
    let filled = filled(text, variable)?;
    Ok(filled.map_or_else(|| text.to_owned(), |filled| filled.text))
}

impl Outside {
    fn value(&self) -> DeValue<'_> {
        match self.wanted {
            Wanted::Text | Wanted::Nothing => DeValue::String(self.text.as_str().into()),
            Wanted::Boolean(boolean) => DeValue::Boolean(boolean),
            Wanted::Number => DeValue::parse(&self.text)
                .expect("it was parsed before")
                .into_inner(),
        }
    }

    /// Whether there is nothing more to say about it.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.wanted, Wanted::Nothing)
    }

    /// `message` without this value; `at` is what the message is about. A variable may say what stands in many messages,
    /// so it is looked for only where it stands itself.
    pub(super) fn hidden_in(&self, message: String, at: usize) -> String {
        if at != self.at && !self.is_file {
            return message;
        }
        let written = quoted(&self.written);
        let message = message.replace(&quoted(&self.text), &written);
        let secrets = self.secrets.iter();
        let long = secrets.filter(|secret| secret.chars().count() >= HIDDEN_CHARS_MIN);
        let message = long.fold(message, |message, secret| {
            message.replace(secret, &self.written)
        });
        if at == self.at && self.is_told_in(&message.replace(&self.written, "")) {
            return format!("found {written}, which does not fit here");
        }
        message
    }

    /// What a reader of texts with variables is to read.
    pub(super) fn literal(&self) -> &str {
        &self.literal
    }

    /// Whether `message` repeats a part of it, be it cut, escaped or in other letters than it came.
    pub(super) fn is_told_in(&self, message: &str) -> bool {
        let told = essence(message);
        self.secrets.iter().any(|secret| {
            let chars: Vec<char> = essence(secret).chars().collect();
            let parts = chars.windows(PART_CHARS.min(chars.len().max(1)));
            let mut long = parts.filter(|part| part.len() >= HIDDEN_CHARS_MIN);
            long.any(|part| told.contains(&part.iter().collect::<String>()))
        })
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside")
            .field("at", &self.at)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// What is left of a text however it is quoted.
fn essence(text: &str) -> String {
    let essential = text.chars().filter(|c| c.is_alphanumeric());
    essential.flat_map(char::to_lowercase).collect()
}

/// `text` with its braces written as those that stand for themselves.
fn with_literal_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A text whose variables are in place.
struct Filled {
    text: String,
    /// See [`Outside::literal`].
    literal: String,
    written: String,
    secrets: Vec<String>,
}

/// `None` when the text has no variable. The error says what is wrong with it.
fn filled(
    text: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<Filled>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut filled = Filled {
        text: String::new(),
        literal: String::new(),
        written: String::new(),
        secrets: Vec::new(),
    };
    for piece in pieces(text)? {
        let Piece::Variable { name, default } = piece else {
            let Piece::Text(text) = piece else { continue };
            filled.add_own(text);
            continue;
        };
        let Ok(value) = variable(name).map(OsString::into_string).transpose() else {
            return Err(format!("the variable {name} has bytes that are not UTF-8"));
        };
        match (value, default) {
            // As in a shell: `:-` is for what is empty, too.
            (Some(value), None) => filled.add(name, value),
            (Some(value), Some(_)) if !value.is_empty() => filled.add(name, value),
            (_, Some(default)) => filled.add_own(default),
            (None, None) => {
                return Err(format!(
                    "the variable {name} is not set; set it, or write what holds without it as in \
                     \"${{{name}:-VALUE}}\""
                ));
            }
        }
    }
    Ok(Some(filled))
}

impl Filled {
    /// What the config file says itself.
    fn add_own(&mut self, text: &str) {
        for whole in [&mut self.text, &mut self.literal, &mut self.written] {
            whole.push_str(text);
        }
    }

    fn add(&mut self, name: &str, value: String) {
        self.text.push_str(&value);
        self.literal.push_str(&with_literal_braces(&value));
        self.written.extend(["${", name, "}"]);
        self.secrets.push(value);
    }
}

/// The value of `file` in a table that has nothing else.
fn only_file<'v, 't>(value: &'v DeValue<'t>) -> Option<&'v Spanned<DeValue<'t>>> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    table.get("file")
}
