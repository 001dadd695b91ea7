//! The places that control connections take, and which of them gives way when there are too many.
//!
//! A newcomer always gets a place, so that whoever holds theirs without a use, be it by silence or by not reading, locks
//! nobody out: neither an operator nor the load balancer that asks for `/healthz`. Where its address has as many as it may,
//! or all have, another one gives way: the one that has waited longest for its client, and only if none waits, the one
//! that has been at work longest. What such a one has begun goes on.
//!
//! Pure: who is closed is said here, and done by `admin.rs`.

use std::net::IpAddr;

/// Control connections open at once.
const CONNECTIONS_MAX: usize = 64;
/// Those of one address. Half of all: the operator, Prometheus and everybody else on this machine may have the same.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 32;

/// Who is connected.
#[derive(Debug)]
pub(super) struct Places<T> {
    taken: Vec<Taken<T>>,
    /// Counts what happens, as a clock.
    now: u64,
}

#[derive(Debug)]
struct Taken<T> {
    id: u64,
    address: IpAddr,
    /// How to close it.
    handle: T,
    is_at_work: bool,
    since: u64,
}

impl<T> Places<T> {
    pub(super) fn new() -> Self {
        Self {
            taken: Vec::new(),
            now: 0,
        }
    }

    /// Who has to be closed before somebody from `address` can come.
    pub(super) fn make_room(&mut self, address: IpAddr) -> Option<T> {
        let of = |address: IpAddr| {
            let taken = self.taken.iter();
            taken.filter(|taken| taken.address == address).count()
        };
        let among = if of(address) >= CONNECTIONS_PER_ADDRESS_MAX {
            address
        } else if self.taken.len() >= CONNECTIONS_MAX {
            let addresses = self.taken.iter().map(|taken| taken.address);
            addresses.max_by_key(|&address| of(address))?
        } else {
            return None;
        };
        let places = self.taken.iter().enumerate();
        let of_it = places.filter(|(_, taken)| taken.address == among);
        let (index, _) = of_it.min_by_key(|(_, taken)| (taken.is_at_work, taken.since))?;
        Some(self.taken.swap_remove(index).handle)
    }

    /// A newcomer, which waits for its client.
    pub(super) fn take(&mut self, id: u64, address: IpAddr, handle: T) {
        self.now += 1;
        self.taken.push(Taken {
            id,
            address,
            handle,
            is_at_work: false,
            since: self.now,
        });
    }

    /// The request of a connection is here, or has been answered.
    pub(super) fn is_at_work(&mut self, id: u64, is_at_work: bool) {
        self.now += 1;
        let mut taken = self.taken.iter_mut();
        if let Some(taken) = taken.find(|taken| taken.id == id) {
            taken.is_at_work = is_at_work;
            taken.since = self.now;
        }
    }

    /// A connection has ended.
    pub(super) fn leave(&mut self, id: u64) {
        self.taken.retain(|taken| taken.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    /// Comes from `address`; who has to go for it.
    fn come(places: &mut Places<u64>, id: u64, from: u8) -> Option<u64> {
        let gone = places.make_room(address(from));
        places.take(id, address(from), id);
        gone
    }

    #[test]
    fn who_has_waited_longest_of_the_same_address_gives_way() {
        let mut places = Places::new();
        assert_eq!(come(&mut places, 1000, 2), None);
        for id in 0..32 {
            assert_eq!(come(&mut places, id, 1), None, "{id}");
        }
        places.is_at_work(0, true);
        places.is_at_work(1, true);
        places.is_at_work(1, false);
        let gone: Vec<_> = (100..103).map(|id| come(&mut places, id, 1)).collect();
        assert_eq!(gone, [Some(2), Some(3), Some(4)]);
        places.leave(5);
        assert_eq!(come(&mut places, 103, 1), None);
        assert_eq!(come(&mut places, 104, 1), Some(6));
    }

    #[test]
    fn work_gives_way_when_nobody_waits() {
        let mut places = Places::new();
        for id in 0..32 {
            assert_eq!(come(&mut places, id, 1), None);
            places.is_at_work(id, true);
        }
        assert_eq!(come(&mut places, 100, 1), Some(0));
        assert_eq!(come(&mut places, 101, 1), Some(100), "it waits");
    }

    #[test]
    fn who_has_most_places_gives_one_to_another_address() {
        let mut places = Places::new();
        for id in 0..32 {
            assert_eq!(come(&mut places, id, 1), None);
        }
        for id in 32..64 {
            assert_eq!(come(&mut places, id, 2 + id as u8), None);
        }
        assert_eq!(come(&mut places, 64, 200), Some(0));
        assert_eq!(come(&mut places, 65, 201), Some(1));
    }
}
