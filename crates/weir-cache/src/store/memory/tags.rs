//! Which entries carry a tag. Held by the writers of the store; hits do not know it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::store::object::Entry;

#[derive(Debug, Default)]
pub(super) struct TagIndex {
    keys_by_tag: HashMap<Box<str>, HashSet<Arc<[u8]>>>,
}

impl TagIndex {
    pub(super) fn add(&mut self, entry: &Entry) {
        for tag in entry.variants().iter().flat_map(|object| &object.tags) {
            if let Some(keys) = self.keys_by_tag.get_mut(tag) {
                keys.insert(Arc::clone(&entry.key));
            } else {
                self.keys_by_tag
                    .insert(tag.clone(), HashSet::from([Arc::clone(&entry.key)]));
            }
        }
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        for tag in entry.variants().iter().flat_map(|object| &object.tags) {
            let Some(keys) = self.keys_by_tag.get_mut(tag) else {
                continue;
            };
            keys.remove(&entry.key);
            if keys.is_empty() {
                self.keys_by_tag.remove(tag);
            }
        }
    }

    /// The keys of the entries with a variant that carries this tag.
    pub(super) fn keys(&self, tag: &str) -> Vec<Arc<[u8]>> {
        self.keys_by_tag
            .get(tag)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys_by_tag.is_empty()
    }
}
