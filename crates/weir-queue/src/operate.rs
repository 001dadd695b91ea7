//! What operators see of a queue, and what they ask of it.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use weir_gateway::service::{OrderError, QueueOrder, QueueStatus};

use crate::clock;
use crate::group::Command;
use crate::queue::Queue;
use crate::settings::Durability;
use crate::shared::lock;

impl Durability {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Os => "os",
            Self::Group => "group",
            Self::Each => "each",
        }
    }
}

impl Queue {
    /// How it is now.
    pub fn status(&self) -> QueueStatus {
        let shared = self.shared();
        let settings = shared.settings();
        let counts = &shared.counts;
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let oldest_ms = Some(read(&counts.oldest_ms)).filter(|&time_ms| time_ms > 0);
        let waiting = counts.waiting();
        QueueStatus {
            name: settings.name.clone(),
            durability: settings.durability.name(),
            waiting,
            under_way: read(&counts.under_way),
            oldest_ms: oldest_ms
                .filter(|_| waiting > 0)
                .map(|time_ms| clock::now_ms().saturating_sub(time_ms)),
            bytes: read(&counts.bytes) + read(&counts.dead_bytes),
            bytes_max: settings.bytes_max,
            accepted: read(&counts.accepted),
            duplicates: read(&counts.duplicates),
            refused_full: read(&counts.refused_full),
            refused_age: read(&counts.refused_old),
            refused_disk: read(&counts.refused_disk),
            refused_busy: read(&counts.refused_busy),
            lost: read(&counts.lost),
            next_offset: read(&counts.next),
            durable_offset: read(&counts.durable),
            settled_offset: read(&counts.consumed),
            commits: read(&counts.commits),
            syncs: read(&counts.syncs),
            delivered: read(&counts.delivered),
            retried: read(&counts.retried),
            died: read(&counts.died),
            dead: read(&counts.dead),
            is_paused: counts.is_paused.load(Ordering::Relaxed),
            is_ill: counts.is_ill.load(Ordering::Relaxed),
            last_error: lock(&shared.last_error).clone(),
            failed: lock(&shared.failed).clone(),
            stopped: lock(&shared.stopped).clone(),
            dead_letters: lock(&shared.newest_dead)
                .iter()
                .map(|letter| json!(letter))
                .collect(),
        }
    }

    /// Carries out what an operator asks, and answers in JSON. It waits for the thread that delivers.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub fn order(&self, order: QueueOrder) -> Result<Value, OrderError> {
        let refused = OrderError::Refused;
        if let QueueOrder::Dead { from, limit } = order {
            // One more says whether there are more.
            let letters = self.ask(|reply| Command::Dead(from, limit + 1, reply));
            let letters = letters.map_err(refused)?.blocking_recv();
            let mut letters = letters.map_err(|_| ended())?.map_err(refused)?;
            let next = letters.get(limit).map(|letter| letter.id);
            letters.truncate(limit);
            return Ok(json!({ "letters": letters, "next": next }));
        }
        let done = self.ask(|done| match order {
            QueueOrder::Pause => Command::Pause(done),
            QueueOrder::Resume | QueueOrder::Dead { .. } => Command::Resume(false, done),
            QueueOrder::SkipDamaged => Command::Resume(true, done),
            QueueOrder::ReplayFrom(offset) => Command::ReplayFrom(offset, done),
            QueueOrder::ReplaySince(time_ms) => Command::ReplaySince(time_ms, done),
            QueueOrder::Redrive(ids) => Command::Redrive(ids, done),
            QueueOrder::Drop(ids) => Command::Drop(ids, done),
        });
        let done = done.map_err(refused)?.blocking_recv();
        let messages = done.map_err(|_| ended())?.map_err(refused)?;
        Ok(json!({ "messages": messages }))
    }
}

fn ended() -> OrderError {
    OrderError::Refused("the queue has ended".to_owned())
}
