//! An origin that does exactly what a test tells it, and shows what it was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::PATIENCE;

/// A listening origin. For each connection, in order, the handler runs on a thread of its own.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    seen: Receiver<String>,
}

impl Origin {
    /// Calls `handler` with each connection and its number, from 0.
    pub(crate) fn start(handler: impl Fn(Peer, usize) + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), handler)
    }

    /// The same at a place of the caller's choice.
    pub(crate) fn start_at(
        address: SocketAddr,
        handler: impl Fn(Peer, usize) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (tell, seen) = channel();
        let handler = std::sync::Arc::new(handler);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                stream
                    .set_read_timeout(Some(PATIENCE))
                    .expect("a timeout can be set");
                let (tell, handler) = (tell.clone(), std::sync::Arc::clone(&handler));
                std::thread::spawn(move || {
                    handler(
                        Peer {
                            stream,
                            unread: Vec::new(),
                            tell,
                        },
                        number,
                    );
                });
            }
        });
        Self { address, seen }
    }

    /// Answers every request head, whatever it says, with `response`.
    pub(crate) fn answering(response: &'static str) -> Self {
        Self::start(move |mut peer, _| {
            while peer.head().is_some() {
                peer.send(response);
            }
        })
    }

    /// Answers every request with `name`.
    pub(crate) fn saying(address: SocketAddr, name: &'static str) -> Self {
        let length = name.len();
        Self::start_at(address, move |mut peer, _| {
            while peer.head().is_some() {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}"
                ));
            }
        })
    }

    /// The next request head that came in, on whatever connection.
    pub(crate) fn next_head(&self) -> String {
        self.seen
            .recv_timeout(PATIENCE)
            .expect("the origin is asked")
    }

    /// The request heads that came in and were not looked at yet.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.try_iter().collect()
    }

    /// How many request heads came in since this was last called, without those that were looked at.
    pub(crate) fn heads_waiting(&self) -> usize {
        self.seen.try_iter().count()
    }
}

/// The gateway's connection, seen from the origin.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
    tell: std::sync::mpsc::Sender<String>,
}

impl Peer {
    /// Reads a request head; `None` when the gateway closed.
    pub(crate) fn head(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill() {
                return None;
            }
        };
        let rest = self.unread.split_off(end);
        let head = String::from_utf8_lossy(&std::mem::replace(&mut self.unread, rest)).into_owned();
        let _ = self.tell.send(head.clone());
        Some(head)
    }

    /// Reads `count` bytes of body.
    pub(crate) fn body(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.fill(), "the gateway closed inside a body");
        }
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads up to and with the first `end`.
    pub(crate) fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|w| w == end) {
                return self.body(at + end.len());
            }
            assert!(
                self.fill(),
                "the gateway closed before it sent {}",
                end.escape_ascii()
            );
        }
    }

    /// Writes; that the gateway has closed is for the test to notice.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Closes, and returns when the gateway's side of the kernel knows.
    pub(crate) fn close(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket
            .set_linger(Some(PATIENCE))
            .expect("closing can be waited for");
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                true
            }
        }
    }
}
