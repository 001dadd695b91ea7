//! Nodes of a store on machines of their own, whose network can fail; and clients beside them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::Mutex;

use serde_json::Value;

use crate::harness::client::ask_admin;
use crate::harness::network::Network;
use crate::harness::process::Process;
use crate::harness::tool::run;
use crate::harness::{Directory, PATIENCE, wait_until};

/// Where clients reach the node of their own machine, and operators.
const HTTP: SocketAddr = SocketAddr::new(LOOPBACK, 8080);
const ADMIN: SocketAddr = SocketAddr::new(LOOPBACK, 9901);
const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// Where nodes reach each other.
const PORT: u16 = 7000;

/// A node on each machine.
pub(super) struct Machines {
    nodes: Vec<OnMachine>,
    network: Network,
}

struct OnMachine {
    directory: Directory,
    process: Mutex<Process>,
}

impl Deref for Machines {
    type Target = Network;

    fn deref(&self) -> &Network {
        &self.network
    }
}

impl Machines {
    /// So many, each of which may be slowed down.
    pub(super) fn start(count: usize) -> Self {
        let mut network = Network::of(count);
        let address = |machine| SocketAddr::new(Network::address(machine), PORT);
        let all: Vec<String> = (0..count)
            .map(|machine| format!("\"{}\"", address(machine)))
            .collect();
        for machine in 0..count {
            network.relay(machine, PORT);
        }
        let nodes = (0..count).map(|machine| {
            let directory = Directory::new();
            let data = directory.file("data");
            let config = format!(
                "[server]\nworkers = 1\n[[listener]]\naddress = \"{HTTP}\"\n[admin]\nlisten = \"{ADMIN}\"\n\
                 [kv]\nengine = {{ path = \"{}\", durability = \"os\" }}\nnode = {}\nnodes = [{}]\n\
                 secret = \"0123456789abcdef\"\n\
                 [[route]]\npath = \"/v0/{{*rest}}\"\nkv = true\n[[route]]\npath = \"/v1/{{*rest}}\"\nkv = true\n",
                data.display(),
                all[machine],
                all.join(", ")
            );
            directory.write("weir.toml", config);
            let process = start(&network, machine, &directory);
            OnMachine {
                directory,
                process: Mutex::new(process),
            }
        });
        let nodes = nodes.collect();
        let machines = Self { nodes, network };
        machines.wait_for_all();
        machines
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Until each node has every other one take a write.
    pub(super) fn wait_for_all(&self) {
        let all = self.count();
        let target = format!("/v0/entity?id=ready&ack={all}&from={all}");
        for machine in 0..all {
            wait_until("the nodes know each other", || {
                let written = self.ask(machine, "PUT", &target, "", "");
                written.is_some_and(|written| written.status == 201)
            });
        }
    }

    pub(super) fn signal(&self, machine: usize, name: &str) {
        let process = self.nodes[machine].process.lock();
        process.expect("nobody panics").signal(name);
    }

    /// As after a crash.
    pub(super) fn restart(&self, machine: usize) {
        let node = &self.nodes[machine];
        let mut process = node.process.lock().expect("nobody panics");
        process.kill();
        *process = start(&self.network, machine, &node.directory);
    }

    /// One request to the node of a machine, from there.
    pub(super) fn ask(
        &self,
        machine: usize,
        method: &str,
        target: &str,
        lines: &str,
        body: &str,
    ) -> Option<Told> {
        self.on(machine, || {
            Client::default().ask(method, target, lines, body)
        })
    }

    /// What a node tells operators of its store.
    pub(super) fn store(&self, machine: usize) -> Value {
        let answer = self.on(machine, || ask_admin(ADMIN, "/store"));
        serde_json::from_slice(&answer.body).expect("it is JSON")
    }

    /// Hints that wait on a node.
    pub(super) fn hints(&self, machine: usize) -> u64 {
        let store = self.store(machine);
        let nodes = store["nodes"].as_array().expect("a list");
        let waiting = nodes.iter().map(|node| node["hints"]["waiting"].as_u64());
        waiting.flatten().sum()
    }

    /// `weir kv repair --wait` on a machine, and what came of it.
    pub(super) fn repair(&self, machine: usize) -> Value {
        let admin = ADMIN.to_string();
        let arguments = ["kv", "repair", "--wait", "--json", "--admin", &admin];
        self.on(machine, || run(env!("CARGO_BIN_EXE_weir"), &arguments));
        self.store(machine)["repair"].clone()
    }
}

fn start(network: &Network, machine: usize, directory: &Directory) -> Process {
    let config = directory.file("weir.toml");
    let config = config.to_str().expect("UTF-8").to_owned();
    let process = network.on(machine, || {
        Process::weir(&["serve", "--config", &config], directory)
    });
    process.wait_for_port(HTTP);
    process.wait_for_port(ADMIN);
    process
}

/// What a node has answered.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) body: String,
}

/// A client of the node that is on the machine of its thread.
#[derive(Debug, Default)]
pub(super) struct Client(Option<TcpStream>);

impl Client {
    /// Nothing is told if the node is gone before it answers.
    pub(super) fn ask(
        &mut self,
        method: &str,
        target: &str,
        lines: &str,
        body: &str,
    ) -> Option<Told> {
        let stream = self.0.take().or_else(|| TcpStream::connect(HTTP).ok())?;
        let told = exchange(&stream, method, target, lines, body)?;
        self.0 = Some(stream);
        Some(told)
    }
}

fn exchange(
    mut stream: &TcpStream,
    method: &str,
    target: &str,
    lines: &str,
    body: &str,
) -> Option<Told> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    };
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = Vec::new();
    if let Some(length) = field("content-length") {
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).ok()?;
    } else if field("transfer-encoding").is_some() {
        body = chunks(stream)?;
    }
    Some(Told {
        status,
        etag: field("etag"),
        body: String::from_utf8(body).ok()?,
    })
}

fn chunks(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            line.push(byte[0]);
        }
        let size = std::str::from_utf8(&line).ok()?.trim_end();
        let size = usize::from_str_radix(size, 16).ok()?;
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).ok()?;
        content.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Some(content);
        }
    }
}
