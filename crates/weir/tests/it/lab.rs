//! `weir lab` from outside: what it measures is real, what it starts is gone afterwards, and what cannot be done is told in
//! one line.

mod beside;
mod cleanup;
mod databases;
mod events;
mod refusals;
mod runs;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::Directory;

/// An app alone and behind weir, measured for a moment. The last rung needs a key that no weir knows.
const TINY: &str = r#"title = "tiny"
baseline = "app"
rounds = 2
warm_up = "50ms"
quick = { rounds = 1 }

[[load]]
name = "page"
path = "/"
connections = 2
duration = "300ms"
quick = "100ms"

[[configuration]]
name = "app"
services = ["app"]

[[configuration]]
name = "weir"
services = ["app", "weir"]
published = { page = 12345 }

[[configuration]]
name = "weir of tomorrow"
services = ["app", "tomorrow"]
needs = "foresight"

[service.app]
kind = "app"

[service.weir]
kind = "weir"
config = '''
[[listener]]
address = "127.0.0.1:{port}"
[upstream.app]
servers = ["127.0.0.1:{port:app}"]
[[route]]
path = "/{*rest}"
upstream = "app"
'''

[service.tomorrow]
kind = "weir"
config = '''
[[listener]]
address = "127.0.0.1:{port}"
[upstream.app]
servers = ["127.0.0.1:{port:app}"]
[[route]]
path = "/{*rest}"
upstream = "app"
foresight = true
'''
"#;

/// `weir lab` with these arguments, its temporary files and results in `directory`.
fn lab(arguments: &[&str], directory: &Directory) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .arg("lab")
        .args(arguments)
        .current_dir(directory.file(""))
        .env("TMPDIR", directory.file(""))
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str], directory: &Directory) -> Output {
    lab(arguments, directory)
        .output()
        .expect("weir can be started")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a laboratory left in its directory of temporary files.
fn leftovers(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory)
        .expect("the directory is there")
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("weir-lab-")).collect()
}
