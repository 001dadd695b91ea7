//! `engine`: where the data of `[kv]` and of a `[table.NAME]` is.

use super::{Form, Key, Kind, Needs, Preset, Section, forms, sink};

pub(crate) static SECTION: Section = Section {
    example: "engine = { path = \"data/kv\" }",
    groups: &[TARGETS, EMBEDDED],
    needs: Needs::OneOf(TARGETS),
};
/// What it is in.
pub(crate) const TARGETS: &[&Key] = &[&PATH, &POSTGRES, &CASSANDRA];
/// What means something only beside `path`.
pub(crate) const EMBEDDED: &[&Key] = &[&DURABILITY, &MEMORY];

pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::DIRECTORY),
    preset: Preset::Said("none"),
    doc: "A directory of its own. It is made when it is not there. One process has it at a time.",
};
pub(crate) static POSTGRES: Key = Key {
    name: "postgres",
    kind: Kind::AnyOf(
        "a URL, or a table such as `{ url = \"postgres://weir@127.0.0.1/app\", table = \"kv\" }`",
        &[Kind::Text(&sink::URL), Kind::Table(&POSTGRES_TABLE)],
    ),
    preset: Preset::Said("none"),
    doc: "A table of Postgres.",
};
pub(crate) static CASSANDRA: Key = Key {
    name: "cassandra",
    kind: Kind::AnyOf(
        "a list of nodes, or a table such as `{ nodes = [\"127.0.0.1:9042\"], table = \"weir.kv\" }`",
        &[Kind::List(&sink::SERVERS), Kind::Table(&CASSANDRA_TABLE)],
    ),
    preset: Preset::Said("none"),
    doc: "A table of Cassandra or ScyllaDB. A list has some nodes of the cluster, which know the others.",
};
pub(crate) const DURABILITIES: &[(&str, weir_kv::engine::Durability)] = &[
    ("memory", weir_kv::engine::Durability::Memory),
    ("os", weir_kv::engine::Durability::Os),
    ("group", weir_kv::engine::Durability::Group),
    ("each", weir_kv::engine::Durability::Each),
];
pub(crate) static DURABILITY: Key = Key {
    name: "durability",
    kind: Kind::Words(&["memory", "os", "group", "each"]),
    preset: Preset::Text("group"),
    doc: "What an acknowledged write survives: `memory` nothing, `os` the end of the process, `group` and `each` a crash of the machine. `group` syncs writes together that come together, `each` every one by itself. Only with `path`.",
};
pub(crate) static MEMORY: Key = Key {
    name: "memory",
    kind: Kind::Size(1 << 20..=1 << 40),
    preset: Preset::Size(256 << 20),
    doc: "Memory for reading: one half for values, the other one for blocks of the tree. Only with `path`.",
};

pub(crate) static POSTGRES_TABLE: Section = Section {
    example: "{ url = \"postgres://weir@127.0.0.1/app\" }",
    groups: &[&[&sink::POSTGRES_URL, &TABLE]],
    needs: Needs::Nothing,
};
pub(crate) static TABLE: Key = Key {
    name: "table",
    kind: Kind::Text(&sink::TABLE_NAME),
    preset: Preset::Said("`kv`, or the name of the `[table.NAME]`"),
    doc: "The table, with that of its schema perhaps, as in `\"app.kv\"`. It is made when it is not there.",
};
pub(crate) static CASSANDRA_TABLE: Section = Section {
    example: "{ nodes = [\"127.0.0.1:9042\"] }",
    groups: &[&[&sink::NODES, &IN_KEYSPACE, &sink::USER, &sink::PASSWORD]],
    needs: Needs::Nothing,
};
pub(crate) static IN_KEYSPACE: Key = Key {
    name: "table",
    kind: Kind::Text(&KEYSPACE),
    preset: Preset::Said("`weir.kv`, or `weir.` and the name of the `[table.NAME]`"),
    doc: "The keyspace, which must be there, and the table, which is made when it is not.",
};
static KEYSPACE: Form = Form {
    noun: "keyspace and table, as in `\"app.kv\"`",
    expected: sink::KEYSPACE_EXPECTED,
    pattern: Some("^[^.]+\\.[^.]+$"),
};
