//! Which part of a body goes to a client while the body is still arriving.
//!
//! A part of it is sent as soon as it has come. Several parts, and the answer that there is no such part, need the whole of
//! it, and so does a range of a body whose length nobody knows yet; they wait for it where it comes to memory. Of a body
//! that does not, a part that will not come soon is not waited for: its client asks for it by itself.

use std::ops::Range;

use super::{ByteRange, Wanted};

/// How a client is answered from what is arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// With the body as it comes.
    Whole,
    /// With this part as it comes.
    Part {
        /// Which.
        part: ByteRange,
        /// The length of the body.
        body_bytes: u64,
    },
    /// From the stored body, once it has come. If it turns out that it does not come to memory, from the origin.
    Stored,
    /// Not from here: it asks the origin by itself.
    Elsewhere,
}

/// How a client is answered that wants this of a body of `body_bytes`, if that is known; `asks_for_range` if it may want only
/// a part. Whether the body comes to memory, and whether it will soon have come so far, is asked only where it matters.
pub fn along(
    wanted: &Wanted,
    asks_for_range: bool,
    body_bytes: Option<u64>,
    is_for_memory: impl Fn() -> bool,
    comes_soon: impl FnOnce(u64) -> bool,
) -> Along {
    let stored = || {
        if is_for_memory() {
            Along::Stored
        } else {
            Along::Elsewhere
        }
    };
    match (*wanted, body_bytes) {
        (Wanted::Many(_) | Wanted::Unsatisfiable, _) => stored(),
        (_, None) if asks_for_range => stored(),
        (Wanted::One(part), Some(body_bytes)) => {
            if is_for_memory() || comes_soon(part.first) {
                Along::Part { part, body_bytes }
            } else {
                Along::Elsewhere
            }
        }
        (Wanted::One(_), None) | (Wanted::Whole, _) => Along::Whole,
    }
}

/// What one client is yet to be sent of an arriving body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    at: u64,
    end: u64,
}

impl Portion {
    /// All of it, however long it turns out to be if `body_bytes` is not known.
    pub fn whole(body_bytes: Option<u64>) -> Self {
        Self {
            at: 0,
            end: body_bytes.unwrap_or(u64::MAX),
        }
    }

    /// A part of it.
    pub fn part(part: ByteRange) -> Self {
        Self {
            at: part.first,
            end: part.last + 1,
        }
    }

    /// What is missing, by its place in the body.
    pub fn missing(&self) -> Range<u64> {
        self.at..self.end
    }

    /// Whether nothing is missing.
    pub fn is_over(&self) -> bool {
        self.at >= self.end
    }

    /// So many bytes have come of what is missing, and perhaps of what follows it. How many of them are the client's.
    pub fn take(&mut self, bytes: usize) -> usize {
        let missing = self.end.saturating_sub(self.at);
        let taken = bytes.min(missing.try_into().unwrap_or(usize::MAX));
        self.at += taken as u64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::parse;

    #[derive(Debug, Clone, Copy)]
    enum Comes {
        ToMemory,
        /// To disk, and so much of it will have come soon.
        ToDisk(u64),
    }

    #[test]
    fn how_a_client_is_answered_while_it_arrives() {
        use Along::{Elsewhere, Stored, Whole};
        use Comes::{ToDisk, ToMemory};
        let part = |first, last| Along::Part {
            part: ByteRange { first, last },
            body_bytes: 100,
        };
        let cases = [
            // no range: as it comes, wherever it goes
            ("", Some(100), ToMemory, Whole),
            ("", None, ToMemory, Whole),
            ("", Some(100), ToDisk(0), Whole),
            ("", None, ToDisk(0), Whole),
            // one that cannot be read, or is not of bytes, asks for the whole
            ("lines=1-2", Some(100), ToDisk(0), Whole),
            // one range: as soon as it has come
            ("bytes=0-9", Some(100), ToMemory, part(0, 9)),
            ("bytes=90-", Some(100), ToMemory, part(90, 99)),
            ("bytes=-10", Some(100), ToMemory, part(90, 99)),
            ("bytes=50-", Some(100), ToDisk(50), part(50, 99)),
            ("bytes=51-", Some(100), ToDisk(50), Elsewhere),
            // several, or none: from the whole
            ("bytes=0-1,4-5", Some(100), ToMemory, Stored),
            ("bytes=0-1,4-5", Some(100), ToDisk(100), Elsewhere),
            ("bytes=100-", Some(100), ToMemory, Stored),
            ("bytes=100-", Some(100), ToDisk(100), Elsewhere),
            // of unknown length nobody knows where a range ends
            ("bytes=0-9", None, ToMemory, Stored),
            ("bytes=0-9", None, ToDisk(100), Elsewhere),
        ];
        for (range, body_bytes, comes, expected) in cases {
            let wanted = match body_bytes {
                Some(body_bytes) if !range.is_empty() => parse(range.as_bytes(), body_bytes),
                _ => Wanted::Whole,
            };
            let comes_soon = |at| matches!(comes, ToDisk(soon) if at <= soon);
            let is_for_memory = || matches!(comes, ToMemory);
            let found = along(
                &wanted,
                !range.is_empty(),
                body_bytes,
                is_for_memory,
                comes_soon,
            );
            assert_eq!(found, expected, "{range:?} of {body_bytes:?}, {comes:?}");
        }
    }

    #[test]
    fn a_client_is_sent_its_portion_and_no_more() {
        let part = |first, last| Portion::part(ByteRange { first, last });
        // In pieces of four bytes, from the first that is missing on.
        let cases = [
            (Portion::whole(Some(10)), vec![4, 4, 2]),
            (Portion::whole(Some(8)), vec![4, 4]),
            (Portion::whole(Some(0)), vec![]),
            (part(3, 9), vec![4, 3]),
            (part(9, 9), vec![1]),
        ];
        for (mut portion, expected) in cases {
            let (before, mut sent) = (portion, Vec::new());
            while !portion.is_over() {
                sent.push(portion.take(4));
            }
            assert_eq!(sent, expected, "{before:?}");
            assert!(portion.missing().is_empty(), "{before:?}");
        }
        let mut endless = Portion::whole(None);
        assert_eq!(
            (endless.take(usize::MAX >> 1), endless.is_over()),
            (usize::MAX >> 1, false)
        );
        assert_eq!(endless.missing().start, (usize::MAX >> 1) as u64);
    }
}
