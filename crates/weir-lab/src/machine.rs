//! The machine of a run, for readers of its figures, and times as text.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::raw::Machine;
use crate::services::Lab;

/// What is known of this machine.
pub(crate) fn describe(lab: &Lab) -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name")
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        system: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        cpu_shares: lab
            .cpu_shares()
            .map_or_else(str::to_owned, ToString::to_string),
        open_files: limit.unwrap_or(u64::MAX),
    }
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kibibytes = field(meminfo, "MemTotal");
    let kibibytes = kibibytes
        .as_deref()
        .and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// The time as `2026-11-21T08:30:00Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let unix = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let now = weir_http::date::Civil::from_unix(unix);
    let weir_http::date::Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
        ..
    } = now;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_times_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(
            field(cpuinfo, "model name").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(
            memory_bytes("MemTotal:       16 kB\nMemFree: 3 kB\n"),
            16 * 1024
        );
        assert_eq!(rfc3339(UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
