//! Sets of response statuses: `["5xx", "502-504", 429]`.

use std::ops::RangeInclusive;

use weir_gateway::settings::StatusSet;

use crate::config::value::Value;

/// Statuses of responses that a request ends with.
const STATUSES: RangeInclusive<u16> = 200..=599;
const LIST_EXPECTED: &str = "statuses such as [\"5xx\", \"502-504\", 429]";
const EXPECTED: &str =
    "a status from 200 to 599, a class such as \"5xx\" or a range such as \"502-504\"";

/// Reads a list of statuses.
pub(super) fn set(value: &Value) -> Option<StatusSet> {
    let items = value.list(LIST_EXPECTED)?;
    let ranges: Vec<_> = items.iter().filter_map(range).collect();
    (ranges.len() == items.len()).then_some(StatusSet(ranges))
}

fn range(item: &Value) -> Option<RangeInclusive<u16>> {
    if item.as_str().is_some() {
        return item.parsed(EXPECTED, |text| {
            named(text).ok_or_else(|| format!("expected {EXPECTED}"))
        });
    }
    let status = item.as_integer().and_then(|status| status.try_into().ok());
    let status = status.filter(|status| STATUSES.contains(status));
    if status.is_none() {
        item.expected(EXPECTED);
    }
    status.map(|status| status..=status)
}

/// `5xx` or `502-504`.
fn named(text: &str) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| {
        let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        let status = is_number.then(|| text.parse().ok()).flatten();
        status.filter(|status| STATUSES.contains(status))
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
