//! Durations and sizes as people write them: a number and a unit.
//!
//! Arithmetic is exact: a text that comes out as no whole number of nanoseconds or bytes is refused, not rounded.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::suggest::{did_you_mean, quoted};

/// What a duration looks like.
pub(super) const DURATION_EXPECTED: &str = r#"a duration such as "500ms", "2s", "1m" or "1h""#;
/// What a size looks like.
pub(super) const SIZE_EXPECTED: &str = r#"a size such as "512", "16KiB", "1MiB" or "10GiB""#;

/// A regular expression for durations and one for sizes.
pub(super) const DURATION_PATTERN: &str = "^[0-9]+([.][0-9]+)?(ms|s|m|h|d)$";
pub(super) const SIZE_PATTERN: &str = "^[0-9]+([.][0-9]+)?(B|KiB|MiB|GiB|KB|MB|GB)?$";

/// The shortest duration there is: a range that begins here means "more than zero".
pub(crate) const ABOVE_ZERO: Duration = Duration::from_nanos(1);

/// Nanoseconds. The first unit that begins like a wrong one is suggested for it.
const DURATION_UNITS: [(&str, u128); 5] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// Bytes, likewise.
const SIZE_UNITS: [(&str, u128); 8] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads a duration within `range`.
pub(crate) fn duration(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let Some(nanos) = quantity(text, &DURATION_UNITS) else {
        let meant = meant(text, &DURATION_UNITS);
        return Err(format!(
            "expected {DURATION_EXPECTED}{}",
            did_you_mean(meant.as_deref())
        ));
    };
    let duration = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    if range.contains(&duration) {
        return Ok(duration);
    }
    let most = quoted(&show_duration(*range.end()));
    Err(if *range.start() == ABOVE_ZERO {
        format!("expected a duration above zero and at most {most}")
    } else {
        let least = quoted(&show_duration(*range.start()));
        format!("expected a duration from {least} to {most}")
    })
}

/// Reads a number of bytes within `range`.
pub(super) fn size_bytes(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let Some(bytes) = quantity(text, &SIZE_UNITS) else {
        let meant = meant(text, &SIZE_UNITS);
        return Err(format!(
            "expected {SIZE_EXPECTED}{}",
            did_you_mean(meant.as_deref())
        ));
    };
    let bytes = u64::try_from(bytes)
        .ok()
        .filter(|bytes| range.contains(bytes));
    bytes.ok_or_else(|| format!("expected {}", size_range_expected(range)))
}

/// Names the bounds of a size.
pub(super) fn size_range_expected(range: &RangeInclusive<u64>) -> String {
    let least = quoted(&show_size(*range.start()));
    let most = quoted(&show_size(*range.end()));
    format!("a size from {least} to {most}")
}

/// `1.5s` in the smallest unit of `units`; `None` when the text is no such thing or does not come out even.
fn quantity(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let (number, unit) = split_unit(text);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (number, ""),
    };
    if whole.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(*scale)?;
    (scaled % divisor == 0).then(|| scaled / divisor)
}

/// The text with a unit that exists, when only its spelling was wrong: `1 MB`, `10S`, `256k`.
fn meant(text: &str, units: &[(&str, u128)]) -> Option<String> {
    let (number, unit) = split_unit(text);
    let unit = unit.trim().to_lowercase();
    let begins_alike = |name: &str| !unit.is_empty() && name.to_lowercase().starts_with(&unit);
    let (name, _) = units.iter().find(|(name, _)| begins_alike(name))?;
    let repaired = format!("{number}{name}");
    quantity(&repaired, units).map(|_| repaired)
}

fn split_unit(text: &str) -> (&str, &str) {
    let is_unit = |c: char| !c.is_ascii_digit() && c != '.';
    text.split_at(text.find(is_unit).unwrap_or(text.len()))
}

/// A duration as it can be written.
pub(super) fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    // Days are left out: everyone reads "24h" as it is meant.
    let units = &DURATION_UNITS[1..];
    let fits = units.iter().find(|(_, scale)| nanos.is_multiple_of(*scale));
    fits.map_or_else(
        || format!("{nanos}ns"),
        |(unit, scale)| format!("{}{unit}", nanos / scale),
    )
}

/// A size as it can be written.
pub(super) fn show_size(bytes: u64) -> String {
    let unit = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = unit
        .into_iter()
        .find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale));
    fits.map_or_else(
        || format!("{bytes}B"),
        |(unit, scale)| format!("{}{unit}", bytes / scale),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_come_out_exact() {
        let any = Duration::ZERO..=Duration::MAX;
        for (text, nanos) in [
            ("500ms", 500_000_000),
            ("2s", 2_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1m", 60_000_000_000),
            ("0.25h", 900_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0.000001ms", 1),
        ] {
            assert_eq!(
                duration(text, &any),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        for (text, bytes) in [
            ("512", 512),
            ("0", 0),
            ("512B", 512),
            ("16KiB", 16_384),
            ("1MiB", 1_048_576),
            ("1.5GiB", 1_610_612_736),
            ("10KB", 10_000),
            ("3MB", 3_000_000),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(size_bytes(text, &(0..=u64::MAX)), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "s",
            ".",
            ".5s",
            "1.s",
            "1..5s",
            "1.5.0s",
            "-1s",
            "+1s",
            "1e3s",
            "1",
            "1 s",
            "1S",
            "0.0000001ms",
            "99999999999999999999999999999999999999999s",
            "١s",
        ] {
            assert_eq!(quantity(text, &DURATION_UNITS), None, "{text:?}");
        }
        for text in ["", "B", "0.5", "0.3KiB", "1k", "1kib", "-1"] {
            assert_eq!(quantity(text, &SIZE_UNITS), None, "{text:?}");
        }
    }

    #[test]
    fn a_misspelt_unit_is_recognised() {
        for (text, repaired) in [("10S", "10s"), ("1 h", "1h"), ("5M", "5m")] {
            assert_eq!(meant(text, &DURATION_UNITS).as_deref(), Some(repaired));
        }
        for (text, repaired) in [("256k", "256KiB"), ("1 mb", "1MB"), ("2gib", "2GiB")] {
            assert_eq!(meant(text, &SIZE_UNITS).as_deref(), Some(repaired));
        }
        for text in ["5", "x", "5parsecs"] {
            assert_eq!(meant(text, &DURATION_UNITS), None, "{text:?}");
        }
    }
}
