//! Which store is meant: the one of a config file, nodes that are named, or a gateway with one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use weir_kv::client::ClientSettings;

use crate::commands::config_file;
use crate::config::{self, Inputs};

/// Nodes wait for each other for two seconds, and one that hangs is missed after another one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where the store is.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The config file of a node, which says where all nodes are and what their secret is; without it `weir.toml` in this directory, or else
    /// `/etc/weir/weir.toml`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "url"])]
    config: Option<PathBuf>,

    /// Some of the nodes, as `nodes` of `[kv]` has them.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',', value_parser = node, conflicts_with = "url")]
    nodes: Vec<SocketAddr>,

    /// A file with the secret of the nodes.
    #[arg(long, value_name = "FILE", requires = "nodes")]
    secret_file: Option<PathBuf>,

    /// A gateway with a route for `/v1/{*rest}` that has `kv = true`, as in `http://127.0.0.1:8080`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// How a store is asked.
#[derive(Debug)]
pub(super) enum Way {
    Nodes(ClientSettings),
    Url(String),
}

impl Place {
    pub(super) fn way(&self) -> anyhow::Result<Way> {
        if let Some(url) = &self.url {
            return Ok(Way::Url(url.clone()));
        }
        if !self.nodes.is_empty() {
            let secret = self.secret_file.as_deref().map(secret).transpose()?;
            return Ok(nodes(self.nodes.clone(), secret.unwrap_or_default()));
        }
        let Some(file) = self.config.clone().or_else(config_file::usual) else {
            bail!(
                "there is no config file that says where the nodes are: name it with --config, the nodes with --nodes, or a gateway with --url"
            );
        };
        of_file(&file)
    }
}

fn of_file(file: &Path) -> anyhow::Result<Way> {
    if let Some(store) = config::store_of(file)
        && let Some(cluster) = store.cluster
    {
        // This machine has the one of the file, most likely.
        let others = cluster
            .nodes
            .into_iter()
            .filter(|node| *node != cluster.node);
        let all = [cluster.node].into_iter().chain(others).collect();
        return Ok(nodes(all, cluster.secret));
    }
    let config = config::load(file, &mut Inputs::default())?;
    let file = file.display();
    ensure!(
        config.services.kv.is_some(),
        "{file} has no [kv]: name the nodes with --nodes, or a gateway with --url"
    );
    bail!(
        "the [kv] of {file} has no nodes, so it has no port for clients: use HTTP, /v1/kv/KEY, or name the gateway, as in \
         --url http://127.0.0.1:8080"
    )
}

fn nodes(nodes: Vec<SocketAddr>, secret: String) -> Way {
    Way::Nodes(ClientSettings {
        nodes,
        secret,
        timeout: TIMEOUT,
    })
}

fn secret(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("--secret-file {shown}"))?;
    let text = text.trim();
    ensure!(!text.is_empty(), "--secret-file {shown}: the file is empty");
    Ok(text.to_owned())
}

pub(super) fn node(text: &str) -> Result<SocketAddr, &'static str> {
    let expected = "expected an IP address and a port such as 10.0.0.1:8081, as the config of the nodes has it";
    text.parse().map_err(|_| expected)
}
