//! What a route wants of the fields and the query of a request.

use std::fmt::Write as _;

use weir_http::{Fields, query};

/// What a route wants of a request besides host, path and method. All of it must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// Fields by name, in lower case and sorted.
    pub headers: Vec<(String, Wanted)>,
    /// Parameters of the query by name, sorted.
    pub query: Vec<(String, Wanted)>,
}

/// What must be true of a field or a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// There is none of that name.
    Absent,
    /// There is at least one.
    Present,
    /// There is exactly one, with this value. Of several, servers behind may read any.
    Value(String),
}

impl Conditions {
    /// Whether every request meets them.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.query.is_empty()
    }

    /// How specific they are, more is more specific: the number of conditions on fields, then on parameters, then of those
    /// with a value.
    pub fn rank(&self) -> (usize, usize, usize) {
        let exact = self
            .wanted()
            .filter(|wanted| matches!(wanted, Wanted::Value(_)));
        (self.headers.len(), self.query.len(), exact.count())
    }

    /// Whether no request meets both: they want different things of one field or parameter.
    pub fn exclude(&self, other: &Self) -> bool {
        let differ = |own: &[(String, Wanted)], others: &[(String, Wanted)]| {
            own.iter().any(|(name, wanted)| {
                let other = others.iter().find(|(other, _)| other == name);
                other.is_some_and(|(_, other)| wanted.excludes(other))
            })
        };
        differ(&self.headers, &other.headers) || differ(&self.query, &other.query)
    }

    /// Whether a request meets them.
    pub(crate) fn hold(&self, fields: Fields<'_>, sent: Option<&[u8]>) -> bool {
        let mut headers = self.headers.iter();
        headers.all(|(name, wanted)| wanted.holds_for_field(name, fields)) && self.query_holds(sent)
    }

    /// Whether a request with this query meets those that are on the query.
    pub(crate) fn query_holds(&self, sent: Option<&[u8]>) -> bool {
        self.query.iter().all(|(name, wanted)| {
            let pairs = query::pairs(sent.unwrap_or_default());
            let mut pairs = pairs.filter(|pair| query::name(pair).eq(name.bytes()));
            let first = pairs.next();
            wanted.is_met(first, pairs.next().is_some(), |pair, text| {
                query::value(pair).eq(text.bytes())
            })
        })
    }

    /// All of them in a line, the same for equal ones alone. No name and no value has a line end.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let kinds = [("header", &self.headers), ("query", &self.query)];
        for (kind, (name, wanted)) in kinds
            .into_iter()
            .flat_map(|(kind, wanted)| wanted.iter().map(move |wanted| (kind, wanted)))
        {
            let blank = if text.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = match wanted {
                Wanted::Absent => write!(text, "{blank}{kind} {name:?}=false"),
                Wanted::Present => write!(text, "{blank}{kind} {name:?}=true"),
                Wanted::Value(value) => write!(text, "{blank}{kind} {name:?}={value:?}"),
            };
        }
        text
    }

    /// What they are of, each behind a blank: ` header:x-beta query:debug`. Not the values, which may be secret.
    pub fn names(&self) -> String {
        let of = |kind: &str, wanted: &[(String, Wanted)]| -> String {
            let names = wanted.iter().map(|(name, _)| format!(" {kind}:{name}"));
            names.collect()
        };
        of("header", &self.headers) + &of("query", &self.query)
    }

    fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        let all = self.headers.iter().chain(&self.query);
        all.map(|(_, wanted)| wanted)
    }
}

impl Wanted {
    /// Whether it is true of the field called `name` (lower case).
    pub(crate) fn holds_for_field(&self, name: &str, fields: Fields<'_>) -> bool {
        let mut values = fields.named(name.as_bytes());
        let first = values.next();
        self.is_met(first, values.next().is_some(), |value, text| {
            value == text.as_bytes()
        })
    }

    fn is_met<T>(
        &self,
        first: Option<T>,
        has_more: bool,
        is_value: impl FnOnce(T, &str) -> bool,
    ) -> bool {
        match (self, first) {
            (Self::Absent, first) => first.is_none(),
            (Self::Present, first) => first.is_some(),
            (Self::Value(text), Some(first)) => !has_more && is_value(first, text),
            (Self::Value(_), None) => false,
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, other) | (other, Self::Absent) => *other != Self::Absent,
            (Self::Value(one), Self::Value(other)) => one != other,
            _ => false,
        }
    }
}
