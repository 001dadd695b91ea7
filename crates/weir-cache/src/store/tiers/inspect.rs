//! Lists what both tiers hold, a few keys at a time: for tools. It counts as no use, and reads no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tiers;
use crate::store::disk::Stored;
use crate::store::object::Entry;
use crate::store::purge::PurgeScope;
use crate::store::walk::Key;

/// What is stored under one primary key.
#[derive(Debug, Default)]
pub struct Held {
    /// What RAM has.
    pub in_memory: Option<Arc<Entry>>,
    /// What the disk has.
    pub on_disk: Vec<Stored>,
}

impl Tiers {
    /// What is stored under the next keys after `after` that `scope` covers; each tier looks at `keys_max`. Also
    /// returns the key after which to go on, if there are more.
    pub fn step(
        &self,
        scope: &PurgeScope,
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> (BTreeMap<Key, Held>, Option<Key>) {
        let (entries, last_in_memory) = self.memory.step(scope, after, keys_max);
        let (objects, last_on_disk) = match &self.disk {
            Some(disk) => disk.step(scope, after, keys_max),
            None => (Vec::new(), None),
        };
        let mut held = BTreeMap::<Key, Held>::new();
        for entry in entries {
            let key = Arc::clone(&entry.key);
            held.entry(key).or_default().in_memory = Some(entry);
        }
        for (key, stored) in objects {
            held.entry(key).or_default().on_disk.push(stored);
        }
        // After the key that one tier has reached, the other may have more than it has returned.
        let last = [last_in_memory, last_on_disk].into_iter().flatten().min();
        if let Some(last) = &last {
            held.retain(|key, _| key <= last);
        }
        (held, last)
    }
}
