//! What must hold of every `Range`, whatever the bytes: the first two are the length of the body, the rest the value.

use weir_cache::range::{self, RANGES_MAX, Wanted};

/// Panics if reading `data` as a range breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let [low, high, value @ ..] = data else {
        return;
    };
    let body_bytes = u64::from(u16::from_le_bytes([*low, *high]));
    let wanted = range::parse(value, body_bytes);
    let model = by_rule(value, body_bytes);
    let found: Vec<_> = match &wanted {
        Wanted::Whole | Wanted::Unsatisfiable => Vec::new(),
        Wanted::One(range) => vec![*range],
        Wanted::Many(ranges) => ranges.each().to_vec(),
    };
    assert!(
        found
            .iter()
            .all(|r| r.first <= r.last && r.last < body_bytes)
    );
    let total: u64 = found.iter().map(|range| range.bytes()).sum();
    assert!(total <= body_bytes, "no more is sent than there is");
    assert!(!matches!(&wanted, Wanted::Many(ranges) if ranges.each().len() < 2));
    match model {
        None => assert_eq!(wanted, Wanted::Whole),
        Some(ranges) if ranges.is_empty() => assert_eq!(wanted, Wanted::Unsatisfiable),
        Some(ranges) => {
            let found: Vec<_> = found.iter().map(|r| (r.first, r.last)).collect();
            assert_eq!(found, ranges);
        }
    }
}

/// A second opinion, with sets of positions: the ranges that there are, or `None` for what is answered whole.
fn by_rule(value: &[u8], body_bytes: u64) -> Option<Vec<(u64, u64)>> {
    let text: String = value.iter().map(|&b| char::from(b)).collect();
    let (unit, set) = text.split_once('=')?;
    // Strings have no meaning in ranges, and whatever has a quote in it is none.
    if !unit.eq_ignore_ascii_case("bytes") || set.contains('"') {
        return None;
    }
    let is_blank = |c: char| c.is_ascii_whitespace();
    let specs: Vec<_> = set
        .split(',')
        .map(|spec| spec.trim_matches(is_blank))
        .filter(|spec| !spec.is_empty())
        .collect();
    if specs.is_empty() || specs.len() > RANGES_MAX {
        return None;
    }
    let number = |digits: &str| -> Option<u128> {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u128::MAX))
    };
    let (mut ranges, mut taken) = (Vec::new(), vec![false; body_bytes as usize]);
    let end = u128::from(body_bytes);
    for spec in specs {
        let (first, last) = spec.split_once('-')?;
        let (from, to) = match (first, last) {
            ("", last) => (end.saturating_sub(number(last)?), end),
            (first, "") => (number(first)?, end),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                // Both are beyond what the code counts to, so it cannot tell that they are the wrong way round.
                let is_huge = last >= u128::from(u64::MAX);
                if last < first && !is_huge {
                    return None;
                }
                (first, last.saturating_add(1).min(end))
            }
        };
        if from >= to {
            continue;
        }
        let positions = from as usize..to as usize;
        if taken[positions.clone()].contains(&true) {
            return None;
        }
        taken[positions].fill(true);
        ranges.push((from as u64, to as u64 - 1));
    }
    Some(ranges)
}
