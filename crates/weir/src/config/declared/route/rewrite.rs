//! `rewrite`: the path that an upstream is asked for.

use crate::config::declared::{Key, Kind, Preset, forms};

pub(crate) static REWRITE: Key = Key {
    name: "rewrite",
    kind: Kind::Text(&forms::REWRITE),
    preset: Preset::Said("the path as it came"),
    doc: "The path to ask the upstream for, as in `\"/v2/{version}/{rest}\"`. `{name}` stands for a parameter of `path`; the query goes along. Not beside `strip_prefix`.",
};
