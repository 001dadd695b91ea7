//! How a change is taken back.

use super::{At, Layout, Seen, Step, decider, overtaken};
use crate::frame::{Change, Membership};

/// What to do next, to have all nodes go by the map of before again. Those in `lost` are lost for good, and never told: what they have
/// decided, if they have, is known to nobody then.
pub fn step_back(goal: &Layout, seen: &[Seen], lost: &[Box<str>]) -> Step {
    let Some(next) = &goal.next else {
        return Step::Done;
    };
    let epoch = next.placement.map.epoch();
    let is_lost = |(node, _): &&Seen| lost.contains(node);
    let of = |seen: &Option<Membership>| At::of(goal, seen.as_ref());
    if let Some((node, _)) = seen.iter().find(|seen| is_lost(seen) && seen.1.is_some()) {
        return Step::Fail(format!("{node} answers, so it is not lost"));
    }
    let is_committed = |(_, seen): &&Seen| of(seen) == At::Committed;
    if let Some((node, _)) = seen.iter().find(is_committed) {
        return Step::Fail(format!(
            "{node} has ended the change already: `weir kv finish` has all others follow"
        ));
    }
    let decider = decider(goal);
    let is_decider = |(node, _): &&Seen| Some(node) == decider.as_ref();
    let mut all_others = seen.iter().filter(|seen| !is_lost(seen));
    let deciding = seen.iter().find(is_decider);
    match deciding.map(|deciding| (deciding, of(&deciding.1))) {
        // Nobody may know what it has decided, unless all others say that they do not.
        Some((deciding, At::Away)) if is_lost(&deciding) => {
            if let Some((node, _)) = all_others.find(|(_, seen)| seen.is_none()) {
                return Step::Wait(format!("{node} does not answer"));
            }
        }
        Some(((node, _), At::Away)) => {
            return Step::Fail(format!(
                "{node} does not answer, and it is the one that decides: start it first, or say --gone {node} if it is lost for good"
            ));
        }
        Some(((node, _), At::Prepared)) => {
            return Step::Tell(vec![(node.clone(), Change::Abort(epoch))]);
        }
        _ => {}
    }
    let prepared = seen.iter().filter(|(_, seen)| of(seen) == At::Prepared);
    let told: Vec<_> = prepared
        .map(|(node, _)| (node.clone(), Change::Abort(epoch)))
        .collect();
    let mut away = seen
        .iter()
        .filter(|seen| of(&seen.1) == At::Away && !is_lost(seen));
    match (told.is_empty(), overtaken(goal, seen), away.next()) {
        (false, ..) => Step::Tell(told),
        // It was not ended, since that takes all nodes, and these did not follow; but it is not known here what they go by.
        (true, Some(why), _) => Step::Overtaken(why),
        (true, None, Some((node, _))) => Step::Wait(format!(
            "{node} does not answer; it goes by both maps when it is back, until it is told: say --gone {node} if it is lost for good"
        )),
        (true, None, None) => Step::Done,
    }
}
