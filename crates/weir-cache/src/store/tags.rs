//! Which primary keys carry a tag. Each tier keeps one for itself, changed by its writers; hits do not know it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::walk::Key;

#[derive(Debug, Default)]
pub(crate) struct TagIndex {
    keys_by_tag: HashMap<Box<str>, BTreeSet<Key>>,
}

impl TagIndex {
    pub(crate) fn add<'t>(&mut self, key: &Key, tags: impl Iterator<Item = &'t Box<str>>) {
        for tag in tags {
            if let Some(keys) = self.keys_by_tag.get_mut(tag) {
                keys.insert(Arc::clone(key));
            } else {
                self.keys_by_tag
                    .insert(tag.clone(), BTreeSet::from([Arc::clone(key)]));
            }
        }
    }

    /// Forgets that `key` carries these tags. What other variants of it carry is added again by the caller.
    pub(crate) fn remove<'t>(&mut self, key: &[u8], tags: impl Iterator<Item = &'t Box<str>>) {
        for tag in tags {
            let Some(keys) = self.keys_by_tag.get_mut(tag) else {
                continue;
            };
            keys.remove(key);
            if keys.is_empty() {
                self.keys_by_tag.remove(tag);
            }
        }
    }

    /// The keys of which a variant carries this tag.
    pub(crate) fn keys(&self, tag: &str) -> &BTreeSet<Key> {
        static NONE: BTreeSet<Key> = BTreeSet::new();
        self.keys_by_tag.get(tag).unwrap_or(&NONE)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys_by_tag.is_empty()
    }
}
