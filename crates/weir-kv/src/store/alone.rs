//! What a store of one node does for a key: the engine is all there is.

use std::sync::Arc;

use bytes::Bytes;

use super::Done;
use crate::cell::Cell;
use crate::cluster::Shared;
use crate::condition::Condition;
use crate::coordinator::Answer;
use crate::engine::EngineError;
use crate::frame::{Ask, What};
use crate::tally;
use crate::version::Version;
use crate::wall::unix_ms;

/// How often a write is made again that another one has come before.
const TRIES: u32 = 8;

/// Carries out what is asked.
pub(super) fn carry_out(shared: &Arc<Shared>, ask: Ask, done: Done) {
    let (value, expires_ms) = match ask.what {
        What::Get => {
            let then = move |read: Result<_, EngineError>| done(read.map(Answer::Found));
            return shared.engine.read(ask.key, Box::new(then));
        }
        What::Put { value, expires_ms } => (Some(value), expires_ms),
        What::Delete => (None, None),
    };
    let write = Write {
        shared: Arc::clone(shared),
        key: ask.key,
        value,
        expires_ms,
        condition: ask.condition,
        tries: TRIES,
    };
    if write.condition.is_none() {
        write.put(None, done);
    } else {
        write.read(done);
    }
}

struct Write {
    shared: Arc<Shared>,
    key: Bytes,
    value: Option<Bytes>,
    expires_ms: Option<u64>,
    condition: Condition,
    /// Tries that are left.
    tries: u32,
}

impl Write {
    /// Looks whether the condition holds, and writes over what it holds of.
    fn read(self, done: Done) {
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        let then = move |read: Result<Option<Cell>, EngineError>| {
            let cell = match read {
                Ok(cell) => cell,
                Err(error) => return done(Err(error)),
            };
            if !self.condition.holds(cell.as_ref(), unix_ms()) {
                return done(Ok(Answer::Unmet(cell)));
            }
            let over = cell.map(|cell| cell.version).unwrap_or_default();
            self.put(Some(over), done);
            None
        };
        shared.engine.read(key, Box::new(then));
    }

    fn put(self, over: Option<Version>, done: Done) {
        let is_behind = over.is_none_or(|over| self.shared.see(over));
        let version = self.shared.tick();
        if !is_behind {
            drop_with(done, AHEAD);
            return;
        }
        let cell = Cell {
            version,
            expires_ms: self.expires_ms,
            value: self.value.clone(),
        };
        let (shared, key) = (Arc::clone(&self.shared), self.key.clone());
        let then = move |written| match written {
            Ok(Some(newer)) => self.again(newer, over.is_some(), done),
            Ok(None) => done(Ok(Answer::Written(version))),
            Err(error) => done(Err(error)),
        };
        shared.engine.write(key, cell, over, Box::new(then));
    }

    /// There is a newer one. This write has come later, so it takes a newer version; or looks at what has come in between.
    fn again(mut self, newer: Version, is_over: bool, done: Done) -> super::Told {
        self.tries -= 1;
        if self.tries == 0 {
            return done(Ok(Answer::Conflict));
        }
        if is_over {
            self.read(done);
        } else if self.shared.see(newer) {
            tally::more(&self.shared.tally.advanced);
            self.put(None, done);
        } else {
            return done(Err(EngineError::Failed(AHEAD.to_owned())));
        }
        None
    }
}

const AHEAD: &str = "there is a write whose version is too far ahead of the clock here";

fn drop_with(done: Done, why: &str) {
    if let Some((replier, answer)) = done(Err(EngineError::Failed(why.to_owned()))) {
        replier.answer(answer);
    }
}
