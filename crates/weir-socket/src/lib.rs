//! Connected sockets and deadlines, as the gateway and the load generator need them. This crate knows no HTTP.
//!
//! - [`Stream`]: a connection. It is read into the spare capacity of a buffer and written from pieces, each with one system
//!   call. It keeps track of readiness, so that it seldom makes a system call in vain.
//! - [`Socket`]: what is under a stream, TCP or a Unix socket; [`Socket::connect`] opens one to an [`Address`].
//! - [`deadline`]: deadlines of many connections in one table. Nothing is allocated when one is set.
//!
//! Nothing here waits by itself: who polls a stream polls a [`deadline::Timer`] when it is pending. Whoever needs more than a
//! pending read, such as buffers that are lent or connections that are kept, builds it on top.

mod address;
pub mod deadline;
mod socket;
mod stream;
mod traits;

pub use address::Address;
pub use socket::{Peek, Socket};
pub use stream::Stream;
