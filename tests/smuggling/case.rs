//! Reads the request smuggling corpus: the `.case` files beside this one, in the format that README.md describes.
//!
//! Plain std, because every test binary that replays the corpus includes this file with `#[path]`. The corpus is our
//! own, so whatever is wrong with it panics, with the name of the file.

use std::fs;
use std::path::{Path, PathBuf};

/// What a client sends on one connection, and what must become of it.
#[derive(Debug)]
pub(crate) struct Case {
    /// Directory and file: `encoding/cl-te`.
    pub(crate) name: String,
    /// Why the verdict is what it is.
    pub(crate) reason: String,
    /// What the verdict is.
    pub(crate) expect: Expect,
    /// The bytes that the client sends.
    pub(crate) input: Vec<u8>,
}

/// The verdict on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expect {
    /// How many requests are forwarded whole, before the refusal if there is one.
    pub(crate) forwarded: usize,
    /// The status and the name of the reason of the refusal, after which the connection is closed.
    pub(crate) refused: Option<(u16, String)>,
}

/// All cases in the directories below `corpus`, sorted by name.
pub(crate) fn read_all(corpus: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for group in entries(corpus).iter().filter(|path| path.is_dir()) {
        for path in entries(group) {
            let name = path
                .with_extension("")
                .strip_prefix(corpus)
                .map(|name| name.display().to_string())
                .expect("a case lies in the corpus");
            assert!(path.extension().is_some_and(|e| e == "case"), "{name}");
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            cases.push(parse(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}")));
        }
    }
    cases
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("the directory can be read").path())
        .collect();
    paths.sort();
    paths
}

fn parse(name: &str, text: &str) -> Result<Case, String> {
    let (header, body) = text.split_once("\n---\n").ok_or("no line of `---`")?;
    let mut body = body.lines().collect::<String>();
    let (mut reason, mut expect) = (Vec::new(), None);
    for line in header.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            reason.push(text);
        } else if let Some(repeat) = line.strip_prefix("repeat: ") {
            body = repeated(repeat, &body)?;
        } else if let Some(verdict) = line.strip_prefix("expect: ") {
            expect = Some(parse_expect(verdict).ok_or_else(|| format!("expect: {verdict}"))?);
        } else {
            return Err(format!("neither reason nor directive: {line}"));
        }
    }
    if reason.is_empty() {
        return Err("no reason".to_owned());
    }
    Ok(Case {
        name: name.to_owned(),
        reason: reason.join("\n"),
        expect: expect.ok_or("no `expect:`")?,
        input: decode(&body)?,
    })
}

/// `forward N`, `STATUS reason`, or `forward N then STATUS reason`.
fn parse_expect(text: &str) -> Option<Expect> {
    let refusal = |status: &str, reason: &str| Some((status.parse().ok()?, reason.to_owned()));
    let words: Vec<_> = text.split(' ').collect();
    let (forwarded, refused) = match words[..] {
        ["forward", count] => (count.parse().ok()?, None),
        ["forward", count, "then", status, reason] => {
            (count.parse().ok()?, Some(refusal(status, reason)?))
        }
        [status, reason] => (0, Some(refusal(status, reason)?)),
        _ => return None,
    };
    Some(Expect { forwarded, refused })
}

/// Puts `TEXT` so many times where `body` says `{repeat}`; `directive` is `TEXT COUNT`.
fn repeated(directive: &str, body: &str) -> Result<String, String> {
    let mark = "{repeat}";
    let (text, count) = directive.rsplit_once(' ').ok_or("repeat: TEXT COUNT")?;
    let count = count.parse().map_err(|error| format!("repeat: {error}"))?;
    if body.contains(mark) {
        Ok(body.replace(mark, &text.repeat(count)))
    } else {
        Err(format!("`repeat:` without {mark}"))
    }
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        bytes.push(match character {
            '\\' => match characters.next() {
                Some('r') => b'\r',
                Some('n') => b'\n',
                Some('t') => b'\t',
                Some('0') => b'\0',
                Some('\\') => b'\\',
                Some('x') => {
                    let digits: String = characters.by_ref().take(2).collect();
                    u8::from_str_radix(&digits, 16)
                        .map_err(|_| format!("bad escape \\x{digits}"))?
                }
                other => return Err(format!("bad escape \\{}", other.unwrap_or_default())),
            },
            ' '..='~' => character as u8,
            _ => return Err(format!("{character:?} must be written as an escape")),
        });
    }
    Ok(bytes)
}
