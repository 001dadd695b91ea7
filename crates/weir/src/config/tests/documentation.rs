//! What the documentation shows is what a file may say, and what is said about a broken one.

mod blocks;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use self::blocks::Block;
use super::declared::tree::places;
use super::{LISTENER, ROUTE, UPSTREAM, parse, valid};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

const BACKUP: &str = "upstream.backup.servers = [\"127.0.0.1:9009\"]\n";

/// A block as a whole file: what it leaves out is added in front of it.
fn completed(block: &Block) -> String {
    if block.is_whole_file() {
        return block.text.clone();
    }
    let missing = |table: &str, line| {
        let is_there = block.text.contains(table);
        if is_there { "" } else { line }
    };
    let upstream = missing("[upstream.app]", UPSTREAM);
    let route = missing("[[route]]", ROUTE);
    let others = others(&block.text);
    let parts = [LISTENER, upstream, BACKUP, &others, route, &block.text];
    parts.concat()
}

/// The upstreams that a part names and neither has nor is given by [`completed`].
fn others(text: &str) -> String {
    let named = text.split("upstream = \"").skip(1);
    let named = named.filter_map(|rest| rest.split('"').next());
    let missing = named.filter(|name| {
        !["app", "backup"].contains(name) && !text.contains(&format!("[upstream.{name}]"))
    });
    let missing: BTreeSet<&str> = missing.collect();
    let lines = missing
        .iter()
        .map(|name| format!("upstream.{name}.servers = [\"127.0.0.1:9008\"]\n"));
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn every_config_of_the_documentation_is_what_it_says() {
    let plain = valid(&[LISTENER, UPSTREAM, BACKUP, ROUTE].concat());
    let mut configs = 0;
    for block in blocks::all() {
        let place = &block.place;
        if block.is_mix() || block.run_by.is_some() {
            continue;
        }
        configs += 1;
        match (&block.mistakes, parse(&completed(&block))) {
            (None, Ok(settings)) => {
                let says = format!("{settings:?}");
                // An example that says nothing would be sound too.
                assert_ne!(says, format!("{plain:?}"), "{place}");
            }
            (None, Err(error)) => panic!("{place}:\n{error}"),
            (Some(_), Ok(_)) => panic!("{place}: there is no mistake in it"),
            (Some(printed), Err(error)) => {
                assert!(block.is_whole_file(), "{place}: its lines are others");
                assert_eq!(*printed, format!("{error}\n"), "{place}");
            }
        }
    }
    assert!(configs > 20, "{configs}");
}

#[cfg(feature = "load")]
#[test]
fn every_mix_of_the_documentation_is_sound() {
    let mixes = blocks::all().into_iter().filter(Block::is_mix);
    let path = std::env::temp_dir().join(format!("weir-mix-{}.toml", std::process::id()));
    let mut count = 0;
    for mix in mixes {
        fs::write(&path, &mix.text).expect("a file can be written");
        crate::config::mix::load(&path).unwrap_or_else(|error| panic!("{}: {error}", mix.place));
        count += 1;
    }
    let _ = fs::remove_file(path);
    assert!(count > 0);
}

/// A test that is said to run a block is there.
#[test]
fn every_other_config_has_a_test_of_its_own() {
    let directories = ["src/config/tests", "tests/it"];
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = directories.map(|directory| texts_below(&manifest.join(directory)));
    for block in blocks::all() {
        if let Some(name) = &block.run_by {
            let function = format!("fn {name}()");
            let is_there = texts.iter().any(|text| text.contains(&function));
            assert!(is_there, "{}: {function}", block.place);
        }
    }
}

fn texts_below(directory: &Path) -> String {
    let entries = fs::read_dir(directory).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let texts = paths.map(|path| {
        if path.is_dir() {
            texts_below(&path)
        } else {
            fs::read_to_string(path).unwrap_or_default()
        }
    });
    texts.collect()
}

/// Guides name metrics; those of the reference are the ones that there are.
#[test]
fn metrics_in_guides_are_in_the_reference() {
    let pages = reference();
    let observing = &pages["observing.md"];
    let entries = fs::read_dir(DOCS).expect("a directory");
    let guides = entries.map(|entry| entry.expect("an entry").path());
    for path in guides.filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let guide = fs::read_to_string(&path).expect("a page");
        let names = guide.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in names.filter(|name| name.starts_with("weir_")) {
            assert!(
                observing.contains(&format!("`{name}`")),
                "{}: {name}",
                path.display()
            );
        }
    }
}

/// With guard's interface there may be no route.
#[test]
fn the_config_of_guards_page_takes_apps() {
    let mut blocks = blocks::all().into_iter();
    let block = blocks.find(|block| block.place.starts_with("docs/guard.md:"));
    let config = block.expect("a file").text;
    let admin = valid(&config).admin.expect("it has one");
    assert_eq!(admin.guard_file, Some("guard.json".into()));
    let off = config.replace("guard_api = true", "guard_api = false");
    let off = off.replace("guard_file", "# guard_file");
    let error = parse(&off).expect_err("no route").to_string();
    assert!(error.contains("route: missing"), "{error}");
}

/// The pages of the reference, by their names.
fn reference() -> BTreeMap<String, String> {
    let entries = fs::read_dir(format!("{DOCS}/reference")).expect("the reference");
    let pages = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), fs::read_to_string(path).expect("a page"))
    });
    pages.collect()
}

/// With `WEIR_WRITE_REFERENCE=1` the tables are written instead.
#[test]
fn the_tables_of_the_reference_are_those_of_the_declaration() {
    let pages = reference();
    tables::each_has_one_place(pages.values());
    for (name, page) in pages {
        let written = tables::written(&page);
        if std::env::var_os("WEIR_WRITE_REFERENCE").is_some() {
            fs::write(format!("{DOCS}/reference/{name}"), written).expect("it can be written");
            continue;
        }
        let differs = page
            .lines()
            .zip(written.lines())
            .find(|(one, other)| one != other);
        if page != written {
            let (found, declared) = differs.unwrap_or(("the end", "more"));
            panic!(
                "docs/reference/{name} has\n{found}\nand declared is\n{declared}\nTo write it: \
                 WEIR_WRITE_REFERENCE=1 cargo test -p weir --bin weir documentation"
            );
        }
    }
}

/// Links between pages, which a heading that is renamed would break in silence.
#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let root = Path::new(DOCS).parent().expect("the repository");
    let mut pages = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    for directory in [DOCS.to_owned(), format!("{DOCS}/reference")] {
        let entries = fs::read_dir(directory).expect("a directory");
        let files = entries.map(|entry| entry.expect("an entry").path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    let mut dead = Vec::new();
    for path in &pages {
        let page = fs::read_to_string(path).expect("a page");
        for link in links(&page) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = path.parent().expect("a directory").join(file);
            let to = if file.is_empty() { path } else { &to };
            let leads = if anchor.is_empty() {
                to.exists()
            } else {
                fs::read_to_string(to).is_ok_and(|page| anchors(&page).any(|it| it == anchor))
            };
            if !leads {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// A metric that was renamed would leave an alert that never fires.
#[test]
fn the_page_for_production_names_metrics_that_there_are() {
    let page = fs::read_to_string(format!("{DOCS}/production.md")).expect("the page");
    let metrics = &reference()["observing.md"];
    let names = page.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let names: Vec<_> = names.filter(|name| name.starts_with("weir_")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        assert!(metrics.contains(&format!("| `{name}` |")), "{name}");
    }
}

/// Where the links of a page lead, but for those into the web.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let behind = page.split("](").skip(1);
    let targets = behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// The anchors of a page's headings, as forges make them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[test]
fn the_reference_has_every_key_in_a_table() {
    // The sections of a file have a heading each instead.
    for place in places().iter().filter(|place| place.way.len() > 1) {
        let is_shown = tables::shown().any(|shown| shown.is(place.key));
        assert!(is_shown, "{}", place.way.join("."));
    }
}
