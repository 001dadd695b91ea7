//! Civil dates in UTC and the three ways they are written: HTTP headers, the combined log, the JSON log.
//!
//! A moment is given as Unix seconds. Nothing here reads a clock, knows time zones or leap seconds, or allocates beyond
//! the caller's buffer. Workers format dates on the hot path, so the digits come from a table and each form is one
//! append. `date/parse.rs` reads HTTP dates.

mod parse;

pub use parse::parse_http_date;

/// The last second that a year of four digits can express: 9999-12-31T23:59:59Z. Every form here has four digits of
/// year.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

const SECONDS_PER_DAY: u64 = 86_400;

/// A second of UTC in the proleptic Gregorian calendar. Only [`Civil::from_unix`] makes one, so its fields agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Civil {
    /// 1970 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59; Unix time has no leap seconds.
    pub second: u8,
    /// 0 is Sunday, 6 is Saturday.
    pub weekday: u8,
}

impl Civil {
    /// The date of `seconds` after 1970-01-01T00:00:00Z. Anything after the year 9999 becomes its last second.
    pub fn from_unix(seconds: u64) -> Self {
        let seconds = seconds.min(UNIX_SECONDS_MAX);
        let days = (seconds / SECONDS_PER_DAY) as u32;
        let second_of_day = (seconds % SECONDS_PER_DAY) as u32;
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            hour: (second_of_day / 3600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
            // 1970-01-01 was a Thursday.
            weekday: ((days + 4) % 7) as u8,
        }
    }

    /// Appends the form of HTTP headers, RFC 9110 section 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn write_imf_fixdate(self, out: &mut Vec<u8>) {
        let mut text = *b"Www, DD Mmm YYYY hh:mm:ss GMT";
        put(&mut text, 0, WEEKDAYS[usize::from(self.weekday)]);
        put(&mut text, 5, two_digits(self.day));
        put(&mut text, 8, self.month_name());
        put(&mut text, 12, &self.year_digits());
        self.put_time(&mut text, 17);
        out.extend_from_slice(&text);
    }

    /// Appends the form of the common and combined log formats: `10/Oct/2000:13:55:36 +0000`.
    pub fn write_clf(self, out: &mut Vec<u8>) {
        let mut text = *b"DD/Mmm/YYYY:hh:mm:ss +0000";
        put(&mut text, 0, two_digits(self.day));
        put(&mut text, 3, self.month_name());
        put(&mut text, 7, &self.year_digits());
        self.put_time(&mut text, 12);
        out.extend_from_slice(&text);
    }

    /// Appends the form of RFC 3339 and ISO 8601: `2026-11-21T00:37:11Z`.
    pub fn write_iso8601(self, out: &mut Vec<u8>) {
        let mut text = *b"YYYY-MM-DDThh:mm:ssZ";
        put(&mut text, 0, &self.year_digits());
        put(&mut text, 5, two_digits(self.month));
        put(&mut text, 8, two_digits(self.day));
        self.put_time(&mut text, 11);
        out.extend_from_slice(&text);
    }

    fn put_time(self, text: &mut [u8], at: usize) {
        put(text, at, two_digits(self.hour));
        put(text, at + 3, two_digits(self.minute));
        put(text, at + 6, two_digits(self.second));
    }

    fn month_name(self) -> &'static [u8] {
        MONTHS[usize::from(self.month) - 1]
    }

    fn year_digits(self) -> [u8; 4] {
        let (century, year) = (
            two_digits((self.year / 100) as u8),
            two_digits((self.year % 100) as u8),
        );
        [century[0], century[1], year[0], year[1]]
    }
}

/// Year, month and day of a day counted from 1970-01-01, after `civil_from_days` in Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms".
///
/// Years are counted from 1 March, so that the leap day is the last day of its year, and in eras of 400 years, which
/// all have the same number of days.
fn civil_from_days(days: u32) -> (u16, u8, u8) {
    const DAYS_PER_ERA: u32 = 146_097;
    const DAYS_FROM_YEAR_0_MARCH_TO_1970: u32 = 719_468;
    let days = days + DAYS_FROM_YEAR_0_MARCH_TO_1970;
    let era = days / DAYS_PER_ERA;
    let day_of_era = days % DAYS_PER_ERA;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, later_year) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    (
        (era * 400 + year_of_era + later_year) as u16,
        month as u8,
        day as u8,
    )
}

const WEEKDAYS: [&[u8]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const TWO_DIGITS: [[u8; 2]; 100] = {
    let mut table = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        table[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    table
};

fn two_digits(number: u8) -> &'static [u8; 2] {
    &TWO_DIGITS[usize::from(number)]
}

fn put(text: &mut [u8], at: usize, part: &[u8]) {
    text[at..at + part.len()].copy_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(seconds: u64, write: fn(Civil, &mut Vec<u8>)) -> String {
        let mut out = b"> ".to_vec();
        write(Civil::from_unix(seconds), &mut out);
        String::from_utf8(out)
            .unwrap()
            .strip_prefix("> ")
            .expect("what was in the buffer stays")
            .to_owned()
    }

    /// Unix seconds, the HTTP date, ISO 8601: the epoch, leap days, ends of years, 2100, which has no leap day, and the
    /// last second that can be written.
    #[rustfmt::skip]
    const MOMENTS: [(u64, &str, &str); 15] = [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT", "2000-02-28T23:59:59Z"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00Z"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT", "2000-03-01T00:00:00Z"),
        (1_704_067_199, "Sun, 31 Dec 2023 23:59:59 GMT", "2023-12-31T23:59:59Z"),
        (1_704_067_200, "Mon, 01 Jan 2024 00:00:00 GMT", "2024-01-01T00:00:00Z"),
        (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT", "2024-02-29T00:00:00Z"),
        (1_735_603_200, "Tue, 31 Dec 2024 00:00:00 GMT", "2024-12-31T00:00:00Z"),
        (1_795_221_431, "Sat, 21 Nov 2026 00:37:11 GMT", "2026-11-21T00:37:11Z"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT", "2100-02-28T23:59:59Z"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00Z"),
        (UNIX_SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z"),
        (UNIX_SECONDS_MAX + 1, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z"),
    ];

    #[test]
    fn moments_are_written_as_http_dates_and_iso_8601() {
        for (seconds, http, iso) in MOMENTS {
            assert_eq!(
                written(seconds, Civil::write_imf_fixdate),
                http,
                "{seconds}"
            );
            assert_eq!(written(seconds, Civil::write_iso8601), iso, "{seconds}");
        }
    }

    #[test]
    fn log_lines_carry_the_common_log_format() {
        assert_eq!(
            written(971_186_136, Civil::write_clf),
            "10/Oct/2000:13:55:36 +0000"
        );
        assert_eq!(written(0, Civil::write_clf), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(
            written(1_709_164_800, Civil::write_clf),
            "29/Feb/2024:00:00:00 +0000"
        );
    }

    #[test]
    fn every_day_to_the_year_9999_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..=UNIX_SECONDS_MAX / SECONDS_PER_DAY {
            let civil = Civil::from_unix(days * SECONDS_PER_DAY);
            assert_eq!(
                (civil.year, civil.month, civil.day),
                (year, month, day),
                "day {days}"
            );
            assert_eq!(u64::from(civil.weekday), (days + 4) % 7);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }

    /// The rule as a calendar states it, on purpose not computed as in the code above.
    fn days_in_month(year: u16, month: u8) -> u8 {
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}
