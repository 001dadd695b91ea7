//! The upstream's side: which endpoint, over which connection, and the bytes that go there and come back.

pub(crate) mod ahead;
pub(crate) mod bring;
pub(crate) mod check;
mod choose;
pub(crate) mod chosen;
pub(crate) mod connect;
pub(crate) mod hedge;
pub(crate) mod linger;
pub(crate) mod mirror;
mod part;
pub(crate) mod passing;
pub(crate) mod relay;
pub(crate) mod retry;
mod room;
pub(crate) mod split;
pub(crate) mod sticky;
