//! A service that does not know how to refuse, under more load than it can take, in simulated time.
//!
//! `simulation` is the service and its clients, `gate` what stands in front of it, `other_limits` the adaptive limits
//! that were compared and not chosen, `table` the comparison of `docs/decisions/0008-evidence-of-a-queue.md`, and
//! `scenarios` what must hold for the chosen one.

pub(crate) mod gate;
pub(crate) mod other_limits;
mod scenarios;
pub(crate) mod simulation;
mod table;

pub(crate) use simulation::start;
