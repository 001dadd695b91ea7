//! The `Idempotency-Key`s of a while: who sends a request twice gets the first answer, and the request is kept once
//! (draft-ietf-httpapi-idempotency-key-header-07).

use std::collections::{HashMap, VecDeque};

/// Keys that are known at once; the oldest are forgotten first.
const IDS_MAX: usize = 200_000;

/// The keys that are known.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    by_id: HashMap<Box<[u8]>, Kept>,
    /// In the order of their times.
    order: VecDeque<(u64, Box<[u8]>)>,
}

/// What was kept under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The offset of its first message.
    pub(crate) first: u64,
    /// How many messages it has.
    pub(crate) count: u32,
    /// A hash of what was sent.
    pub(crate) content: u64,
    pub(crate) time_ms: u64,
}

/// What is known of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Never,
    /// It was kept before.
    Before(Kept),
    /// Another one was kept under its key.
    Another,
}

impl Ids {
    /// Whether a request with this key was kept since `since_ms`.
    pub(crate) fn look(&self, id: &[u8], content: u64, since_ms: u64) -> Seen {
        match self.by_id.get(id) {
            Some(kept) if kept.time_ms < since_ms => Seen::Never,
            Some(kept) if kept.content == content => Seen::Before(*kept),
            Some(_) => Seen::Another,
            None => Seen::Never,
        }
    }

    /// A request was kept, and what was kept before `since_ms` is forgotten.
    pub(crate) fn insert(&mut self, id: &[u8], kept: Kept, since_ms: u64) {
        self.by_id.insert(id.into(), kept);
        self.order.push_back((kept.time_ms, id.into()));
        while let Some((time_ms, _)) = self.order.front()
            && (*time_ms < since_ms || self.order.len() > IDS_MAX)
            && let Some((time_ms, id)) = self.order.pop_front()
        {
            // It may have been kept again since.
            if self
                .by_id
                .get(&id)
                .is_some_and(|kept| kept.time_ms == time_ms)
            {
                self.by_id.remove(&id);
            }
        }
    }

    /// It was not kept after all.
    pub(crate) fn remove(&mut self, id: &[u8], first: u64) {
        if self.by_id.get(id).is_some_and(|kept| kept.first == first) {
            self.by_id.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(first: u64, time_ms: u64) -> Kept {
        Kept {
            first,
            count: 1,
            content: 7,
            time_ms,
        }
    }

    #[test]
    fn a_key_is_known_for_a_while() {
        let mut ids = Ids::default();
        ids.insert(b"a", kept(0, 100), 0);
        assert_eq!(ids.look(b"a", 7, 50), Seen::Before(kept(0, 100)));
        assert_eq!(ids.look(b"a", 8, 50), Seen::Another);
        assert_eq!(ids.look(b"b", 7, 50), Seen::Never);
        assert_eq!(ids.look(b"a", 7, 101), Seen::Never);
        ids.insert(b"a", kept(5, 300), 250);
        assert_eq!(ids.look(b"a", 7, 250), Seen::Before(kept(5, 300)));
        ids.remove(b"a", 4);
        assert_eq!(ids.look(b"a", 7, 250), Seen::Before(kept(5, 300)));
        ids.remove(b"a", 5);
        assert_eq!(ids.look(b"a", 7, 250), Seen::Never);
    }

    #[test]
    fn there_is_a_bound() {
        let mut ids = Ids::default();
        for number in 0..2 * IDS_MAX as u64 {
            ids.insert(&number.to_le_bytes(), kept(number, number / 1000), 0);
        }
        assert_eq!((ids.by_id.len(), ids.order.len()), (IDS_MAX, IDS_MAX));
        assert_eq!(ids.look(&0u64.to_le_bytes(), 7, 0), Seen::Never);
    }
}
