//! A range of all nodes, page by page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempts::Came;
use super::link::Link;
use super::links::Placed;
use super::{Client, ClientError, Entry, entry};
use crate::cluster::Merged;
use crate::coordinator::Quorum;
use crate::frame::{Page, Say, Span, Why};

/// How long to wait until a node is asked again that is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// The entries of a range.
#[derive(Debug)]
pub struct Scan<'c> {
    client: &'c Client,
    placed: Arc<Placed>,
    merged: Merged,
    /// What has not been given.
    rest: Span,
    may_learn: bool,
    /// Nodes that are missing.
    failed: Vec<(Box<str>, String)>,
}

impl<'c> Scan<'c> {
    pub(super) fn new(client: &'c Client, span: Span) -> Self {
        let placed = client.placed();
        Self {
            client,
            merged: merged(&placed, &span),
            placed,
            rest: span,
            may_learn: true,
            failed: Vec::new(),
        }
    }

    /// The next key and what is there of it; `None` at the end. A scan is no snapshot: it sees some of the writes that come meanwhile.
    ///
    /// # Errors
    /// So many nodes do not answer that keys might be missing. What was given before is right.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Entry)>, ClientError> {
        loop {
            let wanted = self.merged.wanted();
            if wanted.is_empty() {
                let Some((key, cell)) = self.merged.next() else {
                    return Ok(None);
                };
                self.rest.from = [&key, &b"\0"[..]].concat().into();
                if let Some(entry) = entry(Some(cell)) {
                    return Ok(Some((key, entry)));
                }
            } else {
                self.ask(wanted).await?;
            }
        }
    }

    /// Asks nodes for pages, all at once.
    async fn ask(&mut self, wanted: Vec<(u16, Span)>) -> Result<(), ClientError> {
        let deadline = Instant::now() + self.client.timeout;
        let epoch = self.placed.map.epoch();
        let mut asked = JoinSet::new();
        for (node, span) in wanted {
            let link = self.client.links.to(self.address(node));
            asked.spawn(async move { (node, page(&link, epoch, &span, deadline).await) });
        }
        while let Some(Ok((node, came))) = asked.join_next().await {
            let page = match came {
                Came::Said(Say::Page(page)) => Ok(page),
                Came::Said(Say::Refused(Why::Epoch, _)) if self.may_learn => {
                    self.may_learn = false;
                    self.placed = self.client.learn(&self.placed, deadline).await;
                    self.failed.clear();
                    self.merged = merged(&self.placed, &self.rest);
                    return Ok(());
                }
                Came::Said(Say::Refused(_, why)) => Err(format!("it refuses: {why}")),
                Came::NotAsked(why) | Came::Lost(why) => Err(why),
                Came::Said(_) => Err("it says what is no page".to_owned()),
            };
            self.fill(node, page)?;
        }
        Ok(())
    }

    fn fill(&mut self, node: u16, page: Result<Page, String>) -> Result<(), ClientError> {
        if let Err(why) = &page {
            self.failed.push((self.address(node).into(), why.clone()));
        }
        let filled = self.merged.fill(node, page.ok());
        filled.map_err(|_| ClientError::Incomplete(std::mem::take(&mut self.failed)))
    }

    fn address(&self, node: u16) -> &str {
        let mut nodes = self.placed.map.nodes().iter();
        let node = nodes.find(|own| own.id == node);
        node.map_or("", |node| &node.address)
    }
}

/// What a node says of a range. One whose disk is busy is asked again: it is not away, and what it has may be nowhere else.
async fn page(link: &Link, epoch: u64, span: &Span, deadline: Instant) -> Came {
    loop {
        let came = link
            .ask(epoch, Say::Scan(true, span.clone()), deadline)
            .await;
        let is_busy = matches!(&came, Came::Said(Say::Refused(Why::Busy, _)));
        if !is_busy || Instant::now() + BUSY_PAUSE > deadline {
            return came;
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

fn merged(placed: &Placed, span: &Span) -> Merged {
    let nodes = placed.map.nodes().iter().map(|node| node.id);
    let ack = Quorum::majority(placed.replicas).ack;
    Merged::new(nodes, span, ack)
}
