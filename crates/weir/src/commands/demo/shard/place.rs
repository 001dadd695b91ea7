//! Where a node is, and its config.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context as _;
use tokio::net::TcpSocket;

use crate::commands::demo::DemoArgs;
use crate::commands::demo::replica::reserve;

pub(super) const NODES: usize = 3;

/// The addresses of a node. They are its own even while it is away.
pub(super) struct Place {
    /// For clients.
    pub(super) http: SocketAddr,
    /// For operators.
    pub(super) admin: SocketAddr,
    /// For the other nodes.
    pub(super) node: SocketAddr,
    _held: Vec<TcpSocket>,
}

/// The name of a node.
pub(super) fn name(number: usize) -> String {
    format!("node-{number}")
}

/// The first node is where the flags say; of the others, `--ports` says where clients reach them.
pub(super) fn all(args: &DemoArgs) -> anyhow::Result<Vec<Place>> {
    let port = |which: usize| args.ports.get(which).copied().unwrap_or(0);
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    (0..NODES)
        .map(|which| {
            let (http, admin) = match which {
                0 => (args.listen, args.admin),
                _ => (loopback(port(which)), loopback(0)),
            };
            let mut held = Vec::new();
            let mut place = |flag: &str, address: SocketAddr| {
                let at = || format!("cannot use {address}; choose another one with {flag}");
                let (own, socket) = reserve(address).with_context(at)?;
                held.push(socket);
                anyhow::Ok(own)
            };
            let flag = if which == 0 { "--listen" } else { "--ports" };
            Ok(Place {
                http: place(flag, http)?,
                admin: place("--admin", admin)?,
                node: place("--ports", loopback(0))?,
                _held: held,
            })
        })
        .collect()
}

/// The config of one node, whose data is in `path`.
pub(super) fn config(place: &Place, all: &[Place], path: &Path) -> String {
    let Place {
        http, admin, node, ..
    } = place;
    let nodes: Vec<String> = all
        .iter()
        .map(|place| format!("\"{}\"", place.node))
        .collect();
    let (nodes, path) = (nodes.join(", "), path.display());
    format!(
        r#"[server]
workers = 1

[admin]
listen = "{admin}"

[[listener]]
address = "{http}"

[kv]
engine = {{ path = "{path}", memory = "16MiB" }}
node = "{node}"
nodes = [{nodes}]

[[route]]
path = "/v1/{{*rest}}"
kv = true
"#
    )
}

/// That of the first one, and what the others have instead.
pub(super) fn config_by_hand(all: &[Place]) -> String {
    let others = all[1..].iter().map(|place| {
        let Place {
            http, admin, node, ..
        } = place;
        format!("#   node {node}, listener {http}, admin {admin}\n")
    });
    let others = others.collect::<Vec<_>>().concat();
    let own = config(&all[0], all, Path::new("data/kv"));
    format!(
        "# The first node of `weir demo --shard`, for `weir serve --config FILE`. The others have\n{others}\n{own}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn nodes_know_each_other_by_their_configs() {
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let place = |port| Place {
            http: loopback(port),
            admin: loopback(port + 1),
            node: loopback(port + 2),
            _held: Vec::new(),
        };
        let places = [place(7000), place(7100), place(7200)];
        let text = config_by_hand(&places);
        let read = config::parse(&text, "weir.toml").expect("it is valid");
        assert_eq!(read.settings.listeners, [loopback(7000)]);
        let store = read.services.kv.expect("a store");
        let cluster = store.cluster.expect("several nodes");
        assert_eq!(cluster.node, loopback(7002));
        assert_eq!(
            cluster.nodes,
            [loopback(7002), loopback(7102), loopback(7202)]
        );
        assert!(text.contains("#   node 127.0.0.1:7202, listener 127.0.0.1:7200"));
    }
}
