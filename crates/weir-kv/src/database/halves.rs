//! Which parts of a list are tried when one of its items is refused: halves, until it stands alone. Pure.

use std::ops::Range;

/// Parts of a list that are left to try, in order.
#[derive(Debug)]
pub(crate) struct Halves {
    /// The last one is the next.
    left: Vec<Range<usize>>,
}

impl Halves {
    /// Parts of at most so many items.
    pub(crate) fn of(count: usize, at_once: usize) -> Self {
        let starts = (0..count).step_by(at_once.max(1));
        let parts = starts.map(|start| start..(start + at_once.max(1)).min(count));
        let mut left: Vec<_> = parts.collect();
        left.reverse();
        Self { left }
    }

    /// The next part.
    pub(crate) fn take(&mut self) -> Option<Range<usize>> {
        self.left.pop()
    }

    /// Has the halves of a refused part be the next ones; false where it is a single item, which is to blame then.
    pub(crate) fn split(&mut self, part: &Range<usize>) -> bool {
        if part.len() < 2 {
            return false;
        }
        let middle = part.start + part.len() / 2;
        self.left.push(middle..part.end);
        self.left.push(part.start..middle);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts that are tried, when every one with one of `bad` is refused, and what was to blame.
    fn tried(count: usize, at_once: usize, bad: &[usize]) -> (Vec<Range<usize>>, Vec<usize>) {
        let (mut tried, mut blamed) = (Vec::new(), Vec::new());
        let mut halves = Halves::of(count, at_once);
        while let Some(part) = halves.take() {
            tried.push(part.clone());
            let is_refused = bad.iter().any(|bad| part.contains(bad));
            if is_refused && !halves.split(&part) {
                blamed.push(part.start);
            }
        }
        (tried, blamed)
    }

    #[test]
    fn all_is_tried_in_parts_of_so_many() {
        assert_eq!(tried(5, 2, &[]).0, [0..2, 2..4, 4..5]);
        assert_eq!(tried(2, 1000, &[]).0, [0..2; 1]);
        assert_eq!(tried(0, 3, &[]).0, [0..0; 0]);
    }

    #[test]
    fn what_is_refused_is_found_by_halves() {
        let (parts, blamed) = tried(5, 5, &[3]);
        assert_eq!(parts, [0..5, 0..2, 2..5, 2..3, 3..5, 3..4, 4..5]);
        assert_eq!(blamed, [3]);
        let (parts, blamed) = tried(1024, 1024, &[700]);
        assert_eq!((parts.len(), blamed), (21, vec![700]));
        let (_, blamed) = tried(10, 3, &[0, 4, 5, 9]);
        assert_eq!(blamed, [0, 4, 5, 9]);
    }
}
