//! Where in a config file the thing stands that a gateway could not start with.
//!
//! The gateway takes settings that have forgotten their file. What fails only when it starts (an address that is
//! taken, a log that cannot be opened) is looked up again here, so that it is told like any other mistake.

use std::net::SocketAddr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_gateway::StartError;

use super::error::{ConfigError, Report};
use super::syntax;

/// The error as a problem of `text`, a file that was read without any; `None` if it has no place in it.
pub(super) fn of(error: &StartError, text: &str, file_name: &str) -> Option<ConfigError> {
    let report = Report::on(text);
    let document = syntax::parse(text, &report);
    let (at, key) = find(error, document.get_ref())?;
    report.add(at, &key, error.to_string());
    Some(report.into_error(file_name))
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
                    .and_then(|text| text.parse::<SocketAddr>().ok())
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
        StartError::Thread(_) => None,
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
    use super::*;

    #[test]
    fn a_start_that_fails_names_the_line() {
        let text = "[[listener]]\naddress = \"127.0.0.1:1\"\n[admin]\nlisten = \"127.0.0.1:2\"\n\
                    [access_log]\npath = \"x/y\"\n";
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
            let told = of(&error, text, "f").expect("it has a place").to_string();
            assert!(told.starts_with(beginning), "{told}");
        }
        assert!(of(&taken(3), text, "f").is_none());
    }
}
