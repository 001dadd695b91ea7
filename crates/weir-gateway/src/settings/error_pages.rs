//! What a client reads with an error.

use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bodies for errors by their status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPages {
    /// Single statuses before classes of them.
    pub pages: Vec<ErrorPage>,
}

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// Of these statuses, from 400 to 599.
    pub statuses: RangeInclusive<u16>,
    /// The body.
    pub body: Arc<[u8]>,
    /// Its media type.
    pub content_type: String,
    /// Whether it also takes the place of what an upstream sends with such a status.
    pub replaces_upstream: bool,
}

impl ErrorPages {
    /// The page for an error with `status`.
    pub(crate) fn of(&self, status: u16) -> Option<&ErrorPage> {
        let mut pages = self.pages.iter();
        pages.find(|page| page.statuses.contains(&status))
    }
}
