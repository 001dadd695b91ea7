use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn what_is_settled_out_of_turn_is_known_to_who_comes_next() {
    let mut claims = Claims::default();
    claims.take(0, Some((100, "")));
    for offset in 100..110 {
        assert!(claims.fetched((0, offset), offset + 1000));
    }
    for here in [1101, 1102, 1105] {
        claims.settle(here);
    }
    let commits = claims.commits();
    let expected = Commit {
        partition: 0,
        offset: 100,
        metadata: "w1 1-2 5-1".to_owned(),
    };
    assert_eq!(commits, [expected]);
    assert_eq!(claims.commits(), [], "nothing has changed");
    claims.forget_commits();
    assert_eq!(claims.commits(), commits);
    let mut next = Claims::default();
    next.take(0, Some((commits[0].offset, &commits[0].metadata)));
    let again: Vec<u64> = (100..110)
        .filter(|&offset| next.fetched((0, offset), offset))
        .collect();
    assert_eq!(again, [100, 103, 104, 106, 107, 108, 109]);
}

#[test]
fn what_is_no_longer_ours_is_not_delivered() {
    let mut claims = Claims::default();
    claims.take(0, None);
    claims.take(1, None);
    assert!(claims.fetched((0, 5), 1));
    assert!(claims.fetched((1, 5), 2));
    assert!(!claims.fetched((2, 5), 3), "it never was");
    claims.leave(0);
    assert!(!claims.has(1) && claims.has(2));
    // What is settled of it late changes nothing.
    claims.settle(1);
    assert_eq!(claims.open(), 1);
    let commits = claims.commits();
    assert_eq!(
        (commits.len(), commits[0].partition, commits[0].offset),
        (1, 1, 5)
    );
}

#[test]
fn offsets_may_be_missing() {
    let mut claims = Claims::default();
    claims.take(0, None);
    for offset in [7, 9, 20] {
        assert!(claims.fetched((0, offset), offset));
        claims.settle(offset);
    }
    assert_eq!(claims.commits()[0].offset, 21);
    // What begins before all that was committed is a partition that has lost its end.
    let mut claims = Claims::default();
    claims.take(0, Some((100, "w1 5-5")));
    assert!(claims.fetched((0, 40), 1));
    assert!(claims.fetched((0, 105), 2));
    claims.settle(1);
    assert_eq!(claims.commits()[0].offset, 105);
}

#[test]
fn metadata_of_others_is_nothing() {
    for metadata in [
        "",
        "w2 1-1",
        "w1",
        "w1 x",
        "w1 -",
        "w1 zzzzzzzzzzzzzzzz-1",
        "1-1",
    ] {
        assert_eq!(ranges(5, metadata), [], "{metadata}");
    }
    assert_eq!(ranges(u64::MAX - 1, "w1 5-5"), []);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is settled in whatever order, and wherever it changes hands: what is delivered by neither is nothing, and what is
    /// delivered by both is only what the metadata had no room for.
    #[test]
    fn nothing_is_left_out(settled in prop::collection::vec(0..60u64, 0..80), more in prop::collection::vec(0..60u64, 0..80)) {
        let mut claims = Claims::default();
        claims.take(3, Some((1000, "")));
        let mut done = BTreeSet::new();
        for part in [&settled, &more] {
            let low = (0..=60).find(|number| !done.contains(number)).expect("one is not");
            for number in low..60 {
                let is_new = claims.fetched((3, 1000 + number), number);
                prop_assert_eq!(is_new, !done.contains(&number));
            }
            for number in part {
                claims.settle(*number);
                done.insert(*number);
            }
            claims.forget_commits();
            let commit = claims.commits().remove(0);
            let low = (0..=60).find(|number| !done.contains(number)).expect("one is not");
            prop_assert_eq!(commit.offset, 1000 + low);
            claims = Claims::default();
            claims.take(3, Some((commit.offset, &commit.metadata)));
        }
    }
}

#[test]
fn metadata_has_a_bound() {
    let mut claims = Claims::default();
    claims.take(0, Some((0, "")));
    for offset in 0..100_000 {
        claims.fetched((0, offset), offset);
        if offset % 2 == 1 {
            claims.settle(offset);
        }
    }
    let commit = claims.commits().remove(0);
    assert!(
        commit.metadata.len() <= METADATA_BYTES_MAX,
        "{}",
        commit.metadata.len()
    );
    assert!(ranges(0, &commit.metadata).len() > 500);
}
