//! The contents of the disk, in RAM: which variants a primary key has, and in which order they are evicted.
//!
//! Pure: it knows no files. Entries leave in the order in which they came, except that an entry used since then gets
//! another round (FIFO with reinsertion, the main queue of S3-FIFO). No call takes long, since lookups wait for it.
//! Keys are sorted, so that a purge by prefix touches only what it covers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::store::purge::PurgeScope;
use crate::store::tags::TagIndex;
use crate::store::walk::{self, Key};

/// How many objects may get another round in one search for an object to evict.
const SPARED_MAX: usize = 64;
/// How many places of the queue are checked when something is added while most places are empty.
const TIDIED: usize = 4;

/// What is known in RAM of an object on disk.
#[derive(Debug, Clone)]
pub struct Stored {
    /// What distinguishes it from other responses with the same key.
    pub variant: Arc<[u8]>,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Whether a soft purge asked for its validation.
    pub is_stale: bool,
    /// Times it was opened since it was written or indexed, up to 255.
    pub uses: u8,
    /// The tags by which it can be purged.
    pub tags: Arc<[Box<str>]>,
    /// Distinguishes it from earlier and later objects with the same key and variant.
    pub identity: u64,
    /// How often its head was renewed since it was written or indexed.
    pub renewals: u32,
    pub(super) cost: u64,
    was_used: bool,
}

impl Stored {
    pub(super) fn new(
        variant: &[u8],
        body_bytes: u64,
        tags: &[Box<str>],
        identity: u64,
        cost: u64,
    ) -> Self {
        let (variant, tags) = (variant.into(), tags.into());
        Self {
            variant,
            body_bytes,
            is_stale: false,
            uses: 0,
            tags,
            identity,
            renewals: 0,
            cost,
            was_used: false,
        }
    }
}

/// An object and its primary key.
pub(super) type Named = (Key, Stored);

#[derive(Debug, Default)]
pub(super) struct Index {
    objects: BTreeMap<Key, Vec<Stored>>,
    /// Keys and identities in the order of arrival. Removed objects are skipped when their turn comes.
    queue: VecDeque<(Key, u64)>,
    tags: TagIndex,
    count: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn find(&self, key: &[u8]) -> &[Stored] {
        self.objects.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn variant(&self, key: &[u8], variant: &[u8]) -> Option<&Stored> {
        self.find(key)
            .iter()
            .find(|stored| *stored.variant == *variant)
    }

    /// The variant, to be changed in place; its tags and its identity stay.
    pub(super) fn variant_mut(&mut self, key: &[u8], variant: &[u8]) -> Option<&mut Stored> {
        self.objects
            .get_mut(key)?
            .iter_mut()
            .find(|stored| *stored.variant == *variant)
    }

    /// Notes a use, and returns the object.
    pub(super) fn touch(&mut self, key: &[u8], variant: &[u8]) -> Option<Stored> {
        let stored = self.variant_mut(key, variant)?;
        stored.uses = stored.uses.saturating_add(1);
        stored.was_used = true;
        Some(stored.clone())
    }

    /// Adds an object as the first of its key. Returns the one with the same variant that it replaces.
    pub(super) fn insert(&mut self, key: &[u8], stored: Stored) -> Option<Stored> {
        let replaced = self.remove(key, &stored.variant, None);
        let key = self
            .objects
            .get_key_value(key)
            .map_or_else(|| key.into(), |(key, _)| Arc::clone(key));
        self.queue.push_back((Arc::clone(&key), stored.identity));
        self.tags.add(&key, stored.tags.iter());
        self.count += 1;
        // Most keys have one variant, but a growing vector would begin with room for four.
        let variants = self
            .objects
            .entry(key)
            .or_insert_with(|| Vec::with_capacity(1));
        variants.insert(0, stored);
        self.tidy();
        replaced
    }

    /// Drops some removed objects from a queue that is mostly empty places. Objects in between go to the end.
    fn tidy(&mut self) {
        for _ in 0..TIDIED {
            if self.queue.len() <= 2 * self.count + 64 {
                return;
            }
            let Some((key, identity)) = self.queue.pop_front() else {
                return;
            };
            if self.find(&key).iter().any(|one| one.identity == identity) {
                self.queue.push_back((key, identity));
            }
        }
    }

    /// Removes a variant. If `identity` is given, only if it is still that object.
    pub(super) fn remove(
        &mut self,
        key: &[u8],
        variant: &[u8],
        identity: Option<u64>,
    ) -> Option<Stored> {
        let (key, variants) = self.objects.get_key_value(key)?;
        let position = variants.iter().position(|stored| {
            *stored.variant == *variant
                && identity.is_none_or(|identity| stored.identity == identity)
        })?;
        let key = Arc::clone(key);
        let variants = self.objects.get_mut(&key)?;
        let removed = variants.remove(position);
        self.tags.remove(&key, removed.tags.iter());
        self.tags
            .add(&key, variants.iter().flat_map(|stored| stored.tags.iter()));
        if variants.is_empty() {
            self.objects.remove(&key);
        }
        self.count -= 1;
        Some(removed)
    }

    /// Removes the oldest variant of a key that has more than `variants_max`.
    pub(super) fn remove_oldest(&mut self, key: &[u8], variants_max: usize) -> Option<Stored> {
        let variants = self.find(key);
        let oldest = variants.last().filter(|_| variants.len() > variants_max)?;
        let (variant, identity) = (Arc::clone(&oldest.variant), oldest.identity);
        self.remove(key, &variant, Some(identity))
    }

    /// Removes the object that must make room next.
    pub(super) fn evict(&mut self) -> Option<(Key, Stored)> {
        let mut spared = 0;
        while let Some((key, identity)) = self.queue.pop_front() {
            let variants = self
                .objects
                .get_mut(&key)
                .map(Vec::as_mut_slice)
                .unwrap_or_default();
            let Some(stored) = variants
                .iter_mut()
                .find(|stored| stored.identity == identity)
            else {
                continue;
            };
            if spared < SPARED_MAX && std::mem::take(&mut stored.was_used) {
                spared += 1;
                self.queue.push_back((key, identity));
                continue;
            }
            let variant = Arc::clone(&stored.variant);
            let removed = self.remove(&key, &variant, Some(identity))?;
            return Some((key, removed));
        }
        None
    }

    /// Some of the objects that a purge covers: those of the next `keys_max` keys after `after`. Also returns the last
    /// key that was looked at; `None` when there are no more.
    pub(super) fn covered(
        &self,
        scope: &PurgeScope,
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> (Vec<Named>, Option<Key>) {
        let (keys, last) = if let PurgeScope::Tag(tag) = scope {
            walk::step_of_set(self.tags.keys(tag), scope, after, keys_max)
        } else {
            let range = self.objects.range::<[u8], _>(walk::bounds(scope, after));
            walk::step(range.map(|(key, _)| key), scope, keys_max)
        };
        let covered = keys.iter().flat_map(|key| self.covered_of(key, scope));
        (covered.collect(), last)
    }

    fn covered_of<'i>(
        &'i self,
        key: &Key,
        scope: &'i PurgeScope,
    ) -> impl Iterator<Item = Named> + 'i {
        let (key, name) = (Arc::clone(key), Arc::clone(key));
        let variants = self.find(&key).iter();
        let covered = variants.filter(move |stored| scope.covers(&key, &stored.tags));
        covered.map(move |stored| (Arc::clone(&name), stored.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(variant: &str, tags: &[&str], identity: u64) -> Stored {
        let tags: Vec<Box<str>> = tags.iter().map(|tag| (*tag).into()).collect();
        Stored::new(variant.as_bytes(), 1, &tags, identity, 1)
    }

    fn identities(index: &Index, scope: &PurgeScope) -> Vec<u64> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (covered, last) = index.covered(scope, after.as_deref(), 2);
            found.extend(covered.iter().map(|(_, stored)| stored.identity));
            after = last;
            if after.is_none() {
                found.sort_unstable();
                return found;
            }
        }
    }

    #[test]
    fn used_objects_get_another_round() {
        let mut index = Index::default();
        for identity in 0..4 {
            assert!(
                index
                    .insert(&[identity as u8], stored("", &[], identity))
                    .is_none()
            );
        }
        index.touch(&[0], b"").unwrap();
        let order: Vec<u64> = std::iter::from_fn(|| index.evict())
            .map(|(_, stored)| stored.identity)
            .collect();
        assert_eq!((order, index.len()), (vec![1, 2, 3, 0], 0));
    }

    #[test]
    fn no_more_than_some_are_spared_at_once() {
        let mut index = Index::default();
        for identity in 0..1000_u64 {
            index.insert(&identity.to_be_bytes(), stored("", &[], identity));
            index.touch(&identity.to_be_bytes(), b"").unwrap();
        }
        let (_, evicted) = index.evict().unwrap();
        assert_eq!(evicted.identity, SPARED_MAX as u64);
    }

    #[test]
    fn removed_objects_leave_the_queue_step_by_step() {
        let mut index = Index::default();
        for identity in 0..1000_u64 {
            index.insert(&identity.to_be_bytes(), stored("", &[], identity));
        }
        for identity in 0..1000_u64 {
            index.remove(&identity.to_be_bytes(), b"", None).unwrap();
        }
        index.insert(b"k", stored("", &[], 1000));
        assert_eq!(index.queue.len(), 1001 - TIDIED);
        for identity in 1001..2000 {
            index.insert(b"k", stored("", &[], identity));
        }
        assert!(index.queue.len() <= 2 + 64);
        assert_eq!(index.evict().unwrap().1.identity, 1999);
    }

    #[test]
    fn a_variant_is_replaced_by_its_like_and_the_queue_stays_short() {
        let mut index = Index::default();
        index.insert(b"k", stored("br", &["b"], 1));
        for identity in 2..1000 {
            index.insert(b"k", stored("gzip", &["g"], identity));
        }
        assert_eq!(index.len(), 2);
        assert!(index.queue.len() <= 2 * 2 + 65);
        assert!(index.remove(b"k", b"gzip", Some(5)).is_none());
        assert_eq!(
            index.remove(b"k", b"gzip", Some(999)).unwrap().identity,
            999
        );
        assert_eq!(identities(&index, &PurgeScope::Tag("b".into())), [1]);
        assert!(index.remove(b"k", b"br", None).is_some() && index.tags.is_empty());
    }

    #[test]
    fn a_purge_finds_what_it_covers_in_pieces() {
        let mut index = Index::default();
        for (identity, key) in ["a", "a/1", "a/2", "a/3", "a/4", "b"].iter().enumerate() {
            index.insert(
                key.as_bytes(),
                stored(
                    "",
                    &[if identity % 2 == 0 { "even" } else { "odd" }],
                    identity as u64,
                ),
            );
        }
        index.insert(b"a/2", stored("gzip", &[], 10));
        let prefix = |prefix: &str| PurgeScope::Prefix(prefix.as_bytes().into());
        assert_eq!(identities(&index, &prefix("a/")), [1, 2, 3, 4, 10]);
        assert_eq!(identities(&index, &prefix("")), [0, 1, 2, 3, 4, 5, 10]);
        assert_eq!(identities(&index, &PurgeScope::Key((*b"a").into())), [0]);
        assert_eq!(
            identities(&index, &PurgeScope::Tag("even".into())),
            [0, 2, 4]
        );
        assert_eq!(identities(&index, &PurgeScope::All), [0, 1, 2, 3, 4, 5, 10]);
    }
}
