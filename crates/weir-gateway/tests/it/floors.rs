//! Who imports whom: the gateway is built in floors, and nothing reaches upwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the top down. A file may use those of its own floor, and of the floors below.
const FLOORS: [(&str, &[&str]); 7] = [
    (
        "the house: threads, sockets, configurations, operators",
        &[
            "gateway",
            "control",
            "admin",
            "supervision",
            "listener",
            "errands",
        ],
    ),
    ("the order of the steps", &["story"]),
    (
        "steps",
        &[
            "cache",
            "care",
            "upstream",
            "compress",
            "local",
            "respond",
            "cors",
            "error_pages",
            "account",
        ],
    ),
    ("what a request carries along", &["exchange", "serving"]),
    ("its two sides", &["connection", "slow", "wire"]),
    ("what outlives a request", &["state"]),
    (
        "the ground",
        &[
            "buffers",
            "changes",
            "deadline",
            "ended",
            "failure",
            "held_bodies",
            "lock",
            "metrics",
            "names",
            "outlet",
            "own_upstream",
            "paths",
            "router",
            "service",
            "settings",
            "start_error",
            "tell",
            "time",
        ],
    ),
];

/// So many files may need each other at most: the ways of the cache.
const CIRCLE_MAX: usize = 9;

/// Each module by its path, and the modules that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn nothing_reaches_upwards() {
    let mut wrong = Vec::new();
    for (module, used) in &uses() {
        for other in used {
            if floor(other) < floor(module) {
                wrong.push(format!("{module} uses {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn few_files_need_each_other() {
    let uses = uses();
    let reach: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|module| (module.as_str(), reachable(&uses, module)))
        .collect();
    for (module, reached) in &reach {
        let circle: Vec<_> = reached
            .iter()
            .filter(|other| reach[*other].contains(module))
            .collect();
        assert!(circle.len() <= CIRCLE_MAX, "{}: {circle:#?}", circle.len());
    }
}

/// The floor of a module: the greater, the lower.
fn floor(module: &str) -> usize {
    let top = module.split("::").next().expect("a path has a beginning");
    let is_on = |(_, modules): &(&str, &[&str])| modules.contains(&top);
    let found = FLOORS.iter().position(is_on);
    found.unwrap_or_else(|| panic!("{top} is on no floor: add it where it belongs"))
}

/// Everything that a module needs, itself included where it needs itself by way of others.
fn reachable<'u>(uses: &'u Uses, module: &str) -> BTreeSet<&'u str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = uses[module].iter().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(uses[next].iter().map(String::as_str));
        }
    }
    found
}

fn uses() -> Uses {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    read(&root, "", &mut sources);
    let modules: BTreeSet<String> = sources.keys().cloned().collect();
    assert!(modules.contains("story"), "the story is there");
    let used = |(module, source): (&String, &String)| {
        let mut used: BTreeSet<String> = paths(source)
            .iter()
            .filter_map(|path| file_of(path, &modules))
            .collect();
        used.remove(module);
        (module.clone(), used)
    };
    sources.iter().map(used).collect()
}

/// Reads every file of a directory but tests, under the path of its module.
fn read(directory: &Path, path: &str, sources: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let entry = entry.expect("it can be read").path();
        let name = entry.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name of a module");
        if matches!(name, "lib" | "tests" | "simulation") {
            continue;
        }
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}::{name}")
        };
        if entry.is_dir() {
            read(&entry, &path, sources);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            let source = fs::read_to_string(&entry).expect("it can be read");
            let source = source.split("#[cfg(test)]\nmod tests {").next();
            sources.insert(path, source.unwrap_or_default().to_owned());
        }
    }
}

/// All paths that begin with `crate::`, those in braces one by one.
fn paths(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let source: String = lines.collect::<Vec<_>>().join("\n");
    for (at, _) in source.match_indices("crate::") {
        if source[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        expand(&source[at + "crate::".len()..], "", &mut found);
    }
    found
}

/// Adds the path that `rest` begins with, and every one in its braces. Returns what is behind.
fn expand<'s>(rest: &'s str, before: &str, found: &mut Vec<String>) -> &'s str {
    let is_path = |byte: char| byte.is_alphanumeric() || byte == '_' || byte == ':';
    let end = rest.find(|byte| !is_path(byte)).unwrap_or(rest.len());
    let path = format!("{before}{}", &rest[..end]);
    let Some(mut inner) = rest[end..]
        .strip_prefix('{')
        .filter(|_| path.ends_with("::"))
    else {
        found.push(path);
        return &rest[end..];
    };
    loop {
        inner = expand(inner.trim_start(), &path, found).trim_start();
        match inner.strip_prefix(',').map(str::trim_start) {
            Some(next) if !next.starts_with('}') => inner = next,
            _ => return inner.split_once('}').map_or("", |(_, behind)| behind),
        }
    }
}

/// The file that a path leads to: that of its longest beginning which is one.
fn file_of(path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut path = path.trim_end_matches(':');
    loop {
        if modules.contains(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once("::")?.0;
    }
}
