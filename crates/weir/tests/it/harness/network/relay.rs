//! A relay that holds back what passes: the kernel hands it connections that were meant for others.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::ip_original_dst;
use socket2::{Domain, Socket, Type};

/// How long a connection to the other side may take.
const CONNECT: Duration = Duration::from_secs(1);
const PIECE_BYTES: usize = 64 << 10;
/// How often it is looked whether somebody connects.
const TICK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    delay_ms: Arc<AtomicU64>,
    has_ended: Arc<AtomicBool>,
}

impl Relay {
    /// Begins on the machine of this thread, and connects from this address of it.
    pub(super) fn start(from: IpAddr) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let delay_ms: Arc<AtomicU64> = Arc::default();
        let has_ended: Arc<AtomicBool> = Arc::default();
        let (delay, ended) = (Arc::clone(&delay_ms), Arc::clone(&has_ended));
        listener.set_nonblocking(true).expect("it is a socket");
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let delay = Arc::clone(&delay);
                        thread::spawn(move || carry(&stream, from, &delay));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
                    Err(error) => panic!("a relay listens: {error}"),
                }
            }
        });
        Self {
            port,
            delay_ms,
            has_ended,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn hold_back(&self, delay_ms: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// Carries a connection to where it was meant to go, until an end of it is closed.
fn carry(stream: &TcpStream, from: IpAddr, delay_ms: &AtomicU64) {
    let meant = ip_original_dst(stream).map(SocketAddr::from);
    let other = meant
        .map_err(std::io::Error::from)
        .and_then(|to| connect(from, to));
    // A connection that does not come about there is closed here.
    let Ok(other) = other else {
        return;
    };
    for stream in [stream, &other] {
        stream.set_nonblocking(false).expect("it is a socket");
        stream.set_nodelay(true).expect("it is a socket");
    }
    thread::scope(|scope| {
        scope.spawn(|| pass(stream, &other, delay_ms));
        pass(&other, stream, delay_ms);
    });
}

fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), CONNECT)?;
    Ok(socket.into())
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, delay_ms: &AtomicU64) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
