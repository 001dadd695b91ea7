//! Where services listen and keep their files. All are chosen before the first service starts: each config may name all
//! others.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use weir_load::plan::Address;

use super::Lab;
use crate::error::LabError;
use crate::scenario::{Configuration, Kind, Scenario};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Where a service listens and keeps its files.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) address: Address,
    pub(super) authority: String,
    /// Another port, for itself.
    pub(super) inner: u16,
    /// One more.
    pub(super) storage: u16,
    pub(super) directory: Option<PathBuf>,
}

/// Chooses where every service of a configuration listens and keeps its files.
pub(super) fn all(
    lab: &Lab,
    scenario: &Scenario,
    configuration: &Configuration,
) -> Result<BTreeMap<String, Location>, LabError> {
    let ports = lab.free_ports(3 * configuration.services.len())?;
    let mut locations = BTreeMap::new();
    for (name, ports) in configuration.services.iter().zip(ports.chunks_exact(3)) {
        let (port, inner, storage) = (ports[0], ports[1], ports[2]);
        let kind = &scenario.services[name];
        let location = if let Kind::Running { address, authority } = kind {
            Location {
                address: address.clone(),
                authority: authority.clone(),
                inner,
                storage,
                directory: None,
            }
        } else {
            let directory = lab.new_directory(name)?;
            let tcp = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let is_on_socket = matches!(kind, Kind::Gunicorn { .. });
            let address = if is_on_socket {
                Address::Unix(directory.join("socket"))
            } else {
                Address::Tcp(tcp)
            };
            let authority = if is_on_socket {
                "localhost".to_owned()
            } else {
                tcp.to_string()
            };
            Location {
                address,
                authority,
                inner,
                storage,
                directory: Some(directory),
            }
        };
        locations.insert(name.clone(), location);
    }
    Ok(locations)
}

/// Whether connections are accepted there.
pub(super) fn accepts(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}
