//! The key-value store from outside: real processes, which are killed and started again.

mod cassandra;
mod client;
mod cluster;
mod killed;
mod linear;
mod long;
mod machines;
mod members;
mod parted;
mod postgres;
mod redirects;
mod refused;
mod seen;
mod shell;
mod single;
mod staying;
mod upkeep;
mod v1;

use std::net::SocketAddr;

pub(crate) use self::cassandra::keyspace;

use crate::harness::client::{Connection, Response};
use crate::harness::process::Process;
use crate::harness::{Directory, free_port};

/// A node of a store.
struct Node {
    address: SocketAddr,
    directory: Directory,
    process: Process,
}

impl Node {
    /// A node alone, whose engine has these keys besides its path.
    fn alone(more: &str) -> Self {
        Self::with(more, "")
    }

    /// A cluster of so many nodes.
    fn several(count: usize) -> Vec<Self> {
        Self::several_with(count, "")
    }

    /// The same, with these keys of `[kv]` besides.
    fn several_with(count: usize, more: &str) -> Vec<Self> {
        Self::several_at(count, |_| more.to_owned())
    }

    /// The same, with keys of `[kv]` that follow from where clients reach them.
    fn several_at(count: usize, more: impl Fn(&[SocketAddr]) -> String) -> Vec<Self> {
        let addresses: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect();
        let more = more(&addresses);
        let others: Vec<String> = (0..count)
            .map(|_| format!("\"127.0.0.1:{}\"", free_port()))
            .collect();
        let nodes = others.join(", ");
        let nodes = others.iter().zip(addresses).map(|(node, address)| {
            let store = format!("node = {node}\nnodes = [{nodes}]\n{more}");
            Self::at(address, "", &store)
        });
        nodes.collect()
    }

    fn with(engine: &str, store: &str) -> Self {
        Self::at(free_address(), engine, store)
    }

    fn at(address: SocketAddr, engine: &str, store: &str) -> Self {
        let directory = Directory::new();
        let data = directory.file("data");
        let engine = format!("path = \"{}\"{engine}", data.display());
        Self::in_directory(address, directory, &engine, store)
    }

    /// A node whose data is in a database.
    fn in_database(engine: &str) -> Self {
        Self::in_directory(free_address(), Directory::new(), engine, "")
    }

    fn in_directory(address: SocketAddr, directory: Directory, engine: &str, store: &str) -> Self {
        let config = format!(
            "[server]\nworkers = 2\n[[listener]]\naddress = \"{address}\"\n[kv]\nengine = {{ {engine} }}\n{store}\
             [[route]]\npath = \"/v0/{{*rest}}\"\nkv = true\n[[route]]\npath = \"/v1/{{*rest}}\"\nkv = true\n"
        );
        directory.write("weir.toml", config);
        let process = start(&directory, address);
        Self {
            address,
            directory,
            process,
        }
    }

    /// As after a crash, on the same port.
    fn restart(&mut self) {
        self.process.kill();
        self.process = start(&self.directory, self.address);
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn ask(&self, method: &str, target: &str, body: &[u8]) -> Response {
        self.ask_with(method, target, "", body)
    }

    /// `lines` are field lines, each with its end.
    fn ask_with(&self, method: &str, target: &str, lines: &str, body: &[u8]) -> Response {
        let mut connection = Connection::open(self.address);
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n{lines}Connection: close\r\n\r\n"
        );
        connection.send([head.as_bytes(), body].concat());
        connection.response_to(method).expect("it answers")
    }

    /// A key may have parameters behind it.
    fn get(&self, key: &str) -> Response {
        self.ask("GET", &format!("/v0/entity?id={key}"), b"")
    }

    fn put(&self, key: &str, value: &[u8]) -> u16 {
        let target = format!("/v0/entity?id={key}");
        self.ask("PUT", &target, value).status
    }

    fn delete(&self, key: &str) -> u16 {
        let target = format!("/v0/entity?id={key}");
        self.ask("DELETE", &target, b"").status
    }

    /// The value of a key, and the status beside it where there is none.
    fn value(&self, key: &str) -> Result<String, u16> {
        let response = self.get(key);
        match response.status {
            200 => Ok(response.text()),
            status => Err(status),
        }
    }
}

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn start(directory: &Directory, address: SocketAddr) -> Process {
    let config = directory.file("weir.toml");
    let config = config.to_str().expect("UTF-8");
    let process = Process::weir(&["serve", "--config", config], directory);
    process.wait_for_port(address);
    process
}
