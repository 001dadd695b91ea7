//! What operators see of a queue, and what they ask of it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use weir_gateway::service::{ConsumerStatus, OrderError, QueueOrder, QueueStatus, SinkStatus};

use crate::clock;
use crate::consumer::Consumer;
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
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let delivering = self.delivering();
        let next = read(&counts.next);
        let consumers = shared.consumers();
        let sinks = consumers.iter().filter_map(|consumer| {
            Some(SinkStatus {
                name: consumer.sink.clone()?,
                consumer: consumer.status(next),
            })
        });
        let bytes = read(&counts.bytes) + shared.dead_bytes() + shared.bytes_beside();
        let failed = lock(&shared.failed).clone();
        let failed = failed.or_else(|| lock(&delivering.failed).clone());
        QueueStatus {
            name: settings.name.clone(),
            durability: settings.durability.name(),
            upstream: self.upstream().status(read(&delivering.counts.next)),
            bytes,
            bytes_max: settings.bytes_max,
            accepted: read(&counts.accepted),
            duplicates: read(&counts.duplicates),
            refused_full: read(&counts.refused_full),
            refused_age: read(&counts.refused_old),
            refused_disk: read(&counts.refused_disk),
            refused_busy: read(&counts.refused_busy),
            lost: read(&counts.lost),
            next_offset: next,
            durable_offset: read(&counts.durable),
            commits: read(&counts.commits),
            syncs: read(&counts.syncs),
            failed,
            sinks: sinks.collect(),
        }
    }

    /// Carries out what an operator asks of what delivers to upstreams, or of a sink, and answers in JSON. It waits for the thread that delivers.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub fn order(&self, sink: Option<&str>, order: QueueOrder) -> Result<Value, OrderError> {
        let refused = OrderError::Refused;
        let is_replay = matches!(
            order,
            QueueOrder::ReplayFrom(_) | QueueOrder::ReplaySince(_)
        );
        if let Some(topic) = &self.settings().topic
            && is_replay
            && sink.is_none()
        {
            return Err(refused(format!(
                "it lives in Kafka: stop weir and set the offsets of the group {:?} there",
                topic.group
            )));
        }
        if let QueueOrder::Dead { from, limit } = order {
            // One more says whether there are more.
            let letters = self.ask(sink, |reply| Command::Dead(from, limit + 1, reply));
            let letters = letters.map_err(refused)?.blocking_recv();
            let mut letters = letters.map_err(|_| ended())?.map_err(refused)?;
            let next = letters.get(limit).map(|letter| letter.id);
            letters.truncate(limit);
            return Ok(json!({ "letters": letters, "next": next }));
        }
        let done = self.ask(sink, |done| match order {
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

impl Consumer {
    /// How it is now, with a queue that ends at `next`.
    fn status(&self, next: u64) -> ConsumerStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let waiting = self.waiting(next);
        let time_ms = read(&self.oldest_ms);
        let is_late = time_ms > 0 && waiting > 0;
        let newest_dead = lock(&self.newest_dead);
        ConsumerStatus {
            waiting,
            under_way: read(&self.under_way),
            oldest_ms: is_late.then(|| clock::now_ms().saturating_sub(time_ms)),
            settled_offset: read(&self.consumed),
            delivered: read(&self.delivered),
            retried: read(&self.retried),
            died: read(&self.died),
            dead: read(&self.dead),
            is_paused: self.is_paused.load(Ordering::Relaxed),
            is_ill: self.is_ill.load(Ordering::Relaxed),
            last_error: lock(&self.last_error).clone(),
            stopped: lock(&self.stopped).clone(),
            dead_letters: newest_dead.iter().map(|letter| json!(letter)).collect(),
        }
    }
}

fn ended() -> OrderError {
    OrderError::Refused("the queue has ended".to_owned())
}
