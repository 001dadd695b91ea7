//! What the demo tells about itself: its config, and what to see and to try. Text only.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use super::replica::{RESTART_AFTER, Replica};
use super::traffic;

/// The first port of replicas that are started by hand, if the demo was given none.
const FIRST_PORT_BY_HAND: u16 = 9001;

/// The config of the demo's gateway, with the commands for its replicas in comments.
pub(super) fn config(listen: SocketAddr, admin: SocketAddr, servers: &[SocketAddr]) -> String {
    let replicas = (1..).zip(servers).map(|(number, server)| {
        format!("#   weir app --listen {server} --name replica-{number}\n")
    });
    let replicas: String = replicas.collect();
    let servers: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{server}\""))
        .collect();
    let servers = servers.join(", ");
    format!(
        r#"# The gateway of `weir demo`, for `weir serve --config FILE`. Its replicas are
{replicas}
[admin]
listen = "{admin}"

[[listener]]
address = "{listen}"

[upstream.app]
servers = [{servers}]
balance = "round-robin"

[[route]]
path = "/{{*rest}}"
upstream = "app"
"#
    )
}

/// Where replicas that are started by hand listen: on `ports`, and instead of port 0 on one that the reference
/// uses too.
pub(super) fn servers_by_hand(ports: &[u16]) -> Vec<SocketAddr> {
    let ports = (FIRST_PORT_BY_HAND..).zip(ports);
    let ports = ports.map(|(usual, port)| if *port == 0 { usual } else { *port });
    ports
        .map(|port| (Ipv4Addr::LOCALHOST, port).into())
        .collect()
}

/// What runs where, and what to try. Its text ends with the heading of the lines that follow.
pub(super) struct Guide<'r> {
    /// The program name with which the demo was called.
    pub(super) program: String,
    pub(super) gateway: SocketAddr,
    pub(super) admin: SocketAddr,
    /// Requests a second that the demo sends by itself.
    pub(super) rate: u32,
    pub(super) replicas: &'r [Replica],
}

impl fmt::Display for Guide<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gateway, admin) = (self.gateway, self.admin);
        let line =
            |f: &mut fmt::Formatter, what: &str, about: &str| writeln!(f, "  {what:<41} {about}");
        writeln!(
            f,
            "weir demo: a gateway, and behind it replicas of the sample service\n"
        )?;
        line(
            f,
            &format!("gateway     http://{gateway}/"),
            "round robin, no access log",
        )?;
        line(
            f,
            &format!("dashboard   http://{admin}/"),
            "also /metrics and /status",
        )?;
        for replica in self.replicas {
            let (name, address) = (replica.name(), replica.address());
            let pid = replica
                .pid()
                .map_or("not running".to_owned(), |pid| format!("pid {pid}"));
            line(f, &format!("{name:<11} http://{address}/"), &pid)?;
        }
        if self.rate > 0 {
            let about = format!("{} requests a second, sent by the demo", self.rate);
            line(f, &format!("traffic     GET {}", traffic::PATH), &about)?;
        }
        writeln!(
            f,
            "\nOpen http://{admin}/ in a browser. In another terminal, try\n"
        )?;
        line(
            f,
            &format!("curl -i http://{gateway}/"),
            "X-Served-By says which replica answered",
        )?;
        if let Some((replica, pid)) = self.replicas.iter().find_map(|r| Some((r, r.pid()?))) {
            let (name, seconds) = (replica.name(), RESTART_AFTER.as_secs());
            let about = format!("no request fails; {name} is back after {seconds} s");
            line(f, &format!("kill -9 {pid}"), &about)?;
        }
        line(
            f,
            &format!("curl http://{admin}/metrics"),
            "all that is counted, for Prometheus",
        )?;
        line(
            f,
            &format!("{} demo --print-config", self.program),
            "the same gateway as a file for weir serve",
        )?;
        writeln!(
            f,
            "\nCtrl-C ends everything. Each second: the requests, who answered them, and how many failed so far.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_printed_config_is_valid_and_spreads_over_all_servers() {
        let servers = servers_by_hand(&[0, 7000, 0]);
        let servers_as_text: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(
            servers_as_text,
            ["127.0.0.1:9001", "127.0.0.1:7000", "127.0.0.1:9003"]
        );
        let (listen, admin) = (([0, 0, 0, 0], 80).into(), ([127, 0, 0, 1], 9901).into());
        let text = config(listen, admin, &servers);
        let settings = config::parse(&text, "weir.toml").unwrap().settings;
        assert_eq!(settings.listeners, [listen]);
        assert_eq!(settings.admin.unwrap().listen, admin);
        assert!(settings.access_log.is_none());
        let labels: Vec<_> = settings.upstreams[0]
            .servers
            .iter()
            .map(|server| &server.label)
            .collect();
        assert_eq!(labels, servers_as_text.iter().collect::<Vec<_>>());
    }
}
