//! A client that sends requests one after the other on a kept connection: for the traffic of the demo, for the control listener,
//! and for a store over HTTP.
//!
//! It blocks. It is not for load or measurements.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_http::body::{Body, Framing};
use weir_http::head::HeadScan;
use weir_http::{Fields, HeadLimits, Method, ResponseHead};

/// Longer than any answer takes that will come at all.
const PATIENCE: Duration = Duration::from_secs(5);
const HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: 16 << 10,
    fields: 64,
};
/// The longest body that is collected is a page of objects with many tags.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// One connection at a time, opened when it is needed.
pub(super) struct Client {
    server: SocketAddr,
    /// What `Host` says.
    host: String,
    connection: Option<BufReader<TcpStream>>,
    patience: Option<Duration>,
}

/// The answer of a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// With its status line.
    head: Vec<u8>,
    pub(super) body: Vec<u8>,
    keep_alive: bool,
}

impl Answer {
    /// The value of a field.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let mut table = Vec::new();
        Fields::scan(&self.head, &mut table);
        let fields = Fields::new(&self.head, &table);
        let value = fields.named(name.as_bytes()).next()?;
        String::from_utf8(value.to_vec()).ok()
    }
}

impl Client {
    pub(super) fn new(server: SocketAddr) -> Self {
        let (connection, patience) = (None, Some(PATIENCE));
        Self {
            server,
            host: server.to_string(),
            connection,
            patience,
        }
    }

    /// A client of a server that has this name, and a port behind it, perhaps.
    pub(super) fn named(server: SocketAddr, host: String) -> Self {
        Self {
            host,
            ..Self::new(server)
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
        let mut content = Vec::new();
        let answer = self.ask_for((method, target, fields, body), &mut |_, piece| {
            if (content.len() + piece.len()) as u64 > BODY_BYTES_MAX {
                return Err(invalid("an answer that is longer than any sound one"));
            }
            content.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Answer {
            body: content,
            ..answer
        })
    }

    /// The same for a method, a target, fields and a body. The body of the answer goes to `take` as it comes, with the status.
    pub(super) fn ask_for(
        &mut self,
        (method, target, fields, body): (&str, &str, &str, &[u8]),
        take: &mut dyn FnMut(u16, &[u8]) -> io::Result<()>,
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
            self.host
        );
        connection
            .get_mut()
            .write_all(&[head.as_bytes(), body].concat())?;
        let answer = read_answer(&mut connection, take)?;
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

fn read_answer(
    from: &mut impl BufRead,
    take: &mut dyn FnMut(u16, &[u8]) -> io::Result<()>,
) -> io::Result<Answer> {
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
    let status = head.status;
    read_body(from, head.framing, |piece| take(status, piece))?;
    Ok(Answer {
        status,
        head: bytes,
        body: Vec::new(),
        keep_alive: head.keep_alive,
    })
}

fn read_body(
    from: &mut impl BufRead,
    framing: Framing,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut body = Body::new(framing);
    while !body.is_done() {
        let input = from.fill_buf()?;
        if input.is_empty() {
            let is_end = body.may_end_here();
            return is_end
                .then_some(())
                .ok_or(io::ErrorKind::UnexpectedEof.into());
        }
        let mut taken = Ok(());
        let count = body.decode(input, |piece| {
            if taken.is_ok() {
                taken = take(piece);
            }
        });
        let count = count.map_err(|reject| invalid(reject.name()))?;
        from.consume(count);
        taken?;
    }
    Ok(())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, body, and whether the connection is kept.
    fn read(bytes: &mut &[u8]) -> io::Result<(u16, Vec<u8>, bool)> {
        let mut body = Vec::new();
        let answer = read_answer(bytes, &mut |_, piece| {
            body.extend_from_slice(piece);
            Ok(())
        })?;
        Ok((answer.status, body, answer.keep_alive))
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let three = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
                      HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n\
                      HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let mut bytes = &three[..];
        for (status, body, keep_alive) in [
            (200, &b"ok"[..], true),
            (200, b"abc", true),
            (503, b"", false),
        ] {
            let answer = read(&mut bytes).expect("an answer");
            assert_eq!(answer, (status, body.to_vec(), keep_alive));
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_field_is_found_by_its_name() {
        let mut bytes = &b"HTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n"[..];
        let answer = read_answer(&mut bytes, &mut |_, _| Ok(())).expect("an answer");
        assert_eq!(answer.field("etag").as_deref(), Some("\"1\""));
        assert_eq!(answer.field("age"), None);
    }

    #[test]
    fn what_is_no_whole_answer_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "200 OK\r\n\r\n",
        ] {
            assert!(read(&mut text.as_bytes()).is_err(), "{text:?}");
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
