//! An origin that allocates nothing for a request, so that whatever is allocated was not allocated by it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

/// A response as a small JSON service gives it, after the body of a POST or at once.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nContent-Type: application/json\r\n\
    Content-Length: 15\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n{\"saved\": true}";

/// The answer for a path with `large` in it, long enough to be compressed.
fn large_response() -> Vec<u8> {
    let body = b"{\"saved\": true, \"at\": \"the wall across the river\"}\n".repeat(40);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Starts one that answers as soon as a request is there.
pub(crate) fn start() -> SocketAddr {
    start_with(None)
}

/// Starts one that answers the first request of its first `connections` connections when all of them are there: no
/// fewer are open then.
pub(crate) fn start_together(connections: usize) -> SocketAddr {
    start_with(Some(Arc::new(Barrier::new(connections))))
}

fn start_with(together: Option<Arc<Barrier>>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let together = together.clone();
            std::thread::spawn(move || serve(stream, together.as_deref()));
        }
    });
    address
}

fn serve(mut stream: TcpStream, together: Option<&Barrier>) {
    stream.set_nodelay(true).expect("Nagle can be switched off");
    let mut wait = together;
    let large = large_response();
    let mut buffer = [0; 4096];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]) {
            Ok(count) if count > 0 => filled += count,
            _ => return,
        }
        if !is_whole(&buffer[..filled]) {
            continue;
        }
        let is_large = buffer[..filled].windows(5).any(|window| window == b"large");
        filled = 0;
        if let Some(barrier) = wait.take() {
            barrier.wait();
        }
        let response = if is_large { &large } else { RESPONSE };
        if stream.write_all(response).is_err() {
            return;
        }
    }
}

/// Whether a message is here with its body; there is no other behind it, because each side waits for the other.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = &bytes[..end + 2];
    let length = head
        .windows(LENGTH.len())
        .position(|window| window.eq_ignore_ascii_case(LENGTH))
        .map_or(0, |at| number(&head[at + LENGTH.len()..]));
    bytes.len() >= end + 4 + length
}

const LENGTH: &[u8] = b"\r\ncontent-length: ";

fn number(digits: &[u8]) -> usize {
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}
