//! What is declared is what is read, and what holds when nothing is said.

pub(super) mod tree;

use std::collections::HashSet;

use self::tree::{file, places};
use super::{parse, whole};
use crate::config::declared::clients::HEAD;
use crate::config::declared::file::FILE;
use crate::config::entries::Entries;
use crate::config::error::Report;
use crate::config::read::Table;
use crate::config::{ConfigError, syntax};

/// No key takes a date, so whoever reads the key says so there. A key that nobody read would pass in silence.
#[test]
fn every_declared_key_is_read() {
    for place in places() {
        let text = file(&place, Some("1979-05-27"));
        let way = place.way.join(".");
        let Err(ConfigError::Invalid { problems, .. }) = parse(&text) else {
            panic!("{way} is not read in:\n{text}");
        };
        let is_told = problems.iter().any(|problem| {
            let key = problem.key.replace("[1]", "");
            key == way && !problem.message.starts_with("unknown key")
        });
        assert!(is_told, "{way} is not read in:\n{text}");
    }
}

/// What is not declared for a table has no key that could be asked for there.
#[test]
#[should_panic(expected = "\"head\" is declared for another table")]
fn a_key_of_another_table_cannot_be_read() {
    let report = Report::on("");
    let document = syntax::parse("", &report);
    let root = Table::new(&report, 0, String::new(), document.get_ref());
    Entries::new(root, &FILE).optional(&HEAD);
}

/// To write a default down changes nothing.
#[test]
fn every_declared_default_is_what_holds_without_it() {
    let mut checked = 0;
    for place in places() {
        let Some(default) = place.key.preset.toml() else {
            continue;
        };
        let without = whole(&file(&place, None));
        let with = whole(&file(&place, Some(&default)));
        let way = place.way.join(".");
        assert_eq!(format!("{with:#?}"), format!("{without:#?}"), "{way}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn every_key_is_declared_once_and_explained() {
    let mut ways = HashSet::new();
    for place in places() {
        let way = place.way.join(".");
        let doc = place.key.doc;
        assert!(doc.ends_with('.') && !doc.contains('\n'), "{way}: {doc:?}");
        assert!(ways.insert(way.clone()), "{way}");
    }
}
