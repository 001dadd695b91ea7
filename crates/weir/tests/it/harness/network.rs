//! Machines of a test, each with a network of its own: namespaces of the kernel, joined by a bridge, whose links are cut, lose packets,
//! or are slow. Needs root, ip(8) and iptables(8).
//!
//! ```text
//! machine 0                    the bridge          machine 1
//! lo 127.0.0.1    eth0 198.18.0.1 ══════╪══════ eth0 198.18.1.1    lo
//!                      198.18.0.2       ║            198.18.1.2         what a relay connects from
//!                                    machine 2
//! ```
//!
//! The addresses are those of RFC 2544, which no network uses. Nothing of it is seen from outside.

mod relay;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use self::relay::Relay;
use super::tool::run;

/// Machines that reach each other, and nothing else.
#[derive(Debug)]
pub(crate) struct Network {
    hub: String,
    machines: Vec<Machine>,
}

#[derive(Debug)]
struct Machine {
    namespace: String,
    relay: Option<Relay>,
}

impl Network {
    /// So many machines.
    pub(crate) fn of(count: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = |of: &str| format!("weir-{process}-{number}-{of}");
        let mut network = Self {
            hub: name("hub"),
            machines: Vec::new(),
        };
        let hub = network.hub.clone();
        ip(&["netns", "add", &hub]);
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"]);
        ip(&["-n", &hub, "link", "set", "bridge", "up"]);
        for index in 0..count {
            let (namespace, port) = (name(&index.to_string()), format!("port{index}"));
            ip(&["netns", "add", &namespace]);
            network.machines.push(Machine {
                namespace: namespace.clone(),
                relay: None,
            });
            let here = |arguments: &[&str]| ip(&[&["-n", &namespace], arguments].concat());
            here(&[
                "link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", &hub,
            ]);
            for address in [Self::address(index), Self::relayed(index)] {
                here(&["address", "add", &format!("{address}/15"), "dev", "eth0"]);
            }
            here(&["link", "set", "lo", "up"]);
            here(&["link", "set", "eth0", "up"]);
            ip(&["-n", &hub, "link", "set", &port, "master", "bridge", "up"]);
        }
        network
    }

    /// Where the others reach a machine.
    pub(crate) fn address(machine: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 18, machine as u8, 1))
    }

    fn relayed(machine: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 18, machine as u8, 2))
    }

    /// Does something on a machine, by a thread. What that starts, threads and processes, is there as well.
    pub(crate) fn on<T: Send>(&self, machine: usize, what: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                self.enter(machine);
                what()
            });
            done.join().expect("what is done there succeeds")
        })
    }

    /// Takes this thread to a machine, where it stays.
    pub(crate) fn enter(&self, machine: usize) {
        let namespace = &self.machines[machine].namespace;
        let file = File::open(format!("/run/netns/{namespace}")).expect("it was made");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may go there");
    }

    /// Nothing that a machine sends reaches the other one from now on. The way back stays.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        let from = format!("198.18.{from}.0/24");
        self.iptables(to, &["-A", "INPUT", "-s", &from, "-j", "DROP"]);
    }

    /// Nothing passes between a machine and all others.
    pub(crate) fn cut_off(&self, machine: usize) {
        let others = (0..self.machines.len()).filter(|other| *other != machine);
        for other in others {
            self.cut(machine, other);
            self.cut(other, machine);
        }
    }

    /// A machine loses so many of a hundred packets that come from others.
    pub(crate) fn lose(&self, machine: usize, percent: u32) {
        let share = format!("0.{percent:02}");
        let rule = [
            "-A",
            "INPUT",
            "-i",
            "eth0",
            "-m",
            "statistic",
            "--mode",
            "random",
            "--probability",
            &share,
            "-j",
            "DROP",
        ];
        self.iptables(machine, &rule);
    }

    /// Has a relay carry what goes to this port of all machines, or comes to it at this machine. To be done before something connects.
    pub(crate) fn relay(&mut self, machine: usize, port: u16) {
        let (own, ports) = (Self::address(machine).to_string(), port.to_string());
        let from = Self::relayed(machine);
        let relay = self.on(machine, || Relay::start(from));
        let to = relay.port().to_string();
        let redirect = |chain: &str, which: &[&str]| {
            let rule = ["-t", "nat", "-A", chain, "-p", "tcp", "--dport", &ports];
            let target = ["-j", "REDIRECT", "--to-ports", &to];
            self.iptables(machine, &[&rule, which, &target[..]].concat());
        };
        redirect("PREROUTING", &["-d", &own]);
        // What the relay itself sends on has its other address.
        redirect("OUTPUT", &["-s", &own, "!", "-d", &own]);
        self.machines[machine].relay = Some(relay);
    }

    /// How long the relay of a machine holds back what passes. A piece that comes meanwhile waits as well.
    pub(crate) fn slow_down(&self, machine: usize, delay_ms: u64) {
        let relay = self.machines[machine].relay.as_ref();
        relay.expect("it has a relay").hold_back(delay_ms);
    }

    /// All links are well again.
    pub(crate) fn heal(&self) {
        for (index, machine) in self.machines.iter().enumerate() {
            self.iptables(index, &["-F", "INPUT"]);
            if let Some(relay) = &machine.relay {
                relay.hold_back(0);
            }
        }
    }

    fn iptables(&self, machine: usize, arguments: &[&str]) {
        let namespace = &self.machines[machine].namespace;
        ip(&[&["netns", "exec", namespace, "iptables", "-w"], arguments].concat());
    }
}

fn ip(arguments: &[&str]) {
    run("ip", arguments);
}

impl Drop for Network {
    fn drop(&mut self) {
        let machines = self.machines.iter().map(|machine| &machine.namespace);
        for namespace in machines.chain([&self.hub]) {
            let _ = super::tool::run_to_end("ip", &["netns", "delete", namespace]);
        }
    }
}
