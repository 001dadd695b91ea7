//! What a node goes by when it starts: what its data says, and what the configuration does.
//!
//! The configuration of a cluster names the nodes that it begins with. From the first change on, each node keeps its layout with its data,
//! and that is what holds. The configuration may then name the nodes of now, or those of before.

use std::fmt::Write as _;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::ClusterSettings;
use crate::engine::{Engine, OWNER};
use crate::layout::Layout;
use crate::placement::{Map, Rule};
use crate::store::ALONE;
use crate::wall::unix_ms;

/// What is kept under these names.
const LAYOUT: &str = "layout";
/// The address of this node, and a line for all nodes of each map that its data has had.
const HISTORY: &str = "history";
/// Layouts of before, whose keys may be here still.
const LEFT: &str = "left";

/// The layout of this node.
///
/// # Errors
/// The data is not of this node, or not of these nodes; or it cannot be read.
pub(super) fn layout(settings: &ClusterSettings, engine: &dyn Engine) -> Result<Layout, String> {
    let own = settings.node.to_string();
    let said = names(settings);
    let Some(kept) = engine.noted(LAYOUT)? else {
        let names: Vec<&str> = said.split(", ").collect();
        return first(settings, engine, (&own, &names));
    };
    let layout = Layout::decode(kept).ok_or("what is kept of the nodes is damaged")?;
    let history = engine.noted(HISTORY)?.unwrap_or_default();
    let history = String::from_utf8_lossy(&history);
    let mut lines = history.lines();
    let owner = lines.next().unwrap_or_default();
    if owner != own {
        return Err(format!(
            "the data is of the node {owner}, and the configuration says {own}"
        ));
    }
    let (rule, wanted) = (layout.now.map.rule(), settings.placement);
    if rule != wanted {
        return Err(format!(
            "the data is placed by {rule}, and the configuration says {wanted}: say `placement`, `hash` and `virtual_nodes` as before, or begin a new cluster"
        ));
    }
    let now = names_of(&layout);
    if !lines.any(|line| line == said) {
        return Err(format!(
            "the data is of a cluster of {now}, and the configuration says {said}: nodes come and go by `weir kv join` and `weir kv leave`, and `nodes` says which there are now"
        ));
    }
    if layout.node_at(&own).is_none() {
        return Err(format!(
            "this node has left its cluster, which is {now} now: to let it join again, empty its directory and say `join = true`"
        ));
    }
    if now != said {
        eprintln!(
            "kv: the configuration says {said}, but since then nodes have come or gone: they are {now}, and `nodes` should say so"
        );
    }
    Ok(layout)
}

/// The nodes of the configuration, in the order of their addresses.
pub(super) fn names(settings: &ClusterSettings) -> String {
    let mut names: Vec<String> = settings.nodes.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The layout of a node that has had none.
fn first(
    settings: &ClusterSettings,
    engine: &dyn Engine,
    (own, names): (&str, &[&str]),
) -> Result<Layout, String> {
    let rule = settings.placement;
    let map = Map::following(rule, names).map_err(|error| error.to_string())?;
    if settings.is_joining {
        if let Some(owner) = engine.owner()? {
            return Err(format!(
                "the data is of the node {owner}: a node that is to join has none, so empty its directory, or take `join` away"
            ));
        }
        let others: Vec<&str> = names.iter().copied().filter(|name| *name != own).collect();
        // Nobody goes by it: this node is none of them.
        let map = Map::new(if others.is_empty() {
            &["nobody"]
        } else {
            &others
        });
        return map
            .map(|map| Layout::first(map, 1))
            .map_err(|error| error.to_string());
    }
    let mut owner = format!("{own} of {}", names.join(", "));
    if rule != Rule::default() {
        let _ = write!(owner, ", placed by {rule}");
    }
    // A store of one node may become the first of several.
    if names == [own] && engine.owner()?.as_deref() == Some(ALONE) {
        engine.note(&[(OWNER, owner.into())])?;
    } else {
        engine.claim(&owner)?;
    }
    Ok(Layout::first(map, settings.replicas))
}

fn names_of(layout: &Layout) -> String {
    let nodes = layout.now.map.nodes().iter();
    let names: Vec<&str> = nodes.map(|node| &*node.address).collect();
    names.join(", ")
}

/// Keeps a layout with the data, before anything goes by it; and the one of before, if what it had here may be elsewhere now.
///
/// # Errors
/// The disk refuses.
pub(super) fn keep(
    engine: &dyn Engine,
    (own, configured): (&str, &str),
    layout: &Layout,
    left: Option<Layout>,
) -> Result<(), String> {
    let kept = engine.noted(HISTORY)?.unwrap_or_default();
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let mut lines: Vec<String> = kept.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        lines.extend([own.to_owned(), configured.to_owned()]);
    }
    let next = layout.next.as_ref();
    let next = next.map(|next| names_of(&Layout::first(next.placement.map.clone(), 1)));
    for names in [Some(names_of(layout)), next].into_iter().flatten() {
        if !lines.contains(&names) {
            lines.push(names);
        }
    }
    let lines = Bytes::from(lines.join("\n"));
    let mut notes = vec![(HISTORY, lines), (LAYOUT, layout.encode())];
    if engine.owner()?.is_none() {
        let owner = format!("{own} of {}", names_of(layout));
        notes.push((OWNER, owner.into()));
    }
    if let Some(left) = left {
        let mut all = self::left(engine)?;
        all.push((unix_ms(), left));
        notes.push((LEFT, encode_left(&all)));
    }
    engine.note(&notes)
}

/// Layouts by which this node had keys that others may have now, and until when.
///
/// # Errors
/// The disk refuses.
pub(super) fn left(engine: &dyn Engine) -> Result<Vec<(u64, Layout)>, String> {
    let mut bytes = engine.noted(LEFT)?.unwrap_or_default();
    let mut left = Vec::new();
    while let (Ok(unix_ms), Ok(length)) = (bytes.try_get_u64(), bytes.try_get_u32()) {
        let length = (length as usize).min(bytes.len());
        let layout = Layout::decode(bytes.split_to(length));
        left.push((
            unix_ms,
            layout.ok_or("what is kept of the nodes is damaged")?,
        ));
    }
    Ok(left)
}

/// Nothing of those is here any more.
///
/// # Errors
/// The disk refuses.
pub(super) fn end_left(engine: &dyn Engine, ended: &[(u64, Layout)]) -> Result<(), String> {
    let mut all = left(engine)?;
    all.retain(|left| !ended.contains(left));
    engine.note(&[(LEFT, encode_left(&all))])
}

/// For each: milliseconds since 1970 (8), length (4), layout.
fn encode_left(all: &[(u64, Layout)]) -> Bytes {
    let mut bytes = BytesMut::new();
    for (unix_ms, layout) in all {
        let layout = layout.encode();
        bytes.put_u64(*unix_ms);
        bytes.put_u32(layout.len() as u32);
        bytes.extend_from_slice(&layout);
    }
    bytes.freeze()
}
