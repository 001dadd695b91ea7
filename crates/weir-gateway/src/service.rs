//! Services inside the process: they answer requests in the place of an upstream, and have requests delivered later.
//!
//! This is the seam to the crates that have them. The gateway knows nothing of what a service does: it hands over a request
//! whose body is here ([`Ask`]), waits for a [`Reply`] that any thread may complete, and sends its [`Answer`]. What a service
//! wants delivered goes through a [`Courier`].

mod ask;
mod courier;
mod databases;
mod later;
mod queues;
mod reply;
mod stores;

use std::fmt::Debug;
use std::sync::Arc;

pub use crate::service::ask::Ask;
pub use crate::service::courier::{
    Answered, Courier, Delivery, Errand, Outcome, Refused, Unanswered,
};
pub use crate::service::databases::DatabaseStatus;
pub use crate::service::queues::{ConsumerStatus, OrderError, QueueOrder, QueueStatus, SinkStatus};
pub use crate::service::reply::{Answer, Content, Feeder, HasLeft, Pieces, Replier, Reply};
pub use crate::service::stores::{
    HintStatus, RepairStatus, SLOT_PARTS, StoreChange, StoreNode, StoreOperations, StoreOrder,
    StoreOutcomes, StoreStanding, StoreStatus,
};

pub(crate) use crate::service::courier::{Parcel, Parcels, parcels};
pub(crate) use crate::service::databases::Inside;
pub(crate) use crate::service::reply::Piece;

/// What answers the requests of a route inside the process.
pub trait Service: Debug + Send + Sync {
    /// Bytes of a request's body that it takes. The limit of the route holds too; more is 413.
    fn body_bytes_max(&self) -> u64;

    /// Begins to answer. It is called on a worker, so it returns at once; the reply is completed by whatever thread has the
    /// answer.
    fn call(&self, ask: Ask) -> Reply;

    /// Takes lines of the access log, each with a line feed at its end, unless it cannot; whether it does. It is called on the thread
    /// of the log, also after [`Service::drain`], and does not wait.
    fn log(&self, lines: &[u8]) -> bool {
        let _ = lines;
        false
    }

    /// The gateway ends, or its configuration has the service no longer: it begins nothing more of its own accord. Requests may
    /// still come, from before.
    fn drain(&self);

    /// Whether nothing is under way any more that the process has to wait for. Asked after [`Service::drain`].
    fn is_drained(&self) -> bool;
}

/// Where services come from: the seam to the crate that knows what a configuration says of them.
pub trait Services: Debug + Send + Sync {
    /// The service of this name, as the configuration that was read last describes it. `open` is the one that the
    /// configuration before has under this name: it is given back where it stays. It must not wait for an errand: workers may
    /// not have begun.
    ///
    /// # Errors
    /// What keeps it from being opened, for the operator. The configuration is not put to work then, and other services that were
    /// opened for it are told to end. A gateway that does not start drops them.
    fn open(
        &self,
        name: &str,
        open: Option<&Arc<dyn Service>>,
        courier: &Courier,
    ) -> Result<Arc<dyn Service>, String>;

    /// Whether the configuration that services were opened for is put to work. If it is not, the one before holds still.
    fn decided(&self, is_put_to_work: bool) {
        let _ = is_put_to_work;
    }

    /// The queues that are open, for the operator.
    fn queues(&self) -> Vec<QueueStatus> {
        Vec::new()
    }

    /// Carries out what an operator asks of a queue, or of a sink of it, which is named `QUEUE/SINK`, and answers in JSON. It may
    /// have to wait.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn order(&self, queue: &str, order: QueueOrder) -> Result<serde_json::Value, OrderError> {
        let _ = (queue, order);
        Err(OrderError::NoQueue(Vec::new()))
    }

    /// The store that is open, for the operator.
    fn store(&self) -> Option<StoreStatus> {
        None
    }

    /// The databases that services have their data in, for the operator.
    fn databases(&self) -> Vec<DatabaseStatus> {
        Vec::new()
    }

    /// Carries out what an operator asks of the store. It does not wait for the end of it.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn store_order(&self, order: StoreOrder) -> Result<(), String> {
        let _ = order;
        Err("there is no store".to_owned())
    }
}

/// No services at all.
impl Services for () {
    fn open(
        &self,
        name: &str,
        _: Option<&Arc<dyn Service>>,
        _: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        Err(format!("there is no service {name}"))
    }
}

#[cfg(test)]
mod tests;
