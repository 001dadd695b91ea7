//! The tags by which stored responses are purged: `Cache-Tag`, separated by commas, and `Surrogate-Key`, separated by
//! blanks. Tags are compared byte by byte.

use weir_http::{FieldName, Fields};

/// Longer tags are ignored, so that an index of tags is bounded.
pub const TAG_BYTES_MAX: usize = 256;

/// A response has at most this many tags; later ones are ignored.
pub const TAGS_MAX: usize = 256;

/// The tags of a response, in order; one may come twice.
pub fn of(response: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let by_comma = response
        .all(FieldName::CacheTag)
        .flat_map(|line| line.split(|&b| b == b','));
    let by_blank = response
        .all(FieldName::SurrogateKey)
        .flat_map(|line| line.split(|&b| matches!(b, b' ' | b'\t')));
    by_comma
        .chain(by_blank)
        .map(<[u8]>::trim_ascii)
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
        .take(TAGS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_heads::ok;

    #[test]
    fn tags_come_in_two_spellings() {
        let head = ok(&[
            "Cache-Tag: a, b c ,,d",
            "Surrogate-Key: e  f,g\th",
            "cache-tag: i",
        ]);
        let tags: Vec<_> = of(head.fields()).collect();
        assert_eq!(tags, [&b"a"[..], b"b c", b"d", b"i", b"e", b"f,g", b"h"]);
    }

    #[test]
    fn tags_are_bounded() {
        let long = format!("Cache-Tag: {},short", "x".repeat(TAG_BYTES_MAX + 1));
        assert_eq!(of(ok(&[&long]).fields()).count(), 1);
        let many = format!("Surrogate-Key: {}", "t ".repeat(TAGS_MAX + 5));
        assert_eq!(of(ok(&[&many]).fields()).count(), TAGS_MAX);
    }
}
