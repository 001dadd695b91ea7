//! What the tests share: starting `weir` and its peers, and talking HTTP byte by byte.
//!
//! Nothing here knows what is tested.

pub(crate) mod browser;
pub(crate) mod cassandra;
pub(crate) mod client;
mod java;
pub(crate) mod kafka;
pub(crate) mod name_server;
pub(crate) mod network;
pub(crate) mod nginx;
pub(crate) mod origin;
pub(crate) mod pattern;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod tool;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use process::Process;
use socket2::{Domain, Socket, Type};

/// Waits end after this long; what takes longer has failed. A slow client is cut off after 15 s, so this is some times that:
/// other processes may have the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A port that nothing listens on. Each call gives another one, from below those that the kernel hands out by itself, and
/// holds it until some hundreds more were given, so nothing else on this machine takes it before it is used, or while what
/// uses it is started again: it can be listened on with `SO_REUSEADDR` as everybody does, and is not free for `free_port`s.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static HELD: Mutex<VecDeque<Socket>> = Mutex::new(VecDeque::new());
    const HELD_MAX: usize = 300;
    // Test processes that run side by side begin in different places.
    let offset = (std::process::id() % 200) as u16 * 100;
    loop {
        let port = 10_000 + (offset + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // Without `SO_REUSEADDR`, this fails where anybody else holds or uses it.
        if socket.bind(&address.into()).is_ok() {
            let is_shared = socket.set_reuse_address(true);
            is_shared.expect("a bound socket takes options");
            let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
            held.push_back(socket);
            if held.len() > HELD_MAX {
                held.pop_front();
            }
            return port;
        }
    }
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory of its own, removed at the end.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, content).expect("a temporary file can be written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `weir serve`.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) process: Process,
    pub(crate) directory: Directory,
    /// What its config begins with.
    head: String,
}

impl Gateway {
    /// Starts `weir serve` with two workers, a listener, an admin listener and `config` behind them, and waits until it
    /// answers. `config` must not contain `[admin]` or `[[listener]]`; a `[server]` table of its own replaces ours.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_in(|_| config.to_owned())
    }

    /// The same with a config that names files in the gateway's directory.
    pub(crate) fn start_in(config: impl FnOnce(&Directory) -> String) -> Self {
        Self::start_with(&[], config)
    }

    /// The same with further flags.
    pub(crate) fn start_with(flags: &[&str], config: impl FnOnce(&Directory) -> String) -> Self {
        let directory = Directory::new();
        let config = config(&directory);
        Self::start_by(directory, &config, |arguments, directory| {
            Process::weir(&[arguments, flags].concat(), directory)
        })
    }

    /// The same by a shell that has run `limits` before: what is said there of resources and signals holds for the gateway.
    pub(crate) fn start_limited(config: &str, limits: &str) -> Self {
        let script = format!("{limits}; exec \"$0\" \"$@\"");
        Self::start_by(Directory::new(), config, |arguments, directory| {
            let shell = ["-c", &script, env!("CARGO_BIN_EXE_weir")];
            Process::start("sh", &[&shell, arguments].concat(), directory)
        })
    }

    /// The same by env(1), whose `flag` says what it inherits.
    pub(crate) fn start_by_env(flag: &str, config: &str) -> Self {
        Self::start_by(Directory::new(), config, |arguments, directory| {
            let env = [flag, env!("CARGO_BIN_EXE_weir")];
            Process::start("env", &[&env, arguments].concat(), directory)
        })
    }

    fn start_by(
        directory: Directory,
        config: &str,
        start: impl FnOnce(&[&str], &Directory) -> Process,
    ) -> Self {
        let (port, admin) = (free_port(), free_port());
        let server = if config.contains("[server]") {
            ""
        } else {
            "[server]\nworkers = 2\n"
        };
        let head = format!(
            "{server}[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n"
        );
        let path = directory.write("weir.toml", format!("{head}{config}"));
        let arguments = ["serve", "--config", path.to_str().expect("UTF-8")];
        let process = start(&arguments, &directory);
        let gateway = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            admin: SocketAddr::from(([127, 0, 0, 1], admin)),
            process,
            directory,
            head,
        };
        gateway.process.wait_for_port(gateway.address);
        gateway.process.wait_for_port(gateway.admin);
        gateway
    }

    /// A gateway that sends everything to `servers`.
    pub(crate) fn to(servers: &[SocketAddr]) -> Self {
        Self::start(&forward_everything(servers, ""))
    }

    /// Replaces the config file by one with `config`, as an editor does, and does not say so to anybody.
    pub(crate) fn configure(&self, config: &str) {
        let text = format!("{}{config}", self.head);
        let draft = self.directory.write("weir.toml.draft", text);
        std::fs::rename(draft, self.directory.file("weir.toml")).expect("a file can be renamed");
    }

    /// The line of the config file that holds `text`, which begins nowhere before.
    pub(crate) fn line_of(&self, text: &str) -> usize {
        let path = self.directory.file("weir.toml");
        let config = std::fs::read_to_string(path).expect("there is a config");
        let at = config.find(text).expect("the config has the text");
        config[..at].matches('\n').count() + 1
    }

    /// What `weir reload` prints; it must succeed.
    pub(crate) fn reload(&self) -> String {
        let run = self.try_reload();
        assert!(run.status.success(), "{}", run.stderr);
        run.stdout
    }

    /// `weir reload`.
    pub(crate) fn try_reload(&self) -> tool::Run {
        let admin = self.admin.to_string();
        tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin])
    }

    /// The sum of the samples of a metric that have, among others, the labels that `series` has; 0 when there are none.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels: Vec<_> = labels
            .trim_end_matches('}')
            .split_inclusive("\",")
            .collect();
        let page = client::ask_admin(self.admin, "/metrics").text();
        let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let values = lines.filter_map(|(sample, value)| {
            let (own, said) = sample.split_once('{').unwrap_or((sample, ""));
            let has = |label: &&str| {
                let label = label.trim_end_matches(',');
                said.starts_with(label) || said.contains(&format!("\",{label}"))
            };
            let is_it = own == name && labels.iter().all(has);
            is_it.then(|| value.parse::<u64>().expect("a count is a number"))
        });
        values.sum()
    }

    /// Waits until a metric has reached `value`: a request is counted once it is over, which its client may see before.
    pub(crate) fn wait_for_metric(&self, name_and_labels: &str, value: u64) {
        wait_until(&format!("{name_and_labels} is {value}"), || {
            self.metric(name_and_labels) >= value
        });
        assert_eq!(self.metric(name_and_labels), value, "{name_and_labels}");
    }
}

/// The config for one upstream and one route; `more` goes into the upstream's table.
pub(crate) fn forward_everything(servers: &[SocketAddr], more: &str) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|server| format!("\"{server}\""))
        .collect();
    let servers = servers.join(", ");
    format!(
        "[upstream.app]\nservers = [{servers}]\n{more}\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    )
}

/// A running `weir app`.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    pub(crate) name: String,
    pub(crate) process: Process,
    _directory: Directory,
}

impl App {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, free_port(), &[])
    }

    pub(crate) fn start_with(name: &str, port: u16, flags: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let directory = Directory::new();
        let listen = address.to_string();
        let arguments = [&["app", "--listen", &listen, "--name", name], flags].concat();
        let process = Process::weir(&arguments, &directory);
        process.wait_for_port(address);
        Self {
            address,
            name: name.to_owned(),
            process,
            _directory: directory,
        }
    }
}
