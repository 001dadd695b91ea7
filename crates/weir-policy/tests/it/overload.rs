//! A service that does not know how to refuse, under more load than it can take, in simulated time.
//!
//! `simulation` is the service and its clients, `gate` what stands in front of it, `other_limits` the adaptive limits
//! that were compared and not chosen, `table` the comparison of `docs/decisions/0005-adaptive-concurrency.md`, and
//! `scenarios` what must hold for the chosen one.

mod gate;
mod other_limits;
mod scenarios;
mod simulation;
mod table;

pub(crate) use simulation::start;
