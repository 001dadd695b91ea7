//! What an operator asks of nodes, and tells them, when others come or go.

use tokio::time::Instant;

use super::attempts::Came;
use super::links::Links;
use super::{ClientError, ClientSettings};
use crate::frame::{Membership, Say, Standing};
use crate::layout::change::{self, Seen, Step};
use crate::layout::{Layout, Placement};

/// What a cluster goes by, as far as its nodes say.
#[derive(Debug)]
pub struct Found {
    /// The newest layout. One that is not ended everywhere is what an operator is to know of.
    pub layout: Layout,
    /// Nodes that are none of it, and go by a change that came to nothing: another one came first.
    pub left_behind: Vec<Box<str>>,
}

impl Found {
    /// What there is by what nodes say, in the order in which they were asked; `None` if none of them has said anything.
    fn among(said: Vec<(Box<str>, Layout)>) -> Option<Self> {
        let epoch = |placement: &Placement| placement.map.epoch();
        let held = said.iter().map(|(_, layout)| &layout.now);
        let held = held.max_by_key(|now| epoch(now))?.clone();
        let is_current = |layout: &Layout| match &layout.next {
            None => layout.now == held,
            // Of two that have the same epoch, one was decided.
            Some(next) => next.placement == held || epoch(&next.placement) > epoch(&held),
        };
        let order = |layout: &Layout| {
            let next = layout.next.as_ref().map(|next| &next.placement);
            (
                epoch(next.unwrap_or(&layout.now)),
                next.is_some(),
                layout.highest,
            )
        };
        let mut newest = None::<&Layout>;
        for (_, layout) in said.iter().filter(|(_, layout)| is_current(layout)) {
            if newest.is_none_or(|newest| order(newest) < order(layout)) {
                newest = Some(layout);
            }
        }
        let layout = newest?.clone();
        let is_left =
            |(node, own): &(Box<str>, Layout)| !is_current(own) && layout.node_at(node).is_none();
        let left_behind = said.into_iter().filter(is_left);
        let left_behind = left_behind.map(|(node, _)| node).collect();
        Some(Self {
            layout,
            left_behind,
        })
    }
}

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

    /// What the cluster goes by: the nodes are asked by which this one knows it, and all that they name.
    ///
    /// # Errors
    /// None of them says so.
    pub async fn find(&self) -> Result<Found, ClientError> {
        let (mut said, mut failed) = (Vec::new(), Vec::new());
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
            said.push((node, layout));
        }
        Found::among(said).ok_or(ClientError::Unreachable(failed))
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
                    // It may have heard of another change since it was looked at.
                    let seen = self.look(&change::concerned(goal)).await;
                    return match change::step(goal, &seen) {
                        Step::Overtaken(why) => Step::Overtaken(why),
                        _ => Step::Fail(format!("{node}: {why}")),
                    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::change::{Want, planned};
    use crate::placement::Map;

    #[test]
    fn what_was_decided_counts_and_not_what_came_to_nothing() {
        let map = Map::new(&["a", "b", "c"]).expect("a map");
        let before = Layout::first(map, 3);
        let joins = |node: &str| planned(&before, &Want::Join(node.into()), None).expect("a plan");
        let (first, second) = (joins("x"), joins("y"));
        let after = first.committed().expect("it ends");
        let behind = planned(&after, &Want::Join("z".into()), None).expect("a plan");
        let nobody: &[&str] = &[];
        for (said, layout, left_behind) in [
            (vec![("a", &before), ("b", &before)], &before, nobody),
            // It is half-way, or has ended at one node.
            (vec![("a", &before), ("x", &first)], &first, nobody),
            (
                vec![("a", &after), ("b", &first), ("x", &first)],
                &first,
                nobody,
            ),
            (
                vec![("y", &second), ("a", &after), ("x", &after)],
                &after,
                &["y"],
            ),
            (
                vec![("y", &second), ("a", &after), ("x", &first)],
                &first,
                &["y"],
            ),
            (
                vec![("y", &second), ("a", &behind), ("z", &behind)],
                &behind,
                &["y"],
            ),
            // Nobody knows which of them will be: the one that was asked for.
            (vec![("y", &second), ("a", &first)], &second, nobody),
            (vec![("a", &first), ("y", &second)], &first, nobody),
        ] {
            let said = said
                .into_iter()
                .map(|(node, own)| (node.into(), own.clone()));
            let found = Found::among(said.collect()).expect("somebody has answered");
            assert_eq!(&found.layout, layout);
            let left: Vec<&str> = found.left_behind.iter().map(|node| &**node).collect();
            assert_eq!(left, left_behind);
        }
        assert!(Found::among(Vec::new()).is_none());
    }
}
