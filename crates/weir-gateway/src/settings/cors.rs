//! Which pages of other origins may read what a route answers.

use std::time::Duration;

/// What a route tells browsers of other origins (Fetch standard, section 3.3). The lists are the values of their fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Whose pages may read.
    pub origins: Origins,
    /// Methods that they may use.
    pub methods: String,
    /// Fields that they may send; may be empty.
    pub headers: String,
    /// Fields of answers that they may read; may be empty.
    pub expose: String,
    /// Whether they may send cookies and other credentials. Never with [`Origins::Any`].
    pub credentials: bool,
    /// For how long a browser may remember what it was told.
    pub max_age: Duration,
}

/// Origins of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// All of them.
    Any,
    /// These.
    Listed(Vec<OriginPattern>),
}

/// An origin, or all those below one domain. In lower case, without the port that the scheme implies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginPattern {
    /// This one.
    Exact(String),
    /// Those that begin with the first, `https://`, and end with the second, `.example.com:8443`, with a name between them.
    Below(String, String),
}

impl Origins {
    /// Whether a page of `origin` may read.
    pub(crate) fn allow(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(patterns) => patterns.iter().any(|pattern| pattern.is_met(origin)),
        }
    }
}

impl OriginPattern {
    fn is_met(&self, origin: &[u8]) -> bool {
        match self {
            Self::Exact(own) => own.as_bytes() == origin,
            Self::Below(scheme, domain) => {
                let rest = origin.strip_prefix(scheme.as_bytes());
                let name = rest.and_then(|rest| rest.strip_suffix(domain.as_bytes()));
                // No port, path or user can stand there.
                let is_name_byte = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
                name.is_some_and(|name| !name.is_empty() && name.iter().all(is_name_byte))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_origins_are_allowed() {
        let below = |domain: &str| OriginPattern::Below("https://".to_owned(), domain.to_owned());
        let origins = Origins::Listed(vec![
            OriginPattern::Exact("https://app.example.com".to_owned()),
            OriginPattern::Exact("http://localhost:5173".to_owned()),
            below(".example.org"),
            below(".example.net:8443"),
        ]);
        for (origin, is_allowed) in [
            ("https://app.example.com", true),
            ("http://localhost:5173", true),
            ("https://a.example.org", true),
            ("https://a.b.example.org", true),
            ("https://a.example.net:8443", true),
            ("http://app.example.com", false),
            ("https://app.example.com:8443", false),
            ("https://APP.example.com", false),
            ("https://app.example.com.evil.test", false),
            ("https://evil-example.org", false),
            ("https://.example.org", false),
            ("https://evil.test/.example.org", false),
            ("https://evil.test:1.example.org", false),
            ("https://evil@a.example.org", false),
            ("https://example.org", false),
            ("http://a.example.org", false),
            ("https://a.example.net", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origins.allow(origin.as_bytes()), is_allowed, "{origin}");
        }
        assert!(Origins::Any.allow(b"null"));
    }
}
