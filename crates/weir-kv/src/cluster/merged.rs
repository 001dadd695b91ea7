//! The cells of all nodes in one order: for each key the newest that any of them has.

use std::collections::VecDeque;

use bytes::Bytes;

use super::Calls;
use super::call::NoAnswer;
use crate::cell::Cell;
use crate::frame::{Say, Span};

/// A range of all nodes.
pub(crate) struct Merged<'c> {
    calls: &'c Calls,
    sources: Vec<Source>,
    /// Nodes that may be missing: each key that was acknowledged is on one of the others.
    may_miss: usize,
}

/// What a node has of the range.
struct Source {
    node: u16,
    entries: VecDeque<(Bytes, Cell)>,
    /// What is still to be asked for.
    rest: Option<Span>,
}

impl<'c> Merged<'c> {
    /// The range of these nodes from a key up to another one. Writes were acknowledged by `ack` of them.
    pub(crate) fn new(
        calls: &'c Calls,
        nodes: &[u16],
        (from, to): (Bytes, Option<Bytes>),
        ack: usize,
    ) -> Self {
        let span = Span { from, to };
        let sources = nodes.iter().map(|&node| Source {
            node,
            entries: VecDeque::new(),
            rest: Some(span.clone()),
        });
        Self {
            calls,
            sources: sources.collect(),
            may_miss: ack - 1,
        }
    }

    /// The next key and its newest cell. It fails when too many nodes do, as the last of them.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Cell)>, NoAnswer> {
        self.fill()?;
        let firsts = self
            .sources
            .iter()
            .filter_map(|source| source.entries.front());
        let Some(key) = firsts.map(|(key, _)| key).min().cloned() else {
            return Ok(None);
        };
        let mut newest: Option<Cell> = None;
        for source in &mut self.sources {
            if source.entries.front().is_some_and(|(own, _)| *own == key)
                && let Some((_, cell)) = source.entries.pop_front()
                && newest
                    .as_ref()
                    .is_none_or(|newest| newest.version < cell.version)
            {
                newest = Some(cell);
            }
        }
        Ok(newest.map(|cell| (key, cell)))
    }

    /// Has every node tell of its next cells, as long as it has some.
    fn fill(&mut self) -> Result<(), NoAnswer> {
        let mut at = 0;
        while let Some(source) = self.sources.get_mut(at) {
            let Some(span) = source.rest.take_if(|_| source.entries.is_empty()) else {
                at += 1;
                continue;
            };
            let to = span.to.clone();
            let scan = || Say::Scan(true, span.clone());
            match self.calls.ask_again(source.node, scan) {
                Ok(Say::Page(page)) => {
                    source.entries = page.entries.into();
                    source.rest = page.next.map(|from| Span { from, to });
                }
                answer => {
                    let error = answer.err().unwrap_or(NoAnswer::Silent);
                    self.may_miss = self.may_miss.checked_sub(1).ok_or(error)?;
                    self.sources.remove(at);
                }
            }
        }
        Ok(())
    }
}
