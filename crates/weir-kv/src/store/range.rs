//! Ranges, streamed.

use bytes::Bytes;
use weir_gateway::service::Reply;

use super::Store;
use super::jobs::Busy;
use super::pieces::{NDJSON, OCTETS, Sending};
use crate::api::line::Line;
use crate::api::{self, KEY_BYTES_MAX, v1};
use crate::cell::Cell;
use crate::cluster::{Calls, Merged, NoAnswer, TooFewNodes};
use crate::coordinator::Quorum;
use crate::frame::{Say, Span};
use crate::wall::unix_ms;

impl Store {
    /// The entries of this node from a key on, up to another one.
    pub(super) fn range(&self, from: Bytes, to: Option<Bytes>) -> Reply {
        let calls = self.calls();
        self.send(OCTETS, move |mut sending| {
            let own = [calls.shared.me()].into_iter();
            let mut entries = Merged::new(own, &Span { from, to }, 1);
            loop {
                // There may be no end of keys that are deleted, and this format cannot say that there is more.
                if sending.is_slow() && !sending.send() {
                    return;
                }
                let (key, cell) = match next(&mut entries, &calls) {
                    Ok(Some(entry)) => entry,
                    Ok(None) => return sending.end(),
                    Err(error) => return sending.fail(&error, "this node has not read it in time"),
                };
                let is_wanted = match cell.at(unix_ms()) {
                    None => sending.is_wanted(),
                    Some(value) => sending.add(|piece| {
                        for part in [&key, &b"\n"[..], value] {
                            piece.extend_from_slice(part);
                        }
                    }),
                };
                if !is_wanted {
                    return;
                }
            }
        })
    }

    /// The entries of the whole cluster, as lines of JSON.
    pub(super) fn range_of_all(&self, range: v1::Range) -> Reply {
        let calls = self.calls();
        self.send(NDJSON, move |sending| send_all(&calls, range, sending))
    }

    fn send(
        &self,
        content_type: &'static [u8],
        run: impl FnOnce(Sending) + Send + 'static,
    ) -> Reply {
        let (replier, reply) = Reply::later();
        let sending = Sending::new(replier, content_type);
        match self.jobs.begin("kv range", move || run(sending)) {
            Ok(()) => reply,
            Err(Busy) => Reply::ready(api::busy("too many batches and ranges are under way")),
        }
    }
}

/// Sends lines until the limit, the end, or somebody fails; or until it takes too long to find the next one.
fn send_all(calls: &Calls, range: v1::Range, mut sending: Sending) {
    let mut rest = Span {
        from: range.start.clone(),
        to: range.end,
    };
    let (mut epoch, mut entries) = begin(calls, &rest);
    let mut left = range.limit;
    loop {
        // There may be no end of keys that are deleted. The next request goes on, and not where this one began.
        if sending.is_slow() && rest.from > range.start && !entries.wanted().is_empty() {
            return end_before(rest.from, sending);
        }
        let found = next(&mut entries, calls);
        // Nodes have come or gone: others may have what is still to come.
        if calls.shared.layout().epoch() != epoch {
            (epoch, entries) = begin(calls, &rest);
            continue;
        }
        let (key, cell) = match found {
            Ok(Some(entry)) => entry,
            Ok(None) => return sending.end(),
            Err(error) => {
                return sending.fail(&error, "too few nodes answered for a range of all keys");
            }
        };
        rest.from = behind(&key);
        let version = cell.version;
        let Some(value) = cell.live_at(unix_ms()).value else {
            if sending.is_wanted() {
                continue;
            }
            return;
        };
        if left == 0 {
            return end_before(key, sending);
        }
        left -= 1;
        if !add(Line::Entry(key, version, value), &mut sending) {
            return;
        }
    }
}

/// Ends, and says with which key the rest begins.
fn end_before(key: Bytes, mut sending: Sending) {
    if add(Line::Next(key), &mut sending) {
        sending.end();
    }
}

/// Adds a line, which is not held any longer when that waits for the client.
fn add(line: Line, sending: &mut Sending) -> bool {
    sending.add(move |piece| {
        serde_json::to_writer(&mut *piece, &line.json())
            .expect("a line is JSON, and memory takes it");
        piece.push(b'\n');
    })
}

/// The least key behind this one, as far as there is one: keys are of a limited length.
fn behind(key: &[u8]) -> Bytes {
    let longer = || [key, &b"\0"[..]].concat().into();
    if key.len() < KEY_BYTES_MAX {
        return longer();
    }
    Span::with_prefix(key).to.unwrap_or_else(longer)
}

/// A range of all nodes, and the epoch of the layout that says who they are.
fn begin(calls: &Calls, span: &Span) -> (u64, Merged) {
    let layout = calls.shared.layout();
    let next = layout.next.as_ref().map(|next| next.placement.replicas);
    let replicas = next.unwrap_or(usize::MAX).min(layout.now.replicas);
    let nodes = layout.nodes().into_iter().map(|node| node.id);
    let ack = Quorum::majority(replicas).ack;
    (layout.epoch(), Merged::new(nodes, span, ack))
}

/// The next key and its newest cell, from nodes that are asked for it. It fails when too many nodes do, as the last of them.
fn next(entries: &mut Merged, calls: &Calls) -> Result<Option<(Bytes, Cell)>, NoAnswer> {
    loop {
        let wanted = entries.wanted();
        if wanted.is_empty() {
            return Ok(entries.next());
        }
        for (node, span) in wanted {
            let (page, error) = match calls.ask_again(node, || Say::Scan(true, span.clone())) {
                Ok(Say::Page(page)) => (Some(page), NoAnswer::Silent),
                answer => (None, answer.err().unwrap_or(NoAnswer::Silent)),
            };
            let filled = entries.fill(node, page);
            filled.map_err(|TooFewNodes| error)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fits_between_a_key_and_the_one_behind_it() {
        assert_eq!(behind(b"a"), &b"a\0"[..]);
        let longest = |last: u8| {
            let mut key = vec![u8::MAX; KEY_BYTES_MAX];
            key[1] = last;
            key
        };
        assert_eq!(behind(&longest(7)), &b"\xff\x08"[..]);
        assert!(behind(&longest(u8::MAX)) > longest(u8::MAX));
    }
}
