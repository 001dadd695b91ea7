//! Runs perf, and says in one sentence why it failed.
//!
//! Every perf has a maximum run time (`-- sleep N`), so that none outlives a laboratory that was killed.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long perf may take to attach itself.
const ATTACH_MAX: Duration = Duration::from_secs(5);
/// How long perf may take to end: it writes its data first.
const END_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running perf, or why there is none.
#[derive(Debug)]
pub(super) enum Started {
    Runs(Perf),
    Failed(String),
}

/// A perf that writes into a file. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Perf {
    child: Child,
    started: Instant,
    duration: Duration,
    pub(super) file: PathBuf,
}

/// Starts `perf ARGUMENTS -p PIDS -o FILE -- sleep SECONDS`.
pub(super) fn start(arguments: &[&str], pids: &[u32], duration: Duration, file: &Path) -> Started {
    let seconds = duration.as_secs_f64();
    let mut command = Command::new("perf");
    command
        .args(arguments)
        .args(["-p", &joined(pids), "-o"])
        .arg(file);
    command.args(["--", "sleep", &seconds.to_string()]);
    let complaints = match File::create(complaints(file)) {
        Ok(complaints) => complaints,
        Err(error) => return Started::Failed(format!("cannot write {}: {error}", file.display())),
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints);
    match command.spawn() {
        Ok(child) => Started::Runs(Perf {
            child,
            started: Instant::now(),
            duration,
            file: file.to_owned(),
        }),
        Err(error) => Started::Failed(not_started("perf", &error)),
    }
}

impl Started {
    /// Returns when perf has begun, or has failed.
    pub(super) fn wait_until_looking(&mut self) {
        let Self::Runs(perf) = self else {
            return;
        };
        let until = Instant::now() + ATTACH_MAX;
        while !perf.is_looking()
            && Instant::now() < until
            && matches!(perf.child.try_wait(), Ok(None))
        {
            std::thread::sleep(LOOK_EVERY);
        }
        perf.started = Instant::now();
    }

    /// Ends perf, if it still runs, and returns it with the seconds it measured.
    pub(super) fn end(self) -> Result<(Perf, f64), String> {
        let mut perf = match self {
            Self::Runs(perf) => perf,
            Self::Failed(why) => return Err(why),
        };
        let seconds = perf.started.elapsed().min(perf.duration).as_secs_f64();
        let until = Instant::now() + END_MAX;
        let mut is_told = false;
        let status = loop {
            match perf.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() > until => return Err("perf did not end".to_owned()),
                Ok(None) if !is_told => is_told = perf.wake(),
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Err(error) => return Err(format!("perf: {error}")),
            }
        };
        // When its sleep is ended, perf writes its data and then sends itself the same signal.
        if status.success() || status.signal() == Some(Signal::TERM.as_raw()) {
            return Ok((perf, seconds));
        }
        let mut said = String::new();
        let complaints = File::open(complaints(&perf.file));
        let _ = complaints.and_then(|mut complaints| complaints.read_to_string(&mut said));
        Err(reason("perf", &said))
    }
}

impl Perf {
    /// perf starts its `sleep` once its events are counted.
    fn is_looking(&self) -> bool {
        self.sleep().is_some()
    }

    /// Ends the `sleep`, and perf with it. Told to end itself, `perf stat` would wait for the sleep.
    fn wake(&self) -> bool {
        self.sleep()
            .is_some_and(|sleep| kill_process(sleep, Signal::TERM).is_ok())
    }

    fn sleep(&self) -> Option<Pid> {
        let perf = self.child.id();
        let children = fs::read_to_string(format!("/proc/{perf}/task/{perf}/children")).ok()?;
        let is_sleep = |child: &&str| {
            fs::read_to_string(format!("/proc/{child}/comm"))
                .is_ok_and(|name| name.trim() == "sleep")
        };
        let sleep = children.split_whitespace().find(is_sleep)?;
        Pid::from_raw(sleep.parse().ok()?)
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && !self.wake()
        {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// What `program` prints to standard output.
pub(super) fn output(program: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| not_started(program, &error))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(reason(program, &String::from_utf8_lossy(&output.stderr)))
    }
}

/// Process ids in the form that perf and strace take.
pub(super) fn joined(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(",")
}

fn complaints(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".complaints");
    name.into()
}

fn not_started(program: &str, error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::NotFound {
        format!("{program} is not installed")
    } else {
        format!("{program} does not start: {error}")
    }
}

/// The line in which a program says what is wrong, as a sentence.
fn reason(program: &str, said: &str) -> String {
    let lines = said.lines().map(str::trim);
    // perf underlines its headings and explains at length; the first line with content is the reason.
    let mut lines =
        lines.filter(|line| line.len() > 1 && *line != "Error:" && !line.starts_with("Warning:"));
    let line = lines.next().unwrap_or("it failed and said nothing");
    format!("{program}: {line}")
}
