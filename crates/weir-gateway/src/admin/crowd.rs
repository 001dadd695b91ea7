//! Who is connected to the control listener, and who gives way when there are too many.
//!
//! A newcomer always gets a place, so that whoever holds theirs without a use, be it by silence or by not reading, locks
//! nobody out: neither an operator nor the load balancer that asks for `/healthz`. Where its address has as many as it may,
//! or all have, the one gives way that has neither come, asked nor been answered for longest. What it has begun goes on.
//!
//! Pure: who is closed is said here, and done by `admin.rs`.

use std::net::IpAddr;

/// Control connections open at once.
const CONNECTIONS_MAX: usize = 64;
/// Those of one address. Half of all: the operator, Prometheus and everybody else on this machine may have the same.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 32;

/// Who is connected.
#[derive(Debug)]
pub(super) struct Crowd<T> {
    members: Vec<Member<T>>,
    /// Counts what happens, as a clock.
    now: u64,
}

#[derive(Debug)]
struct Member<T> {
    id: u64,
    address: IpAddr,
    /// How to close it.
    handle: T,
    /// When it came, asked or was answered last.
    since: u64,
}

impl<T> Crowd<T> {
    pub(super) fn new() -> Self {
        Self {
            members: Vec::new(),
            now: 0,
        }
    }

    /// Who has to be closed before somebody from `address` can come.
    pub(super) fn make_room(&mut self, address: IpAddr) -> Option<T> {
        let of = |address: IpAddr| {
            let members = self.members.iter();
            members.filter(|member| member.address == address).count()
        };
        let among = if of(address) >= CONNECTIONS_PER_ADDRESS_MAX {
            address
        } else if self.members.len() >= CONNECTIONS_MAX {
            let addresses = self.members.iter().map(|member| member.address);
            addresses.max_by_key(|&address| of(address))?
        } else {
            return None;
        };
        let members = self.members.iter().enumerate();
        let of_it = members.filter(|(_, member)| member.address == among);
        let (index, _) = of_it.min_by_key(|(_, member)| member.since)?;
        Some(self.members.swap_remove(index).handle)
    }

    /// Somebody has come, for whom there is room.
    pub(super) fn join(&mut self, id: u64, address: IpAddr, handle: T) {
        self.now += 1;
        self.members.push(Member {
            id,
            address,
            handle,
            since: self.now,
        });
    }

    /// A connection has asked for something, or has been answered.
    pub(super) fn note(&mut self, id: u64) {
        self.now += 1;
        let mut members = self.members.iter_mut();
        if let Some(member) = members.find(|member| member.id == id) {
            member.since = self.now;
        }
    }

    /// A connection has ended.
    pub(super) fn leave(&mut self, id: u64) {
        self.members.retain(|member| member.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    /// Comes from `address`; who has to go for it.
    fn come(crowd: &mut Crowd<u64>, id: u64, from: u8) -> Option<u64> {
        let gone = crowd.make_room(address(from));
        crowd.join(id, address(from), id);
        gone
    }

    #[test]
    fn who_was_heard_of_least_of_late_gives_way_to_the_same_address() {
        let mut crowd = Crowd::new();
        assert_eq!(come(&mut crowd, 1000, 2), None);
        for id in 0..32 {
            assert_eq!(come(&mut crowd, id, 1), None, "{id}");
        }
        crowd.note(0);
        crowd.note(1);
        let gone: Vec<_> = (100..103).map(|id| come(&mut crowd, id, 1)).collect();
        assert_eq!(gone, [Some(2), Some(3), Some(4)]);
        crowd.leave(5);
        assert_eq!(come(&mut crowd, 103, 1), None);
        assert_eq!(come(&mut crowd, 104, 1), Some(6));
    }

    #[test]
    fn a_newcomer_stays_until_all_others_have_made_room() {
        let mut crowd = Crowd::new();
        for id in 0..32 {
            assert_eq!(come(&mut crowd, id, 1), None);
        }
        assert_eq!(come(&mut crowd, 100, 1), Some(0));
        for id in 101..132 {
            assert_eq!(come(&mut crowd, id, 1), Some(id - 100));
        }
        assert_eq!(come(&mut crowd, 132, 1), Some(100));
    }

    #[test]
    fn who_has_most_crowd_gives_one_to_another_address() {
        let mut crowd = Crowd::new();
        for id in 0..32 {
            assert_eq!(come(&mut crowd, id, 1), None);
        }
        for id in 32..64 {
            assert_eq!(come(&mut crowd, id, 2 + id as u8), None);
        }
        assert_eq!(come(&mut crowd, 64, 200), Some(0));
        assert_eq!(come(&mut crowd, 65, 201), Some(1));
    }
}
