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
pub(super) const TRIES: u32 = 8;

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::Store;
    use crate::coordinator::Quorum;
    use crate::engine::lsm::{Lsm, LsmSettings};
    use crate::engine::{Durability, Engine};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn write(engine: &dyn Engine, key: &'static str, ahead_ms: u64) -> Version {
        let version = Version {
            time: (unix_ms() + ahead_ms) << 16,
            node: 9,
            run: 9,
        };
        let cell = Cell {
            version,
            expires_ms: None,
            value: Some(Bytes::from_static(b"ahead")),
        };
        let (sender, written) = mpsc::channel();
        let then = move |newer| {
            let _ = sender.send(newer);
            None
        };
        engine.write(Bytes::from(key), cell, None, Box::new(then));
        assert_eq!(written.recv_timeout(PATIENCE), Ok(Ok(None)));
        version
    }

    fn put(shared: &Arc<Shared>, key: &'static str) -> Result<Answer, EngineError> {
        let ask = Ask {
            key: Bytes::from(key),
            what: What::Put {
                value: Bytes::from_static(b"later"),
                expires_ms: None,
            },
            quorum: Quorum { ack: 1, from: 1 },
            condition: Condition::default(),
            until_ms: None,
        };
        let (sender, done) = mpsc::channel();
        let then = move |outcome| {
            let _ = sender.send(outcome);
            None
        };
        carry_out(shared, ask, Box::new(then));
        done.recv_timeout(PATIENCE).expect("it is done")
    }

    /// What is there may be of a node whose clock was ahead of this one's.
    #[test]
    fn a_write_whose_clock_is_behind_is_made_behind_what_there_is_and_is_counted() {
        let random = fastrand::Rng::new().u64(..);
        let path = std::env::temp_dir().join(format!("weir-kv-alone-{random:x}"));
        let settings = LsmSettings {
            path: path.clone(),
            durability: Durability::Memory,
            memory_bytes: 1 << 20,
        };
        let engine = Lsm::open(&settings).expect("it opens");
        let store = Store::alone(engine.clone(), None).expect("it is nobody else's");
        let advanced = || store.status().operations.advanced;
        assert!(matches!(put(&store.shared, "new"), Ok(Answer::Written(_))));
        assert_eq!(advanced(), 0);
        let ahead = write(&*engine, "key", 30_000);
        match put(&store.shared, "key") {
            Ok(Answer::Written(version)) => assert!(version > ahead, "{version} {ahead}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(advanced(), 1);
        // The clock has gone on, and is not behind any more.
        assert!(matches!(put(&store.shared, "key"), Ok(Answer::Written(_))));
        assert_eq!(advanced(), 1);
        // Too far ahead to be right: it is not followed.
        write(&*engine, "key", 120_000);
        assert!(matches!(
            put(&store.shared, "key"),
            Err(EngineError::Failed(_))
        ));
        assert_eq!(advanced(), 1);
        drop((store, engine));
        let _ = std::fs::remove_dir_all(path);
    }
}
