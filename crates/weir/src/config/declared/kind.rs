//! The kinds of values, with their ranges, and how each is told in a few words.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Section;
use crate::config::suggest::quoted;
use crate::config::units::{ABOVE_ZERO, show_duration, show_size};

/// What may stand at a key.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Boolean,
    /// `false`, where `true` would say too little.
    False,
    /// A whole number.
    Integer(RangeInclusive<u64>),
    /// One of these whole numbers.
    Integers(&'static [u64]),
    /// A number, whole or not.
    Number(RangeInclusive<f64>),
    /// A number above 0 and below 1.
    Share,
    /// A number of bytes.
    Size(RangeInclusive<u64>),
    /// A time.
    Duration(RangeInclusive<Duration>),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text of some form.
    Text(&'static Form),
    /// A list.
    List(&'static List),
    /// A table with keys of its own.
    Table(&'static Section),
    /// `[[key]]`, each a table of this section. The text says what to add when there is none.
    Tables(&'static Section, &'static str),
    /// A table whose keys are free names.
    Named(&'static Named),
    /// A table or a list of anything; the text describes it in full.
    Json(&'static str),
    /// One of several kinds; the text describes them all.
    AnyOf(&'static str, &'static [Kind]),
}

/// What a text must look like.
#[derive(Debug)]
pub(crate) struct Form {
    /// What it is, in the words of the reference.
    pub(crate) noun: &'static str,
    /// What to write, for those who wrote something else.
    pub(crate) expected: &'static str,
    /// A regular expression that all texts of the form match, in the part of the language that all dialects share. Others
    /// may match it too.
    pub(crate) pattern: Option<&'static str>,
}

/// A list of values.
#[derive(Debug)]
pub(crate) struct List {
    /// What may stand in it.
    pub(crate) of: Kind,
    /// Of what it is a list, in the words of the reference.
    pub(crate) noun: &'static str,
    /// The same for those who wrote something else.
    pub(crate) expected: &'static str,
    /// Whether there must be something in it.
    pub(crate) is_never_empty: bool,
}

/// A table whose keys are free names.
#[derive(Debug)]
pub(crate) struct Named {
    /// What such a table looks like.
    pub(crate) example: &'static str,
    /// A regular expression for the names.
    pub(crate) names: &'static str,
    /// What stands at each name.
    pub(crate) values: Kind,
}

const LONGEST_DEADLINE: Duration = Duration::from_secs(24 * 3600);

impl Kind {
    /// Every deadline of a file.
    pub(crate) const DEADLINE: Self = Self::Duration(ABOVE_ZERO..=LONGEST_DEADLINE);

    /// Whether it is a deadline, which has a range that all of them share.
    fn is_deadline(&self) -> bool {
        matches!(self, Self::Duration(range) if *range == (ABOVE_ZERO..=LONGEST_DEADLINE))
    }

    /// The kinds that it may be, itself when there is one only.
    pub(crate) fn alternatives(&self) -> &[Kind] {
        match self {
            Self::AnyOf(_, kinds) => kinds,
            one => std::slice::from_ref(one),
        }
    }

    /// What it is called in the reference.
    pub(crate) fn noun(&self) -> String {
        match self.nouns().as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
        }
    }

    fn nouns(&self) -> Vec<String> {
        let noun = match self {
            Self::Integers(numbers) => return numbers.iter().map(u64::to_string).collect(),
            Self::Words(words) => {
                return words.iter().map(|word| format!("`\"{word}\"`")).collect();
            }
            Self::AnyOf(_, kinds) => return kinds.iter().flat_map(Kind::nouns).collect(),
            Self::Boolean => "boolean".to_owned(),
            Self::False => "`false`".to_owned(),
            Self::Integer(_) => "integer".to_owned(),
            Self::Number(_) | Self::Share => "number".to_owned(),
            Self::Size(_) => "size".to_owned(),
            Self::Duration(_) if self.is_deadline() => "deadline".to_owned(),
            Self::Duration(_) => "duration".to_owned(),
            Self::Text(form) => form.noun.to_owned(),
            Self::List(list) => format!("list of {}", list.noun),
            Self::Table(_) | Self::Named(_) => "table".to_owned(),
            Self::Tables(..) => "tables".to_owned(),
            Self::Json(_) => "table or list".to_owned(),
        };
        vec![noun]
    }

    /// The bounds in the words of the reference; `None` if there are none, or the noun says it all.
    pub(crate) fn range(&self) -> Option<String> {
        let from_to = |least: String, most: String| Some(format!("{least} to {most}"));
        match self {
            Self::Integer(range) => from_to(range.start().to_string(), range.end().to_string()),
            Self::Number(range) => from_to(range.start().to_string(), range.end().to_string()),
            Self::Share => Some("above 0, below 1".to_owned()),
            Self::Size(range) => from_to(size(*range.start()), size(*range.end())),
            Self::Duration(_) if self.is_deadline() => None,
            Self::Duration(range) => from_to(duration(*range.start()), duration(*range.end())),
            Self::List(list) if list.is_never_empty => Some("not empty".to_owned()),
            Self::AnyOf(_, kinds) => {
                // A list says that it is not empty, which is no range of the others.
                let kinds = kinds.iter().filter(|kind| !matches!(kind, Self::List(_)));
                let ranges: Vec<_> = kinds.filter_map(Kind::range).collect();
                (!ranges.is_empty()).then(|| ranges.join("; "))
            }
            _ => None,
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ => format!("`{}`", quoted(&show_size(bytes))),
    }
}

fn duration(time: Duration) -> String {
    match time {
        Duration::ZERO => "0".to_owned(),
        _ => format!("`{}`", quoted(&show_duration(time))),
    }
}

/// The names of a table of names and what they mean, which is all of it that a declaration tells.
pub(crate) const fn words<T, const COUNT: usize>(
    named: &'static [(&'static str, T)],
) -> [&'static str; COUNT] {
    assert!(named.len() == COUNT, "as many words as there are names");
    let mut words = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        words[at] = named[at].0;
        at += 1;
    }
    words
}
