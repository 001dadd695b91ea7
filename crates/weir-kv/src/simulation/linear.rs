//! Whether what clients saw of a register is linearizable: whether each operation may have happened at one moment between its
//! beginning and its end, all of them in one order, and each read finds what was written last before it (Herlihy and Wing, 1990).
//!
//! The search is that of Wing and Gong (1993), with Lowe's memory of what was tried (2017). A store is linearizable when each of its
//! keys is, so keys are looked at apart. Pure; the tests of real nodes use this file as well.

use std::collections::{BTreeSet, HashSet};

/// What a write wrote: each another one. 0 is what there is before all of them.
pub(crate) type Value = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// It found this.
    Read(Value),
    Write(Value),
    /// A write that is made where this is found, and nowhere else.
    Swap {
        from: Value,
        to: Value,
    },
}

/// An operation as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) began: u64,
    /// Nothing, if its client does not know whether it was done: it may have happened at any time since, or never.
    pub(crate) ended: Option<u64>,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Linearizable,
    /// This is the first one that cannot have happened in the order that goes furthest.
    Not(Operation),
    /// It would take too long to say.
    Unknown,
}

/// Orders that are tried.
const TRIES_MAX: usize = 2_000_000;

/// Looks at the operations of one key.
pub(crate) fn judge(operations: &[Operation]) -> Verdict {
    let operations = seen_to_happen(operations);
    let mut search = Search {
        done: vec![false; operations.len()],
        operations,
        tried: HashSet::new(),
        value: 0,
    };
    let (mut path, mut furthest) = (Vec::new(), (0, None));
    // What may come next, for each step of the path.
    let mut open = vec![search.next()];
    loop {
        if path.len() == search.operations.len() {
            return Verdict::Linearizable;
        }
        if search.tried.len() > TRIES_MAX {
            return Verdict::Unknown;
        }
        if path.len() >= furthest.0 {
            furthest = (path.len(), search.first_to_end());
        }
        if let Some(next) = open.last_mut().and_then(Vec::pop) {
            let before = search.value;
            search.enter(next);
            if search.is_new() {
                path.push((next, before));
                open.push(search.next());
            } else {
                search.leave(next, before);
            }
        } else if let Some((last, before)) = path.pop() {
            open.pop();
            search.leave(last, before);
        } else {
            let stuck = furthest
                .1
                .expect("a history without operations is linearizable");
            return Verdict::Not(stuck);
        }
    }
}

/// All that ended, and what did not and must have happened all the same, since somebody found it. What nobody found may be left out:
/// if there is an order with it, there is one without.
fn seen_to_happen(operations: &[Operation]) -> Vec<Operation> {
    let mut kept: Vec<Operation> = Vec::new();
    let mut found = BTreeSet::new();
    let mut rest: Vec<Operation> = operations.to_vec();
    loop {
        let (happened, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|operation| {
            operation.ended.is_some()
                || match operation.what {
                    What::Read(_) => false,
                    What::Write(to) | What::Swap { to, .. } => found.contains(&to),
                }
        });
        if happened.is_empty() {
            return kept;
        }
        for operation in &happened {
            if let What::Read(value) | What::Swap { from: value, .. } = operation.what {
                found.insert(value);
            }
        }
        kept.extend(happened);
        rest = others;
    }
}

struct Search {
    operations: Vec<Operation>,
    /// Which of them have happened.
    done: Vec<bool>,
    /// What there is then.
    value: Value,
    /// Sets of operations that have happened, with what there was then.
    tried: HashSet<(Vec<bool>, Value)>,
}

impl Search {
    fn ends(&self, index: usize) -> u64 {
        self.operations[index].ended.unwrap_or(u64::MAX)
    }

    fn waiting(&self) -> impl Iterator<Item = usize> {
        let all = self.done.iter().enumerate();
        all.filter(|(_, done)| !**done).map(|(index, _)| index)
    }

    fn first_to_end(&self) -> Option<Operation> {
        let first = self.waiting().min_by_key(|index| self.ends(*index));
        first.map(|index| self.operations[index])
    }

    /// What may happen next: all that began before another one that waits has ended, and that finds what it must.
    fn next(&self) -> Vec<usize> {
        let first_end = self.waiting().map(|index| self.ends(index)).min();
        let may_be = |index: &usize| {
            let operation = self.operations[*index];
            Some(operation.began) <= first_end
                && match operation.what {
                    What::Read(value) | What::Swap { from: value, .. } => value == self.value,
                    What::Write(_) => true,
                }
        };
        let mut next: Vec<usize> = self.waiting().filter(may_be).collect();
        // A read that may be next changes nothing, so nothing else need be tried before it.
        let is_read = |index: &&usize| matches!(self.operations[**index].what, What::Read(_));
        if let Some(&read) = next.iter().find(is_read) {
            return vec![read];
        }
        next.sort_by_key(|index| std::cmp::Reverse(self.ends(*index)));
        next
    }

    fn enter(&mut self, index: usize) {
        self.done[index] = true;
        if let What::Write(to) | What::Swap { to, .. } = self.operations[index].what {
            self.value = to;
        }
    }

    fn leave(&mut self, index: usize, before: Value) {
        self.done[index] = false;
        self.value = before;
    }

    fn is_new(&mut self) -> bool {
        self.tried.insert((self.done.clone(), self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::What::{Read, Swap, Write};
    use super::*;

    fn judged(operations: &[(u64, u64, What)]) -> bool {
        let operation = |&(began, ended, what): &(u64, u64, What)| Operation {
            began,
            // 0 is one that never ended.
            ended: Some(ended).filter(|ended| *ended > 0),
            what,
        };
        let operations: Vec<Operation> = operations.iter().map(operation).collect();
        match judge(&operations) {
            Verdict::Linearizable => true,
            Verdict::Not(_) => false,
            Verdict::Unknown => panic!("these are short"),
        }
    }

    #[test]
    fn what_may_have_happened_is_told_from_what_may_not() {
        let swap = |from, to| Swap { from, to };
        for (operations, is_linearizable) in [
            (&[][..], true),
            (&[(1, 2, Read(0))], true),
            (&[(1, 2, Read(7))], false),
            (&[(1, 2, Write(1)), (3, 4, Read(1))], true),
            (&[(1, 2, Write(1)), (3, 4, Read(0))], false),
            // At the same time: either.
            (&[(1, 4, Write(1)), (2, 3, Read(0)), (2, 3, Read(1))], true),
            (&[(1, 9, Write(1)), (2, 3, Read(1)), (4, 5, Read(0))], false),
            // Seen, not seen, seen again.
            (
                &[
                    (1, 9, Write(1)),
                    (1, 9, Write(2)),
                    (2, 3, Read(1)),
                    (4, 5, Read(2)),
                    (6, 7, Read(1)),
                ],
                false,
            ),
            // Nobody knows whether it was written: it may come late, or never.
            (&[(1, 0, Write(1)), (5, 6, Read(0))], true),
            (&[(1, 0, Write(1)), (5, 6, Read(0)), (7, 8, Read(1))], true),
            (&[(1, 0, Write(1)), (5, 6, Read(1)), (7, 8, Read(0))], false),
            // One of two that go over the same value.
            (&[(1, 2, swap(0, 1)), (1, 2, swap(0, 2))], false),
            (&[(1, 2, swap(0, 1)), (1, 0, swap(0, 2))], true),
            (
                &[(1, 2, swap(0, 1)), (1, 0, swap(0, 2)), (3, 4, Read(2))],
                false,
            ),
            (
                &[(1, 9, swap(1, 2)), (1, 9, swap(0, 1)), (10, 11, Read(2))],
                true,
            ),
            // What is known to have happened needs what it was over.
            (
                &[(1, 0, Write(1)), (1, 0, swap(1, 2)), (3, 4, Read(2))],
                true,
            ),
            (&[(1, 0, swap(1, 2)), (3, 4, Read(2))], false),
        ] {
            assert_eq!(judged(operations), is_linearizable, "{operations:?}");
        }
    }
}
