//! The replicas: processes of `weir app` that are started again when they end.
//!
//! A replica ends with the demo. When the demo ends in order it sends SIGTERM, and SIGKILL to what is left after a
//! moment. When it is killed, or panics, the system sends SIGTERM for it: each replica asks for that itself
//! (`PR_SET_PDEATHSIG`, see `weir app`), since doing it for a child before it runs would need unsafe code.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpSocket;

/// How long a replica that ended stays away: long enough to see that it is not missed.
pub(super) const RESTART_AFTER: Duration = Duration::from_secs(5);
/// How long a replica may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_POLL: Duration = Duration::from_millis(5);

/// A name and a port that stay a replica's own while it is away.
pub(super) struct Place {
    name: String,
    pub(super) address: SocketAddr,
    /// Bound and never listening: connections are refused as if nobody had the port, the replica can share it
    /// (`SO_REUSEADDR`), and the system gives it to nobody else. Without it, a connection to the port of a dead
    /// replica could be given that very port to come from, and be connected to itself.
    _reservation: TcpSocket,
}

impl Place {
    /// The place of `replica-NUMBER`, on a free port if `port` is 0.
    pub(super) fn reserve(number: usize, port: u16) -> anyhow::Result<Self> {
        let name = format!("replica-{number}");
        let bind = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
            Ok::<_, std::io::Error>((socket.local_addr()?, socket))
        };
        let (address, reservation) = bind().with_context(|| {
            format!("cannot use port {port} for {name}; choose other ones with --ports")
        })?;
        Ok(Self {
            name,
            address,
            _reservation: reservation,
        })
    }

    /// Starts a process here and waits until it listens.
    ///
    /// To be called on the main thread: the system takes the end of the thread that started a process for the end of
    /// the parent.
    fn start(&self) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("cannot find the program that is running")?;
        let mut child = Command::new(program)
            .args(["app", "--listen", &self.address.to_string()])
            .args(["--name", &self.name])
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for the demo, which drains before the replicas go.
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
    place: Place,
    state: State,
}

enum State {
    /// The child has not been waited for, so its process id is still its own.
    Running(Child),
    /// Since when.
    Away(Instant),
}

impl Replica {
    pub(super) fn start(place: Place) -> anyhow::Result<Self> {
        let state = State::Running(place.start()?);
        Ok(Self { place, state })
    }

    pub(super) fn name(&self) -> &str {
        &self.place.name
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.place.address
    }

    /// `None` while it is away.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(child) => Some(child.id()),
            State::Away(_) => None,
        }
    }

    /// Notices when it has ended, and starts it again when it was away for long enough. To be called now and then on
    /// the main thread; returns what there is to tell.
    pub(super) fn watch(&mut self) -> Option<String> {
        let name = &self.place.name;
        match &mut self.state {
            State::Running(child) => {
                let status = child.try_wait().ok().flatten()?;
                self.state = State::Away(Instant::now());
                let seconds = RESTART_AFTER.as_secs();
                Some(format!(
                    "{name} ended ({status}); it is started again in {seconds} s"
                ))
            }
            State::Away(since) if since.elapsed() < RESTART_AFTER => None,
            State::Away(_) => match self.place.start() {
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
        // It may have ended by itself; then there is nobody to signal, and waiting is all that is left to do.
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
        let place = Place::reserve(1, 0).unwrap();
        assert_ne!(place.address.port(), 0);
        TcpStream::connect(place.address).unwrap_err();
        for _life in 0..2 {
            // As in the standard library, `weir app` binds with SO_REUSEADDR.
            let listener = TcpListener::bind(place.address).unwrap();
            TcpStream::connect(place.address).unwrap();
            drop(listener);
        }
        TcpStream::connect(place.address).unwrap_err();
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_refused_by_name() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let Err(error) = Place::reserve(2, port) else {
            panic!("port {port} is taken");
        };
        let text = error.to_string();
        assert!(
            text.contains(&format!("port {port} for replica-2")),
            "{text}"
        );
    }
}
