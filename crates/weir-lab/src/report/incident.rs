//! What a service that went bad during a load did to its requests: the figures behind tables and plots. Nothing is
//! written here.

use crate::raw::{Block, Incident};
use crate::statistics;

/// With less than this share of its usual requests, the service counts as left.
const LEFT_SHARE: f64 = 0.1;
/// With at least this share, the service counts as back.
const BACK_SHARE: f64 = 0.5;
/// The width of a point in curves.
const BIN_S: f64 = 0.5;

/// The figures of some blocks of one rung together.
pub(super) struct Suffered {
    /// Of the requests that were due while the service was bad, the part that failed or was slow.
    pub(super) share: f64,
    /// The same without its first second.
    pub(super) share_later: f64,
    /// The median time from when the service went bad until requests went elsewhere; `None` when in some block they
    /// never did.
    pub(super) left_s: Option<f64>,
    /// The time from when the service was well until requests came again.
    pub(super) back_s: Option<f64>,
}

/// `None` when no service went bad in any block.
pub(super) fn suffered(blocks: &[&Block]) -> Option<Suffered> {
    let incidents = blocks.iter().filter_map(|block| block.incident.as_ref());
    let incidents: Vec<&Incident> = incidents.collect();
    if incidents.is_empty() {
        return None;
    }
    let all = |of: fn(&Incident) -> Option<f64>| {
        let values: Option<Vec<f64>> = incidents.iter().map(|incident| of(incident)).collect();
        statistics::median(&values?)
    };
    Some(Suffered {
        share: share(&incidents, 0.0),
        share_later: share(&incidents, 1.0),
        left_s: all(left_s),
        back_s: all(back_s),
    })
}

/// The part of the requests that failed or were slow. It counts requests due between `after_s` seconds after the
/// service went bad and its recovery.
fn share(incidents: &[&Incident], after_s: f64) -> f64 {
    let (mut bad, mut due) = (0, 0.0);
    for incident in incidents {
        let (from_s, to_s) = (incident.from_s + after_s, incident.to_s);
        bad += lapses(incident, from_s, to_s);
        due += incident.rate * (to_s - from_s);
    }
    if due > 0.0 { bad as f64 / due } else { 0.0 }
}

fn lapses(incident: &Incident, from_s: f64, to_s: f64) -> u64 {
    let lapses = incident.lapses.iter();
    let due = lapses.filter(|lapse| (from_s..to_s).contains(&lapse.due_s));
    due.map(|lapse| lapse.failed + lapse.slow).sum()
}

/// Requests a second that reached the service before it went bad.
fn usual_rate(incident: &Incident) -> f64 {
    let before = incident
        .reached
        .iter()
        .filter(|it| it.from_s >= 0.0 && it.to_s <= incident.from_s);
    let (mut requests, mut seconds) = (0, 0.0);
    for reached in before {
        requests += reached.requests;
        seconds += reached.to_s - reached.from_s;
    }
    requests as f64 / f64::max(seconds, f64::MIN_POSITIVE)
}

fn left_s(incident: &Incident) -> Option<f64> {
    let few = usual_rate(incident) * LEFT_SHARE;
    let mut later = incident.reached.iter();
    let left = later.find(|it| {
        it.from_s >= incident.from_s && (it.requests as f64) < few * (it.to_s - it.from_s)
    })?;
    Some(left.from_s - incident.from_s)
}

fn back_s(incident: &Incident) -> Option<f64> {
    let enough = usual_rate(incident) * BACK_SHARE;
    let mut later = incident.reached.iter();
    let back = later.find(|it| {
        it.from_s >= incident.to_s && it.requests as f64 >= enough * (it.to_s - it.from_s)
    })?;
    Some(back.to_s - incident.to_s)
}

/// Percent of the requests due in each half second that failed or were slow, at the middle of the half second.
pub(super) fn bad_percent(incident: &Incident, seconds: f64) -> Vec<(f64, f64)> {
    bins(seconds)
        .map(|(from_s, to_s)| {
            let bad = lapses(incident, from_s, to_s);
            (from_s, to_s, 100.0 * bad as f64 / (incident.rate * BIN_S))
        })
        .map(in_the_middle)
        .collect()
}

/// Requests a second that reached the service in each half second.
pub(super) fn reached(incident: &Incident, seconds: f64) -> Vec<(f64, f64)> {
    bins(seconds)
        .map(|(from_s, to_s)| {
            let within = incident.reached.iter();
            let within = within.filter(|it| (from_s..to_s).contains(&it.from_s));
            let requests: u64 = within.clone().map(|it| it.requests).sum();
            let seconds: f64 = within.map(|it| it.to_s - it.from_s).sum();
            (from_s, to_s, requests as f64 / seconds.max(BIN_S / 5.0))
        })
        .map(in_the_middle)
        .collect()
}

fn bins(seconds: f64) -> impl Iterator<Item = (f64, f64)> {
    let count = (seconds / BIN_S).floor() as u32;
    (0..count).map(|bin| (f64::from(bin) * BIN_S, f64::from(bin + 1) * BIN_S))
}

fn in_the_middle((from_s, to_s, value): (f64, f64, f64)) -> (f64, f64) {
    (f64::midpoint(from_s, to_s), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Lapse, Reached};

    /// A hundred requests a second, of which the service gets 30. It is bad from second 2 to 6, left at 2.5 and back at
    /// 9.
    fn incident() -> Incident {
        let reached = (0..100).map(|tenth| {
            let from_s = f64::from(tenth) / 10.0;
            let is_left = (2.5..9.0).contains(&from_s);
            Reached {
                from_s,
                to_s: from_s + 0.1,
                requests: if is_left { 0 } else { 3 },
            }
        });
        let lapse = |due_s, failed, slow| Lapse {
            due_s,
            failed,
            slow,
        };
        Incident {
            service: "app".to_owned(),
            mode: "fail".to_owned(),
            from_s: 2.0,
            to_s: 6.0,
            rate: 100.0,
            lapses: vec![
                lapse(1.9, 7, 0),
                lapse(2.1, 10, 2),
                lapse(5.0, 0, 3),
                lapse(6.0, 9, 9),
            ],
            reached: reached.collect(),
        }
    }

    #[test]
    fn shares_are_of_due_requests_and_times_count_from_the_change() {
        let mut block = crate::blocks::tests::block("A", 0);
        assert!(suffered(&[&block]).is_none());
        block.incident = Some(incident());
        let found = suffered(&[&block]).expect("an incident");
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(is_near(found.share, 15.0 / 400.0), "{}", found.share);
        assert!(is_near(found.share_later, 3.0 / 300.0));
        assert!(found.left_s.is_some_and(|left| is_near(left, 0.5)));
        assert!(found.back_s.is_some_and(|back| is_near(back, 3.1)));
        block
            .incident
            .as_mut()
            .expect("it is there")
            .reached
            .truncate(50);
        let found = suffered(&[&block]).expect("an incident");
        assert_eq!(found.back_s, None);
    }

    #[test]
    fn curves_have_a_point_for_each_half_second() {
        let bad = bad_percent(&incident(), 10.0);
        assert_eq!((bad.len(), bad[4]), (20, (2.25, 24.0)));
        let reached = reached(&incident(), 10.0);
        assert!((reached[0].1 - 30.0).abs() < 1e-6 && reached[8].1 == 0.0);
    }
}
