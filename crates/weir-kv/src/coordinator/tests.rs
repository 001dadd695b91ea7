use bytes::Bytes;

use super::*;

const NODES: [u16; 3] = [1, 2, 3];

fn version(time: u64) -> Version {
    Version {
        time,
        node: 1,
        run: 1,
    }
}

fn cell(time: u64) -> Cell {
    Cell {
        version: version(time),
        expires_ms: None,
        value: Some(Bytes::from(time.to_string())),
    }
}

/// An operation on three nodes, and what it has asked for since it was looked at last.
struct Under {
    coordinator: Coordinator,
    steps: Vec<Step>,
}

impl Under {
    fn begin(operation: Operation, ack: usize, down: &[u16]) -> Self {
        let mut steps = Vec::new();
        let is_up = |node| !down.contains(&node);
        let coordinator = Coordinator::begin(
            operation,
            Replicas::new(NODES.to_vec(), ack),
            is_up,
            &mut steps,
        );
        Self { coordinator, steps }
    }

    fn read(&mut self, node: u16, cell: Option<Cell>) -> Vec<Step> {
        self.coordinator.read(node, cell, &mut self.steps);
        self.steps()
    }

    /// It took the cell with this version.
    fn written(&mut self, node: u16, time: u64) -> Vec<Step> {
        let steps = &mut self.steps;
        self.coordinator.written(node, version(time), None, steps);
        self.steps()
    }

    /// It has a newer cell than that.
    fn has_newer(&mut self, node: u16, time: u64, newer: u64) -> Vec<Step> {
        let (sent, newer) = (version(time), Some(version(newer)));
        self.coordinator.written(node, sent, newer, &mut self.steps);
        self.steps()
    }

    fn failed(&mut self, node: u16) -> Vec<Step> {
        self.coordinator.failed(node, &mut self.steps);
        self.steps()
    }

    fn steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    fn is_over(&self) -> bool {
        self.coordinator.is_over()
    }
}

fn answer(answer: Answer) -> Vec<Step> {
    vec![Step::Answer(answer)]
}

fn found(time: u64) -> Answer {
    Answer::Found(Some(cell(time)))
}

#[test]
fn a_write_is_answered_by_ack_replicas_and_waits_for_the_rest() {
    let mut put = Under::begin(Operation::Put(cell(5)), 2, &[]);
    let sent = NODES.map(|node| Step::Write(node, cell(5)));
    assert_eq!(put.steps(), sent);
    assert_eq!(put.written(2, 5), []);
    assert_eq!(put.written(2, 5), [], "the same one again");
    assert_eq!(put.written(3, 5), answer(Answer::Written(version(5))));
    assert!(!put.is_over());
    assert_eq!(put.failed(1), [Step::Hint(1, cell(5))]);
    assert!(put.is_over());
}

#[test]
fn a_write_that_cannot_succeed_touches_nobody() {
    let mut put = Under::begin(Operation::Put(cell(5)), 2, &[1, 3]);
    assert_eq!(put.steps(), answer(Answer::TooFew));
    assert!(put.is_over());
}

#[test]
fn whoever_is_down_gets_a_hint() {
    let mut put = Under::begin(Operation::Put(cell(5)), 2, &[3]);
    let steps = [
        Step::Write(1, cell(5)),
        Step::Write(2, cell(5)),
        Step::Hint(3, cell(5)),
    ];
    assert_eq!(put.steps(), steps);
    put.written(1, 5);
    // The second one fails as well: that is too few, and what it missed is kept.
    let steps = [Step::Hint(2, cell(5)), Step::Answer(Answer::TooFew)];
    assert_eq!(put.failed(2), steps);
    assert!(put.is_over());
}

#[test]
fn a_read_of_equal_replicas_is_answered_at_once() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    assert_eq!(get.steps(), NODES.map(Step::Read));
    assert_eq!(get.read(1, Some(cell(5))), []);
    assert_eq!(get.read(3, Some(cell(5))), answer(found(5)));
    // The last one is behind.
    assert_eq!(get.read(2, Some(cell(4))), [Step::Write(2, cell(5))]);
    assert!(!get.is_over());
    get.written(2, 5);
    assert!(get.is_over());
}

#[test]
fn what_no_replica_has_is_nowhere() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    get.steps();
    assert_eq!(get.read(1, None), []);
    assert_eq!(get.read(2, None), answer(Answer::Found(None)));
    assert_eq!(get.read(3, None), []);
    assert!(get.is_over());
}

#[test]
fn a_read_that_saw_replicas_differ_answers_when_enough_have_the_newest() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    get.steps();
    get.read(1, Some(cell(4)));
    assert_eq!(get.read(2, Some(cell(6))), [Step::Write(1, cell(6))]);
    assert_eq!(get.written(1, 6), answer(found(6)));
}

#[test]
fn a_third_replica_may_take_the_place_of_the_one_behind() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    get.steps();
    get.read(1, None);
    assert_eq!(get.read(2, Some(cell(6))), [Step::Write(1, cell(6))]);
    assert_eq!(get.read(3, Some(cell(6))), answer(found(6)));
    // A repair that fails is not lost either.
    assert_eq!(get.failed(1), [Step::Hint(1, cell(6))]);
    assert!(get.is_over());
}

#[test]
fn what_comes_after_the_answer_and_is_newer_is_spread() {
    let mut get = Under::begin(Operation::Get, 1, &[]);
    get.steps();
    assert_eq!(get.read(1, Some(cell(4))), answer(found(4)));
    assert_eq!(get.read(2, Some(cell(9))), [Step::Write(1, cell(9))]);
    assert_eq!(get.read(3, None), [Step::Write(3, cell(9))]);
    get.written(1, 9);
    get.written(3, 9);
    assert!(get.is_over());
}

#[test]
fn a_newer_cell_during_a_repair_takes_the_place_of_the_answer() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    get.steps();
    get.read(1, Some(cell(4)));
    get.read(2, Some(cell(6)));
    assert_eq!(get.read(3, Some(cell(8))), [Step::Write(2, cell(8))]);
    assert_eq!(get.written(1, 6), [Step::Write(1, cell(8))]);
    assert_eq!(get.written(2, 8), answer(found(8)));
    get.written(1, 8);
    assert!(get.is_over());
}

/// A write over 2 was answered while 3, which nobody answered, was on one replica: whoever had read 2 and 3 would answer 3.
#[test]
fn what_is_newer_than_what_a_read_repairs_is_read_and_answered() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    let _ = get.steps();
    assert_eq!(get.read(1, Some(cell(2))), []);
    assert_eq!(get.read(2, Some(cell(3))), [Step::Write(1, cell(3))]);
    assert_eq!(get.has_newer(1, 3, 4), [Step::Read(1)]);
    assert_eq!(get.read(1, Some(cell(4))), [Step::Write(2, cell(4))]);
    // The third one has taken it already.
    assert_eq!(get.read(3, Some(cell(4))), answer(found(4)));
    assert_eq!(get.written(2, 4), []);
    assert!(get.is_over());
}

#[test]
fn two_replicas_with_what_a_read_repairs_are_enough_whatever_a_third_one_has() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    let _ = get.steps();
    let _ = get.read(1, Some(cell(2)));
    assert_eq!(get.read(2, Some(cell(3))), [Step::Write(1, cell(3))]);
    assert_eq!(get.read(3, Some(cell(2))), [Step::Write(3, cell(3))]);
    assert_eq!(get.has_newer(1, 3, 4), [Step::Read(1)]);
    assert_eq!(get.written(3, 3), answer(found(3)));
    let given = [Step::Write(2, cell(4)), Step::Write(3, cell(4))];
    assert_eq!(get.read(1, Some(cell(4))), given);
}

#[test]
fn too_few_cells_are_no_answer() {
    let mut get = Under::begin(Operation::Get, 2, &[]);
    get.steps();
    get.read(1, Some(cell(5)));
    assert_eq!(get.failed(2), []);
    assert_eq!(get.failed(3), answer(Answer::TooFew));
    assert!(get.is_over());
}

#[test]
fn a_write_that_reads_first_is_newer_than_all_it_finds() {
    let mut put = Under::begin(Operation::PutBehind(cell(5)), 2, &[]);
    assert_eq!(put.steps(), NODES.map(Step::Read));
    put.read(1, Some(cell(9)));
    assert_eq!(put.read(2, None), [Step::Behind(version(9))]);
    put.coordinator.behind(version(10), &mut put.steps);
    let newest = Cell {
        version: version(10),
        ..cell(5)
    };
    let sent = NODES.map(|node| Step::Write(node, newest.clone()));
    assert_eq!(put.steps(), sent);
    // A cell that comes late is of no interest any more.
    assert_eq!(put.read(3, Some(cell(3))), []);
    put.written(1, 10);
    assert_eq!(put.written(3, 10), answer(Answer::Written(version(10))));
}

#[test]
fn a_write_that_finds_too_few_to_read_reaches_nobody() {
    let mut put = Under::begin(Operation::PutBehind(cell(5)), 2, &[]);
    put.steps();
    put.read(1, Some(cell(3)));
    put.coordinator.give_up(&mut put.steps);
    assert_eq!(put.steps(), answer(Answer::TooFew));
    assert!(put.is_over());
}

#[test]
fn at_the_deadline_everybody_else_has_failed() {
    let mut put = Under::begin(Operation::Put(cell(5)), 2, &[]);
    put.steps();
    put.written(1, 5);
    put.coordinator.give_up(&mut put.steps);
    let steps = put.steps();
    assert!(steps.contains(&Step::Answer(Answer::TooFew)), "{steps:?}");
    for node in [2, 3] {
        assert!(steps.contains(&Step::Hint(node, cell(5))), "{steps:?}");
    }
    assert!(put.is_over());
    put.coordinator.give_up(&mut put.steps);
    assert_eq!(put.steps(), []);
}

#[test]
fn a_write_with_a_clock_that_is_behind_takes_a_newer_version_once() {
    let mut put = Under::begin(Operation::Put(cell(5)), 2, &[]);
    put.steps();
    // One is not enough: the other one may know of a newer one yet.
    assert_eq!(put.has_newer(1, 5, 7), []);
    assert_eq!(put.has_newer(2, 5, 8), [Step::Behind(version(8))]);
    // What comes meanwhile is noted.
    assert_eq!(put.written(3, 5), []);
    put.coordinator.behind(version(9), &mut put.steps);
    let newest = Cell {
        version: version(9),
        ..cell(5)
    };
    assert_eq!(
        put.steps(),
        NODES.map(|node| Step::Write(node, newest.clone()))
    );
    assert_eq!(put.written(1, 5), [], "an answer to what was sent before");
    assert_eq!(put.written(1, 9), []);
    // Another write has come in between: it began when this one had not ended, so it may be the later one.
    assert_eq!(put.has_newer(2, 9, 12), answer(Answer::Written(version(9))));
}
