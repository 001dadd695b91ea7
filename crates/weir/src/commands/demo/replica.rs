//! The replicas: processes of `weir app` that are started again when they end.
//!
//! A replica ends with the demo. When the demo ends in order it sends SIGTERM, and after a moment SIGKILL to those
//! that are left. When the demo is killed or panics, the system sends SIGTERM. Each replica asks for that itself
//! (`PR_SET_PDEATHSIG`, see `weir app`), since the parent would need unsafe code for it.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpSocket;

/// How long a replica that ended stays away: long enough to see that the gateway does without it.
pub(super) const RESTART_AFTER: Duration = Duration::from_secs(5);
/// How long a replica may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_POLL: Duration = Duration::from_millis(5);

/// A name and a port that belong to a replica even while it is away.
pub(super) struct Reservation {
    name: String,
    /// Further flags of its `weir app`.
    flags: &'static [&'static str],
    /// How long it stays away when it has ended.
    away: Duration,
    pub(super) address: SocketAddr,
    /// This socket is bound and never listens. Connections are refused as if the port were free, the replica can
    /// share it (`SO_REUSEADDR`), and the system gives it to nobody else. Without it, a connection to the port of a
    /// dead replica could get that very port as its source, and so be connected to itself.
    _socket: TcpSocket,
}

/// A socket that has an address and never listens, see [`Reservation`]; any free port if that is 0.
pub(super) fn reserve(address: SocketAddr) -> std::io::Result<(SocketAddr, TcpSocket)> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok((socket.local_addr()?, socket))
}

impl Reservation {
    /// Reserves a port for `replica-NUMBER`: any free port if `port` is 0.
    pub(super) fn make(number: usize, port: u16) -> anyhow::Result<Self> {
        let name = format!("replica-{number}");
        let (address, socket) = reserve((Ipv4Addr::LOCALHOST, port).into()).with_context(|| {
            format!("cannot use port {port} for {name}; choose other ones with --ports")
        })?;
        Ok(Self {
            name,
            flags: &[],
            away: RESTART_AFTER,
            address,
            _socket: socket,
        })
    }

    /// The same with another name, flags, and time to stay away.
    pub(super) fn serving(
        self,
        name: &str,
        flags: &'static [&'static str],
        away: Duration,
    ) -> Self {
        Self {
            name: name.to_owned(),
            flags,
            away,
            ..self
        }
    }

    /// Starts a process on this port and waits until it listens.
    ///
    /// Must be called on the main thread: when the thread that started a process ends, the system sends the signal
    /// for the end of the parent.
    fn start(&self) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("cannot find the program that is running")?;
        let mut child = Command::new(program)
            .args(["app", "--listen", &self.address.to_string()])
            .args(["--name", &self.name])
            .args(self.flags)
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for the demo, which drains before the replicas end.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut line = String::new();
        let told = BufReader::new(stdout).read_line(&mut line);
        if told.is_err() || line.is_empty() {
            let status = child.wait()?;
            anyhow::bail!("{} ended before it listened: {status}", self.name);
        }
        Ok(child)
    }
}

/// A replica, running or away.
pub(super) struct Replica {
    reservation: Reservation,
    state: State,
}

enum State {
    /// The child has not been waited for, so its process id is still its own.
    Running(Child),
    /// When it ended.
    Away(Instant),
}

impl Replica {
    pub(super) fn start(reservation: Reservation) -> anyhow::Result<Self> {
        let state = State::Running(reservation.start()?);
        Ok(Self { reservation, state })
    }

    pub(super) fn name(&self) -> &str {
        &self.reservation.name
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.reservation.address
    }

    /// The process id; `None` while it is away.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(child) => Some(child.id()),
            State::Away(_) => None,
        }
    }

    /// Notices when it has ended, and starts it again when it was away long enough. Must be called regularly on the
    /// main thread; returns a message if there is news.
    pub(super) fn watch(&mut self) -> Option<String> {
        let name = &self.reservation.name;
        match &mut self.state {
            State::Running(child) => {
                let status = child.try_wait().ok().flatten()?;
                self.state = State::Away(Instant::now());
                let seconds = self.reservation.away.as_secs();
                Some(format!(
                    "{name} ended ({status}); it is started again in {seconds} s"
                ))
            }
            State::Away(since) if since.elapsed() < self.reservation.away => None,
            State::Away(_) => match self.reservation.start() {
                Ok(child) => {
                    let pid = child.id();
                    self.state = State::Running(child);
                    Some(format!("{name} is back, pid {pid}"))
                }
                Err(error) => {
                    self.state = State::Away(Instant::now());
                    Some(format!("{error:#}"))
                }
            },
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let State::Running(child) = &mut self.state else {
            return;
        };
        // It may have ended by itself; then the signal fails and only the wait is left.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(GRACE_POLL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_connections_and_takes_a_listener() {
        let reservation = Reservation::make(1, 0).unwrap();
        assert_ne!(reservation.address.port(), 0);
        TcpStream::connect(reservation.address).unwrap_err();
        for _life in 0..2 {
            // As in the standard library, `weir app` binds with SO_REUSEADDR.
            let listener = TcpListener::bind(reservation.address).unwrap();
            TcpStream::connect(reservation.address).unwrap();
            drop(listener);
        }
        TcpStream::connect(reservation.address).unwrap_err();
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_refused_by_name() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let Err(error) = Reservation::make(2, port) else {
            panic!("port {port} is taken");
        };
        let text = error.to_string();
        assert!(
            text.contains(&format!("port {port} for replica-2")),
            "{text}"
        );
    }
}
