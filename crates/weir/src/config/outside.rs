//! Values that a config file takes from outside: `"${VARIABLE}"` in any string, and `{ file = "PATH" }` in place of one.
//!
//! The tree is walked along the declaration, which says where a table may stand, so that `{ file = … }` is told from a
//! table of weir's own, and where a number or a boolean is wanted. Keys are never from outside.
//!
//! What came from outside is never repeated: messages show what is written in the file.

mod written;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::written::{Piece, pieces};
use super::declared::file::FILE;
use super::declared::{Kind, Section};
use super::error::Report;
use super::inputs::Inputs;
use super::regular;
use super::suggest::quoted;

/// No secret is longer, and no setting that stands in a file of its own.
const FILE_BYTES_MAX: u64 = 64 << 10;
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

/// Everything in `tree` that comes from outside; what cannot be had is reported.
pub(super) fn found(
    tree: &DeTable<'_>,
    report: &Report,
    from: &mut Surroundings<'_>,
) -> Vec<Outside> {
    let mut search = Search {
        report,
        from,
        found: Vec::new(),
    };
    search.table(tree, Some(&FILE), "");
    search.found
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

struct Search<'a, 's> {
    report: &'a Report,
    from: &'a mut Surroundings<'s>,
    found: Vec<Outside>,
}

impl Search<'_, '_> {
    fn table(&mut self, table: &DeTable<'_>, section: Option<&'static Section>, way: &str) {
        for (name, value) in table {
            let key = section.and_then(|section| {
                section
                    .keys()
                    .find(|key| key.name == name.get_ref().as_ref())
            });
            let way = below(way, name.get_ref());
            self.value(value, key.map(|key| &key.kind), &way);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, kind: Option<&'static Kind>, way: &str) {
        let kinds = kind.map_or(&[][..], Kind::alternatives);
        let takes_tables = kinds.iter().any(|kind| {
            matches!(
                kind,
                Kind::Table(_) | Kind::Tables(..) | Kind::Named(_) | Kind::Json(_)
            )
        });
        match value.get_ref() {
            DeValue::String(text) => self.string(value.span().start, text, kinds, way),
            DeValue::Table(table) => match only_file(value.get_ref()) {
                Some(path) if kind.is_some() && !takes_tables => {
                    self.file(value.span().start, path, kinds, way);
                }
                _ => self.members(table, kinds, way),
            },
            DeValue::Array(items) => {
                let of = kinds.iter().find_map(|kind| match kind {
                    Kind::List(list) => Some(Ok(&list.of)),
                    Kind::Tables(section, _) => Some(Err(*section)),
                    _ => None,
                });
                for (index, item) in items.iter().enumerate() {
                    let way = format!("{way}[{}]", index + 1);
                    match (of, item.get_ref()) {
                        (Some(Err(section)), DeValue::Table(table)) => {
                            self.table(table, Some(section), &way);
                        }
                        (Some(Ok(kind)), _) => self.value(item, Some(kind), &way),
                        _ => self.value(item, None, &way),
                    }
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, table: &DeTable<'_>, kinds: &'static [Kind], way: &str) {
        let section = kinds.iter().find_map(|kind| match kind {
            Kind::Table(section) => Some(*section),
            _ => None,
        });
        let named = kinds.iter().find_map(|kind| match kind {
            Kind::Named(named) => Some(*named),
            _ => None,
        });
        let Some(named) = named else {
            return self.table(table, section, way);
        };
        for (name, value) in table {
            let way = below(way, name.get_ref());
            self.value(value, Some(&named.values), &way);
        }
    }

    fn string(&mut self, at: usize, text: &str, kinds: &[Kind], way: &str) {
        match filled(text, self.from.variable) {
            Ok(None) => {}
            Ok(Some(filled)) => self.found.push(Outside {
                at,
                wanted: wanted(&filled.text, kinds),
                text: filled.text,
                literal: filled.literal,
                written: filled.written,
                secrets: filled.secrets,
                is_file: false,
            }),
            Err(problem) => {
                self.missing(at, way, format!("found {}, {problem}", quoted(text)));
            }
        }
    }

    fn file(&mut self, at: usize, path: &Spanned<DeValue<'_>>, kinds: &[Kind], way: &str) {
        let Some(path_text) = path.get_ref().as_str() else {
            let message = "expected the path of a file as in { file = \"/run/secrets/token\" }";
            return self.missing(at, way, message.to_owned());
        };
        match self.text_of(at, path_text) {
            Ok(text) => self.found.push(Outside {
                at,
                wanted: wanted(&text, kinds),
                written: format!("{{ file = {} }}", quoted(path_text)),
                secrets: vec![text.clone()],
                literal: with_literal_braces(&text),
                text,
                is_file: true,
            }),
            Err(refused) => {
                let found = format!("found {{ file = {} }}", quoted(path_text));
                match refused {
                    Refused::Unreadable(why) => {
                        self.report
                            .add_elsewhere(at, way, format!("{found}, {why}"));
                        self.has_nothing(at);
                    }
                    Refused::Unfit(why) => self.missing(at, way, format!("{found}, {why}")),
                }
            }
        }
    }

    fn missing(&mut self, at: usize, way: &str, message: String) {
        self.report.add(at, way, message);
        self.has_nothing(at);
    }

    /// What the value at byte `at` is cannot be known, which was reported.
    fn has_nothing(&mut self, at: usize) {
        self.found.push(Outside {
            at,
            wanted: Wanted::Nothing,
            text: String::new(),
            literal: String::new(),
            written: String::new(),
            secrets: Vec::new(),
            is_file: true,
        });
    }

    /// The text of the file at `path`, which is named at byte `at`.
    fn text_of(&mut self, at: usize, path: &str) -> Result<String, Refused> {
        let path = text(path, self.from.variable).map_err(Refused::Unfit)?;
        if path.is_empty() || path.contains('\0') {
            return Err(Refused::Unfit("expected the path of a file".to_owned()));
        }
        let path = self.report.directory_of(at).join(Path::new(&path));
        self.from.inputs.note(&path);
        let shown = path.display();
        let bytes = regular::beginning(&path, FILE_BYTES_MAX + 1).map_err(|error| {
            let why = format!("cannot read {shown}: {error}");
            // What is no file stays none.
            match error.raw_os_error() {
                Some(_) => Refused::Unreadable(why),
                None => Refused::Unfit(why),
            }
        })?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Refused::Unfit(format!("{shown} has more than 64 KiB")));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Refused::Unfit(format!("{shown} has bytes that are not UTF-8")))?;
        // Whoever writes a line into a file means what is on it.
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }
}

/// Why a file gives no value.
enum Refused {
    /// It is not there, or not for us.
    Unreadable(String),
    /// It can be none.
    Unfit(String),
}

/// The value of `file` in a table that has nothing else.
fn only_file<'v, 't>(value: &'v DeValue<'t>) -> Option<&'v Spanned<DeValue<'t>>> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    table.get("file")
}

fn below(way: &str, name: &str) -> String {
    let name = super::read::written_key(name);
    if way.is_empty() {
        name
    } else {
        format!("{way}.{name}")
    }
}

/// What a text becomes where something of `kinds` may stand. What fits nothing stays a text, and its reader says so.
fn wanted(text: &str, kinds: &[Kind]) -> Wanted {
    let boolean = text.parse::<bool>().ok().filter(|boolean| {
        let mut kinds = kinds.iter();
        kinds.any(|kind| matches!((kind, boolean), (Kind::Boolean, _) | (Kind::False, false)))
    });
    if let Some(boolean) = boolean {
        return Wanted::Boolean(boolean);
    }
    let is_whole = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut each = kinds.iter();
    let is_wanted = each.any(|kind| match kind {
        Kind::Integer(_) | Kind::Integers(_) => is_whole,
        Kind::Number(_) | Kind::Share => is_whole || text.parse::<f64>().is_ok(),
        _ => false,
    });
    // TOML has rules of its own, such as no zero in front.
    let is_number = || {
        DeValue::parse(text)
            .is_ok_and(|value| value.get_ref().is_integer() || value.get_ref().is_float())
    };
    if is_wanted && is_number() {
        Wanted::Number
    } else {
        Wanted::Text
    }
}
