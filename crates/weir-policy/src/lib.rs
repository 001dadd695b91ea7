//! Decisions of the gateway, and nothing else.
//!
//! This crate knows no sockets, no clock and no threads: time and randomness come in as arguments, so a test can play
//! any history. `clippy.toml` beside the manifest bans the functions that would break this.
//!
//! - [`balance`]: which endpoint of an upstream gets a request
//! - [`breaker`]: whether to ask at all
//! - [`ejection`]: which endpoints are left out because they stand out
//! - [`health`]: for how long an endpoint that refused is passed over
//! - [`hedge`]: when to ask a second endpoint
//! - [`limit`]: who is let in
//! - [`retry`]: how often requests may be sent again

pub mod balance;
pub mod breaker;
pub mod ejection;
pub mod health;
pub mod hedge;
mod histogram;
pub mod limit;
mod outcome;
pub mod retry;
mod window;

pub use outcome::Outcome;
