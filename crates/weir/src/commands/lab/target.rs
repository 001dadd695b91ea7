//! What a user names as a target, and the flags that say what it is asked.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;
use weir_lab::scenario::{Amount, Arrivals, Load};
use weir_load::plan::Address;

use crate::config;

const DURATION_MAX: Duration = Duration::from_secs(3600);

/// What targets are asked.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Connections open at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Threads that generate load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Requests a second, evenly, instead of as many as are answered.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long each block is measured.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    duration: Duration,
    /// How long each block is under load before that.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    pub(super) warm_up: Duration,
    /// The method of the request.
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header, as in 'accept: text/html'; repeat it for more.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// The body of the request.
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// Open a connection for each request.
    #[arg(long)]
    no_keep_alive: bool,
}

impl LoadArgs {
    /// The load for `path`; fails when it cannot be sent.
    pub(super) fn load(&self, path: &str) -> anyhow::Result<Load> {
        let amount = Amount::Time(self.duration);
        let load = Load {
            name: format!("{path}, {} connections", self.connections),
            notes: std::collections::BTreeMap::new(),
            method: self.method.clone(),
            path: path.to_owned(),
            headers: self.header.clone(),
            body: self.body.clone(),
            connections: self.connections,
            threads: self.threads,
            keep_alive: !self.no_keep_alive,
            rate: self.rate,
            arrivals: Arrivals::Even,
            with: std::collections::BTreeMap::new(),
            timeout: Load::TIMEOUT_DEFAULT,
            amount,
            quick: amount,
            fault: None,
            keys: None,
            beside: None,
        };
        load.check()
            .map_err(|why| anyhow::anyhow!("the load cannot be sent: {why}"))?;
        Ok(load)
    }
}

/// A service that already runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// Host and port as the user wrote them.
    pub(super) authority: String,
    /// Path and query.
    pub(super) path: String,
}

impl Target {
    /// Reads `http://HOST[:PORT][/PATH]` and looks the host up.
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        let expected = "expected a URL such as http://127.0.0.1:3000/path";
        let rest = url
            .strip_prefix("http://")
            .with_context(|| format!("{url}: {expected}"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
        anyhow::ensure!(
            !authority.is_empty() && authority.chars().all(is_host),
            "{url}: {expected}"
        );
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        let mut addresses = authority
            .to_socket_addrs()
            .with_context(|| url.to_owned())?;
        let address = addresses
            .next()
            .with_context(|| format!("{url}: the host has no address"))?;
        Ok(Self {
            address,
            authority,
            path,
        })
    }

    /// Fails when nobody listens there.
    pub(super) fn probe(&self) -> anyhow::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(3);
        std::net::TcpStream::connect_timeout(&self.address, PATIENCE)
            .map(drop)
            .with_context(|| format!("http://{} cannot be reached", self.authority))
    }

    pub(super) fn where_to(&self) -> Address {
        Address::Tcp(self.address)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    config::units::duration(text, &(Duration::ZERO..=DURATION_MAX))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("expected a header such as \"accept: text/html\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, authority, path) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "/"),
            ("http://127.0.0.1/a?b=c#d", "127.0.0.1:80", "/a?b=c"),
            ("http://[::1]:3000?x", "[::1]:3000", "/?x"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (target.authority.as_str(), target.path.as_str()),
                (authority, path),
                "{url}"
            );
        }
        for url in [
            "",
            "127.0.0.1:3000",
            "https://127.0.0.1",
            "http://",
            "http:///x",
            "http://a b/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
