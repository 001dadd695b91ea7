//! Who may connect: how many connections there are, in all and from one address. Asked once for each connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use ipnet::IpNet;

use crate::lock::lock;
use crate::settings::{Limits, PerAddress};

/// The client connections of the process, and their limits.
#[derive(Debug)]
pub(crate) struct Admission {
    connections: AtomicUsize,
    connections_max: AtomicUsize,
    addresses: Mutex<Addresses>,
}

/// The connections of each address. All are counted, even without a bound: there may be one later.
#[derive(Debug)]
struct Addresses {
    limit: PerAddress,
    /// Trusted proxies, which stand for many clients.
    proxies: Vec<IpNet>,
    open: HashMap<IpAddr, u32>,
}

impl Admission {
    /// Begins with these limits; `proxies` are trusted.
    pub(crate) fn new(limits: &Limits, proxies: &[IpNet]) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            connections_max: AtomicUsize::new(limits.connections),
            addresses: Mutex::new(Addresses {
                limit: limits.connections_per_address,
                proxies: proxies.to_vec(),
                open: HashMap::new(),
            }),
        }
    }

    /// Applies other limits to new connections; open ones stay.
    pub(crate) fn adjust(&self, limits: &Limits, proxies: &[IpNet]) {
        let connections_max = limits.connections;
        self.connections_max
            .store(connections_max, Ordering::Relaxed);
        let mut addresses = self.addresses();
        addresses.limit = limits.connections_per_address;
        addresses.proxies = proxies.to_vec();
    }

    pub(crate) fn enter(&self, address: IpAddr) -> bool {
        let connections_max = self.connections_max.load(Ordering::Relaxed);
        if self.connections.fetch_add(1, Ordering::Relaxed) >= connections_max {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut addresses = self.addresses();
        let limit = addresses.limit_of(address);
        let open = addresses.open.entry(client_of(address)).or_default();
        if *open >= limit {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *open += 1;
        true
    }

    pub(crate) fn leave(&self, address: IpAddr) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        let mut addresses = self.addresses();
        if let Some(open) = addresses.open.get_mut(&client_of(address)) {
            *open -= 1;
            if *open == 0 {
                addresses.open.remove(&client_of(address));
            }
        }
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        lock(&self.addresses)
    }
}

impl Addresses {
    fn limit_of(&self, address: IpAddr) -> u32 {
        match self.limit {
            PerAddress::Remote(_) if self.stands_for_many(address) => u32::MAX,
            PerAddress::Every(limit) | PerAddress::Remote(limit) => limit,
        }
    }

    fn stands_for_many(&self, address: IpAddr) -> bool {
        let is_of = |proxies: &IpNet| proxies.contains(&address);
        address.is_loopback() || self.proxies.iter().any(is_of)
    }
}

/// One client: an IPv4 address, or the 64-bit prefix of an IPv6 address that a network hands out as a whole.
fn client_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn admission(connections: usize, connections_per_address: PerAddress) -> Admission {
        let limits = Limits {
            connections,
            connections_per_address,
            ..Limits::default()
        };
        Admission::new(&limits, &[])
    }

    #[test]
    fn a_place_that_is_left_can_be_taken_again() {
        let admission = admission(2, PerAddress::Every(1));
        assert!(admission.enter(HERE));
        assert!(!admission.enter(HERE), "one per address");
        assert!(admission.enter(THERE));
        admission.leave(HERE);
        assert!(admission.enter(HERE));
        assert!(
            !admission.enter(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2))),
            "two in all"
        );
        assert_eq!(admission.open(), 2);
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_are_one_client() {
        let admission = admission(10, PerAddress::Every(1));
        let address = |last| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        assert!(admission.enter(address(1)) && !admission.enter(address(2)));
        admission.leave(address(1));
        assert!(admission.enter(address(2)));
    }

    #[test]
    fn by_default_only_remote_addresses_are_bounded() {
        let admission = admission(10, PerAddress::Remote(1));
        assert!(admission.enter(HERE) && admission.enter(HERE));
        assert!(admission.enter(THERE) && !admission.enter(THERE));
    }
    #[test]
    fn changed_limits_hold_for_new_connections() {
        let admission = admission(10, PerAddress::Remote(9));
        assert!((0..3).all(|_| admission.enter(HERE)));
        admission.adjust(
            &Limits {
                connections: 4,
                connections_per_address: PerAddress::Every(2),
                ..Limits::default()
            },
            &[],
        );
        admission.leave(HERE);
        assert!(!admission.enter(HERE), "two were not asked to leave");
        admission.leave(HERE);
        assert!(admission.enter(HERE), "one more may be open");
        assert!(admission.enter(THERE) && admission.enter(THERE));
        assert!(!admission.enter(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2))));
    }
}
