//! However a laboratory ends, nothing of it is left: no process, no cgroup, no directory.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::{lab, leftovers, run, stderr};
use crate::harness::{Directory, wait_until};

/// An app with a CPU share behind nginx, whose worker is a process of its own.
fn scenario(with_share: bool) -> String {
    let share = if with_share {
        "cpu_share = { app = 0.5 }\n"
    } else {
        ""
    };
    let nginx = "worker_processes 1;\nevents { worker_connections 64; }\nhttp {\n    {temporary}\n    access_log off;\n    \
                 server { listen 127.0.0.1:{port}; location / { proxy_pass http://127.0.0.1:{port:app}; } }\n}\n";
    format!(
        "title = \"long\"\nbaseline = \"both\"\nrounds = 100\nquick = {{ rounds = 1 }}\n\
         [[load]]\nname = \"page\"\npath = \"/\"\nconnections = 2\nduration = \"60s\"\nquick = \"1s\"\n\
         [[configuration]]\nname = \"both\"\nservices = [\"app\", \"nginx\"]\n{share}\
         [service.app]\nkind = \"app\"\n[service.nginx]\nkind = \"nginx\"\nconfig = '''\n{nginx}'''\n"
    )
}

/// A laboratory in the middle of a block.
struct Running {
    child: Child,
    directory: Directory,
    cgroups: Vec<PathBuf>,
}

impl Running {
    /// With CPU shares where the system gives them; where it does not, the laboratory must say so.
    fn start() -> Self {
        Self::start_with(true)
            .unwrap_or_else(|| Self::start_with(false).expect("without shares it runs"))
    }

    fn start_with(with_share: bool) -> Option<Self> {
        let directory = Directory::new();
        directory.write("long.toml", scenario(with_share));
        let errors = fs::File::create(directory.file("errors.txt")).expect("a file can be made");
        let mut child = lab(&["run", "./long.toml"], &directory)
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("weir can be started");
        let is_up = || processes_in(&directory.file("")).len() >= 4;
        wait_until("the services run", || {
            is_up() || child.try_wait().expect("it is a child").is_some()
        });
        if child.try_wait().expect("it is a child").is_some() {
            let told = fs::read_to_string(directory.file("errors.txt")).unwrap_or_default();
            assert!(with_share && told.contains("cgroup"), "{told}");
            return None;
        }
        let cgroups = cgroups_of(child.id());
        assert_eq!(cgroups.len(), usize::from(with_share), "{cgroups:?}");
        Some(Self {
            child,
            directory,
            cgroups,
        })
    }

    fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    fn assert_nothing_is_left(&self) {
        let root = self.directory.file("");
        let own = |pid: &u32| *pid != self.child.id();
        wait_until("all processes are gone", || {
            !processes_in(&root).iter().any(own)
        });
        wait_until("all directories are gone", || leftovers(&root).is_empty());
        wait_until("all cgroups are gone", || {
            !self.cgroups.iter().any(|path| path.exists())
        });
        let memory = format!("weir-lab-{}-", self.child.id());
        let in_memory = || fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        wait_until("nothing is left in memory", || {
            !in_memory().any(|entry| entry.file_name().to_string_lossy().starts_with(&memory))
        });
        assert!(!self.directory.file("lab-long").exists());
    }
}

/// The processes that work in `directory` or below: the laboratory, its janitor and its services.
fn processes_in(directory: &Path) -> Vec<u32> {
    let pids = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_there = |pid: &u32| {
        let place = fs::read_link(format!("/proc/{pid}/cwd"));
        place.is_ok_and(|place| place.starts_with(directory))
    };
    pids.filter(works_there).collect()
}

fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("weir-lab-{pid}-");
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    for signal in ["INT", "TERM"] {
        let mut running = Running::start();
        running.signal(signal);
        let status = running.child.wait().expect("it ends");
        assert_eq!(
            status.code(),
            Some(2),
            "SIG{signal}: nothing was measured yet"
        );
        running.assert_nothing_is_left();
    }
}

#[test]
fn a_kill_leaves_nothing_behind() {
    let mut running = Running::start();
    running.signal("KILL");
    let status = running.child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(9));
    running.assert_nothing_is_left();
}

#[test]
fn a_process_that_leaves_its_group_ends_with_its_cgroup() {
    let directory = Directory::new();
    let weir = env!("CARGO_BIN_EXE_weir");
    let line = format!("setsid sleep 600 & exec {weir} app --listen 127.0.0.1:{{port}}");
    directory.write(
        "runaway.toml",
        format!(
            "title = \"runaway\"\nbaseline = \"app\"\nrounds = 1\nquick = {{ rounds = 1 }}\n\
             [[load]]\nname = \"page\"\npath = \"/\"\nconnections = 1\nduration = \"100ms\"\nquick = \"100ms\"\n\
             [[configuration]]\nname = \"app\"\nservices = [\"app\"]\ncpu_share = {{ app = 0.5 }}\n\
             [service.app]\nkind = \"command\"\nline = {line:?}\n"
        ),
    );
    let child = lab(&["run", "./runaway.toml"], &directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir can be started");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    if stderr(&output).contains("limits CPU shares by cgroups, which is not possible here") {
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(processes_in(&directory.file("")), [0; 0]);
    assert_eq!(cgroups_of(id), Vec::<PathBuf>::new());
}

#[test]
fn what_was_measured_outlives_a_kill() {
    let directory = Directory::new();
    let short = scenario(false).replace("60s", "50ms");
    directory.write("short.toml", short);
    let mut child = lab(&["run", "./short.toml"], &directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("weir can be started");
    let raw = directory.file("lab-short/raw.json");
    wait_until("a block was measured", || raw.exists());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let output = run(&["report", "lab-short"], &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = fs::read_to_string(directory.file("lab-short/report.md")).expect("a report");
    assert!(report.contains("ended before its last block"), "{report}");
}
