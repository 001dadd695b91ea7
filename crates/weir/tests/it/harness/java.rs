//! Where the jars of services are that come from Maven.

use std::path::Path;

/// The class path of a service such as `kafka`; `scripts/services` fetches it.
pub(super) fn class_path(name: &str) -> String {
    let target = Path::new(env!("CARGO_BIN_EXE_weir")).ancestors().nth(2);
    let services = target
        .expect("a binary in a target directory")
        .join("services");
    let found = std::fs::read_dir(&services).ok().and_then(|entries| {
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
        entries.filter(|path| is_of(path, name)).max()
    });
    let found = found.unwrap_or_else(|| {
        panic!(
            "{} has no {name}; `make setup` fetches it",
            services.display()
        )
    });
    format!("{}/libs/*", found.display())
}

fn is_of(path: &Path, name: &str) -> bool {
    let own = path.file_name().and_then(|own| own.to_str());
    own.is_some_and(|own| own.starts_with(&format!("{name}-")))
}
