//! Profiles of a real process with the real perf, and that nothing of them stays behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_lab::profile::{Finding, Profiler, Running, Target};

const LONGEST: Duration = Duration::from_secs(30);
const PROBES: &str = "/sys/kernel/tracing/uprobe_events";
/// The kernel's probes are one list for all; who adds one while another does so may be refused.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `dd` without end: a process of which it is known what it does, two system calls for each block.
struct Busy {
    child: Child,
    directory: PathBuf,
}

impl Busy {
    fn start(test: &str) -> Self {
        let mut command = Command::new("dd");
        command
            .args(["if=/dev/zero", "of=/dev/null", "bs=512"])
            .stderr(Stdio::null());
        let name = format!("weir-profile-{}-{test}", std::process::id());
        Self {
            child: command.spawn().expect("dd"),
            directory: std::env::temp_dir().join(name),
        }
    }

    fn look(&self) -> Running {
        let target = Target {
            name: "dd".to_owned(),
            pids: vec![self.child.id()],
        };
        Profiler::start("dd, busy", &[target], LONGEST, &self.directory).expect("a profile")
    }

    /// Children of this process that run perf.
    fn perfs(&self) -> usize {
        let own = format!("/proc/{}/task", std::process::id());
        let tasks = fs::read_dir(own).expect("threads of this process");
        let children =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children: String = children.collect::<Vec<_>>().join(" ");
        let dd = self.child.id().to_string();
        let is_perf = |child: &&str| {
            let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).into_owned();
            command.starts_with("perf\0") && command.contains(&format!("\0{dd}\0"))
        };
        children.split_whitespace().filter(is_perf).count()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What was found, or the reason why not, which must be one.
fn found<T>(finding: &Finding<T>) -> Option<&T> {
    match finding {
        Finding::Measured(found) => Some(found),
        Finding::Unavailable(why) => {
            assert!(why.len() > 10, "a reason: {why:?}");
            None
        }
    }
}

#[test]
fn a_busy_process_is_seen_through() {
    let _alone = alone();
    let busy = Busy::start("busy");
    let running = busy.look();
    std::thread::sleep(Duration::from_millis(500));
    let summary = running.finish(1_000).expect("a summary");
    let dd = &summary.targets[0];
    let profiles = busy.directory.join("profiles");
    if let Some(cpu) = found(&dd.cpu) {
        assert!(cpu.seconds > 0.0 && !cpu.hottest.is_empty(), "{cpu:?}");
        let graph = fs::read_to_string(profiles.join(&cpu.graph)).expect("a flame graph");
        assert!(graph.contains("<svg") && graph.contains("dd: on the CPU"));
    }
    if let Some(calls) = found(&dd.system_calls) {
        let names: Vec<&str> = calls
            .by_name
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert!(
            names.starts_with(&["read", "write"]) || names.starts_with(&["write", "read"]),
            "{calls:?}"
        );
        let (read, write) = (calls.by_name[0].1, calls.by_name[1].1);
        // The two are not counted from and to the same instant, which tells where the machine stands still in between.
        assert!(
            (read - write).abs() <= 0.02 * read,
            "one for one: {calls:?}"
        );
    }
    if let Some(allocations) = found(&dd.allocations) {
        assert!(
            allocations.per_request < 0.1,
            "dd allocates nothing on its way: {allocations:?}"
        );
    }
    found(&dd.waits);
    assert!(profiles.join("dd-busy.json").is_file());
    assert_eq!(busy.perfs(), 0);
}

#[test]
fn a_profile_that_is_dropped_leaves_nothing() {
    let _alone = alone();
    let busy = Busy::start("dropped");
    let running = busy.look();
    drop(running);
    assert_eq!(busy.perfs(), 0);
    let left = fs::read_dir(busy.directory.join("profiles")).expect("the directory of profiles");
    assert_eq!(left.count(), 0);
}

/// The probes of a laboratory that is no more: its number is higher than any process has.
#[test]
fn probes_of_the_dead_are_taken_out() {
    const DEAD: &str = "weir_lab_4194399_0";
    let _alone = alone();
    let libc = fs::read_to_string("/proc/self/maps").expect("our own maps");
    let libc = libc
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libc.so"));
    let mut perf = Command::new("perf");
    perf.args([
        "probe",
        "-q",
        "-x",
        libc.expect("a C library"),
        "--add",
        &format!("{DEAD}:malloc_0=malloc"),
    ]);
    if !perf
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        // Where we may not put probes, nobody's can be left.
        return;
    }
    let busy = Busy::start("dead");
    drop(busy.look());
    let probes = fs::read_to_string(PROBES).unwrap_or_default();
    assert!(!probes.contains(DEAD), "{probes}");
}
