//! Limits: who is let in when there is more work than the service should take.
//!
//! - [`concurrency`]: how many requests are in flight at once, fixed or learned while serving
//! - [`queue`]: the short wait in front of a concurrency limit
//! - [`priority`]: who is refused last
//! - [`rate`]: how often one key may ask
//!
//! A concurrency limit protects the service: it only looks at how many requests the service holds. A rate limit
//! keeps one client from taking the share of the others. Neither replaces the other.

pub mod concurrency;
pub mod priority;
pub mod queue;
pub mod rate;
