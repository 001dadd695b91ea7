//! Ports that nobody else takes between their choice and their use.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use fastrand::Rng;

/// How many ports to choose from, just below the range for outgoing connections.
const RANGE: u16 = 12_000;
/// The lowest port for outgoing connections when the system does not say.
const OUTGOING_FROM_DEFAULT: u16 = 32_768;
const ATTEMPTS_MAX: usize = 1_000;

/// `count` different free ports of the loopback interface. They are outside the range for outgoing connections, which
/// takes thousands under load.
pub(super) fn free_ports(count: usize, rng: &mut Rng) -> io::Result<Vec<u16>> {
    let end = outgoing_from().max(RANGE + 1024);
    // All sockets are held until the end, so that no port is chosen twice.
    let mut held = Vec::with_capacity(count);
    for _ in 0..ATTEMPTS_MAX {
        if held.len() == count {
            break;
        }
        let port = rng.u16(end - RANGE..end);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push(listener);
        }
    }
    if held.len() < count {
        return Err(io::Error::other("there are no free ports on 127.0.0.1"));
    }
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}

fn outgoing_from() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range
        .split_whitespace()
        .next()
        .and_then(|port| port.parse().ok());
    first.unwrap_or(OUTGOING_FROM_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_free_and_not_for_outgoing_connections() {
        let mut ports = free_ports(50, &mut Rng::with_seed(1)).unwrap();
        assert!(ports.iter().all(|port| *port < outgoing_from()));
        assert!(
            ports
                .iter()
                .all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        );
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
