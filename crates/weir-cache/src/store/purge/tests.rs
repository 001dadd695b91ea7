//! What a purge covers, and what the log says about tickets from before and after it.

use super::log::{DURING_SWEEP_MAX, REMEMBERED_MAX};
use super::*;

fn tag(tag: &str) -> PurgeScope {
    PurgeScope::Tag(tag.into())
}

#[test]
fn a_purge_covers_what_it_names() {
    let tags: [Box<str>; 1] = ["news".into()];
    let covers = |scope: PurgeScope| scope.covers(b"example.com/a/b", &tags);
    assert!(covers(PurgeScope::All));
    assert!(covers(PurgeScope::Prefix((*b"example.com/a/").into())));
    assert!(!covers(PurgeScope::Prefix((*b"example.com/b").into())));
    assert!(covers(PurgeScope::Key((*b"example.com/a/b").into())));
    assert!(!covers(PurgeScope::Key((*b"example.com/a").into())));
    let path = |path: &str| PurgeScope::Path(path.as_bytes().into());
    let on_any_host = path("/a/").covers(b"http://example.com/a/b?c\nheader d:e", &[]);
    assert!(on_any_host && path("/a/b?c").covers(b"http:///a/b?c", &[]));
    assert!(!path("/b").covers(b"http://a/a/b?c=/b", &[]));
    assert!(covers(tag("news")));
    assert!(!covers(tag("new")));
}

#[test]
fn a_fill_from_before_a_purge_is_met_by_it_and_one_from_after_is_not() {
    let purges = Purges::default();
    let tags: [Box<str>; 1] = ["news".into()];
    let before = purges.ticket();
    purges.finish(purges.begin(&tag("news"), PurgeKind::Soft));
    let between = purges.ticket();
    assert_eq!(purges.verdict(before, b"k", &tags), Verdict::MarkStale);
    assert_eq!(purges.verdict(before, b"k", &[]), Verdict::Keep);
    purges.finish(purges.begin(&PurgeScope::Key((*b"k").into()), PurgeKind::Hard));
    assert_eq!(purges.verdict(before, b"k", &tags), Verdict::Drop);
    assert_eq!(purges.verdict(between, b"other", &tags), Verdict::Keep);
    assert_eq!(purges.verdict(purges.ticket(), b"k", &tags), Verdict::Keep);
}

#[test]
fn a_purge_covers_objects_that_left_a_store_during_its_sweep() {
    let purges = Purges::default();
    let purge = purges.begin(&PurgeScope::All, PurgeKind::Hard);
    let during = purges.settled();
    purges.finish(purge);
    assert_eq!(purges.verdict(during, b"k", &[]), Verdict::Drop);
    assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
}

#[test]
fn the_oldest_sweep_decides_what_is_settled() {
    let purges = Purges::default();
    let first = purges.begin(&PurgeScope::Key((*b"a").into()), PurgeKind::Hard);
    let second = purges.begin(&PurgeScope::Key((*b"b").into()), PurgeKind::Hard);
    purges.finish(second);
    let during = purges.settled();
    purges.finish(first);
    assert_eq!(purges.verdict(during, b"a", &[]), Verdict::Drop);
    assert_eq!(purges.settled(), second);
}

#[test]
fn a_scope_that_is_purged_again_takes_no_room_and_is_not_lost() {
    let purges = Purges::default();
    let old = purges.ticket();
    purges.finish(purges.begin(&tag("once"), PurgeKind::Hard));
    for _ in 0..=REMEMBERED_MAX {
        purges.finish(purges.begin(&tag("x"), PurgeKind::Soft));
    }
    assert_eq!(purges.verdict(old, b"k", &[]), Verdict::Keep);
    assert_eq!(purges.verdict(old, b"k", &["x".into()]), Verdict::MarkStale);
    assert_eq!(purges.verdict(old, b"k", &["once".into()]), Verdict::Drop);
    purges.finish(purges.begin(&tag("once"), PurgeKind::Soft));
    assert_eq!(purges.verdict(old, b"k", &["once".into()]), Verdict::Drop);
}

#[test]
fn purges_during_a_sweep_are_remembered_up_to_a_bound() {
    let purges = Purges::default();
    let slow = purges.begin(&tag("slow"), PurgeKind::Hard);
    let purge = |number: usize| {
        purges.finish(purges.begin(&tag(&number.to_string()), PurgeKind::Soft));
    };
    (0..2 * REMEMBERED_MAX).for_each(purge);
    assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
    (0..=DURING_SWEEP_MAX).for_each(purge);
    assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Drop);
    purges.finish(slow);
    assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
}

#[test]
fn a_ticket_older_than_the_log_counts_as_purged() {
    let purges = Purges::default();
    let old = purges.ticket();
    for number in 0..=REMEMBERED_MAX {
        purges.finish(purges.begin(&tag(&number.to_string()), PurgeKind::Soft));
    }
    assert_eq!(purges.verdict(old, b"k", &[]), Verdict::Drop);
}

#[test]
fn a_purge_settles_in_ram_before_it_settles_on_disk() {
    let purges = Purges::default();
    let purge = purges.begin(&tag("a"), PurgeKind::Hard);
    purges.swept_memory(purge);
    let met = |ticket| purges.verdict(ticket, b"k", &["a".into()]) == Verdict::Drop;
    assert!(!met(purges.settled()) && met(purges.settled_on_disk()));
    purges.finish(purge);
    assert!(!met(purges.settled_on_disk()));
}

/// The log finds by name what a walk over all purges would find.
#[test]
fn the_log_says_what_a_walk_over_all_purges_would() {
    let mut random = fastrand::Rng::with_seed(11);
    let hosts = ["http://a", "http://b"];
    let targets = ["/", "/x", "/x/y", "/x/y?q", "/xy", "/x\nheader h:1"];
    let tags = ["t", "u", ""];
    for _ in 0..300 {
        let purges = Purges::default();
        let mut all = Vec::new();
        let key = |random: &mut fastrand::Rng| {
            let (host, target) = (random.choice(hosts), random.choice(targets));
            host.unwrap().to_owned() + target.unwrap()
        };
        for _ in 0..random.usize(..12) {
            let name = key(&mut random);
            let end = random.usize(..=name.len());
            let scope = match random.u8(..12) {
                0 => PurgeScope::All,
                1..4 => PurgeScope::Key(name.into_bytes().into()),
                4..6 => PurgeScope::FirstLine(name.split('\n').next().unwrap().as_bytes().into()),
                6..8 => PurgeScope::Prefix(name.as_bytes()[..end].into()),
                8..10 => PurgeScope::Path(name.as_bytes()[8..][..end.saturating_sub(8)].into()),
                _ => tag(random.choice(tags).unwrap()),
            };
            let kind = if random.bool() {
                PurgeKind::Hard
            } else {
                PurgeKind::Soft
            };
            purges.finish(purges.begin(&scope, kind));
            all.push((scope, kind));
        }
        for _ in 0..20 {
            let (name, since) = (key(&mut random), random.usize(..=all.len()));
            let carried: Vec<Box<str>> = tags[..random.usize(..3)]
                .iter()
                .map(|&tag| tag.into())
                .collect();
            let covers = |kind| {
                let mut later = all[since..].iter();
                later.any(|purge| purge.1 == kind && purge.0.covers(name.as_bytes(), &carried))
            };
            let expected = match (covers(PurgeKind::Hard), covers(PurgeKind::Soft)) {
                (true, _) => Verdict::Drop,
                (false, true) => Verdict::MarkStale,
                (false, false) => Verdict::Keep,
            };
            let found = purges.verdict(Ticket(since as u64), name.as_bytes(), &carried);
            assert_eq!(
                found, expected,
                "{name} {carried:?} since {since} of {all:?}"
            );
        }
    }
}
