//! The commands of the binary, a file each; those behind a feature may be missing from a build.

mod admin;
#[cfg(feature = "app")]
pub(crate) mod app;
pub(crate) mod cache;
pub(crate) mod check;
mod client;
mod config_file;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod import;
pub(crate) mod kv;
mod kv_admin;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(feature = "load")]
pub(crate) mod load;
pub(crate) mod queue;
pub(crate) mod reload;
pub(crate) mod serve;
mod signals;
pub(crate) mod upstream;
