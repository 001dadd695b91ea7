//! What must hold of whatever a node or a client sends, after they have said hello: the first byte says in pieces of how many bytes it
//! comes, and the rest is what comes.

use bytes::BytesMut;
use weir_kv::cell::Cell;
use weir_kv::frame::{Frame, FrameError, Say};

/// Panics if reading `data` breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let [piece, stream @ ..] = data else {
        return;
    };
    let whole = read(stream, usize::MAX);
    let pieces = read(stream, usize::from(*piece).max(1));
    assert_eq!(whole, pieces, "it depends on how the bytes come");
    let (frames, _) = whole;
    let mut at = 0;
    for frame in &frames {
        let mut again = Vec::new();
        frame.encode(&mut again);
        // A text that is not UTF-8 is mended, and may be longer then.
        let is_mended = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
        let has_mended = match &frame.say {
            Say::Refused(_, text) => is_mended(text),
            Say::Membership(membership) => is_mended(&membership.moved.trouble),
            _ => false,
        };
        if !has_mended {
            let sent = stream.get(at..at + again.len());
            assert_eq!(sent, Some(&*again), "{frame:?} was sent otherwise");
        }
        at += length(&stream[at..]);
        if let Say::Write(key, cell) | Say::WriteOver(_, key, cell) = &frame.say {
            assert!(
                (1..=1024).contains(&key.len()),
                "a key that no engine takes"
            );
            check_cell(cell);
        }
    }
}

/// The bytes of the frame that begins here.
fn length(stream: &[u8]) -> usize {
    let length = stream.first_chunk().expect("a frame has a length");
    4 + u32::from_be_bytes(*length) as usize
}

/// What a replica keeps of it is what it was sent.
fn check_cell(cell: &Cell) {
    let mut bytes = Vec::new();
    cell.encode(&mut bytes);
    assert_eq!(Cell::version_of(&bytes), Ok(cell.version));
    assert_eq!(Cell::decode(&bytes.into()).as_ref(), Ok(cell));
    let live = cell.clone().live_at(u64::MAX);
    assert_eq!(
        live.value.as_ref(),
        cell.at(u64::MAX),
        "it has expired or not"
    );
}

/// All frames of a stream that comes in pieces, and what ended it, if not its end.
fn read(stream: &[u8], piece: usize) -> (Vec<Frame>, Option<FrameError>) {
    let (mut bytes, mut frames) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(piece) {
        bytes.extend_from_slice(piece);
        loop {
            match Frame::decode(&mut bytes) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}
