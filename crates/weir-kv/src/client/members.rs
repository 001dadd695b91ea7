//! What an operator asks of nodes, and tells them, when others come or go.

use tokio::time::Instant;

use super::attempts::Came;
use super::links::Links;
use super::{ClientError, ClientSettings};
use crate::frame::{Membership, Say, Standing};
use crate::layout::Layout;
use crate::layout::change::{self, Seen, Step};

/// The way to the nodes.
#[derive(Debug)]
pub struct Members {
    links: Links,
    settings: ClientSettings,
}

impl Members {
    /// Some of the nodes, as with [`super::Client::connect`].
    pub fn new(settings: ClientSettings) -> Self {
        let links = Links::new(settings.nodes.clone(), settings.secret.clone());
        Self { links, settings }
    }

    /// What the cluster goes by, as far as one of the nodes knows that it is asked by: the newest of what they say.
    ///
    /// # Errors
    /// None of them says so.
    pub async fn layout(&self) -> Result<Layout, ClientError> {
        let (mut newest, mut failed) = (None::<Layout>, Vec::new());
        let mut asked: Vec<Box<str>> = Vec::new();
        let first = self.settings.nodes.iter();
        let mut nodes: Vec<Box<str>> = first.map(|node| node.to_string().into()).collect();
        // Nodes are asked once each, so it ends.
        while let Some(node) = nodes.pop() {
            if asked.contains(&node) {
                continue;
            }
            asked.push(node.clone());
            let layout = match self.ask(&node, Say::Standing).await {
                Ok(Membership {
                    layout: Some(layout),
                    standing,
                    ..
                }) if standing != Standing::Waits => *layout,
                Ok(_) => {
                    failed.push((node, "it has not joined yet".to_owned()));
                    continue;
                }
                Err(why) => {
                    failed.push((node, why));
                    continue;
                }
            };
            nodes.extend(layout.nodes().into_iter().map(|node| node.address));
            // One that is not ended everywhere is what an operator is to know of.
            let order = |layout: &Layout| {
                let next = layout.next.as_ref();
                let next = next.map(|next| next.placement.map.epoch());
                let epoch = next.unwrap_or(layout.now.map.epoch());
                (epoch, next.is_some(), layout.highest)
            };
            if newest
                .as_ref()
                .is_none_or(|newest| order(newest) < order(&layout))
            {
                newest = Some(layout);
            }
        }
        newest.ok_or(ClientError::Unreachable(failed))
    }

    /// How these nodes stand, all asked at once.
    pub async fn look(&self, nodes: &[Box<str>]) -> Vec<Seen> {
        let mut seen = Vec::with_capacity(nodes.len());
        for node in nodes {
            let standing = self.ask(node, Say::Standing).await;
            seen.push((node.clone(), standing.ok()));
        }
        seen
    }

    /// Does one step of what is to have all nodes go by the map that is to follow in `goal`; or back, as [`change::step_back`] has it.
    pub async fn step(&self, goal: &Layout, back: Option<&[Box<str>]>) -> Step {
        let seen = self.look(&change::concerned(goal)).await;
        let step = match back {
            Some(lost) => change::step_back(goal, &seen, lost),
            None => change::step(goal, &seen),
        };
        if let Step::Tell(told) = &step {
            for (node, change) in told {
                let told = self.ask(node, Say::Change(change.clone())).await;
                if let Err(why) = told {
                    return Step::Fail(format!("{node}: {why}"));
                }
            }
        }
        step
    }

    async fn ask(&self, node: &str, say: Say) -> Result<Membership, String> {
        let deadline = Instant::now() + self.settings.timeout;
        match self.links.to(node).ask(0, say, deadline).await {
            Came::Said(Say::Membership(membership)) => Ok(membership),
            Came::Said(Say::Refused(_, why)) | Came::NotAsked(why) | Came::Lost(why) => Err(why),
            Came::Said(_) => Err("it says something else".to_owned()),
        }
    }
}
