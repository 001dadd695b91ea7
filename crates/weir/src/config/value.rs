//! A value of TOML that knows its key and its line, and the types it may be asked for.
//!
//! As in `read`, what is not of the type asked for is reported here and answered with `None`.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde_json::{Number, Value as Json};
use toml::Spanned;
use toml::de::DeValue;

use super::error::Report;
use super::read::Table;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::units;

/// A value and where it stands.
pub(super) struct Value<'a> {
    report: &'a Report,
    at: usize,
    key: String,
    content: &'a DeValue<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn new(report: &'a Report, key: String, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self {
            report,
            at: value.span().start,
            key,
            content: value.get_ref(),
        }
    }

    /// Reports a problem of this value.
    pub(super) fn wrong(&self, message: impl Into<String>) {
        self.report.add(self.at, &self.key, message);
    }

    /// Reports that something else was expected here.
    pub(super) fn expected(&self, expected: &str) {
        self.wrong(format!("found {}, expected {expected}", self.shown()));
    }

    /// What stands here, as it is written.
    fn shown(&self) -> String {
        let written = self.report.written(self.at);
        written.map_or_else(|| describe(self.content), |written| quoted(&written))
    }

    /// The byte of the text at which the value begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Where relative paths begin in the file that has the value.
    pub(super) fn directory(&self) -> &'a Path {
        self.report.directory_of(self.at)
    }

    /// The line on which the value begins.
    pub(super) fn line(&self) -> usize {
        self.report.line(self.at)
    }

    /// The text when the value is one; says nothing when it is not.
    pub(super) fn as_str(&self) -> Option<&'a str> {
        self.content.as_str()
    }

    /// Whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        self.content.is_table()
    }

    /// A text; `expected` describes it in full.
    pub(super) fn text(&self, expected: &str) -> Option<&'a str> {
        let text = self.as_str();
        if text.is_none() {
            self.expected(expected);
        }
        text
    }

    /// What `parse` makes of a text. Its complaint follows `found "…", `.
    pub(super) fn parsed<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(expected)?;
        self.judged(expected, parse(text))
    }

    /// The same for a text with variables in braces. Braces that came from outside stand for themselves.
    pub(super) fn parsed_template<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(expected)?;
        let literal = self.report.literal(self.at);
        self.judged(expected, parse(literal.as_deref().unwrap_or(text)))
    }

    fn judged<T>(&self, expected: &str, parsed: Result<T, String>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(complaint) => {
                // A complaint may repeat a part of the text.
                let complaint = if self.report.repeats_outside(self.at, &complaint) {
                    format!("expected {expected}")
                } else {
                    complaint
                };
                self.wrong(format!("found {}, {complaint}", self.shown()));
                None
            }
        }
    }

    /// The number when the value is a whole one and not negative; says nothing when it is not.
    pub(super) fn as_integer(&self) -> Option<u64> {
        let integer = self.content.as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// The truth value when the value is one; says nothing when it is not.
    pub(super) fn as_bool(&self) -> Option<bool> {
        self.content.as_bool()
    }

    /// A truth value.
    pub(super) fn boolean(&self) -> Option<bool> {
        let boolean = self.as_bool();
        if boolean.is_none() {
            self.expected("true or false");
        }
        boolean
    }

    /// A share between 0 and 1, in percent.
    pub(super) fn share_percent(&self) -> Option<u8> {
        let share = self.content.as_float();
        let share = share.and_then(|float| float.as_str().parse::<f64>().ok());
        let share = share.filter(|share| *share > 0.0 && *share < 1.0);
        if share.is_none() {
            self.expected("a share above 0 and below 1, such as 0.9");
        }
        share.map(|share| (share * 100.0).round().clamp(1.0, 99.0) as u8)
    }

    /// A whole number.
    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let integer = self.as_integer().filter(|number| range.contains(number));
        if integer.is_none() {
            let (least, most) = range.into_inner();
            self.expected(&format!("an integer from {least} to {most}"));
        }
        integer
    }

    /// A number, whole or not.
    pub(super) fn number(&self, range: &RangeInclusive<f64>) -> Option<f64> {
        let integer = self.content.as_integer().and_then(|integer| {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
            whole.map(|whole| whole as f64)
        });
        let float = self.content.as_float();
        let float = float.and_then(|float| float.as_str().parse().ok());
        let number = float.or(integer);
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.expected(&format!("a number from {least} to {most}"));
        }
        number
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> Option<Json> {
        let integer = |text: &str, radix| i64::from_str_radix(text, radix).ok().map(Json::from);
        let float = |text: &str| text.parse().ok().and_then(Number::from_f64).map(Json::from);
        let number = match self.content {
            DeValue::String(text) => return Some(Json::from(&**text)),
            DeValue::Boolean(boolean) => return Some(Json::from(*boolean)),
            DeValue::Datetime(datetime) => return Some(Json::from(datetime.to_string())),
            DeValue::Array(_) => {
                let items = self.as_list().unwrap_or_default();
                let items: Vec<_> = items.iter().map(Self::json).collect();
                return items.into_iter().collect::<Option<_>>().map(Json::Array);
            }
            DeValue::Table(_) => {
                let entries = self.table("{}")?.entries().into_iter();
                let entries: Vec<_> = entries
                    .map(|(name, value)| Some((name.to_owned(), value.json()?)))
                    .collect();
                return entries.into_iter().collect::<Option<_>>().map(Json::Object);
            }
            DeValue::Integer(number) => integer(number.as_str(), number.radix()),
            DeValue::Float(number) => float(number.as_str()),
        };
        if number.is_none() {
            self.expected("a number that JSON has");
        }
        number
    }

    /// A duration.
    pub(super) fn duration(&self, range: &RangeInclusive<Duration>) -> Option<Duration> {
        self.parsed(units::DURATION_EXPECTED, |text| {
            units::duration(text, range)
        })
    }

    /// A number of bytes: a text with a unit, or a bare integer.
    pub(super) fn size_bytes(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        if !self.content.is_integer() {
            return self.parsed(units::SIZE_EXPECTED, |text| units::size_bytes(text, range));
        }
        let bytes = self.as_integer().filter(|bytes| range.contains(bytes));
        if bytes.is_none() {
            self.expected(&units::size_range_expected(range));
        }
        bytes
    }

    /// One of a few names.
    pub(super) fn choice<T: Clone>(&self, names: &[(&'static str, T)]) -> Option<T> {
        let known = || names.iter().map(|(name, _)| *name);
        let expected = one_of(known());
        self.parsed(&expected, |text| {
            let hit = names.iter().find(|(name, _)| *name == text);
            hit.map(|(_, value)| value.clone()).ok_or_else(|| {
                format!(
                    "expected {expected}{}",
                    did_you_mean(nearest(text, known()))
                )
            })
        })
    }

    /// The items when the value is a list; says nothing when it is not.
    pub(super) fn as_list(&self) -> Option<Vec<Value<'a>>> {
        let list = self.content.as_array()?;
        let item = |(index, value)| {
            let key = format!("{}[{}]", self.key, index + 1);
            Value::new(self.report, key, value)
        };
        Some(list.iter().enumerate().map(item).collect())
    }

    /// The items of a list; `expected` says of what.
    #[cfg(feature = "lab")]
    pub(super) fn list(&self, expected: &str) -> Option<Vec<Value<'a>>> {
        let list = self.as_list();
        if list.is_none() {
            self.expected(&format!("a list of {expected}"));
        }
        list
    }

    /// A table; `example` shows what it looks like.
    pub(super) fn table(&self, example: &str) -> Option<Table<'a>> {
        let entries = self.content.as_table();
        if entries.is_none() {
            self.expected(&format!("a table such as `{example}`"));
        }
        Some(Table::new(self.report, self.at, self.key.clone(), entries?))
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(integer) => format!("the integer {integer}"),
        DeValue::Float(float) => format!("the number {float}"),
        DeValue::Boolean(boolean) => format!("the boolean {boolean}"),
        DeValue::Datetime(datetime) => format!("the date or time {datetime}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
