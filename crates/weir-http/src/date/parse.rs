//! Reading the three forms of an HTTP date (RFC 9110 §5.6.7).
//!
//! The grammar is followed to the byte, with two exceptions that RFC 9111 §4.2 asks of caches: letters in any case, and
//! `UTC` for `GMT`. Anything else is no date; the caller decides what an unreadable date means. The day of the week
//! only has to be a valid word, because a recipient learns nothing from it.

use super::{MONTHS, SECONDS_PER_DAY, WEEKDAYS};

/// The Unix second that `text` means. Moments before 1970 become second 0.
///
/// `now` is the current Unix second. The form of RFC 850 has a year of two digits, which means the past if it would be
/// more than fifty years ahead.
///
/// ```
/// use weir_http::date::parse_http_date;
/// assert_eq!(parse_http_date(b"Sun, 06 Nov 1994 08:49:37 GMT", 0), Some(784_111_777));
/// assert_eq!(parse_http_date(b"0", 0), None);
/// ```
pub fn parse_http_date(text: &[u8], now: u64) -> Option<u64> {
    match text.iter().position(|&b| b == b',') {
        Some(3) => imf_fixdate(text),
        Some(_) => rfc850(text, now),
        None => asctime(text),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<u64> {
    let text: &[u8; 29] = text.try_into().ok()?;
    expect(&text[3..5], b", ")?;
    expect(&text[7..8], b" ")?;
    expect(&text[11..12], b" ")?;
    expect(&text[16..17], b" ")?;
    zone(&text[25..])?;
    short_weekday(&text[..3])?;
    let year = number(&text[12..16])?;
    moment(
        year,
        month(&text[8..11])?,
        number(&text[5..7])?,
        &text[17..25],
    )
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], now: u64) -> Option<u64> {
    let comma = text.iter().position(|&b| b == b',')?;
    let (weekday, rest) = text.split_at(comma);
    LONG_WEEKDAYS
        .iter()
        .find(|name| name.eq_ignore_ascii_case(weekday))?;
    let rest: &[u8; 24] = rest.try_into().ok()?;
    expect(&rest[..2], b", ")?;
    expect(&rest[4..5], b"-")?;
    expect(&rest[8..9], b"-")?;
    expect(&rest[11..12], b" ")?;
    zone(&rest[20..])?;
    let this_year = u64::from(super::Civil::from_unix(now).year);
    let mut year = this_year - this_year % 100 + number(&rest[9..11])?;
    // Two digits name a year in each century; the latest one at most fifty years ahead is meant.
    if year > this_year + 50 {
        year -= 100;
    } else if year + 100 <= this_year + 50 {
        year += 100;
    }
    moment(
        year,
        month(&rest[5..8])?,
        number(&rest[2..4])?,
        &rest[12..20],
    )
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    short_weekday(&text[..3])?;
    expect(&text[3..4], b" ")?;
    expect(&text[7..8], b" ")?;
    expect(&text[10..11], b" ")?;
    expect(&text[19..20], b" ")?;
    let day = match &text[8..10] {
        [b' ', digit] => number(&[*digit])?,
        digits => number(digits)?,
    };
    moment(
        number(&text[20..])?,
        month(&text[4..7])?,
        day,
        &text[11..19],
    )
}

/// The Unix second of a date and a time of the form `08:49:37`.
fn moment(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    expect(&time[2..3], b":")?;
    expect(&time[5..6], b":")?;
    let (hour, minute) = (number(&time[..2])?, number(&time[3..5])?);
    // A leap second is written as 60 and counts as the second after 59.
    let second = number(&time[6..])?;
    if hour > 23 || minute > 59 || second > 60 || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    if year < 1970 {
        return Some(0);
    }
    let days = days_from_civil(year, month, day);
    Some(days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a day of 1970 or later: years from 1 March, in eras of 400, as in
/// [`civil_from_days`](super::civil_from_days).
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in_month(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn expect(text: &[u8], wanted: &[u8]) -> Option<()> {
    (text == wanted).then_some(())
}

fn zone(text: &[u8]) -> Option<()> {
    let is_utc = text.eq_ignore_ascii_case(b" GMT") || text.eq_ignore_ascii_case(b" UTC");
    is_utc.then_some(())
}

fn short_weekday(text: &[u8]) -> Option<()> {
    let is_one = WEEKDAYS.iter().any(|name| name.eq_ignore_ascii_case(text));
    is_one.then_some(())
}

fn month(text: &[u8]) -> Option<u64> {
    let at = MONTHS
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text))?;
    Some(at as u64 + 1)
}

/// A number that consists only of digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

const LONG_WEEKDAYS: [&[u8]; 7] = [
    b"Sunday",
    b"Monday",
    b"Tuesday",
    b"Wednesday",
    b"Thursday",
    b"Friday",
    b"Saturday",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Civil;

    const NOW: u64 = 1_795_221_431;

    #[test]
    fn the_three_forms_mean_the_same_moment() {
        let forms: [&[u8]; 5] = [
            b"Sun, 06 Nov 1994 08:49:37 GMT",
            b"sun, 06 NOV 1994 08:49:37 utc",
            b"Sunday, 06-Nov-94 08:49:37 GMT",
            b"Sun Nov  6 08:49:37 1994",
            b"Sun Nov 06 08:49:37 1994",
        ];
        for form in forms {
            let text = form.escape_ascii();
            assert_eq!(parse_http_date(form, NOW), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn two_digits_of_year_reach_fifty_years_ahead() {
        let year_of = |text: &[u8], now| {
            let seconds = parse_http_date(text, now).expect("a date");
            Civil::from_unix(seconds).year
        };
        assert_eq!(year_of(b"Thursday, 18-Aug-50 02:01:18 GMT", NOW), 2050);
        assert_eq!(year_of(b"Thursday, 18-Aug-76 02:01:18 GMT", NOW), 2076);
        assert_eq!(year_of(b"Thursday, 18-Aug-77 02:01:18 GMT", NOW), 1977);
        assert_eq!(year_of(b"Thursday, 18-Aug-94 02:01:18 GMT", NOW), 1994);
        // 2095: 01 is six years ahead.
        assert_eq!(
            year_of(b"Thursday, 18-Aug-01 02:01:18 GMT", 3_960_000_000),
            2101
        );
    }

    #[test]
    fn what_is_no_date() {
        let bad: [&[u8]; 20] = [
            b"",
            b"0",
            b"-1",
            b",",
            b"Sun, 06 Nov 1994 08:49:37 EST",
            b"Sun, 06 Nov 1994 08:49:37",
            b"Sun, 6 Nov 1994 08:49:37 GMT",
            b"Sun, 06  Nov 1994 08:49:37 GM",
            b"Sun, 06-Nov-1994 08:49:37 GMT",
            b"Sun, 06 Nov 1994 8:49:37 GMTx",
            b"Sun, 06 Nov 94 08:49:37 GMT",
            b"Sun 06 Nov 1994 08:49:37 GMT",
            b"Sun, 06 Nov 1994 08.49.37 GMT",
            b"Sun, 31 Nov 1994 08:49:37 GMT",
            b"Sun, 29 Feb 2100 08:49:37 GMT",
            b"Sun, 00 Nov 1994 08:49:37 GMT",
            b"Sun, 06 Nov 1994 24:49:37 GMT",
            b"Sun, 06 Nov +994 08:49:37 GMT",
            b"Xxx, 06 Nov 1994 08:49:37 GMT",
            b"Sunday, 06-Nov-1994 08:49:37 GMT",
        ];
        for text in bad {
            assert_eq!(parse_http_date(text, NOW), None, "{}", text.escape_ascii());
        }
        assert_eq!(
            parse_http_date(b"Sun, 06 Nov 1904 08:49:37 GMT", NOW),
            Some(0)
        );
        assert_eq!(
            parse_http_date(b"Tue, 30 Jun 2015 23:59:60 GMT", NOW),
            Some(1_435_708_800)
        );
    }

    #[test]
    fn every_day_that_is_written_is_read_again() {
        let mut text = Vec::new();
        for days in (0..2_932_896_u64).step_by(7) {
            let seconds = days * SECONDS_PER_DAY + days % SECONDS_PER_DAY;
            text.clear();
            Civil::from_unix(seconds).write_imf_fixdate(&mut text);
            assert_eq!(parse_http_date(&text, NOW), Some(seconds));
        }
    }
}
