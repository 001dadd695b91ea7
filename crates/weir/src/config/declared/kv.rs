//! `[kv]`: the key-value store; and the `kv` of a route.

use super::{Key, Kind, Needs, Preset, Section, forms};

pub(crate) static STORE: Section = Section {
    example: "[kv]",
    groups: &[&[&ENGINE]],
    needs: Needs::Nothing,
};
pub(crate) static ENGINE: Key = Key {
    name: "engine",
    kind: Kind::Table(&EMBEDDED),
    preset: Preset::Required("`{ path = \"data/kv\" }`"),
    doc: "Where the data is.",
};
pub(crate) static EMBEDDED: Section = Section {
    example: "engine = { path = \"data/kv\" }",
    groups: &[&[&PATH, &DURABILITY, &MEMORY]],
    needs: Needs::Nothing,
};
pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::DIRECTORY),
    preset: Preset::Required(forms::DIRECTORY.expected),
    doc: "A directory of its own. It is made when it is not there. One process has it at a time.",
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
    doc: "What an acknowledged write survives: `memory` nothing, `os` the end of the process, `group` and `each` a crash of the machine. `group` syncs writes together that come together, `each` every one by itself.",
};
pub(crate) static MEMORY: Key = Key {
    name: "memory",
    kind: Kind::Size(1 << 20..=1 << 40),
    preset: Preset::Size(256 << 20),
    doc: "Memory for reading: one half for values, the other one for blocks of the tree.",
};

/// The `kv` of a route.
pub(crate) static KV: Key = Key {
    name: "kv",
    kind: Kind::Boolean,
    preset: Preset::Said(""),
    doc: "`true`: the store of `[kv]` answers, see [sharding](sharding.md).",
};
