//! What must leave the disk: purges of operators and changes by requests. Changes go ahead of other jobs, once for each
//! scope, however often it changed meanwhile.
//!
//! When a request that changes something is answered, no lookup finds what it changed, because lookups ask the log of
//! purges. This file keeps a restart from finding it, since a restart has no log. What is in the index is removed or
//! marked. What may be in a file that is not indexed yet is noted in [`Ended`](super::ended::Ended). All of that is
//! short. A disk that hangs has at most [`WAITING_MAX`] answers to give for each scope, and one sweep to do.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::volume::Volume;
use super::{DiskStore, Job};
use crate::store::StoreError;
use crate::store::job::{Answer, Reply, lock};
use crate::store::purge::{PurgeKind, PurgeScope, Sweep};

/// How many answers about one scope may be awaited.
pub(super) const WAITING_MAX: usize = 64;

/// What waits for a disk thread.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<HashMap<(PurgeScope, PurgeKind), Waiting>>);

#[derive(Debug)]
struct Waiting {
    /// The latest sweep of this scope: it also meets whatever earlier ones met.
    sweep: Sweep,
    replies: Vec<Reply<()>>,
}

impl DiskStore {
    /// Removes or marks what a purge covers. The purge must be in the log of purges. The answer is the number of
    /// objects, and comes once no lookup finds them and no restart brings them back. It is never refused because of a
    /// full queue. While the files of the last run are being indexed, the purge takes effect at once, and the answer
    /// comes at the end of that. `sweep` is dropped when it is done.
    pub fn sweep(
        &self,
        scope: PurgeScope,
        kind: PurgeKind,
        sweep: impl Send + 'static,
    ) -> Answer<u64> {
        let (reply, answer) = Answer::pair();
        let job: Job = Box::new(move |volume| {
            let swept = volume.sweep(&scope, kind);
            if swept.is_err() || volume.is_indexed.load(Ordering::Acquire) {
                drop(sweep);
                return reply.send(swept);
            }
            // The log covers what is indexed after the announcement; that is not counted.
            volume.when_indexed(Box::new(move |volume| {
                let _sweep = sweep;
                reply.send(
                    volume
                        .sweep(&scope, kind)
                        .and_then(|more| Ok(more + swept?)),
                );
            }));
        });
        // If it is refused, the reply in the job answers that the store is closed.
        _ = self.shared.jobs.push_always(job);
        answer
    }

    /// Lets a disk thread end what a request has changed, ahead of other jobs. The answer comes once no restart brings
    /// anything of `scope` back.
    pub(in crate::store) fn end(
        &self,
        scope: PurgeScope,
        kind: PurgeKind,
        sweep: Sweep,
    ) -> Answer<()> {
        let shared = &self.shared;
        let (reply, answer) = Answer::pair();
        let mut ending = lock(&shared.ending.0);
        if let Some(waiting) = ending.get_mut(&(scope.clone(), kind)) {
            // This sweep now stands for the earlier one, which ends only when the job is done.
            waiting.sweep = sweep;
            if waiting.replies.len() == WAITING_MAX {
                return Answer::ready(Err(StoreError::Busy));
            }
            waiting.replies.push(reply);
            return answer;
        }
        let replies = vec![reply];
        ending.insert((scope.clone(), kind), Waiting { sweep, replies });
        drop(ending);
        let job_shared = Arc::clone(shared);
        // This fails only when the store is closed.
        _ = shared.jobs.push_first(Box::new(move |volume| {
            let waiting = lock(&job_shared.ending.0).remove(&(scope.clone(), kind));
            if let Some(waiting) = waiting {
                waiting.finish(volume, &scope, kind);
            }
        }));
        answer
    }

    /// Whether a lookup may find something in `scope`, once everything has been indexed.
    pub(in crate::store) fn may_hold(&self, scope: &PurgeScope) -> bool {
        let volume = &self.shared.volume;
        !volume.is_indexed.load(Ordering::Acquire)
            || !lock(&volume.index).covered(scope, None, 1).0.is_empty()
    }
}

impl Waiting {
    fn finish(self, volume: &Volume, scope: &PurgeScope, kind: PurgeKind) {
        let Self { sweep, replies } = self;
        let mut done = volume
            .end_unindexed(scope)
            .and_then(|()| volume.sweep(scope, kind).map(|_| ()));
        for reply in replies {
            reply.send(std::mem::replace(&mut done, Ok(())));
        }
        // Until then it matters for the files that are still to be indexed.
        volume.when_indexed(Box::new(move |_| drop(sweep)));
    }
}
