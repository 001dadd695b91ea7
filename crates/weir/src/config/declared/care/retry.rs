//! `retry` and `hedge` of a route, and the `retry_budget` of an upstream that both are paid from.

use std::time::Duration;

use weir_policy::retry::{BudgetSettings, FullJitter};

use super::STATUSES;
use crate::config::declared::{Key, Kind, Needs, Preset, Section};

const MINUTE: Duration = Duration::from_secs(60);
const BACKOFFS: Kind = Kind::Duration(Duration::ZERO..=MINUTE);

pub(crate) static RETRY: Key = Key {
    name: "retry",
    kind: Kind::AnyOf(
        "an integer from 0 to 9, or a table such as `{ attempts = 3 }`",
        &[Kind::Integer(0..=9), Kind::Table(&RULE)],
    ),
    preset: Preset::Integer(0),
    doc: "How often a request is sent again, see [retry](refusing.md#retry).",
};
pub(crate) static RULE: Section = Section {
    example: "{ attempts = 3 }",
    groups: &[&[&ATTEMPTS, &AGAIN_AFTER, &PER_TRY, &BACKOFF, &BACKOFF_MAX]],
    needs: Needs::Nothing,
};
pub(crate) static ATTEMPTS: Key = Key {
    name: "attempts",
    kind: Kind::Integer(1..=10),
    preset: Preset::Integer(3),
    doc: "How often a request is sent, the first time included, and not counting the copies of `hedge`.",
};
pub(crate) static AGAIN_AFTER: Key = Key {
    name: "statuses",
    kind: Kind::List(&STATUSES),
    preset: Preset::Toml("[\"502-504\"]"),
    doc: "Answers that are asked for again, as is none.",
};
pub(crate) static PER_TRY: Key = Key {
    name: "per_try",
    kind: Kind::DEADLINE,
    preset: Preset::Said("none"),
    doc: "How long an attempt may take from sending the request to the response head. The last one, and one that may not be followed by another, may take longer.",
};
pub(crate) static BACKOFF: Key = Key {
    name: "backoff",
    kind: BACKOFFS,
    preset: Preset::Duration(FullJitter::FIRST_DEFAULT),
    doc: "The wait before the first retry is up to this, by chance; it doubles with each.",
};
pub(crate) static BACKOFF_MAX: Key = Key {
    name: "backoff_max",
    kind: BACKOFFS,
    preset: Preset::Duration(FullJitter::MAX_DEFAULT),
    doc: "It doubles up to this.",
};

pub(crate) static HEDGE: Key = Key {
    name: "hedge",
    kind: Kind::AnyOf(
        "true, false or a table such as `{ quantile = 0.95 }`",
        &[Kind::Boolean, Kind::Table(&SECOND)],
    ),
    preset: Preset::Boolean(false),
    doc: "When a second endpoint is asked besides, see [retry](refusing.md#retry).",
};
pub(crate) static SECOND: Section = Section {
    example: "{ quantile = 0.95 }",
    groups: &[&[&QUANTILE, &MIN]],
    needs: Needs::Nothing,
};
pub(crate) static QUANTILE: Key = Key {
    name: "quantile",
    kind: Kind::Number(0.5..=0.999),
    preset: Preset::Number(0.95),
    doc: "A second endpoint is asked when the first takes longer than this share of the answers did. Until a hundred are known, none is.",
};
pub(crate) static MIN: Key = Key {
    name: "min",
    kind: BACKOFFS,
    preset: Preset::Duration(Duration::from_millis(1)),
    doc: "Not before this time.",
};

pub(crate) static BUDGET: Key = Key {
    name: "retry_budget",
    kind: Kind::Table(&SHARED),
    preset: Preset::Toml("{}"),
    doc: "What all retries and hedges to the upstream may add, see [retry](refusing.md#retry).",
};
pub(crate) static SHARED: Section = Section {
    example: "{ ratio = 0.2, min_per_s = 3 }",
    groups: &[&[&RATIO, &MIN_PER_S, &TTL]],
    needs: Needs::Nothing,
};
pub(crate) static RATIO: Key = Key {
    name: "ratio",
    kind: Kind::Number(0.0..=10.0),
    preset: Preset::Number(BudgetSettings::RATIO_DEFAULT),
    doc: "Retries and hedges for each request of the last `ttl`, on routes that have either.",
};
pub(crate) static MIN_PER_S: Key = Key {
    name: "min_per_s",
    kind: Kind::Number(0.0..=1_000_000.0),
    preset: Preset::Number(BudgetSettings::MIN_PER_S_DEFAULT),
    doc: "So many a second in any case; those of a whole `ttl` may come at once.",
};
pub(crate) static TTL: Key = Key {
    name: "ttl",
    kind: Kind::Duration(Duration::from_secs(1)..=MINUTE),
    preset: Preset::Duration(BudgetSettings::TTL_DEFAULT),
    doc: "For how long a request and a retry count.",
};
