//! Where services listen and keep their files, chosen before the first of them starts: each config may name all others.

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
pub(super) struct Place {
    pub(super) address: Address,
    pub(super) authority: String,
    pub(super) directory: Option<PathBuf>,
}

/// A place for every service of a configuration.
pub(super) fn all(
    lab: &Lab,
    scenario: &Scenario,
    configuration: &Configuration,
) -> Result<BTreeMap<String, Place>, LabError> {
    let ports = lab.free_ports(configuration.services.len())?;
    let mut places = BTreeMap::new();
    for (name, port) in configuration.services.iter().zip(ports) {
        let kind = &scenario.services[name];
        let place = if let Kind::Running { address, authority } = kind {
            Place {
                address: address.clone(),
                authority: authority.clone(),
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
            Place {
                address,
                authority,
                directory: Some(directory),
            }
        };
        places.insert(name.clone(), place);
    }
    Ok(places)
}

/// Whether somebody takes connections there.
pub(super) fn accepts(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}
