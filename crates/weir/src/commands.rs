//! The commands of the binary, a file each.

pub(crate) mod app;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod serve;
mod signals;
