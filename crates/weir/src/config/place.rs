//! Where in a config file the thing stands that a gateway could not start with.
//!
//! The gateway takes settings that have forgotten their file. What fails only when it starts (an address that is
//! taken, a log that cannot be opened) is looked up again here, so that it is told like any other mistake.

use std::ffi::OsString;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_gateway::{OwnUpstream, StartError, Unresolved};

use super::address;
use super::error::ConfigError;
use super::inputs::Inputs;
use super::outside::{self, Surroundings};
use super::sources::Sources;
use super::suggest::quoted;

/// The error as problems of `sources`, which were read without any; `None` if it has no place in them.
pub(super) fn of(
    error: &StartError,
    sources: &Sources,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<ConfigError> {
    let (report, mut tree) = (sources.report(), sources.tree(&sources.report()));
    let inputs = &mut Inputs::default();
    let mut from = Surroundings { variable, inputs };
    let outside = outside::found(&tree, &sources.report(), &mut from);
    outside::put(&mut tree, &outside);
    let file_name = sources.name();
    if let StartError::Names(names) = error {
        for (at, key, label) in servers(&tree) {
            let host = label.rsplit_once(':').map_or(&*label, |(host, _)| host);
            let is_it = |name: &&Unresolved| name.host.eq_ignore_ascii_case(host);
            if let Some(name) = names.iter().find(is_it) {
                report.add(at, &key, format!("found {}, {name}", quoted(&label)));
            }
        }
        return (!report.is_empty()).then(|| report.into_error(file_name));
    }
    if let StartError::OwnUpstream(found) = error {
        for (at, key, label) in servers(&tree) {
            let is_it = |own: &&OwnUpstream| {
                own.server == label && key.starts_with(&format!("upstream.{}.", own.upstream))
            };
            if let Some(own) = found.iter().find(is_it) {
                report.add(at, &key, format!("found {}, {own}", quoted(&label)));
            }
        }
        return (!report.is_empty()).then(|| report.into_error(file_name));
    }
    let (at, key) = find(error, &tree)?;
    report.add(at, &key, error.to_string());
    Some(report.into_error(file_name))
}

/// Every server of the file: where it stands, the way to it, and its label.
fn servers(root: &DeTable<'_>) -> Vec<(usize, String, String)> {
    let upstreams = root.get("upstream").map(Spanned::get_ref);
    let upstreams = upstreams.and_then(DeValue::as_table).into_iter().flatten();
    let mut servers = Vec::new();
    for (name, upstream) in upstreams {
        let list = member(upstream, "servers").map_or(&[][..], items);
        for (index, item) in list.iter().enumerate() {
            let in_table = item.get_ref().is_table();
            let value = if in_table {
                member(item, "address")
            } else {
                Some(item)
            };
            let Some((value, text)) =
                value.and_then(|value| Some((value, value.get_ref().as_str()?)))
            else {
                continue;
            };
            let member = if in_table { ".address" } else { "" };
            let key = format!("upstream.{}.servers[{}]{member}", name.get_ref(), index + 1);
            let label = address::server(text).map_or_else(|_| text.to_owned(), |(label, _)| label);
            servers.push((value.span().start, key, label));
        }
    }
    servers
}

/// The byte at which the value stands that `error` is about, and the way to it.
fn find(error: &StartError, root: &DeTable<'_>) -> Option<(usize, String)> {
    match error {
        StartError::Listen(address, _) => {
            let listeners = root.get("listener").map_or(&[][..], items);
            let mut addresses: Vec<_> = listeners
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    (
                        format!("listener[{}].address", index + 1),
                        member(item, "address"),
                    )
                })
                .collect();
            let admin = root.get("admin").and_then(|admin| member(admin, "listen"));
            addresses.push(("admin.listen".to_owned(), admin));
            let names_it = |value: &Spanned<DeValue<'_>>| {
                value
                    .get_ref()
                    .as_str()
                    .and_then(|text| address::listen(text).ok())
                    == Some(*address)
            };
            addresses.into_iter().find_map(|(key, value)| {
                value
                    .filter(|value| names_it(value))
                    .map(|value| (value.span().start, key))
            })
        }
        StartError::AccessLog(..) => {
            let path = member(root.get("access_log")?, "path")?;
            Some((path.span().start, "access_log.path".to_owned()))
        }
        StartError::Cache(..) => {
            let disk = member(root.get("cache")?, "disk")?;
            Some((
                member(disk, "path")?.span().start,
                "cache.disk.path".to_owned(),
            ))
        }
        StartError::Routes(conflict) => {
            let route = items(root.get("route")?).get(conflict.route)?;
            let key = format!("route[{}].path", conflict.route + 1);
            Some((member(route, "path")?.span().start, key))
        }
        StartError::NeedsRestart(key) => {
            let mut sections = key.split('.');
            let (name, section) = root.get_key_value(sections.next()?)?;
            let value = sections.next().and_then(|key| member(section, key));
            let at = value.map_or(name.span().start, |value| value.span().start);
            Some((at, (*key).to_owned()))
        }
        StartError::Apps(_) => {
            let file = member(root.get("admin")?, "guard_file")?;
            Some((file.span().start, "admin.guard_file".to_owned()))
        }
        StartError::Changes(_) => {
            let file = member(root.get("admin")?, "changes_file")?;
            Some((file.span().start, "admin.changes_file".to_owned()))
        }
        StartError::Names(_)
        | StartError::OwnUpstream(_)
        | StartError::Service(..)
        | StartError::Thread(_)
        | StartError::Draining => None,
    }
}

fn items<'d, 't>(value: &'d Spanned<DeValue<'t>>) -> &'d [Spanned<DeValue<'t>>] {
    value.get_ref().as_array().map_or(&[], |array| array)
}

fn member<'d, 't>(value: &'d Spanned<DeValue<'t>>, key: &str) -> Option<&'d Spanned<DeValue<'t>>> {
    value.get_ref().as_table()?.get(key)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_start_that_fails_names_the_line() {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n[admin]\nlisten = \"127.0.0.1:2\"\n\
                    [access_log]\npath = \"x/y\"\n";
        let sources = Sources::of_text(text, "f", &|_| None, &mut Inputs::default());
        let taken = |port| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            StartError::Listen(address, std::io::ErrorKind::AddrInUse.into())
        };
        let log = StartError::AccessLog("x/y".to_owned(), std::io::ErrorKind::NotFound.into());
        for (error, beginning) in [
            (
                taken(1),
                "f:2: listener[1].address: cannot listen on 127.0.0.1:1",
            ),
            (taken(2), "f:4: admin.listen: cannot listen on 127.0.0.1:2"),
            (log, "f:6: access_log.path: cannot open the access log x/y"),
        ] {
            let told = of(&error, &sources, &|_| None);
            let told = told.expect("it has a place").to_string();
            assert!(told.starts_with(beginning), "{told}");
        }
        assert!(of(&taken(3), &sources, &|_| None).is_none());
    }
}
