//! One question to the name servers: the addresses of a name.
//!
//! hickory does what a stub resolver does (`/etc/hosts`, `/etc/resolv.conf` with its search list, UDP and TCP). Unlike
//! the system's `getaddrinfo`, it says how long an answer may be used. Its cache is off, so each call asks.

use std::net::IpAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

use crate::settings::Dns;
use crate::time;

/// How long a configured name server may be silent, each of the two times it is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// A usable answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// At least one address, in order and without duplicates.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ttl: Duration,
}

/// The resolver, or why there is none.
pub(super) struct Resolver(Result<TokioResolver, String>);

impl Resolver {
    pub(super) fn new(dns: &Dns) -> Self {
        let provider = TokioRuntimeProvider::default();
        let mut builder = if dns.servers.is_empty() {
            TokioResolver::builder_tokio().unwrap_or_else(|_| {
                // A machine without name servers still has its `/etc/hosts`.
                let nobody = ResolverConfig::from_name_servers(Vec::new());
                TokioResolver::builder_with_config(nobody, provider)
            })
        } else {
            let servers = dns.servers.iter().map(|server| {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                let connections = connections.map(|mut connection| {
                    connection.port = server.port();
                    connection
                });
                NameServerConfig::new(server.ip(), true, connections.to_vec())
            });
            let config = ResolverConfig::from_name_servers(servers.collect());
            let mut builder = TokioResolver::builder_with_config(config, provider);
            builder.options_mut().timeout = PATIENCE;
            builder
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        // A server with addresses of both kinds must count once, not twice.
        options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
        Self(builder.build().map_err(|error| error.to_string()))
    }

    /// The addresses of `host` and how long they hold, or why there are none.
    pub(super) async fn look_up(&self, host: &str) -> Result<Answer, String> {
        let resolver = self.0.as_ref().map_err(Clone::clone)?;
        let found = resolver.lookup_ip(host).await;
        let found = found.map_err(|error| said(&error))?;
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Err("it has no address".to_owned());
        }
        Ok(Answer {
            addresses,
            ttl: found.valid_until().saturating_duration_since(time::now()),
        })
    }
}

/// Why there is no answer, in the words of an operator.
fn said(error: &NetError) -> String {
    match error {
        error if error.is_nx_domain() => "there is no such name".to_owned(),
        error if error.is_no_records_found() => "it has no address".to_owned(),
        NetError::Timeout => "no name server has answered in time".to_owned(),
        NetError::NoConnections => "no name server can be reached".to_owned(),
        NetError::Io(error) => format!("the name servers cannot be asked: {error}"),
        other => other.to_string(),
    }
}
