//! The decisions of the gateway, and nothing else.
//!
//! This crate knows no sockets, no clock and no threads. Time and randomness are arguments, so a test can play any
//! history. `clippy.toml` beside the manifest bans the functions that would break this.
//!
//! In the order in which a request meets them:
//!
//! 1. [`limit::rate`]: how often one key may ask. → allowed, or refused, with the figures for the client
//! 2. [`breaker`]: whether to ask at all. → a permit, or refused
//! 3. [`limit::concurrency`]: how many may be in flight, and who waits for a place ([`limit::queue`]) in which order
//!    ([`limit::priority`]). → a permit, a place in the queue, or refused
//! 4. [`balance`]: which endpoint of the upstream gets it, of those that
//!    - [`health`] does not avoid because they refused a connection or failed their checks ([`health::check`]), and
//!    - [`ejection`] does not leave out because they are worse than their siblings. → an endpoint and a token
//! 5. [`connects`]: which connection to the endpoint it gets, and when another one is opened. → a seat in the queue
//! 6. [`hedge`]: when to ask a second endpoint as well, and [`retry`]: whether it may be sent again.
//!
//! When a request has ended, its one [`Outcome`] goes back to each that gave a permit or a token, whatever has
//! happened: a permit that does not come back looks like a request that hangs.
//!
//! All of these share some properties. No call allocates ([`connects`] does when more wait than ever). Each call costs
//! the same at any load (some spread the work of a hundred calls over them). Each states how much memory it takes. If
//! the clock runs backwards, time stands still. So one short lock can hold any of them for all workers.

pub mod balance;
pub mod breaker;
pub mod connects;
pub mod ejection;
pub mod health;
pub mod hedge;
mod histogram;
pub mod limit;
mod outcome;
pub mod retry;
mod window;

pub use outcome::Outcome;
