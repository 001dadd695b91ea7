//! The gateway inside the test process, where its allocations can be counted. Everything else about it is tested with
//! the real binary, by the crate `weir`.

mod allocations;
mod floors;
mod origin;
