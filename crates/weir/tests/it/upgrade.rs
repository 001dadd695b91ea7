//! Upgrades: a WebSocket library on both ends, and what is and is not let through, byte by byte.

mod handshake;
mod tunnel;
pub(crate) mod websocket;

use crate::harness::Gateway;

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Content that tells one message and place from another.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(17) ^ (at >> 8)) as u8)
        .collect()
}

fn open_connections(gateway: &Gateway) -> u64 {
    gateway.metric("weir_client_connections{worker=\"0\"}")
        + gateway.metric("weir_client_connections{worker=\"1\"}")
}
