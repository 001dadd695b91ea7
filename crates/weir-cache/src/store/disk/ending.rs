//! What is to leave the disk: what an operator purges, and what requests have changed. The latter goes ahead of other jobs,
//! and once for each scope however often it was changed meanwhile.
//!
//! When a request that changes something is answered, no lookup finds what it changed, because lookups ask the log of
//! purges. What is done here is to keep a restart from finding it, which knows no log: what is in the index is removed or
//! marked, and what may lie in a file that is not indexed yet is noted in [`Ended`](super::ended::Ended). All of that is
//! short; a disk that does not answer has at most [`WAITING_MAX`] answers to give for each scope, and one sweep to do.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::volume::Volume;
use super::{DiskStore, Job};
use crate::store::StoreError;
use crate::store::answer::{Answer, Reply, lock};
use crate::store::purge::{PurgeKind, PurgeScope, Sweep};

/// Answers about one scope that may be waited for.
pub(super) const WAITING_MAX: usize = 64;

/// What waits for a disk thread.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<HashMap<(PurgeScope, PurgeKind), Waiting>>);

#[derive(Debug)]
struct Waiting {
    /// The latest of this scope: it meets whatever the ones before it met.
    sweep: Sweep,
    replies: Vec<Reply<()>>,
}

impl DiskStore {
    /// Removes or marks what a purge covers, which has been announced in the log of purges; answers how many objects that
    /// were once no lookup finds them and no restart brings them back. Never refused for a full queue. While the
    /// files of the last run are being indexed, it takes effect at once and is answered at the end of that. `sweep` is
    /// dropped when it is done.
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
            // What is indexed after the announcement is met by the log; it is not counted.
            volume.when_indexed(Box::new(move |volume| {
                let _sweep = sweep;
                reply.send(
                    volume
                        .sweep(&scope, kind)
                        .and_then(|more| Ok(more + swept?)),
                );
            }));
        });
        // Refused, the reply in the job answers that the store is closed.
        _ = self.shared.jobs.push_always(job);
        answer
    }

    /// Has a disk thread end what a scope covers, which a request has changed: ahead of other jobs, and answered once no
    /// restart brings anything of it back.
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
            // The sweep before it is over only when the job is done, which is what this one stands for now.
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
        // Refused only when the store is closed.
        _ = shared.jobs.push_first(Box::new(move |volume| {
            let waiting = lock(&job_shared.ending.0).remove(&(scope.clone(), kind));
            if let Some(waiting) = waiting {
                waiting.finish(volume, &scope, kind);
            }
        }));
        answer
    }

    /// Whether a lookup may find something that `scope` covers, once everything that is there has been indexed.
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
        // Until then it matters to the files that are still to be indexed.
        volume.when_indexed(Box::new(move |_| drop(sweep)));
    }
}
