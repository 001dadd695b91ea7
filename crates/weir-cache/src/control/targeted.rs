//! `CDN-Cache-Control` (RFC 9213): a Dictionary of Structured Fields (RFC 9651 §3.2), read strictly. A field with an
//! error in it counts as absent, and so does an empty one. Then `Cache-Control` is used, and `unreadable.rs` makes sure
//! that this allows nothing.

use weir_http::{FieldName, Fields};

use super::{Directive, ResponseControl, SECONDS_MAX};

/// What the field says, if it is there, without errors and not empty.
pub(super) fn read(fields: Fields<'_>) -> Option<ResponseControl> {
    let mut control = ResponseControl {
        is_targeted: true,
        ..ResponseControl::default()
    };
    let mut members = 0;
    for line in fields.all(FieldName::CdnCacheControl) {
        let mut reader = Reader(line);
        reader.blanks();
        while !reader.0.is_empty() {
            let key = reader.key()?;
            let value = if reader.take(b'=') {
                reader.value()?
            } else {
                Value::True
            };
            reader.parameters()?;
            set(&mut control, key, value);
            members += 1;
            reader.blanks();
            if reader.0.is_empty() {
                break;
            }
            // A comma must be followed by another member.
            if !reader.take(b',') {
                return None;
            }
            reader.blanks();
            if reader.0.is_empty() {
                return None;
            }
        }
    }
    (members > 0).then_some(control)
}

/// A later member of a dictionary replaces an earlier one of its name.
fn set(control: &mut ResponseControl, key: &[u8], value: Value) {
    // A negative number, or none, means no freshness.
    let seconds = match value {
        Value::Integer(number) => u32::try_from(number.clamp(0, i64::from(SECONDS_MAX))).ok(),
        _ => Some(0),
    };
    match key {
        b"max-age" => control.max_age = seconds,
        b"s-maxage" => control.s_maxage = seconds,
        b"stale-while-revalidate" => control.stale_while_revalidate = seconds,
        b"stale-if-error" => control.stale_if_error = seconds,
        _ => {
            let directive = match key {
                b"no-store" => Directive::NoStore,
                b"no-cache" => Directive::NoCache,
                b"private" => Directive::Private,
                b"public" => Directive::Public,
                b"must-revalidate" => Directive::MustRevalidate,
                b"proxy-revalidate" => Directive::ProxyRevalidate,
                b"must-understand" => Directive::MustUnderstand,
                b"no-transform" => Directive::NoTransform,
                b"immutable" => Directive::Immutable,
                _ => return,
            };
            // `no-store=?0` says that it does not hold. With any other argument the directive is as strict as without
            // one.
            if value == Value::False {
                control.says.remove(directive);
            } else {
                control.says.add(directive);
            }
        }
    }
}

/// The values that a directive can have; others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    True,
    False,
    Integer(i64),
    Other,
}

/// The parsing algorithms of RFC 9651 §4.2, each named for what it reads. `None` is an error in the field.
struct Reader<'h>(&'h [u8]);

impl<'h> Reader<'h> {
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.0.first() == Some(&byte);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    fn blanks(&mut self) {
        while self.take(b' ') || self.take(b'\t') {}
    }

    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'h [u8] {
        let end = self.0.iter().position(|&b| !belongs(b));
        let (run, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        run
    }

    fn key(&mut self) -> Option<&'h [u8]> {
        let starts = |b: &u8| b.is_ascii_lowercase() || *b == b'*';
        self.0.first().filter(|b| starts(b))?;
        Some(self.run(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b)))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            while self.take(b' ') {}
            self.key()?;
            if self.take(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    /// An item, or an inner list of them.
    fn value(&mut self) -> Option<Value> {
        if !self.take(b'(') {
            return self.item();
        }
        loop {
            while self.take(b' ') {}
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn item(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.0 = &self.0[1..];
                if self.take(b'1') {
                    Some(Value::True)
                } else {
                    self.take(b'0').then_some(Value::False)
                }
            }
            b':' => {
                self.0 = &self.0[1..];
                self.run(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
                self.take(b':').then_some(Value::Other)
            }
            b'@' => {
                self.0 = &self.0[1..];
                match self.number()? {
                    Value::Integer(_) => Some(Value::Other),
                    _ => None,
                }
            }
            b if b.is_ascii_alphabetic() || b == b'*' => {
                self.run(|b| weir_http::head::is_token_byte(b) || b == b':' || b == b'/');
                Some(Value::Other)
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Value> {
        let is_negative = self.take(b'-');
        let whole = self.run(|b| b.is_ascii_digit());
        if self.take(b'.') {
            let fraction = self.run(|b| b.is_ascii_digit());
            let fits = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(Value::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let number = whole
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Value> {
        self.0 = self.0.strip_prefix(b"\"")?;
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return Some(Value::Other),
                b'\\' if !(self.take(b'"') || self.take(b'\\')) => return None,
                0x20..=0x7e => {}
                _ => return None,
            }
        }
    }
}
