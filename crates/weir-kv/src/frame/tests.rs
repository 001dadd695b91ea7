use proptest::prelude::*;

use super::why::WHYS;
use super::*;
use crate::condition::{Condition, Tags};
use crate::coordinator::Quorum;

fn versions() -> impl Strategy<Value = Version> {
    let numbers = (any::<u64>(), any::<u16>(), any::<u16>());
    numbers.prop_map(|(time, node, run)| Version { time, node, run })
}

fn cells() -> impl Strategy<Value = Cell> {
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    (versions(), any::<Option<u64>>(), value).prop_map(|(version, expires_ms, value)| Cell {
        version,
        expires_ms,
        value: value.map(Bytes::from),
    })
}

fn keys() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 1..20).prop_map(Bytes::from)
}

fn tags() -> impl Strategy<Value = Option<Tags>> {
    prop_oneof![
        Just(None),
        Just(Some(Tags::Any)),
        proptest::collection::vec(versions(), 0..4).prop_map(|these| Some(Tags::These(these))),
    ]
}

fn asks() -> impl Strategy<Value = Ask> {
    let value = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let expires_ms = proptest::option::of(1..u64::MAX);
    let what = prop_oneof![
        Just(What::Get),
        (value, expires_ms).prop_map(|(value, expires_ms)| What::Put { value, expires_ms }),
        Just(What::Delete),
    ];
    let quorum = (1..4_usize).prop_flat_map(|from| (from / 2 + 1..=from, Just(from)));
    let condition = (tags(), tags());
    let until_ms = proptest::option::of(1..u64::MAX);
    let parts = (keys(), what, quorum, condition, until_ms);
    parts.prop_map(
        |(key, what, (ack, from), (matches, matches_none), until_ms)| Ask {
            key,
            what,
            quorum: Quorum { ack, from },
            condition: Condition {
                matches,
                matches_none,
            },
            until_ms,
        },
    )
}

fn ends() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(keys())
}

fn spans() -> impl Strategy<Value = Span> {
    let from = proptest::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    (from, ends()).prop_map(|(from, to)| Span { from, to })
}

fn pages() -> impl Strategy<Value = Page> {
    let entries = proptest::collection::vec((keys(), cells()), 0..4);
    (entries, ends()).prop_map(|(entries, next)| Page { entries, next })
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        proptest::option::of(cells()).prop_map(Answer::Found),
        versions().prop_map(Answer::Written),
        proptest::option::of(cells()).prop_map(Answer::Unmet),
        Just(Answer::Conflict),
        Just(Answer::TooFew),
    ]
}

fn says() -> impl Strategy<Value = Say> {
    prop_oneof![
        (versions(), keys(), cells()).prop_map(|(over, key, cell)| Say::WriteOver(over, key, cell)),
        asks().prop_map(Say::Ask),
        (any::<bool>(), spans()).prop_map(|(has_values, span)| Say::Scan(has_values, span)),
        pages().prop_map(Say::Page),
        (any::<u64>(), spans()).prop_map(|(before, span)| Say::Digest(before, span)),
        (any::<(u64, u64)>(), ends())
            .prop_map(|((hash, count), next)| { Say::Digested(Digest { hash, count }, next) }),
        (versions(), keys()).prop_map(|(version, key)| Say::Drop(version, key)),
        (any::<u8>(), keys()).prop_map(|(replicas, map)| Say::Map(replicas, map)),
        Just(Say::Which),
        answers().prop_map(Say::Told),
        keys().prop_map(Say::Read),
        (keys(), cells()).prop_map(|(key, cell)| Say::Write(key, cell)),
        proptest::option::of(cells()).prop_map(Say::Found),
        (versions(), proptest::option::of(versions()))
            .prop_map(|(version, newer)| Say::Written { version, newer }),
        Just(Say::Ping),
        any::<(u64, u64, bool)>().prop_map(|(wall_ms, version_ms, is_draining)| {
            let clocks = Clocks {
                wall_ms,
                version_ms,
            };
            Say::Pong(Presence {
                clocks,
                is_draining,
            })
        }),
        (0..WHYS.len(), ".{0,20}").prop_map(|(why, text)| Say::Refused(WHYS[why], text)),
    ]
}

fn frames() -> impl Strategy<Value = Frame> {
    let frames = (any::<u64>(), any::<u64>(), says());
    frames.prop_map(|(epoch, id, say)| Frame { epoch, id, say })
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written_however_they_come(
        frames in proptest::collection::vec(frames(), 1..6),
        pieces in 1_usize..40,
    ) {
        let mut sent = Vec::new();
        for frame in &frames {
            frame.encode(&mut sent);
        }
        let (mut bytes, mut read) = (BytesMut::new(), Vec::new());
        for piece in sent.chunks(pieces) {
            bytes.extend_from_slice(piece);
            while let Some(frame) = Frame::decode(&mut bytes).expect("they are frames") {
                read.push(frame);
            }
        }
        prop_assert_eq!(read, frames);
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn whatever_comes_is_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut framed = BytesMut::new();
        framed.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        framed.extend_from_slice(&bytes);
        if let Ok(Some(frame)) = Frame::decode(&mut framed) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            // A text that is not UTF-8 is mended.
            if !matches!(frame.say, Say::Refused(..)) {
                prop_assert_eq!(&again[LENGTH..], &bytes[..]);
            }
        }
    }
}

#[test]
fn what_is_no_frame_is_told() {
    let framed = |bytes: &[u8]| {
        let mut framed = BytesMut::new();
        framed.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        framed.extend_from_slice(bytes);
        Frame::decode(&mut framed)
    };
    let head = |format, kind| [&[format, kind][..], &[0; 16]].concat();
    let other = FORMAT + 1;
    assert_eq!(framed(&[]), Err(FrameError::Length(0)));
    assert_eq!(framed(&head(other, 1)), Err(FrameError::Format(other)));
    assert_eq!(framed(&head(FORMAT, 99)), Err(FrameError::Kind(99)));
    assert_eq!(framed(&head(FORMAT, 1)), Err(FrameError::Key));
    assert_eq!(framed(&head(FORMAT, 4)), Err(FrameError::Payload));
    let mut long = BytesMut::from(&u32::MAX.to_be_bytes()[..]);
    let length = FrameError::Length(u32::MAX as usize);
    assert_eq!(Frame::decode(&mut long), Err(length));
}
