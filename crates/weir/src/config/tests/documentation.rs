//! What the documentation shows is what a file may say, and what is said about a broken one.

mod tables;

use std::fs;

use super::declared::tree::places;
use super::{LISTENER, ROUTE, UPSTREAM, parse, valid};

const README: &str = include_str!("../../../../../README.md");
const REFERENCE: &str = include_str!("../../../../../docs/reference.md");
const REFUSE: &str = include_str!("../../../../../docs/refuse.md");
const GUARD: &str = include_str!("../../../../../docs/guard.md");

const BACKUP: &str = "upstream.backup.servers = [\"127.0.0.1:9009\"]\n";

/// The blocks of a page whose fence is followed by `language`.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let opening = format!("```{language}\n");
    let after = page.split(&opening).skip(1);
    let blocks: Vec<_> = after
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(!blocks.is_empty(), "there are no blocks of {language:?}");
    blocks
}

#[test]
fn every_example_of_refusing_is_sound() {
    for block in blocks(REFUSE, "toml") {
        let missing = |what: &str, line| if block.contains(what) { "" } else { line };
        let upstream = missing("[upstream.app]", UPSTREAM);
        let route = missing("[[route]]", ROUTE);
        let settings = valid(&[LISTENER, upstream, BACKUP, route, block].concat());
        // An example that says nothing would be sound too.
        let plain = valid(&[LISTENER, UPSTREAM, BACKUP, ROUTE].concat());
        assert!(settings.upstreams != plain.upstreams || settings.routes != plain.routes);
    }
}

/// With guard's interface there may be no route.
#[test]
fn the_config_of_guards_page_takes_apps() {
    let [config] = blocks(GUARD, "toml")[..] else {
        panic!("one file");
    };
    let admin = valid(config).admin.expect("it has one");
    assert_eq!(admin.guard_file, Some("guard.json".into()));
    let off = config.replace("guard_api = true", "guard_api = false");
    let off = off.replace("guard_file", "# guard_file");
    let error = parse(&off).expect_err("no route").to_string();
    assert!(error.contains("route: missing"), "{error}");
}

#[test]
fn the_whole_file_of_the_reference_is_sound() {
    let (_, file) = REFERENCE.split_once("### A whole file").expect("a heading");
    valid(blocks(file, "toml")[0]);
}

#[test]
fn the_files_of_the_readme_are_what_it_says() {
    let [sound, broken] = blocks(README, "toml")[..] else {
        panic!("two files");
    };
    valid(sound);
    let error = parse(broken).expect_err("mistakes").to_string();
    assert!(README.contains(&error), "{error}");
}

/// With `WEIR_WRITE_REFERENCE=1` the tables are written instead.
#[test]
fn the_tables_of_the_reference_are_those_of_the_declaration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
    let page = fs::read_to_string(path).expect("the reference");
    let written = tables::written(&page);
    if std::env::var_os("WEIR_WRITE_REFERENCE").is_some() {
        fs::write(path, written).expect("the reference can be written");
        return;
    }
    let differs = page
        .lines()
        .zip(written.lines())
        .find(|(one, other)| one != other);
    if page != written {
        let (found, declared) = differs.unwrap_or(("the end", "more"));
        panic!(
            "docs/reference.md has\n{found}\nand declared is\n{declared}\nTo write it: \
             WEIR_WRITE_REFERENCE=1 cargo test -p weir --bin weir documentation"
        );
    }
}

#[test]
fn the_reference_has_every_key_in_a_table() {
    // The sections of a file have a heading each instead.
    for place in places().iter().filter(|place| place.way.len() > 1) {
        let is_shown = tables::shown().any(|shown| shown.is(place.key));
        assert!(is_shown, "{}", place.way.join("."));
    }
}
