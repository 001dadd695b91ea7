//! A client that sends requests one after the other on a kept connection: for the traffic of the demo and for the
//! control listener.
//!
//! It blocks, and it takes only answers with a length, since it never gets others. It is not for load or measurements.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_http::body::Framing;
use weir_http::head::HeadScan;
use weir_http::{HeadLimits, Method, ResponseHead};

/// Longer than any answer takes that will come at all.
const PATIENCE: Duration = Duration::from_secs(5);
const HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: 16 << 10,
    fields: 64,
};
/// The longest body is a page of objects with many tags.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// One connection at a time, opened when it is needed.
pub(super) struct Client {
    server: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    patience: Option<Duration>,
}

/// The answer of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    keep_alive: bool,
}

impl Client {
    pub(super) fn new(server: SocketAddr) -> Self {
        let (connection, patience) = (None, Some(PATIENCE));
        Self {
            server,
            connection,
            patience,
        }
    }

    /// A client that waits for each answer as long as it takes.
    pub(super) fn patient(server: SocketAddr) -> Self {
        let patience = None;
        Self {
            patience,
            ..Self::new(server)
        }
    }

    /// A client of the same server that waits for no answer longer than a sound one takes.
    pub(super) fn hasty(&self) -> Self {
        Self::new(self.server)
    }

    /// The body of the answer, whatever its status; an error when no answer came. The next call then connects again.
    #[cfg(feature = "demo")]
    pub(super) fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let answer = self.ask("GET", path, "", b"")?;
        Ok(answer.body)
    }

    /// The answer to a request; `fields` are whole lines. An error when no answer came.
    pub(super) fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(kept) => kept,
            None => self.connect()?,
        };
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{fields}{length}\r\n",
            self.server
        );
        connection
            .get_mut()
            .write_all(&[head.as_bytes(), body].concat())?;
        let answer = read_answer(&mut connection)?;
        self.connection = answer.keep_alive.then_some(connection);
        Ok(answer)
    }

    fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect_timeout(&self.server, PATIENCE)?;
        stream.set_read_timeout(self.patience)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(BufReader::new(stream))
    }
}

/// The address at which this machine reaches what listens on `address`.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn read_answer(from: &mut impl BufRead) -> io::Result<Answer> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let mut bytes = Vec::new();
    let mut bounded = from.by_ref().take(HEAD_LIMITS.bytes as u64);
    while !bytes.ends_with(b"\r\n\r\n") {
        if bounded.read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut head = ResponseHead::default();
    head.parse(&bytes, &mut HeadScan::default(), HEAD_LIMITS, Method::Get)
        .map_err(|reject| invalid(reject.name()))?;
    let length = match head.framing {
        Framing::Empty => 0,
        Framing::Length(length) if length <= BODY_BYTES_MAX => length,
        _ => return Err(invalid("an answer without a moderate length")),
    };
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    Ok(Answer {
        status: head.status,
        body,
        keep_alive: head.keep_alive,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let mut bytes = &two[..];
        let ok = Answer {
            status: 200,
            body: b"ok".to_vec(),
            keep_alive: true,
        };
        assert_eq!(read_answer(&mut bytes).unwrap(), ok);
        let busy = Answer {
            status: 503,
            body: Vec::new(),
            keep_alive: false,
        };
        assert_eq!(read_answer(&mut bytes).unwrap(), busy);
        assert!(bytes.is_empty());
    }

    #[test]
    fn what_is_no_whole_answer_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "200 OK\r\n\r\n",
        ] {
            assert!(read_answer(&mut text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_address_for_all_interfaces_is_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
