//! The `compress` of a route.

use weir_cache::negotiate::Coding;

use super::{Key, Kind, List, Needs, Preset, Section, forms, words};

pub(crate) const OF_ROUTE: Kind = Kind::AnyOf(
    "true, false or a table such as `{ codings = [\"br\", \"gzip\"] }`",
    &[Kind::Boolean, Kind::Table(&POLICY)],
);
pub(crate) static POLICY: Section = Section {
    example: "{ codings = [\"br\", \"gzip\"] }",
    groups: &[&[&CODINGS, &TYPES, &MIN_BYTES, &LEVEL, &STORED_LEVEL]],
    needs: Needs::Nothing,
};
pub(crate) static CODINGS: Key = Key {
    name: "codings",
    kind: Kind::List(&LIST_OF_CODINGS),
    preset: Preset::Toml("[\"zstd\", \"br\", \"gzip\"]"),
    doc: "What is offered; of codings that the client wants equally, the first.",
};
static LIST_OF_CODINGS: List = List {
    of: Kind::Words(&words::<_, 3>(CODING_NAMES)),
    noun: "`\"zstd\"`, `\"br\"`, `\"gzip\"`",
    expected: "codings such as [\"zstd\", \"br\", \"gzip\"]",
    is_never_empty: true,
};
pub(crate) const CODING_NAMES: &[(&str, Coding)] = &[
    ("zstd", Coding::Zstd),
    ("br", Coding::Brotli),
    ("gzip", Coding::Gzip),
];
pub(crate) static TYPES: Key = Key {
    name: "types",
    kind: Kind::List(&LIST_OF_TYPES),
    preset: Preset::Toml("[]"),
    doc: "Compressed too.",
};
static LIST_OF_TYPES: List = List {
    of: Kind::Text(&forms::PLAIN_MEDIA_TYPE),
    noun: "media types",
    expected: "media types such as [\"application/geo+json\"]",
    is_never_empty: false,
};
pub(crate) static MIN_BYTES: Key = Key {
    name: "min_bytes",
    kind: Kind::Size(0..=1 << 30),
    preset: Preset::Size(1 << 10),
    doc: "Smaller bodies are sent as they are: one packet carries them either way. A body whose length is not known counts as long enough.",
};
pub(crate) static LEVEL: Key = Key {
    name: "level",
    kind: Kind::Table(&LEVELS),
    preset: Preset::Toml("{ zstd = 3, br = 3, gzip = 5 }"),
    doc: "How hard to try for responses that are compressed while they pass.",
};
pub(crate) static STORED_LEVEL: Key = Key {
    name: "stored_level",
    kind: Kind::Table(&LEVELS),
    preset: Preset::Toml("{ zstd = 9, br = 6, gzip = 8 }"),
    doc: "How hard to try for stored responses.",
};

const AS_A_WHOLE: Preset = Preset::Said("that of the whole table");

pub(crate) static LEVELS: Section = Section {
    example: "{ gzip = 6 }",
    groups: &[&[&ZSTD, &BROTLI, &GZIP]],
    needs: Needs::Nothing,
};
/// From 20 on, Zstandard needs a window that decoders of the coding need not have (RFC 9659).
pub(crate) static ZSTD: Key = Key {
    name: "zstd",
    kind: Kind::Integer(1..=19),
    preset: AS_A_WHOLE,
    doc: "The level of Zstandard.",
};
pub(crate) static BROTLI: Key = Key {
    name: "br",
    kind: Kind::Integer(0..=11),
    preset: AS_A_WHOLE,
    doc: "The level of Brotli.",
};
pub(crate) static GZIP: Key = Key {
    name: "gzip",
    kind: Kind::Integer(1..=9),
    preset: AS_A_WHOLE,
    doc: "The level of gzip.",
};
