//! Addresses: where weir listens, and where the servers of an upstream are.
//!
//! Opens no socket and looks up no name.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use weir_gateway::settings::{EndpointAddress, ServerAddress};

use super::suggest::did_you_mean;

/// What an address to listen on looks like.
pub(super) const LISTEN_EXPECTED: &str =
    r#"an IP address and a port such as "127.0.0.1:8080" or ":8080""#;
/// What a server looks like.
pub(super) const SERVER_EXPECTED: &str =
    r#"a server such as "127.0.0.1:3000", "app.internal:3000" or "unix:app.sock""#;

/// What a name server looks like.
pub(super) const NAME_SERVER_EXPECTED: &str =
    r#"the IP address of a name server such as "10.0.0.2" or "127.0.0.1:8600""#;

/// What a list of networks looks like, and one of them.
pub(super) const NETWORKS_EXPECTED: &str = r#"a list of networks such as ["10.0.0.0/8", "::1"]"#;
pub(super) const NETWORK_EXPECTED: &str =
    r#"an IP address or a network such as "10.0.0.0/8" or "2001:db8::/32""#;

/// The path of a Unix socket must fit into the system's `sockaddr_un` with its closing NUL.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// Reads where operators connect who have no token: a port of this machine alone.
pub(crate) fn admin(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = digits(text).and_then(|port| port.parse().ok()) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let address = listen(text)?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "expected an address of this machine alone, such as 127.0.0.1:{}; for another one write a config file with [admin], \
         which has a token",
        address.port()
    ))
}

/// Reads an address to listen on. A port without an address stands for all addresses of IPv4, as with nginx and `HAProxy`;
/// for IPv6 too it is `[::]`. `localhost` is 127.0.0.1: no name is looked up.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match host {
        "" | "*" => Ok(IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        _ if host.eq_ignore_ascii_case("localhost") => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => Err(()),
    };
    let port = digits(port).and_then(|port| port.parse().ok());
    match (host, port) {
        (Ok(host), Some(port)) => Ok(SocketAddr::new(host, port)),
        _ => text
            .parse()
            .map_err(|_| format!("expected {LISTEN_EXPECTED}")),
    }
}

/// Reads a server: its label, which is the text without a scheme, and its address. Names are not looked up.
pub(super) fn server(text: &str) -> Result<(String, ServerAddress), String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let address = EndpointAddress::Unix(unix(path)?);
        return Ok((text.to_owned(), ServerAddress::Known(address)));
    }
    let authority = without_scheme(text)?;
    let authority = with_host_and_port(authority, authority.len() < text.len());
    let address = match authority.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            return Err("expected a port from 1 to 65535".to_owned());
        }
        Ok(address) => ServerAddress::Known(EndpointAddress::Tcp(address)),
        Err(_) => {
            let (host, port) = host_and_port(&authority)?;
            ServerAddress::Name(host.to_ascii_lowercase(), port)
        }
    };
    Ok((authority.into_owned(), address))
}

/// What people leave out: the machine, where it is this one (`:3000`, `3000`), and the port of a URL, which is 80.
fn with_host_and_port(authority: &str, is_url: bool) -> Cow<'_, str> {
    let port = authority.strip_prefix(':').unwrap_or(authority);
    if digits(port).is_some() && !is_url {
        return format!("{}:{port}", Ipv4Addr::LOCALHOST).into();
    }
    // The colons of an IPv6 address stand before its bracket.
    let has_port = authority
        .rsplit(']')
        .next()
        .unwrap_or_default()
        .contains(':');
    if is_url && !has_port && !authority.is_empty() {
        return format!("{authority}:80").into();
    }
    authority.into()
}

/// The text, if it is digits and nothing else: `parse` alone would take a sign.
fn digits(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(text)
}

/// Reads a name server: its port is 53 unless one is given.
pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    with_port
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)))
        .map_err(|_| format!("expected {NAME_SERVER_EXPECTED}"))
}

/// Reads a network: an address and how many of its bits all have in common, or one address. Bits behind those are a slip.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| format!("expected {NETWORK_EXPECTED}"))?;
    // Addresses of IPv4 are such, however they came.
    if let IpNet::V6(mapped) = network
        && let Some(address) = mapped.addr().to_ipv4_mapped()
    {
        let bits = mapped.prefix_len().saturating_sub(96);
        return Err(format!("expected \"{address}/{bits}\""));
    }
    if network.trunc() == network {
        Ok(network)
    } else {
        Err(format!("expected \"{}\"", network.trunc()))
    }
}

fn unix(path: &str) -> Result<PathBuf, String> {
    let fits = (1..=UNIX_PATH_BYTES_MAX).contains(&path.len()) && !path.contains(char::is_control);
    if fits {
        Ok(PathBuf::from(path))
    } else {
        Err(format!(
            "expected \"unix:\" and the path of a socket, 1 to {UNIX_PATH_BYTES_MAX} bytes"
        ))
    }
}

/// People paste URLs, so a plain one is understood; what a server address cannot express is refused by name.
fn without_scheme(text: &str) -> Result<&str, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok(text);
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if scheme.eq_ignore_ascii_case("https") {
        // 443 is the port of TLS. Which one is plain there, only the user knows.
        let is_known = !authority.is_empty() && !authority.ends_with(":443");
        let plain = format!("http://{authority}");
        return Err(format!(
            "but servers are spoken to in plain HTTP, expected a plain port{}",
            did_you_mean(is_known.then_some(&plain))
        ));
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("expected {SERVER_EXPECTED}"));
    }
    // As the address bar of a browser has it.
    if path.is_empty() || path == "/" {
        Ok(authority)
    } else {
        Err(format!(
            "expected a server without a path, which is the route's matter{}",
            did_you_mean(Some(&format!("http://{authority}")))
        ))
    }
}

fn host_and_port(authority: &str) -> Result<(&str, u16), String> {
    let is_name = |host: &str| {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !host.is_empty() && host.chars().all(is_name_char)
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if is_name(host) => {
            let port = digits(port).and_then(|port| port.parse().ok());
            let port = port.filter(|port: &u16| *port > 0);
            Ok((host, port.ok_or("expected a port from 1 to 65535")?))
        }
        None if is_name(authority) => {
            Err("expected a host and a port, as in \"127.0.0.1:3000\"".to_owned())
        }
        _ => Err(format!("expected {SERVER_EXPECTED}")),
    }
}
