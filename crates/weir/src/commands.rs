//! The commands of the binary, a file each.

mod admin;
pub(crate) mod app;
pub(crate) mod cache;
pub(crate) mod check;
mod client;
pub(crate) mod demo;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod reload;
pub(crate) mod serve;
mod signals;
