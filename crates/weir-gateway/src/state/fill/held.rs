//! The part of a body that is in RAM: the last pieces, each with its position in the body. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

#[derive(Debug, Default)]
pub(super) struct Held {
    pieces: VecDeque<(u64, Bytes)>,
    /// The length of the body so far.
    end: u64,
}

impl Held {
    /// Appends `piece` to the body.
    pub(super) fn push(&mut self, piece: Bytes) {
        let start = self.end;
        self.end += piece.len() as u64;
        self.pieces.push_back((start, piece));
    }

    /// The position of the first byte that is held.
    pub(super) fn start(&self) -> u64 {
        self.pieces.front().map_or(self.end, |(start, _)| *start)
    }

    /// The length of the body so far, held or not.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start()
    }

    /// The position at which the first piece ends.
    pub(super) fn first_end(&self) -> Option<u64> {
        self.pieces
            .front()
            .map(|(start, piece)| start + piece.len() as u64)
    }

    /// Drops the first piece.
    pub(super) fn drop_first(&mut self) {
        self.pieces.pop_front();
    }

    /// The body from `at` to the end of the piece that contains it; `None` when that is not held.
    pub(super) fn from(&self, at: u64) -> Option<Bytes> {
        let behind = self.pieces.partition_point(|(start, _)| *start <= at);
        let (start, piece) = self.pieces.get(behind.checked_sub(1)?)?;
        let rest = usize::try_from(at - start)
            .ok()
            .filter(|skipped| *skipped < piece.len())?;
        Some(piece.slice(rest..))
    }

    /// The pieces, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter().map(|(_, piece)| piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_or_is_not_held() {
        let mut held = Held::default();
        for piece in ["abc", "d", "efgh"] {
            held.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!((held.start(), held.end(), held.bytes()), (0, 8, 8));
        held.drop_first();
        assert_eq!(
            (held.start(), held.bytes(), held.first_end()),
            (3, 5, Some(4))
        );
        let found: Vec<_> = (0..10).map(|at| held.from(at)).collect();
        let expected = [
            None,
            None,
            None,
            Some("d"),
            Some("efgh"),
            Some("fgh"),
            Some("gh"),
            Some("h"),
            None,
            None,
        ];
        assert_eq!(found, expected.map(|text| text.map(Bytes::from)));
    }
}
