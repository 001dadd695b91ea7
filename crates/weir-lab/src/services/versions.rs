//! Which versions of which programs take part in a run, in the programs' own words.

use std::process::{Command, Stdio};

use super::recipe::find_program;
use super::{Lab, databases, jars, virtualenv};
use crate::raw::Program;
use crate::scenario::{Kind, Scenario};

/// The programs behind the services of `scenario`, each once.
pub fn of(lab: &Lab, scenario: &Scenario) -> Vec<Program> {
    let mut programs = Vec::new();
    let mut add = |name: &str, version: Option<String>| {
        if !programs
            .iter()
            .any(|program: &Program| program.name == name)
        {
            let version = version.unwrap_or_else(|| "version unknown".to_owned());
            programs.push(Program {
                name: name.to_owned(),
                version,
            });
        }
    };
    let weir = lab.weir().display().to_string();
    add("weir", first_line(&weir, &["--version"]));
    for kind in scenario.services.values() {
        match kind {
            Kind::Nginx { .. } => add("nginx", first_line("nginx", &["-v"])),
            Kind::HaProxy { .. } => add("haproxy", first_line("haproxy", &["-v"])),
            Kind::Gunicorn { packages, .. } => {
                add("python3", first_line("python3", &["-V"]));
                for package in virtualenv::with_gunicorn(packages) {
                    if let Some((name, version)) = package.split_once("==") {
                        add(name, Some(version.to_owned()));
                    }
                }
            }
            Kind::Kafka => {
                add("java", first_line("java", &["-version"]));
                add("kafka", Some(jars::KAFKA.to_owned()));
            }
            Kind::Postgres { .. } => {
                let server = databases::postgres_programs().map(|bin| bin.join("postgres"));
                let server = server.map(|path| path.display().to_string());
                let version = server.and_then(|path| first_line(&path, &["--version"]));
                add("postgres", version);
            }
            Kind::Cassandra { .. } => {
                add("java", first_line("java", &["-version"]));
                add("cassandra", Some(jars::CASSANDRA.to_owned()));
            }
            Kind::App { .. } | Kind::Weir { .. } | Kind::Command { .. } | Kind::Running { .. } => {}
        }
    }
    programs
}

/// The first line that a program prints to standard output or error.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(find_program(program)?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&text)
        .lines()
        .next()?
        .trim()
        .to_owned();
    Some(line)
}
