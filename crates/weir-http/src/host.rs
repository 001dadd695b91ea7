//! The authority of a request: host and optional port (RFC 3986 §3.2, without userinfo).

use crate::Reject;

/// The name or address part of an authority `host[:port]`, without the port.
///
/// # Errors
/// [`Reject::HostInvalid`] for userinfo, an empty host, a port that is no number, and bytes outside of reg-name and
/// IP literals. Two parsers that read such an authority differently would route it differently.
pub fn name(authority: &[u8]) -> Result<&[u8], Reject> {
    let (host, port) = match authority.first() {
        None => return Err(Reject::HostInvalid),
        Some(b'[') => {
            let close = memchr::memchr(b']', authority).ok_or(Reject::HostInvalid)?;
            let literal = &authority[1..close];
            if literal.is_empty()
                || !literal
                    .iter()
                    .all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
            {
                return Err(Reject::HostInvalid);
            }
            (&authority[..=close], &authority[close + 1..])
        }
        Some(_) => {
            let colon = memchr::memchr(b':', authority).unwrap_or(authority.len());
            let (host, port) = authority.split_at(colon);
            if host.is_empty() || !host.iter().all(|&b| REG_NAME[usize::from(b)]) {
                return Err(Reject::HostInvalid);
            }
            (host, port)
        }
    };
    match port {
        [] => Ok(host),
        [b':', digits @ ..] if digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit) => {
            Ok(host)
        }
        _ => Err(Reject::HostInvalid),
    }
}

/// unreserved, sub-delims and the percent sign (RFC 3986 §3.2.2), without the comma, which would make a list of it.
const REG_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"-._~%!$&'()*+;=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let good: [(&[u8], &[u8]); 6] = [
            (b"a", b"a"),
            (b"www.example.com:8080", b"www.example.com"),
            (b"127.0.0.1:1", b"127.0.0.1"),
            (b"[::1]", b"[::1]"),
            (b"[::1]:80", b"[::1]"),
            (b"a:", b"a"),
        ];
        for (authority, host) in good {
            assert_eq!(name(authority), Ok(host));
        }
        let bad: [&[u8]; 12] = [
            b"",
            b":80",
            b"a b",
            b"a,b",
            b"u@a",
            b"a:80:80",
            b"a:8x",
            b"a:123456",
            b"[::1",
            b"[]",
            b"[::1]x",
            b"a/b",
        ];
        for authority in bad {
            assert_eq!(
                name(authority),
                Err(Reject::HostInvalid),
                "{}",
                authority.escape_ascii()
            );
        }
    }
}
