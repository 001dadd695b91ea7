//! A process group that the janitor knows of before it runs.
//!
//! A service is started as `weir lab-start PROGRAM ARGUMENTS...`. That waits for a byte on its standard input and then
//! becomes the program ([`become_program`]). The byte is sent once the janitor knows of the group. If the laboratory is
//! killed before that, the input ends and nothing is started. The process joins its cgroup there too, so no thread of
//! the service ever runs outside it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::janitor::{self, Item, Janitor};

/// The hidden command of the binary that runs [`become_program`].
pub const COMMAND: &str = "lab-start";

/// How much of the end of a program's output is shown when it fails.
const SHOWN_LINES_MAX: usize = 6;

/// What to start.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// The running weir.
    pub(crate) weir: &'a Path,
    pub(crate) janitor: &'a Janitor,
    /// Program and arguments.
    pub(crate) command: &'a [String],
    pub(crate) directory: &'a Path,
    /// The file for its output.
    pub(crate) output: PathBuf,
    /// The file of members of a cgroup to join.
    pub(crate) join: Option<PathBuf>,
}

/// A running process group. Dropping it kills what is left of it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Pid,
    output: PathBuf,
    is_stopped: bool,
}

impl Process {
    pub(crate) fn start(start: &Start<'_>) -> io::Result<Self> {
        let output = File::create(&start.output)?;
        let errors = output.try_clone()?;
        let mut command = Command::new(start.weir);
        command.arg(COMMAND);
        if let Some(join) = &start.join {
            command.arg("--join").arg(join);
        }
        let mut child = command
            .arg("--")
            .args(start.command)
            .current_dir(start.directory)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&child);
        let go = child.stdin.take();
        let process = Self {
            child,
            group,
            output: start.output.clone(),
            is_stopped: false,
        };
        let told = start.janitor.exists(&Item::Group(group));
        let begun = told.and_then(|()| go.map_or(Ok(()), |mut go| go.write_all(b"\n")));
        match begun {
            Ok(()) => Ok(process),
            Err(error) => {
                process.stop(Duration::ZERO, start.janitor);
                Err(error)
            }
        }
    }

    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// The exit status; `None` while it runs.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The last lines of its output, on one line.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].join(" | ")
    }

    /// Whether its output contains `words`.
    pub(crate) fn has_printed(&self, words: &str) -> bool {
        let text = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(words)
    }

    /// Asks it to end. [`Process::stop`] waits for that.
    pub(crate) fn ask_to_stop(&self) {
        let _ = kill_process_group(self.group, Signal::TERM);
    }

    /// Waits until it has ended, and kills it after `patience`. The janitor is told when it is gone; what a kill did
    /// not end is left to the janitor.
    pub(crate) fn stop(mut self, patience: Duration, janitor: &Janitor) {
        self.is_stopped = true;
        // A zombie does not count as running, so the group is empty before its leader is waited for.
        let is_gone =
            janitor::wait_for_group(self.group, patience) || janitor::end_group(self.group);
        if is_gone {
            let _ = self.child.wait();
            janitor.cross_off(&Item::Group(self.group));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_stopped && janitor::end_group(self.group) {
            let _ = self.child.wait();
        }
    }
}

/// Turns this process into a service: it waits for the byte, joins a cgroup and becomes `program`. Returns only on
/// failure.
pub fn become_program(
    join: Option<&Path>,
    program: &OsString,
    arguments: &[OsString],
) -> io::Error {
    let mut go = [0; 1];
    if let Err(error) = io::stdin().read_exact(&mut go) {
        return error;
    }
    if let Some(members) = join
        && let Err(error) = fs::write(members, std::process::id().to_string())
    {
        return io::Error::new(error.kind(), format!("{}: {error}", members.display()));
    }
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .exec()
}
