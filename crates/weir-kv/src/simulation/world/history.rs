//! What clients saw of a run, key by key, as what is linearizable or not.

use super::super::linear::{self, Operation, Verdict, What};
use super::{KEYS, World};

impl World {
    pub(super) fn check_histories(&mut self) {
        for key in 0..KEYS {
            let [promised, strict] =
                [false, true].map(|is_strict| self.is_linearizable(key, is_strict));
            let counts = [1, u64::from(!promised), u64::from(!strict)];
            for (count, more) in self.told.histories.iter_mut().zip(counts) {
                *count += more;
            }
        }
    }

    /// Strictly, a condition also has to hold for a write that its client does not know to be done.
    fn is_linearizable(&self, key: u8, is_strict: bool) -> bool {
        let seen = self.seen.iter().filter(|(_, seen)| seen.key == key);
        let operations = seen.filter_map(|(&id, seen)| {
            let is_known = seen.answered.is_some();
            let what = match (seen.is_write, seen.over) {
                (true, Some((_, from))) if is_known || is_strict => What::Swap { from, to: id },
                (true, _) => What::Write(id),
                (false, _) => What::Read(seen.found?),
            };
            Some(Operation {
                began: seen.began_ms,
                ended: seen.answered.map(|(at_ms, _)| at_ms),
                what,
            })
        });
        let operations: Vec<Operation> = operations.collect();
        match linear::judge(&operations) {
            Verdict::Linearizable => true,
            Verdict::Not(_) => false,
            Verdict::Unknown => panic!("the history of key {key} is too long to judge"),
        }
    }
}
