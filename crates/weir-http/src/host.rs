//! The authority of a request: host and optional port (RFC 3986 §3.2, without userinfo), and the normal form in which
//! it is compared, put into keys and sent on.
//!
//! The normal form is in lower case, without a dot at the end of the host, without an empty port and without the port
//! that the scheme implies. Any other port has no leading zeros, and an IPv6 address is written as RFC 5952 says.
//! Escapes in a host are not decoded: servers do not do it either, so for all of them `%61.test` is another host than
//! `a.test`.

use std::io::Write as _;
use std::net::Ipv6Addr;

use crate::Reject;

/// A parsed authority.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    host: Host<'a>,
    port: Option<u16>,
    /// Whether it is spelled in normal form, except perhaps for a port that its scheme implies.
    is_plain: bool,
}

#[derive(Debug, Clone, Copy)]
enum Host<'a> {
    /// A name without the dot at its end.
    Name(&'a [u8]),
    Address(&'a [u8], Ipv6Addr),
}

impl<'a> Authority<'a> {
    /// Reads `host[:port]`.
    ///
    /// # Errors
    /// [`Reject::HostInvalid`] for userinfo, an empty host or an empty label in it, a port that is no number of at most
    /// 16 bits, brackets without an IPv6 address, and bytes that reg-name does not allow. Two parsers that read such an
    /// authority differently would route it differently.
    pub fn parse(authority: &'a [u8]) -> Result<Self, Reject> {
        let is_address = authority.first() == Some(&b'[');
        let end = if is_address {
            1 + memchr::memchr(b']', authority).ok_or(Reject::HostInvalid)?
        } else {
            memchr::memchr(b':', authority).unwrap_or(authority.len())
        };
        let (host, rest) = authority.split_at(end);
        let (host, is_plain_host) = if is_address {
            address(host)?
        } else {
            registered(host)?
        };
        let (port, is_plain_port) = match rest {
            [] => (None, true),
            [b':', digits @ ..] => port(digits)?,
            _ => return Err(Reject::HostInvalid),
        };
        Ok(Self {
            host,
            port,
            is_plain: is_plain_host && is_plain_port,
        })
    }

    /// The name or address, without the port and without a dot at its end, in the case in which it was sent.
    pub fn name(&self) -> &'a [u8] {
        match self.host {
            Host::Name(name) | Host::Address(name, _) => name,
        }
    }

    /// Whether it is in normal form for `scheme`.
    pub fn is_normal(&self, scheme: &[u8]) -> bool {
        self.is_plain && (self.port.is_none() || self.port != implied_port(scheme))
    }

    /// Whether it is in normal form for every scheme.
    pub fn is_normal_everywhere(&self) -> bool {
        self.is_plain && !matches!(self.port, Some(80 | 443))
    }

    /// Appends its normal form for `scheme`.
    pub fn write_normal(&self, scheme: &[u8], out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        match self.host {
            Host::Name(name) => out.extend(name.iter().map(u8::to_ascii_lowercase)),
            Host::Address(_, address) => drop(write!(out, "[{address}]")),
        }
        if let Some(port) = self.port
            && Some(port) != implied_port(scheme)
        {
            drop(write!(out, ":{port}"));
        }
    }

    /// Whether both mean the same host and port. The default ports of HTTP and HTTPS count as no port.
    pub fn is_same_on_the_web(&self, other: &Self) -> bool {
        let own_port = |authority: &Self| authority.port.filter(|port| ![80, 443].contains(port));
        let is_same_host = match (self.host, other.host) {
            (Host::Name(name), Host::Name(other)) => name.eq_ignore_ascii_case(other),
            (Host::Address(_, address), Host::Address(_, other)) => address == other,
            _ => false,
        };
        is_same_host && own_port(self) == own_port(other)
    }
}

/// The name or address part of an authority; see [`Authority::name`].
///
/// # Errors
/// As [`Authority::parse`].
pub fn name(authority: &[u8]) -> Result<&[u8], Reject> {
    Authority::parse(authority).map(|authority| authority.name())
}

/// How a client connects, which its request says only in absolute form (RFC 9110 §4.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As URLs have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The same as bytes.
    pub const fn as_bytes(self) -> &'static [u8] {
        self.name().as_bytes()
    }
}

fn implied_port(scheme: &[u8]) -> Option<u16> {
    if scheme.eq_ignore_ascii_case(b"http") {
        Some(80)
    } else if scheme.eq_ignore_ascii_case(b"https") {
        Some(443)
    } else {
        None
    }
}

/// Reads a reg-name, and says whether it is in normal form.
fn registered(host: &[u8]) -> Result<(Host<'_>, bool), Reject> {
    let name = host.strip_suffix(b".").unwrap_or(host);
    let kinds = name.iter().fold(0, |all, &b| all | KINDS[usize::from(b)]);
    let is_empty = name.is_empty() || name.first() == Some(&b'.') || name.last() == Some(&b'.');
    // Names with an empty label do not exist, and some servers take them for other names.
    if is_empty || kinds & FORBIDDEN != 0 || name.windows(2).any(|pair| pair == b"..") {
        return Err(Reject::HostInvalid);
    }
    let is_plain = kinds & UPPER == 0 && name.len() == host.len();
    Ok((Host::Name(name), is_plain))
}

/// Reads an IPv6 address in brackets, and says whether it is in normal form.
fn address(host: &[u8]) -> Result<(Host<'_>, bool), Reject> {
    let text = std::str::from_utf8(&host[1..host.len() - 1]);
    let address = text.ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    let address = address.ok_or(Reject::HostInvalid)?;
    // The longest is 39 bytes, or 22 with an IPv4 address at its end.
    let mut spelled = [0; 48];
    let mut rest = &mut spelled[..];
    drop(write!(rest, "[{address}]"));
    let unused = rest.len();
    let is_plain = spelled[..spelled.len() - unused] == *host;
    Ok((Host::Address(host, address), is_plain))
}

/// Reads what follows the colon, and says whether it is in normal form.
fn port(digits: &[u8]) -> Result<(Option<u16>, bool), Reject> {
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Reject::HostInvalid);
    }
    if digits.is_empty() {
        return Ok((None, false));
    }
    let number = digits.iter().fold(0, |number: u32, digit| {
        number * 10 + u32::from(digit - b'0')
    });
    // Cut to 16 bits, a larger number would be another port.
    let port = u16::try_from(number).map_err(|_| Reject::HostInvalid)?;
    Ok((Some(port), digits.len() == 1 || digits[0] != b'0'))
}

/// A byte that reg-name does not allow.
const FORBIDDEN: u8 = 1;
/// An upper-case letter.
const UPPER: u8 = 2;

/// The kind of each byte in a reg-name, which consists of unreserved, sub-delims and the percent sign (RFC 3986
/// §3.2.2). The comma is left out, because it would make a list.
const KINDS: [u8; 256] = {
    let mut table = [FORBIDDEN; 256];
    let lower = b"-._~%!$&'()*+;=0123456789abcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < lower.len() {
        table[lower[at] as usize] = 0;
        at += 1;
    }
    let mut letter = b'A';
    while letter <= b'Z' {
        table[letter as usize] = UPPER;
        letter += 1;
    }
    table
};

#[cfg(test)]
mod tests;
