//! What happens in a simulation, written down for the oracle.

use std::cell::RefCell;
use std::rc::Rc;

use crate::simulation::plan::Plan;
use crate::simulation::tasks::Tasks;

/// Names in lower case, with values.
pub(super) type FieldList = Vec<(String, String)>;

/// The values of the lines called `name`.
pub(super) fn values<'f>(fields: &'f FieldList, name: &str) -> Vec<&'f str> {
    let lines = fields.iter().filter(|(own, _)| own == name);
    lines.map(|(_, value)| value.as_str()).collect()
}

/// What the origin was asked, and what it said.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The client's request that this was forwarded for; of a refresh, the one that caused it.
    pub(super) asked_by: usize,
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// As the origin was sent them.
    pub(super) fields: FieldList,
    pub(super) body: String,
    /// When it was asked, in milliseconds.
    pub(super) asked_at: u64,
    /// When the head of its answer was sent; `None` until then.
    pub(super) answered_at: Option<u64>,
    pub(super) status: u16,
    pub(super) response: FieldList,
    pub(super) body_bytes: u64,
    /// Whether all of the body was sent.
    pub(super) is_whole: bool,
}

/// What a client asked for, and got.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// As the client sent them.
    pub(super) fields: FieldList,
    pub(super) body: String,
    pub(super) address: String,
    pub(super) sent_at: u64,
    pub(super) got: Option<Got>,
    /// The client has closed before it had an answer.
    pub(super) has_left: bool,
    pub(super) is_over: bool,
}

/// What came back.
#[derive(Default)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) fields: FieldList,
    pub(super) body: Vec<u8>,
    pub(super) head_at: u64,
    pub(super) ended_at: u64,
    /// Whether its end was told by its framing.
    pub(super) is_whole: bool,
}

impl std::fmt::Debug for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            status,
            fields,
            body,
            head_at,
            ended_at,
            is_whole,
        } = self;
        let end = if *is_whole { "whole" } else { "broken off" };
        write!(
            f,
            "{status} {fields:?}, {} bytes, {end}, {head_at} to {ended_at} ms",
            body.len()
        )
    }
}

/// Something that ended what was stored of a target.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) target: String,
    /// The answer to the request that did it; `None` for a purge.
    pub(super) answer: Option<usize>,
    /// What the origin was asked before this must not be used...
    pub(super) begun_at: u64,
    /// ...for requests after this.
    pub(super) done_at: u64,
}

/// One simulation.
#[derive(Clone)]
pub(super) struct World {
    pub(super) plan: Rc<Plan>,
    pub(super) tasks: Tasks,
    pub(super) answers: Rc<RefCell<Vec<Answer>>>,
    pub(super) requests: Rc<RefCell<Vec<Request>>>,
    pub(super) changes: Rc<RefCell<Vec<Change>>>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan: Rc::new(plan),
            tasks: Tasks::new(),
            answers: Rc::default(),
            requests: Rc::default(),
            changes: Rc::default(),
        }
    }

    /// The requests that nobody has answered.
    pub(super) fn waiting(&self) -> String {
        let requests = self.requests.borrow();
        let waiting = requests.iter().enumerate().filter(|(_, r)| !r.is_over);
        let waiting = waiting.map(|(number, r)| format!("{number}: {} {}", r.method, r.target));
        waiting.collect::<Vec<_>>().join(", ")
    }
}

/// The body that the origin makes for one answer; no two answers have the same.
pub(super) fn body_of(answer: usize, bytes: u64) -> Vec<u8> {
    let byte = |at: u64| (answer as u64 * 131 + at * 7 + at / 251) as u8;
    (0..bytes).map(byte).collect()
}
