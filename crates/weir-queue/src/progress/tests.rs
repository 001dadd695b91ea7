use super::*;
use fastrand::Rng;
use std::collections::HashSet;

fn new() -> Progress {
    Progress::new(Bounds::default(), &Checkpoint::default())
}

fn take(progress: &mut Progress) -> Vec<u64> {
    std::iter::from_fn(|| progress.take(0, 0).map(|due| due.offset)).collect()
}

#[test]
fn a_key_is_delivered_one_after_the_other() {
    let mut progress = new();
    for (offset, key) in [
        (0, Some(1)),
        (1, Some(1)),
        (2, None),
        (3, Some(2)),
        (4, None),
        (5, Some(1)),
    ] {
        progress.offer(offset, key, 0);
    }
    assert_eq!(take(&mut progress), [0, 2, 3, 4]);
    progress.settle(3);
    for again in [0, 1, 3] {
        progress.offer(again, Some(again), 0);
    }
    assert!(take(&mut progress).is_empty(), "nothing is taken twice");
    progress.settle(0);
    assert_eq!(progress.low(), 1);
    assert_eq!(take(&mut progress), [1]);
    progress.settle(2);
    progress.settle(1);
    assert_eq!(progress.low(), 4, "3 was settled before");
    assert_eq!(take(&mut progress), [5]);
    progress.settle(5);
    progress.settle(4);
    assert_eq!((progress.low(), progress.held()), (6, 0));
}

#[test]
fn what_failed_comes_again_at_its_time_and_keeps_its_place() {
    let mut progress = new();
    progress.offer(0, Some(1), 0);
    progress.offer(1, Some(1), 0);
    assert_eq!(
        progress.take(0, 10),
        Some(Due {
            offset: 0,
            attempts: 0
        })
    );
    progress.again(0, 50, true);
    assert_eq!(progress.next_due_ms(), Some(50));
    assert_eq!(progress.take(0, 49), None, "the next of this key waits too");
    assert_eq!(
        progress.take(0, 50),
        Some(Due {
            offset: 0,
            attempts: 1
        })
    );
    progress.give_back(0, 60);
    assert_eq!(
        progress.take(0, 60),
        Some(Due {
            offset: 0,
            attempts: 1
        }),
        "that was no attempt"
    );
    progress.settle(0);
    assert_eq!(
        progress.take(0, 60),
        Some(Due {
            offset: 1,
            attempts: 0
        })
    );
}

#[test]
fn offsets_that_were_left_out_are_settled() {
    let mut progress = new();
    progress.offer(0, None, 0);
    progress.offer(7, None, 0);
    assert_eq!(take(&mut progress), [0, 7]);
    progress.settle(0);
    assert_eq!(progress.low(), 7);
    progress.settle(7);
    assert_eq!((progress.low(), progress.read()), (8, 8));
    let restarted = Checkpoint {
        low: 8,
        settled: vec![(10, 11)],
        tried: Vec::new(),
    };
    let mut progress = Progress::new(Bounds::default(), &restarted);
    progress.offer(10, None, 0);
    assert_eq!((progress.low(), progress.read()), (11, 11));
}

#[test]
fn a_restart_knows_what_was_done_and_tried() {
    let mut progress = new();
    for offset in 0..6 {
        progress.offer(offset, None, 0);
    }
    assert_eq!(take(&mut progress), [0, 1, 2, 3, 4, 5]);
    for offset in [0, 2, 4] {
        progress.settle(offset);
    }
    progress.again(3, 90, true);
    let checkpoint = progress.checkpoint();
    let expected = Checkpoint {
        low: 1,
        settled: vec![(2, 3), (4, 5)],
        tried: vec![(3, 1, 90)],
    };
    assert_eq!(checkpoint, expected);
    let mut progress = Progress::new(Bounds::default(), &checkpoint);
    assert_eq!(
        progress.checkpoint(),
        expected,
        "also before anything is offered"
    );
    for offset in progress.read()..6 {
        progress.offer(offset, None, 0);
    }
    assert_eq!(take(&mut progress), [1, 5]);
    assert_eq!(
        progress.take(0, 90),
        Some(Due {
            offset: 3,
            attempts: 1
        })
    );
}

#[test]
fn a_lane_that_stands_still_holds_up_no_other() {
    let bounds = Bounds {
        held_max: 1000,
        ..Bounds::default()
    };
    let mut progress = Progress::new(bounds, &Checkpoint::default());
    let mut delivered = 0;
    for offset in 0..500 {
        assert!(progress.wants_more(), "{offset}");
        progress.offer(offset, None, (offset % 5 == 0).into());
        while let Some(due) = progress.take(1, 0) {
            progress.settle(due.offset);
            delivered += 1;
        }
    }
    assert_eq!(delivered, 100);
    assert!(!progress.is_idle(0) && progress.is_idle(1));
}

#[test]
fn new_and_tried_messages_take_turns() {
    let mut progress = new();
    for offset in 0..6 {
        progress.offer(offset, None, 0);
    }
    for offset in [0, 1, 2] {
        assert_eq!(progress.take(0, 0).map(|due| due.offset), Some(offset));
        // The later it failed, the later it has its turn.
        progress.again(offset, 10 - offset, offset == 1);
    }
    let order: Vec<_> = std::iter::from_fn(|| progress.take(0, 20).map(|due| due.offset)).collect();
    assert_eq!(order, [2, 3, 1, 4, 0, 5]);
}

#[test]
fn a_replay_leaves_what_is_before_it() {
    let mut progress = new();
    for offset in 0..10 {
        progress.offer(offset, None, 0);
    }
    take(&mut progress);
    for offset in [0, 1, 3, 4, 5, 6, 8] {
        progress.settle(offset);
    }
    let replayed = |from| {
        let mut progress = Progress::new(Bounds::default(), &progress.replayed(from));
        for offset in progress.read()..10 {
            progress.offer(offset, None, 0);
        }
        take(&mut progress)
    };
    assert_eq!(replayed(5), [2, 5, 6, 7, 8, 9]);
    assert_eq!(replayed(1), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(replayed(100), [2, 7, 9]);
}

/// One key fails for ever, and is most of what there is: all others are delivered.
#[test]
fn a_key_that_fails_holds_nobody_up() {
    let mut progress = new();
    let mut delivered = 0;
    for offset in 0..100_000u64 {
        progress.offer(offset, (offset % 10 > 0).then_some(7), 0);
        while let Some(due) = progress.take(0, 0) {
            if due.offset % 10 == 0 {
                progress.settle(due.offset);
                delivered += 1;
            } else {
                progress.again(due.offset, u64::MAX, true);
            }
        }
        assert!(progress.wants_more());
    }
    assert_eq!(
        (delivered, progress.held(), progress.low()),
        (10_000, 90_000, 1)
    );
}

#[test]
fn what_is_held_is_bounded() {
    let bounds = Bounds {
        held_max: 50,
        ranges_max: 9,
        ready_max: 20,
    };
    let offer_all = |key: fn(u64) -> Option<u64>, settles: fn(u64) -> bool| {
        let mut progress = Progress::new(bounds, &Checkpoint::default());
        let mut offset = 0;
        while progress.wants_more() {
            progress.offer(offset, key(offset), 0);
            offset += 1;
            if settles(offset)
                && let Some(due) = progress.take(0, 0)
            {
                progress.settle(due.offset);
            }
            assert!(offset < 1000, "it has no bound");
        }
        offset
    };
    assert_eq!(offer_all(|_| None, |_| false), 20, "enough to do");
    assert_eq!(offer_all(|_| Some(1), |_| false), 50, "enough in memory");
    // The first is taken and never settled; of the others, every second one is.
    let mut progress = Progress::new(bounds, &Checkpoint::default());
    let mut offset = 0;
    while progress.wants_more() {
        progress.offer(offset, None, 0);
        let due = progress.take(0, 0).expect("it is ready");
        if offset % 2 == 1 {
            progress.settle(due.offset);
        }
        offset += 1;
    }
    assert_eq!(offset, 18, "enough stretches");
}

/// Messages go to one of so many places.
const LANES: usize = 3;

fn lane_of(offset: u64) -> usize {
    (offset * 7 % 5) as usize % LANES
}

/// A queue whose messages are delivered at random, and what became of them.
struct Played {
    seed: u64,
    rng: Rng,
    /// The key of each offset.
    keys: Vec<Option<u64>>,
    /// Offsets that a message has.
    there: BTreeSet<u64>,
    settled: HashSet<u64>,
    under_way: Vec<u64>,
    now_ms: u64,
}

impl Played {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let length = rng.usize(1..60);
        let keys = (0..length).map(|_| rng.bool().then(|| rng.u64(..4)));
        let keys = keys.collect();
        let there = (0..length as u64).filter(|_| rng.u8(..6) > 0);
        let there = there.collect();
        Self {
            seed,
            keys,
            there,
            rng,
            settled: HashSet::new(),
            under_way: Vec::new(),
            now_ms: 0,
        }
    }

    fn key(&self, offset: u64) -> Option<u64> {
        self.keys[offset as usize]
    }

    fn step(&mut self, progress: &mut Progress, bounds: Bounds) {
        self.now_ms += self.rng.u64(..5);
        match self.rng.u8(..20) {
            0 => {
                *progress = Progress::new(bounds, &progress.checkpoint());
                self.under_way.clear();
            }
            1..=7 if progress.wants_more() => {
                let next = self.there.range(progress.read()..).next();
                if let Some(&offset) = next {
                    progress.offer(offset, self.key(offset), lane_of(offset));
                }
            }
            8..=12 => {
                let lane = self.rng.usize(..LANES);
                if let Some(due) = progress.take(lane, self.now_ms) {
                    assert_eq!(lane_of(due.offset), lane, "seed {}", self.seed);
                    self.begin(due.offset);
                }
            }
            _ if !self.under_way.is_empty() => self.end(progress),
            _ => {}
        }
        let mut read = self.there.range(..progress.read());
        let unsettled = read.find(|offset| !self.settled.contains(offset));
        let low_max = unsettled.copied().unwrap_or(progress.read());
        assert!(progress.low() <= low_max, "seed {}", self.seed);
    }

    /// Nothing of this key is before it.
    fn begin(&mut self, offset: u64) {
        let seed = self.seed;
        assert!(self.there.contains(&offset), "seed {seed}");
        assert!(!self.settled.contains(&offset), "seed {seed}");
        assert!(!self.under_way.contains(&offset), "seed {seed}");
        let key = self.key(offset);
        for &earlier in self.there.range(..offset) {
            let is_same = key.is_some() && self.key(earlier) == key;
            let is_overtaken = is_same && !self.settled.contains(&earlier);
            assert!(!is_overtaken, "seed {seed}: {offset} overtakes {earlier}");
        }
        self.under_way.push(offset);
    }

    fn end(&mut self, progress: &mut Progress) {
        let at = self.rng.usize(..self.under_way.len());
        let offset = self.under_way.swap_remove(at);
        let due_ms = self.now_ms + self.rng.u64(..20);
        match self.rng.u8(..4) {
            0 => {
                let counts = self.rng.bool();
                progress.again(offset, due_ms, counts);
            }
            1 => progress.give_back(offset, due_ms),
            _ => {
                progress.settle(offset);
                self.settled.insert(offset);
            }
        }
    }
}

/// Random deliveries over random keys, with restarts: each message is settled, those of a key one after the other and in order.
#[test]
fn nothing_is_lost_and_nothing_overtakes_its_key() {
    for seed in 0..2000 {
        let mut played = Played::new(seed);
        let bounds = Bounds {
            held_max: played.rng.usize(1..20),
            ranges_max: played.rng.usize(1..20),
            ready_max: played.rng.usize(1..6),
        };
        let mut progress = Progress::new(bounds, &Checkpoint::default());
        let mut steps = 0;
        while played.settled.len() < played.there.len() {
            steps += 1;
            assert!(steps < 20_000, "seed {seed} does not end: {progress:?}");
            played.step(&mut progress, bounds);
        }
        assert!(
            (0..LANES).all(|lane| progress.take(lane, u64::MAX).is_none()),
            "seed {seed}"
        );
        // Looking at what was settled before a restart is all that is left.
        for &offset in played.there.range(progress.read()..) {
            progress.offer(offset, played.key(offset), lane_of(offset));
        }
        assert_eq!(progress.low(), progress.read(), "seed {seed}");
        assert_eq!(progress.take(0, u64::MAX), None, "seed {seed}");
        let is_empty = progress.held.is_empty() && progress.behind.is_empty();
        assert!(
            is_empty && progress.tried.is_empty(),
            "seed {seed}: {progress:?}"
        );
    }
}
