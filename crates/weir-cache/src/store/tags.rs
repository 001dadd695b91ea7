//! Which primary keys have a tag. Each tier has its own index, which its writers change; hits do not use it.

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

    /// Forgets that `key` has these tags. The caller adds those of other variants again.
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

    /// The keys with a variant that has this tag.
    pub(crate) fn keys(&self, tag: &str) -> &BTreeSet<Key> {
        static NONE: BTreeSet<Key> = BTreeSet::new();
        self.keys_by_tag.get(tag).unwrap_or(&NONE)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys_by_tag.is_empty()
    }
}
