//! Questions to a sample service beside the load, each on a connection of its own.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

/// The service answers within this time, even while it hangs, or has used up its share of a CPU.
const PATIENCE: Duration = Duration::from_secs(5);

/// The JSON that the service answers to `what`, a method and a target.
pub(super) fn ask<T: DeserializeOwned>(what: &str, address: SocketAddr) -> Result<T, String> {
    let text = exchange(what, address).map_err(|error| format!("{what}: {error}"))?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|_| format!("{what} was answered with {text:?}"))
}

/// Seconds since the epoch.
pub(super) fn unix() -> f64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    unix.map_or(0.0, |unix| unix.as_secs_f64())
}

fn exchange(what: &str, address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{what} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
