//! Sets of response statuses: `["5xx", "502-504", 429]`.

use std::ops::RangeInclusive;

use weir_gateway::settings::StatusSet;

use crate::config::declared::care::{STATUS_EXPECTED, STATUS_RANGE};
use crate::config::entry::Entry;

/// Reads a list of statuses.
pub(super) fn set(value: &Entry) -> Option<StatusSet> {
    let items = value.list()?;
    let ranges: Vec<_> = items.iter().filter_map(range).collect();
    (ranges.len() == items.len()).then_some(StatusSet(ranges))
}

fn range(item: &Entry) -> Option<RangeInclusive<u16>> {
    if item.as_str().is_some() {
        return item
            .parsed(|text| named(text).ok_or_else(|| format!("expected {STATUS_EXPECTED}")));
    }
    let status = item.as_integer().map(|status| status as u16);
    if status.is_none() {
        item.unexpected();
    }
    status.map(|status| status..=status)
}

/// `5xx` or `502-504`.
fn named(text: &str) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| {
        let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        let status = is_number.then(|| text.parse().ok()).flatten();
        status.filter(|status| STATUS_RANGE.contains(status))
    };
    let (from, to) = if let Some(class) = text.strip_suffix("xx") {
        (format!("{class}00"), format!("{class}99"))
    } else {
        let (from, to) = text.split_once('-')?;
        (from.to_owned(), to.to_owned())
    };
    let (from, to) = (status(&from)?, status(&to)?);
    (from <= to).then_some(from..=to)
}
