//! Queues, end to end: what is accepted is delivered, once the upstream takes it, and operators see to the rest.

mod access_log;
mod answers;
mod apart;
mod cassandra;
mod delivery;
mod kafka;
mod killed;
mod operators;
mod sink;
mod sinks;
mod trouble;

use std::net::SocketAddr;

use serde_json::Value;

use self::sink::Sink;
use crate::harness::client::{Response, ask_admin, send};
use crate::harness::process::Process;
use crate::harness::tool::{self, Run};
use crate::harness::{Directory, free_port, wait_until};

/// A gateway with a queue, which can be killed and started again.
struct Queued {
    /// Goes before its directory, where what it printed is.
    process: Option<Process>,
    directory: Directory,
    ports: [u16; 2],
}

impl Queued {
    /// `queue` is what its `[queue.events]` says besides its path, and `routes` the rest. Without any, everything is deferred to
    /// the sink.
    fn start(sink: &Sink, queue: &str, routes: &str) -> Self {
        let mut queued = Self {
            directory: Directory::new(),
            ports: [free_port(), free_port()],
            process: None,
        };
        queued.configure(sink, queue, routes);
        queued.restart();
        queued
    }

    fn configure(&self, sink: &Sink, queue: &str, routes: &str) {
        let every = "[[route]]\npath = \"/{*rest}\"\ndefer = \"events\"\nupstream = \"sink\"\n";
        let routes = if routes.is_empty() { every } else { routes };
        self.write(&format!(
            "[queue.events]\npath = \"{}\"\n{queue}\n[upstream.sink]\nservers = [\"{}\"]\n{routes}",
            self.path().display(),
            sink.address
        ));
    }

    fn write(&self, config: &str) {
        let [port, admin] = self.ports;
        let text = format!(
            "server.workers = 2\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n{config}"
        );
        self.directory.write("weir.toml", text);
    }

    /// Where the queue is.
    fn path(&self) -> std::path::PathBuf {
        self.directory.file("events")
    }

    fn launch(&self) -> Process {
        let path = self.directory.file("weir.toml");
        let path = path.to_str().expect("UTF-8");
        Process::weir(&["serve", "--config", path], &self.directory)
    }

    /// As after a crash.
    fn restart(&mut self) {
        self.kill();
        let process = self.launch();
        process.wait_for_port(self.admin());
        process.wait_for_port(self.address());
        self.process = Some(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// As a deploy does; the status.
    fn end(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("it runs");
        process.signal("TERM");
        process.wait().code()
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[0]))
    }

    fn admin(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[1]))
    }

    /// What the admin listener says of the queue.
    fn status(&self) -> Value {
        let page = ask_admin(self.admin(), "/queues").text();
        let queues: Value = serde_json::from_str(&page).expect("JSON");
        queues[0].clone()
    }

    /// What it says of a sink.
    fn sink(&self, name: &str) -> Value {
        let status = self.status();
        let sinks = status["sinks"].as_array().expect("a list");
        let sink = sinks.iter().find(|sink| sink["name"] == name);
        sink.unwrap_or_else(|| panic!("no sink {name} in {status}"))
            .clone()
    }

    /// Waits until a sink has everything.
    fn wait_for_sink(&self, name: &str) {
        wait_until(&format!("the sink {name} has everything"), || {
            self.sink(name)["waiting"] == 0
        });
    }

    fn wait_for(&self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), || {
            self.status()[name] == value
        });
    }

    fn post(&self, path: &str, body: &str) -> Response {
        self.post_with(path, "", body)
    }

    /// A request with more lines in its head.
    fn post_with(&self, path: &str, lines: &str, body: &str) -> Response {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
        );
        send(self.address(), &request)
    }

    /// The offset of a message that is accepted.
    #[track_caller]
    fn accepted(&self, path: &str, body: &str) -> u64 {
        let response = self.post(path, body);
        assert_eq!(response.status, 202, "{}", response.text());
        json(&response)["offset"].as_u64().expect("an offset")
    }

    /// `weir queue`.
    fn weir_queue(&self, arguments: &[&str]) -> Run {
        let admin = self.admin().to_string();
        let arguments = [&["queue"], arguments, &["--admin", &admin]].concat();
        tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments)
    }

    /// What it prints, which must succeed.
    #[track_caller]
    fn told(&self, arguments: &[&str]) -> String {
        let run = self.weir_queue(arguments);
        assert!(run.status.success(), "{arguments:?}: {}", run.stderr);
        run.stdout
    }
}

fn json(response: &Response) -> Value {
    serde_json::from_str(&response.text()).expect("JSON")
}
