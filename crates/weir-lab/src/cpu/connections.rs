//! Whom processes ask: the other ends of their TCP connections, from the tables of `/proc/net`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::process::Pid;

/// A socket in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) local: SocketAddr,
    remote: SocketAddr,
    pub(super) is_listening: bool,
    is_established: bool,
    pub(super) inode: u64,
}

/// The servers to which `processes` have connections, as clients. What was accepted by a port that one of them listens on
/// is not among them.
pub(crate) fn servers_of(processes: &[Pid]) -> BTreeSet<SocketAddr> {
    let inodes = processes
        .iter()
        .flat_map(|process| super::sockets_of(process.as_raw_nonzero().get()));
    let inodes: BTreeSet<u64> = inodes.collect();
    let mut sockets = table();
    sockets.retain(|socket| inodes.contains(&socket.inode));
    let own = sockets.iter().filter(|socket| socket.is_listening);
    let own: BTreeSet<u16> = own.map(|socket| socket.local.port()).collect();
    let opened = sockets
        .iter()
        .filter(|socket| socket.is_established && !own.contains(&socket.local.port()));
    let servers = opened.map(|socket| {
        // Who asks its own address asks this machine.
        let is_here = socket.remote.ip() == socket.local.ip();
        if is_here {
            SocketAddr::from((Ipv4Addr::LOCALHOST, socket.remote.port()))
        } else {
            socket.remote
        }
    });
    servers.collect()
}

/// All TCP sockets of the machine.
pub(super) fn table() -> Vec<Socket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.lines().skip(1));
    lines.filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    Some(Socket {
        local: address(fields.get(1)?)?,
        remote: address(fields.get(2)?)?,
        is_listening: *fields.get(3)? == "0A",
        is_established: *fields.get(3)? == "01",
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// An address such as `0100007F:0BB8`: words of four bytes in the order of the machine, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let bytes: [u8; 16] = words.try_into().ok()?;
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        for (text, read) in [
            ("0100007F:0BB8", Some("127.0.0.1:3000")),
            (
                "0000000000000000FFFF00000100007F:0050",
                Some("127.0.0.1:80"),
            ),
            ("00000000000000000000000001000000:0050", Some("[::1]:80")),
            ("0100007F", None),
            ("01:0050", None),
        ] {
            // These are written on machines with the low byte first.
            if cfg!(target_endian = "little") {
                let read: Option<SocketAddr> = read.map(|text| text.parse().expect("an address"));
                assert_eq!(address(text), read, "{text}");
            }
        }
    }

    /// One of the ends of this connection listens, and is not asked by whoever it accepted.
    #[test]
    fn a_client_asks_and_a_server_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let this = rustix::process::getpid();
        assert!(!servers_of(&[this]).contains(&address));
        let client = TcpStream::connect(address).expect("it listens");
        let accepted = listener.accept().expect("a client").0;
        assert!(servers_of(&[this]).contains(&address));
        let of_client = client.local_addr().expect("it is bound");
        assert!(!servers_of(&[this]).contains(&of_client));
        drop((client, accepted));
    }
}
