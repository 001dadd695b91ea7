//! Walks through sorted keys in steps, so that the lock on them is held only for a moment.
//!
//! Between two steps keys may come and go. A walk meets every key that exists from its beginning to its end.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::purge::PurgeScope;

/// A primary key, as the stores share it.
pub type Key = Arc<[u8]>;

/// Where a walk over what `scope` covers begins, or goes on after `after`.
pub(super) fn bounds<'b>(
    scope: &'b PurgeScope,
    after: Option<&'b [u8]>,
) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
    let first = scope.first();
    let from = match after {
        Some(after) if after >= first => Bound::Excluded(after),
        _ => Bound::Included(first),
    };
    (from, Bound::Unbounded)
}

/// The keys among the next `keys_max` that `scope` names. Also returns the last key that was looked at; `None` when
/// there are no more.
pub(super) fn step<'k>(
    keys: impl Iterator<Item = &'k Key>,
    scope: &PurgeScope,
    keys_max: usize,
) -> (Vec<Key>, Option<Key>) {
    let (mut named, mut last, mut looked_at) = (Vec::new(), None, 0);
    for key in keys.take(keys_max) {
        if scope.names(key) {
            named.push(Arc::clone(key));
        } else if scope.is_range() {
            return (named, None);
        }
        (last, looked_at) = (Some(key), looked_at + 1);
    }
    (named, last.filter(|_| looked_at == keys_max).cloned())
}

/// One step through a set of keys.
pub(super) fn step_of_set(
    keys: &BTreeSet<Key>,
    scope: &PurgeScope,
    after: Option<&[u8]>,
    keys_max: usize,
) -> (Vec<Key>, Option<Key>) {
    let range = keys.range::<[u8], _>(bounds(scope, after));
    step(range, scope, keys_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(scope: &PurgeScope, keys_max: usize) -> Vec<String> {
        let keys = [
            "http://a/",
            "http://a/x",
            "http://a/x\nheader h:1",
            "http://a/x\nheader h:2",
            "http://a/x/y",
            "http://a/xy?q=/z",
            "http://b/x",
        ];
        let keys: BTreeSet<Key> = keys.iter().map(|key| key.as_bytes().into()).collect();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (named, last) = step_of_set(&keys, scope, after.as_deref(), keys_max);
            assert!(named.len() <= keys_max);
            found.extend(named);
            after = last;
            if after.is_none() {
                let text = |key: &Key| String::from_utf8_lossy(key).replace("http://", "");
                return found.iter().map(text).collect();
            }
        }
    }

    #[test]
    fn a_walk_in_steps_of_any_length_meets_what_it_covers() {
        for keys_max in 1..9 {
            let walk = |scope: PurgeScope| walk(&scope, keys_max);
            let bytes = |text: &str| Box::<[u8]>::from(text.as_bytes());
            assert_eq!(walk(PurgeScope::All).len(), 7);
            assert_eq!(walk(PurgeScope::Key(bytes("http://a/x"))), ["a/x"]);
            assert_eq!(
                walk(PurgeScope::FirstLine(bytes("http://a/x"))),
                ["a/x", "a/x\nheader h:1", "a/x\nheader h:2"]
            );
            assert_eq!(walk(PurgeScope::Prefix(bytes("http://a/x/"))), ["a/x/y"]);
            assert_eq!(
                walk(PurgeScope::Path(bytes("/xy"))),
                ["a/xy?q=/z"],
                "a path on any host"
            );
            assert_eq!(walk(PurgeScope::Path(bytes("/x"))).len(), 6);
            assert!(walk(PurgeScope::Key(bytes("http://a"))).is_empty());
        }
    }

    #[test]
    fn a_cursor_before_the_beginning_changes_nothing() {
        let keys: BTreeSet<Key> = [b"a", b"b"].map(|key| key.as_slice().into()).into();
        let scope = PurgeScope::Prefix((*b"b").into());
        let (named, _) = step_of_set(&keys, &scope, Some(b"a"), 9);
        assert_eq!(named.len(), 1);
        let (named, last) = step_of_set(&keys, &scope, Some(b"b"), 9);
        assert!(named.is_empty() && last.is_none());
    }
}
