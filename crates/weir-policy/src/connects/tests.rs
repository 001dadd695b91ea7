use std::collections::HashSet;

use super::*;

const LIMITS: Limits = Limits {
    unproven: 4,
    under_way: 8,
};

fn begun(connects: &mut Connects) -> usize {
    std::iter::from_fn(|| connects.begin().then_some(())).count()
}

fn with_waiting(count: usize) -> (Connects, Vec<Seat>) {
    let mut connects = Connects::new(LIMITS);
    let seats = (0..count).map(|_| connects.wait()).collect();
    (connects, seats)
}

fn failed(connects: &mut Connects) -> Vec<Seat> {
    let count = connects.failed();
    std::iter::from_fn(|| connects.fail()).take(count).collect()
}

#[test]
fn as_many_connects_as_requests_wait_up_to_the_limit() {
    for (waiting, overdue, expected) in [
        (0, 0, 0),
        (1, 0, 1),
        (4, 0, 4),
        (5, 0, 4),
        (100, 0, 4),
        // Overdue requests get a connect, up to the other limit.
        (100, 3, 4),
        (100, 6, 6),
        (100, 100, 8),
    ] {
        let (mut connects, seats) = with_waiting(waiting);
        for &seat in &seats[..overdue] {
            connects.owe(seat);
        }
        let context = format!("{waiting} wait, {overdue} for long");
        assert_eq!(begun(&mut connects), expected, "{context}");
    }
}

#[test]
fn the_first_connection_goes_to_the_longest_waiter() {
    let (mut connects, seats) = with_waiting(3);
    assert_eq!(begun(&mut connects), 3);
    assert_eq!(connects.freed(), Some(seats[0]));
    assert_eq!(connects.connected(), Some(seats[1]));
    assert_eq!(connects.freed(), Some(seats[2]));
    assert_eq!(connects.connected(), None, "it is kept for later");
    assert_eq!(connects.freed(), None);
}

#[test]
fn a_connection_without_an_answer_counts_as_being_opened() {
    let (mut connects, seats) = with_waiting(9);
    assert_eq!(begun(&mut connects), 4);
    for &seat in &seats[..4] {
        assert_eq!(connects.connected(), Some(seat));
    }
    assert_eq!(begun(&mut connects), 0, "none has been accepted for sure");
    connects.proven();
    assert_eq!(begun(&mut connects), 1);
    for &seat in &seats[4..7] {
        connects.owe(seat);
    }
    assert_eq!(
        begun(&mut connects),
        3,
        "what is not answered on for so long counts no more"
    );
}

#[test]
fn a_connection_without_an_answer_for_long_holds_up_nobody() {
    let limits = Limits {
        unproven: 2,
        under_way: 8,
    };
    let mut connects = Connects::new(limits);
    // Two connections are open whose requests are not answered.
    for _ in 0..2 {
        let seat = connects.wait();
        assert_eq!(
            (begun(&mut connects), connects.connected()),
            (1, Some(seat))
        );
    }
    let waits = connects.wait();
    assert_eq!(begun(&mut connects), 0);
    connects.owe(waits);
    assert_eq!(
        (begun(&mut connects), connects.connected()),
        (1, Some(waits))
    );
    // The next request need not wait that long, although the two are answered in the end.
    connects.wait();
    assert_eq!(begun(&mut connects), 1);
    for _ in 0..3 {
        connects.proven();
    }
    connects.wait();
    assert_eq!(begun(&mut connects), 1);
}

#[test]
fn a_failed_connect_fails_one_request_while_others_are_under_way_for_the_rest() {
    let (mut connects, seats) = with_waiting(3);
    assert_eq!(begun(&mut connects), 3);
    for &seat in &seats {
        assert_eq!(failed(&mut connects), [seat]);
    }
    assert_eq!(begun(&mut connects), 0);
}

#[test]
fn a_dead_endpoint_is_asked_a_few_times_and_nobody_is_left_waiting() {
    let (mut connects, seats) = with_waiting(1000);
    let (mut connecting, mut all) = (begun(&mut connects), 0);
    let mut still_waiting = Vec::new();
    while connecting > 0 {
        still_waiting.push(seats.len() - all);
        connecting -= 1;
        all += failed(&mut connects).len();
        connecting += begun(&mut connects);
    }
    assert_eq!(
        still_waiting,
        [1000, 999, 997, 993, 985, 969, 937, 873, 745, 489]
    );
    assert_eq!(all, seats.len());
}

#[test]
fn an_open_connection_ends_the_row_of_failures() {
    type Good = fn(&mut Connects) -> Option<Seat>;
    let goods: [(&str, Good); 2] = [
        ("one that comes free", Connects::freed),
        ("one that was opened", Connects::connected),
    ];
    for (name, good) in goods {
        let (mut connects, _) = with_waiting(100);
        assert_eq!(begun(&mut connects), 4);
        assert_eq!(failed(&mut connects).len(), 1);
        assert_eq!(failed(&mut connects).len(), 2);
        assert!(good(&mut connects).is_some());
        assert_eq!(failed(&mut connects).len(), 1, "{name}");
    }
}

#[test]
fn a_waiter_that_left_is_not_called() {
    let (mut connects, seats) = with_waiting(3);
    connects.owe(seats[1]);
    connects.leave(seats[1]);
    assert_eq!(connects.freed(), Some(seats[0]));
    connects.wait_again(seats[0]);
    assert_eq!(
        connects.freed(),
        Some(seats[0]),
        "it was first and stays so"
    );
    connects.leave(seats[0]);
    assert_eq!(connects.freed(), Some(seats[2]));
    assert_eq!(connects.freed(), None);
}

/// What the simulation knows of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// Since this many events.
    Waiting(u64),
    /// It has a connection; whether that is a new one.
    Served(bool),
    Failed,
}

/// Requests come, are served, leave and fail in any order. The promises are checked after each event.
#[derive(Default)]
struct Simulation {
    connects: Connects,
    /// With their seats; requests that found an idle connection have none.
    requests: Vec<(Option<Seat>, Request)>,
    connecting: usize,
    idle: usize,
    made: usize,
    gone: usize,
}

impl Simulation {
    fn step(&mut self, now: u64, random: &mut fastrand::Rng) {
        match random.u8(..100) {
            0..30 if self.idle == 0 => {
                let seat = self.connects.wait();
                self.requests.push((Some(seat), Request::Waiting(now)));
            }
            0..30 => {
                self.idle -= 1;
                self.requests.push((None, Request::Served(false)));
            }
            30..60 if self.connecting > 0 => {
                self.connecting -= 1;
                self.made += 1;
                let seat = self.connects.connected();
                self.serve(seat, true);
            }
            60..68 if self.connecting > 0 => self.fail(),
            68..95 if !self.requests.is_empty() => {
                let index = random.usize(..self.requests.len());
                self.end(index, random.bool());
            }
            95.. if !self.requests.is_empty() => {
                if let (Some(seat), _) = self.requests[random.usize(..self.requests.len())] {
                    self.connects.owe(seat);
                }
            }
            _ => {}
        }
        while self.connects.begin() {
            self.connecting += 1;
        }
        self.check();
    }

    fn longest_waiting(&self) -> Option<usize> {
        let waiting = self.requests.iter().enumerate();
        let since = |(index, (_, request)): (usize, &(_, Request))| match request {
            Request::Waiting(since) => Some((*since, index)),
            Request::Served(_) | Request::Failed => None,
        };
        waiting.filter_map(since).min().map(|(_, index)| index)
    }

    fn serve(&mut self, seat: Option<Seat>, is_new: bool) {
        let first = self.longest_waiting();
        assert_eq!(seat, first.and_then(|first| self.requests[first].0));
        match first {
            Some(first) => self.requests[first].1 = Request::Served(is_new),
            None => self.idle += 1,
        }
    }

    fn fail(&mut self) {
        self.connecting -= 1;
        for _ in 0..self.connects.failed() {
            let first = self.longest_waiting();
            let seat = self.connects.fail();
            assert_eq!(seat, first.and_then(|first| self.requests[first].0));
            let Some(first) = first else { break };
            self.requests[first].1 = Request::Failed;
        }
    }

    /// A request ends, or leaves before its end.
    fn end(&mut self, index: usize, keeps_connection: bool) {
        let (seat, request) = self.requests.swap_remove(index);
        if let Some(seat) = seat {
            self.connects.leave(seat);
        }
        if let Request::Served(is_new) = request {
            if is_new {
                self.connects.proven();
            }
            if keeps_connection {
                let seat = self.connects.freed();
                self.serve(seat, false);
            } else {
                self.gone += 1;
            }
        }
    }

    fn check(&self) {
        let count = |what: fn(&Request) -> bool| {
            let requests = self.requests.iter();
            requests.filter(|(_, request)| what(request)).count()
        };
        let waiting = count(|request| matches!(request, Request::Waiting(_)));
        let served = count(|request| matches!(request, Request::Served(_)));
        let unproven = count(|request| *request == Request::Served(true));
        assert_eq!(self.made, served + self.idle + self.gone, "none is lost");
        assert!(self.connecting <= LIMITS.under_way);
        assert!(waiting == 0 || self.idle == 0, "what is idle was offered");
        let may_come = self.connecting + unproven;
        assert!(waiting == 0 || may_come > 0, "somebody waits for nothing");
        let seats = self.requests.iter().filter_map(|(seat, _)| *seat);
        let mut seen = HashSet::new();
        seats.for_each(|seat| assert!(seen.insert(seat.index()), "a seat is for one"));
    }
}

#[test]
fn nobody_is_forgotten_and_no_connection_is_lost() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut simulation = Simulation {
            connects: Connects::new(LIMITS),
            ..Simulation::default()
        };
        for now in 0..2_000 {
            simulation.step(now, &mut random);
        }
    }
}
