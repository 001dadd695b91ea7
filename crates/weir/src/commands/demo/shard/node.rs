//! A node: a process that runs `weir serve`, and ends with the demo.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::place::{self, Place};
use crate::commands::client::Client;
use crate::commands::demo::directory::Directory;

/// How long a node may take until it serves, and to end by itself.
const START_MAX: Duration = Duration::from_secs(15);
const GRACE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(10);

pub(super) struct Node {
    name: String,
    http: SocketAddr,
    admin: SocketAddr,
    address: SocketAddr,
    config: PathBuf,
    /// Where its messages go.
    log: PathBuf,
    child: Child,
}

impl Node {
    /// Starts it, and waits until it serves. Must be called on the main thread, see [`super::super::replica`].
    pub(super) fn start(
        number: usize,
        place: &Place,
        config: &str,
        directory: &Directory,
    ) -> anyhow::Result<Self> {
        let name = place::name(number);
        let written = directory.write(&format!("{name}.toml"), config);
        let config = written.context("cannot write the config of a node")?;
        let log = config.with_extension("log");
        let child = spawn(&config, &log)?;
        let mut node = Self {
            name,
            http: place.http,
            admin: place.admin,
            address: place.node,
            config,
            log,
            child,
        };
        node.wait()?;
        Ok(node)
    }

    /// Starts it again, after it was killed.
    pub(super) fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.config, &self.log)?;
        self.wait()
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !Client::new(self.admin)
            .ask("GET", "/readyz", "", b"")
            .is_ok_and(|answer| answer.status == 200)
        {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                anyhow::bail!("{} ended before it served ({status}): {said}", self.name);
            }
            let is_late = began.elapsed() > START_MAX;
            anyhow::ensure!(!is_late, "{} does not serve", self.name);
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Ends it as a crash would.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn http(&self) -> SocketAddr {
        self.http
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// What the other nodes call it.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// How the store is, as it sees it.
    pub(super) fn store(&self) -> anyhow::Result<Value> {
        let page = Client::new(self.admin).get("/store")?;
        Ok(serde_json::from_slice(&page)?)
    }

    /// Has it compare its data with that of the others; what is told of that.
    pub(super) fn repair(&self) -> anyhow::Result<Value> {
        let json = "Content-Type: application/json\r\n";
        let answer = Client::new(self.admin).ask("POST", "/store/repair", json, b"{}")?;
        let mut store: Value = serde_json::from_slice(&answer.body)?;
        Ok(store["repair"].take())
    }
}

fn spawn(config: &PathBuf, log: &PathBuf) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find the program that is running")?;
    let log = File::create(log).context("cannot write the messages of a node")?;
    let child = Command::new(program)
        .args(["demo-node", "--parent", &std::process::id().to_string()])
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C in a terminal is for the demo, which looks at what is there before the nodes end.
        .process_group(0)
        .spawn();
    child.context("cannot start a node")
}

impl Drop for Node {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if !self.is_running() {
                return;
            }
            std::thread::sleep(POLL);
        }
        self.kill();
    }
}
