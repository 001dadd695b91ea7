//! The rules of the RAM tier, one by one. `tests/it/store/hit_ratio.rs` measures how good its choices are.

use bytes::Bytes;

use super::*;
use crate::store::purge::{Sweep, Ticket};

fn store(bytes_max: u64) -> (MemoryStore, Arc<Purges>) {
    let purges = Arc::new(Purges::default());
    let config = MemoryConfig {
        seed: 7,
        ..MemoryConfig::with_budget(bytes_max)
    };
    (MemoryStore::new(config, Arc::clone(&purges)), purges)
}

fn object(variant: &str, ticket: Ticket, body: usize) -> Object {
    let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\n");
    Object::new(
        variant.as_bytes(),
        ticket,
        Bytes::new(),
        head,
        vec![Bytes::from(vec![b'x'; body])],
    )
}

fn is_stored(inserted: &Inserted) -> bool {
    matches!(inserted, Inserted::Stored(_))
}

fn variants(store: &MemoryStore, key: &[u8]) -> Vec<String> {
    let entry = store.get(key);
    let variants = entry.iter().flat_map(|entry| entry.variants());
    variants
        .map(|object| String::from_utf8_lossy(&object.variant).into_owned())
        .collect()
}

#[test]
fn variants_of_a_key_stand_beside_each_other_and_replace_their_like() {
    let (store, purges) = store(1 << 20);
    for variant in ["gzip", "br", "gzip"] {
        assert!(is_stored(
            &store.insert(b"k", Arc::new(object(variant, purges.ticket(), 10)))
        ));
    }
    assert_eq!(variants(&store, b"k"), ["gzip", "br"]);
    assert_eq!(store.stats().entries, 1);
    for index in 0..40 {
        store.insert(
            b"k",
            Arc::new(object(&index.to_string(), purges.ticket(), 10)),
        );
    }
    assert_eq!(variants(&store, b"k").len(), 16);
    assert_eq!(variants(&store, b"k")[0], "39");
}

#[test]
fn the_budget_is_never_exceeded_and_a_too_large_object_is_refused() {
    let (store, purges) = store(1 << 20);
    let too_large = store.insert(b"big", Arc::new(object("", purges.ticket(), 1 << 19)));
    assert!(matches!(too_large, Inserted::Refused(Refusal::TooLarge)));
    let mut random = fastrand::Rng::with_seed(1);
    let mut handed_back = 0;
    for _ in 0..20_000 {
        let (key, body) = (random.u64(..900).to_be_bytes(), random.usize(1..9000));
        let variant = random.u8(..3).to_string();
        if let Inserted::Stored(evicted) =
            store.insert(&key, Arc::new(object(&variant, purges.ticket(), body)))
        {
            handed_back += evicted.len() as u64;
        }
        assert!(store.stats().bytes <= 1 << 20);
    }
    let mut counted = 0;
    store.for_each(|entry| counted += entry.weight());
    assert_eq!(
        (counted, handed_back),
        (store.stats().bytes, store.stats().evicted)
    );
    assert!(counted > (1 << 20) / 2 && handed_back > 1000);
}

#[test]
fn purges_reach_what_they_name_and_only_that() {
    let (store, purges) = store(1 << 20);
    let insert = |key: &str, tags: &[&str]| {
        let tags = tags.iter().map(|tag| (*tag).into()).collect();
        store.insert(
            key.as_bytes(),
            Arc::new(object("", purges.ticket(), 10).with_tags(tags)),
        );
    };
    insert("a/1", &["red", "blue"]);
    insert("a/2", &["red"]);
    insert("b/1", &["blue"]);
    insert("b/2", &[]);
    let purge = |scope: PurgeScope, kind| {
        let ticket = purges.begin(&scope, kind);
        let covered = store.sweep(&scope, kind);
        purges.finish(ticket);
        covered
    };
    let is_stale = |key: &str| {
        store
            .get(key.as_bytes())
            .map(|entry| entry.variants()[0].is_marked_stale())
    };
    assert_eq!(purge(PurgeScope::Tag("blue".into()), PurgeKind::Soft), 2);
    assert_eq!(
        ["a/1", "a/2", "b/1", "b/2"].map(is_stale),
        [Some(true), Some(false), Some(true), Some(false)]
    );
    assert_eq!(purge(PurgeScope::Tag("red".into()), PurgeKind::Hard), 2);
    assert_eq!(
        ["a/1", "a/2", "b/1", "b/2"].map(is_stale),
        [None, None, Some(true), Some(false)]
    );
    assert_eq!(
        purge(PurgeScope::Prefix((*b"b/").into()), PurgeKind::Hard),
        2
    );
    assert!(lock(&store.writers).tags.is_empty());
    insert("c", &[]);
    assert_eq!(purge(PurgeScope::All, PurgeKind::Hard), 1);
    assert_eq!(store.stats().entries, 0);
}

#[test]
fn a_fill_that_began_before_a_purge_does_not_undo_it() {
    let (store, purges) = store(1 << 20);
    let before = purges.ticket();
    let scope = PurgeScope::Prefix((*b"a/").into());
    purges.finish(purges.begin(&scope, PurgeKind::Hard));
    let late = store.insert(b"a/1", Arc::new(object("", before, 10)));
    assert!(matches!(late, Inserted::Refused(Refusal::Purged)));
    assert!(is_stored(
        &store.insert(b"b/1", Arc::new(object("", before, 10)))
    ));
    assert!(is_stored(
        &store.insert(b"a/1", Arc::new(object("", purges.ticket(), 10)))
    ));
}

#[test]
fn tags_of_evicted_and_replaced_entries_are_forgotten() {
    let (store, purges) = store(1 << 16);
    for index in 0..2000_u32 {
        let tags = vec![(index % 50).to_string().into()];
        let object = object("", purges.ticket(), 500).with_tags(tags);
        store.insert(&(index % 300).to_be_bytes(), Arc::new(object));
    }
    let mut tagged = 0;
    store.for_each(|entry| {
        tagged += entry
            .variants()
            .iter()
            .map(|object| object.tags.len())
            .sum::<usize>();
    });
    let indexed: usize = (0..50)
        .map(|tag| lock(&store.writers).tags.keys(&tag.to_string()).len())
        .sum();
    assert_eq!(indexed, tagged);
}

/// Stores an object of a share. Returns whether it was accepted.
fn insert_shared(store: &MemoryStore, share: &Arc<Share>, key: &str, variant: &str) -> bool {
    let object = object(variant, store.purges.ticket(), 1000);
    object.belongs_to(share);
    is_stored(&store.insert(key.as_bytes(), Arc::new(object)))
}

#[test]
fn a_share_makes_room_for_itself_and_takes_none_of_others() {
    let (store, purges) = store(1 << 20);
    let share = Arc::new(Share::new(20_000, 16));
    for number in 0..50 {
        let others = object("", purges.ticket(), 1000);
        store.insert(format!("other/{number}").as_bytes(), Arc::new(others));
    }
    assert!(insert_shared(&store, &share, "hot", ""));
    for number in 0..100 {
        assert!(insert_shared(&store, &share, &format!("{number}"), ""));
        assert!(
            store
                .get(b"hot")
                .expect("it is used")
                .variant(b"")
                .is_some()
        );
        assert!(share.bytes() <= 20_000);
    }
    let (mut own, mut bytes, mut others) = (Vec::new(), 0, 0);
    store.for_each(|entry| {
        if entry.key.starts_with(b"other/") {
            others += 1;
        } else {
            bytes += entry.weight();
            own.push(String::from_utf8_lossy(&entry.key).into_owned());
        }
    });
    assert_eq!((others, bytes), (50, share.bytes()));
    // Used entries stay, and of the others the newest do.
    assert!(own.contains(&"hot".to_owned()) && own.contains(&"99".to_owned()));
    assert!(own.len() > 10 && !own.contains(&"50".to_owned()), "{own:?}");
    let ticket = purges.begin(&PurgeScope::All, PurgeKind::Hard);
    store.sweep(&PurgeScope::All, PurgeKind::Hard);
    purges.finish(ticket);
    assert_eq!(share.bytes(), 0);
    let too_large = object("", purges.ticket(), 20_000);
    too_large.belongs_to(&share);
    let refused = store.insert(b"large", Arc::new(too_large));
    assert!(matches!(refused, Inserted::Refused(Refusal::TooLarge)));
}

#[test]
fn the_oldest_variant_makes_room_for_the_newest() {
    let (store, _) = store(1 << 20);
    let share = Arc::new(Share::new(u64::MAX, 3));
    for variant in ["a", "b", "c", "b", "d"] {
        assert!(insert_shared(&store, &share, "k", variant));
    }
    let entry = store.get(b"k").expect("it is stored");
    let variants: Vec<_> = entry.variants().iter().map(|one| &*one.variant).collect();
    assert_eq!(variants, [b"d", b"b", b"c"]);
}

#[test]
fn a_purge_that_takes_many_steps_meets_every_key() {
    let (store, purges) = store(4 << 20);
    let keys = 7 * PURGE_KEYS as u32 + 1;
    for number in 0..keys {
        let object = object("", purges.ticket(), 1);
        store.insert(&number.to_be_bytes(), Arc::new(object));
    }
    let ticket = purges.begin(&PurgeScope::All, PurgeKind::Hard);
    let covered = store.sweep(&PurgeScope::All, PurgeKind::Hard);
    purges.finish(ticket);
    assert_eq!((covered, store.stats().entries), (u64::from(keys), 0));
    let (entries, last) = store.step(&PurgeScope::All, None, 10);
    assert!(entries.is_empty() && last.is_none());
}

#[test]
fn an_object_from_before_a_purge_does_not_replace_one_from_after() {
    let (store, purges) = store(64 << 10);
    let before = purges.ticket();
    drop(Sweep::begin(
        &purges,
        &PurgeScope::Key(b"k".as_slice().into()),
        PurgeKind::Soft,
    ));
    let new = Arc::new(object("", purges.ticket(), 10));
    assert!(is_stored(&store.insert(b"k", Arc::clone(&new))));
    let old = Arc::new(object("", before, 10));
    assert!(matches!(
        store.insert(b"k", Arc::clone(&old)),
        Inserted::Refused(Refusal::Superseded)
    ));
    assert!(store.holds(b"k", &new));
    // If there is nothing newer, it is better than nothing.
    assert!(is_stored(&store.insert(b"other", Arc::clone(&old))));
    assert!(is_stored(&store.insert(b"other", new)));
}

/// An evicted object that a client has not fully read counts as held. While too much is held, nothing is stored.
#[test]
fn nothing_is_stored_while_clients_hold_too_much() {
    let purges = Arc::new(Purges::default());
    let transient = Transient::new(1000);
    let config = MemoryConfig::with_budget(1 << 20);
    let store = MemoryStore::beside(Arc::clone(&transient), config, Arc::clone(&purges));
    let held = Arc::new(object("", purges.ticket(), 1001));
    assert!(is_stored(&store.insert(b"held", Arc::clone(&held))));
    let pin = held.pin(&transient);
    assert_eq!(transient.bytes(), 0, "it is stored");
    let renewed = held.renewed(purges.ticket(), Bytes::new(), Bytes::new());
    let renewed = Arc::new(renewed);
    assert!(is_stored(&store.insert(b"held", Arc::clone(&renewed))));
    assert_eq!(transient.bytes(), 0, "its body still is");
    store.remove_object(b"held", &renewed);
    assert_eq!(transient.bytes(), 1001);
    let other = || Arc::new(object("", purges.ticket(), 1));
    let refused = store.insert(b"other", other());
    assert!(matches!(refused, Inserted::Refused(Refusal::Crowded)));
    // A renewed head adds no bytes.
    assert!(is_stored(&store.insert_renewed(b"held", renewed, &[])));
    assert_eq!(transient.bytes(), 0);
    assert!(is_stored(&store.insert(b"other", other())));
    store.remove(b"held");
    assert_eq!(transient.bytes(), 1001);
    drop(pin);
    assert_eq!(transient.bytes(), 0);
}
