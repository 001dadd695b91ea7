//! How numbers are written: the same quantity looks the same in every table, plot and sentence.
//!
//! Pure formatting. A benchmark can defend three significant digits; published figures keep their own.

use super::estimate::Estimate;

/// A true minus sign: as wide as a plus, and not mistaken for a hyphen.
const MINUS: char = '−';

/// A quantity with at least three significant digits and a thousands separator: `2,360`, `67.4`, `0.361`.
pub(super) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        below if below < 0.000_5 => 0,
        below if below < 1.0 => 3,
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    with_thousands(&format!("{value:.decimals$}"))
}

/// A figure as others published it: at most two decimals, without trailing zeros.
pub(super) fn published(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    with_thousands(text)
}

/// A whole number with a thousands separator.
pub(super) fn count(value: u64) -> String {
    with_thousands(&value.to_string())
}

/// `low – high`, or nothing when there is no interval.
pub(super) fn interval(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{} – {}", figure(low), figure(high)),
        None => String::new(),
    }
}

/// A duration for people: `361 µs`, `12.4 ms`, `1.23 s`.
pub(super) fn time_us(us: f64) -> String {
    match us {
        _ if us < 1_000.0 => format!("{} µs", figure(us)),
        _ if us < 1_000_000.0 => format!("{} ms", figure(us / 1_000.0)),
        _ => format!("{} s", figure(us / 1_000_000.0)),
    }
}

/// Memory in mebibytes.
pub(super) fn mebibytes(bytes: u64) -> String {
    figure(bytes as f64 / f64::from(1 << 20))
}

/// A ratio as a change, rounded for a quick reading: `2.1 ×`, `+12 %`, `−18 %`.
pub(super) fn change(ratio: f64) -> String {
    if is_told_in_times(ratio) {
        format!("{} ×", times(ratio))
    } else {
        format!("{} %", percent(ratio))
    }
}

/// The interval of a ratio, in the unit that [`change`] chose for its value.
pub(super) fn change_interval(estimate: &Estimate) -> Option<String> {
    let (low, high) = estimate.interval?;
    Some(if is_told_in_times(estimate.value) {
        format!("{} – {}", times(low), times(high))
    } else {
        format!("{} – {} %", percent(low), percent(high))
    })
}

/// From twice on, people think in multiples; below that in percent.
pub(super) fn is_told_in_times(ratio: f64) -> bool {
    ratio >= 2.0
}

/// A ratio from 2 on: with two digits, which tell 2.1 from 2.3 and 21 from 22.
pub(super) fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.1}")
    } else {
        with_thousands(&format!("{ratio:.0}"))
    }
}

/// A ratio as signed percent. Small ones have a decimal, so that the ends of an interval differ.
pub(super) fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = usize::from(percent.abs() < 9.95);
    let digits = format!("{:.decimals$}", percent.abs());
    if digits.bytes().all(|digit| digit == b'0' || digit == b'.') {
        return "0".to_owned();
    }
    let sign = if percent < 0.0 { MINUS } else { '+' };
    format!("{sign}{}", with_thousands(&digits))
}

/// Puts commas into the whole part of a number in digits.
fn with_thousands(digits: &str) -> String {
    let (whole, fraction) = match digits.find('.') {
        Some(point) => digits.split_at(point),
        None => (digits, ""),
    };
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => (MINUS.to_string(), whole),
        None => (String::new(), whole),
    };
    let mut text = sign;
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.036_1, "0.036"),
            (0.361, "0.361"),
            (6.739, "6.74"),
            (67.39, "67.4"),
            (701.33, "701"),
            (2_359.69, "2,360"),
            (1_234_567.0, "1,234,567"),
            (-1_234.0, "−1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn published_figures_stay_as_they_were() {
        assert_eq!(published(2_359.69), "2,359.69");
        assert_eq!(published(470.0), "470");
        assert_eq!(published(22.5), "22.5");
    }

    #[test]
    fn a_ratio_is_percent_below_two_and_times_from_there() {
        assert_eq!(change(1.124), "+12 %");
        assert_eq!(change(0.82), "−18 %");
        assert_eq!(change(1.000_1), "0 %");
        assert_eq!(change(1.034), "+3.4 %");
        assert_eq!(change(2.13), "2.1 ×");
        assert_eq!(change(30.3), "30 ×");
    }
}
