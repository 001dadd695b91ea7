//! `[server]`, `[[listener]]`, `[admin]`, `[access_log]` and `[dns]`: the process and its sockets.

use std::time::Duration;

use weir_gateway::settings::LogFormat;

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
    groups: &[&[&LISTEN, &TOKEN, &GUARD_API, &GUARD_FILE]],
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
pub(crate) static GUARD_API: Key = Key {
    name: "guard_api",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Takes apps as guard does, see [guard](guard.md).",
};
pub(crate) static GUARD_FILE: Key = Key {
    name: "guard_file",
    kind: Kind::Text(&forms::GUARD_FILE),
    preset: Preset::Text("guard.json"),
    doc: "Where those apps are kept. Only with `guard_api`.",
};

pub(crate) static ACCESS_LOG: Section = Section {
    example: "[access_log]",
    groups: &[&[&LOG_PATH, &LOG_FORMAT, &LOG_BUFFER, &LOG_FLUSH]],
    needs: Needs::Nothing,
};
pub(crate) static LOG_PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::FILE_OR_STDOUT),
    preset: Preset::Required(forms::FILE_OR_STDOUT.expected),
    doc: "Where lines are appended.",
};
pub(crate) static LOG_FORMAT: Key = Key {
    name: "format",
    kind: Kind::Words(&words::<_, 2>(LOG_FORMATS)),
    preset: Preset::Text("combined"),
    doc: "How a line looks, see [Access log](#access-log).",
};
pub(crate) const LOG_FORMATS: &[(&str, LogFormat)] =
    &[("combined", LogFormat::Combined), ("json", LogFormat::Json)];
pub(crate) static LOG_BUFFER: Key = Key {
    name: "buffer",
    kind: Kind::Size(1 << 10..=64 << 20),
    preset: Preset::Size(256 << 10),
    doc: "A worker writes when it has collected so much.",
};
pub(crate) static LOG_FLUSH: Key = Key {
    name: "flush",
    kind: Kind::Duration(Duration::from_millis(100)..=Duration::from_secs(300)),
    preset: Preset::Duration(Duration::from_secs(10)),
    doc: "A worker writes after so long, however little it has collected.",
};

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
