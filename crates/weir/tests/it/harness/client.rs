//! A client that shows every byte: it writes what it is told and reads responses without any leniency of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// A response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of the first field called `name`, in any case of letters.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).first().copied()
    }

    /// The values of all fields called `name`.
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        lines
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).expect("the server accepts"))
    }

    /// The connection on `stream`, which is open.
    pub(crate) fn on(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        stream.set_nodelay(true).expect("Nagle can be switched off");
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes the request");
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// The next response, with its body by `Content-Length`, chunks (decoded), or until the server closes.
    pub(crate) fn response(&mut self) -> Response {
        self.response_to("GET").expect("the server answers")
    }

    /// The same for a request made with `method`; `None` when the server closed instead.
    pub(crate) fn response_to(&mut self, method: &str) -> Option<Response> {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill() {
                assert!(
                    self.unread.is_empty(),
                    "half a head: {}",
                    self.unread.escape_ascii()
                );
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.take(head_end)).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status");
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        let has_body = method != "HEAD" && status >= 200 && status != 204 && status != 304;
        if has_body {
            response.body = match (
                response.field("content-length"),
                response.field("transfer-encoding"),
            ) {
                (Some(length), None) => {
                    let length = length.parse().expect("a length");
                    self.exactly(length)
                }
                (None, Some("chunked")) => self.chunks(),
                (None, None) => self.rest(),
                both => panic!("ambiguous framing: {both:?}"),
            };
        }
        Some(response)
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.unread)
    }

    /// Whether the server has closed, waiting for it to do so.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill()
    }

    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(
                self.fill(),
                "the server closed after {} of {count} bytes",
                self.unread.len()
            );
        }
        self.take(count)
    }

    /// Everything up to and with the first `end`.
    pub(crate) fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|w| w == end) {
                return self.take(at + end.len());
            }
            assert!(
                self.fill(),
                "the server closed before it sent {}; it sent {}",
                end.escape_ascii(),
                self.unread.escape_ascii()
            );
        }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        loop {
            let line = self.line();
            let size = usize::from_str_radix(line.split(';').next().expect("a size"), 16)
                .expect("a chunk size");
            if size == 0 {
                while !self.line().is_empty() {}
                return content;
            }
            content.extend(self.exactly(size));
            assert!(self.line().is_empty(), "a chunk ends with CRLF");
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let end = loop {
            if let Some(at) = self.unread.windows(2).position(|w| w == b"\r\n") {
                break at;
            }
            assert!(self.fill(), "the server closed inside a line");
        };
        let line = self.take(end + 2);
        String::from_utf8_lossy(&line[..end]).into_owned()
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads more; `false` when the server has closed or reset.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            // A read with a timeout ends so when the machine was stopped for a while.
            Err(error) if error.kind() == ErrorKind::Interrupted => self.fill(),
            Err(error) => panic!(
                "no answer: {error}; read so far: {}",
                self.unread.escape_ascii()
            ),
        }
    }
}

/// One GET on a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    Connection::open(address).get(path)
}

/// The same of an admin listener, which answers only to its address.
pub(crate) fn ask_admin(address: SocketAddr, path: &str) -> Response {
    send(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    )
}

/// One request on a connection of its own.
pub(crate) fn send(address: SocketAddr, request: &str) -> Response {
    let mut connection = Connection::open(address);
    connection.send(request);
    connection
        .response_to(request.split(' ').next().unwrap_or_default())
        .expect("the server answers")
}
