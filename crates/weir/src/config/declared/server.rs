//! `[server]`, `[[listener]]`, `[admin]`, `[log]` and `[dns]`: the process and its sockets.

use weir_gateway::settings::{Level, MessageFormat};

use super::{Key, Kind, List, Needs, Preset, Section, forms, words};
use crate::config::address::LISTEN_EXPECTED;

pub(crate) static SERVER: Section = Section {
    example: "[server]",
    groups: &[&[&WORKERS]],
    needs: Needs::Nothing,
};
pub(crate) static WORKERS: Key = Key {
    name: "workers",
    kind: Kind::Integer(1..=1024),
    preset: Preset::Said("one per core that the process may use"),
    doc: "Every worker is one thread with its own connections, balancers and pools.",
};

pub(crate) static LISTENER: Section = Section {
    example: "[[listener]]",
    groups: &[&[&ADDRESS]],
    needs: Needs::Nothing,
};
pub(crate) static ADDRESS: Key = Key {
    name: "address",
    kind: Kind::Text(&forms::LISTEN),
    preset: Preset::Required(LISTEN_EXPECTED),
    doc: "Where clients connect.",
};

pub(crate) static ADMIN: Section = Section {
    example: "[admin]",
    groups: &[&[&LISTEN, &TOKEN, &CHANGES_FILE, &GUARD_API, &GUARD_FILE]],
    needs: Needs::Nothing,
};
pub(crate) static LISTEN: Key = Key {
    name: "listen",
    kind: Kind::Text(&forms::LISTEN),
    preset: Preset::Required(LISTEN_EXPECTED),
    doc: "Where operators connect. An address that is not loopback needs a `token`.",
};
pub(crate) static TOKEN: Key = Key {
    name: "token",
    kind: Kind::Text(&forms::TOKEN),
    preset: Preset::Said("none"),
    doc: "What every request must have in `Authorization: Bearer TOKEN`.",
};
pub(crate) static CHANGES_FILE: Key = Key {
    name: "changes_file",
    kind: Kind::Text(&forms::CHANGES_FILE),
    preset: Preset::Said("none"),
    doc: "Where changes of servers are kept over a restart, see [servers](running.md#servers).",
};
pub(crate) static GUARD_API: Key = Key {
    name: "guard_api",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Takes apps as guard does, see [guard](../guard.md).",
};
pub(crate) static GUARD_FILE: Key = Key {
    name: "guard_file",
    kind: Kind::Text(&forms::GUARD_FILE),
    preset: Preset::Text("guard.json"),
    doc: "Where those apps are kept. Only with `guard_api`.",
};

pub(crate) static LOG: Section = Section {
    example: "[log]",
    groups: &[&[&MESSAGE_FORMAT, &LEVEL]],
    needs: Needs::Nothing,
};
pub(crate) static MESSAGE_FORMAT: Key = Key {
    name: "format",
    kind: Kind::Words(&words::<_, 2>(MESSAGE_FORMATS)),
    preset: Preset::Text("text"),
    doc: "How a message looks, see [Messages](running.md#messages).",
};
pub(crate) const MESSAGE_FORMATS: &[(&str, MessageFormat)] =
    &[("text", MessageFormat::Text), ("json", MessageFormat::Json)];
pub(crate) static LEVEL: Key = Key {
    name: "level",
    kind: Kind::Words(&words::<_, 3>(LEVELS)),
    preset: Preset::Text("info"),
    doc: "Messages of this level and above are written.",
};
pub(crate) const LEVELS: &[(&str, Level)] = &[
    (Level::Info.name(), Level::Info),
    (Level::Warning.name(), Level::Warning),
    (Level::Error.name(), Level::Error),
];

pub(crate) static DNS: Section = Section {
    example: "[dns]",
    groups: &[&[&NAME_SERVERS]],
    needs: Needs::Nothing,
};
pub(crate) static NAME_SERVERS: Key = Key {
    name: "servers",
    kind: Kind::List(&LIST_OF_NAME_SERVERS),
    preset: Preset::Required("a list of name servers such as [\"10.0.0.2\"]"),
    doc: "Who is asked, as in `[\"10.0.0.2\", \"127.0.0.1:8600\"]`.",
};
static LIST_OF_NAME_SERVERS: List = List {
    of: Kind::Text(&forms::NAME_SERVER),
    noun: "IP addresses, with a port unless it is 53",
    expected: "name servers such as [\"10.0.0.2\"]",
    is_never_empty: true,
};
