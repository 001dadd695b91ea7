//! A real Postgres with nothing shared: its own data directory, port and socket.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use super::process::Process;
use super::tool::run;
use super::{Directory, free_port, wait_until};

/// Where Debian has the programs of a server, which are in nobody's path.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// A server, which can be killed and started again.
#[derive(Debug)]
pub(crate) struct Postgres {
    address: SocketAddr,
    directory: Directory,
    process: Option<Process>,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let mut postgres = Self {
            address: SocketAddr::from(([127, 0, 0, 1], free_port())),
            directory: Directory::new(),
            process: None,
        };
        let data = postgres.data();
        std::fs::create_dir(&data).expect("a temporary directory can be made");
        own(&data);
        let arguments = [
            "-A",
            "trust",
            "--locale=C",
            "--no-sync",
            "-U",
            "weir",
            "-D",
            &data,
        ];
        let (program, arguments) = as_server("initdb", &arguments);
        run(
            &program,
            &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        postgres.restart();
        postgres
    }

    fn data(&self) -> String {
        let data = self.directory.file("data");
        data.to_str().expect("UTF-8").to_owned()
    }

    /// Ends it as a crash would, if it runs.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Its children see to themselves when it is gone.
            process.kill();
        }
    }

    /// As after a crash.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let (data, port) = (self.data(), self.address.port().to_string());
        let pid = self.directory.file("data/postmaster.pid");
        let arguments = ["-D", &data, "-p", &port, "-h", "127.0.0.1", "-k", &data];
        let (program, arguments) = as_server("postgres", &arguments);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut started = None;
        // Children of one that was killed have the memory for a moment.
        wait_until("Postgres starts", || {
            let mut process = Process::start(&program, &arguments, &self.directory);
            let mut is_ready = false;
            while !is_ready && process.is_running() {
                std::thread::sleep(std::time::Duration::from_millis(20));
                let state = std::fs::read_to_string(&pid).unwrap_or_default();
                // One that was killed has left it behind.
                let is_own = state.lines().next() == Some(&process.pid().to_string());
                let last = state.lines().last();
                is_ready = is_own && last.is_some_and(|last| last.trim() == "ready");
            }
            started = is_ready.then_some(process);
            is_ready
        });
        self.process = started;
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://weir@{}/postgres", self.address)
    }

    /// What a statement answers, a line for each row.
    pub(crate) fn ask(&self, statement: &str) -> String {
        let arguments = [
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            &self.url(),
            "-c",
            statement,
        ];
        run("psql", &arguments).stdout.trim().to_owned()
    }
}

/// A program of the server, as the user that it insists on: it does not run as root.
fn as_server(program: &str, arguments: &[&str]) -> (String, Vec<String>) {
    let versions = std::fs::read_dir(PROGRAMS);
    let versions = versions.unwrap_or_else(|error| {
        panic!("{PROGRAMS} cannot be read: {error}; `make setup` installs Postgres")
    });
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path())).max();
    let program = newest
        .expect("a version of Postgres")
        .join("bin")
        .join(program);
    let program = program.to_str().expect("UTF-8").to_owned();
    let mut arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    if !is_root() {
        return (program, arguments);
    }
    let user = [
        "--reuid=postgres",
        "--regid=postgres",
        "--clear-groups",
        "--",
        &program,
    ];
    arguments.splice(0..0, user.map(str::to_owned));
    ("setpriv".to_owned(), arguments)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Gives a directory to the user of the server.
fn own(path: &str) {
    if is_root() {
        let id = |flag| run("id", &[flag, "postgres"]).stdout.trim().parse().ok();
        chown(path, id("-u"), id("-g")).expect("root may give it away");
    }
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(Path::new(path), mode).expect("it is there");
}
