//! `[service.NAME]` of a scenario: what kind of service it is, and the keys that belong to the kind.

use std::collections::BTreeMap;

use weir_lab::scenario::Kind;

use super::super::read::Table;
use super::{THREADS, free_texts, text, texts};

/// Reads every `[service.NAME]`.
pub(super) fn all(root: &mut Table) -> BTreeMap<String, Kind> {
    let tables = root.section("service", "[service.app]");
    let entries = tables.as_ref().map_or_else(Vec::new, Table::entries);
    let services = entries.into_iter().filter_map(|(name, value)| {
        // It becomes a part of file names and of placeholders.
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(is_name_char) {
            value.wrong("expected a name of letters, digits and \"-\"");
        }
        Some((name.to_owned(), service(value.table("[service.app]")?)?))
    });
    services.collect()
}

/// What a service is, so that the other keys of its table are known.
#[derive(Clone, Copy)]
enum Known {
    App,
    Weir,
    Nginx,
    HaProxy,
    Gunicorn,
    Kafka,
    Postgres,
    Cassandra,
    Command,
}

const KINDS: [(&str, Known); 9] = [
    ("app", Known::App),
    ("weir", Known::Weir),
    ("nginx", Known::Nginx),
    ("haproxy", Known::HaProxy),
    ("gunicorn", Known::Gunicorn),
    ("kafka", Known::Kafka),
    ("postgres", Known::Postgres),
    ("cassandra", Known::Cassandra),
    ("command", Known::Command),
];

fn service(mut table: Table) -> Option<Kind> {
    let kind = table
        .required("kind", "what it is, as in \"nginx\"")?
        .choice(&KINDS)?;
    let config = |table: &mut Table| text(table, "config", "the config file");
    let kind = match kind {
        Known::App => {
            let threads = table.optional("threads");
            let threads = threads
                .and_then(|value| value.integer(THREADS))
                .unwrap_or(1) as usize;
            let flags = table.optional("flags");
            Kind::App {
                threads,
                flags: flags.map_or_else(Vec::new, |value| texts(&value, "flags of `weir app`")),
            }
        }
        Known::Weir => Kind::Weir {
            config: config(&mut table),
        },
        Known::Nginx => Kind::Nginx {
            config: config(&mut table),
            files: free_texts(&mut table, "files"),
        },
        Known::HaProxy => Kind::HaProxy {
            config: config(&mut table),
        },
        Known::Gunicorn => {
            let module = text(
                &mut table,
                "module",
                "the Python source of a module with an `app`",
            );
            let packages = table.optional("packages");
            let packages = packages.map_or_else(Vec::new, |value| {
                texts(&value, "packages as pip names them")
            });
            let workers = table.optional("workers");
            let workers = workers
                .and_then(|value| value.integer(THREADS))
                .unwrap_or(1) as usize;
            Kind::Gunicorn {
                module,
                packages,
                workers,
            }
        }
        Known::Kafka => Kind::Kafka,
        Known::Postgres => Kind::Postgres {
            settings: free_texts(&mut table, "settings"),
        },
        Known::Cassandra => Kind::Cassandra {
            settings: free_texts(&mut table, "settings"),
        },
        Known::Command => Kind::Command {
            line: text(&mut table, "line", "a shell command with {port} in it"),
        },
    };
    table.finish();
    Some(kind)
}
