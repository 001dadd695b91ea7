//! Whether a request that has waited may have what its leader has.

use super::Nothing;

/// What those who wait are told of what their leader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// An answer, whole or arriving.
    Answer,
    /// Something stale, which the leader takes because the origin failed, and how it got no answer, if it got none.
    Stale(Option<Unanswered>),
    /// Something that is not for others.
    Unshared,
    /// An error of the origin's.
    Error,
    /// Nothing.
    Nothing(Unanswered),
}

/// How a leader got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// Its client left. The origin may answer the next.
    ClientLeft,
    /// The origin was silent for so long that nobody who has waited for that asks it as well.
    Silence,
    /// In any other way.
    Failure,
}

impl Unanswered {
    fn means(self) -> Nothing {
        match self {
            Self::ClientLeft => Nothing::Unshared,
            Self::Silence => Nothing::WaitedTooLong,
            Self::Failure => Nothing::OriginFailed,
        }
    }
}

/// Whether a request may have what its leader has: if it `selects` that variant, and if that `suits` it, being as fresh, or
/// as stale, as it takes it.
///
/// # Errors
/// It may not. What waiting came to.
pub fn may_have(told: Told, selects: bool, suits: impl Fn() -> bool) -> Result<(), Nothing> {
    match told {
        Told::Nothing(how) => Err(how.means()),
        Told::Error => Err(Nothing::OriginErred),
        Told::Unshared => Err(Nothing::Unshared),
        Told::Answer | Told::Stale(_) if !selects => Err(Nothing::Unshared),
        Told::Answer if !suits() => Err(Nothing::NotFresh),
        // That the leader takes it stale says nothing of this client.
        Told::Stale(how) if !suits() => Err(how.map_or(Nothing::OriginErred, Unanswered::means)),
        Told::Answer | Told::Stale(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_makes_of_what_its_leader_has() {
        use Unanswered::{ClientLeft, Failure, Silence};
        const OTHER: bool = false;
        const SAME: bool = true;
        const UNFIT: bool = false;
        const FIT: bool = true;
        let cases = [
            (Told::Answer, SAME, FIT, Ok(())),
            (Told::Answer, SAME, UNFIT, Err(Nothing::NotFresh)),
            (Told::Answer, OTHER, FIT, Err(Nothing::Unshared)),
            (Told::Stale(None), SAME, FIT, Ok(())),
            (Told::Stale(Some(Failure)), SAME, FIT, Ok(())),
            (Told::Stale(None), SAME, UNFIT, Err(Nothing::OriginErred)),
            (
                Told::Stale(Some(Failure)),
                SAME,
                UNFIT,
                Err(Nothing::OriginFailed),
            ),
            (
                Told::Stale(Some(Silence)),
                SAME,
                UNFIT,
                Err(Nothing::WaitedTooLong),
            ),
            (
                Told::Stale(Some(Failure)),
                OTHER,
                FIT,
                Err(Nothing::Unshared),
            ),
            (Told::Unshared, SAME, FIT, Err(Nothing::Unshared)),
            (Told::Error, SAME, FIT, Err(Nothing::OriginErred)),
            (
                Told::Nothing(Failure),
                SAME,
                FIT,
                Err(Nothing::OriginFailed),
            ),
            (
                Told::Nothing(Silence),
                OTHER,
                FIT,
                Err(Nothing::WaitedTooLong),
            ),
            (Told::Nothing(ClientLeft), SAME, FIT, Err(Nothing::Unshared)),
        ];
        for (told, selects, suits, expected) in cases {
            let found = may_have(told, selects, || suits);
            assert_eq!(
                found, expected,
                "{told:?}, selects: {selects}, suits: {suits}"
            );
        }
    }
}
