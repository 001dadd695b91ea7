//! Programs that do one thing and end: clients and load generators that were written by others.

use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Directory;

/// A program that runs for longer than this hangs. A browser takes its time to start on a busy machine.
const RUN_MAX: Duration = Duration::from_secs(120);

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `program` to its end; it must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Run {
    let run = run_to_end(program, arguments);
    assert!(
        run.status.success(),
        "{program} {arguments:?} ended with {}: {}{}",
        run.status,
        run.stderr,
        run.stdout
    );
    run
}

/// Runs `program` to its end, whatever that is.
pub(crate) fn run_to_end(program: &str, arguments: &[&str]) -> Run {
    let directory = Directory::new();
    let (stdout, stderr) = (directory.file("stdout"), directory.file("stderr"));
    let create = |path| File::create(path).expect("a temporary file can be made");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(create(&stdout))
        .stderr(create(&stderr))
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{program} cannot be started: {error}; `make setup` installs it")
        });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if started.elapsed() > RUN_MAX {
            let _ = child.kill();
            break child.wait().expect("a child can be waited for");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |path| {
        String::from_utf8_lossy(&std::fs::read(path).expect("what was printed can be read"))
            .into_owned()
    };
    Run {
        status,
        stdout: read(&stdout),
        stderr: read(&stderr),
    }
}
