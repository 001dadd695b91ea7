//! What is sent of a body, in pieces, and what a renewed object keeps of the old one.

use super::*;
use crate::store::purge::Purges;

fn object(body: &[&'static str]) -> Object {
    let pieces = body
        .iter()
        .map(|piece| Bytes::from_static(piece.as_bytes()))
        .collect();
    Object::new(
        b"",
        Purges::default().ticket(),
        Bytes::new(),
        Bytes::from_static(b"H"),
        pieces,
    )
}

fn sent(object: &Object, head: &[u8], range: Range<u64>, sent: u64, places: usize) -> Vec<u8> {
    let mut slices = vec![IoSlice::new(&[]); places];
    let filled = object.slices(head, range, sent, &mut slices);
    slices[..filled]
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect()
}

#[test]
fn every_position_continues_where_the_last_write_ended() {
    let object = object(&["abc", "", "defg", "h"]);
    let whole = b"HEADabcdefgh";
    for position in 0..=whole.len() {
        assert_eq!(
            sent(&object, b"HEAD", 0..8, position as u64, 8),
            whole[position..]
        );
    }
    assert_eq!(sent(&object, b"HEAD", 0..u64::MAX, 0, 2), b"HEADabc");
}

#[test]
fn a_range_is_sent_from_within_pieces() {
    let object = object(&["abc", "defg", "h"]);
    for start in 0..8 {
        for end in start..=8 {
            let wanted = [b"HD".as_slice(), &b"abcdefgh"[start as usize..end as usize]].concat();
            for position in 0..=wanted.len() {
                assert_eq!(
                    sent(&object, b"HD", start..end, position as u64, 8),
                    wanted[position..]
                );
            }
        }
    }
}

#[test]
fn a_renewed_object_shares_its_body_and_is_fresh_again() {
    let old = object(&["abc"]);
    old.mark_stale();
    let new = old.renewed(
        old.ticket,
        Bytes::from_static(b"m"),
        Bytes::from_static(b"new"),
    );
    assert_eq!(new.body()[0].as_ptr(), old.body()[0].as_ptr());
    assert!(!new.is_marked_stale() && old.is_marked_stale());
}
