//! What outlives a request.
//!
//! - [`snapshot`]: one configuration, and what goes on under the next ([`carried`]); [`view`]: the same with a worker's
//!   own state for it; [`worker`]: the rest of a worker's state; [`shared`]: what all workers see; [`clock`]
//! - of an upstream and its endpoints: [`gate`], [`breaker`], [`budget`], [`rate`], [`hedging`], [`watch`], [`endpoint`], [`health`], [`checked`],
//!   [`pool`]
//! - of routes to several upstreams: [`split`], [`sticky`], [`mirror`]
//! - of the cache: [`storage`], [`fill`], [`fills`], [`bound`], [`compressor`], [`encoder`]
//! - of clients: [`listening`], [`admission`], [`slow`]; [`log`]
//! - [`opened`]: services inside the process

pub(crate) mod admission;
pub(crate) mod bound;
pub(crate) mod breaker;
pub(crate) mod budget;
pub(crate) mod carried;
pub(crate) mod checked;
pub(crate) mod clock;
pub(crate) mod compressor;
pub(crate) mod encoder;
pub(crate) mod endpoint;
pub(crate) mod fill;
pub(crate) mod fills;
pub(crate) mod gate;
pub(crate) mod health;
pub(crate) mod hedging;
pub(crate) mod listening;
pub(crate) mod log;
pub(crate) mod mirror;
pub(crate) mod opened;
pub(crate) mod pool;
pub(crate) mod rate;
pub(crate) mod shared;
pub(crate) mod slow;
pub(crate) mod snapshot;
pub(crate) mod split;
pub(crate) mod sticky;
pub(crate) mod storage;
pub(crate) mod view;
pub(crate) mod watch;
pub(crate) mod worker;
