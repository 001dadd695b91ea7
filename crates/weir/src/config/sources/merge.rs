//! Several tables as one: tables of one name are united, `[[route]]` and its like go on where another file has begun them,
//! and every other key is said once.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::declared::Kind;
use crate::config::declared::file::FILE;
use crate::config::error::Report;
use crate::config::read::written_key;

/// `table` with every place moved on by so many bytes.
pub(super) fn moved(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    if by == 0 {
        return table;
    }
    let moved = table.into_iter().map(|(name, value)| {
        let at = name.span().start + by..name.span().end + by;
        (Spanned::new(at, name.into_inner()), moved_value(value, by))
    });
    moved.collect()
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let at = value.span().start + by..value.span().end + by;
    let content = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, by)),
        DeValue::Array(mut items) => {
            for item in items.iter_mut() {
                let taken = std::mem::replace(item, Spanned::new(0..0, DeValue::Boolean(false)));
                *item = moved_value(taken, by);
            }
            DeValue::Array(items)
        }
        other => other,
    };
    Spanned::new(at, content)
}

/// Adds `more` to `tree`. What both say is reported; `file` is the name of the first file.
pub(super) fn merge<'t>(tree: &mut DeTable<'t>, more: DeTable<'t>, report: &Report, file: &str) {
    Merging { report, file }.tables(tree, more, "");
}

struct Merging<'r> {
    report: &'r Report,
    file: &'r str,
}

impl Merging<'_> {
    fn tables<'t>(&self, tree: &mut DeTable<'t>, more: DeTable<'t>, way: &str) {
        for (name, value) in more {
            let key = match way {
                "" => written_key(name.get_ref()),
                way => format!("{way}.{}", written_key(name.get_ref())),
            };
            let Some(first) = tree.get_mut(name.get_ref().as_ref()) else {
                let _ = tree.insert(name, value);
                continue;
            };
            let first_at = first.span().start;
            let second_at = value.span().start;
            match (first.get_mut(), value.into_inner()) {
                (DeValue::Table(first), DeValue::Table(second)) => self.tables(first, second, &key),
                (DeValue::Array(first), DeValue::Array(second))
                    if way.is_empty() && is_repeated(name.get_ref()) =>
                {
                    let mut second = second;
                    for item in second.iter_mut() {
                        let empty = Spanned::new(0..0, DeValue::Boolean(false));
                        first.push(std::mem::replace(item, empty));
                    }
                }
                _ => {
                    let first = self.report.place(first_at, self.file);
                    let message = format!("it stands at {first} too, expected it only once");
                    self.report.add(second_at, &key, message);
                }
            }
        }
    }
}

/// Whether each file may have more of these tables.
fn is_repeated(name: &str) -> bool {
    FILE.keys()
        .any(|key| key.name == name && matches!(key.kind, Kind::Tables(..)))
}
