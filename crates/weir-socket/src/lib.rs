//! Connected sockets and deadlines, as the gateway and the load generator need them. This crate knows no HTTP.
//!
//! - [`Stream`]: a connection. It is read into the spare capacity of a buffer and written from pieces, each with one system
//!   call. It keeps track of readiness, so that it seldom makes a system call in vain.
//! - [`Socket`]: what is under a stream, TCP or a Unix socket; [`Socket::connect`] opens one to an [`Address`].
//! - `tls`: TLS between a stream and its socket. It takes the feature of this name.
//! - [`deadline`]: deadlines of many connections in one table. Nothing is allocated when one is set.
//!
//! No call has a deadline by itself: whoever polls a stream polls a [`deadline::Timer`] too when it is pending. Buffers that are
//! lent and connections that are kept are built on top of this crate.

mod address;
pub mod deadline;
mod socket;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;
mod traits;

pub use address::Address;
pub use socket::{Peek, Socket};
pub use stream::Stream;
