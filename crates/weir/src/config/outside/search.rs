//! The walk along the declaration that finds what comes from outside.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Outside, Surroundings, Wanted, filled, only_file, text, with_literal_braces};
use crate::config::declared::file::FILE;
use crate::config::declared::{Kind, Section};
use crate::config::error::Report;
use crate::config::read::written_key;
use crate::config::regular;
use crate::config::suggest::quoted;

/// No secret is longer, and no setting that stands in a file of its own.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Everything in `tree` that comes from outside; what cannot be had is reported.
pub(in crate::config) fn found(
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

fn below(way: &str, name: &str) -> String {
    let name = written_key(name);
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
