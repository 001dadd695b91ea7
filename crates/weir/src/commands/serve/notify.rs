//! What systemd is told of a service of `Type=notify`: lines in a datagram to the socket that `NOTIFY_SOCKET` names
//! (`sd_notify(3)`). Without that variable nobody is told.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A socket to the service manager, or to nobody.
#[derive(Debug)]
pub(super) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// The service manager that started this process, if one did.
    pub(super) fn manager() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET");
        // Who does not listen there does not wait for it either.
        Self(name.and_then(|name| connected(&name).ok()))
    }

    /// The gateway serves.
    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    /// It drains, for as long as `within` and some seconds: so long it is not to be killed.
    pub(super) fn stopping(&self, within: Duration) {
        let patience = within.saturating_add(Duration::from_secs(10)).as_micros();
        self.send(&format!(
            "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={patience}"
        ));
    }

    fn send(&self, lines: &str) {
        // A manager that is gone is no reason to end.
        let _ = self.0.as_ref().map(|socket| socket.send(lines.as_bytes()));
    }
}

fn connected(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
