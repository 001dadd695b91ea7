//! What writers of the RAM tier keep beside the entries, under one lock: sorted keys and tags for purges and lists,
//! shares, and admission. Hits do not use it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::admission::Admission;
use crate::store::object::Entry;
use crate::store::purge::PurgeScope;
use crate::store::tags::TagIndex;
use crate::store::walk::{Key, step_of_set};

#[derive(Debug)]
pub(super) struct Writers {
    pub(super) admission: Admission,
    pub(super) tags: TagIndex,
    keys: BTreeSet<Key>,
    next_serial: u64,
}

impl Writers {
    pub(super) fn new(admission: Admission) -> Self {
        Self {
            admission,
            tags: TagIndex::default(),
            keys: BTreeSet::new(),
            next_serial: 0,
        }
    }

    /// A number for an entry, higher than those of all earlier ones.
    pub(super) fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// An entry is stored.
    pub(super) fn enter(&mut self, entry: &Entry) {
        self.tags.add(&entry.key, entry.tags());
        self.keys.insert(Arc::clone(&entry.key));
        if let Some(share) = entry.share() {
            share.enter(entry);
        }
    }

    /// A stored entry is no longer stored.
    pub(super) fn leave(&mut self, entry: &Entry) {
        self.tags.remove(&entry.key, entry.tags());
        self.keys.remove(&entry.key);
        if let Some(share) = entry.share() {
            share.leave(entry);
        }
    }

    /// The keys among the next `keys_max` of which `scope` covers something, and the key after which to go on.
    pub(super) fn step(
        &self,
        scope: &PurgeScope,
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> (Vec<Key>, Option<Key>) {
        let keys = match scope {
            PurgeScope::Tag(tag) => self.tags.keys(tag),
            _ => &self.keys,
        };
        step_of_set(keys, scope, after, keys_max)
    }
}
