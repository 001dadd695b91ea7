//! What a write asks of the value that there is: `If-Match` and `If-None-Match` (RFC 9110 §13.1). Pure.
//!
//! The entity tag of a value is its version in quotes: each write has another one, on whatever node it was made.

use crate::cell::Cell;
use crate::version::Version;

/// What has to hold of the value of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// It is one of these.
    pub matches: Option<Tags>,
    /// It is none of these.
    pub matches_none: Option<Tags>,
}

/// Values, by their versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: whatever there is.
    Any,
    /// Those of a list that are versions. Others are of no value that was ever here.
    These(Vec<Version>),
}

impl Tags {
    /// Reads the field lines of `If-Match` or `If-None-Match`; `None` if there are none. A weak tag only counts where `is_weak`
    /// comparison is enough.
    ///
    /// # Errors
    /// They are neither `*` nor a list of entity tags.
    pub fn read<'l>(
        lines: impl Iterator<Item = &'l [u8]>,
        is_weak: bool,
    ) -> Result<Option<Self>, NoTags> {
        let mut lines = lines.peekable();
        if lines.peek().is_none() {
            return Ok(None);
        }
        let (mut versions, mut count) = (Vec::new(), 0);
        for line in lines {
            let mut rest = line.trim_ascii();
            if rest == b"*" {
                return Ok(Some(Self::Any));
            }
            while !rest.is_empty() {
                if let Some(behind) = rest.strip_prefix(b",") {
                    rest = behind.trim_ascii_start();
                    continue;
                }
                let (opaque, is_weak_tag, behind) = one(rest).ok_or(NoTags)?;
                count += 1;
                if is_weak || !is_weak_tag {
                    versions.extend(version(opaque));
                }
                rest = behind.trim_ascii_start();
                if !rest.is_empty() && !rest.starts_with(b",") {
                    return Err(NoTags);
                }
            }
        }
        if count == 0 {
            return Err(NoTags);
        }
        Ok(Some(Self::These(versions)))
    }

    fn have(&self, version: Option<Version>) -> bool {
        match self {
            Self::Any => version.is_some(),
            Self::These(versions) => version.is_some_and(|version| versions.contains(&version)),
        }
    }
}

/// What is neither `*` nor a list of entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTags;

/// The tag that `text` begins with, without its quotes, whether it is weak, and what is behind it.
fn one(text: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let (rest, is_weak) = match text.strip_prefix(b"W/") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let rest = rest.strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some((&rest[..end], is_weak, &rest[end + 1..]))
}

/// The version that an entity tag of ours is.
fn version(opaque: &[u8]) -> Option<Version> {
    std::str::from_utf8(opaque).ok()?.parse().ok()
}

/// The version that has this entity tag.
pub fn version_of(tag: &[u8]) -> Option<Version> {
    version(tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// The entity tag of a version.
pub fn tag(version: Version) -> String {
    format!("\"{version}\"")
}

impl Condition {
    /// Whether nothing is asked.
    pub fn is_none(&self) -> bool {
        self.matches.is_none() && self.matches_none.is_none()
    }

    /// Whether it holds of a key with this cell, or none, at this time. Something deleted or expired is nothing.
    pub fn holds(&self, cell: Option<&Cell>, unix_ms: u64) -> bool {
        let live = cell.filter(|cell| cell.at(unix_ms).is_some());
        let version = live.map(|cell| cell.version);
        let is_one = self.matches.as_ref().is_none_or(|tags| tags.have(version));
        let none = self.matches_none.as_ref();
        is_one && none.is_none_or(|tags| !tags.have(version))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const ONE: Version = Version {
        time: 0x1a,
        node: 2,
        run: 3,
    };

    fn tags(line: &str, is_weak: bool) -> Option<Tags> {
        let read = Tags::read([line.as_bytes()].into_iter(), is_weak);
        read.expect("they are tags")
    }

    #[test]
    fn lists_are_read() {
        let one = Some(Tags::These(vec![ONE]));
        assert_eq!(tag(ONE), "\"1a-2-3\"");
        assert_eq!(version_of(tag(ONE).as_bytes()), Some(ONE));
        assert_eq!(tags("\"1a-2-3\"", false), one);
        assert_eq!(tags("\"x,y\" , \"1a-2-3\",, \"1-2\"", false), one);
        assert_eq!(tags("W/\"1a-2-3\"", true), one);
        assert_eq!(tags("W/\"1a-2-3\"", false), Some(Tags::These(vec![])));
        assert_eq!(tags(" * ", false), Some(Tags::Any));
        assert_eq!(Tags::read([].into_iter(), false), Ok(None));
        let lines = [&b"\"x\""[..], b"\"1a-2-3\""];
        assert_eq!(Tags::read(lines.into_iter(), false), Ok(one));
        for broken in [
            "1a-2-3",
            "\"1a-2-3",
            "",
            ",",
            "\"a\" \"b\"",
            "\"a\",*",
            "w/\"a\"",
        ] {
            let read = Tags::read([broken.as_bytes()].into_iter(), true);
            assert_eq!(read, Err(NoTags), "{broken}");
        }
    }

    #[test]
    fn conditions_are_of_what_is_there_now() {
        let live = Cell {
            version: ONE,
            expires_ms: Some(100),
            value: Some(Bytes::new()),
        };
        let gone = Cell {
            value: None,
            expires_ms: None,
            ..live.clone()
        };
        let condition = |matches: Option<&str>, matches_none: Option<&str>| Condition {
            matches: matches.and_then(|line| tags(line, false)),
            matches_none: matches_none.and_then(|line| tags(line, true)),
        };
        // If-Match, If-None-Match; then whether it holds of a value, and of none.
        for (matches, matches_none, of_value, of_none) in [
            (None, None, true, true),
            (Some("*"), None, true, false),
            (Some("\"1a-2-3\""), None, true, false),
            (Some("\"1b-2-3\""), None, false, false),
            (None, Some("*"), false, true),
            (None, Some("\"1a-2-3\""), false, true),
            (None, Some("\"1b-2-3\""), true, true),
            (Some("*"), Some("*"), false, false),
        ] {
            let condition = condition(matches, matches_none);
            let holds = |cell, at| condition.holds(cell, at);
            assert_eq!(holds(Some(&live), 99), of_value, "{condition:?}");
            for (cell, at) in [(None, 0), (Some(&live), 100), (Some(&gone), 0)] {
                assert_eq!(holds(cell, at), of_none, "{condition:?} {cell:?}");
            }
        }
    }
}
