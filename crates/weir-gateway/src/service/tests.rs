//! Services and errands in a gateway of this process, over real sockets: a service that answers later from another thread, one
//! that streams, one that refuses, and errands while the upstream fails or the configuration changes.

mod answers;
mod errands;
mod house;
