//! Child processes that end with the test that started them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{Directory, PATIENCE, wait_until};

/// A child process; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Process {
    /// Starts the `weir` under test.
    pub(crate) fn weir(arguments: &[&str], directory: &Directory) -> Self {
        Self::start(env!("CARGO_BIN_EXE_weir"), arguments, directory)
    }

    /// Starts `program`; what it prints goes to a file in `directory` and is shown when something fails.
    pub(crate) fn start(program: &str, arguments: &[&str], directory: &Directory) -> Self {
        let output = directory.file("output.txt");
        let file = File::create(&output).expect("the output file can be made");
        let errors = file.try_clone().expect("a descriptor can be duplicated");
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{program} cannot be started: {error}; `make setup` installs it")
            });
        Self {
            child,
            name: program.to_owned(),
            output,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits until the process itself listens there: another one may answer on the port of one that has ended.
    pub(crate) fn wait_for_port(&self, address: SocketAddr) {
        let started = Instant::now();
        while !self.listens(address.port()) {
            let (has_ended, is_late) = (self.sockets().is_none(), started.elapsed() > PATIENCE);
            assert!(
                !has_ended && !is_late,
                "{} {} {address}; it printed:\n{}",
                self.name,
                if has_ended {
                    "ended before it listened on"
                } else {
                    "does not listen on"
                },
                self.output()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// See proc(5) for the tables, which are those of the network that the process is in.
    fn listens(&self, port: u16) -> bool {
        let (own, pid) = (self.sockets().unwrap_or_default(), self.pid());
        ["tcp", "tcp6"].into_iter().any(|protocol| {
            let table = std::fs::read_to_string(format!("/proc/{pid}/net/{protocol}"));
            table.unwrap_or_default().lines().any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let is_there = fields
                    .next()
                    .is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
                let is_listening = fields.nth(1) == Some("0A");
                let inode = fields.nth(5).and_then(|field| field.parse().ok());
                is_there && is_listening && inode.is_some_and(|inode| own.contains(&inode))
            })
        })
    }

    /// The inodes of its sockets, and of those of its children: a shell or a debugger may be what was started. None once it has
    /// ended.
    fn sockets(&self) -> Option<Vec<u64>> {
        let mut sockets = sockets(self.pid())?;
        let mut parents = vec![self.pid()];
        while let Some(parent) = parents.pop() {
            for child in children(parent) {
                sockets.extend(self::sockets(child).unwrap_or_default());
                parents.push(child);
            }
        }
        Some(sockets)
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.pid().to_string()])
            .status();
        assert!(
            status.expect("kill runs").success(),
            "{} takes signals",
            self.name
        );
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the process ends", || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it ended")
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        open.expect("the process runs").count()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid()))
            .expect("the process runs");
        let pages: u64 = text
            .split(' ')
            .nth(1)
            .and_then(|field| field.parse().ok())
            .expect("statm has pages");
        pages * 4096
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} printed:\n{}", self.name, self.output());
        }
        self.kill();
    }
}

/// The inodes of the sockets of a process; none once it has ended.
fn sockets(pid: u32) -> Option<Vec<u64>> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let targets: Vec<_> = open
        .map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .collect();
    let inode = |target: &PathBuf| -> Option<u64> {
        let name = target.to_str()?.strip_prefix("socket:[")?;
        name.strip_suffix(']')?.parse().ok()
    };
    let is_alive = !targets.is_empty();
    is_alive.then(|| targets.iter().flatten().filter_map(inode).collect())
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let lists: Vec<String> = lists.map(Result::unwrap_or_default).collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.filter_map(|pid| pid.parse().ok()).collect()
}
