//! Patterns of paths: `*` for any characters but `/`, `?` for one. A name that begins with a dot is only found by a
//! pattern that begins with one, as in a shell; so the hidden directories of a Kubernetes volume are passed over.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::inputs::Inputs;

/// More files than anybody keeps apart; a pattern that finds more has most likely gone astray.
pub(super) const FOUND_MAX: usize = 1000;

/// The files and directories that `pattern` names, sorted by name. Without a `*` or `?` it is the path itself, whether
/// something is there or not.
///
/// # Errors
/// A directory that has no pattern in its name cannot be read, or too much is found.
pub(super) fn paths(
    directory: &Path,
    pattern: &str,
    inputs: &mut Inputs,
) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![directory.to_owned()];
    if pattern.starts_with('/') {
        found = vec![PathBuf::from("/")];
    }
    let mut had_pattern = false;
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        if !name.contains(['*', '?']) {
            for path in &mut found {
                path.push(name);
            }
            continue;
        }
        let mut next = Vec::new();
        for path in found {
            match entries(&path, name, inputs) {
                Ok(entries) => next.extend(entries),
                // What another pattern has found need not be a directory.
                Err(_) if had_pattern => {}
                Err(error) => return Err(format!("cannot read {}: {error}", shown(&path))),
            }
            if next.len() > FOUND_MAX {
                return Err(format!("it names more than {FOUND_MAX} files"));
            }
        }
        (found, had_pattern) = (next, true);
    }
    // A directory on the way may have one file and another not.
    if had_pattern
        && !pattern
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains(['*', '?']))
    {
        found.retain(|path| path.exists());
    }
    Ok(found)
}

fn entries(directory: &Path, pattern: &str, inputs: &mut Inputs) -> std::io::Result<Vec<PathBuf>> {
    // An empty path is the working directory.
    let read = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    inputs.note(read);
    let mut names = Vec::new();
    for entry in fs::read_dir(read)? {
        // A name that is not UTF-8 is one that no config file can say.
        names.extend(entry?.file_name().into_string().ok());
    }
    names.retain(|name| {
        (!name.starts_with('.') || pattern.starts_with('.')) && is_like(name, pattern)
    });
    names.sort_unstable();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn shown(directory: &Path) -> String {
    if directory.as_os_str().is_empty() {
        "the working directory".to_owned()
    } else {
        directory.display().to_string()
    }
}

/// Whether `pattern` describes `name` as a whole. It takes at most as many steps as both have characters, multiplied.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut wanted) = (0, 0);
    // After the last `*`, and where in the name that began.
    let mut star = None;
    while at < name.len() {
        match pattern.get(wanted) {
            Some('*') => {
                wanted += 1;
                star = Some((wanted, at));
            }
            Some(c) if *c == '?' || *c == name[at] => {
                at += 1;
                wanted += 1;
            }
            _ => match &mut star {
                Some((after, began)) => {
                    *began += 1;
                    (wanted, at) = (*after, *began);
                }
                None => return false,
            },
        }
    }
    pattern[wanted..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_with_patterns() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", "a.toml~", false),
            ("*.toml", ".toml", true),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaybzb", true),
            ("*a*b", "xaybz", false),
            ("**", "x", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("?", "ä", true),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{pattern} {name}");
        }
        // Each star could begin anywhere.
        assert!(!is_like(
            &"a".repeat(2000),
            &"a*".repeat(500).replace("a*", "*a*b")
        ));
    }
}
