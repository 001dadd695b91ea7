//! What a node does of what it is told.

use super::Layout;
use crate::frame::Change;

/// What a node goes by after it was told of a change; `None` if nothing changes by that. `layout` is that of before; a node that waits has
/// none.
///
/// # Errors
/// It does not follow what there is.
pub fn told(own: &str, layout: Option<&Layout>, change: &Change) -> Result<Option<Layout>, String> {
    let next = layout.and_then(|layout| layout.next.as_ref());
    let next = next.map(|next| next.placement.map.epoch());
    match (change, layout) {
        (Change::Prepare(prepared), Some(layout)) if **prepared == *layout => Ok(None),
        (Change::Prepare(prepared), layout) => {
            prepare(own, layout, prepared)?;
            Ok(Some(Layout::clone(prepared)))
        }
        (Change::Move(epoch), Some(_)) if next == Some(*epoch) => Ok(None),
        (Change::Commit(epoch), Some(layout)) if layout.now.map.epoch() == *epoch => Ok(None),
        (Change::Commit(epoch), Some(layout)) if next == Some(*epoch) => Ok(layout.committed()),
        (Change::Abort(epoch), Some(layout)) if next == Some(*epoch) => Ok(Some(layout.aborted())),
        (Change::Abort(epoch), Some(layout))
            if next.is_none() && layout.now.map.epoch() != *epoch =>
        {
            Ok(None)
        }
        (_, None) => Err("this node has not joined yet".to_owned()),
        (Change::Move(epoch) | Change::Commit(epoch) | Change::Abort(epoch), Some(layout)) => {
            Err(format!(
                "this node has the map of epoch {}{}, and is told of {epoch}",
                layout.now.map.epoch(),
                next.map_or(String::new(), |next| format!(
                    ", which that of epoch {next} is to follow"
                ))
            ))
        }
    }
}

/// Whether a node may go by a layout in which another placement is to follow.
fn prepare(own: &str, layout: Option<&Layout>, prepared: &Layout) -> Result<(), String> {
    if prepared.next.is_none() || prepared.node_at(own).is_none() {
        return Err(format!("the new layout does not have {own}"));
    }
    match layout {
        None if prepared.now.map.node(own).is_some() => Err(format!(
            "{own} is one of the nodes already, but has no data: if it has lost its disk, let it leave with --gone, and join again"
        )),
        None => Ok(()),
        Some(layout) if layout.node_at(own).is_none() => Err(format!(
            "{own} has left: to let it join again, empty its directory and start it with `join = true`"
        )),
        Some(Layout { next: Some(_), .. }) => {
            Err("another change is under way here: finish it, or abort it".to_owned())
        }
        Some(layout) => {
            let next = prepared.next.clone();
            let follows = next.and_then(|next| layout.prepared(next));
            if follows.as_ref() == Some(prepared) {
                Ok(())
            } else {
                Err("the new layout does not follow the one of this node".to_owned())
            }
        }
    }
}
