//! A server that does to each connection what a test wants.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Serves until it is dropped; a thread for each connection.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let is_over = Arc::<AtomicBool>::default();
        let (serve, ends) = (Arc::new(serve), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream.expect("a connection comes")));
            }
        });
        Self { address, is_over }
    }

    /// Answers each request on a connection with the pieces that `answer` makes of its head and body.
    pub(super) fn answering(answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::start(move |mut stream| {
            let _ = stream.set_nodelay(true);
            let mut unread = Vec::new();
            while let Some(request) = read_request(&mut stream, &mut unread) {
                for piece in answer(&request) {
                    if stream.write_all(&piece).is_err() {
                        return;
                    }
                    std::thread::yield_now();
                }
                // As it said in its answer.
                if request.contains("please-close") {
                    return;
                }
            }
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

/// The next request with a body by `Content-Length`; `None` when the client has closed.
pub(super) fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..at]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().expect("a length"));
            let end = at + 4 + length;
            if unread.len() >= end {
                let request = String::from_utf8_lossy(&unread[..end]).into_owned();
                unread.drain(..end);
                return Some(request);
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => unread.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}
