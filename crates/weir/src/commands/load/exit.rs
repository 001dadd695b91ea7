//! The exit statuses of `weir load`, which build servers go by. 130 is a second Ctrl-C.

use weir_load::search::Knee;
use weir_load::verdict::Verdict;

const DONE: u8 = 0;
/// Bad flags, files that cannot be written, or a server that cannot be connected to.
pub(super) const NOT_STARTED: u8 = 2;
/// The server broke a promise of `--slo`.
const SLO_MISSED: u8 = 3;
/// The generator was the limit.
const NOT_VALID: u8 = 4;
/// Nothing was promised, and no request had a good answer.
const NO_GOOD_ANSWER: u8 = 5;

pub(super) fn of(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Measured | Verdict::Kept => DONE,
        Verdict::Missed => SLO_MISSED,
        Verdict::NotValid => NOT_VALID,
        Verdict::NoGoodAnswer => NO_GOOD_ANSWER,
    }
}

/// A search is done when it has found the rate at which the server breaks a promise, and one at which it does not.
pub(super) fn of_search(knee: &Knee) -> u8 {
    match (&knee.why_invalid, knee.is_any_kept()) {
        (Some(_), _) => NOT_VALID,
        (None, false) => SLO_MISSED,
        (None, true) => DONE,
    }
}
