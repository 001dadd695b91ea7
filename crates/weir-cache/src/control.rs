//! What a message says about caching: `Cache-Control` (RFC 9111 §5.2), `Pragma` (§5.4), and the targeted
//! `CDN-Cache-Control` (RFC 9213), read once into plain values.
//!
//! The reading is forgiving where that is safe and strict where it is not. Unknown directives are ignored, unreadable
//! freshness means no freshness, and of two that disagree the shorter counts (RFC 9111 §4.2.1 would allow the first, or
//! none). A value that cannot be read as a whole must not allow anything: if `private`, `no-store` or `no-cache` stands
//! in it as a word, it counts as said. What follows from the values is decided elsewhere.

mod targeted;
mod unreadable;

use weir_http::fields::{elements, unquoted};
use weir_http::{FieldName, Fields};

/// The most seconds a directive or an `Age` can mean (RFC 9111 §1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

/// A directive without an argument, or the fact that one was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the directive of its name")]
pub enum Directive {
    NoStore,
    /// Without a list of fields; with a list it only concerns those fields.
    NoCache,
    /// Without a list of fields.
    Private,
    Public,
    MustRevalidate,
    ProxyRevalidate,
    MustUnderstand,
    NoTransform,
    Immutable,
    OnlyIfCached,
}

/// Some directives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Directives(u16);

impl Directives {
    /// Whether `directive` is among them.
    pub fn has(self, directive: Directive) -> bool {
        self.0 & (1 << directive as u16) != 0
    }

    fn add(&mut self, directive: Directive) {
        self.0 |= 1 << directive as u16;
    }

    fn remove(&mut self, directive: Directive) {
        self.0 &= !(1 << directive as u16);
    }

    fn add_all(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

/// What a response says about caching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// Directives without an argument.
    pub says: Directives,
    /// Seconds.
    pub max_age: Option<u32>,
    /// Seconds.
    pub s_maxage: Option<u32>,
    /// Seconds (RFC 5861 §3).
    pub stale_while_revalidate: Option<u32>,
    /// Seconds (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
    /// Whether `CDN-Cache-Control` said all this; then `Cache-Control` and `Expires` are ignored (RFC 9213 §2.2).
    pub is_targeted: bool,
}

impl ResponseControl {
    /// What `fields` of a response say.
    pub fn of(fields: Fields<'_>) -> Self {
        if let Some(control) = targeted::read(fields) {
            return control;
        }
        let mut control = Self::default();
        for element in directives_of(fields) {
            control.take(element);
        }
        let mut words = words_of_unreadable(fields);
        // The field is not valid, or it would have been read; but what it may have meant to forbid stays forbidden.
        for line in fields.all(FieldName::CdnCacheControl) {
            words.add_all(unreadable::words(line));
        }
        control.close(words);
        control
    }

    /// Whether the response names fields that a shared cache must not keep: `no-cache="f"` (RFC 9111 §5.2.2.4) and
    /// `private="f"` (§5.2.2.7).
    pub fn withholds(self, fields: Fields<'_>, name: &[u8]) -> bool {
        !self.is_targeted
            && directives_of(fields)
                .filter(|e| e.is("no-cache") || e.is("private"))
                .filter_map(Element::field_list)
                .any(|list| elements(list).any(|listed| listed.eq_ignore_ascii_case(name)))
    }

    /// Adds the words found in a value that cannot be read.
    fn close(&mut self, words: Directives) {
        // In a readable value, `must-understand` means that `no-store` is for other caches.
        if words.has(Directive::NoStore) {
            self.says.remove(Directive::MustUnderstand);
        }
        self.says.add_all(words);
    }

    fn take(&mut self, element: Element<'_>) {
        let (name, seconds) = (element.name, || element.seconds());
        match name.len() {
            7 if element.is("max-age") => shorten(&mut self.max_age, seconds().unwrap_or(0)),
            8 if element.is("s-maxage") => shorten(&mut self.s_maxage, seconds().unwrap_or(0)),
            22 if element.is("stale-while-revalidate") => {
                shorten(&mut self.stale_while_revalidate, seconds().unwrap_or(0));
            }
            14 if element.is("stale-if-error") => {
                shorten(&mut self.stale_if_error, seconds().unwrap_or(0));
            }
            8 if element.is("no-store") => self.says.add(Directive::NoStore),
            8 if element.is("no-cache") && !element.is_about_fields() => {
                self.says.add(Directive::NoCache);
            }
            7 if element.is("private") && !element.is_about_fields() => {
                self.says.add(Directive::Private);
            }
            6 if element.is("public") => self.says.add(Directive::Public),
            15 if element.is("must-revalidate") => self.says.add(Directive::MustRevalidate),
            16 if element.is("proxy-revalidate") => self.says.add(Directive::ProxyRevalidate),
            15 if element.is("must-understand") => self.says.add(Directive::MustUnderstand),
            12 if element.is("no-transform") => self.says.add(Directive::NoTransform),
            9 if element.is("immutable") => self.says.add(Directive::Immutable),
            _ => {}
        }
    }
}

/// How stale a response a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxStale {
    /// Any staleness.
    Any,
    /// By at most this many seconds.
    Seconds(u32),
}

/// What a request says about caching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// Directives without an argument.
    pub says: Directives,
    /// Seconds.
    pub max_age: Option<u32>,
    /// Seconds.
    pub min_fresh: Option<u32>,
    /// How much staleness is accepted.
    pub max_stale: Option<MaxStale>,
    /// Seconds (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
}

impl RequestControl {
    /// What `fields` of a request say. `Pragma: no-cache` counts if there is no `Cache-Control` (RFC 9111 §5.4).
    pub fn of(fields: Fields<'_>) -> Self {
        let mut control = Self::default();
        if fields.has(FieldName::CacheControl) {
            for element in directives_of(fields) {
                control.take(element);
            }
            control.says.add_all(words_of_unreadable(fields));
        } else if fields
            .elements(FieldName::Pragma)
            .any(|pragma| pragma.eq_ignore_ascii_case(b"no-cache"))
        {
            control.says.add(Directive::NoCache);
        }
        control
    }

    fn take(&mut self, element: Element<'_>) {
        let (name, seconds) = (element.name, || element.seconds());
        match name.len() {
            7 if element.is("max-age") => shorten(&mut self.max_age, seconds().unwrap_or(0)),
            9 if element.is("min-fresh") => {
                let longest = self.min_fresh.unwrap_or(0).max(seconds().unwrap_or(0));
                self.min_fresh = Some(longest);
            }
            9 if element.is("max-stale") => {
                let taken = match (element.argument, seconds()) {
                    (None, _) => MaxStale::Any,
                    (Some(_), seconds) => MaxStale::Seconds(seconds.unwrap_or(0)),
                };
                self.max_stale = Some(match (self.max_stale, taken) {
                    (None | Some(MaxStale::Any), taken) => taken,
                    (Some(earlier), MaxStale::Any) => earlier,
                    (Some(MaxStale::Seconds(a)), MaxStale::Seconds(b)) => {
                        MaxStale::Seconds(a.min(b))
                    }
                });
            }
            14 if element.is("stale-if-error") => {
                shorten(&mut self.stale_if_error, seconds().unwrap_or(0));
            }
            8 if element.is("no-cache") => self.says.add(Directive::NoCache),
            8 if element.is("no-store") => self.says.add(Directive::NoStore),
            12 if element.is("no-transform") => self.says.add(Directive::NoTransform),
            14 if element.is("only-if-cached") => self.says.add(Directive::OnlyIfCached),
            _ => {}
        }
    }
}

fn shorten(value: &mut Option<u32>, seconds: u32) {
    *value = Some(value.map_or(seconds, |earlier| earlier.min(seconds)));
}

/// The words in the lines of `Cache-Control`, if one of the lines cannot be read.
fn words_of_unreadable(fields: Fields<'_>) -> Directives {
    let lines = fields.all(FieldName::CacheControl);
    let mut words = Directives::default();
    if !lines.clone().all(unreadable::is_readable) {
        lines.for_each(|line| words.add_all(unreadable::words(line)));
    }
    words
}

fn directives_of(fields: Fields<'_>) -> impl Iterator<Item = Element<'_>> {
    fields.elements(FieldName::CacheControl).map(Element::of)
}

/// `name`, `name=argument` or `name="argument"`.
#[derive(Debug, Clone, Copy)]
struct Element<'h> {
    name: &'h [u8],
    /// What follows the equals sign, quotes included.
    argument: Option<&'h [u8]>,
}

impl<'h> Element<'h> {
    fn of(text: &'h [u8]) -> Self {
        match unquoted(text, b'=') {
            None => Self {
                name: text,
                argument: None,
            },
            Some(at) => Self {
                // No blank may surround the sign. A blank before it still names the directive, so `max-age =3600` is an
                // unreadable freshness rather than none.
                name: text[..at].trim_ascii_end(),
                argument: Some(if text[..at].ends_with(b" ") {
                    b" "
                } else {
                    &text[at + 1..]
                }),
            },
        }
    }

    fn is(self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The argument as delta-seconds (RFC 9111 §1.2.2): digits, with or without quotes; a larger number means the
    /// maximum. `None` for anything else, also for no argument.
    fn seconds(self) -> Option<u32> {
        let argument = self.argument?;
        seconds_of(within_quotes(argument).unwrap_or(argument))
    }

    /// Whether it is `no-cache="a, b"` rather than `no-cache`. Senders should write quotes (RFC 9111 §5.2.2.4). Without
    /// them an argument may be a field or a mistaken `private=true`, so it limits nothing.
    fn is_about_fields(self) -> bool {
        let is_string = self.argument.is_some_and(|text| text.starts_with(b"\""));
        is_string && self.field_list().is_some()
    }

    /// The fields that `no-cache="a, b"` names, or `no-cache=a`.
    fn field_list(self) -> Option<&'h [u8]> {
        let argument = self.argument?;
        let list = within_quotes(argument).unwrap_or(argument);
        let is_list = elements(list).next().is_some()
            && elements(list).all(|name| name.iter().all(|&b| weir_http::head::is_token_byte(b)));
        is_list.then_some(list)
    }
}

/// Digits as seconds, at most [`SECONDS_MAX`].
pub(crate) fn seconds_of(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some((number * 10 + digit).min(u64::from(SECONDS_MAX)))
    })?;
    Some(number as u32)
}

fn within_quotes(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

#[cfg(test)]
mod tests;
