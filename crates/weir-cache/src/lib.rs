//! The rules of an HTTP cache, and its stores.
//!
//! - [`store`]: where responses are kept: RAM and disk

pub mod store;
