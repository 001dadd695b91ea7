//! The rules of an HTTP cache, RFC 9111 and its neighbours, as decisions; and its stores.
//!
//! The rules know no sockets, no clock and no threads; moments and boundaries are arguments. [`store`] keeps the
//! responses, and reads no HTTP. The code for a hit allocates nothing: it reads a [`Meta`], which is copied, and
//! appends to buffers that the caller reuses.
//!
//! # The way of a request through it
//!
//! ```text
//!                     policy::CachePolicy of the route, time::Timestamp now
//! request head ─┬─ key::class ──── Pass(why) ──────────────────────────────────────────► forward, then [U]
//!               ├─ key::write ───── the primary key, looked up in the stores
//!               ├─ control::RequestControl::of
//!               └─ vary::choose ─── one of the variants stored under it, or none
//!                      │
//!          none ───────┤ look::at_nothing ── OnlyIfCached ──► 504
//!                      │        └ Miss ──► validate::write_conditional over the other variants; fill
//!          one ── look::at_stored, by reuse::decide
//!                      ├ Fresh, StaleWhileRevalidate, StaleForClient ──► [A] answer
//!                      ├ GatewayTimeout ──► 504
//!                      └ Revalidate(why) ── validate::write_conditional ──► origin ── fate::of
//!                                              ├ 304 ── validate::select, StoredHead::freshened,
//!                                              │        store_rule::may_stay ──► store, [A]
//!                                              ├ fails ── reuse::may_serve_on_failure ──► [A], or the failure
//!                                              └ else ──► [S]
//! [S] store?   store_rule::decide ── Store(Meta) ── StoredHead::new ──► store; negotiate, tags
//!                                  └ Not(why) ──► pass on; waiting requests go on their own
//! [A] answer   validate::evaluate ── NotModified ──► StoredHead::write_not_modified
//!              range::resolve ────── One, Many ────► range::write_single, range::Multipart
//!                                  └ Whole ────────► StoredHead::write; range::along while it arrives
//!              cache_status::CacheStatus::write into each head
//! [U] unsafe   invalidate::targets of a request that is not safe and did not fail ──► remove from the stores
//! ```
//!
//! - [`policy`]: what a route may configure
//! - [`control`]: what messages say: `Cache-Control`, `Pragma`, `CDN-Cache-Control`
//! - [`key`], [`vary`]: which requests share a response
//! - [`store_rule`]: may a response be stored; [`stored_head`]: what is kept of its head
//! - [`freshness`], [`meta`]: how long it is fresh and how old it is
//! - [`look`]: what a look into the store says of a request; [`fate`]: what becomes of an answer
//! - [`collapse`]: who waits for the answer to another one's question, and for how long
//! - [`reuse`]: may it answer; [`validate`]: is it still right; [`range`]: a part of it
//! - [`invalidate`], [`tags`]: what ends it before its time
//! - [`negotiate`]: in which coding it is sent
//! - [`cache_status`]: what the response tells about all this
//! - the moments of [`mod@time`]

pub mod cache_status;
pub mod collapse;
pub mod control;
pub mod fate;
pub mod freshness;
pub mod invalidate;
pub mod key;
pub mod look;
pub mod meta;
pub mod negotiate;
pub mod policy;
pub mod range;
pub mod reuse;
pub mod store;
pub mod store_rule;
pub mod stored_head;
pub mod tags;
#[cfg(test)]
mod test_heads;
pub mod time;
pub mod validate;
pub mod vary;

pub use control::{RequestControl, ResponseControl};
pub use meta::Meta;
pub use policy::CachePolicy;
pub use reuse::Reuse;
pub use stored_head::StoredHead;
pub use time::Timestamp;
