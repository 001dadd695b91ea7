//! `[table.NAME]`: tables of activities; and the `collect` of a route.

use std::time::Duration;

use super::{Form, Key, Kind, Named, Needs, Preset, Section, engine};

pub(crate) static TABLES: Named = Named {
    example: "[table.activities]",
    names: "^[0-9A-Za-z_-][0-9A-Za-z_-]*$",
    values: Kind::Table(&TABLE),
};
pub(crate) static TABLE: Section = Section {
    example: "[table.activities]",
    groups: &[&[&ENGINE, &BATCH]],
    needs: Needs::Nothing,
};
pub(crate) static ENGINE: Key = Key {
    name: "engine",
    kind: Kind::Table(&engine::SECTION),
    preset: Preset::Required("`{ path = \"data/activities\" }`"),
    doc: "Where its rows are, as of [`[kv]`](sharding.md#engines).",
};
const EVENTS: Kind = Kind::Integer(1..=10_000);
pub(crate) static BATCH: Key = Key {
    name: "batch",
    kind: Kind::AnyOf(
        "a number from 1 to 10000, or a table such as `{ events = 1000, wait = \"5ms\" }`",
        &[EVENTS, Kind::Table(&BATCHES)],
    ),
    preset: Preset::Integer(1000),
    doc: "Rows that are written at once, at most; `1` writes each by itself.",
};
pub(crate) static BATCHES: Section = Section {
    example: "{ events = 1000 }",
    groups: &[&[&EVENTS_AT_ONCE, &WAIT]],
    needs: Needs::Nothing,
};
pub(crate) static EVENTS_AT_ONCE: Key = Key {
    name: "events",
    kind: EVENTS,
    preset: Preset::Integer(1000),
    doc: "Rows that are written at once, at most.",
};
pub(crate) static WAIT: Key = Key {
    name: "wait",
    kind: Kind::Duration(Duration::ZERO..=Duration::from_secs(1)),
    preset: Preset::Duration(Duration::ZERO),
    doc: "How long the first row waits for so many. Without a wait, what comes while a batch is written is the next one.",
};

/// The `collect` of a route.
pub(crate) static COLLECT: Key = Key {
    name: "collect",
    kind: Kind::Table(&COLLECTION),
    preset: Preset::Said(""),
    doc: "`{ table = \"activities\" }`: events of users are kept in this table and read back, see [activities](activities.md).",
};
pub(crate) static COLLECTION: Section = Section {
    example: "{ table = \"activities\" }",
    groups: &[&[&OF_TABLE]],
    needs: Needs::Nothing,
};
pub(crate) static OF_TABLE: Key = Key {
    name: "table",
    kind: Kind::Text(&TABLE_NAME),
    preset: Preset::Required("the name of a table"),
    doc: "Which one.",
};
static TABLE_NAME: Form = Form {
    noun: "name of a table",
    expected: "the name of a table",
    pattern: Some("^[0-9A-Za-z_-][0-9A-Za-z_-]*$"),
};
