//! What needs the machine to itself: these run apart from the tests of the binary, which load it.

mod endless;
mod pause;
