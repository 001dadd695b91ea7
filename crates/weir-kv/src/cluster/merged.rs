//! The cells of all nodes in one order: for each key the newest that any of them has. Pure: who asks the nodes is another matter.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::cell::Cell;
use crate::frame::{Page, Span};

/// A range of all nodes.
#[derive(Debug)]
pub(crate) struct Merged {
    sources: Vec<Source>,
    /// Nodes that may be missing: each key that was acknowledged is on one of the others.
    may_miss: usize,
}

/// What a node has of the range.
#[derive(Debug)]
struct Source {
    node: u16,
    entries: VecDeque<(Bytes, Cell)>,
    /// What is still to be asked for.
    rest: Option<Span>,
}

/// Too many nodes did not answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooFewNodes;

impl Merged {
    /// A range of these nodes. Writes were acknowledged by `ack` of them.
    pub(crate) fn new(nodes: impl Iterator<Item = u16>, span: &Span, ack: usize) -> Self {
        let sources = nodes.map(|node| Source {
            node,
            entries: VecDeque::new(),
            rest: Some(span.clone()),
        });
        Self {
            sources: sources.collect(),
            may_miss: ack - 1,
        }
    }

    /// What nodes are to be asked for, before it is known what is next.
    pub(crate) fn wanted(&self) -> Vec<(u16, Span)> {
        let empty = self
            .sources
            .iter()
            .filter(|source| source.entries.is_empty());
        empty
            .filter_map(|source| Some((source.node, source.rest.clone()?)))
            .collect()
    }

    /// A node has answered with a page of what it was asked for, or not at all.
    pub(crate) fn fill(&mut self, node: u16, page: Option<Page>) -> Result<(), TooFewNodes> {
        let Some(at) = self.sources.iter().position(|source| source.node == node) else {
            return Ok(());
        };
        let source = &mut self.sources[at];
        let asked = source.rest.take();
        // The rest of a range begins behind its beginning: a page that says otherwise is none.
        let is_ahead = |page: &Page| match (&page.next, &asked) {
            (Some(next), Some(asked)) => *next > asked.from,
            _ => true,
        };
        if let Some(page) = page.filter(is_ahead) {
            source.entries = page.entries.into();
            let to = asked.and_then(|asked| asked.to);
            source.rest = page.next.map(|from| Span { from, to });
        } else {
            self.sources.remove(at);
            self.may_miss = self.may_miss.checked_sub(1).ok_or(TooFewNodes)?;
        }
        Ok(())
    }

    /// The next key and its newest cell, when nothing is wanted.
    pub(crate) fn next(&mut self) -> Option<(Bytes, Cell)> {
        self.next_of().map(|(key, cell, _)| (key, cell))
    }

    /// The same, and who has that cell.
    pub(crate) fn next_of(&mut self) -> Option<(Bytes, Cell, u16)> {
        let firsts = self
            .sources
            .iter()
            .filter_map(|source| source.entries.front());
        let key = firsts.map(|(key, _)| key).min().cloned()?;
        let mut newest: Option<(Cell, u16)> = None;
        for source in &mut self.sources {
            if source.entries.front().is_some_and(|(own, _)| *own == key)
                && let Some((_, cell)) = source.entries.pop_front()
                && newest
                    .as_ref()
                    .is_none_or(|(newest, _)| newest.version < cell.version)
            {
                newest = Some((cell, source.node));
            }
        }
        newest.map(|(cell, node)| (key, cell, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn cell(time: u64) -> Cell {
        Cell {
            version: Version {
                time,
                ..Version::default()
            },
            expires_ms: None,
            value: Some(Bytes::new()),
        }
    }

    fn page(entries: &[(&'static str, u64)], next: Option<&'static str>) -> Page {
        let entry = |&(key, time): &(&'static str, u64)| (Bytes::from(key), cell(time));
        Page {
            entries: entries.iter().map(entry).collect(),
            next: next.map(Bytes::from),
        }
    }

    fn all() -> Span {
        Span {
            from: Bytes::new(),
            to: None,
        }
    }

    fn merged() -> Merged {
        Merged::new(1..=3, &all(), 2)
    }

    /// What comes next as long as nothing is wanted.
    fn read(merged: &mut Merged) -> Vec<(Bytes, u64)> {
        let mut read = Vec::new();
        while merged.wanted().is_empty()
            && let Some((key, cell)) = merged.next()
        {
            read.push((key, cell.version.time));
        }
        read
    }

    #[test]
    fn each_key_comes_once_and_newest_in_the_order_of_keys() {
        let mut merged = merged();
        assert_eq!(merged.wanted().len(), 3);
        assert_eq!(
            merged.fill(1, Some(page(&[("a", 1), ("c", 5)], Some("d")))),
            Ok(())
        );
        assert_eq!(
            merged.fill(2, Some(page(&[("a", 2), ("b", 1)], None))),
            Ok(())
        );
        assert_eq!(merged.fill(3, Some(page(&[], None))), Ok(()));
        let first = [("a".into(), 2), ("b".into(), 1), ("c".into(), 5)];
        assert_eq!(read(&mut merged), first);
        let rest = Span {
            from: "d".into(),
            to: None,
        };
        assert_eq!(merged.wanted(), [(1, rest)]);
        assert_eq!(merged.fill(1, Some(page(&[("d", 1)], None))), Ok(()));
        assert_eq!(read(&mut merged), [("d".into(), 1)]);
        assert_eq!(merged.wanted(), []);
    }

    /// With two of three to acknowledge a write, any two nodes have all of them; one alone has not.
    #[test]
    fn one_node_may_be_missing_and_two_may_not() {
        let mut merged = merged();
        assert_eq!(merged.fill(2, None), Ok(()));
        assert_eq!(merged.wanted().len(), 2);
        assert_eq!(merged.fill(1, Some(page(&[("a", 1)], Some("b")))), Ok(()));
        // It says that the rest begins where it has begun.
        assert_eq!(merged.fill(3, Some(page(&[], Some("")))), Err(TooFewNodes));
    }
}
