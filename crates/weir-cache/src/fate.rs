//! What becomes of an answer that was asked for to be stored, and what those are told who wait for it.
//!
//! Whether something stale is allowed (`reuse.rs`) and whether a response may be stored (`store_rule.rs`) is asked only where
//! it matters.

use crate::meta::Meta;
use crate::reuse::OriginFailure;
use crate::store_rule::{Lasting, NotStored};

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Whether it was asked under conditions of the cache.
    pub has_conditions: bool,
    /// Whether all was asked for because it was to be stored, and the client wants a part of it.
    pub is_more_than_wanted: bool,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<S> {
    /// This, which is stored and stale, answers in its place, because the origin failed.
    Stale(S, OriginFailure),
    /// It confirms what is stored.
    Confirms,
    /// It is stored, and sent.
    Stored(Meta),
    /// It is not stored.
    Refused(Refused),
}

/// An answer that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: NotStored,
    /// Whether it is an error of the origin's, which those who wait are each to hear from there. Else each is to ask for
    /// itself.
    pub is_error: bool,
    /// Which of the next answers will not be stored either, so that nobody is to wait for them.
    pub lasting: Lasting,
    /// Whether the origin is asked again, for what the client wants. Else this is passed on.
    pub is_asked_again: bool,
}

/// What becomes of an answer. `usable_stale` is what is stored, if it may be used after such a failure; `may_store` is the rule.
pub fn of<S>(
    answer: Answer,
    usable_stale: impl FnOnce(OriginFailure) -> Option<S>,
    may_store: impl FnOnce() -> Result<Meta, NotStored>,
) -> Fate<S> {
    let status = answer.status;
    let is_error = status >= 500;
    let failed = OriginFailure::Status(status);
    if is_error && let Some(stale) = usable_stale(failed) {
        return Fate::Stale(stale, failed);
    }
    if status == 304 && answer.has_conditions {
        return Fate::Confirms;
    }
    match may_store() {
        Ok(meta) => Fate::Stored(meta),
        Err(why) => Fate::Refused(Refused {
            why,
            is_error,
            lasting: why.lasting(status),
            is_asked_again: status == 200 && answer.is_more_than_wanted,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_heads::meta;

    /// An answer in short: its status, with `/if`, if it was asked under conditions, and `/part`, if its client wants a part.
    fn answer(text: &str) -> Answer {
        let status = text.split('/').next().unwrap_or_default();
        Answer {
            status: status.parse().expect("a status"),
            has_conditions: text.contains("/if"),
            is_more_than_wanted: text.contains("/part"),
        }
    }

    fn refused(why: NotStored, marks: &str) -> Fate<()> {
        Fate::Refused(Refused {
            why,
            is_error: marks.contains("error"),
            lasting: if marks.contains("lasting") {
                Lasting::ForAll
            } else if marks.contains("cookies") {
                Lasting::WithCookies
            } else {
                Lasting::Passing
            },
            is_asked_again: marks.contains("again"),
        })
    }

    #[test]
    fn what_becomes_of_an_answer() {
        use NotStored::{NoFreshness, Private, RequestCookie, RequestNoStore, Status};
        const NONE: Option<()> = None;
        const STALE: Option<()> = Some(());
        let (may, stored) = (Ok(()), Fate::Stored(meta()));
        let by_status = |status| Fate::Stale((), OriginFailure::Status(status));
        let cases = [
            // an answer that may be stored
            ("200", NONE, may, stored),
            ("200", STALE, may, stored),
            ("200/if", STALE, may, stored),
            ("404/part", NONE, may, stored),
            // an error: something stale goes before it, stored or not
            ("503", STALE, may, by_status(503)),
            ("500/if", STALE, Err(NoFreshness), by_status(500)),
            ("503", NONE, may, stored),
            ("503", NONE, Err(NoFreshness), refused(NoFreshness, "error")),
            ("499", STALE, Err(Private), refused(Private, "")),
            // a confirmation, if it was asked for
            ("304/if", STALE, Err(Status), Fate::Confirms),
            ("304/if", NONE, Err(Status), Fate::Confirms),
            ("304", STALE, Err(Status), refused(Status, "")),
            // an answer that is for this client alone
            (
                "200",
                NONE,
                Err(RequestNoStore),
                refused(RequestNoStore, ""),
            ),
            ("200", STALE, Err(Private), refused(Private, "lasting")),
            ("404", NONE, Err(Private), refused(Private, "lasting")),
            (
                "200/part",
                NONE,
                Err(RequestCookie),
                refused(RequestCookie, "cookies again"),
            ),
            (
                "500",
                NONE,
                Err(RequestCookie),
                refused(RequestCookie, "error"),
            ),
            // which wants less than was asked for
            (
                "200/part",
                NONE,
                Err(Private),
                refused(Private, "lasting again"),
            ),
            (
                "200/if/part",
                NONE,
                Err(RequestNoStore),
                refused(RequestNoStore, "again"),
            ),
            ("404/part", NONE, Err(Private), refused(Private, "lasting")),
            (
                "502/part",
                NONE,
                Err(NoFreshness),
                refused(NoFreshness, "error"),
            ),
        ];
        for (text, stale, rule, expected) in cases {
            let found = of(answer(text), |_| stale, || rule.map(|()| meta()));
            assert_eq!(found, expected, "{text:?}, {stale:?}, {rule:?}");
        }
    }

    #[test]
    fn what_does_not_matter_is_not_asked() {
        let never = |_| -> Option<()> { panic!("whether something stale may be used") };
        of(answer("200"), never, || Err(NotStored::Private));
        of(answer("304/if"), never, || {
            panic!("whether it may be stored")
        });
        of(answer("500"), Some, || panic!("whether it may be stored"));
    }
}
