//! A gateway that would be its own upstream: its requests would go round until something runs out.
//!
//! What addresses show is refused before it is put to work. A way that leads back through other machines is found by the requests
//! themselves, see `ViaName` in weir-http.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::names::Known;
use crate::settings::{EndpointAddress, Server, ServerAddress, Settings};
use crate::start_error::{OwnUpstream, StartError};

/// Refuses settings with a server that is a listener of theirs. All names are `known`.
pub(crate) fn refuse(settings: &Settings, known: &Known) -> Result<(), StartError> {
    let mut found = Vec::new();
    for upstream in &settings.upstreams {
        for server in &upstream.servers {
            let listeners = settings.listeners.iter().copied();
            let addresses = addresses(server, known);
            let mut own = listeners.filter(|&listener| {
                let mut addresses = addresses.iter();
                addresses.any(|&address| leads_to(address, listener, is_of_this_machine))
            });
            if let Some(listener) = own.next() {
                found.push(OwnUpstream {
                    upstream: upstream.name.clone(),
                    server: server.label.clone(),
                    listener,
                });
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(StartError::OwnUpstream(found))
    }
}

fn addresses(server: &Server, known: &Known) -> Vec<SocketAddr> {
    match &server.address {
        ServerAddress::Known(EndpointAddress::Tcp(address)) => vec![*address],
        ServerAddress::Known(_) => Vec::new(),
        ServerAddress::Name(host, port) => {
            let addresses = known.addresses(host).iter();
            addresses.map(|ip| SocketAddr::new(*ip, *port)).collect()
        }
    }
}

/// Whether a connection to `server` ends at `listener`; `is_own` says which addresses this machine has.
fn leads_to(server: SocketAddr, listener: SocketAddr, is_own: impl Fn(IpAddr) -> bool) -> bool {
    if server.port() != listener.port() || listener.port() == 0 {
        return false;
    }
    // To connect to the unspecified address is to connect to this machine.
    let to = match server.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let at = listener.ip().to_canonical();
    if at.is_unspecified() {
        // `[::]` stands for IPv4 too.
        (at.is_ipv6() || to.is_ipv4()) && (to.is_loopback() || is_own(to))
    } else {
        at == to
    }
}

/// Whether an address is one of this machine's: then, and only then, is it also the one from which it is reached. Nothing is sent.
fn is_of_this_machine(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port will do.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leads_to_whom() {
        let is_own = |ip: IpAddr| ip == IpAddr::from([10, 0, 0, 1]);
        for (server, listener, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:81", "127.0.0.1:80", false),
            ("127.0.0.2:80", "127.0.0.1:80", false),
            ("127.0.0.2:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "0.0.0.0:80", true),
            ("10.0.0.1:80", "0.0.0.0:80", true),
            ("10.0.0.1:80", "[::]:80", true),
            ("10.0.0.1:80", "127.0.0.1:80", false),
            ("10.0.0.2:80", "0.0.0.0:80", false),
            ("[::1]:80", "0.0.0.0:80", false),
            ("[::1]:80", "[::]:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            let leads = leads_to(server.parse().unwrap(), listener.parse().unwrap(), is_own);
            assert_eq!(leads, expected, "{server} to {listener}");
        }
        assert!(is_of_this_machine(Ipv4Addr::LOCALHOST.into()));
        // Reserved for documentation (RFC 5737).
        assert!(!is_of_this_machine([192, 0, 2, 1].into()));
    }
}
