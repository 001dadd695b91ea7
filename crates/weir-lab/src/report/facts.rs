//! The circumstances of a run in words: machine, versions, services, and blocks that do not count.

use super::number;
use crate::raw::{Configuration, Run, Service};

/// One line below the title.
pub(super) fn subtitle(run: &Run) -> String {
    let rounds = match run.rounds {
        1 => "once".to_owned(),
        rounds => format!("{rounds} times"),
    };
    format!(
        "Run on {}, in {}; every rung was measured {rounds} under every load.",
        run.started,
        duration(run.seconds)
    )
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 60, whole % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// The conditions under which the numbers hold: name and value.
pub(super) fn conditions(run: &Run) -> Vec<(&'static str, String)> {
    let machine = &run.machine;
    let apart = run.generator_cpus.map_or(String::new(), |cpus| {
        format!(", {cpus} of them for the generator alone")
    });
    let programs = run.programs.iter().map(|program| {
        // Some programs name themselves in their version text, some do not.
        if program.version.contains(&program.name) {
            program.version.clone()
        } else {
            format!("{} {}", program.name, program.version)
        }
    });
    let loads = run.loads.iter().map(|load| {
        let pace = load.rate.map_or("closed loop".to_owned(), |rate| {
            format!("{} a second", number::figure(rate))
        });
        let (connections, threads) = (load.connections, load.threads);
        let reuse = if load.keep_alive {
            ""
        } else {
            ", one for each request"
        };
        let beside = load.beside.as_ref();
        let beside = beside.map_or(String::new(), |beside| format!(", {beside}"));
        let timeout = load.timeout_s.map_or(String::new(), |seconds| {
            format!(", answers within {} s", number::published(seconds))
        });
        format!(
            "{} ({} {}, connections {connections}{reuse}, threads {threads}, {pace}{timeout}, {}{beside})",
            load.name, load.method, load.path, load.amount
        )
    });
    vec![
        (
            "Processor",
            format!("{}, {} CPUs{apart}", machine.processor, machine.cpus),
        ),
        (
            "Memory",
            format!(
                "{} GiB",
                number::figure(machine.memory_bytes as f64 / f64::from(1 << 30))
            ),
        ),
        ("System", machine.system.clone()),
        ("CPU shares", machine.cpu_shares.clone()),
        ("Open files", number::count(machine.open_files)),
        ("Programs", programs.collect::<Vec<_>>().join("; ")),
        ("Loads", loads.collect::<Vec<_>>().join("; ")),
    ]
}

/// A service of a rung in one line.
pub(super) fn service(service: &Service, configuration: &Configuration) -> String {
    let kind = if service.kind == service.name {
        String::new()
    } else {
        format!(", {}", service.kind)
    };
    let entry = if service.name == configuration.entry {
        "; it is the one that is asked"
    } else {
        ""
    };
    let share = service.cpu_share.map_or(String::new(), |share| {
        format!("; at most {} % of one CPU", number::figure(share * 100.0))
    });
    format!("{}{kind}{share}{entry}", service.name)
}

/// The blocks that do not count, each with its reason.
pub(super) fn invalid(run: &Run) -> Vec<String> {
    let invalid = run.blocks.iter().filter(|block| !block.is_valid);
    let described = invalid.map(|block| {
        format!(
            "{}, {}, round {}: {}",
            block.configuration,
            block.load,
            block.round + 1,
            block.why_invalid
        )
    });
    described.collect()
}
