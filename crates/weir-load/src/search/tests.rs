//! Written with the behaviour they hold.
